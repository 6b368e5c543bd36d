"""Inventories of a provider."""

from __future__ import annotations

from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import errors, inventory as rules, record
from osc_placement.model import inventory as model, name as names
from osc_placement.server import context as calls
from osc_placement.server.handlers import provider as providers
from osc_placement.server.schemas import inventory as schemas

#: The order in which Placement prints the fields.
_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def _view(inventory: model.Inventory) -> dict[str, Any]:
    return {field: getattr(inventory, field) for field in _FIELDS}


def read_all(given: dict[str, Any]) -> dict[str, model.Inventory]:
    """Inventories as they came, by resource class.

    The schema does not look at what stands under a name that no class can have; nor do
    we: that there is no such class is what will be told.
    """
    return {
        name: model.Inventory.from_dict(fields) if names.is_symbol(name) else model.Inventory(1)
        for name, fields in given.items()
    }


def _may_reserve_all(call: calls.Call) -> bool:
    return microversion.supports(call.version, "fully reserved inventory")


def _answer_one(
    call: calls.Call, provider: record.ProviderRecord, name: str, status: int = 200
) -> webob.Response:
    shown = _view(provider.inventories[name])
    shown["resource_provider_generation"] = provider.generation
    return calls.answer(call, shown, status, updated=[provider.updated_at])


def _answer_all(call: calls.Call, provider: record.ProviderRecord) -> webob.Response:
    shown = {
        "resource_provider_generation": provider.generation,
        "inventories": {name: _view(item) for name, item in provider.inventories.items()},
    }
    # Dated by the inventories: where there are none, there is no date.
    updated = [provider.updated_at] if provider.inventories else []
    return calls.answer(call, shown, updated=updated)


def list_all(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}/inventories"""
    with call.repository.read() as base:
        return _answer_all(call, providers.require(base, call.params["uuid"]))


def show(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}/inventories/{resource_class}"""
    name = call.params["resource_class"]
    with call.repository.read() as base:
        provider = providers.require(base, call.params["uuid"])
        if name not in provider.inventories:
            raise errors.InventoryNotFound(name=name)
        return _answer_one(call, provider, name)


def create(call: calls.Call) -> webob.Response:
    """POST /resource_providers/{uuid}/inventories"""
    body = providers.provider_body(call, schemas.ADD)
    uuid, name = call.params["uuid"], body["resource_class"]
    with call.repository.write() as draft:
        provider = rules.add(
            draft, uuid, name, model.Inventory.from_dict(body), _may_reserve_all(call)
        )
    response = _answer_one(call, provider, name, 201)
    response.location = call.url(f"/resource_providers/{uuid}/inventories/{name}")
    return response


def replace_all(call: calls.Call) -> webob.Response:
    """PUT /resource_providers/{uuid}/inventories"""
    body = providers.provider_body(call, schemas.REPLACE_ALL)
    wanted = read_all(body["inventories"])
    with call.repository.write() as draft:
        provider = rules.replace_all(
            draft,
            call.params["uuid"],
            body["resource_provider_generation"],
            wanted,
            _may_reserve_all(call),
        )
    return _answer_all(call, provider)


def replace_one(call: calls.Call) -> webob.Response:
    """PUT /resource_providers/{uuid}/inventories/{resource_class}"""
    body = providers.provider_body(call, schemas.REPLACE_ONE)
    name = call.params["resource_class"]
    with call.repository.write() as draft:
        provider = rules.replace_one(
            draft,
            call.params["uuid"],
            name,
            body["resource_provider_generation"],
            model.Inventory.from_dict(body),
            _may_reserve_all(call),
        )
    return _answer_one(call, provider, name)


def delete_one(call: calls.Call) -> webob.Response:
    """DELETE /resource_providers/{uuid}/inventories/{resource_class}"""
    with call.repository.write() as draft:
        rules.delete_one(draft, call.params["uuid"], call.params["resource_class"])
    return calls.empty(call)


def delete_all(call: calls.Call) -> webob.Response:
    """DELETE /resource_providers/{uuid}/inventories"""
    with call.repository.write() as draft:
        rules.delete_all(draft, call.params["uuid"])
    return calls.empty(call)
