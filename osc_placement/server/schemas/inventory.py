"""Schemas of inventories."""

from __future__ import annotations

from typing import Any

from osc_placement.server.schemas import field, validation

_FIELDS: dict[str, Any] = {
    "resource_provider_generation": field.INTEGER,
    "total": field.amount(1),
    "reserved": field.amount(0),
    "min_unit": field.amount(1),
    "max_unit": field.amount(1),
    "step_size": field.amount(1),
    "allocation_ratio": {"type": "number", "maximum": 3.40282e38},
}

ADD = validation.Schema(
    field.closed(
        {**_FIELDS, "resource_class": {"type": "string", "pattern": field.SYMBOL_PATTERN}},
        ["total", "resource_class"],
    )
)

REPLACE_ONE = validation.Schema(field.closed(_FIELDS, ["total", "resource_provider_generation"]))

#: All inventories of one provider; the reshaper uses the same schema.
DOCUMENT: dict[str, Any] = field.closed(
    {
        "resource_provider_generation": field.INTEGER,
        "inventories": {
            "type": "object",
            "patternProperties": {field.SYMBOL_PATTERN: field.closed(_FIELDS, ["total"])},
        },
    },
    ["resource_provider_generation", "inventories"],
)

REPLACE_ALL = validation.Schema(DOCUMENT)
