"""Fields that several schemas use."""

from __future__ import annotations

from typing import Any

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
