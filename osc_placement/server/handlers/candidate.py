"""Allocation candidates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import standard, state
from osc_placement.engine.candidates import names, search, summary
from osc_placement.model import candidate as model
from osc_placement.server import query, responses
from osc_placement.server.context import RequestContext
from osc_placement.server.schemas import candidate as schemas, validation

#: The largest number of candidates of a query without a limit.
MAX_CANDIDATES = 200_000

#: Candidates that are encoded at once.
BATCH = 200


def list_all(context: RequestContext) -> webob.Response:
    """GET /allocation_candidates

    Encodes candidates as they are found, so that only the text of a large response is in memory.
    """
    given = context.checked_query(validation.at(schemas.QUERY, context.version.minor))
    candidate_query = query.parse_candidates(list(given.items()), context.version)
    with context.repository.read() as base:
        named: dict[str, None] = {}
        requests = _encoded(context, _found(base, candidate_query), named)
        summaries = responses.encode(_summaries(context, base, candidate_query, named))
    body = b'{"allocation_requests": [%s], "provider_summaries": %s}' % (requests, summaries)
    return responses.encoded_response(context, body)


def _encoded(
    context: RequestContext, found: Iterator[model.Candidate], named: dict[str, None]
) -> bytes:
    """The candidates as members of a JSON list; adds their providers to ``named``.

    Encoding in batches is faster than one by one, and takes less memory than all at once.
    """
    form = _request_form(context)
    batches = []
    while batch := [
        form(candidate) for candidate in itertools.islice(_noting(found, named), BATCH)
    ]:
        batches.append(responses.encode(batch)[1:-1])
    return b",".join(batches)


def _noting(found: Iterator[model.Candidate], named: dict[str, None]) -> Iterator[model.Candidate]:
    for candidate in found:
        named.update(dict.fromkeys(candidate.allocations))
        yield candidate


def _found(base: state.State, candidate_query: model.CandidateQuery) -> Iterator[model.Candidate]:
    if not names.may_match(base, candidate_query):
        return iter(())
    return search.search(base, candidate_query, max_candidates=MAX_CANDIDATES)


def _request_form(context: RequestContext) -> Callable[[model.Candidate], dict[str, Any]]:
    """The format of an allocation request: the microversion of the request accepts it back."""
    if microversion.supports(context.version, "candidate mappings"):
        return lambda found: {"allocations": _by_provider(found), "mappings": found.mappings}
    if microversion.supports(context.version, "allocation dict form"):
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
    context: RequestContext,
    base: state.State,
    candidate_query: model.CandidateQuery,
    named: Collection[str],
) -> dict[str, Any]:
    classes = None
    if not microversion.supports(context.version, "candidate whole summaries"):
        classes = frozenset(name for group in candidate_query.groups for name in group.resources)
    with_traits = microversion.supports(context.version, "candidate required traits")
    with_tree = microversion.supports(context.version, "nested candidates")
    shown = {}
    for uuid in summary.summary_providers(base, named, whole_trees=candidate_query.nested):
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
