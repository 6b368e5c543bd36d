"""Allocation candidates."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import candidate as engine
from osc_placement.engine import candidate_summary as summary
from osc_placement.engine import inventory, standard, state, trait
from osc_placement.model import candidate as model
from osc_placement.server import call as calls
from osc_placement.server import query
from osc_placement.server.schemas import candidate as schemas
from osc_placement.server.schemas import validation

#: A query without a limit that has more candidates than this is refused.
MAX_CANDIDATES = 200_000


def list_all(call: calls.Call) -> webob.Response:
    """GET /allocation_candidates

    Each candidate is encoded as it is found, so that the memory that a large answer
    takes is that of its text.
    """
    given = call.checked_query(validation.at(schemas.QUERY, call.version.minor))
    wanted = query.parse_candidates(list(given.items()), call.version)
    with call.repository.read() as base:
        _check_known(base, wanted)
        named: dict[str, None] = {}
        requests = []
        for found in engine.search(base, wanted, max_candidates=MAX_CANDIDATES):
            named.update(dict.fromkeys(found.allocations))
            requests.append(calls.encode(_request_view(call, found)))
        summaries = calls.encode(_summaries(call, base, wanted, named))
    body = b'{"allocation_requests": [%s], "provider_summaries": %s}' % (
        b", ".join(requests),
        summaries,
    )
    return calls.answer_encoded(call, body)


def _check_known(base: state.State, wanted: model.CandidateQuery) -> None:
    """Raises where the query names a class or a trait that does not exist."""
    trait.check_exist(base, sorted(wanted.root_required))
    trait.check_exist(base, sorted(wanted.root_forbidden))
    for group in wanted.groups:
        inventory.check_classes(base, group.resources)
        for alternatives in group.required:
            trait.check_exist(base, sorted(alternatives))
        trait.check_exist(base, sorted(group.forbidden))


def _request_view(call: calls.Call, found: model.Candidate) -> dict[str, Any]:
    """An allocation request, in the form in which the same microversion takes it back."""
    if not microversion.supports(call.version, "allocation dict form"):
        return {
            "allocations": [
                {"resource_provider": {"uuid": uuid}, "resources": resources}
                for uuid, resources in found.allocations.items()
            ]
        }
    shown: dict[str, Any] = {
        "allocations": {
            uuid: {"resources": resources} for uuid, resources in found.allocations.items()
        }
    }
    if microversion.supports(call.version, "candidate mappings"):
        shown["mappings"] = found.mappings
    return shown


def _summaries(
    call: calls.Call, base: state.State, wanted: model.CandidateQuery, named: Collection[str]
) -> dict[str, Any]:
    classes = None
    if not microversion.supports(call.version, "candidate whole summaries"):
        classes = frozenset(name for group in wanted.groups for name in group.resources)
    members = summary.summary_providers(base, named, whole_trees=wanted.nested)
    return {uuid: _summary_view(call, summary.summarize(base, uuid, classes)) for uuid in members}


def _summary_view(call: calls.Call, summarized: summary.ProviderSummary) -> dict[str, Any]:
    provider = summarized.provider
    shown: dict[str, Any] = {
        "resources": {
            name: {"capacity": capacity, "used": used}
            for name, (capacity, used) in summarized.resources.items()
        }
    }
    if microversion.supports(call.version, "candidate required traits"):
        shown["traits"] = standard.in_order(provider.traits)
    if microversion.supports(call.version, "nested candidates"):
        shown["parent_provider_uuid"] = provider.parent_uuid
        shown["root_provider_uuid"] = provider.root_uuid
    return shown
