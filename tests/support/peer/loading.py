# SPDX-License-Identifier: Apache-2.0
"""Loads a sample cloud into any Placement over HTTP.

The caller sets generations, which the API cannot set: see ``target``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: ``send(method, path, body, version)``; raises on an error response.
Send = Callable[[str, str, Any, str], Any]


def load(document: Mapping[str, Any], send: Send) -> None:
    """Write every provider and consumer of a sample cloud's document.

    A provider with consumers starts with a huge capacity: a real cloud may exceed its capacity,
    which no write can. Sends about four requests per provider.
    """
    for name in document["custom_resource_classes"]:
        send("PUT", f"/resource_classes/{name}", None, "1.39")
    for name in document["custom_traits"]:
        send("PUT", f"/traits/{name}", None, "1.39")
    consumers = document["consumers"]
    used = {uuid for consumer in consumers.values() for uuid in consumer["allocations"]}
    for uuid, provider in parents_first(document["providers"]):
        _create(uuid, provider, uuid in used, send)
    for version, body_of in (("1.37", _untyped), ("1.39", _typed)):
        body = {uuid: body_of(consumer) for uuid, consumer in consumers.items()}
        body = {uuid: consumer for uuid, consumer in body.items() if consumer}
        if body:
            send("POST", "/allocations", body, version)
    listed = send("GET", "/resource_providers", None, "1.39")["resource_providers"]
    for entry in listed:
        if entry["uuid"] in used:
            inventories = document["providers"][entry["uuid"]]["inventories"]
            _put_inventories(entry["uuid"], entry["generation"], inventories, send)


def parents_first(providers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """``(uuid, provider)``, each after its parent."""

    def depth(uuid: str | None) -> int:
        return 0 if uuid is None else 1 + depth(providers[uuid]["parent"])

    yield from sorted(providers.items(), key=lambda item: depth(item[0]))


def _create(uuid: str, provider: Mapping[str, Any], roomy: bool, send: Send) -> None:
    body = {"uuid": uuid, "name": provider["name"]}
    if provider["parent"]:
        body["parent_provider_uuid"] = provider["parent"]
    path = f"/resource_providers/{uuid}"
    generation = send("POST", "/resource_providers", body, "1.39")["generation"]
    if provider["aggregates"]:
        send("PUT", f"{path}/aggregates", provider["aggregates"], "1.18")
    if provider["traits"]:
        body = {"resource_provider_generation": generation, "traits": provider["traits"]}
        answer = send("PUT", f"{path}/traits", body, "1.39")
        generation = answer["resource_provider_generation"]
    if provider["inventories"]:
        inventories = provider["inventories"]
        _put_inventories(uuid, generation, _roomy(inventories) if roomy else inventories, send)


def _roomy(inventories: Mapping[str, Any]) -> dict[str, Any]:
    room = {"allocation_ratio": 1000.0, "reserved": 0, "min_unit": 1, "step_size": 1}
    return {
        name: {**inventory, **room, "max_unit": 2147483647}
        for name, inventory in inventories.items()
    }


def _put_inventories(
    uuid: str, generation: int, inventories: Mapping[str, Any], send: Send
) -> None:
    body = {"resource_provider_generation": generation, "inventories": inventories}
    send("PUT", f"/resource_providers/{uuid}/inventories", body, "1.39")


def _untyped(consumer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The body of a consumer with unknown type, which only 1.37 and older can write."""
    return _body(consumer) if consumer["type"] == "unknown" else None


def _typed(consumer: Mapping[str, Any]) -> dict[str, Any] | None:
    if consumer["type"] == "unknown":
        return None
    return {**_body(consumer), "consumer_type": consumer["type"]}


def _body(consumer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "allocations": {
            provider: {"resources": resources}
            for provider, resources in consumer["allocations"].items()
        },
        "project_id": consumer["project"],
        "user_id": consumer["user"],
        "consumer_generation": None,
    }
