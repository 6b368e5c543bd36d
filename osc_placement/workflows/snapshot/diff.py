# SPDX-License-Identifier: Apache-2.0
"""The differences of two snapshots, as one pass over both in the order of UUIDs.

Pure; only one record of each side is in memory.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from osc_placement.workflows.snapshot.file import SavedConsumer, SavedProvider, SnapshotFile

#: One aspect of a record: ``VCPU:total``, ``trait HW_CPU_X86_AVX2``, ``name``.
Facts = dict[str, Any]


class ObjectKind(enum.StrEnum):
    """What a difference is about."""

    PROVIDER = "provider"
    CONSUMER = "consumer"
    TRAIT = "trait"
    RESOURCE_CLASS = "resource class"


class StateChange(enum.StrEnum):
    """Which of the two states has the object."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclasses.dataclass(frozen=True, slots=True)
class StateDifference:
    """One object that differs; ``before`` and ``after`` hold only the facts that differ.

    ``name`` is the name of a provider, of a trait or of a resource class; empty for a consumer.
    """

    kind: ObjectKind
    change: StateChange
    uuid: str
    name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def differences(
    before: SnapshotFile, after: SnapshotFile, *, owners: bool = True
) -> Iterator[StateDifference]:
    """Everything that differs: traits, resource classes, providers, consumers.

    Without ``owners`` projects, users and types are left out, because one side does not have
    them.
    """
    yield from _custom_names(before, after)
    for old, new in _pairs(before.providers(), after.providers(), lambda item: item.uuid):
        facts = (None if item is None else _provider_facts(item) for item in (old, new))
        if provider := new or old:
            yield from _difference(ObjectKind.PROVIDER, provider.uuid, provider.name, *facts)
    for left, right in _pairs(before.consumers(), after.consumers(), lambda item: item.uuid):
        facts = (
            None if item is None else _consumer_facts(item, owners=owners) for item in (left, right)
        )
        if consumer := right or left:
            yield from _difference(ObjectKind.CONSUMER, consumer.uuid, "", *facts)


def are_two_clouds(before: SnapshotFile, after: SnapshotFile) -> bool:
    """Whether the states have providers and no provider in common."""
    uuids = {item.uuid for item in before.providers()}
    others = {item.uuid for item in after.providers()}
    return bool(uuids and others) and uuids.isdisjoint(others)


def differences_by_name(before: SnapshotFile, after: SnapshotFile) -> Iterator[StateDifference]:
    """What differs between two clouds: traits, resource classes, and providers by their names.

    Aggregates and consumers have UUIDs only, and each cloud its own: they are left out.
    """
    yield from _custom_names(before, after)
    sides = [_by_name(side) for side in (before, after)]
    for name in sorted({**sides[0], **sides[1]}):
        yield from _difference(ObjectKind.PROVIDER, "", name, *(side.get(name) for side in sides))


def _by_name(side: SnapshotFile) -> dict[str, Facts]:
    """The facts of each provider, with names in place of UUIDs."""
    names = {item.uuid: item.name for item in side.providers()}
    named = {}
    for item in side.providers():
        facts = _provider_facts(item)
        facts |= {field: names.get(facts[field]) for field in ("parent", "root")}
        named[item.name] = {
            key: value for key, value in facts.items() if not key.startswith("aggregate ")
        }
    return named


T = TypeVar("T")


def _pairs(
    before: Iterable[T], after: Iterable[T], key: Callable[[T], str]
) -> Iterator[tuple[T | None, T | None]]:
    """Both sides' records of each key; both are sorted by it."""
    left, right = iter(before), iter(after)
    old, new = next(left, None), next(right, None)
    while old is not None or new is not None:
        if new is None or (old is not None and key(old) < key(new)):
            yield old, None
            old = next(left, None)
        elif old is None or key(new) < key(old):
            yield None, new
            new = next(right, None)
        else:
            yield old, new
            old, new = next(left, None), next(right, None)


def _difference(
    kind: ObjectKind, uuid: str, name: str, before: Facts | None, after: Facts | None
) -> Iterator[StateDifference]:
    if before == after:
        return
    if before is None or after is None:
        change = StateChange.ADDED if before is None else StateChange.REMOVED
        yield StateDifference(kind, change, uuid, name, before or {}, after or {})
        return
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    yield StateDifference(
        kind,
        StateChange.CHANGED,
        uuid,
        name,
        {key: before[key] for key in keys if key in before},
        {key: after[key] for key in keys if key in after},
    )


def _custom_names(before: SnapshotFile, after: SnapshotFile) -> Iterator[StateDifference]:
    """The custom traits and resource classes that one side does not have."""
    for kind, names, others in (
        (ObjectKind.TRAIT, before.traits(), after.traits()),
        (ObjectKind.RESOURCE_CLASS, before.resource_classes(), after.resource_classes()),
    ):
        for name in sorted({*names} ^ {*others}):
            change = StateChange.REMOVED if name in names else StateChange.ADDED
            yield StateDifference(kind, change, "", name, {}, {})


def _provider_facts(item: SavedProvider) -> Facts:
    facts: Facts = {"name": item.name, "parent": item.parent_uuid, "root": item.root_uuid}
    for resource_class, fields in sorted(item.inventories.items()):
        facts |= {f"{resource_class}:{field}": value for field, value in fields.items()}
    facts |= {f"trait {name}": True for name in item.traits}
    facts |= {f"aggregate {uuid}": True for uuid in item.aggregates}
    return facts


def _consumer_facts(item: SavedConsumer, *, owners: bool) -> Facts:
    facts: Facts = {}
    if owners:
        facts = {"project": item.project_id, "user": item.user_id, "type": item.type}
    for provider_uuid, resources in sorted(item.allocations.items()):
        facts |= {f"{provider_uuid}:{name}": amount for name, amount in sorted(resources.items())}
    return facts
