"""The assignment compared with all possible assignments, on small random problems."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import hypothesis
from hypothesis import strategies as st

from osc_placement.model import inventory
from osc_placement.workflows.reshape.assignment import (
    Assigned,
    Demand,
    Impossible,
    Key,
    Rules,
    Strategy,
    Target,
    Undecided,
    assign,
)
from tests.support.reshape import brute_force

CLASSES = ("VGPU", "VF")
SOURCES = ("cn1", "cn2")
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Question = tuple[list[Demand], list[Target], Rules]

small = st.integers(0, 3)


@st.composite
def inventories(draw: st.DrawFn) -> inventory.Inventory:
    return inventory.Inventory(
        total=draw(st.integers(2, 8)),
        min_unit=draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])),
        max_unit=draw(st.sampled_from([8, 8, 4, 2])),
        step_size=draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])),
    )


@st.composite
def demands(draw: st.DrawFn, most: int) -> list[Demand]:
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from("abcde"), st.sampled_from(SOURCES)),
            min_size=1,
            max_size=most,
            unique=True,
        )
    )
    return [
        Demand(consumer, source, {"VGPU": draw(st.integers(1, 3)), "VF": draw(small)})
        if draw(st.booleans())
        else Demand(consumer, source, {draw(st.sampled_from(CLASSES)): draw(small)})
        for consumer, source in pairs
    ]


@st.composite
def a_target(draw: st.DrawFn, name: str, consumers: Sequence[str]) -> Target:
    offered = draw(st.sampled_from([CLASSES, CLASSES, CLASSES, CLASSES[:1], CLASSES[1:]]))
    takes = {
        source: frozenset(
            draw(st.sampled_from([CLASSES, CLASSES, CLASSES, CLASSES, CLASSES[:1], ()]))
        )
        for source in SOURCES
    }
    used = {"VGPU": draw(st.sampled_from([0, 0, 1]))}
    held = {}
    if draw(st.integers(0, 3)) == 0:
        held = {draw(st.sampled_from(consumers)): {"VGPU": 1}}
        used["VGPU"] += 1
    return Target(name, {each: draw(inventories()) for each in offered}, takes, used, held)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    needed = draw(demands(most=4))
    consumers = sorted({item.consumer for item in needed})
    targets = [draw(a_target(f"t{number}", consumers)) for number in range(draw(st.integers(1, 3)))]
    return (
        needed,
        targets,
        Rules(
            together=frozenset(draw(st.sampled_from([(), (), CLASSES]))),
            strategy=draw(st.sampled_from([None, *STRATEGIES])),
        ),
    )


def check(question: Question) -> None:
    """The answer is the one that trying everything gives."""
    needed, targets, rules = question
    every = list(brute_force.all_of(needed, targets, rules))
    answer = assign(needed, targets, rules)
    free = brute_force.movable(every)
    if isinstance(answer, Assigned):
        assert answer.targets in every
        assert answer.guessed == free
        assert rules.strategy or not free
    elif isinstance(answer, Undecided):
        assert rules.strategy is None
        assert answer.consumers == tuple(sorted(free))
        assert free
    else:
        assert isinstance(answer, Impossible)
        assert not every
        check_misfits(answer, question)


def check_misfits(answer: Impossible, question: Question) -> None:
    """Without these the others fit, and none of them fits beside the others."""
    needed, targets, rules = question
    assert answer.consumers
    assert answer.reasons

    def fit(left_out: set[str]) -> bool:
        kept = [item for item in needed if item.consumer not in left_out]
        return any(True for _ in brute_force.all_of(kept, targets, rules))

    misfits = set(answer.consumers)
    assert fit(misfits)
    assert not any(fit(misfits - {consumer}) for consumer in misfits)


@hypothesis.settings(max_examples=150)
@hypothesis.given(questions())
def test_the_answer_equals_brute_force(question: Question) -> None:
    check(question)


@hypothesis.settings(max_examples=60)
@hypothesis.given(questions(), st.integers())
def test_the_answer_does_not_depend_on_the_order_of_demands_and_mappings(
    question: Question, seed: int
) -> None:
    needed, targets, rules = question
    mixed = random.Random(seed)
    again = [
        Demand(item.consumer, item.source, shuffled(item.resources, mixed))
        for item in mixed.sample(needed, len(needed))
    ]
    moved = [
        Target(
            item.name,
            shuffled(item.inventories, mixed),
            shuffled(item.accepts, mixed),
            shuffled(item.used, mixed),
            shuffled(item.present, mixed),
        )
        for item in targets
    ]
    assert assign(again, moved, rules) == assign(needed, targets, rules)


def shuffled(mapping: Any, mixed: random.Random) -> dict[str, Any]:
    return dict(mixed.sample(list(mapping.items()), len(mapping)))


@st.composite
def even_questions(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    amounts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    return amounts, draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))


def of_one_class(
    amounts: Sequence[int], capacities: Sequence[int]
) -> tuple[list[Demand], list[Target]]:
    return (
        [Demand(f"c{number}", "cn1", {"VGPU": amount}) for number, amount in enumerate(amounts)],
        [
            Target(
                f"t{number}",
                {"VGPU": inventory.Inventory(capacity)},
                {"cn1": frozenset({"VGPU"})},
            )
            for number, capacity in enumerate(capacities)
        ],
    )


def loads(placed: brute_force.Placed, amounts: Mapping[Key, int]) -> dict[str, int]:
    load: dict[str, int] = {}
    for key, name in placed.items():
        load[name] = load.get(name, 0) + amounts[key]
    return load


@hypothesis.settings(max_examples=100)
@hypothesis.given(even_questions())
def test_pack_uses_the_smallest_number_of_targets(question: tuple[list[int], list[int]]) -> None:
    needed, targets = of_one_class(*question)
    every = list(brute_force.all_of(needed, targets, Rules()))
    answer = assign(needed, targets, Rules(strategy="pack"))
    if isinstance(answer, Assigned):
        assert len(set(answer.targets.values())) == min(len(set(way.values())) for way in every)


@hypothesis.settings(max_examples=100)
@hypothesis.given(even_questions())
def test_spread_keeps_the_fullest_target_as_empty_as_possible(
    question: tuple[list[int], list[int]],
) -> None:
    needed, targets = of_one_class(*question)
    amounts = brute_force.keys(needed)
    capacities = {target.name: target.inventories["VGPU"].capacity for target in targets}

    def fullest(placed: brute_force.Placed) -> float:
        return max(amount / capacities[name] for name, amount in loads(placed, amounts).items())

    every = list(brute_force.all_of(needed, targets, Rules()))
    answer = assign(needed, targets, Rules(strategy="spread"))
    if isinstance(answer, Assigned):
        assert fullest(answer.targets) == min(fullest(placed) for placed in every)
