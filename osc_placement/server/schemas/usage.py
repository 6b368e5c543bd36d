"""Schemas of usage queries."""

from __future__ import annotations

from osc_placement.server.schemas import field, validation

_OWNERS = {"project_id": field.OWNER, "user_id": field.OWNER}

QUERY = {
    9: validation.Schema(field.closed(_OWNERS, ["project_id"])),
    38: validation.Schema(
        field.closed(
            {
                **_OWNERS,
                "consumer_type": {
                    "type": "string",
                    "pattern": "^[A-Z0-9_]+$|^all|^unknown$",
                    "minLength": 1,
                    "maxLength": 255,
                },
            },
            ["project_id"],
        )
    ),
}
