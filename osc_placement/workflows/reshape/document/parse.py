"""Reading a document of moves: YAML or JSON text in, values or all faults with lines out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import name
from osc_placement.workflows.reshape.document import schema, values, yaml_lines


def parse(text: str, source: str) -> values.Document:
    """The moves that a text asks for; ``source`` names it in faults.

    Errors: InvalidInput with every fault, each with its line.
    """
    faults = errors.InputErrors()
    found = read(text, source, schema.MOVES, faults)
    moves = tuple(_move(found, position) for position in range(len(found.data["moves"])))
    renames = found.data.get("rename", {})
    document = values.Document(
        moves=moves,
        providers=tuple(
            _target(told, found.line("providers", position))
            for position, told in enumerate(found.data.get("providers", ()))
        ),
        assign=evidence(found, source, faults),
        rename=tuple(
            values.Named(old, new, found.line("rename", old)) for old, new in renames.items()
        ),
        delete=tuple(
            values.Named(text, line=found.line("delete", position))
            for position, text in enumerate(found.data.get("delete", ()))
        ),
        source=source,
    )
    faults.reasons += _strange_names(document)
    faults.check()
    return document


def read(
    text: str, source: str, wanted: Mapping[str, Any], faults: errors.InputErrors
) -> yaml_lines.Marked:
    """Data that keep to a schema. Errors: InvalidInput with every fault and its line."""
    found = yaml_lines.load(text, source, faults)
    faults.check()
    for line, what in schema.faults(found, wanted):
        faults.add(f"{source}:{line}: {what}")
    faults.check()
    return found


def evidence(
    found: yaml_lines.Marked, source: str, faults: errors.InputErrors
) -> tuple[values.Evidence, ...]:
    """The part ``assign``, where there is one; a consumer that stands twice is a fault."""
    by_consumer: dict[str, values.Evidence] = {}
    for text, told in found.data.get("assign", {}).items():
        consumer, line = name.canonical_uuid(text), found.line("assign", text)
        if consumer in by_consumer:
            faults.add(f"{source}:{line}: consumer {consumer} stands here a second time")
        by_class = {"": told} if isinstance(told, str) else told
        targets = {key: where for key, where in by_class.items() if isinstance(where, str)}
        parts = {key: where for key, where in by_class.items() if not isinstance(where, str)}
        by_consumer[consumer] = values.Evidence(consumer, targets, line, parts)
    return tuple(by_consumer.values())


def _move(found: yaml_lines.Marked, position: int) -> values.Move:
    told = found.data["moves"][position]
    return values.Move(
        source=told["from"],
        resources=told["resources"],
        target=_target(told["to"], found.line("moves", position, "to")),
        classes=told.get("as", {}),
        line=found.line("moves", position),
    )


def _target(told: str | Mapping[str, Any], line: int) -> values.Target:
    if isinstance(told, str):
        return values.Target(told, line=line)
    uuid = told.get("uuid")
    return values.Target(
        name=told.get("name", ""),
        uuid=name.canonical_uuid(uuid) if uuid else "",
        parent=told.get("parent", values.UNSAID),
        traits=tuple(told.get("traits", ())),
        aggregates=tuple(told.get("aggregates", ())),
        inventories=told.get("inventories", {}),
        described=True,
        line=line,
    )


def _strange_names(document: values.Document) -> list[str]:
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


def strange_memberships(target: values.Target, where: str) -> list[str]:
    """Traits that cannot be names, aggregates that are no UUIDs."""
    faults = [
        f"{where}{trait!r} is no trait" for trait in target.traits if not name.is_symbol(trait)
    ]
    return faults + [
        f"{where}aggregate {text!r} is no UUID"
        for text in target.aggregates
        if not name.is_uuid(text)
    ]
