# SPDX-License-Identifier: Apache-2.0
"""Where the allocations of a reshape go, case by case."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Sequence
from typing import Any, get_args

import pytest

from osc_placement.model import inventory
from osc_placement.search import placing
from osc_placement.workflows.reshape.assignment import (
    Answer,
    Assigned,
    Demand,
    GaveUp,
    Impossible,
    Strategy,
    TargetProvider,
    Undecided,
    assign,
)
from tests.support.reshape import brute_force

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


def gpu(name: str, total: int, **fields: int) -> TargetProvider:
    offered = inventory.Inventory(total, **fields)
    return TargetProvider(name, {"VGPU": offered})


def instances(amounts: Sequence[int], *targets: str) -> list[Demand]:
    """c00, c01 … with these numbers of VGPU, for all targets unless some are named."""
    return [
        Demand(f"c{number:02}", "cn1", {"VGPU": amount}, targets)
        for number, amount in enumerate(amounts)
    ]


def place(
    demands: Sequence[Demand],
    targets: Sequence[TargetProvider],
    strategy: Strategy | None = None,
    **more: Any,
) -> Answer:
    names = tuple(target.name for target in targets)
    needed = [dataclasses.replace(item, targets=item.targets or names) for item in demands]
    return assign(needed, targets, strategy, **more)


def homes(answer: Answer, demands: Sequence[Demand] = ()) -> dict[str, list[str]]:
    """The consumers on each target: those of the demands, or c00, c01 …"""
    assert isinstance(answer, Assigned)
    consumers = [item.consumer for item in demands] or [
        f"c{number:02}" for number in range(len(answer.targets))
    ]
    by_target: dict[str, list[str]] = {}
    for name, consumer in zip(answer.targets, consumers, strict=True):
        by_target.setdefault(name, []).append(consumer)
    return by_target


def test_nothing_to_place_is_found_with_every_strategy() -> None:
    for strategy in (None, *STRATEGIES):
        assert place([], [gpu("a", 1)], strategy) == Assigned(())


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
    answer = place(instances([2]), [gpu("a", **fields)])
    assert isinstance(answer, Impossible)
    assert answer.consumers == ("c00",)
    assert why in answer.reasons[0]


def test_an_excess_of_a_class_is_reported_with_amounts() -> None:
    answer = place(instances([1] * 9), [gpu("a", 4), gpu("b", 4)])
    assert answer == Impossible(("c08",), ("9 VGPU are to be placed, and there is room for 8",))


def test_free_capacity_in_sum_alone_is_not_enough() -> None:
    answer = place(instances([3, 3, 2]), [gpu("a", 4), gpu("b", 4)])
    assert answer == Impossible(("c01",), ("no distribution among the targets fits",))


def test_pack_fills_targets_in_the_order_given() -> None:
    targets = [gpu("b", 4), gpu("a", 4), gpu("c", 4)]
    answer = place(instances([1] * 6), targets, "pack")
    assert homes(answer) == {"b": ["c00", "c01", "c02", "c03"], "a": ["c04", "c05"]}


def test_spread_counts_usage_by_others() -> None:
    busy = TargetProvider("a", {"VGPU": inventory.Inventory(4)}, used={"VGPU": 2})
    answer = place(instances([1, 1]), [busy, gpu("b", 4)], "spread")
    assert homes(answer) == {"b": ["c00", "c01"]}


def test_in_order_gives_consecutive_consumers_the_same_target() -> None:
    targets = [gpu("a", 4), gpu("b", 4)]
    answer = place(instances([2, 1, 3, 1]), targets, "in-order")
    assert homes(answer) == {"a": ["c00", "c01"], "b": ["c02", "c03"]}


def test_the_plain_cases_need_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the exhaustive search was used")

    monkeypatch.setattr(placing, "_Search", refuse)
    targets = [gpu("a", 4), gpu("b", 4)]
    for strategy in STRATEGIES:
        assert len(homes(place(instances([1] * 8), targets, strategy))) == 2
    assert isinstance(place(instances([1] * 8), targets), Undecided)


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
    answer = place(instances(amounts), targets, seconds=90)
    expected = knapsacks(amounts, [room + number % 2 for number in range(4)])
    assert isinstance(answer, Assigned | Undecided if expected else Impossible)


def test_a_hard_problem_ends_at_the_time_limit() -> None:
    mixed = random.Random(1)
    amounts = [mixed.randint(500, 999) for _ in range(90)]
    targets = [gpu(f"t{number}", sum(amounts) // 30 + 1) for number in range(30)]
    assert place(instances(amounts), targets, seconds=1) == GaveUp(1)


def test_the_time_limit_uses_the_given_clock() -> None:
    ticking = itertools.count(step=100)
    answer = place(
        instances([3, 3, 2]), [gpu("a", 4), gpu("b", 4)], seconds=60, clock=lambda: next(ticking)
    )
    assert answer == GaveUp(60)


@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_five_hundred_consumers_on_sixty_four_targets_get_an_answer(
    strategy: Strategy | None,
) -> None:
    mixed = random.Random(3)
    needed = instances([mixed.choice([1, 1, 2, 4]) for _ in range(500)])
    targets = [gpu(f"t{number:02}", 24) for number in range(64)]
    answer = place(needed, targets, strategy)
    if strategy is None:
        assert answer == Undecided(tuple(sorted(item.consumer for item in needed)))
    else:
        assert isinstance(answer, Assigned)
        names = tuple(target.name for target in targets)
        open_to_all = [dataclasses.replace(item, targets=names) for item in needed]
        by_name = dict(zip(names, targets, strict=True))
        assert brute_force.fits(answer.targets, open_to_all, by_name)
