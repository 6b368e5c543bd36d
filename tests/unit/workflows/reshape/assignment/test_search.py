"""Where the allocations of a reshape go, case by case."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import typing
from collections.abc import Sequence

import pytest

from osc_placement.model import inventory
from osc_placement.workflows.reshape.assignment import demand, exhaustive, search
from tests.support.reshape import brute_force

GPU = frozenset({"VGPU"})
STRATEGIES: tuple[demand.Strategy, ...] = typing.get_args(demand.Strategy)


def gpu(name: str, total: int, **fields: int) -> demand.Target:
    offered = inventory.Inventory(total, **fields)  # type: ignore[arg-type]
    return demand.Target(name, {"VGPU": offered}, {"cn1": GPU})


def instances(amounts: Sequence[int]) -> list[demand.Demand]:
    """c00, c01 … with these numbers of VGPU."""
    return [
        demand.Demand(f"c{number:02}", "cn1", {"VGPU": amount})
        for number, amount in enumerate(amounts)
    ]


def homes(answer: demand.Answer) -> dict[str, list[str]]:
    """The consumers on each target."""
    assert isinstance(answer, demand.Found)
    found: dict[str, list[str]] = {}
    for key, amounts in answer.placed.items():
        for name in amounts:
            found.setdefault(name, []).append(key.consumer)
    return found


def open_to(target: demand.Target, source: str = "evident") -> demand.Target:
    """The one target of what evidence has decided."""
    return dataclasses.replace(target, accepts={**target.accepts, source: GPU})


def of_strategy(strategy: demand.Strategy) -> demand.Rules:
    return demand.Rules(strategy=strategy)


def test_nothing_to_place_is_found_with_every_strategy() -> None:
    for strategy in (None, *STRATEGIES):
        rules = demand.Rules(strategy=strategy)
        assert search.assign([], [gpu("a", 1)], rules) == demand.Found({})


def test_one_target_leaves_nothing_to_guess() -> None:
    answer = search.assign(instances([1, 2]), [gpu("a", 4)])
    assert answer == demand.Found(
        {
            demand.Key("c00", "cn1", "VGPU"): {"a": 1},
            demand.Key("c01", "cn1", "VGPU"): {"a": 2},
        }
    )


def test_without_evidence_or_strategy_all_consumers_with_a_choice_are_listed() -> None:
    answer = search.assign(instances([1, 1, 1]), [gpu("a", 4), gpu("b", 4)])
    assert answer == demand.Undecided(("c00", "c01", "c02"))


def test_interchangeable_consumers_are_undecided_even_if_all_targets_are_full() -> None:
    answer = search.assign(instances([1, 1]), [gpu("a", 1), gpu("b", 1)])
    assert answer == demand.Undecided(("c00", "c01"))


def test_the_only_solution_is_not_a_guess() -> None:
    answer = search.assign(instances([3, 2]), [gpu("a", 3), gpu("b", 2)], of_strategy("pack"))
    assert homes(answer) == {"a": ["c00"], "b": ["c01"]}
    assert answer == search.assign(instances([3, 2]), [gpu("a", 3), gpu("b", 2)])


def test_evidence_for_one_can_decide_for_others() -> None:
    evident = demand.Demand("c00", "evident", {"VGPU": 1})
    answer = search.assign([evident, *instances([1, 1])[1:]], [gpu("a", 1), open_to(gpu("b", 1))])
    assert homes(answer) == {"b": ["c00"], "a": ["c01"]}


def test_evidence_is_not_a_guess_with_a_strategy() -> None:
    evident = demand.Demand("c02", "evident", {"VGPU": 1})
    targets = [gpu("a", 4), open_to(gpu("b", 4))]
    answer = search.assign([*instances([1, 1]), evident], targets, of_strategy("pack"))
    assert isinstance(answer, demand.Found)
    assert answer.guessed == {"c00", "c01"}
    assert homes(answer) == {"b": ["c00", "c01", "c02"]}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"total": 1}, "a has room for 1 VGPU"),
        ({"total": 8, "max_unit": 1}, "a takes VGPU with min_unit 1, max_unit 1, step_size 1"),
        ({"total": 8, "min_unit": 3}, "a takes VGPU with min_unit 3, max_unit 2147483647"),
        ({"total": 9, "step_size": 3}, "step_size 3"),
    ],
)
def test_a_consumer_that_fits_nowhere_is_reported_with_the_reason(
    fields: dict[str, int], why: str
) -> None:
    answer = search.assign(instances([2]), [gpu("a", **fields)])
    assert isinstance(answer, demand.Impossible)
    assert answer.consumers == ("c00",)
    assert why in answer.reasons[0]


def test_usage_by_others_is_not_free() -> None:
    full = demand.Target("a", {"VGPU": inventory.Inventory(4)}, {"cn1": GPU}, used={"VGPU": 4})
    assert homes(search.assign(instances([1]), [full, gpu("b", 1)])) == {"b": ["c00"]}


def test_an_excess_of_a_class_is_reported_with_amounts() -> None:
    answer = search.assign(instances([1] * 9), [gpu("a", 4), gpu("b", 4)])
    assert answer == demand.Impossible(
        ("c08",), ("9 VGPU are to be placed, and there is room for 8",)
    )


def test_free_capacity_in_sum_alone_is_not_enough() -> None:
    answer = search.assign(instances([3, 3, 2]), [gpu("a", 4), gpu("b", 4)])
    assert answer == demand.Impossible(("c01",), ("no distribution among the targets fits",))


def test_classes_that_stay_together_move_to_one_target() -> None:
    both = frozenset({"VGPU", "VF"})
    targets = [
        demand.Target(
            "a", {"VGPU": inventory.Inventory(1), "VF": inventory.Inventory(8)}, {"n": both}
        ),
        demand.Target(
            "b", {"VGPU": inventory.Inventory(8), "VF": inventory.Inventory(1)}, {"n": both}
        ),
    ]
    needed = [demand.Demand("c", "n", {"VGPU": 2, "VF": 2})]
    apart = search.assign(needed, targets)
    assert isinstance(apart, demand.Found)
    assert list(apart.placed.values()) == [{"a": 2}, {"b": 2}]
    assert isinstance(
        search.assign(needed, targets, demand.Rules(together=both)), demand.Impossible
    )


def test_an_existing_allocation_counts_for_the_units() -> None:
    held = demand.Target(
        "a",
        {"VGPU": inventory.Inventory(8, max_unit=2)},
        {"cn1": GPU},
        used={"VGPU": 1},
        held={"c00": {"VGPU": 1}},
    )
    assert isinstance(search.assign(instances([2]), [held]), demand.Impossible)
    assert homes(search.assign(instances([1]), [held])) == {"a": ["c00"]}


def test_the_same_class_from_two_sources_counts_in_sum_on_one_target() -> None:
    both = {"cn1": GPU, "cn2": GPU}
    narrow = demand.Target("a", {"VGPU": inventory.Inventory(8, max_unit=3)}, both)
    needed = [demand.Demand("c", "cn1", {"VGPU": 2}), demand.Demand("c", "cn2", {"VGPU": 2})]
    assert isinstance(search.assign(needed, [narrow]), demand.Impossible)


def test_pack_fills_targets_in_the_order_given() -> None:
    targets = [gpu("b", 4), gpu("a", 4), gpu("c", 4)]
    answer = search.assign(instances([1] * 6), targets, of_strategy("pack"))
    assert homes(answer) == {"b": ["c00", "c01", "c02", "c03"], "a": ["c04", "c05"]}


def test_pack_prefers_one_large_target_to_several_small_ones() -> None:
    targets = [gpu("small", 2), gpu("middle", 3), gpu("large", 9)]
    answer = search.assign(instances([2, 3, 2]), targets, of_strategy("pack"))
    assert homes(answer) == {"large": ["c00", "c01", "c02"]}


def test_spread_loads_targets_evenly_by_their_size() -> None:
    targets = [gpu("a", 8), gpu("b", 4)]
    answer = search.assign(instances([1] * 6), targets, of_strategy("spread"))
    assert {name: len(there) for name, there in homes(answer).items()} == {"a": 4, "b": 2}


def test_spread_counts_usage_by_others() -> None:
    busy = demand.Target("a", {"VGPU": inventory.Inventory(4)}, {"cn1": GPU}, used={"VGPU": 2})
    answer = search.assign(instances([1, 1]), [busy, gpu("b", 4)], of_strategy("spread"))
    assert homes(answer) == {"b": ["c00", "c01"]}


def test_in_order_gives_consecutive_consumers_the_same_target() -> None:
    targets = [gpu("a", 4), gpu("b", 4)]
    answer = search.assign(instances([2, 1, 3, 1]), targets, of_strategy("in-order"))
    assert homes(answer) == {"a": ["c00", "c01"], "b": ["c02", "c03"]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_yields_where_nothing_else_fits(strategy: demand.Strategy) -> None:
    # 5+3 and 4+2+2: large ones first, or the next one on, put 4 or 3 where it is in the way.
    targets = [gpu("a", 8), gpu("b", 8)]
    answer = search.assign(instances([2, 3, 4, 2, 5]), targets, of_strategy(strategy))
    assert {frozenset(there) for there in homes(answer).values()} == {
        frozenset({"c01", "c04"}),
        frozenset({"c00", "c02", "c03"}),
    }


def test_the_plain_cases_need_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the exhaustive search was used")

    monkeypatch.setattr(exhaustive, "complete", refuse)
    targets = [gpu("a", 4), gpu("b", 4)]
    for strategy in STRATEGIES:
        assert len(homes(search.assign(instances([1] * 8), targets, of_strategy(strategy)))) == 2
    assert isinstance(search.assign(instances([1] * 8), targets), demand.Undecided)


def knapsacks(amounts: Sequence[int], capacities: Sequence[int]) -> bool:
    """Whether it fits, by another way than trying one after the other: set by set."""

    @functools.cache
    def filled(target: int, open_items: frozenset[int]) -> bool:
        if target == len(capacities):
            return not open_items
        return any(
            filled(target + 1, open_items - set(chosen))
            for size in range(len(open_items) + 1)
            for chosen in itertools.combinations(sorted(open_items), size)
            if sum(amounts[item] for item in chosen) <= capacities[target]
        )

    total = sum(amounts)
    return total <= sum(capacities) and filled(0, frozenset(range(len(amounts))))


@pytest.mark.seeds(1, long=6)
def test_twelve_consumers_on_four_targets_are_decided_exactly(seed: int) -> None:
    mixed = random.Random(seed)
    amounts = [mixed.randint(5, 60) for _ in range(12)]
    room = sum(amounts) * (101 + seed) // 400
    targets = [gpu(name, room + number % 2) for number, name in enumerate("abcd")]
    answer = search.assign(instances(amounts), targets, seconds=90)
    expected = knapsacks(amounts, [room + number % 2 for number in range(4)])
    assert isinstance(answer, demand.Found | demand.Undecided if expected else demand.Impossible)


def test_a_hard_problem_ends_at_the_time_limit() -> None:
    mixed = random.Random(1)
    amounts = [mixed.randint(500, 999) for _ in range(90)]
    targets = [gpu(f"t{number}", sum(amounts) // 30 + 1) for number in range(30)]
    assert search.assign(instances(amounts), targets, seconds=1) == demand.GaveUp(1)


def test_the_time_limit_uses_the_given_clock() -> None:
    ticking = itertools.count(step=100)
    answer = search.assign(
        instances([3, 3, 2]), [gpu("a", 4), gpu("b", 4)], seconds=60, clock=lambda: next(ticking)
    )
    assert answer == demand.GaveUp(60)


@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_five_hundred_consumers_on_sixty_four_targets_get_an_answer(
    strategy: demand.Strategy | None,
) -> None:
    mixed = random.Random(3)
    needed = instances([mixed.choice([1, 1, 2, 4]) for _ in range(500)])
    targets = [gpu(f"t{number:02}", 24) for number in range(64)]
    rules = demand.Rules(strategy=strategy)
    answer = search.assign(needed, targets, rules)
    if strategy is None:
        assert answer == demand.Undecided(tuple(sorted(item.consumer for item in needed)))
    else:
        assert isinstance(answer, demand.Found)
        assert set(answer.placed) == set(brute_force.keys(needed))
        by_name = {target.name: target for target in targets}
        assert brute_force.keeps_to_rules(answer.placed, by_name, rules)
