"""Reading a document of moves: YAML or JSON text to values, or all errors with their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import name
from osc_placement.workflows.reshape.document import schema, values, yaml_lines


def parse(text: str, source: str) -> values.Document:
    """Read a document; ``source`` is its name in messages.

    Errors: InvalidInput with all errors, each with its line.
    """
    problems = errors.InputErrors()
    found = read(text, source, schema.MOVES, problems)
    document = values.Document(
        moves=tuple(_move(found, at) for at in range(len(found.data["moves"]))),
        providers=tuple(
            _target(item, found.line("providers", at))
            for at, item in enumerate(found.data.get("providers", ()))
        ),
        assign=evidence(found, source, problems),
        rename=tuple(
            values.Named(old, new, found.line("rename", old))
            for old, new in found.data.get("rename", {}).items()
        ),
        delete=tuple(
            values.Named(item, line=found.line("delete", at))
            for at, item in enumerate(found.data.get("delete", ()))
        ),
        source=source,
    )
    problems.reasons += _invalid_values(document)
    problems.check()
    return document


def read(
    text: str, source: str, json_schema: Mapping[str, Any], problems: errors.InputErrors
) -> yaml_lines.Data:
    """Read a text and validate it. Errors: InvalidInput with all errors, each with its line."""
    found = yaml_lines.load(text, source, problems)
    problems.check()
    for line, what in schema.validate(found, json_schema):
        problems.add(f"{source}:{line}: {what}")
    problems.check()
    return found


def evidence(
    found: yaml_lines.Data, source: str, problems: errors.InputErrors
) -> tuple[values.Evidence, ...]:
    """The optional part ``assign``. A consumer that is listed twice is an error."""
    by_consumer: dict[str, values.Evidence] = {}
    for text, given in found.data.get("assign", {}).items():
        consumer, line = name.canonical_uuid(text), found.line("assign", text)
        if consumer in by_consumer:
            problems.add(f"{source}:{line}: consumer {consumer} is listed twice")
        by_class = {"": given} if isinstance(given, str) else given
        targets = {key: value for key, value in by_class.items() if isinstance(value, str)}
        parts = {key: value for key, value in by_class.items() if not isinstance(value, str)}
        by_consumer[consumer] = values.Evidence(consumer, targets, line, parts)
    return tuple(by_consumer.values())


def _move(found: yaml_lines.Data, position: int) -> values.Move:
    data = found.data["moves"][position]
    return values.Move(
        source=data["from"],
        resources=data["resources"],
        target=_target(data["to"], found.line("moves", position, "to")),
        classes=data.get("as", {}),
        line=found.line("moves", position),
    )


def _target(data: str | Mapping[str, Any], line: int) -> values.Target:
    if isinstance(data, str):
        return values.Target(data, line=line)
    uuid = data.get("uuid")
    return values.Target(
        name=data.get("name", ""),
        uuid=name.canonical_uuid(uuid) if uuid else "",
        parent=data.get("parent", values.DEFAULT_PARENT),
        traits=tuple(data.get("traits", ())),
        aggregates=tuple(data.get("aggregates", ())),
        inventories=data.get("inventories", {}),
        described=True,
        line=line,
    )


def _invalid_values(document: values.Document) -> Iterator[str]:
    """Errors that the schema does not find."""
    for move in document.moves:
        for resource_class in move.classes:
            if resource_class not in move.resources:
                yield f"{document.at(move.line)}as: {resource_class} is not among the resources"
    for target in document.targets:
        where = document.at(target.line)
        if target.described and not (target.name or target.uuid):
            yield f"{where}a provider has neither a name nor a uuid"
        yield from invalid_memberships(target, where)


def invalid_memberships(target: values.Target, where: str) -> Iterator[str]:
    """Traits that are not trait names, aggregates that are not UUIDs."""
    for trait in target.traits:
        if not name.is_symbol(trait):
            yield f"{where}{trait!r} is not a trait name"
    for text in target.aggregates:
        if not name.is_uuid(text):
            yield f"{where}aggregate {text!r} is not a UUID"
