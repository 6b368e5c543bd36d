"""Schemas of allocations: one consumer, several consumers, the reshaper."""

from __future__ import annotations

from typing import Any

from osc_placement.server.schemas import field, inventory, validation

_RESOURCES = {
    "type": "object",
    "minProperties": 1,
    "patternProperties": {field.SYMBOL_PATTERN: {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}

_OWNER = {"project_id": field.OWNER, "user_id": field.OWNER}


def _list_form(owner: dict[str, Any]) -> dict[str, Any]:
    """Allocations as a list of providers, the form below 1.12."""
    entry = field.closed(
        {
            "resource_provider": {
                "type": "object",
                "properties": {"uuid": field.UUID},
                "additionalProperties": False,
                "required": ["uuid"],
            },
            "resources": _RESOURCES,
        },
        ["resource_provider", "resources"],
    )
    return field.closed(
        {"allocations": {"type": "array", "minItems": 1, "items": entry}, **owner},
        ["allocations", *owner],
    )


def _dict_form(minor: int, may_be_empty: bool) -> dict[str, Any]:
    """Allocations as ``{provider uuid: …}``; keys of newer microversions are last."""
    entry = field.closed({"generation": field.INTEGER, "resources": _RESOURCES}, ["resources"])
    properties: dict[str, Any] = {
        "allocations": {
            "type": "object",
            "minProperties": 0 if may_be_empty else 1,
            "patternProperties": {field.UUID_PATTERN: entry},
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
                "[a-zA-Z0-9_-]{1,64}": {"type": "array", "minItems": 1, "items": field.UUID}
            },
        }
    if minor >= 38:
        properties["consumer_type"] = field.CONSUMER_TYPE
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
        "patternProperties": {field.UUID_PATTERN: _dict_form(minor, may_be_empty=True)},
    }


def _reshape(minor: int) -> dict[str, Any]:
    return field.closed(
        {
            "inventories": {
                "type": "object",
                "patternProperties": {field.UUID_PATTERN: inventory.DOCUMENT},
                "minProperties": 1,
                "additionalProperties": False,
            },
            "allocations": {**_many(minor), "minProperties": 0},
        },
        ["inventories", "allocations"],
    )


WRITE_ONE = {
    0: validation.Schema(_list_form({})),
    8: validation.Schema(_list_form(_OWNER)),
    12: validation.Schema(_dict_form(12, may_be_empty=False)),
    28: validation.Schema(_dict_form(28, may_be_empty=True)),
    34: validation.Schema(_dict_form(34, may_be_empty=True)),
    38: validation.Schema(_dict_form(38, may_be_empty=True)),
}

WRITE_MANY = {minor: validation.Schema(_many(minor)) for minor in (13, 28, 34, 38)}

RESHAPE = {minor: validation.Schema(_reshape(minor)) for minor in (30, 34, 38)}
