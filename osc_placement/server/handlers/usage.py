"""How much of what is used: of a provider, and by a project."""

from __future__ import annotations

import webob

from osc_placement import microversion
from osc_placement.engine import record, usage
from osc_placement.server import context as calls
from osc_placement.server.handlers import provider as providers
from osc_placement.server.schemas import usage as schemas, validation


def of_provider(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}/usages"""
    with call.repository.read() as base:
        provider = providers.require(base, call.params["uuid"])
        used = base.used(provider.uuid)
        shown = {
            "resource_provider_generation": provider.generation,
            "usages": {name: used.get(name, 0) for name in provider.inventories},
        }
    return calls.answer(call, shown)


def of_project(call: calls.Call) -> webob.Response:
    """GET /usages"""
    call.authorize({"project_id": call.query.get("project_id")})
    given = call.checked_query(validation.at(schemas.QUERY, call.version.minor))
    with call.repository.read() as base:
        consumers = usage.consumers_of(base, given["project_id"], given.get("user_id"))
        if microversion.supports(call.version, "consumer types"):
            return calls.answer(call, {"usages": _by_type(consumers, given.get("consumer_type"))})
        return calls.answer(call, {"usages": usage.total(consumers)})


def _by_type(
    consumers: list[record.ConsumerRecord], consumer_type: str | None
) -> dict[str, dict[str, int]]:
    if consumer_type == "all":
        groups = {"all": consumers} if consumers else {}
    else:
        groups = usage.by_type(consumers)
        if consumer_type is not None:
            groups = {name: found for name, found in groups.items() if name == consumer_type}
    return {
        name: {**usage.total(found), "consumer_count": len(found)} for name, found in groups.items()
    }
