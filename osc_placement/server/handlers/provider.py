"""Resource providers."""

from __future__ import annotations

import functools
import uuid
from typing import Any

import orjson
import webob

from osc_placement import microversion
from osc_placement.engine import errors, listing, provider as rules, record, state
from osc_placement.model import candidate, name as names
from osc_placement.server import context as calls, query
from osc_placement.server.schemas import provider as schemas, validation

_SINCE = {"inventories": 0, "usages": 0, "aggregates": 1, "traits": 6, "allocations": 11}
_NESTED = microversion.FEATURES["nested providers"].minor

#: By minor microversion, the relations that a provider links to.
_RELATIONS = tuple(
    tuple(relation for relation, since in _SINCE.items() if since <= minor)
    for minor in range(microversion.MAXIMUM.minor + 1)
)


def view(call: calls.Call, provider: record.ProviderRecord) -> dict[str, Any]:
    """A provider as the call's microversion shows it."""
    shown: dict[str, Any] = {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "links": _links(provider.uuid, _RELATIONS[call.version.minor]),
    }
    if call.version.minor >= _NESTED:
        shown["parent_provider_uuid"] = provider.parent_uuid
        shown["root_provider_uuid"] = provider.root_uuid
    return shown


@functools.lru_cache(maxsize=1 << 16)
def _links(uuid: str, relations: tuple[str, ...]) -> orjson.Fragment:
    """The links of a provider, encoded: they are most of a list, and never change."""
    path = f"/resource_providers/{uuid}"
    links = [{"rel": "self", "href": path}]
    links += [{"rel": relation, "href": f"{path}/{relation}"} for relation in relations]
    return orjson.Fragment(orjson.dumps(links))


def require(base: state.State, uuid: str) -> record.ProviderRecord:
    """The provider that the path names; raises ProviderNotFound."""
    provider = base.providers.get(uuid)
    if provider is None:
        raise errors.ProviderNotFound(uuid=uuid)
    return provider


def provider_body(call: calls.Call, schema: validation.Schema) -> Any:
    """The body of a call on a provider; that the provider is missing comes first."""
    with call.repository.read() as base:
        require(base, call.params["uuid"])
    return call.body(schema)


def list_all(call: calls.Call) -> webob.Response:
    """GET /resource_providers"""
    given = call.checked_query(validation.at(schemas.QUERY, call.version.minor))
    traits = given.getall("required")
    if not microversion.supports(call.version, "any traits"):
        traits = traits[-1:]
    member_of, not_member_of = query.parse_member_of(given.getall("member_of"), call.version)
    required, forbidden = query.parse_traits(traits, call.version)
    wanted = candidate.RequestGroup(
        resources=query.parse_resources(given["resources"]) if "resources" in given else {},
        required=required,
        forbidden=forbidden,
        member_of=member_of,
        forbidden_aggregates=not_member_of,
        in_tree=given.get("in_tree"),
    )
    with call.repository.read() as base:
        found = listing.matching(base, wanted, given.get("name"), given.get("uuid"))
    shown = {"resource_providers": [view(call, provider) for provider in found]}
    return calls.answer(call, shown, updated=_dates(found))


def _dates(found: list[record.ProviderRecord]) -> list[float] | None:
    return [provider.updated_at for provider in found] or None


def create(call: calls.Call) -> webob.Response:
    """POST /resource_providers"""
    body = call.body(validation.at(schemas.CREATE, call.version.minor))
    new_uuid = names.canonical_uuid(body["uuid"]) if "uuid" in body else str(uuid.uuid4())
    with call.repository.write() as draft:
        call.facts = {"uuid": new_uuid, "name": body["name"]}
        provider = rules.create(draft, new_uuid, body["name"], body.get("parent_provider_uuid"))
    path = f"/resource_providers/{provider.uuid}"
    if not microversion.supports(call.version, "provider create body"):
        return calls.empty(call, 201, path)
    response = calls.answer(call, view(call, provider), updated=[provider.updated_at])
    response.location = call.url(path)
    return response


def show(call: calls.Call) -> webob.Response:
    """GET /resource_providers/{uuid}"""
    with call.repository.read() as base:
        provider = require(base, call.params["uuid"])
    return calls.answer(call, view(call, provider), updated=[provider.updated_at])


def update(call: calls.Call) -> webob.Response:
    """PUT /resource_providers/{uuid}"""
    body = provider_body(call, validation.at(schemas.UPDATE, call.version.minor))
    with call.repository.write() as draft:
        provider = rules.update(
            draft,
            call.params["uuid"],
            body["name"],
            body.get("parent_provider_uuid", rules.UNCHANGED),
            may_move=microversion.supports(call.version, "re-parenting"),
        )
    return calls.answer(call, view(call, provider), updated=[provider.updated_at])


def delete(call: calls.Call) -> webob.Response:
    """DELETE /resource_providers/{uuid}"""
    with call.repository.write() as draft:
        rules.delete(draft, call.params["uuid"])
    return calls.empty(call)
