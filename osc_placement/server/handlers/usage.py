# SPDX-License-Identifier: Apache-2.0
"""Usages of a provider and of a project."""

from __future__ import annotations

import webob

from osc_placement import microversion
from osc_placement.engine import record, usage
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
    with context.repository.read() as base:
        consumers = usage.consumers_of(base, parameters["project_id"], parameters.get("user_id"))
        if microversion.supports(context.version, "consumer types"):
            return json_response(
                context, {"usages": _by_type(consumers, parameters.get("consumer_type"))}
            )
        return json_response(context, {"usages": usage.total(consumers)})


def _by_type(
    consumers: list[record.ConsumerRecord], consumer_type: str | None
) -> dict[str, dict[str, int]]:
    if consumer_type == "all":
        groups = {"all": consumers} if consumers else {}
    else:
        groups = usage.by_type(consumers)
        if consumer_type is not None:
            groups = {name: members for name, members in groups.items() if name == consumer_type}
    return {
        name: {**usage.total(members), "consumer_count": len(members)}
        for name, members in groups.items()
    }
