# SPDX-License-Identifier: Apache-2.0
"""A slow, plain reading of a Placement: the document that a snapshot of it must have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: ``ask("GET", "/traits")`` is the parsed JSON of a successful request at 1.39.
Ask = Callable[[str, str], Any]


def read(ask: Ask) -> dict[str, Any]:
    """The state in the form of ``App.export``, one request after the other."""
    providers = {
        item["uuid"]: _provider(ask, item)
        for item in ask("GET", "/resource_providers")["resource_providers"]
    }
    consumers = dict.fromkeys(
        consumer
        for uuid in providers
        for consumer in ask("GET", f"/resource_providers/{uuid}/allocations")["allocations"]
    )
    classes = [item["name"] for item in ask("GET", "/resource_classes")["resource_classes"]]
    return {
        "custom_resource_classes": [name for name in classes if name.startswith("CUSTOM_")],
        "custom_traits": ask("GET", "/traits?name=startswith:CUSTOM_")["traits"],
        "providers": providers,
        "consumers": {uuid: _consumer(ask, uuid) for uuid in consumers},
    }


def _provider(ask: Ask, item: dict[str, Any]) -> dict[str, Any]:
    path = f"/resource_providers/{item['uuid']}"
    inventories = ask("GET", f"{path}/inventories")["inventories"]
    return {
        "name": item["name"],
        "parent": item["parent_provider_uuid"],
        "root": item["root_provider_uuid"],
        "generation": item["generation"],
        "inventories": inventories,
        "traits": sorted(ask("GET", f"{path}/traits")["traits"]),
        "aggregates": ask("GET", f"{path}/aggregates")["aggregates"],
    }


def _consumer(ask: Ask, uuid: str) -> dict[str, Any]:
    body = ask("GET", f"/allocations/{uuid}")
    return {
        "allocations": {key: part["resources"] for key, part in body["allocations"].items()},
        "generation": body["consumer_generation"],
        "project": body["project_id"],
        "user": body["user_id"],
        "type": body["consumer_type"],
    }


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the order of names and aggregates, which means nothing."""
    return {
        **document,
        "custom_resource_classes": sorted(document["custom_resource_classes"]),
        "custom_traits": sorted(document["custom_traits"]),
        "providers": {
            uuid: {**one, "aggregates": sorted(one["aggregates"]), "traits": sorted(one["traits"])}
            for uuid, one in document["providers"].items()
        },
    }
