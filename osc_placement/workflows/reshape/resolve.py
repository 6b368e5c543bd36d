# SPDX-License-Identifier: Apache-2.0
"""Resolves a reshape document against a snapshot: texts to providers, moves to amounts. Pure.

A described provider that does not exist gets a UUID that follows from its name::

    {from: cn1, resources: {VGPU: all}, to: {name: cn1_gpu}}     cn1 has 8 VGPU, reserved 2
    move         8 VGPU from cn1 to cn1_gpu, a new child of cn1
    inventories  cn1 has no VGPU; cn1_gpu has 8 VGPU, reserved 2, with the other fields of cn1's
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.model.name import canonical_uuid, is_uuid
from osc_placement.search.placing import Slot
from osc_placement.workflows.reshape import documents, snapshot

_HINT = "'openstack resource provider list' shows all providers"


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryMove:
    """An amount of the total of one class that moves from one provider (UUID) to another.

    ``becomes`` is its class on the target.
    """

    source: str
    resource_class: str
    amount: int
    target: str
    becomes: str
    line: int = 0

    @property
    def source_slot(self) -> Slot:
        return self.source, self.resource_class

    @property
    def target_slot(self) -> Slot:
        return self.target, self.becomes


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A document with UUIDs and amounts.

    ``nodes`` are the providers of the named trees after the reshape, with the usage before it.
    ``fields`` are the inventory fields that the document gives. ``growth`` is how much the
    totals that the document sets differ from those after the moves; negative if less.
    ``deleted`` are the UUIDs of providers that are deleted once they are empty. ``new_names`` are
    the UUIDs and names of providers to create.
    """

    document: documents.Document
    nodes: Mapping[str, snapshot.Node]
    moves: tuple[InventoryMove, ...]
    fields: Mapping[Slot, documents.Fields] = dataclasses.field(default_factory=dict)
    growth: Mapping[Slot, int] = dataclasses.field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    new_names: frozenset[str] = frozenset()

    def name_of(self, uuid: str) -> str:
        """The name of a provider after the reshape."""
        return self.nodes[uuid].provider.name

    def names(self) -> dict[str, str]:
        """``{provider uuid: name}`` after the reshape."""
        return {uuid: node.provider.name for uuid, node in self.nodes.items()}


def resolve(
    document: documents.Document,
    before: snapshot.TreeSnapshot,
    taken: Collection[str] = (),
) -> tuple[Resolved, list[str]]:
    """Resolve all providers and amounts of a document; and what is wrong with the inventories.

    ``taken`` are the UUIDs and names that a new provider must not have. Errors: InvalidInput with
    all reasons if providers or amounts cannot be resolved.
    """
    index = ProviderIndex(document, before)
    for target in document.providers:
        index.add(target, None)
    for item in document.moves:
        index.add(item.target, item.source)
    index.set_parents()
    requested = [move for item in document.moves for move in _moves(item, index)]
    for named in document.rename:
        index.rename(named)
    index.check_names()
    index.check_new(taken)
    deleted = {index.find(item.text, item.line) for item in document.delete}
    moves = tuple(_merge(_with_amounts(requested, index)))
    for move in _circular(moves):
        what = f"{move.resource_class} of {index.name_of(move.source)}"
        index.add_problem(move.line, f"{what} would return to its own provider")
    errors.InputErrors(index.reasons).check()
    inventories = _inventories(moves, index)
    resolved = Resolved(
        document,
        {
            uuid: dataclasses.replace(node, inventories=inventories[uuid])
            for uuid, node in index.nodes.items()
        },
        moves,
        index.fields,
        _growth(moves, index),
        frozenset(filter(None, deleted)),
        frozenset(text for pair in index.new.items() for text in pair),
    )
    return resolved, index.reasons


class ProviderIndex:
    """The providers of the named trees by name and UUID, including those to create."""

    def __init__(
        self,
        document: documents.Document,
        before: snapshot.TreeSnapshot,
    ) -> None:
        # A new dict: what the document describes is added to it.
        self.nodes = before.inside
        self.fields: dict[Slot, dict[str, int | float]] = {}
        self._existing = dict(self.nodes)
        self.reasons: list[str] = []
        self._document = document
        self._by_name = {node.provider.name: uuid for uuid, node in self.nodes.items()}
        self._parents: dict[str, tuple[str | None, int]] = {}
        self._renamed: set[str] = set()
        self._renames = {item.text: item.name for item in document.rename}

    def find(self, text: str, line: int) -> str | None:
        """The UUID of a provider; adds an error if it does not exist."""
        uuid = self.uuid_of(text)
        if uuid is None:
            self.add_problem(line, f"provider {text!r} does not exist: {_HINT}")
        return uuid

    def uuid_of(self, text: str) -> str | None:
        """The UUID of the provider with this name or UUID, None if it does not exist."""
        if text in self._by_name:
            return self._by_name[text]
        uuid = canonical_uuid(text) if is_uuid(text) else ""
        return uuid if uuid in self.nodes else None

    def add_problem(self, line: int, what: str) -> None:
        """Add an error of the document."""
        self.reasons.append(self._document.at(line) + what)

    def name_of(self, uuid: str) -> str:
        return self.nodes[uuid].provider.name

    def add(self, target: documents.MoveTarget, source: str | None) -> None:
        """Add a target, existing or described; ``source`` is the provider that moves to it."""
        uuid = self.uuid_of(target.text)
        if uuid is None and not target.described:
            self.add_problem(
                target.line,
                f"provider {target.name!r} does not exist: {_HINT}; to create it,"
                f" describe it: {{name: {target.name}}}",
            )
            return
        if uuid is None:
            uuid = self._create(target, source)
        else:
            self._check_existing(uuid, target, source)
        if uuid is not None:
            self._describe(uuid, target)

    def _describe(self, uuid: str, target: documents.MoveTarget) -> None:
        """Apply the traits, aggregates and inventory fields of a description."""
        node = self.nodes[uuid]
        aggregates = {canonical_uuid(text) for text in target.aggregates}
        self.nodes[uuid] = dataclasses.replace(
            node,
            traits=frozenset(target.traits)
            | (frozenset() if "traits" in target.only else node.traits),
            aggregates=frozenset(aggregates)
            | (frozenset() if "aggregates" in target.only else node.aggregates),
        )
        for resource_class, fields in target.inventories.items():
            described = self.fields.setdefault((uuid, resource_class), {})
            for field, value in fields.items():
                if described.setdefault(field, value) != value:
                    what = f"{field} of {resource_class} of {self.name_of(uuid)}"
                    self.add_problem(
                        target.line, f"{what} is given as {described[field]} and {value}"
                    )

    def _check_existing(self, uuid: str, target: documents.MoveTarget, source: str | None) -> None:
        """Check that a description and the existing provider are the same."""
        name = self.name_of(uuid)
        renamed = self._renames.get(name) or self._renames.get(uuid)
        if target.uuid and target.name and target.name not in (name, renamed):
            self.add_problem(
                target.line, f"provider {uuid} has the name {name!r}, not {target.name!r}"
            )
        origin = self.uuid_of(source or "")
        has_parent = not target.described or target.parent != documents.DEFAULT_PARENT
        if has_parent or uuid not in self._existing or origin not in self._existing:
            return
        # A child that is described without its parent is expected in the tree of the source.
        root = self._existing[uuid].provider.root_uuid
        if root not in (None, uuid) and root != self._existing[origin].provider.root_uuid:
            self.add_problem(
                target.line,
                f"{name!r} exists in another tree: give another name, or its parent if you mean"
                " that provider",
            )

    def _create(self, target: documents.MoveTarget, source: str | None) -> str | None:
        """Add a described provider that does not exist. None if that is an error."""
        if not target.name:
            self.add_problem(
                target.line, f"provider {target.uuid} does not exist: to create it, give its name"
            )
            return None
        uuid = target.uuid or snapshot.new_uuid(target.name)
        if uuid in self.nodes:
            self.add_problem(
                target.line,
                f"{self.name_of(uuid)!r} has the UUID that {target.name!r} would get: give one",
            )
            return None
        self.nodes[uuid] = snapshot.Node(provider.Provider(uuid, target.name, 0, None, None))
        owner = self._by_name.setdefault(target.name, uuid)
        if owner != uuid and not {target.name, owner} & self._renames.keys():
            self.add_problem(target.line, f"there is another provider {target.name!r}")
        parent = source if target.parent == documents.DEFAULT_PARENT else target.parent
        self._parents[uuid] = parent, target.line
        return uuid

    def set_parents(self) -> None:
        """Set the parent of each target, when all targets are known."""
        described: dict[str, tuple[str | None, int]] = {}
        for target in self._document.targets:
            uuid = self.uuid_of(target.text)
            if uuid is None or target.parent == documents.DEFAULT_PARENT:
                continue
            first = described.setdefault(uuid, (target.parent, target.line))[0]
            if self.uuid_of(first or "") != self.uuid_of(target.parent or ""):
                what = f"{first or 'no provider'} and {target.parent or 'no provider'}"
                self.add_problem(target.line, f"{self.name_of(uuid)} has two parents, {what}")
        self._parents |= described
        for uuid, (text, line) in self._parents.items():
            parent = None if text is None else self.find(text, line)
            if text is None or parent is not None:
                node = self.nodes[uuid]
                placed = dataclasses.replace(node.provider, parent_uuid=parent)
                self.nodes[uuid] = dataclasses.replace(node, provider=placed)
        for uuid, (_, line) in self._parents.items():
            if uuid in self._ancestors(uuid):
                self.add_problem(line, f"{self.name_of(uuid)} would be its own ancestor")

    def _ancestors(self, uuid: str) -> set[str]:
        ancestors: set[str] = set()
        parent = self.nodes[uuid].provider.parent_uuid
        while parent is not None and parent not in ancestors:
            ancestors.add(parent)
            parent = self.nodes[parent].provider.parent_uuid
        return ancestors

    def rename(self, named: documents.Named) -> None:
        """Give a provider another name."""
        uuid = self.find(named.text, named.line)
        if uuid is None:
            return
        node = self.nodes[uuid]
        if uuid in self._renamed:
            self.add_problem(named.line, f"{node.provider.name} is renamed twice")
        self._renamed.add(uuid)
        renamed = dataclasses.replace(node.provider, name=named.name)
        self.nodes[uuid] = dataclasses.replace(node, provider=renamed)

    def check_names(self) -> None:
        """Check that no two providers have the same name, before, during or after the plan."""
        owners: dict[str, str] = {}
        for uuid, node in self.nodes.items():
            if owners.setdefault(node.provider.name, uuid) != uuid:
                self.add_problem(0, f"two providers would have the name {node.provider.name!r}")
        before = {node.provider.name: uuid for uuid, node in self._existing.items()}
        for uuid, node in self.nodes.items():
            name = node.provider.name
            owner = before.get(name, uuid)
            if owner == uuid or self.name_of(owner) == name:
                continue
            # All renames are one stage, and come before providers are created or get new parents.
            if uuid in self._existing or self._has_new_parent(owner):
                what = self._existing[uuid].provider.name if uuid in self._existing else "a new one"
                self.add_problem(
                    0,
                    f"{what} cannot take the name {name!r} in the same plan: rename the other"
                    " provider before",
                )

    @property
    def new(self) -> dict[str, str]:
        """``{uuid: name}`` of the providers to create."""
        return {uuid: self.name_of(uuid) for uuid in self.nodes.keys() - self._existing.keys()}

    def check_new(self, taken: Collection[str]) -> None:
        """Check that the providers to create take no name and no UUID of another tree."""
        for uuid, name in sorted(self.new.items()):
            if uuid in taken or name in taken:
                self.reasons.append(
                    f"another provider has or gets the name {name!r} or its UUID: put $root into"
                    " its name, and give no uuid"
                )

    def _has_new_parent(self, uuid: str) -> bool:
        before, after = self._existing[uuid].provider, self.nodes[uuid].provider
        return before.parent_uuid != after.parent_uuid


def _moves(item: documents.ResourceMove, index: ProviderIndex) -> Iterator[InventoryMove]:
    """The inventory moves of one move; an amount of 0 stands for ``all``."""
    source, target = index.find(item.source, item.line), index.uuid_of(item.target.text)
    if source is None or target is None:
        return
    offered = index.nodes[source].inventories
    for name, amount in item.resources.items():
        becomes = item.classes.get(name, name)
        if (source, name) == (target, becomes):
            index.add_problem(item.line, f"{name} would move from {item.source} to itself")
        elif name not in offered:
            present = ", ".join(sorted(offered)) or "no inventory"
            index.add_problem(item.line, f"{item.source} has no {name}: it has {present}")
        else:
            number = 0 if amount == documents.ALL else int(amount)
            yield InventoryMove(source, name, number, target, becomes, item.line)


def _with_amounts(moves: Iterable[InventoryMove], index: ProviderIndex) -> Iterator[InventoryMove]:
    """The moves with their amounts; ``all`` is what the other moves leave."""
    by_source: dict[Slot, list[InventoryMove]] = {}
    for move in moves:
        by_source.setdefault(move.source_slot, []).append(move)
    for (source, name), group in by_source.items():
        total = index.nodes[source].inventories[name].total
        left = total - sum(move.amount for move in group)
        count_all = sum(not move.amount for move in group)
        if left < 0 or count_all > 1 or (count_all and not left):
            what = f"{index.name_of(source)} has {total} {name}"
            index.add_problem(group[-1].line, f"{what}, and {_excess(left, count_all)}")
            continue
        for move in group:
            yield move if move.amount else dataclasses.replace(move, amount=left)


def _excess(left: int, count_all: int) -> str:
    if left < 0:
        return f"the moves need {-left} more"
    return "more than one move takes all" if count_all > 1 else "nothing is left for 'all'"


def _merge(moves: Iterable[InventoryMove]) -> Iterable[InventoryMove]:
    """One move for each source slot and target slot."""
    merged: dict[tuple[Slot, Slot], InventoryMove] = {}
    for move in moves:
        key = move.source_slot, move.target_slot
        amount = move.amount + (merged[key].amount if key in merged else 0)
        merged[key] = dataclasses.replace(merged.get(key, move), amount=amount)
    return merged.values()


def _circular(moves: Sequence[InventoryMove]) -> Iterator[InventoryMove]:
    """The moves that lead back to their origin, directly or over other moves."""
    target_slots: dict[Slot, set[Slot]] = {}
    for move in moves:
        target_slots.setdefault(move.source_slot, set()).add(move.target_slot)
    for move in moves:
        reached = pending = {move.target_slot}
        while pending:
            pending = set().union(*(target_slots.get(slot, ()) for slot in pending)) - reached
            reached = reached | pending
        if move.source_slot in reached:
            yield move


def _growth(moves: Iterable[InventoryMove], index: ProviderIndex) -> dict[Slot, int]:
    """``Resolved.growth``: the totals that the document sets, minus those after the moves."""
    growth: dict[Slot, int] = {}
    for (uuid, resource_class), fields in index.fields.items():
        if "total" in fields:
            item = index.nodes[uuid].inventories.get(resource_class)
            before = item.total if item is not None else 0
            growth[uuid, resource_class] = int(fields["total"]) - before
    for move in moves:
        if move.source_slot in growth:
            growth[move.source_slot] += move.amount
        if move.target_slot in growth:
            growth[move.target_slot] -= move.amount
    return {slot: amount for slot, amount in growth.items() if amount}


#: ``{provider uuid: {class: inventory}}``
Inventories = dict[str, dict[str, inventory.Inventory]]


def _inventories(moves: Iterable[InventoryMove], index: ProviderIndex) -> Inventories:
    """The inventories of the named trees after the reshape; adds what is wrong with them."""
    after = {uuid: dict(node.inventories) for uuid, node in index.nodes.items()}
    by_source: dict[Slot, list[InventoryMove]] = {}
    by_target: dict[Slot, list[InventoryMove]] = {}
    for move in moves:
        by_source.setdefault(move.source_slot, []).append(move)
        by_target.setdefault(move.target_slot, []).append(move)
    for target_slot, moves_to in by_target.items():
        _check_sources(target_slot, moves_to, index)
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
        elif not any("reserved" in index.fields.get(move.target_slot, {}) for move in moves):
            index.add_problem(
                moves[0].line,
                f"{index.name_of(source)} reserves {before.reserved} {name}: say where that moves,"
                f" with inventories: {{{moves[0].becomes}: {{reserved: {before.reserved}}}}} of a"
                " target",
            )
    for move in moves:
        item = after[move.target].get(move.becomes)
        after[move.target][move.becomes] = _add(before, item, move, reserved)


#: The fields of an inventory that a new one takes from its source.
_INHERITED = ("min_unit", "max_unit", "step_size", "allocation_ratio")


def _check_sources(target_slot: Slot, moves: Sequence[InventoryMove], index: ProviderIndex) -> None:
    """Add a problem for fields in which the sources of a new inventory differ.

    A field that the document gives may differ.
    """
    target, name = target_slot
    if name in index.nodes[target].inventories:
        return
    inherited = [_inherited(move, index) for move in moves]
    for field in _INHERITED:
        values = {fields[field] for fields in inherited}
        if len(values) > 1 and field not in index.fields.get(target_slot, {}):
            sources = ", ".join(index.name_of(move.source) for move in moves)
            index.add_problem(
                moves[-1].line,
                f"{index.name_of(target)} gets {name} from {sources}, whose {field} differ"
                f" ({', '.join(sorted(map(str, values)))}): give it, with"
                f" inventories: {{{name}: {{{field}: ...}}}}",
            )


def _inherited(move: InventoryMove, index: ProviderIndex) -> Mapping[str, int | float | str]:
    """The fields that a new inventory takes from one source; max_unit may be "the total"."""
    item = index.nodes[move.source].inventories[move.resource_class]
    if move.becomes != move.resource_class:
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
    """The inventory of a target after an amount was added."""
    if item is not None:
        grown = _resize(item, item.total + move.amount)
        return dataclasses.replace(grown, reserved=item.reserved + reserved)
    if move.becomes != move.resource_class:
        return inventory.Inventory(move.amount, reserved, max_unit=move.amount)
    return dataclasses.replace(_resize(before, move.amount), reserved=reserved)
