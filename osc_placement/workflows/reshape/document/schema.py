"""The schemas of documents of moves and of target trees, and validation with plain messages.

The documentation publishes them in ``doc/source/user/reshape/reshape.schema.json`` and
``reshape-tree.schema.json``; a test compares both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
from jsonschema import exceptions

from osc_placement.model import inventory
from osc_placement.workflows.reshape.document import yaml_lines

_NAME = {"type": "string", "minLength": 1, "maxLength": 200}
_CLASS = "^[A-Z0-9_]+$"
_UUID = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}

_CLASSES = {**_NAMES, "items": {"type": "string", "pattern": _CLASS}}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


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


def validate(found: yaml_lines.Data, schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """``(line, message)`` of each violation of the schema, by line."""
    validator = jsonschema.Draft202012Validator(schema)
    messages = {
        (found.line(*error.absolute_path), _message(error))
        for error in validator.iter_errors(found.data)
    }
    yield from sorted(messages)


def _message(error: exceptions.ValidationError) -> str:
    found: Any = error.instance
    path = "".join(
        f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    )
    where = path.lstrip(".") or "the document"
    expected: Any = error.validator_value
    match error.validator:
        case "type":
            types = [expected] if isinstance(expected, str) else expected
            allowed = " or ".join(_TYPES[name] for name in types)
            return f"{where} is {_shown(found)} and must be {allowed}"
        case "additionalProperties":
            return f"{where}: {_unknown_keys(error)}"
        case "required":
            missing = [key for key in expected if key not in found]
            return f"{where} lacks {', '.join(missing)}"
        case "pattern" if expected == "^all$":
            return f"{where} is {found!r} and must be an amount, or all"
        case _:
            return f"{where}: {error.message}"


def _unknown_keys(error: exceptions.ValidationError) -> str:
    allowed: Any = error.schema
    known = allowed.get("properties", {})
    patterns = allowed.get("patternProperties", {})
    found: Any = error.instance
    unknown = [key for key in found if key not in known and not _matches(str(key), patterns)]
    what = ", ".join(map(repr, unknown))
    if known:
        return f"unknown {what}: the keys are {', '.join(known)}"
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
    for name, type_ in (("object", dict), ("array", list), ("null", type(None))):
        if isinstance(value, type_):
            return _TYPES[name]
    return repr(value)
