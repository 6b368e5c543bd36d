# SPDX-License-Identifier: Apache-2.0
"""Parts of the JSON schemas of states, plan files and journals."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
OPTIONAL_TEXT: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
AMOUNT: Schema = {"type": "integer", "minimum": 0}
#: The fields of an inventory, all or some.
FIELDS: Schema = {"type": "object", "additionalProperties": {"type": "number"}}
#: A complete inventory.
INVENTORY: Schema = {**FIELDS, "required": ["total"]}


def array(items: Schema) -> Schema:
    """A list of items of one form."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """``{any name: value}`` with values of one form."""
    return {"type": "object", "additionalProperties": values}


def record(optional: Schema | None = None, /, **required: Schema) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def nullable(form: Schema) -> Schema:
    """An object of a form, or null."""
    return {**form, "type": ["object", "null"]}


#: ``{provider uuid: {resource class: amount}}``
ALLOCATIONS = mapping(mapping(AMOUNT))
