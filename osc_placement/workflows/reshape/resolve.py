# SPDX-License-Identifier: Apache-2.0
"""Resolves a reshape document against a snapshot: texts to providers, moves to amounts. Pure.

A described provider that does not exist gets a UUID that follows from its name::

    {from: cn1, resources: {VGPU: all}, to: {name: cn1_gpu}}     cn1 has 8 VGPU, reserved 2
    move         8 VGPU from cn1 to cn1_gpu, a new child of cn1
    inventories  cn1 has no VGPU; cn1_gpu has 8 VGPU, reserved 2, with the other fields of cn1's
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.model.name import canonical_uuid
from osc_placement.search.placing import Slot
from osc_placement.workflows.reshape import documents, snapshot

_HINT = "'openstack resource provider list' shows all providers"


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryMove:
    """An amount of the total of one slot that moves to another slot."""

    source: Slot
    amount: int
    to: Slot
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A document with UUIDs and amounts.

    ``nodes`` are the providers of the named trees after the reshape, with the usage before it.
    ``growth`` is how much the totals that the document sets differ from those after the moves;
    negative if less. ``deleted`` are the UUIDs of providers that are deleted once they are empty.
    """

    document: documents.Document
    nodes: Mapping[str, snapshot.Node]
    moves: tuple[InventoryMove, ...]
    growth: Mapping[Slot, int] = dataclasses.field(default_factory=dict)
    deleted: frozenset[str] = frozenset()

    def name_of(self, uuid: str) -> str:
        """The name of a provider after the reshape."""
        return self.nodes[uuid].provider.name

    def names(self) -> dict[str, str]:
        """``{provider uuid: name}`` after the reshape."""
        return {uuid: node.provider.name for uuid, node in self.nodes.items()}


def resolve(
    document: documents.Document, before: snapshot.TreeSnapshot
) -> tuple[Resolved, list[str]]:
    """Resolve all providers and amounts of a document; and what is wrong with the inventories.

    Errors: InvalidInput with all reasons if providers or amounts cannot be resolved.
    """
    index = ProviderIndex(document, before)
    for item in document.providers:
        index.add(item, None)
    for move in document.moves:
        index.add(move.to, move.source)
    index.set_parents()
    requested = [moved for move in document.moves for moved in _moves(move, index)]
    for named in document.rename:
        index.rename(named)
    index.check_names()
    deleted = {index.find(item.text, item.line) for item in document.delete}
    moves = tuple(_merge(_with_amounts(requested, index)))
    errors.InputErrors(index.reasons).check()
    inventories = _inventories(moves, index)
    resolved = Resolved(
        document,
        {
            uuid: dataclasses.replace(node, inventories=inventories[uuid])
            for uuid, node in index.nodes.items()
        },
        moves,
        _growth(moves, index),
        frozenset(filter(None, deleted)),
    )
    return resolved, index.reasons


class ProviderIndex:
    """The providers of the named trees by name and UUID, including those to create."""

    def __init__(self, document: documents.Document, before: snapshot.TreeSnapshot) -> None:
        # A new dict: what the document describes is added to it.
        self.nodes = before.inside
        self.fields: dict[Slot, dict[str, int | float]] = {}
        self.reasons: list[str] = []
        self._existing = dict(self.nodes)
        self._document = document
        self._by_name = {node.provider.name: uuid for uuid, node in self.nodes.items()}
        #: ``{provider: (text of its parent, line)}``; those of a new provider's source yield.
        self._parents: dict[str, tuple[str | None, int]] = {}
        self._default_parents: dict[str, tuple[str | None, int]] = {}

    def find(self, text: str, line: int) -> str | None:
        """The UUID of a provider; adds an error if it does not exist."""
        uuid = self.uuid_of(text)
        if uuid is None:
            self.add_problem(line, f"provider {text!r} does not exist: {_HINT}")
        return uuid

    def uuid_of(self, text: str) -> str | None:
        """The UUID of the provider with this name or UUID, None if it does not exist."""
        return self._by_name.get(text, text if text in self.nodes else None)

    def add_problem(self, line: int, what: str) -> None:
        """Add an error of the document."""
        self.reasons.append(self._document.at(line) + what)

    def name_of(self, uuid: str) -> str:
        return self.nodes[uuid].provider.name

    def add(self, item: documents.ProviderDescription, source: str | None) -> None:
        """Add a provider, existing or described; ``source`` is the provider that moves to it."""
        uuid = self.uuid_of(item.text)
        if uuid is not None:
            self._check_existing(uuid, item, source)
        elif not item.described or not item.name:
            self.add_problem(
                item.line,
                f"provider {item.text!r} does not exist: {_HINT}; to create it, describe it:"
                f" {{name: {item.name or '<name>'}}}",
            )
            return
        else:
            uuid = item.uuid or snapshot.new_uuid(item.name)
            if uuid in self.nodes:
                what = f"{self.name_of(uuid)!r} has the UUID that {item.name!r} would get"
                self.add_problem(item.line, f"{what}: give one")
                return
            self.nodes[uuid] = snapshot.Node(provider.Provider(uuid, item.name, 0, None, None))
            self._by_name.setdefault(item.name, uuid)
            self._default_parents[uuid] = source, item.line
        self._describe(uuid, item)

    def _describe(self, uuid: str, item: documents.ProviderDescription) -> None:
        """Apply the parent, the traits, aggregates and inventory fields of a description."""
        if item.parent != documents.DEFAULT_PARENT:
            first, _ = self._parents.setdefault(uuid, (item.parent, item.line))
            if first != item.parent:
                what = f"{first or 'no provider'} and {item.parent or 'no provider'}"
                self.add_problem(item.line, f"{self.name_of(uuid)} has two parents, {what}")
        node = self.nodes[uuid]
        traits = frozenset() if "traits" in item.only else node.traits
        aggregates = frozenset() if "aggregates" in item.only else node.aggregates
        self.nodes[uuid] = dataclasses.replace(
            node,
            traits=traits.union(item.traits),
            aggregates=aggregates.union(map(canonical_uuid, item.aggregates)),
        )
        for resource_class, fields in item.inventories.items():
            described = self.fields.setdefault((uuid, resource_class), {})
            for field, value in fields.items():
                if described.setdefault(field, value) != value:
                    what = f"{field} of {resource_class} of {self.name_of(uuid)}"
                    self.add_problem(
                        item.line, f"{what} is given as {described[field]} and {value}"
                    )

    def _check_existing(
        self, uuid: str, item: documents.ProviderDescription, source: str | None
    ) -> None:
        """Check that a description and the existing provider are the same."""
        name = self.name_of(uuid)
        renames = [named.name for named in self._document.rename if named.text in (name, uuid)]
        if item.uuid and item.name and item.name not in (name, *renames):
            self.add_problem(item.line, f"provider {uuid} has the name {name!r}, not {item.name!r}")
        origin = self.uuid_of(source or "")
        has_parent = not item.described or item.parent != documents.DEFAULT_PARENT
        if has_parent or uuid not in self._existing or origin not in self._existing:
            return
        # A child that is described without its parent is expected in the tree of the source.
        root = self._existing[uuid].provider.root_uuid
        if root not in (None, uuid) and root != self._existing[origin].provider.root_uuid:
            self.add_problem(
                item.line,
                f"{name!r} exists in another tree: give another name, or its parent if you mean"
                " that provider",
            )

    def set_parents(self) -> None:
        """Set the parents, when all providers are known."""
        parents = self._default_parents | self._parents
        for uuid, (text, line) in parents.items():
            parent = None if text is None else self.find(text, line)
            if text is None or parent is not None:
                node = self.nodes[uuid]
                placed = dataclasses.replace(node.provider, parent_uuid=parent)
                self.nodes[uuid] = dataclasses.replace(node, provider=placed)
        for uuid, (_, line) in parents.items():
            above: list[str | None] = [uuid]
            while (parent := self.nodes[above[-1] or ""].provider.parent_uuid) not in (
                None,
                *above,
            ):
                above.append(parent)
            if parent == uuid:
                self.add_problem(line, f"{self.name_of(uuid)} would be its own ancestor")

    def rename(self, named: documents.Named) -> None:
        """Give a provider another name."""
        uuid = self.find(named.text, named.line)
        if uuid is not None:
            node = self.nodes[uuid]
            renamed = dataclasses.replace(node.provider, name=named.name)
            self.nodes[uuid] = dataclasses.replace(node, provider=renamed)

    def check_names(self) -> None:
        """Check the names after the plan; and during it, because all renames are one stage."""
        names: dict[str, str] = {}
        had = {node.provider.name: uuid for uuid, node in self._existing.items()}
        for uuid, node in self.nodes.items():
            name = node.provider.name
            if names.setdefault(name, uuid) != uuid:
                self.add_problem(0, f"two providers would have the name {name!r}")
            elif uuid in self._existing and had.get(name, uuid) != uuid:
                before = self._existing[uuid].provider.name
                self.add_problem(
                    0,
                    f"{before} cannot take the name {name!r} in the same plan: rename the other"
                    " provider before",
                )


def _moves(item: documents.ResourceMove, index: ProviderIndex) -> Iterator[InventoryMove]:
    """The inventory moves of one move; an amount of 0 stands for ``all``."""
    source, to = index.find(item.source, item.line), index.uuid_of(item.to.text)
    if source is None or to is None:
        return
    offered = index.nodes[source].inventories
    for name, amount in item.resources.items():
        becomes = item.classes.get(name, name)
        if (source, name) == (to, becomes):
            index.add_problem(item.line, f"{name} would move from {item.source} to itself")
        elif name not in offered:
            present = ", ".join(sorted(offered)) or "no inventory"
            index.add_problem(item.line, f"{item.source} has no {name}: it has {present}")
        else:
            number = 0 if amount == documents.ALL else int(amount)
            yield InventoryMove((source, name), number, (to, becomes), item.line)


def _with_amounts(moves: Iterable[InventoryMove], index: ProviderIndex) -> Iterator[InventoryMove]:
    """The moves with their amounts; ``all`` is what the other moves leave."""
    by_source: dict[Slot, list[InventoryMove]] = {}
    for move in moves:
        by_source.setdefault(move.source, []).append(move)
    for (source, name), group in by_source.items():
        total = index.nodes[source].inventories[name].total
        left = total - sum(move.amount for move in group)
        count_all = sum(not move.amount for move in group)
        problem = ""
        if left < 0:
            problem = f"the moves need {-left} more"
        elif count_all and (count_all > 1 or not left):
            problem = "nothing is left for 'all'" if not left else "more than one move takes all"
        if problem:
            what = f"{index.name_of(source)} has {total} {name}"
            index.add_problem(group[-1].line, f"{what}, and {problem}")
            continue
        for move in group:
            yield move if move.amount else dataclasses.replace(move, amount=left)


def _merge(moves: Iterable[InventoryMove]) -> Iterable[InventoryMove]:
    """One move for each pair of slots."""
    merged: dict[tuple[Slot, Slot], InventoryMove] = {}
    for move in moves:
        key = move.source, move.to
        amount = move.amount + (merged[key].amount if key in merged else 0)
        merged[key] = dataclasses.replace(merged.get(key, move), amount=amount)
    return merged.values()


def _growth(moves: Iterable[InventoryMove], index: ProviderIndex) -> dict[Slot, int]:
    """``Resolved.growth``: the totals that the document sets, minus those after the moves."""
    growth: dict[Slot, int] = {}
    for (uuid, resource_class), fields in index.fields.items():
        if "total" in fields:
            item = index.nodes[uuid].inventories.get(resource_class)
            before = item.total if item is not None else 0
            growth[uuid, resource_class] = int(fields["total"]) - before
    for move in moves:
        if move.source in growth:
            growth[move.source] += move.amount
        if move.to in growth:
            growth[move.to] -= move.amount
    return {slot: amount for slot, amount in growth.items() if amount}


#: ``{provider uuid: {class: inventory}}``
Inventories = dict[str, dict[str, inventory.Inventory]]


def _inventories(moves: Iterable[InventoryMove], index: ProviderIndex) -> Inventories:
    """The inventories of the named trees after the reshape; adds what is wrong with them."""
    after = {uuid: dict(node.inventories) for uuid, node in index.nodes.items()}
    by_source: dict[Slot, list[InventoryMove]] = {}
    by_slot: dict[Slot, list[InventoryMove]] = {}
    for move in moves:
        by_source.setdefault(move.source, []).append(move)
        by_slot.setdefault(move.to, []).append(move)
    for slot, moves_to in by_slot.items():
        _check_sources(slot, moves_to, index)
    for origin, moves_from in by_source.items():
        _move(after, origin, moves_from, index)
    for (uuid, name), fields in index.fields.items():
        item = _with_total(after[uuid].get(name), fields.get("total"))
        if fields.get("total") == 0:
            after[uuid].pop(name, None)
        elif item is None:
            index.add_problem(0, f"{index.name_of(uuid)} gets no {name} to set fields of")
        else:
            after[uuid][name] = inventory.Inventory.from_dict({**item.as_dict(), **fields})
    for uuid, items in after.items():
        for name, item in items.items():
            changed = item != index.nodes[uuid].inventories.get(name)
            if changed and item.reserved > item.total:
                what = f"reserved {item.reserved} above total {item.total}"
                index.reasons.append(f"{index.name_of(uuid)}: {name} would have {what}")
    return after


def _move(
    after: Inventories, origin: Slot, moves: Sequence[InventoryMove], index: ProviderIndex
) -> None:
    """Move the amounts of one class of one provider; changes ``after``.

    If nothing of the class stays, its reserved amount moves too.
    """
    source, name = origin
    before = index.nodes[source].inventories[name]
    moved = sum(move.amount for move in moves)
    present = after[source][name]
    kept = index.fields.get(origin, {}).get("total", before.total - moved)
    if present.total > moved:
        after[source][name] = _resize(present, present.total - moved)
    elif not kept:
        del after[source][name]
    reserved = 0
    if not kept and before.reserved:
        if len(moves) == 1:
            reserved = before.reserved
        elif not any("reserved" in index.fields.get(move.to, {}) for move in moves):
            index.add_problem(
                moves[0].line,
                f"{index.name_of(source)} reserves {before.reserved} {name}: say where that moves,"
                f" with inventories: {{{moves[0].to[1]}: {{reserved: {before.reserved}}}}} of the"
                " new provider",
            )
    for move in moves:
        uuid, becomes = move.to
        after[uuid][becomes] = _add(before, after[uuid].get(becomes), move, reserved)


#: The fields of an inventory that a new one takes from its source.
_INHERITED = ("min_unit", "max_unit", "step_size", "allocation_ratio")


def _check_sources(slot: Slot, moves: Sequence[InventoryMove], index: ProviderIndex) -> None:
    """Add a problem for fields in which the sources of a new inventory differ.

    A field that the document gives may differ.
    """
    uuid, name = slot
    if name in index.nodes[uuid].inventories:
        return
    inherited = [_inherited(move, index) for move in moves]
    for field in _INHERITED:
        values = {fields[field] for fields in inherited}
        if len(values) > 1 and field not in index.fields.get(slot, {}):
            sources = ", ".join(index.name_of(move.source[0]) for move in moves)
            index.add_problem(
                moves[-1].line,
                f"{index.name_of(uuid)} gets {name} from {sources}, whose {field} differ"
                f" ({', '.join(sorted(map(str, values)))}): give it, with"
                f" inventories: {{{name}: {{{field}: ...}}}}",
            )


def _inherited(move: InventoryMove, index: ProviderIndex) -> Mapping[str, int | float | str]:
    """The fields that a new inventory takes from one source; max_unit may be "the total"."""
    source, name = move.source
    item = index.nodes[source].inventories[name]
    if move.to[1] != name:
        item = inventory.Inventory(item.total, max_unit=item.total)
    max_unit = "the total" if item.max_unit == item.total else item.max_unit
    return {**item.as_dict(), "max_unit": max_unit}


def _with_total(
    item: inventory.Inventory | None, wanted: float | None
) -> inventory.Inventory | None:
    """The inventory with a given total; a new one has the defaults of the API."""
    if not wanted:
        return item
    total = int(wanted)
    return _resize(item, total) if item is not None else inventory.Inventory(total, max_unit=total)


def _resize(item: inventory.Inventory, total: int) -> inventory.Inventory:
    """The inventory with another total; a max_unit that was the total follows it."""
    max_unit = total if item.max_unit == item.total else item.max_unit
    return dataclasses.replace(item, total=total, max_unit=max_unit)


def _add(
    before: inventory.Inventory,
    item: inventory.Inventory | None,
    move: InventoryMove,
    reserved: int,
) -> inventory.Inventory:
    """The inventory of a slot after an amount was added."""
    if item is not None:
        grown = _resize(item, item.total + move.amount)
        return dataclasses.replace(grown, reserved=item.reserved + reserved)
    if move.to[1] != move.source[1]:
        return inventory.Inventory(move.amount, reserved, max_unit=move.amount)
    return dataclasses.replace(_resize(before, move.amount), reserved=reserved)
