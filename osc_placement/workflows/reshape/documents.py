# SPDX-License-Identifier: Apache-2.0
"""The parts of a document of moves, as values.

They name providers by name or UUID as the operator wrote them. ``line`` is the line in the file,
for errors that are found later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from jsonschema import exceptions

from osc_placement import errors
from osc_placement.model import inventory, name, yaml_lines

#: ``{field: value}`` of an inventory; only the fields that the operator gave.
Fields = Mapping[str, int | float]

#: In ``resources``: the whole total.
ALL = "all"

#: A parent that is not given: the provider that the resources come from.
DEFAULT_PARENT = ""

#: A template has these for the name of each tree's root.
ROOT_WORDS = ("${root}", "$root")


@dataclasses.dataclass(frozen=True, slots=True)
class MoveTarget:
    """The provider that resources move to: an existing one, or a described one.

    A ``described`` provider is created if it does not exist. ``parent`` None means a root.
    ``traits`` and ``aggregates`` are added, or replace those of the provider where ``only`` lists
    them; of a target tree it also lists ``inventories``. ``inventories`` has fields per class;
    ``total`` is the total after the moves, and 0 removes the inventory.
    """

    name: str
    uuid: str = ""
    parent: str | None = DEFAULT_PARENT
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    inventories: Mapping[str, Fields] = dataclasses.field(default_factory=dict)
    described: bool = False
    only: frozenset[str] = frozenset()
    line: int = 0

    @property
    def text(self) -> str:
        """The UUID or name that identifies it."""
        return self.uuid or self.name

    @property
    def names(self) -> tuple[str, ...]:
        """All names and UUIDs in it."""
        return self.uuid, self.name, self.parent or ""


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceMove:
    """Amounts of some classes that move from one provider to another.

    ``resources`` is ``{resource class: amount, or ALL}``; ``classes`` is ``{resource class: new
    class}`` for classes that change.
    """

    source: str
    resources: Mapping[str, int | str]
    target: MoveTarget
    classes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerEvidence:
    """The known targets of a consumer: ``{resource class, or "" for all: target}``.

    A target is given as a provider, or as the new class of the resources. ``parts`` is
    ``{resource class: {target: amount}}`` for a consumer with several targets.
    """

    consumer: str
    targets: Mapping[str, str]
    line: int = 0
    parts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Named:
    """A provider to rename or delete; ``name`` is the new name."""

    text: str
    name: str = ""
    line: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A whole document; ``source`` is the file's name. Renames come first, deletions last.

    ``providers`` are described without a move.
    """

    moves: tuple[ResourceMove, ...] = ()
    providers: tuple[MoveTarget, ...] = ()
    assign: tuple[ConsumerEvidence, ...] = ()
    rename: tuple[Named, ...] = ()
    delete: tuple[Named, ...] = ()
    source: str = ""

    @property
    def targets(self) -> tuple[MoveTarget, ...]:
        """All providers that resources move to or that are described."""
        return (*self.providers, *(move.target for move in self.moves))

    @property
    def names(self) -> list[str]:
        """The names and UUIDs that may belong to existing providers, without ``$root``."""
        texts = [move.source for move in self.moves]
        texts += [text for target in self.targets for text in target.names]
        for named in (*self.rename, *self.delete):
            texts += [named.text, named.name]
        return [
            text
            for text in dict.fromkeys(texts)
            if text and not any(word in text for word in ROOT_WORDS)
        ]

    @property
    def classes(self) -> set[str]:
        """The classes that the trees may not have: new ones of resources, and given totals."""
        with_total = {
            name
            for target in self.targets
            for name, fields in target.inventories.items()
            if fields.get("total")
        }
        return with_total | {name for move in self.moves for name in move.classes.values()}

    def at(self, line: int) -> str:
        """The location of a line, as the beginning of an error message."""
        return f"{self.source}:{line}: " if line else f"{self.source}: "


def parse(text: str, source: str) -> Document:
    """Read a document; ``source`` is its name in messages.

    Errors: InvalidInput with all errors, each with its line.
    """
    text_data = load(text, source, MOVES)
    assign, reasons = evidence(text_data, source)
    document = Document(
        moves=tuple(_move(text_data, at) for at in range(len(text_data.data["moves"]))),
        providers=tuple(
            target(item, text_data.line("providers", at))
            for at, item in enumerate(text_data.data.get("providers", ()))
        ),
        assign=assign,
        rename=tuple(
            Named(old, new, text_data.line("rename", old))
            for old, new in text_data.data.get("rename", {}).items()
        ),
        delete=tuple(
            Named(item, line=text_data.line("delete", at))
            for at, item in enumerate(text_data.data.get("delete", ()))
        ),
        source=source,
    )
    errors.InputErrors([*reasons, *_invalid_values(document)]).check()
    return document


def load(text: str, source: str, json_schema: Mapping[str, Any]) -> yaml_lines.Data:
    """Read a text and validate it. Errors: InvalidInput with all errors, each with its line."""
    text_data = yaml_lines.load(text, source)
    errors.InputErrors(
        f"{source}:{line}: {what}" for line, what in validate(text_data, json_schema)
    ).check()
    return text_data


def evidence(
    text_data: yaml_lines.Data, source: str
) -> tuple[tuple[ConsumerEvidence, ...], list[str]]:
    """The optional part ``assign``; and an error per consumer that is listed twice."""
    reasons = []
    by_consumer: dict[str, ConsumerEvidence] = {}
    for text, targets_of in text_data.data.get("assign", {}).items():
        consumer, line = name.canonical_uuid(text), text_data.line("assign", text)
        if consumer in by_consumer:
            reasons.append(f"{source}:{line}: consumer {consumer} is listed twice")
        by_class = {"": targets_of} if isinstance(targets_of, str) else targets_of
        targets = {key: value for key, value in by_class.items() if isinstance(value, str)}
        parts = {key: value for key, value in by_class.items() if not isinstance(value, str)}
        by_consumer[consumer] = ConsumerEvidence(consumer, targets, line, parts)
    return tuple(by_consumer.values()), reasons


def _move(text_data: yaml_lines.Data, position: int) -> ResourceMove:
    data = text_data.data["moves"][position]
    return ResourceMove(
        source=data["from"],
        resources=data["resources"],
        target=target(data["to"], text_data.line("moves", position, "to")),
        classes=data.get("as", {}),
        line=text_data.line("moves", position),
    )


def target(data: str | Mapping[str, Any], line: int) -> MoveTarget:
    """A provider as a document names or describes it."""
    if isinstance(data, str):
        return MoveTarget(data, line=line)
    uuid = data.get("uuid")
    return MoveTarget(
        name=data.get("name", ""),
        uuid=name.canonical_uuid(uuid) if uuid else "",
        parent=data.get("parent", DEFAULT_PARENT),
        traits=tuple(data.get("traits", ())),
        aggregates=tuple(data.get("aggregates", ())),
        inventories=data.get("inventories", {}),
        described=True,
        line=line,
    )


def _invalid_values(document: Document) -> Iterator[str]:
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


def invalid_memberships(target: MoveTarget, where: str) -> Iterator[str]:
    """Traits that are not trait names, aggregates that are not UUIDs."""
    for trait in target.traits:
        if not name.is_symbol(trait):
            yield f"{where}{trait!r} is not a trait name"
    for text in target.aggregates:
        if not name.is_uuid(text):
            yield f"{where}aggregate {text!r} is not a UUID"


_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_CLASS = "^[A-Z0-9_]+$"
_UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}

_CLASSES = {**_NAMES, "items": {"type": "string", "pattern": _CLASS}}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _mapping(pattern: str, value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "patternProperties": {pattern: value},
        "additionalProperties": False,
        **more,
    }


_AMOUNT = {"type": "integer", "minimum": 1, "maximum": inventory.MAX_AMOUNT}
_UNSIGNED = {"type": "integer", "minimum": 0, "maximum": inventory.MAX_AMOUNT}
_FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("min_unit", "max_unit", "step_size"), _AMOUNT),
        "reserved": _UNSIGNED,
        "allocation_ratio": {"type": "number", "exclusiveMinimum": 0},
    },
    "additionalProperties": False,
}
#: A total of 0 removes the inventory.
_FIELDS_AND_TOTAL = {
    **_FIELDS,
    "properties": {**_FIELDS["properties"], "total": _UNSIGNED},
}
_WHOLE_FIELDS = {
    **_FIELDS,
    "type": ["integer", "object"],
    "minimum": 1,
    "properties": {**_FIELDS["properties"], "total": _AMOUNT},
}

_IDENTITY = {"name": _NAME, "uuid": {"type": "string", "pattern": _UUID}}
_MEMBERSHIPS = {"traits": _NAMES, "aggregates": _NAMES}

_TARGET = {
    **_object(
        {
            **_IDENTITY,
            "parent": {"type": ["string", "null"], "minLength": 1},
            **_MEMBERSHIPS,
            "inventories": _mapping(_CLASS, _FIELDS_AND_TOTAL),
        }
    ),
    "type": ["string", "object"],
    "minLength": 1,
    "minProperties": 1,
}
_MOVE = _object(
    {
        "from": _NAME,
        "resources": _mapping(
            _CLASS,
            {"type": ["integer", "string"], "minimum": 1, "pattern": "^all$"},
            minProperties=1,
        ),
        "to": _TARGET,
        "as": _mapping(_CLASS, {"type": "string", "pattern": _CLASS}),
    },
    "from",
    "resources",
    "to",
)
_TARGETS = {
    "type": ["string", "object"],
    "minLength": 1,
    "minProperties": 1,
    "propertyNames": _NAME,
    "additionalProperties": _AMOUNT,
}
_ASSIGN = _mapping(
    _UUID,
    {**_mapping(_CLASS, _TARGETS, minProperties=1), "type": ["string", "object"], "minLength": 1},
)

#: A document of moves.
MOVES: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "The moves of openstack placement reshape",
    **_object(
        {
            "moves": {"type": "array", "items": _MOVE, "minItems": 1},
            "providers": {"type": "array", "items": {**_TARGET, "type": "object"}},
            "assign": _ASSIGN,
            "rename": {"type": "object", "additionalProperties": _NAME},
            "delete": _NAMES,
        },
        "moves",
    ),
}

_NODE = _object(
    {
        **_IDENTITY,
        **_MEMBERSHIPS,
        "inventories": _mapping(_CLASS, _WHOLE_FIELDS),
        "children": {"type": "array", "items": {"$ref": "#/$defs/provider"}},
    },
    "name",
)

#: A target tree.
TREE: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "The target tree of openstack placement reshape --to-tree",
    **_object(
        {
            "tree": {"$ref": "#/$defs/provider"},
            "assign": _ASSIGN,
            "change_totals": _CLASSES,
        },
        "tree",
    ),
    "$defs": {"provider": _NODE},
}


def validate(text_data: yaml_lines.Data, schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """``(line, message)`` of each violation of the schema, by line."""
    validator = jsonschema.Draft202012Validator(schema)
    messages = {
        (text_data.line(*error.absolute_path), _message(error))
        for error in validator.iter_errors(text_data.data)
    }
    yield from sorted(messages)


def _message(error: exceptions.ValidationError) -> str:
    value: Any = error.instance
    path = "".join(
        f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    )
    where = path.lstrip(".") or "the document"
    expected: Any = error.validator_value
    match error.validator:
        case "type":
            types = [expected] if isinstance(expected, str) else expected
            allowed = " or ".join(_TYPES[name] for name in types)
            return f"{where} is {_shown(value)} and must be {allowed}"
        case "additionalProperties":
            return f"{where}: {_unknown_keys(error)}"
        case "required":
            missing = [key for key in expected if key not in value]
            return f"{where} lacks {', '.join(missing)}"
        case "pattern" if expected == "^all$":
            return f"{where} is {value!r} and must be an amount, or all"
        case _:
            return f"{where}: {error.message}"


def _unknown_keys(error: exceptions.ValidationError) -> str:
    allowed: Any = error.schema
    properties = allowed.get("properties", {})
    patterns = allowed.get("patternProperties", {})
    value: Any = error.instance
    unknown = [key for key in value if key not in properties and not _matches(str(key), patterns)]
    what = ", ".join(map(repr, unknown))
    if properties:
        return f"unknown {what}: the keys are {', '.join(properties)}"
    return f"{what} is not a " + ("UUID" if _UUID in patterns else "resource class")


def _matches(key: str, patterns: Mapping[str, Any]) -> bool:
    validator = jsonschema.Draft202012Validator
    return any(validator({"pattern": pattern}).is_valid(key) for pattern in patterns)


_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}


def _shown(value: Any) -> str:
    for kind, type_ in (("object", dict), ("array", list), ("null", type(None))):
        if isinstance(value, type_):
            return _TYPES[kind]
    return repr(value)
