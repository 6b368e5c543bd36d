# SPDX-License-Identifier: Apache-2.0
"""Inventories of a provider."""

from __future__ import annotations

from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import errors, inventories as rules, record
from osc_placement.model.inventory import MAX_AMOUNT, Inventory
from osc_placement.model.name import is_symbol
from osc_placement.server import schemas
from osc_placement.server.context import RequestContext, empty_response, json_response
from osc_placement.server.handlers import provider as providers


def read_all(inventories: dict[str, Any]) -> dict[str, Inventory]:
    """Parse inventories by resource class.

    The schema does not check the values of names that no class can have. Values without a capacity
    are replaced: the unknown class is then the error.
    """
    return {
        name: Inventory.from_dict(fields)
        if is_symbol(name) or _has_capacity(fields)
        else Inventory(1)
        for name, fields in inventories.items()
    }


def _has_capacity(fields: Any) -> bool:
    """Whether Placement can compute a capacity from fields that were not checked."""
    if not isinstance(fields, dict) or "total" not in fields:
        return False
    parts = (fields["total"], fields.get("reserved", 0), fields.get("allocation_ratio", 1.0))
    return all(isinstance(part, int | float) and abs(part) <= MAX_AMOUNT for part in parts)


def _may_reserve_all(context: RequestContext) -> bool:
    return microversion.supports(context.version, "fully reserved inventory")


def _answer_one(
    context: RequestContext, provider: record.ProviderRecord, name: str, status: int = 200
) -> webob.Response:
    fields = provider.inventories[name].as_dict()
    shown = {**fields, "resource_provider_generation": provider.generation}
    return json_response(context, shown, status, updated=[provider.updated_at])


def _answer_all(context: RequestContext, provider: record.ProviderRecord) -> webob.Response:
    shown = {
        "resource_provider_generation": provider.generation,
        "inventories": {name: item.as_dict() for name, item in provider.inventories.items()},
    }
    # The date is that of the inventories; without any there is none.
    updated = [provider.updated_at] if provider.inventories else []
    return json_response(context, shown, updated=updated)


def list_all(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}/inventories"""
    with context.repository.read() as base:
        return _answer_all(context, providers.require(base, context.params["uuid"]))


def show(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}/inventories/{resource_class}"""
    name = context.params["resource_class"]
    with context.repository.read() as base:
        provider = providers.require(base, context.params["uuid"])
        if name not in provider.inventories:
            raise errors.InventoryNotFound(name=name)
        return _answer_one(context, provider, name)


def create(context: RequestContext) -> webob.Response:
    """POST /resource_providers/{uuid}/inventories"""
    body = providers.provider_body(context, schemas.INVENTORY_ADD)
    uuid, name = context.params["uuid"], body["resource_class"]
    with context.repository.write() as draft:
        provider = rules.add(
            draft, uuid, name, Inventory.from_dict(body), _may_reserve_all(context)
        )
    response = _answer_one(context, provider, name, 201)
    response.location = context.url(f"/resource_providers/{uuid}/inventories/{name}")
    return response


def replace_all(context: RequestContext) -> webob.Response:
    """PUT /resource_providers/{uuid}/inventories"""
    body = providers.provider_body(context, schemas.INVENTORIES_REPLACE)
    new_inventories = read_all(body["inventories"])
    with context.repository.write() as draft:
        provider = rules.replace_all(
            draft,
            context.params["uuid"],
            body["resource_provider_generation"],
            new_inventories,
            _may_reserve_all(context),
        )
    return _answer_all(context, provider)


def replace_one(context: RequestContext) -> webob.Response:
    """PUT /resource_providers/{uuid}/inventories/{resource_class}"""
    body = providers.provider_body(context, schemas.INVENTORY_REPLACE)
    name = context.params["resource_class"]
    with context.repository.write() as draft:
        provider = rules.replace_one(
            draft,
            context.params["uuid"],
            name,
            body["resource_provider_generation"],
            Inventory.from_dict(body),
            _may_reserve_all(context),
        )
    return _answer_one(context, provider, name)


def delete_one(context: RequestContext) -> webob.Response:
    """DELETE /resource_providers/{uuid}/inventories/{resource_class}"""
    with context.repository.write() as draft:
        rules.delete_one(draft, context.params["uuid"], context.params["resource_class"])
    return empty_response(context)


def delete_all(context: RequestContext) -> webob.Response:
    """DELETE /resource_providers/{uuid}/inventories"""
    with context.repository.write() as draft:
        rules.delete_all(draft, context.params["uuid"])
    return empty_response(context)
