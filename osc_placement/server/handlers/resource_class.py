# SPDX-License-Identifier: Apache-2.0
"""Resource classes."""

from __future__ import annotations

from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import errors, resource_class as rules, standard
from osc_placement.model.name import is_custom
from osc_placement.server import http_errors, schemas, validation
from osc_placement.server.context import RequestContext, empty_response, json_response

CREATE = validation.Schema(
    schemas.closed(
        {"name": {"type": "string", "pattern": "^CUSTOM_[A-Z0-9_]+$", "maxLength": 255}},
        ["name"],
    )
)


def _checked(name: str) -> str:
    """A valid name by the schema. Errors: HttpBadRequest for a newline, which ``$`` ignores."""
    if not is_custom(name):
        raise http_errors.HttpBadRequest(f"The resource class {name!r} ends with a newline")
    return name


def _view(name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": f"/resource_classes/{name}"}]}


def list_all(context: RequestContext) -> webob.Response:
    """GET /resource_classes"""
    with context.repository.read() as base:
        classes = [_view(name) for name in (*standard.RESOURCE_CLASSES, *base.resource_classes)]
    return json_response(context, {"resource_classes": classes})


def create(context: RequestContext) -> webob.Response:
    """POST /resource_classes"""
    name = _checked(context.body(CREATE)["name"])
    with context.repository.write() as draft:
        rules.create(draft, name)
    return empty_response(context, 201, f"/resource_classes/{name}")


def show(context: RequestContext) -> webob.Response:
    """GET /resource_classes/{name}"""
    name = context.params["name"]
    with context.repository.read() as base:
        if not base.knows_resource_class(name):
            raise errors.ResourceClassNotFound(name=name)
        date = base.resource_classes.get(name)
    return json_response(context, _view(name), updated=None if date is None else [date])


def put(context: RequestContext) -> webob.Response:
    """PUT /resource_classes/{name}: rename a class below 1.7, ensure that it exists since 1.7."""
    name = context.params["name"]
    if microversion.supports(context.version, "resource class idempotent put"):
        CREATE.check({"name": name}, "JSON does not validate: ")
        with context.repository.write() as draft:
            created = rules.ensure(draft, _checked(name))
        return empty_response(context, 201 if created else 204, f"/resource_classes/{name}")
    new_name = _checked(context.body(CREATE)["name"])
    with context.repository.write() as draft:
        rules.rename(draft, name, new_name)
    return json_response(context, _view(new_name))


def delete(context: RequestContext) -> webob.Response:
    """DELETE /resource_classes/{name}"""
    with context.repository.write() as draft:
        rules.delete(draft, context.params["name"])
    return empty_response(context)
