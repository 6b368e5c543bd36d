"""The schema of a document of moves and of a wanted tree, and its faults in plain words.

Published in the documentation (``doc/source/user/reshape.schema.json``; a test holds the
two together).
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


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    found["additionalProperties"] = False
    return {**found, "required": list(required)} if required else found


def _by(pattern: str, value: dict[str, Any], **more: Any) -> dict[str, Any]:
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
_WHOLE_FIELDS = {
    **_FIELDS,
    "type": ["integer", "object"],
    "minimum": 1,
    "properties": {**_FIELDS["properties"], "total": _AMOUNT},
}

_ABOUT = {"name": _NAME, "uuid": {"type": "string", "pattern": _UUID}}
_MEMBERSHIPS = {"traits": _NAMES, "aggregates": _NAMES}

_TARGET = {
    **_object(
        {
            **_ABOUT,
            "parent": {"type": ["string", "null"], "minLength": 1},
            **_MEMBERSHIPS,
            "inventories": _by(_CLASS, _FIELDS),
        }
    ),
    "type": ["string", "object"],
    "minLength": 1,
    "minProperties": 1,
}
_MOVE = _object(
    {
        "from": _NAME,
        "resources": _by(
            _CLASS,
            {"type": ["integer", "string"], "minimum": 1, "pattern": "^all$"},
            minProperties=1,
        ),
        "to": _TARGET,
        "as": _by(_CLASS, {"type": "string", "pattern": _CLASS}),
    },
    "from",
    "resources",
    "to",
)
_PLACES = {
    "type": ["string", "object"],
    "minLength": 1,
    "minProperties": 1,
    "propertyNames": _NAME,
    "additionalProperties": _AMOUNT,
}
_ASSIGN = _by(
    _UUID,
    {**_by(_CLASS, _PLACES, minProperties=1), "type": ["string", "object"], "minLength": 1},
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
        **_ABOUT,
        **_MEMBERSHIPS,
        "inventories": _by(_CLASS, _WHOLE_FIELDS),
        "children": {"type": "array", "items": {"$ref": "#/$defs/provider"}},
    },
    "name",
)

#: A wanted tree.
TREE: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A wanted tree of openstack placement reshape --to-tree",
    **_object({"tree": {"$ref": "#/$defs/provider"}, "assign": _ASSIGN}, "tree"),
    "$defs": {"provider": _NODE},
}


def faults(found: yaml_lines.Marked, schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """``(line, what is wrong)`` of everything that the schema does not allow, by line."""
    validator = jsonschema.Draft202012Validator(schema)
    told = [
        (found.line(*error.absolute_path), _plainly(error))
        for error in validator.iter_errors(found.data)
    ]
    yield from sorted(set(told))


def _plainly(error: exceptions.ValidationError) -> str:
    seen: Any = error.instance
    where = "".join(
        f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    )
    named = where.lstrip(".") or "the document"
    wanted: Any = error.validator_value
    match error.validator:
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            return f"{named} is {_kind(seen)} and must be {_either(kinds)}"
        case "additionalProperties":
            return f"{named}: {_unknown(error)}"
        case "required":
            missing = [key for key in wanted if key not in seen]
            return f"{named} lacks {', '.join(missing)}"
        case "pattern" if wanted == "^all$":
            return f"{named} is {seen!r} and must be an amount, or all"
        case _:
            return f"{named}: {error.message}"


def _unknown(error: exceptions.ValidationError) -> str:
    allowed: Any = error.schema
    known = allowed.get("properties", {})
    patterns = allowed.get("patternProperties", {})
    seen: Any = error.instance
    unknown = [key for key in seen if key not in known and not _matches(str(key), patterns)]
    what = ", ".join(map(repr, unknown))
    if known:
        return f"{what} is not known here: there are {', '.join(known)}"
    return f"{what} is no " + ("UUID" if _UUID in patterns else "resource class")


def _matches(key: str, patterns: Mapping[str, Any]) -> bool:
    validator = jsonschema.Draft202012Validator
    return any(validator({"pattern": pattern}).is_valid(key) for pattern in patterns)


_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}


def _either(kinds: list[str]) -> str:
    return " or ".join(_KINDS[kind] for kind in kinds)


def _kind(value: Any) -> str:
    for kind, type_ in (("object", dict), ("array", list), ("null", type(None))):
        if isinstance(value, type_):
            return _KINDS[kind]
    return repr(value)
