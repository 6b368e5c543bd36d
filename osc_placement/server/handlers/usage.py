# SPDX-License-Identifier: Apache-2.0
"""Usages of a provider and of a project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import record
from osc_placement.model.allocation import UNKNOWN_TYPE, add_resources
from osc_placement.server import schemas, validation
from osc_placement.server.context import RequestContext, json_response
from osc_placement.server.handlers import provider as providers

_OWNERS = {"project_id": schemas.OWNER, "user_id": schemas.OWNER}

_QUERY = {
    9: validation.Schema(schemas.closed(_OWNERS, ["project_id"])),
    38: validation.Schema(
        schemas.closed(
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


def of_provider(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}/usages"""
    with context.repository.read() as base:
        provider = providers.require(base, context.params["uuid"])
        used = base.used(provider.uuid)
        shown = {
            "resource_provider_generation": provider.generation,
            "usages": {name: used.get(name, 0) for name in provider.inventories},
        }
    return json_response(context, shown)


def of_project(context: RequestContext) -> webob.Response:
    """GET /usages"""
    context.authorize({"project_id": context.query.get("project_id")})
    parameters = context.checked_query(_QUERY)
    user_id = parameters.get("user_id")
    with context.repository.read() as base:
        owned = (base.consumers[uuid] for uuid in base.consumers_in[parameters["project_id"]])
        consumers = [
            consumer
            for consumer in owned
            if consumer.allocations and user_id in (None, consumer.user_id)
        ]
    usages: dict[str, Any] = _total(consumers)
    if microversion.supports(context.version, "consumer types"):
        usages = _by_type(consumers, parameters.get("consumer_type"))
    return json_response(context, {"usages": usages})


def _total(consumers: Iterable[record.ConsumerRecord]) -> dict[str, int]:
    return add_resources(
        *(part for consumer in consumers for part in consumer.allocations.values())
    )


def _by_type(
    consumers: Iterable[record.ConsumerRecord], consumer_type: str | None
) -> dict[str, dict[str, int]]:
    """The sums per type, of one type, or of ``all`` together; and the numbers of consumers."""
    groups: dict[str, list[record.ConsumerRecord]] = {}
    for consumer in consumers:
        own_type = consumer.consumer_type or UNKNOWN_TYPE
        if consumer_type in (None, "all", own_type):
            groups.setdefault(consumer_type or own_type, []).append(consumer)
    return {
        name: {**_total(members), "consumer_count": len(members)}
        for name, members in groups.items()
    }
