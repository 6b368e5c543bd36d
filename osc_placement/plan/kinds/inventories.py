# SPDX-License-Identifier: Apache-2.0
"""Changes of a provider's inventories: only the named classes and fields change."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from osc_placement import microversion
from osc_placement.model import inventory
from osc_placement.plan import change, forms
from osc_placement.plan.kinds import base
from osc_placement.plan.reasons import Code, Reason

if TYPE_CHECKING:
    from osc_placement.client import api

#: The trait of a device that must be cleaned after each server that had it.
ONE_TIME_USE = "HW_PCI_ONE_TIME_USE"

#: ``{field: value}`` of an inventory, all fields or some.
Fields = Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryState(forms.Single):
    """``{resource class: its fields}``; None for a class without inventory."""

    classes: Mapping[str, Fields | None]

    @classmethod
    def of(cls, inventories: inventory.Inventories) -> InventoryState:
        """The state of complete inventories."""
        return cls({name: item.as_dict() for name, item in inventories.items()})

    def inventories(self) -> dict[str, inventory.Inventory]:
        """The inventories; missing fields have the API's defaults."""
        return {
            name: inventory.Inventory.from_dict(fields)
            for name, fields in self.classes.items()
            if fields is not None
        }


class Inventories(base.ChangeType[InventoryState]):
    """Written under the provider's generation; fields that are not named keep their value."""

    name = "inventories"
    state = InventoryState
    unit = "inventories"

    def removes(self, before: InventoryState, after: InventoryState) -> int:
        return sum(
            before.classes.get(name) is not None and fields is None
            for name, fields in after.classes.items()
        )

    def read(
        self, services: base.Services, subject: change.Subject, after: InventoryState
    ) -> change.Observed[InventoryState]:
        present = services.client.list_inventories(subject.uuid)
        return observed(present.generation, present.inventories)

    def write(
        self, services: base.Services, write: base.Write[InventoryState]
    ) -> change.Observed[InventoryState]:
        renewed = amended(write.observed.state.inventories(), write.after)
        generation = write.observed.generation or 0
        present = services.client.replace_inventories(write.subject.uuid, generation, renewed)
        return observed(present.generation, present.inventories)

    def facts(
        self, before: InventoryState, after: InventoryState, names: change.Names = base.NO_NAMES
    ) -> list[base.Fact]:
        changed = []
        for name in dict.fromkeys([*after.classes, *before.classes]):
            was, becomes = before.classes.get(name), after.classes.get(name)
            for field in dict.fromkeys([*(becomes or ()), *(was or ())]):
                old = None if was is None else was.get(field)
                new = None if becomes is None else becomes.get(field)
                label = f"{name}:{field}"
                changed.append(base.Fact(label, old, new, label, name))
        return changed

    def select(self, present: InventoryState, after: InventoryState) -> InventoryState:
        return InventoryState(
            {
                name: _selected(present.classes.get(name), like)
                for name, like in after.classes.items()
            }
        )

    def refusals(
        self, services: base.Services, write: base.Write[InventoryState], allow: Collection[str]
    ) -> list[Reason]:
        """Requests: those of ``read_refusals``."""
        present = write.observed.state.inventories()
        renewed = amended(present, write.after)
        return read_refusals(services.client, write.subject.uuid, present, renewed, allow)


def observed(
    generation: int, inventories: inventory.Inventories
) -> change.Observed[InventoryState]:
    """Inventories that planning has read."""
    return change.Observed(generation, InventoryState.of(inventories))


def amended(
    inventories: inventory.Inventories, after: InventoryState
) -> dict[str, inventory.Inventory]:
    """Inventories with the classes and fields of ``after`` replaced."""
    renewed = dict(inventories)
    for resource_class, fields in after.classes.items():
        if fields is None:
            renewed.pop(resource_class, None)
        else:
            present = renewed.get(resource_class)
            start = present.as_dict() if present is not None else {}
            renewed[resource_class] = inventory.Inventory.from_dict({**start, **fields})
    return renewed


def loses_capacity(before: inventory.Inventories, after: inventory.Inventories) -> bool:
    """Whether any class has less capacity after than before, or is deleted."""
    return any(
        resource_class not in after or after[resource_class].capacity < item.capacity
        for resource_class, item in before.items()
    )


def is_used_up(item: inventory.Inventory) -> bool:
    """Whether nova may have reserved all of a one-time-use device, when a server got it."""
    return 0 < item.total <= item.reserved


def released(before: inventory.Inventories, after: inventory.Inventories) -> list[str]:
    """The classes of which everything is reserved, and that get capacity."""
    return [name for name, item in before.items() if _releases(item, after.get(name))]


def releases(before: inventory.Inventories, after: inventory.Inventories) -> bool:
    """Whether any class of which everything is reserved gets capacity."""
    return bool(released(before, after))


#: Without one of these a host gets no server. Other classes are often wholly reserved on purpose.
_OF_A_HOST = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"})


def refusals(
    before: inventory.Inventories,
    after: inventory.Inventories,
    usages: Mapping[str, int],
    allow: Collection[str],
    *,
    one_time_use: bool = False,
) -> list[Reason]:
    """The reason of each guard that refuses to change a provider's inventories to ``after``.

    ``one_time_use``: the provider is a one-time-use device. Nova reserves all of it when a server
    gets it, so that no other server gets it before the operator has cleaned it.
    """
    reasons = []
    for resource_class, old in before.items():
        used = usages.get(resource_class, 0)
        new = after.get(resource_class)
        if new is None and used:
            text = f"{resource_class} would vanish with {used} in use"
            reasons.append(_guarded(Code.CLASS_IN_USE, text))
        if new is not None and _overfills(old, new, used):
            text = f"{resource_class} would be over capacity: {used} used, capacity"
            text += f" {old.capacity} -> {new.capacity}"
            reasons.append(_guarded(Code.OVER_CAPACITY, text))
        if one_time_use and used and _releases(old, new):
            text = f"{resource_class} of a one-time-use device would be free with {used} in use"
            reasons.append(_guarded(Code.ONE_TIME_USE, text))
    for resource_class, new in after.items():
        if new.reserved > new.total and new != before.get(resource_class):
            text = f"{resource_class} would have reserved {new.reserved} above total {new.total}"
            reasons.append(_guarded(Code.RESERVED_ABOVE_TOTAL, text))
        elif _takes_all(resource_class, before.get(resource_class), new):
            text = (
                f"{resource_class} would have no capacity: {new.reserved} of {new.total} reserved"
            )
            reasons.append(_guarded(Code.NOTHING_LEFT, text))
    return [reason for reason in reasons if reason.code not in allow]


def read_refusals(
    client: api.Client,
    uuid: str,
    before: inventory.Inventories,
    after: inventory.Inventories,
    allow: Collection[str],
) -> list[Reason]:
    """``refusals`` of a provider, with what its guards must know.

    Requests: one GET of usages where a class loses capacity, or where a used-up class gets some;
    there also one of traits, if anything of it is in use. Guards in ``allow`` read nothing.
    """
    freed = [] if Code.ONE_TIME_USE in allow else released(before, after)
    limited = not {Code.CLASS_IN_USE, Code.OVER_CAPACITY} <= {*allow}
    usages: Mapping[str, int] = {}
    traits: Collection[str] = ()
    if freed or (limited and loses_capacity(before, after)):
        usages = client.list_usages(uuid)
    if any(usages.get(name) for name in freed):
        # A classic command with an older version in use must not release a device either.
        version = max(client.microversion, microversion.FEATURES["traits"])
        traits = client.at(version).list_provider_traits(uuid).traits
    return refusals(before, after, usages, allow, one_time_use=ONE_TIME_USE in traits)


def _selected(selected: Fields | None, like: Fields | None) -> Fields | None:
    """The fields of a found class that a change names; all of a class that it deletes."""
    if selected is None or like is None:
        return selected
    return {field: selected[field] for field in like if field in selected}


def _releases(old: inventory.Inventory, new: inventory.Inventory | None) -> bool:
    return is_used_up(old) and new is not None and new.capacity > 0


def _overfills(old: inventory.Inventory, new: inventory.Inventory, used: int) -> bool:
    return new.capacity < old.capacity and used > max(new.capacity, 0)


def _takes_all(
    resource_class: str, old: inventory.Inventory | None, new: inventory.Inventory
) -> bool:
    """Whether a host with capacity of a class that every server needs would have none."""
    had = old is not None and old.capacity > 0
    return resource_class in _OF_A_HOST and had and new.capacity <= 0


def _guarded(guard: Code, text: str) -> Reason:
    return Reason(guard, f"{text} (--allow {guard} to do it anyway)")


TYPE = Inventories()
