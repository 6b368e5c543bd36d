"""Aggregates that a provider is a member of."""

from __future__ import annotations

from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import aggregate as rules, record
from osc_placement.server import context as calls
from osc_placement.server.handlers import provider as providers
from osc_placement.server.schemas import provider as schemas, validation


def _answer(call: calls.Call, provider: record.ProviderRecord) -> webob.Response:
    shown: dict[str, Any] = {"aggregates": list(provider.aggregates)}
    if microversion.supports(call.version, "aggregate generation"):
        shown["resource_provider_generation"] = provider.generation
    return calls.answer(call, shown)


def list_all(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}/aggregates"""
    with call.repository.read() as base:
        return _answer(call, providers.require(base, call.params["uuid"]))


def replace_all(call: calls.Call) -> webob.Response:
    """PUT /resource_providers/{uuid}/aggregates"""
    body = providers.provider_body(call, validation.at(schemas.AGGREGATES, call.version.minor))
    generation = None
    if microversion.supports(call.version, "aggregate generation"):
        generation, body = body["resource_provider_generation"], body["aggregates"]
    with call.repository.write() as draft:
        provider = rules.replace_all(draft, call.params["uuid"], body, generation)
    return _answer(call, provider)
