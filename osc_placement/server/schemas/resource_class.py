"""Schema of custom resource classes."""

from __future__ import annotations

from osc_placement.server.schemas import field, validation

CREATE = validation.Schema(
    field.closed(
        {"name": {"type": "string", "pattern": "^CUSTOM_[A-Z0-9_]+$", "maxLength": 255}},
        ["name"],
    )
)
