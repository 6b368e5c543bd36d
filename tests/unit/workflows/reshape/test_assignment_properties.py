# SPDX-License-Identifier: Apache-2.0
"""The assignment compared with all possible assignments, on small random problems."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any, get_args

import hypothesis
from hypothesis import strategies as st

from osc_placement.model import inventory
from osc_placement.workflows.reshape.assignment import (
    Assigned,
    Demand,
    Impossible,
    Strategy,
    TargetProvider,
    Undecided,
    assign,
)
from tests.support.reshape import brute_force

CLASSES = ("VGPU", "VF")
SOURCES = ("cn1", "cn2")
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
Question = tuple[list[Demand], list[TargetProvider], Strategy | None]


@st.composite
def inventories(draw: st.DrawFn) -> inventory.Inventory:
    return inventory.Inventory(
        total=draw(st.integers(2, 8)),
        min_unit=draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])),
        max_unit=draw(st.sampled_from([8, 8, 4, 2])),
        step_size=draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2])),
    )


@st.composite
def demands(draw: st.DrawFn, names: Sequence[str]) -> list[Demand]:
    """Demands of a few consumers, for one class or for two that stay together."""
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
    return [
        Demand(
            consumer,
            source,
            {name: draw(st.integers(1, 3)) for name in classes},
            draw(st.sampled_from([tuple(names)] * 3 + [tuple(names[:1]), tuple(names[1:])])),
        )
        for consumer, source, classes in triples
    ]


@st.composite
def a_target(draw: st.DrawFn, name: str, consumers: Sequence[str]) -> TargetProvider:
    offered = draw(st.sampled_from([CLASSES, CLASSES, CLASSES, CLASSES[:1], CLASSES[1:]]))
    used = {"VGPU": draw(st.sampled_from([0, 0, 1]))}
    present = {}
    if draw(st.integers(0, 3)) == 0:
        present = {draw(st.sampled_from(consumers)): {"VGPU": 1}}
        used["VGPU"] += 1
    return TargetProvider(name, {each: draw(inventories()) for each in offered}, used, present)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    names = [f"t{number}" for number in range(draw(st.integers(1, 3)))]
    needed = draw(demands(names))
    consumers = sorted({item.consumer for item in needed})
    targets = [draw(a_target(name, consumers)) for name in names]
    return needed, targets, draw(st.sampled_from([None, *STRATEGIES]))


def check(question: Question) -> None:
    """The answer is the one that trying everything gives."""
    needed, targets, strategy = question
    every = list(brute_force.all_of(needed, targets))
    answer = assign(needed, targets, strategy)
    movable = brute_force.movable(every, needed)
    if isinstance(answer, Assigned):
        assert answer.targets in every
        assert answer.guessed == movable
        assert strategy or not movable
    elif isinstance(answer, Undecided):
        assert strategy is None
        assert answer.consumers == tuple(sorted(movable))
        assert movable
    else:
        assert isinstance(answer, Impossible)
        assert not every
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


@hypothesis.settings(max_examples=150)
@hypothesis.given(questions())
def test_the_answer_equals_brute_force(question: Question) -> None:
    check(question)


@hypothesis.settings(max_examples=60)
@hypothesis.given(questions(), st.integers())
def test_the_answer_does_not_depend_on_the_order_of_demands_and_mappings(
    question: Question, seed: int
) -> None:
    needed, targets, strategy = question
    mixed = random.Random(seed)
    order = mixed.sample(range(len(needed)), len(needed))
    again = [
        dataclasses.replace(needed[at], resources=shuffled(needed[at].resources, mixed))
        for at in order
    ]
    moved = [
        dataclasses.replace(
            item,
            inventories=shuffled(item.inventories, mixed),
            used=shuffled(item.used, mixed),
            present=shuffled(item.present, mixed),
        )
        for item in targets
    ]
    answer, expected = assign(again, moved, strategy), assign(needed, targets, strategy)
    if isinstance(answer, Assigned) and isinstance(expected, Assigned):
        pairs = sorted(zip(order, answer.targets, strict=True))
        answer = dataclasses.replace(answer, targets=tuple(name for _, name in pairs))
    assert answer == expected


def shuffled(mapping: Any, mixed: random.Random) -> dict[str, Any]:
    return dict(mixed.sample(list(mapping.items()), len(mapping)))


@st.composite
def even_questions(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    amounts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    return amounts, draw(st.lists(st.integers(1, 9), min_size=2, max_size=3))


def of_one_class(
    amounts: Sequence[int], capacities: Sequence[int]
) -> tuple[list[Demand], list[TargetProvider]]:
    names = tuple(f"t{number}" for number in range(len(capacities)))
    return (
        [
            Demand(f"c{number}", "cn1", {"VGPU": amount}, names)
            for number, amount in enumerate(amounts)
        ],
        [
            TargetProvider(name, {"VGPU": inventory.Inventory(capacity)})
            for name, capacity in zip(names, capacities, strict=True)
        ],
    )


def loads(placed: brute_force.Placed, needed: Sequence[Demand]) -> dict[str, int]:
    load: dict[str, int] = {}
    for name, demand in zip(placed, needed, strict=True):
        load[name] = load.get(name, 0) + demand.resources["VGPU"]
    return load


@hypothesis.settings(max_examples=100)
@hypothesis.given(even_questions())
def test_pack_uses_the_smallest_number_of_targets(question: tuple[list[int], list[int]]) -> None:
    needed, targets = of_one_class(*question)
    every = list(brute_force.all_of(needed, targets))
    answer = assign(needed, targets, "pack")
    assert isinstance(answer, Assigned) is bool(every)
    if isinstance(answer, Assigned):
        assert len(set(answer.targets)) == min(len(set(way)) for way in every)


@hypothesis.settings(max_examples=100)
@hypothesis.given(even_questions())
def test_spread_keeps_the_fullest_target_as_empty_as_possible(
    question: tuple[list[int], list[int]],
) -> None:
    needed, targets = of_one_class(*question)
    capacities = {target.name: target.inventories["VGPU"].capacity for target in targets}

    def fullest(placed: brute_force.Placed) -> float:
        return max(amount / capacities[name] for name, amount in loads(placed, needed).items())

    every = list(brute_force.all_of(needed, targets))
    answer = assign(needed, targets, "spread")
    assert isinstance(answer, Assigned) is bool(every)
    if isinstance(answer, Assigned):
        assert fullest(answer.targets) == min(fullest(placed) for placed in every)
