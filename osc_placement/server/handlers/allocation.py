# SPDX-License-Identifier: Apache-2.0
"""Allocations of a consumer, of several consumers, of a provider; and the reshaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import allocation as rules, errors, record, state
from osc_placement.engine.draft import Draft
from osc_placement.model.allocation import PLACEHOLDER, UNKNOWN_TYPE
from osc_placement.model.inventory import whole
from osc_placement.model.name import canonical_uuid, is_uuid
from osc_placement.server import http_errors, schemas
from osc_placement.server.context import RequestContext, empty_response, json_response
from osc_placement.server.handlers import inventory as inventories, provider as providers


def show(context: RequestContext) -> webob.Response:
    """GET /allocations/{consumer_uuid}"""
    with context.repository.read() as base:
        consumer = base.consumers.get(context.params["consumer_uuid"])
        if consumer is None or not consumer.allocations:
            return json_response(context, {"allocations": {}})
        shown = _view(context, base, consumer)
    return json_response(context, shown, updated=[consumer.updated_at])


def _view(
    context: RequestContext, base: state.CloudState, consumer: record.ConsumerRecord
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "allocations": {
            uuid: {"resources": resources, "generation": base.providers[uuid].generation}
            for uuid, resources in consumer.allocations.items()
        }
    }
    if microversion.supports(context.version, "allocation dict form"):
        shown["project_id"] = consumer.project_id
        shown["user_id"] = consumer.user_id
    if microversion.supports(context.version, "consumer generation"):
        shown["consumer_generation"] = consumer.generation
    if microversion.supports(context.version, "consumer types"):
        shown["consumer_type"] = consumer.consumer_type or UNKNOWN_TYPE
    return shown


def of_provider(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}/allocations"""
    with_generation = microversion.supports(context.version, "consumer generation")
    with context.repository.read() as base:
        provider = providers.require(base, context.params["uuid"])
        allocations: dict[str, Any] = {}
        dates = []
        for uuid in base.consumers_of[provider.uuid]:
            consumer = base.consumers[uuid]
            entry: dict[str, Any] = {"resources": consumer.allocations[provider.uuid]}
            if with_generation:
                entry["consumer_generation"] = consumer.generation
            allocations[uuid] = entry
            dates.append(consumer.updated_at)
    shown = {
        "allocations": allocations,
        "resource_provider_generation": provider.generation,
    }
    return json_response(context, shown, updated=dates or None)


def write_one(context: RequestContext) -> webob.Response:
    """PUT /allocations/{consumer_uuid}"""
    uuid = context.params["consumer_uuid"]
    if not is_uuid(uuid):
        raise http_errors.HttpBadRequest(f"Malformed consumer_uuid: {uuid}")
    body = context.body(schemas.ALLOCATIONS_WRITE)
    claim = _claim(context, canonical_uuid(uuid), body)
    _write(context, [claim], lambda draft: rules.write(draft, [claim]))
    return empty_response(context)


def write_many(context: RequestContext) -> webob.Response:
    """POST /allocations"""
    body = context.body(schemas.ALLOCATIONS_WRITE_MANY)
    claims = _claims(context, body)
    _write(context, claims, lambda draft: rules.write(draft, claims))
    return empty_response(context)


def delete(context: RequestContext) -> webob.Response:
    """DELETE /allocations/{consumer_uuid}"""
    with context.repository.write() as draft:
        rules.delete(draft, context.params["consumer_uuid"])
    return empty_response(context)


def reshape_all(context: RequestContext) -> webob.Response:
    """POST /reshaper"""
    body = context.body(schemas.RESHAPE)
    inventories_by_provider = {
        uuid: (
            document["resource_provider_generation"],
            inventories.read_all(document["inventories"]),
        )
        for uuid, document in body["inventories"].items()
    }
    claims = _claims(context, body["allocations"])
    _write(context, claims, lambda draft: rules.reshape(draft, inventories_by_provider, claims))
    return empty_response(context)


def _write(
    context: RequestContext, claims: list[rules.Claim], change: Callable[[Draft], None]
) -> None:
    """Write the claims; for an unknown provider keep only the new consumers, as Placement does."""
    try:
        with context.repository.write() as draft:
            change(draft)
    except errors.AllocationProviderNotFound:
        with context.repository.write() as draft:
            rules.create_consumers(draft, claims)
        raise


def _claims(context: RequestContext, body: dict[str, Any]) -> list[rules.Claim]:
    for uuid in body:
        if not is_uuid(uuid):
            raise http_errors.HttpBadRequest(f"Malformed consumer_uuid: {uuid}")
    return [_claim(context, canonical_uuid(uuid), claim) for uuid, claim in body.items()]


def _claim(context: RequestContext, consumer_uuid: str, body: dict[str, Any]) -> rules.Claim:
    """The claim of one consumer, from any of the three body forms."""
    requested = body["allocations"]
    if microversion.supports(context.version, "allocation dict form"):
        entries = list(requested.items())
    else:
        entries = [(entry["resource_provider"]["uuid"], entry) for entry in requested]
    return rules.Claim(
        consumer_uuid=consumer_uuid,
        allocations={
            uuid: {name: whole(amount) for name, amount in entry["resources"].items()}
            for uuid, entry in entries
        },
        project_id=body.get("project_id", PLACEHOLDER),
        user_id=body.get("user_id", PLACEHOLDER),
        generation=body.get("consumer_generation", rules.UNCHECKED),
        consumer_type=body.get("consumer_type"),
    )
