"""Reading a document of moves: YAML or JSON text in, values or all faults with lines out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osc_placement.client import fault
from osc_placement.model import name
from osc_placement.workflows.reshape import marked, move, schema


def parse(text: str, source: str) -> move.Document:
    """The moves that a text asks for; ``source`` names it in faults.

    Errors: InvalidInput with every fault, each with its line.
    """
    faults = fault.Faults()
    found = read(text, source, schema.MOVES, faults)
    moves = tuple(_move(found, position) for position in range(len(found.data["moves"])))
    renames = found.data.get("rename", {})
    document = move.Document(
        moves=moves,
        providers=tuple(
            _target(told, found.line("providers", position))
            for position, told in enumerate(found.data.get("providers", ()))
        ),
        assign=evidence(found, source, faults),
        rename=tuple(
            move.Named(old, new, found.line("rename", old)) for old, new in renames.items()
        ),
        delete=tuple(
            move.Named(text, line=found.line("delete", position))
            for position, text in enumerate(found.data.get("delete", ()))
        ),
        source=source,
    )
    faults.reasons += _strange_names(document)
    faults.check()
    return document


def read(text: str, source: str, wanted: Mapping[str, Any], faults: fault.Faults) -> marked.Marked:
    """Data that keep to a schema. Errors: InvalidInput with every fault and its line."""
    found = marked.load(text, source, faults)
    faults.check()
    for line, what in schema.faults(found, wanted):
        faults.add(f"{source}:{line}: {what}")
    faults.check()
    return found


def evidence(found: marked.Marked, source: str, faults: fault.Faults) -> tuple[move.Evidence, ...]:
    """The part ``assign``, where there is one; a consumer that stands twice is a fault."""
    by_consumer: dict[str, move.Evidence] = {}
    for text, told in found.data.get("assign", {}).items():
        consumer, line = name.canonical_uuid(text), found.line("assign", text)
        if consumer in by_consumer:
            faults.add(f"{source}:{line}: consumer {consumer} stands here a second time")
        by_class = {"": told} if isinstance(told, str) else told
        targets = {key: where for key, where in by_class.items() if isinstance(where, str)}
        parts = {key: where for key, where in by_class.items() if not isinstance(where, str)}
        by_consumer[consumer] = move.Evidence(consumer, targets, line, parts)
    return tuple(by_consumer.values())


def _move(found: marked.Marked, position: int) -> move.Move:
    told = found.data["moves"][position]
    return move.Move(
        source=told["from"],
        resources=told["resources"],
        target=_target(told["to"], found.line("moves", position, "to")),
        classes=told.get("as", {}),
        line=found.line("moves", position),
    )


def _target(told: str | Mapping[str, Any], line: int) -> move.Target:
    if isinstance(told, str):
        return move.Target(told, line=line)
    uuid = told.get("uuid")
    return move.Target(
        name=told.get("name", ""),
        uuid=name.canonical_uuid(uuid) if uuid else "",
        parent=told.get("parent", move.UNSAID),
        traits=tuple(told.get("traits", ())),
        aggregates=tuple(told.get("aggregates", ())),
        inventories=told.get("inventories", {}),
        described=True,
        line=line,
    )


def _strange_names(document: move.Document) -> list[str]:
    """What no cloud can have, though the schema allows it."""
    faults = []
    for item in document.moves:
        where = document.at(item.line)
        faults += [
            f"{where}as: {resource_class} is not among the resources"
            for resource_class in item.classes
            if resource_class not in item.resources
        ]
    for target in (*(item.target for item in document.moves), *document.providers):
        where = document.at(target.line)
        if target.described and not (target.name or target.uuid):
            faults.append(f"{where}a provider has neither a name nor a uuid")
        faults += strange_memberships(target, where)
    return faults


def strange_memberships(target: move.Target, where: str) -> list[str]:
    """Traits that cannot be names, aggregates that are no UUIDs."""
    faults = [
        f"{where}{trait!r} is no trait" for trait in target.traits if not name.is_symbol(trait)
    ]
    return faults + [
        f"{where}aggregate {text!r} is no UUID"
        for text in target.aggregates
        if not name.is_uuid(text)
    ]
