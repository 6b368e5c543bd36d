"""Allocation candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import candidate as engine
from osc_placement.engine import candidate_summary as summary
from osc_placement.engine import inventory, listing, standard, state, trait
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
        named: dict[str, None] = {}
        requests = []
        for found in _search(base, wanted):
            named.update(dict.fromkeys(found.allocations))
            requests.append(calls.encode(_request_view(call, found)))
        summaries = calls.encode(_summaries(call, base, wanted, named))
    body = b'{"allocation_requests": [%s], "provider_summaries": %s}' % (
        b", ".join(requests),
        summaries,
    )
    return calls.answer_encoded(call, body)


def _search(base: state.State, wanted: model.CandidateQuery) -> Iterator[model.Candidate]:
    if not _may_match(base, wanted):
        return iter(())
    return engine.search(base, wanted, max_candidates=MAX_CANDIDATES)


def _may_match(base: state.State, wanted: model.CandidateQuery) -> bool:
    """Whether a search is worth while; raises where a class or trait does not exist.

    As in Placement, names are looked at in order, and what stands behind a condition
    that nobody meets is not noticed.
    """
    trait.check_exist(base, sorted(wanted.root_required))
    trait.check_exist(base, sorted(wanted.root_forbidden))
    if wanted.root_required and not _has_root(base, wanted.root_required):
        return False
    for number, group in enumerate(wanted.groups):
        if _is_known(base, group):
            continue
        if not all(_serves(base, earlier) for earlier in wanted.groups[:number]):
            return False
        inventory.check_classes(base, group.resources)
        if any(listing.members(base, aggregates) == [] for aggregates in group.member_of):
            return False
        for alternatives in group.required:
            trait.check_exist(base, sorted(alternatives))
        trait.check_exist(base, sorted(group.forbidden))
    return True


def _is_known(base: state.State, group: model.RequestGroup) -> bool:
    traits = (name for names in (*group.required, group.forbidden) for name in names)
    return all(map(base.knows_resource_class, group.resources)) and all(
        map(base.knows_trait, traits)
    )


def _serves(base: state.State, group: model.RequestGroup) -> bool:
    """Whether a group by itself finds providers: one for all it asks, or one per class."""
    if group.suffix:
        return bool(listing.matching(base, group))
    return all(
        listing.matching(base, dataclasses.replace(group, resources={name: amount}))
        for name, amount in group.resources.items()
    )


def _has_root(base: state.State, traits: Collection[str]) -> bool:
    rarest = min((base.with_trait[name] for name in traits), key=len)
    return any(
        base.providers[uuid].parent_uuid is None and base.providers[uuid].traits.issuperset(traits)
        for uuid in rarest
    )


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
    with_traits = microversion.supports(call.version, "candidate required traits")
    with_tree = microversion.supports(call.version, "nested candidates")
    shown = {}
    for uuid in summary.summary_providers(base, named, whole_trees=wanted.nested):
        summarized = summary.summarize(base, uuid, classes)
        provider = summarized.provider
        entry: dict[str, Any] = {"resources": _usage_view(summarized)}
        if with_traits:
            entry["traits"] = standard.in_order(provider.traits)
        if with_tree:
            entry["parent_provider_uuid"] = provider.parent_uuid
            entry["root_provider_uuid"] = provider.root_uuid
        shown[uuid] = entry
    return shown


def _usage_view(summarized: summary.ProviderSummary) -> dict[str, Any]:
    return {
        name: {"capacity": capacity, "used": used}
        for name, (capacity, used) in summarized.resources.items()
    }
