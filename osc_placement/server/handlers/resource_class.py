"""Resource classes."""

from __future__ import annotations

from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import errors, resource_class as rules, standard
from osc_placement.server import context as calls
from osc_placement.server.schemas import resource_class as schemas


def _view(name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": f"/resource_classes/{name}"}]}


def list_all(call: calls.Call) -> webob.Response:
    """GET /resource_classes"""
    with call.repository.read() as base:
        found = [_view(name) for name in (*standard.RESOURCE_CLASSES, *base.resource_classes)]
    return calls.answer(call, {"resource_classes": found})


def create(call: calls.Call) -> webob.Response:
    """POST /resource_classes"""
    name = call.body(schemas.CREATE)["name"]
    with call.repository.write() as draft:
        rules.create(draft, name)
    return calls.empty(call, 201, f"/resource_classes/{name}")


def show(call: calls.Call) -> webob.Response:
    """GET /resource_classes/{name}"""
    name = call.params["name"]
    with call.repository.read() as base:
        if not base.knows_resource_class(name):
            raise errors.ResourceClassNotFound(name=name)
        date = base.resource_classes.get(name)
    return calls.answer(call, _view(name), updated=None if date is None else [date])


def put(call: calls.Call) -> webob.Response:
    """PUT /resource_classes/{name}: below 1.7 a new name, from then on a class to be there."""
    name = call.params["name"]
    if microversion.supports(call.version, "resource class idempotent put"):
        schemas.CREATE.check({"name": name}, "JSON does not validate: ")
        with call.repository.write() as draft:
            created = rules.ensure(draft, name)
        return calls.empty(call, 201 if created else 204, f"/resource_classes/{name}")
    new_name = call.body(schemas.CREATE)["name"]
    with call.repository.write() as draft:
        rules.rename(draft, name, new_name)
    return calls.answer(call, _view(new_name))


def delete(call: calls.Call) -> webob.Response:
    """DELETE /resource_classes/{name}"""
    with call.repository.write() as draft:
        rules.delete(draft, call.params["name"])
    return calls.empty(call)
