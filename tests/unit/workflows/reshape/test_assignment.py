# SPDX-License-Identifier: Apache-2.0
"""Where the allocations of a reshape go, case by case."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import hypothesis
import pytest
from hypothesis import strategies as st

from osc_placement.model import inventory
from osc_placement.search import placing
from osc_placement.search.placing import Option, Slot
from osc_placement.workflows.reshape.assignment import (
    Answer,
    Assigned,
    GaveUp,
    Impossible,
    Strategy,
    Undecided,
    assign,
)
from osc_placement.workflows.reshape.requests import ConsumerRequest, OfferedSlot
from tests.support.reshape import brute_force

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


Offered = dict[Slot, OfferedSlot]


def gpu(name: str, total: int, *, used: int = 0, **fields: int) -> Offered:
    return {(name, "VGPU"): OfferedSlot(inventory.Inventory(total, **fields), used)}


def instances(amounts: Sequence[int]) -> list[ConsumerRequest]:
    """c00, c01 … with these numbers of VGPU."""
    return [
        ConsumerRequest(f"c{number:02}", "cn1", {"VGPU": amount}, ())
        for number, amount in enumerate(amounts)
    ]


def open_to_all(
    requests: Sequence[ConsumerRequest], targets: Sequence[Offered]
) -> list[ConsumerRequest]:
    names = [name for offered in targets for name, _ in offered]
    return [
        dataclasses.replace(item, options=options_for(item.resources, names)) for item in requests
    ]


def place(
    requests: Sequence[ConsumerRequest],
    targets: Sequence[Offered],
    strategy: Strategy | None = None,
    **more: Any,
) -> Answer:
    return assign(open_to_all(requests, targets), merged(targets), strategy, **more)


def merged(targets: Sequence[Offered]) -> Offered:
    return {slot: item for offered in targets for slot, item in offered.items()}


def homes(answer: Answer) -> dict[str, list[str]]:
    """The consumers c00, c01 … on each target."""
    assert isinstance(answer, Assigned)
    by_target: dict[str, list[str]] = {}
    for number, option in enumerate(answer.options):
        by_target.setdefault(option.root_uuid, []).append(f"c{number:02}")
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
    assert answer == Impossible(("c00",), ("9 VGPU are to be placed, and there is room for 8",))


def test_free_capacity_in_sum_alone_is_not_enough() -> None:
    answer = place(instances([3, 3, 2]), [gpu("a", 4), gpu("b", 4)])
    assert answer == Impossible(("c00",), ("no distribution among the options fits",))


def test_pack_fills_targets_in_the_order_given() -> None:
    targets = [gpu("b", 4), gpu("a", 4), gpu("c", 4)]
    answer = place(instances([1] * 6), targets, "pack")
    assert homes(answer) == {"b": ["c00", "c01", "c02", "c03"], "a": ["c04", "c05"]}


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
        requests = open_to_all(needed, targets)
        assert brute_force.fits(answer.options, requests, merged(targets))


def test_amounts_of_two_classes_share_the_inventory_that_both_become() -> None:
    offered_slots = {
        ("a", "PCPU"): OfferedSlot(inventory.Inventory(4)),
        ("b", "PCPU"): OfferedSlot(inventory.Inventory(4)),
    }
    options = options_for({"PCPU": 3}, "ab")
    requests = [
        ConsumerRequest("c1", "cn1", {"VCPU": 3}, options),
        ConsumerRequest("c2", "cn2", {"PCPU": 3}, options),
    ]
    answer = assign(requests, offered_slots, "pack")
    assert isinstance(answer, Assigned)
    assert {option.root_uuid for option in answer.options} == {"a", "b"}
    more = [*requests, ConsumerRequest("c3", "cn1", {"VCPU": 3}, options)]
    reason = "9 PCPU are to be placed, and there is room for 6"
    assert assign(more, offered_slots) == Impossible(("c1",), (reason,))


CLASSES = ("VGPU", "VF")
SOURCES = ("cn1", "cn2")
Question = tuple[list[ConsumerRequest], Offered, Strategy | None]


def options_for(resources: Mapping[str, int], names: Iterable[str]) -> tuple[Option, ...]:
    """These providers, without a change of class."""
    return tuple(
        Option(name, {(name, key): amount for key, amount in resources.items()}) for name in names
    )


@st.composite
def inventories(draw: st.DrawFn) -> inventory.Inventory:
    return inventory.Inventory(
        total=draw(st.integers(2, 8)),
        min_unit=draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])),
        max_unit=draw(st.sampled_from([8, 8, 4, 2])),
        step_size=draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])),
    )


@st.composite
def requests(draw: st.DrawFn, names: Sequence[str]) -> list[ConsumerRequest]:
    """Requests of a few consumers, for one class or for two that stay together."""
    triples = draw(
        st.lists(
            st.tuples(
                st.sampled_from("abcde"),
                st.sampled_from(SOURCES),
                st.sampled_from([CLASSES, CLASSES[:1], CLASSES[1:]]),
            ),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    drawn = []
    for consumer, source, classes in triples:
        resources = {name: draw(st.integers(1, 3)) for name in classes}
        options = options_for(
            resources, draw(st.sampled_from([names] * 3 + [names[:1], names[1:]]))
        )
        drawn.append(ConsumerRequest(consumer, source, resources, options))
    return drawn


@st.composite
def a_target(draw: st.DrawFn, name: str, consumers: Sequence[str]) -> Offered:
    classes = draw(st.sampled_from([CLASSES, CLASSES, CLASSES, CLASSES[:1], CLASSES[1:]]))
    used = draw(st.sampled_from([0, 0, 1]))
    present = {}
    if draw(st.integers(0, 3)) == 0:
        present = {draw(st.sampled_from(consumers)): 1}
        used += 1
    return {
        (name, key): OfferedSlot(draw(inventories()), *((used, present) if key == "VGPU" else ()))
        for key in classes
    }


@st.composite
def questions(draw: st.DrawFn) -> Question:
    names = [f"t{number}" for number in range(draw(st.integers(1, 3)))]
    needed = draw(requests(names))
    consumers = sorted({item.consumer for item in needed})
    offered_slots: Offered = {}
    for name in names:
        offered_slots |= draw(a_target(name, consumers))
    return needed, offered_slots, draw(st.sampled_from([None, *STRATEGIES]))


def check(question: Question) -> None:
    """The answer is the one that trying everything gives."""
    needed, targets, strategy = question
    placements = list(brute_force.all_of(needed, targets))
    answer = assign(needed, targets, strategy)
    movable = brute_force.movable(placements, needed)
    if isinstance(answer, Assigned):
        assert answer.options in placements
        assert answer.guessed == movable
        assert strategy or not movable
    elif isinstance(answer, Undecided):
        assert strategy is None
        assert answer.consumers == tuple(sorted(movable))
        assert movable
    else:
        assert isinstance(answer, Impossible)
        assert not placements
        check_misfits(answer, question)


def check_misfits(answer: Impossible, question: Question) -> None:
    """Without these the others fit, and none of them fits beside the others."""
    needed, targets, _ = question
    assert answer.consumers
    assert answer.reasons

    def fit(left_out: set[str]) -> bool:
        kept = [item for item in needed if item.consumer not in left_out]
        return any(True for _ in brute_force.all_of(kept, targets))

    misfits = set(answer.consumers)
    assert fit(misfits)
    assert not any(fit(misfits - {consumer}) for consumer in misfits)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_consumers_that_differ_only_in_their_uuid_equal_brute_force(count: int) -> None:
    for totals in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2)):
        targets = [gpu(name, total) for name, total in zip("abc", totals, strict=True)]
        check((open_to_all(instances([1] * count), targets), merged(targets), None))


@hypothesis.settings(max_examples=150)
@hypothesis.given(questions())
def test_the_answer_equals_brute_force(question: Question) -> None:
    check(question)


@hypothesis.settings(max_examples=60)
@hypothesis.given(questions(), st.integers())
def test_the_answer_does_not_depend_on_the_order_of_requests_and_mappings(
    question: Question, seed: int
) -> None:
    needed, targets, strategy = question
    mixed = random.Random(seed)
    order = mixed.sample(range(len(needed)), len(needed))
    again = [with_resources_shuffled(needed[at], mixed) for at in order]
    moved = {
        slot: dataclasses.replace(item, present=shuffled(item.present, mixed))
        for slot, item in targets.items()
    }
    answer, expected = assign(again, moved, strategy), assign(needed, targets, strategy)
    if isinstance(answer, Assigned) and isinstance(expected, Assigned):
        pairs = sorted(zip(order, answer.options, strict=True), key=operator.itemgetter(0))
        answer = dataclasses.replace(answer, options=tuple(option for _, option in pairs))
    assert answer == expected


def with_resources_shuffled(request: ConsumerRequest, mixed: random.Random) -> ConsumerRequest:
    resources = shuffled(request.resources, mixed)
    options = options_for(resources, (option.root_uuid for option in request.options))
    return dataclasses.replace(request, resources=resources, options=options)


def shuffled(mapping: Any, mixed: random.Random) -> dict[str, Any]:
    return dict(mixed.sample(list(mapping.items()), len(mapping)))


@st.composite
def even_questions(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    amounts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    return amounts, draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))


def of_one_class(
    amounts: Sequence[int], capacities: Sequence[int]
) -> tuple[list[ConsumerRequest], Offered]:
    names = tuple(f"t{number}" for number in range(len(capacities)))
    return (
        [
            ConsumerRequest(
                f"c{number}", "cn1", {"VGPU": amount}, options_for({"VGPU": amount}, names)
            )
            for number, amount in enumerate(amounts)
        ],
        {
            (name, "VGPU"): OfferedSlot(inventory.Inventory(capacity))
            for name, capacity in zip(names, capacities, strict=True)
        },
    )


@hypothesis.settings(max_examples=100)
@hypothesis.given(even_questions())
def test_pack_uses_the_smallest_number_of_targets(question: tuple[list[int], list[int]]) -> None:
    needed, targets = of_one_class(*question)
    placements = list(brute_force.all_of(needed, targets))
    answer = assign(needed, targets, "pack")
    assert isinstance(answer, Assigned) is bool(placements)
    if isinstance(answer, Assigned):
        assert providers(answer.options) == min(map(providers, placements))


def providers(options: Sequence[Option]) -> int:
    return len({option.root_uuid for option in options})
