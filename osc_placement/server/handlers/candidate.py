"""Allocation candidates."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import inventory, listing, standard, state, trait
from osc_placement.engine.candidates import search as engine, summary
from osc_placement.model import candidate as model
from osc_placement.server import context as calls, query
from osc_placement.server.schemas import candidate as schemas, validation

#: A query without a limit that has more candidates than this is refused.
MAX_CANDIDATES = 200_000

#: So many candidates are encoded at once.
BATCH = 200


def list_all(call: calls.Call) -> webob.Response:
    """GET /allocation_candidates

    Candidates are encoded as they are found, so that the memory that a large answer
    takes is that of its text.
    """
    given = call.checked_query(validation.at(schemas.QUERY, call.version.minor))
    wanted = query.parse_candidates(list(given.items()), call.version)
    with call.repository.read() as base:
        named: dict[str, None] = {}
        requests = _encoded(call, _search(base, wanted), named)
        summaries = calls.encode(_summaries(call, base, wanted, named))
    body = b'{"allocation_requests": [%s], "provider_summaries": %s}' % (requests, summaries)
    return calls.answer_encoded(call, body)


def _encoded(call: calls.Call, found: Iterator[model.Candidate], named: dict[str, None]) -> bytes:
    """The candidates as the members of a JSON list; ``named`` gets their providers.

    A batch at a time: one by one the encoder's own start counts, all at once the tree of
    dictionaries is many times the text.
    """
    form = _request_form(call)
    batches = []
    while batch := [
        form(candidate) for candidate in itertools.islice(_noting(found, named), BATCH)
    ]:
        batches.append(calls.encode(batch)[1:-1])
    return b",".join(batches)


def _noting(found: Iterator[model.Candidate], named: dict[str, None]) -> Iterator[model.Candidate]:
    for candidate in found:
        named.update(dict.fromkeys(candidate.allocations))
        yield candidate


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
    if not _has_root(base, wanted.root_required, wanted.root_forbidden):
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


def _has_root(base: state.State, required: frozenset[str], forbidden: frozenset[str]) -> bool:
    """Whether what is asked of roots leaves any; True where nothing is asked."""
    if not required and not forbidden:
        return True
    rarest = min((base.with_trait[name] for name in required), key=len, default=base.tree)
    roots = (base.providers[uuid] for uuid in rarest)
    return any(
        root.parent_uuid is None
        and root.traits.issuperset(required)
        and root.traits.isdisjoint(forbidden)
        for root in roots
    )


def _request_form(call: calls.Call) -> Callable[[model.Candidate], dict[str, Any]]:
    """How an allocation request is shown: as the same microversion takes it back."""
    if microversion.supports(call.version, "candidate mappings"):
        return lambda found: {"allocations": _by_provider(found), "mappings": found.mappings}
    if microversion.supports(call.version, "allocation dict form"):
        return lambda found: {"allocations": _by_provider(found)}
    return lambda found: {
        "allocations": [
            {"resource_provider": {"uuid": uuid}, "resources": resources}
            for uuid, resources in found.allocations.items()
        ]
    }


def _by_provider(found: model.Candidate) -> dict[str, Any]:
    return {uuid: {"resources": resources} for uuid, resources in found.allocations.items()}


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
