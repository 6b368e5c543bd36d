"""One document in one picture, from names to places: everything that is decided. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement import errors
from osc_placement.model import inventory, provider
from osc_placement.plan import change, guards
from osc_placement.workflows.reshape import (
    assign,
    changes as compiling,
    consumers as reshape_consumers,
    invariants,
    inventories as reshape_inventories,
    nova_owned,
    resolve,
    snapshot,
)
from osc_placement.workflows.reshape.document import template, values

_NOTHING_THERE = "it has nothing of what is to be moved"


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """What shall stand where: inventories by provider, and every demand placed."""

    meant: resolve.Wanted
    inventories: Mapping[str, inventory.Inventories]
    placed: Sequence[reshape_consumers.Placed]

    @property
    def classes(self) -> dict[str, str]:
        """The classes that declared changes join."""
        return invariants.joined(
            (shift.resource_class, shift.becomes) for shift in self.meant.shifts
        )


def decide(
    document: values.Document,
    seen: snapshot.TreeSnapshot,
    manner: assign.AssignOptions,
    allow: Collection[str] = (),
) -> Decided:
    """Everything about one document. Errors: InvalidInput with all that is wrong with it."""
    faults = errors.InputErrors()
    meant = resolve.resolve(document, seen, faults)
    faults.check()
    inventories = reshape_inventories.inventories(meant, faults)
    faults.reasons += _undeletable(seen, meant, inventories)
    if guards.NOVA_OWNED not in allow:
        faults.reasons += nova_owned.refusals(seen, meant)
    demands = reshape_consumers.demands(seen, meant, inventories, faults)
    faults.check()
    placed = assign.solve(demands, seen, meant, inventories, manner, faults)
    faults.check()
    decided = Decided(meant, inventories, placed)
    after = compiling.after(seen, meant, inventories, placed)
    faults.reasons += _misplaced(after, placed)
    faults.reasons += invariants.broken(seen, after, decided.classes)
    faults.reasons += invariants.strayed(seen, after, map(_places, meant.shifts), meant.fields)
    faults.check()
    return decided


def decide_each(
    document: values.Document,
    roots: Sequence[provider.Provider],
    seen: snapshot.TreeSnapshot,
    manner: assign.AssignOptions,
    allow: Collection[str] = (),
) -> tuple[list[Decided], list[change.Skipped]]:
    """A document with ``$root`` in the tree of each of ``roots``.

    A tree that cannot be reshaped is a remark, and stops no other. Errors: InvalidInput for
    evidence on a consumer that is in none of them.
    """
    _check_evidence(document, seen)
    trees = split(seen)
    taken = {text for uuid, node in seen.nodes.items() for text in (uuid, node.provider.name)}
    decided, remarks = [], []
    for item in sorted(roots, key=lambda one: (one.name, one.uuid)):
        alone = trees[item.root_uuid or item.uuid]
        own = _with_own_evidence(template.filled(document, item.name), alone)
        if not _offers_any(own, alone):
            remarks.append(_remark(item, _NOTHING_THERE))
            continue
        try:
            found = decide(own, alone, manner, allow)
            taken |= _made(found, alone, taken)
            decided.append(found)
        except errors.InvalidInput as error:
            remarks.append(_remark(item, "; ".join(error.reasons), refused=True))
    return decided, remarks


def _made(found: Decided, alone: snapshot.TreeSnapshot, taken: Collection[str]) -> set[str]:
    """UUIDs and names of what would be made in a tree. Errors: InvalidInput if they are taken."""
    made = {
        uuid: node.provider.name
        for uuid, node in found.meant.nodes.items()
        if uuid not in alone.nodes
    }
    errors.InputErrors(
        f"there is or would be another provider {name!r}, or one with its UUID: say $root in its"
        " name, and give it no uuid"
        for uuid, name in made.items()
        if {uuid, name} & set(taken)
    ).check()
    return {*made, *made.values()}


def together(decided: Sequence[Decided]) -> Decided:
    """What was decided tree by tree, as one."""
    meant = resolve.Wanted(
        decided[0].meant.document if len(decided) == 1 else values.Document(),
        {uuid: node for item in decided for uuid, node in item.meant.nodes.items()},
        tuple(shift for item in decided for shift in item.meant.shifts),
        deleted=frozenset().union(*(item.meant.deleted for item in decided)),
    )
    inventories = {uuid: has for item in decided for uuid, has in item.inventories.items()}
    return Decided(meant, inventories, [one for item in decided for one in item.placed])


def split(seen: snapshot.TreeSnapshot) -> dict[str, snapshot.TreeSnapshot]:
    """``{root uuid: the picture of that tree alone}``, with what its consumers touch."""
    consumers: dict[str, dict[str, object]] = {root: {} for root in seen.roots}
    nodes: dict[str, dict[str, snapshot.Node]] = {root: {} for root in seen.roots}
    for uuid, node in seen.inside():
        nodes[seen.root_of(uuid)][uuid] = node
    for uuid, consumer in seen.consumers.items():
        touched = {key: seen.nodes[key] for key in consumer.allocations}
        for root in {seen.root_of(key) for key in touched} & seen.roots:
            consumers[root][uuid] = consumer
            nodes[root] |= touched
    return {
        root: seen.replace(nodes=nodes[root], roots=frozenset({root}), consumers=consumers[root])
        for root in seen.roots
    }


def restricted(seen: snapshot.TreeSnapshot, meant: resolve.Wanted) -> snapshot.TreeSnapshot:
    """The picture with those trees as named ones that something is decided about."""
    roots = frozenset(root for root in seen.roots if root in meant.nodes)
    inside = {uuid for uuid, _ in seen.inside() if seen.root_of(uuid) in roots}
    consumers = {
        uuid: consumer
        for uuid, consumer in seen.consumers.items()
        if inside & consumer.allocations.keys()
    }
    told = inside.union(*(consumer.allocations.keys() for consumer in consumers.values()))
    nodes = {
        uuid: node if uuid in told else snapshot.Node(node.provider)
        for uuid, node in seen.nodes.items()
    }
    return seen.replace(nodes=nodes, roots=roots, consumers=consumers)


def _undeletable(
    seen: snapshot.TreeSnapshot,
    meant: resolve.Wanted,
    inventories: Mapping[str, inventory.Inventories],
) -> Iterator[str]:
    """Why what shall go cannot: it keeps something, or something stands below it.

    Nor can it be made or changed before, since a plan says of each thing one thing only.
    """
    for uuid in sorted(meant.deleted):
        name = meant.nodes[uuid].provider.name
        below = [
            node.provider.name
            for node in meant.nodes.values()
            if node.provider.parent_uuid == uuid and node.provider.uuid not in meant.deleted
        ]
        where = meant.document.at(0)
        if inventories[uuid]:
            kept = ", ".join(sorted(inventories[uuid]))
            yield f"{where}{name} cannot go: it keeps {kept}; move that too"
        if below:
            yield f"{where}{name} cannot go: {', '.join(sorted(below))} stands below it"
        if uuid not in seen.nodes:
            yield f"{where}{name} cannot go: it is not there, and would be made for that"
        elif _described(meant.nodes[uuid]) != _described(seen.nodes[uuid]):
            yield f"{where}{name} cannot be changed and deleted at once: do one of it before"


def _misplaced(
    after: snapshot.TreeSnapshot, placed: Sequence[reshape_consumers.Placed]
) -> Iterator[str]:
    """Consumers that would not have what was decided where it was, or against the evidence."""
    for item in placed:
        target, asked = item.option.target, item.demand
        has = after.consumers[asked.consumer].allocations.get(target, {})
        there = all(has.get(name, 0) >= amount for name, amount in asked.at(item.option).items())
        if not there or asked.assigned not in (None, item.option):
            yield f"consumer {asked.consumer} would not be where it belongs"


def _places(shift: resolve.InventoryMove) -> tuple[invariants.Place, invariants.Place, int]:
    """From where to where a shift goes, and how much of it."""
    source, target = (shift.source, shift.resource_class), (shift.target, shift.becomes)
    return source, target, shift.amount


def _described(node: snapshot.Node) -> tuple[object, ...]:
    """What a description may change of a provider."""
    item = node.provider
    return item.name, item.parent_uuid, node.traits, node.aggregates


def _check_evidence(document: values.Document, seen: snapshot.TreeSnapshot) -> None:
    errors.InputErrors(
        f"{document.at(item.line)}consumer {item.consumer} has nothing of the selected trees"
        for item in document.assign
        if item.consumer not in seen.consumers
    ).check()


def _with_own_evidence(document: values.Document, alone: snapshot.TreeSnapshot) -> values.Document:
    own = tuple(item for item in document.assign if item.consumer in alone.consumers)
    return document.replace(assign=own)


def _offers_any(document: values.Document, alone: snapshot.TreeSnapshot) -> bool:
    """Whether a tree has anything of what shall be moved in it."""
    offered = {
        (text, resource_class)
        for uuid, node in alone.inside()
        for text in (node.provider.name, uuid)
        for resource_class in node.inventories
    }
    return any(
        (item.source, resource_class) in offered
        for item in document.moves
        for resource_class in item.resources
    )


def _remark(item: provider.Provider, reason: str, *, refused: bool = False) -> change.Skipped:
    subject = change.Subject(item.name, item.uuid)
    return change.Skipped(change.RESHAPE, subject, {}, {}, reason, refused=refused)
