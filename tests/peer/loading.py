"""Brings a sample cloud into any Placement, over HTTP, as an operator's script would.

What the API cannot set (generations) is left to the caller: see ``target``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

#: ``send(method, path, body, version)``; raises when the answer is an error.
Send = Callable[[str, str, Any, str], Any]


def load(document: Mapping[str, Any], send: Send) -> None:
    """Write every provider and consumer of a sample cloud's document.

    Inventories come with a huge allocation ratio first: a real cloud may stand over its
    capacity, which the API lets nobody write.
    """
    for name in document["custom_resource_classes"]:
        send("PUT", f"/resource_classes/{name}", None, "1.39")
    for name in document["custom_traits"]:
        send("PUT", f"/traits/{name}", None, "1.39")
    for uuid, provider in parents_first(document["providers"]):
        _create(uuid, provider, send)
        _put_inventories(uuid, _roomy(provider["inventories"]), send)
    for uuid, consumer in document["consumers"].items():
        _allocate(uuid, consumer, send)
    for uuid, provider in document["providers"].items():
        _put_inventories(uuid, provider["inventories"], send)


def parents_first(providers: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """``(uuid, provider)``, each after its parent."""

    def depth(uuid: str | None) -> int:
        return 0 if uuid is None else 1 + depth(providers[uuid]["parent"])

    yield from sorted(providers.items(), key=lambda item: depth(item[0]))


def _create(uuid: str, provider: Mapping[str, Any], send: Send) -> None:
    body = {"uuid": uuid, "name": provider["name"]}
    if provider["parent"]:
        body["parent_provider_uuid"] = provider["parent"]
    path = f"/resource_providers/{uuid}"
    send("POST", "/resource_providers", body, "1.39")
    if provider["aggregates"]:
        send("PUT", f"{path}/aggregates", provider["aggregates"], "1.18")
    if provider["traits"]:
        body = {"resource_provider_generation": 0, "traits": provider["traits"]}
        send("PUT", f"{path}/traits", body, "1.39")


def _roomy(inventories: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            **inventory,
            "allocation_ratio": 1000.0,
            "reserved": 0,
            "min_unit": 1,
            "step_size": 1,
            "max_unit": 2147483647,
        }
        for name, inventory in inventories.items()
    }


def _put_inventories(uuid: str, inventories: Mapping[str, Any], send: Send) -> None:
    if not inventories:
        return
    path = f"/resource_providers/{uuid}"
    generation = send("GET", path, None, "1.39")["generation"]
    body = {"resource_provider_generation": generation, "inventories": inventories}
    send("PUT", f"{path}/inventories", body, "1.39")


def _allocate(uuid: str, consumer: Mapping[str, Any], send: Send) -> None:
    body = {
        "allocations": {
            provider: {"resources": resources}
            for provider, resources in consumer["allocations"].items()
        },
        "project_id": consumer["project"],
        "user_id": consumer["user"],
        "consumer_generation": None,
    }
    if consumer["type"] == "unknown":
        send("PUT", f"/allocations/{uuid}", body, "1.37")
    else:
        body["consumer_type"] = consumer["type"]
        send("PUT", f"/allocations/{uuid}", body, "1.39")
