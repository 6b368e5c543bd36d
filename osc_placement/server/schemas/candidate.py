"""Schemas of allocation candidates queries."""

from __future__ import annotations

from typing import Any

from osc_placement.server.schemas import field, validation

_LIMIT = {
    "type": ["integer", "string"],
    "pattern": "^[1-9][0-9]*$",
    "minimum": 1,
    "minLength": 1,
}
_LISTED = {"type": ["string"]}
_NUMBERED = "([1-9][0-9]*)?$"
_NAMED = "([a-zA-Z0-9_-]{1,64})?$"


def _single(*more: tuple[str, Any]) -> validation.Schema:
    """Queries with one request group."""
    return validation.Schema(
        field.closed({"resources": field.STRING, **dict(more)}, ["resources"]),
        lenient_uuids=False,
    )


def _granular(suffix: str, keys: tuple[str, ...], *more: tuple[str, Any]) -> validation.Schema:
    return validation.Schema(
        {
            "type": "object",
            "properties": {
                "limit": _LIMIT,
                "group_policy": {"type": "string", "enum": ["none", "isolate"]},
                **dict(more),
            },
            "additionalProperties": False,
            "patternProperties": {f"^{key}{suffix}": field.STRING for key in keys},
        },
        lenient_uuids=False,
    )


_KEYS = ("resources", "required", "member_of")
_TREE_KEYS = (*_KEYS, "in_tree")

QUERY = {
    10: _single(),
    16: _single(("limit", _LIMIT)),
    17: _single(("limit", _LIMIT), ("required", _LISTED)),
    21: _single(("limit", _LIMIT), ("required", _LISTED), ("member_of", _LISTED)),
    25: _granular(_NUMBERED, _KEYS),
    31: _granular(_NUMBERED, _TREE_KEYS),
    33: _granular(_NAMED, _TREE_KEYS),
    35: _granular(_NAMED, _TREE_KEYS, ("root_required", _LISTED)),
    36: _granular(_NAMED, _TREE_KEYS, ("root_required", _LISTED), ("same_subtree", _LISTED)),
}
