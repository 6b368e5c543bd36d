# SPDX-License-Identifier: Apache-2.0
"""Aggregates that a provider is a member of."""

from __future__ import annotations

from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import providers as rules, record
from osc_placement.server import schemas
from osc_placement.server.context import RequestContext, json_response
from osc_placement.server.handlers import provider as providers


def _answer(context: RequestContext, provider: record.ProviderRecord) -> webob.Response:
    shown: dict[str, Any] = {"aggregates": list(provider.aggregates)}
    if microversion.supports(context.version, "aggregate generation"):
        shown["resource_provider_generation"] = provider.generation
    return json_response(context, shown)


def list_all(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}/aggregates"""
    with context.repository.read() as base:
        return _answer(context, providers.require(base, context.params["uuid"]))


def replace_all(context: RequestContext) -> webob.Response:
    """PUT /resource_providers/{uuid}/aggregates"""
    body = providers.provider_body(context, schemas.AGGREGATES)
    generation = None
    if microversion.supports(context.version, "aggregate generation"):
        generation, body = body["resource_provider_generation"], body["aggregates"]
    with context.repository.write() as draft:
        provider = rules.replace_aggregates(draft, context.params["uuid"], body, generation)
    return _answer(context, provider)
