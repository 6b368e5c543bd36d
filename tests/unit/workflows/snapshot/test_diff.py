# SPDX-License-Identifier: Apache-2.0
"""The differences of two states describe exactly what leads from one to the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from hypothesis import given, strategies as st

from osc_placement.workflows.snapshot import diff, file
from osc_placement.workflows.snapshot.diff import ObjectKind, StateChange

UUIDS = st.sampled_from(["a", "b", "c", "d"])
AMOUNTS = st.dictionaries(st.sampled_from(["VCPU", "DISK_GB"]), st.integers(1, 3), max_size=2)


@dataclasses.dataclass
class State(file.SnapshotFile):
    """The records of a file, without the file."""

    held_providers: list[file.SavedProvider]
    held_consumers: list[file.SavedConsumer]
    held_traits: list[str]
    held_classes: list[str]

    def providers(self) -> Iterator[file.SavedProvider]:
        return iter(self.held_providers)

    def consumers(self) -> Iterator[file.SavedConsumer]:
        return iter(self.held_consumers)

    def traits(self) -> list[str]:
        return self.held_traits

    def resource_classes(self) -> list[str]:
        return self.held_classes


def sorted_by_uuid(items: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    def unique(found: list[Any]) -> list[Any]:
        return sorted({item.uuid: item for item in found}.values(), key=lambda item: item.uuid)

    return st.lists(items, max_size=4).map(unique)


NAMES = st.lists(st.sampled_from(["CUSTOM_A", "CUSTOM_B"]), unique=True).map(sorted)
INVENTORIES = st.dictionaries(
    st.sampled_from(["VCPU", "DISK_GB"]),
    st.fixed_dictionaries({"total": st.integers(1, 3), "allocation_ratio": st.just(1.5)}),
    max_size=2,
)
PROVIDERS = st.builds(
    file.SavedProvider,
    UUIDS,
    st.sampled_from(["one", "two"]),
    st.integers(0, 2),
    UUIDS,
    st.none() | UUIDS,
    INVENTORIES,
    NAMES,
    st.lists(UUIDS, unique=True).map(sorted),
)
CONSUMERS = st.builds(
    file.SavedConsumer,
    UUIDS,
    st.integers(0, 2),
    st.sampled_from(["p", "q"]),
    st.just("u"),
    st.none() | st.just("INSTANCE"),
    st.dictionaries(UUIDS, AMOUNTS, max_size=2),
)
STATES = st.builds(State, sorted_by_uuid(PROVIDERS), sorted_by_uuid(CONSUMERS), NAMES, NAMES)


def content(state: State) -> dict[tuple[ObjectKind, str, str], dict[str, Any]]:
    """``{object: its facts}``, by comparing with an empty state."""
    empty = State([], [], [], [])
    differences = diff.differences(empty, state)
    return {key(item): dict(item.after) for item in differences}


def key(item: diff.StateDifference) -> tuple[ObjectKind, str, str]:
    return item.kind, item.uuid, "" if item.uuid else item.name


@given(STATES)
def test_a_state_does_not_differ_from_itself(state: State) -> None:
    assert list(diff.differences(state, state)) == []


@given(STATES, STATES)
def test_the_differences_lead_from_one_state_to_the_other(before: State, after: State) -> None:
    facts = content(before)
    for item in diff.differences(before, after):
        if item.change is StateChange.REMOVED:
            assert facts.pop(key(item)) == item.before
            continue
        facts_of = facts.setdefault(key(item), {})
        for name, value in item.before.items():
            assert facts_of.pop(name) == value
        facts_of.update(item.after)
    assert facts == content(after)


@given(STATES, STATES)
def test_the_other_direction_is_the_opposite(before: State, after: State) -> None:
    swapped = {StateChange.ADDED: StateChange.REMOVED, StateChange.REMOVED: StateChange.ADDED}
    there = {(key(item), item.change): item for item in diff.differences(before, after)}
    back = {
        (key(item), swapped.get(item.change, item.change)): item
        for item in diff.differences(after, before)
    }
    assert there.keys() == back.keys()
    for fact, item in there.items():
        assert (item.before, item.after) == (back[fact].after, back[fact].before)


def test_generations_never_differ_and_owners_only_if_they_are_compared() -> None:
    before = State(
        [file.SavedProvider("a", "one", 1, "a", None, {}, [], [])],
        [file.SavedConsumer("c", 1, "p", "u", None, {"a": {"VCPU": 1}})],
        [],
        [],
    )
    after = State(
        [before.held_providers[0]._replace(generation=2)],
        [before.held_consumers[0]._replace(generation=2, project_id="q")],
        [],
        [],
    )
    assert not [*diff.differences(before, after, owners=False)]
    (owner,) = diff.differences(before, after)
    assert (owner.before, owner.after) == ({"project": "p"}, {"project": "q"})


def test_a_changed_provider_shows_only_what_differs() -> None:
    one = file.SavedProvider("a", "one", 1, "a", None, {"VCPU": {"total": 4}}, ["HW_A"], ["b"])
    other = one._replace(inventories={"VCPU": {"total": 8}}, traits=["HW_B"], aggregates=[])
    (item,) = diff.differences(State([one], [], [], []), State([other], [], [], []))
    assert item == diff.StateDifference(
        ObjectKind.PROVIDER,
        StateChange.CHANGED,
        "a",
        "one",
        {"VCPU:total": 4, "trait HW_A": True, "aggregate b": True},
        {"VCPU:total": 8, "trait HW_B": True},
    )
