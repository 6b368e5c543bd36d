# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of request bodies and query strings, by the first microversion 1.x of each.

The schemas are interface: Placement prints them in its errors, with the keys in this order.
"""

from __future__ import annotations

from typing import Any

from osc_placement import microversion
from osc_placement.server import validation

UUID: dict[str, Any] = {"type": "string", "format": "uuid"}
UUID_OR_NULL: dict[str, Any] = {"anyOf": [UUID, {"type": "null"}]}
STRING: dict[str, Any] = {"type": "string"}
INTEGER: dict[str, Any] = {"type": "integer"}
OWNER: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 255}
UUID_PATTERN = "^[0-9a-fA-F-]{36}$"
SYMBOL_PATTERN = "^[A-Z0-9_]+$"
CONSUMER_TYPE: dict[str, Any] = {
    "type": "string",
    "pattern": SYMBOL_PATTERN,
    "minLength": 1,
    "maxLength": 255,
}


def amount(minimum: int) -> dict[str, Any]:
    """An integer that fits a signed 32-bit column."""
    return {"type": "integer", "maximum": 2147483647, "minimum": minimum}


def closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """An object with these properties only."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required is not None:
        schema["required"] = required
    schema["additionalProperties"] = False
    return schema


_INVENTORY_FIELDS: dict[str, Any] = {
    "resource_provider_generation": INTEGER,
    "total": amount(1),
    "reserved": amount(0),
    "min_unit": amount(1),
    "max_unit": amount(1),
    "step_size": amount(1),
    "allocation_ratio": {"type": "number", "maximum": 3.40282e38},
}

INVENTORY_ADD = validation.Schema(
    closed(
        {**_INVENTORY_FIELDS, "resource_class": {"type": "string", "pattern": SYMBOL_PATTERN}},
        ["total", "resource_class"],
    )
)

INVENTORY_REPLACE = validation.Schema(
    closed(_INVENTORY_FIELDS, ["total", "resource_provider_generation"])
)

#: All inventories of one provider; the reshaper uses the same schema.
_INVENTORIES: dict[str, Any] = closed(
    {
        "resource_provider_generation": INTEGER,
        "inventories": {
            "type": "object",
            "patternProperties": {SYMBOL_PATTERN: closed(_INVENTORY_FIELDS, ["total"])},
        },
    },
    ["resource_provider_generation", "inventories"],
)

INVENTORIES_REPLACE = validation.Schema(_INVENTORIES)


_NAME = {"type": "string", "maxLength": 200}
_PARENT = {"parent_provider_uuid": UUID_OR_NULL}

PROVIDER_CREATE = {
    0: validation.Schema(closed({"name": _NAME, "uuid": UUID}, ["name"])),
    14: validation.Schema(closed({"name": _NAME, "uuid": UUID, **_PARENT}, ["name"])),
}

PROVIDER_UPDATE = {
    0: validation.Schema(closed({"name": _NAME}, ["name"])),
    14: validation.Schema(closed({"name": _NAME, **_PARENT}, ["name"])),
}

#: Parameters with the first microversion 1.x of each.
_Parameters = tuple[tuple[int, str, dict[str, Any]], ...]

_OF_PROVIDERS: _Parameters = (
    (0, "name", STRING),
    (0, "uuid", UUID),
    (3, "member_of", STRING),
    (4, "resources", STRING),
    (14, "in_tree", UUID),
    (18, "required", STRING),
)


def _since(parameters: _Parameters, minor: int) -> dict[str, Any]:
    return {name: kind for since, name, kind in parameters if since <= minor}


def _minors(*parameters: _Parameters) -> list[int]:
    """The microversions that add one of these parameters: each one has a schema of its own."""
    return sorted({since for rows in parameters for since, _, _ in rows})


PROVIDERS_QUERY = {
    minor: validation.Schema(closed(_since(_OF_PROVIDERS, minor)), lenient_uuids=False)
    for minor in _minors(_OF_PROVIDERS)
}

_AGGREGATES = {"type": "array", "items": UUID, "uniqueItems": True}

AGGREGATES = {
    0: validation.Schema(_AGGREGATES),
    19: validation.Schema(
        closed(
            {"aggregates": _AGGREGATES, "resource_provider_generation": INTEGER},
            ["aggregates", "resource_provider_generation"],
        )
    ),
}

TRAITS = validation.Schema(
    closed(
        {
            "traits": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 255},
            },
            "resource_provider_generation": INTEGER,
        },
        ["traits", "resource_provider_generation"],
    )
)


_LIMIT = {
    "type": ["integer", "string"],
    "pattern": "^[1-9][0-9]*$",
    "minimum": 1,
    "minLength": 1,
}
_LISTED = {"type": ["string"]}

_OF_ONE_GROUP: _Parameters = (
    (10, "resources", STRING),
    (16, "limit", _LIMIT),
    (17, "required", _LISTED),
    (21, "member_of", _LISTED),
)
_OF_ALL_GROUPS: _Parameters = (
    (25, "limit", _LIMIT),
    (25, "group_policy", {"type": "string", "enum": ["none", "isolate"]}),
    (35, "root_required", _LISTED),
    (36, "same_subtree", _LISTED),
)
_OF_EACH_GROUP: _Parameters = (
    (25, "resources", STRING),
    (25, "required", STRING),
    (25, "member_of", STRING),
    (31, "in_tree", STRING),
)


#: The first microversion 1.x with suffixes that are not numbers.
_LONG_SUFFIXES = microversion.FEATURES["string suffixes"].minor


def _granular(minor: int) -> dict[str, Any]:
    """Queries with several request groups, by the suffixes of their parameters."""
    suffix = "([a-zA-Z0-9_-]{1,64})?$" if minor >= _LONG_SUFFIXES else "([1-9][0-9]*)?$"
    of_groups = _since(_OF_EACH_GROUP, minor)
    return {
        "type": "object",
        "properties": _since(_OF_ALL_GROUPS, minor),
        "additionalProperties": False,
        "patternProperties": {f"^{name}{suffix}": kind for name, kind in of_groups.items()},
    }


_GRANULAR = sorted({*_minors(_OF_ALL_GROUPS, _OF_EACH_GROUP), _LONG_SUFFIXES})

CANDIDATES_QUERY = {
    minor: validation.Schema(definition, lenient_uuids=False)
    for minor, definition in {
        **{n: closed(_since(_OF_ONE_GROUP, n), ["resources"]) for n in _minors(_OF_ONE_GROUP)},
        **{n: _granular(n) for n in _GRANULAR},
    }.items()
}

_RESOURCES = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {SYMBOL_PATTERN: {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}

_OWNER = {"project_id": OWNER, "user_id": OWNER}


def _list_form(owner: dict[str, Any]) -> dict[str, Any]:
    """Allocations as a list of providers, the form below 1.12."""
    entry = closed(
        {
            "resource_provider": {
                "type": "object",
                "properties": {"uuid": UUID},
                "additionalProperties": False,
                "required": ["uuid"],
            },
            "resources": _RESOURCES,
        },
        ["resource_provider", "resources"],
    )
    return closed(
        {"allocations": {"type": "array", "minItems": 1, "items": entry}, **owner},
        ["allocations", *owner],
    )


def _dict_form(minor: int, may_be_empty: bool) -> dict[str, Any]:
    """Allocations as ``{provider uuid: …}``; keys of newer microversions are last."""
    entry = closed({"generation": INTEGER, "resources": _RESOURCES}, ["resources"])
    properties: dict[str, Any] = {
        "allocations": {
            "type": "object",
            "minProperties": 0 if may_be_empty else 1,
            "patternProperties": {UUID_PATTERN: entry},
            "additionalProperties": False,
        },
        **_OWNER,
    }
    required = ["allocations", *_OWNER]
    if minor >= 28:
        properties["consumer_generation"] = {
            "type": ["integer", "null"],
            "additionalProperties": False,
        }
        required.append("consumer_generation")
    if minor >= 34:
        properties["mappings"] = {
            "type": "object",
            "minProperties": 1,
            "patternProperties": {
                "[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": UUID}
            },
        }
    if minor >= 38:
        properties["consumer_type"] = CONSUMER_TYPE
        required.append("consumer_type")
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": required,
    }


def _many(minor: int) -> dict[str, Any]:
    return {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "patternProperties": {UUID_PATTERN: _dict_form(minor, may_be_empty=True)},
    }


def _reshape(minor: int) -> dict[str, Any]:
    return closed(
        {
            "inventories": {
                "type": "object",
                "patternProperties": {UUID_PATTERN: _INVENTORIES},
                "minProperties": 1,
                "additionalProperties": False,
            },
            "allocations": {**_many(minor), "minProperties": 0},
        },
        ["inventories", "allocations"],
    )


ALLOCATIONS_WRITE = {
    0: validation.Schema(_list_form({})),
    8: validation.Schema(_list_form(_OWNER)),
    12: validation.Schema(_dict_form(12, may_be_empty=False)),
    28: validation.Schema(_dict_form(28, may_be_empty=True)),
    34: validation.Schema(_dict_form(34, may_be_empty=True)),
    38: validation.Schema(_dict_form(38, may_be_empty=True)),
}

ALLOCATIONS_WRITE_MANY = {minor: validation.Schema(_many(minor)) for minor in (13, 28, 34, 38)}

RESHAPE = {minor: validation.Schema(_reshape(minor)) for minor in (30, 34, 38)}
