# SPDX-License-Identifier: Apache-2.0
"""Resource providers."""

from __future__ import annotations

import uuid
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import (
    errors,
    listing,
    providers as rules,
    record,
    state,
)
from osc_placement.model import candidate
from osc_placement.model.name import canonical_uuid
from osc_placement.server import query, schemas, validation
from osc_placement.server.context import RequestContext, empty_response, json_response

_SINCE = {"inventories": 0, "usages": 0, "aggregates": 1, "traits": 6, "allocations": 11}
_NESTED = microversion.FEATURES["nested providers"].minor


def _view(provider: record.ProviderRecord, minor: int) -> dict[str, Any]:
    """A provider as microversion 1.``minor`` shows it."""
    path = f"/resource_providers/{provider.uuid}"
    links = [{"rel": "self", "href": path}]
    links += [
        {"rel": relation, "href": f"{path}/{relation}"}
        for relation, since in _SINCE.items()
        if since <= minor
    ]
    shown: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": links,
    }
    if minor >= _NESTED:
        shown["parent_provider_uuid"] = provider.parent_uuid
        shown["root_provider_uuid"] = provider.root_uuid
    return shown


def _response(context: RequestContext, provider: record.ProviderRecord) -> webob.Response:
    shown = _view(provider, context.version.minor)
    return json_response(context, shown, updated=[provider.updated_at])


def require(base: state.CloudState, uuid: str) -> record.ProviderRecord:
    """The provider in the path; raises ProviderNotFound."""
    provider = base.providers.get(uuid)
    if provider is None:
        raise errors.ProviderNotFound(uuid=uuid)
    return provider


def provider_body(context: RequestContext, forms: validation.Schemas) -> Any:
    """The body of a request on a provider; a missing provider is reported first."""
    with context.repository.read() as base:
        require(base, context.params["uuid"])
    return context.body(forms)


def list_all(context: RequestContext) -> webob.Response:
    """GET /resource_providers"""
    parameters = context.checked_query(schemas.PROVIDERS_QUERY)
    traits = parameters.getall("required")
    if not microversion.supports(context.version, "any traits"):
        traits = traits[-1:]
    member_of, not_member_of = query.parse_member_of(
        parameters.getall("member_of"), context.version
    )
    required, forbidden = query.parse_traits(traits, context.version)
    request_group = candidate.RequestGroup(
        resources=query.parse_resources(parameters["resources"])
        if "resources" in parameters
        else {},
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        forbidden_aggregates=not_member_of,
        in_tree=parameters.get("in_tree"),
    )
    with context.repository.read() as base:
        providers = listing.matching(
            base, request_group, parameters.get("name"), parameters.get("uuid")
        )
    minor = context.version.minor
    shown = {"resource_providers": [_view(provider, minor) for provider in providers]}
    updated = [provider.updated_at for provider in providers] or None
    return json_response(context, shown, updated=updated)


def create(context: RequestContext) -> webob.Response:
    """POST /resource_providers"""
    body = context.body(schemas.PROVIDER_CREATE)
    new_uuid = canonical_uuid(body["uuid"]) if "uuid" in body else str(uuid.uuid4())
    with context.repository.write() as draft:
        context.error_fields = {"uuid": new_uuid, "name": body["name"]}
        provider = rules.create(draft, new_uuid, body["name"], body.get("parent_provider_uuid"))
    path = f"/resource_providers/{provider.uuid}"
    if not microversion.supports(context.version, "provider create body"):
        return empty_response(context, 201, path)
    response = _response(context, provider)
    response.location = context.url(path)
    return response


def show(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}"""
    with context.repository.read() as base:
        provider = require(base, context.params["uuid"])
    return _response(context, provider)


def update(context: RequestContext) -> webob.Response:
    """PUT /resource_providers/{uuid}"""
    body = provider_body(context, schemas.PROVIDER_UPDATE)
    with context.repository.write() as draft:
        provider = rules.update(
            draft,
            context.params["uuid"],
            body["name"],
            body.get("parent_provider_uuid", rules.UNCHANGED),
            may_move=microversion.supports(context.version, "re-parenting"),
        )
    return _response(context, provider)


def delete(context: RequestContext) -> webob.Response:
    """DELETE /resource_providers/{uuid}"""
    with context.repository.write() as draft:
        rules.delete(draft, context.params["uuid"])
    return empty_response(context)
