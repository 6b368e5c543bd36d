# SPDX-License-Identifier: Apache-2.0
"""The JSON of each microversion: ``*_body`` builds request bodies, ``read_*`` parses responses.

A body of another shape raises LookupError, TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.client import responses
from osc_placement.model import allocation, inventory, provider, shared

Json = Any


def _text(value: Json) -> str:
    """Errors: TypeError for what is no text: such a UUID would fail somewhere else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _text_or_none(value: Json) -> str | None:
    return None if value is None else _text(value)


def read_provider(body: Json, updated: str | None = None) -> provider.Provider:
    """One provider; ``updated`` is the last-modified header."""
    return provider.Provider(
        uuid=_text(body["uuid"]),
        name=_text(body["name"]),
        generation=int(body["generation"]),
        root_uuid=_text_or_none(body.get("root_provider_uuid")),
        parent_uuid=_text_or_none(body.get("parent_provider_uuid")),
        updated=updated,
    )


def read_providers(body: Json) -> list[provider.Provider]:
    """A listing, in the server's order."""
    return [read_provider(item) for item in body["resource_providers"]]


def read_all_providers(body: Json) -> list[provider.Provider]:
    """A listing without filters: whole trees. Errors: ValueError for a tree without its root."""
    providers = read_providers(body)
    uuids = {item.uuid for item in providers}
    for item in providers:
        if not uuids.issuperset(filter(None, (item.root_uuid, item.parent_uuid))):
            raise ValueError(f"the root or the parent of {item.uuid} is not in the listing")
    return providers


def provider_body(name: str, **fields: str | None) -> dict[str, Json]:
    """For POST and PUT; a parent of None makes the provider a root."""
    return {"name": name, **fields}


def read_inventories(body: Json) -> responses.ProviderInventories:
    """``{resource class: Inventory}`` of a provider."""
    return responses.ProviderInventories(
        generation=body["resource_provider_generation"],
        inventories={
            resource_class: inventory.Inventory.from_dict(fields)
            for resource_class, fields in body["inventories"].items()
        },
    )


def read_inventory(body: Json) -> inventory.Inventory:
    """The inventory of one class, without the provider's generation."""
    return inventory.Inventory.from_dict(body)


def inventories_body(generation: int, inventories: inventory.Inventories) -> dict[str, Json]:
    """For PUT of all inventories, and for each provider of POST /reshaper."""
    return {
        "resource_provider_generation": generation,
        "inventories": {name: item.as_dict() for name, item in inventories.items()},
    }


def inventory_body(generation: int, item: inventory.Inventory) -> dict[str, Json]:
    """For PUT of the inventory of one class."""
    return {"resource_provider_generation": generation, **item.as_dict()}


def read_aggregates(body: Json) -> responses.ProviderAggregates:
    """The aggregates of a provider; with a generation from 1.19."""
    return responses.ProviderAggregates(
        body.get("resource_provider_generation"), tuple(map(_text, body["aggregates"]))
    )


def aggregates_body(
    generation: int | None, aggregates: Iterable[str], version: microversion.Microversion
) -> Json:
    """A list below 1.19; from 1.19 an object with the provider's generation."""
    if not microversion.supports(version, "aggregate generation"):
        return list(aggregates)
    return {"resource_provider_generation": generation, "aggregates": list(aggregates)}


def read_traits(body: Json) -> responses.ProviderTraits:
    """The traits of a provider."""
    return responses.ProviderTraits(
        body["resource_provider_generation"], tuple(map(_text, body["traits"]))
    )


def traits_body(generation: int, traits: Iterable[str]) -> dict[str, Json]:
    """For PUT of a provider's traits."""
    return {"resource_provider_generation": generation, "traits": list(traits)}


def read_provider_allocations(body: Json) -> responses.ProviderAllocations:
    """``{consumer uuid: ProviderAllocation}`` of a provider."""
    return responses.ProviderAllocations(
        generation=body["resource_provider_generation"],
        allocations={
            consumer: responses.ProviderAllocation(
                shared.intern_mapping(item["resources"]), item.get("consumer_generation")
            )
            for consumer, item in body["allocations"].items()
        },
    )


def read_consumer(uuid: str, body: Json) -> allocation.Consumer:
    """A consumer of GET /allocations/{uuid}."""
    return allocation.Consumer(
        uuid=uuid,
        allocations={
            provider_uuid: shared.intern_mapping(item["resources"])
            for provider_uuid, item in body["allocations"].items()
        },
        project_id=body.get("project_id"),
        user_id=body.get("user_id"),
        generation=body.get("consumer_generation"),
        consumer_type=body.get("consumer_type"),
    )


def read_consumer_allocations(uuid: str, body: Json) -> responses.ConsumerAllocations:
    """A consumer of GET /allocations/{uuid}, with the generations of its providers."""
    generations = {key: item["generation"] for key, item in body["allocations"].items()}
    return responses.ConsumerAllocations(read_consumer(uuid, body), generations)


def consumer_body(
    consumer: allocation.Consumer,
    version: microversion.Microversion,
    mappings: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Json]:
    """For PUT /allocations/{uuid}, and for each consumer of POST /allocations and /reshaper.

    Allocations are a list below 1.12, then an object. Owner from 1.8, consumer generation
    from 1.28, ``mappings`` from 1.34, consumer type from 1.38.
    """
    body: dict[str, Json] = {"allocations": _allocations(consumer.allocations, version)}
    if microversion.supports(version, "allocation project and user"):
        body.update(project_id=consumer.project_id, user_id=consumer.user_id)
    if microversion.supports(version, "consumer generation"):
        body["consumer_generation"] = consumer.generation
    if mappings is not None and microversion.supports(version, "candidate mappings"):
        body["mappings"] = {suffix: list(uuids) for suffix, uuids in mappings.items()}
    if microversion.supports(version, "consumer types"):
        body["consumer_type"] = consumer.consumer_type
    return body


def _allocations(allocations: allocation.Allocations, version: microversion.Microversion) -> Json:
    if microversion.supports(version, "allocation dict form"):
        return {uuid: {"resources": dict(resources)} for uuid, resources in allocations.items()}
    return [
        {"resource_provider": {"uuid": uuid}, "resources": dict(resources)}
        for uuid, resources in allocations.items()
    ]


def consumers_body(
    consumers: Iterable[allocation.Consumer], version: microversion.Microversion
) -> dict[str, Json]:
    """For POST /allocations (1.13)."""
    return {consumer.uuid: consumer_body(consumer, version) for consumer in consumers}


def reshape_body(
    inventories: Mapping[str, responses.ProviderInventories],
    consumers: Iterable[allocation.Consumer],
    version: microversion.Microversion,
) -> dict[str, Json]:
    """For POST /reshaper (1.30)."""
    return {
        "inventories": {
            uuid: inventories_body(item.generation, item.inventories)
            for uuid, item in inventories.items()
        },
        "allocations": consumers_body(consumers, version),
    }


def read_usages(body: Json, version: microversion.Microversion) -> list[responses.Usage]:
    """Of GET /usages: one entry below 1.38, one per consumer type from 1.38."""
    if not microversion.supports(version, "consumer types"):
        return [responses.Usage(dict(body["usages"]))]
    return [_typed_usage(name, counted) for name, counted in body["usages"].items()]


def _typed_usage(consumer_type: str, counted: Mapping[str, int]) -> responses.Usage:
    resources = dict(counted)
    count = resources.pop("consumer_count")
    return responses.Usage(resources, consumer_type, count, counted)


def read_candidates(body: Json) -> responses.Candidates:
    """Of GET /allocation_candidates of any microversion."""
    return responses.Candidates(
        requests=tuple(_read_request(item) for item in body["allocation_requests"]),
        summaries={uuid: _read_summary(item) for uuid, item in body["provider_summaries"].items()},
    )


def _read_request(body: Json) -> responses.AllocationRequest:
    parts = body["allocations"]
    if isinstance(parts, list):
        allocations = {part["resource_provider"]["uuid"]: part["resources"] for part in parts}
    else:
        allocations = {uuid: part["resources"] for uuid, part in parts.items()}
    mappings = body.get("mappings")
    if mappings is not None:
        mappings = {suffix: tuple(uuids) for suffix, uuids in mappings.items()}
    return responses.AllocationRequest(allocations, mappings)


def _read_summary(body: Json) -> responses.ProviderSummary:
    traits = body.get("traits")
    return responses.ProviderSummary(
        resources={
            name: responses.ResourceSummary(item["capacity"], item["used"])
            for name, item in body["resources"].items()
        },
        traits=None if traits is None else tuple(traits),
        root_uuid=body.get("root_provider_uuid"),
        parent_uuid=body.get("parent_provider_uuid"),
    )
