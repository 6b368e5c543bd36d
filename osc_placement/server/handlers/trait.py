"""Traits, and the traits of a provider."""

from __future__ import annotations

from collections.abc import Callable

import webob

from osc_placement.engine import errors, record, standard, state, trait as rules
from osc_placement.server import context as calls, faults
from osc_placement.server.handlers import provider as providers
from osc_placement.server.schemas import provider as provider_schemas, trait as schemas


def list_all(call: calls.Call) -> webob.Response:
    """GET /traits"""
    given = call.checked_query(schemas.QUERY)
    wanted = _name_filter(given["name"]) if "name" in given else None
    associated = _flag(given["associated"]) if "associated" in given else None
    with call.repository.read() as base:
        found = [
            name
            for name in (*sorted(standard.traits()), *base.traits)
            if (wanted is None or wanted(name))
            and (associated is None or (name in base.with_trait) == associated)
        ]
    return calls.answer(call, {"traits": found})


def _name_filter(text: str) -> Callable[[str], bool] | None:
    """``in:A,B`` or ``startswith:A``; any other operator filters nothing."""
    operator, colon, value = text.partition(":")
    if not colon:
        raise faults.BadRequest(
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
        raise faults.BadRequest('The query parameter "associated" only accepts "true" or "false"')
    return text.lower() == "true"


def show(call: calls.Call) -> webob.Response:
    """GET /traits/{name}"""
    name = call.params["name"]
    with call.repository.read() as base:
        if not base.knows_trait(name):
            raise errors.TraitNotFound(names=name)
        return _stamped(call, calls.empty(call), base, name)


def put(call: calls.Call) -> webob.Response:
    """PUT /traits/{name}"""
    name = call.params["name"]
    with call.repository.write() as draft:
        created = rules.create(draft, name)
    response = calls.empty(call, 201 if created else 204, f"/traits/{name}")
    with call.repository.read() as base:
        return _stamped(call, response, base, name)


def delete(call: calls.Call) -> webob.Response:
    """DELETE /traits/{name}"""
    with call.repository.write() as draft:
        rules.delete(draft, call.params["name"])
    return calls.empty(call)


def _stamped(
    call: calls.Call, response: webob.Response, base: state.State, name: str
) -> webob.Response:
    """A trait's answers are dated although they have no body."""
    date = base.traits.get(name)
    calls.stamp(call, response, None if date is None else [date])
    return response


def _answer(call: calls.Call, provider: record.ProviderRecord) -> webob.Response:
    shown = {
        "traits": standard.in_order(provider.traits),
        "resource_provider_generation": provider.generation,
    }
    return calls.answer(call, shown)


def list_of_provider(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}/traits"""
    with call.repository.read() as base:
        return _answer(call, providers.require(base, call.params["uuid"]))


def replace_of_provider(call: calls.Call) -> webob.Response:
    """PUT /resource_providers/{uuid}/traits"""
    body = call.body(provider_schemas.TRAITS)
    with call.repository.write() as draft:
        provider = rules.replace_all(
            draft, call.params["uuid"], body["traits"], body["resource_provider_generation"]
        )
    return _answer(call, provider)


def clear_of_provider(call: calls.Call) -> webob.Response:
    """DELETE /resource_providers/{uuid}/traits"""
    with call.repository.write() as draft:
        rules.clear(draft, call.params["uuid"])
    return calls.empty(call)
