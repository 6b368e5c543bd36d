"""Schemas of resource providers, their aggregates and traits."""

from __future__ import annotations

from osc_placement.server.schemas import field, validation

CREATE = {
    0: validation.Schema(
        field.closed({"name": {"type": "string", "maxLength": 200}, "uuid": field.UUID}, ["name"])
    ),
    14: validation.Schema(
        field.closed(
            {
                "name": {"type": "string", "maxLength": 200},
                "uuid": field.UUID,
                "parent_provider_uuid": field.UUID_OR_NULL,
            },
            ["name"],
        )
    ),
}

UPDATE = {
    0: validation.Schema(field.closed({"name": {"type": "string", "maxLength": 200}}, ["name"])),
    14: validation.Schema(
        field.closed(
            {
                "name": {"type": "string", "maxLength": 200},
                "parent_provider_uuid": field.UUID_OR_NULL,
            },
            ["name"],
        )
    ),
}

_QUERY_FIELDS = (
    (0, "name", field.STRING),
    (0, "uuid", field.UUID),
    (3, "member_of", field.STRING),
    (4, "resources", field.STRING),
    (14, "in_tree", field.UUID),
    (18, "required", field.STRING),
)

QUERY = {
    minor: validation.Schema(
        field.closed({name: kind for since, name, kind in _QUERY_FIELDS if since <= minor}),
        lenient_uuids=False,
    )
    for minor in (0, 3, 4, 14, 18)
}

_AGGREGATES = {"type": "array", "items": field.UUID, "uniqueItems": True}

AGGREGATES = {
    0: validation.Schema(_AGGREGATES),
    19: validation.Schema(
        field.closed(
            {"aggregates": _AGGREGATES, "resource_provider_generation": field.INTEGER},
            ["aggregates", "resource_provider_generation"],
        )
    ),
}

TRAITS = validation.Schema(
    field.closed(
        {
            "traits": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 255},
            },
            "resource_provider_generation": field.INTEGER,
        },
        ["traits", "resource_provider_generation"],
    )
)
