"""What becomes of inventories when amounts move: pure arithmetic on totals and their fields.

A field that nobody speaks of comes along: a target that is new to a class is like the
source, and a ``max_unit`` that was the whole total stays the whole total. A class that
changes begins with the API's own defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.workflows.reshape import resolve as wanted_module

Inventories = dict[str, dict[str, inventory.Inventory]]


def inventories(wanted: wanted_module.Wanted, faults: errors.InputErrors) -> Inventories:
    """``{provider uuid: inventories}`` of the named trees as they shall be."""
    after = {uuid: dict(node.inventories) for uuid, node in wanted.nodes.items()}
    for (source, resource_class), shifts in _by_source(wanted.shifts).items():
        _take(after, source, resource_class, shifts, wanted, faults)
    _put_fields(after, wanted, faults)
    for uuid, items in after.items():
        for resource_class, item in items.items():
            if item.reserved > item.total and item != wanted.nodes[uuid].inventories.get(
                resource_class
            ):
                where = f"{wanted.nodes[uuid].provider.name}: {resource_class}"
                faults.add(f"{where} would have reserved {item.reserved} above total {item.total}")
    return after


def _by_source(
    shifts: Iterable[wanted_module.InventoryMove],
) -> dict[tuple[str, str], list[wanted_module.InventoryMove]]:
    found: dict[tuple[str, str], list[wanted_module.InventoryMove]] = {}
    for shift in shifts:
        found.setdefault((shift.source, shift.resource_class), []).append(shift)
    return found


def _take(
    after: Inventories,
    source: str,
    resource_class: str,
    shifts: list[wanted_module.InventoryMove],
    wanted: wanted_module.Wanted,
    faults: errors.InputErrors,
) -> None:
    """Move amounts of one class of one provider to wherever they go."""
    before = wanted.nodes[source].inventories[resource_class]
    moved = sum(shift.amount for shift in shifts)
    present = after[source][resource_class]
    if present.total > moved:
        after[source][resource_class] = _resized(present, present.total - moved)
    else:
        del after[source][resource_class]
    reserved = _reserved(before, moved, shifts, wanted, faults)
    for shift in shifts:
        held = after[shift.target].get(shift.becomes)
        after[shift.target][shift.becomes] = _given(before, held, shift, reserved)


def _resized(item: inventory.Inventory, total: int) -> inventory.Inventory:
    whole = item.max_unit == item.total
    return dataclasses.replace(item, total=total, max_unit=total if whole else item.max_unit)


def _given(
    before: inventory.Inventory,
    held: inventory.Inventory | None,
    shift: wanted_module.InventoryMove,
    reserved: int,
) -> inventory.Inventory:
    """What a target has of a class when an amount has come."""
    if held is not None:
        grown = _resized(held, held.total + shift.amount)
        return dataclasses.replace(grown, reserved=held.reserved + reserved)
    if shift.becomes != shift.resource_class:
        return inventory.Inventory(shift.amount, reserved, max_unit=shift.amount)
    return dataclasses.replace(_resized(before, shift.amount), reserved=reserved)


def _reserved(
    before: inventory.Inventory,
    moved: int,
    shifts: list[wanted_module.InventoryMove],
    wanted: wanted_module.Wanted,
    faults: errors.InputErrors,
) -> int:
    """How much of what is reserved goes along to each target: all when all goes to one."""
    if moved < before.total or not before.reserved:
        return 0
    if len(shifts) == 1:
        return before.reserved
    said = any(
        "reserved" in wanted.fields.get((shift.target, shift.becomes), {}) for shift in shifts
    )
    if not said:
        first = shifts[0]
        faults.add(
            f"{wanted.document.at(first.line)}{wanted.nodes[first.source].provider.name} reserves"
            f" {before.reserved} {first.resource_class}: say where that goes, with"
            f" inventories: {{{first.becomes}: {{reserved: {before.reserved}}}}} of a target"
        )
    return 0


def _put_fields(
    after: Inventories, wanted: wanted_module.Wanted, faults: errors.InputErrors
) -> None:
    """What the operator says of the fields of inventories."""
    for (uuid, resource_class), fields in wanted.fields.items():
        held = after[uuid].get(resource_class)
        if held is None:
            where = wanted.nodes[uuid].provider.name
            faults.add(f"{wanted.document.at(0)}{where} gets no {resource_class} to set fields of")
        else:
            after[uuid][resource_class] = inventory.Inventory.from_dict(
                {**held.as_dict(), **fields}
            )


def capacity_over(
    items: inventory.Inventories, used: Mapping[str, int]
) -> list[tuple[str, int, int]]:
    """``(class, used, capacity)`` of every class of which more is used than there is."""
    return [
        (resource_class, amount, held.capacity if held is not None else 0)
        for resource_class, amount in sorted(used.items())
        if amount and amount > (held.capacity if (held := items.get(resource_class)) else 0)
    ]
