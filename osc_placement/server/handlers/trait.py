# SPDX-License-Identifier: Apache-2.0
"""Traits, and the traits of a provider."""

from __future__ import annotations

from collections.abc import Callable

import webob

from osc_placement.engine import errors, record, standard, state, trait as rules
from osc_placement.server import http_errors, schemas, validation
from osc_placement.server.context import RequestContext, empty_response, json_response, set_dates
from osc_placement.server.handlers import provider as providers

_QUERY = validation.Schema(schemas.closed({"name": schemas.STRING, "associated": schemas.STRING}))


def list_all(context: RequestContext) -> webob.Response:
    """GET /traits"""
    parameters = context.checked_query(_QUERY)
    name_filter = _name_filter(parameters["name"]) if "name" in parameters else None
    associated = _flag(parameters["associated"]) if "associated" in parameters else None
    with context.repository.read() as base:
        traits = [
            name
            for name in (*standard.in_order(standard.traits()), *base.traits)
            if (name_filter is None or name_filter(name))
            and (associated is None or (name in base.with_trait) == associated)
        ]
    return json_response(context, {"traits": traits})


def _name_filter(text: str) -> Callable[[str], bool] | None:
    """``in:A,B`` or ``startswith:A``; any other operator filters nothing."""
    operator, colon, value = text.partition(":")
    if not colon:
        raise http_errors.HttpBadRequest(
            "Badly formatted name parameter. Expected name query string parameter in form:"
            f' ?name=[in|startswith]:[name1,name2|prefix]. Got: "{text}"'
        )
    if operator == "in":
        return frozenset(value.split(",")).__contains__
    if operator == "startswith":
        return lambda name: name.startswith(value.upper())
    return None


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise http_errors.HttpBadRequest(
            'The query parameter "associated" only accepts "true" or "false"'
        )
    return text.lower() == "true"


def show(context: RequestContext) -> webob.Response:
    """GET /traits/{name}"""
    name = context.params["name"]
    with context.repository.read() as base:
        if not base.knows_trait(name):
            raise errors.TraitNotFound(names=name)
        return _with_dates(context, empty_response(context), base, name)


def put(context: RequestContext) -> webob.Response:
    """PUT /traits/{name}"""
    name = context.params["name"]
    with context.repository.write() as draft:
        created = rules.create(draft, name)
    response = empty_response(context, 201 if created else 204, f"/traits/{name}")
    with context.repository.read() as base:
        return _with_dates(context, response, base, name)


def delete(context: RequestContext) -> webob.Response:
    """DELETE /traits/{name}"""
    with context.repository.write() as draft:
        rules.delete(draft, context.params["name"])
    return empty_response(context)


def _with_dates(
    context: RequestContext, response: webob.Response, base: state.CloudState, name: str
) -> webob.Response:
    """Set the dates of a trait's response, although it has no body."""
    date = base.traits.get(name)
    set_dates(context, response, None if date is None else [date])
    return response


def _answer(context: RequestContext, provider: record.ProviderRecord) -> webob.Response:
    shown = {
        "traits": standard.in_order(provider.traits),
        "resource_provider_generation": provider.generation,
    }
    return json_response(context, shown)


def list_of_provider(context: RequestContext) -> webob.Response:
    """GET /resource_providers/{uuid}/traits"""
    with context.repository.read() as base:
        return _answer(context, providers.require(base, context.params["uuid"]))


def replace_of_provider(context: RequestContext) -> webob.Response:
    """PUT /resource_providers/{uuid}/traits"""
    body = context.body(schemas.TRAITS)
    with context.repository.write() as draft:
        provider = rules.replace_all(
            draft, context.params["uuid"], body["traits"], body["resource_provider_generation"]
        )
    return _answer(context, provider)


def clear_of_provider(context: RequestContext) -> webob.Response:
    """DELETE /resource_providers/{uuid}/traits"""
    with context.repository.write() as draft:
        rules.clear(draft, context.params["uuid"])
    return empty_response(context)
