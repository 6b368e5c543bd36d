"""The inventories after a reshape: pure arithmetic on totals and the other fields.

A field that the document does not give moves along: a target without inventory of the class gets
the source's fields, and a ``max_unit`` that equals the total stays equal. A class that changes
gets the defaults of the API, and a ``max_unit`` that equals its total. A given ``total`` is set
after the moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.workflows.reshape import resolve

#: ``{provider uuid: {class: inventory}}``
Inventories = dict[str, dict[str, inventory.Inventory]]


def inventories(resolved: resolve.Resolved, problems: errors.InputErrors) -> Inventories:
    """The inventories of the named trees after the reshape. Errors are added to ``problems``."""
    after = {uuid: dict(node.inventories) for uuid, node in resolved.nodes.items()}
    by_origin: dict[resolve.Place, list[resolve.InventoryMove]] = {}
    for move in resolved.moves:
        by_origin.setdefault(move.origin, []).append(move)
    problems.reasons += _different_sources(resolved)
    for origin, moves in by_origin.items():
        _move(after, origin, moves, resolved, problems)
    for (uuid, resource_class), fields in resolved.fields.items():
        held = _with_total(after[uuid].get(resource_class), fields.get("total"))
        if fields.get("total") == 0:
            after[uuid].pop(resource_class, None)
        elif held is None:
            what = f"{resolved.name_of(uuid)} gets no {resource_class} to set fields of"
            problems.add(resolved.document.at(0) + what)
        else:
            values = {**held.as_dict(), **fields}
            after[uuid][resource_class] = inventory.Inventory.from_dict(values)
    problems.reasons += _excess_reserved(after, resolved)
    return after


def _move(
    after: Inventories,
    origin: resolve.Place,
    moves: Sequence[resolve.InventoryMove],
    resolved: resolve.Resolved,
    problems: errors.InputErrors,
) -> None:
    """Move the amounts of one class of one provider."""
    source, resource_class = origin
    before = resolved.nodes[source].inventories[resource_class]
    moved = sum(move.amount for move in moves)
    present = after[source][resource_class]
    kept = resolved.fields.get(origin, {}).get("total", before.total - moved)
    if present.total > moved:
        after[source][resource_class] = _resize(present, present.total - moved)
    elif not kept:
        del after[source][resource_class]
    reserved = 0
    if not kept and before.reserved:
        if len(moves) == 1:
            reserved = before.reserved
        elif not any("reserved" in resolved.fields.get(move.destination, {}) for move in moves):
            problems.add(_undecided_reserved(before, moves[0], resolved))
    for move in moves:
        held = after[move.target].get(move.becomes)
        after[move.target][move.becomes] = _add(before, held, move, reserved)


#: The fields of an inventory that a new one takes from its source.
_INHERITED = ("min_unit", "max_unit", "step_size", "allocation_ratio")


def _different_sources(resolved: resolve.Resolved) -> Iterator[str]:
    """New inventories whose sources have different fields that the document does not give."""
    by_target: dict[resolve.Place, list[resolve.InventoryMove]] = {}
    for move in resolved.moves:
        if move.becomes not in resolved.nodes[move.target].inventories:
            by_target.setdefault(move.destination, []).append(move)
    for (target, name), moves in by_target.items():
        given = resolved.fields.get((target, name), {})
        inherited = [_inherited(move, resolved) for move in moves]
        for field in (each for each in _INHERITED if each not in given):
            found = {fields[field] for fields in inherited}
            if len(found) > 1:
                sources = ", ".join(resolved.name_of(move.source) for move in moves)
                yield (
                    f"{resolved.document.at(moves[-1].line)}{resolved.name_of(target)} gets"
                    f" {name} from {sources}, whose {field} differ"
                    f" ({', '.join(sorted(map(str, found)))}): give it, with"
                    f" inventories: {{{name}: {{{field}: ...}}}}"
                )


def _inherited(
    move: resolve.InventoryMove, resolved: resolve.Resolved
) -> Mapping[str, int | float | str]:
    """The fields that a new inventory takes from one source."""
    item = resolved.nodes[move.source].inventories[move.resource_class]
    if move.becomes != move.resource_class:
        item = inventory.Inventory(item.total, max_unit=item.total)
    max_unit = "the total" if item.max_unit == item.total else item.max_unit
    return {**item.as_dict(), "max_unit": max_unit}


def _with_total(
    held: inventory.Inventory | None, given: float | None
) -> inventory.Inventory | None:
    """The inventory with a given total; a new one has the defaults of the API."""
    if not given:
        return held
    total = int(given)
    return _resize(held, total) if held is not None else inventory.Inventory(total, max_unit=total)


def _resize(item: inventory.Inventory, total: int) -> inventory.Inventory:
    max_unit = total if item.max_unit == item.total else item.max_unit
    return dataclasses.replace(item, total=total, max_unit=max_unit)


def _add(
    before: inventory.Inventory,
    held: inventory.Inventory | None,
    move: resolve.InventoryMove,
    reserved: int,
) -> inventory.Inventory:
    """The inventory of a target after an amount was added."""
    if held is not None:
        grown = _resize(held, held.total + move.amount)
        return dataclasses.replace(grown, reserved=held.reserved + reserved)
    if move.becomes != move.resource_class:
        return inventory.Inventory(move.amount, reserved, max_unit=move.amount)
    return dataclasses.replace(_resize(before, move.amount), reserved=reserved)


def _undecided_reserved(
    before: inventory.Inventory, first: resolve.InventoryMove, resolved: resolve.Resolved
) -> str:
    return (
        f"{resolved.document.at(first.line)}{resolved.name_of(first.source)} reserves"
        f" {before.reserved} {first.resource_class}: say where that moves, with"
        f" inventories: {{{first.becomes}: {{reserved: {before.reserved}}}}} of a target"
    )


def _excess_reserved(after: Inventories, resolved: resolve.Resolved) -> Iterator[str]:
    for uuid, items in after.items():
        for name, item in items.items():
            changed = item != resolved.nodes[uuid].inventories.get(name)
            if changed and item.reserved > item.total:
                what = f"reserved {item.reserved} above total {item.total}"
                yield f"{resolved.name_of(uuid)}: {name} would have {what}"
