"""Allocations: of a consumer, of many consumers, on a provider; and the reshaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import (
    allocation as rules,
    draft as drafts,
    errors,
    record,
    reshape,
    state,
)
from osc_placement.model import allocation as model, name as names
from osc_placement.server import context as calls, faults
from osc_placement.server.handlers import inventory as inventories, provider as providers
from osc_placement.server.schemas import allocation as schemas, validation


def show(call: calls.Call) -> webob.Response:
    """GET /allocations/{consumer_uuid}"""
    with call.repository.read() as base:
        consumer = base.consumers.get(call.params["consumer_uuid"])
        if consumer is None or not consumer.allocations:
            return calls.answer(call, {"allocations": {}})
        shown = _view(call, base, consumer)
    return calls.answer(call, shown, updated=[consumer.updated_at])


def _view(call: calls.Call, base: state.State, consumer: record.ConsumerRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "allocations": {
            uuid: {"resources": resources, "generation": base.providers[uuid].generation}
            for uuid, resources in consumer.allocations.items()
        }
    }
    if microversion.supports(call.version, "allocation dict form"):
        shown["project_id"] = consumer.project_id
        shown["user_id"] = consumer.user_id
    if microversion.supports(call.version, "consumer generation"):
        shown["consumer_generation"] = consumer.generation
    if microversion.supports(call.version, "consumer types"):
        shown["consumer_type"] = consumer.consumer_type or model.UNKNOWN_TYPE
    return shown


def of_provider(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}/allocations"""
    with_generation = microversion.supports(call.version, "consumer generation")
    with call.repository.read() as base:
        provider = providers.require(base, call.params["uuid"])
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
    return calls.answer(call, shown, updated=dates or None)


def write_one(call: calls.Call) -> webob.Response:
    """PUT /allocations/{consumer_uuid}"""
    given = call.params["consumer_uuid"]
    if not names.is_uuid(given):
        raise faults.BadRequest(f"Malformed consumer_uuid: {given}")
    body = call.body(validation.at(schemas.WRITE_ONE, call.version.minor))
    claim = _claim(call, names.canonical_uuid(given), body)
    _write(call, [claim], lambda draft: rules.write(draft, [claim]))
    return calls.empty(call)


def write_many(call: calls.Call) -> webob.Response:
    """POST /allocations"""
    body = call.body(validation.at(schemas.WRITE_MANY, call.version.minor))
    claims = _claims(call, body)
    _write(call, claims, lambda draft: rules.write(draft, claims))
    return calls.empty(call)


def delete(call: calls.Call) -> webob.Response:
    """DELETE /allocations/{consumer_uuid}"""
    with call.repository.write() as draft:
        rules.delete(draft, call.params["consumer_uuid"])
    return calls.empty(call)


def reshape_all(call: calls.Call) -> webob.Response:
    """POST /reshaper"""
    body = call.body(validation.at(schemas.RESHAPE, call.version.minor))
    wanted = {
        uuid: (
            given["resource_provider_generation"],
            inventories.read_all(given["inventories"]),
        )
        for uuid, given in body["inventories"].items()
    }
    claims = _claims(call, body["allocations"])
    _write(call, claims, lambda draft: reshape.reshape(draft, wanted, claims))
    return calls.empty(call)


def _write(
    call: calls.Call, claims: list[rules.Claim], change: Callable[[drafts.Draft], None]
) -> None:
    """Make a change, or leave what Placement leaves of one that names no real provider."""
    try:
        with call.repository.write() as draft:
            change(draft)
    except errors.AllocationProviderNotFound:
        with call.repository.write() as draft:
            rules.introduce(draft, claims)
        raise


def _claims(call: calls.Call, body: dict[str, Any]) -> list[rules.Claim]:
    for uuid in body:
        if not names.is_uuid(uuid):
            raise faults.BadRequest(f"Malformed consumer_uuid: {uuid}")
    return [_claim(call, names.canonical_uuid(uuid), given) for uuid, given in body.items()]


def _claim(call: calls.Call, consumer_uuid: str, body: dict[str, Any]) -> rules.Claim:
    """What one consumer shall have, from any of the three forms it is written in."""
    given = body["allocations"]
    if microversion.supports(call.version, "allocation dict form"):
        allocations = {uuid: entry["resources"] for uuid, entry in given.items()}
    else:
        allocations = {entry["resource_provider"]["uuid"]: entry["resources"] for entry in given}
    return rules.Claim(
        consumer_uuid=consumer_uuid,
        allocations=allocations,
        project_id=body.get("project_id", rules.INCOMPLETE_OWNER),
        user_id=body.get("user_id", rules.INCOMPLETE_OWNER),
        generation=body.get("consumer_generation", rules.UNCHECKED),
        consumer_type=body.get("consumer_type"),
    )
