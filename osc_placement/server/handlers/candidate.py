"""Allocation candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import standard, state
from osc_placement.engine.candidates import names, search, summary
from osc_placement.model import candidate as model
from osc_placement.server import http_errors, query, responses
from osc_placement.server.context import RequestContext
from osc_placement.server.schemas import candidate as schemas, validation

#: Amounts and mappings, or summaries, that are encoded at once.
BATCH = 2000


class _Chunks:
    """The encoded parts of a response; their size is limited."""

    def __init__(self, max_bytes: int) -> None:
        self.parts: list[bytes] = []
        self._max_bytes = max_bytes
        self._size = 0

    def add(self, part: bytes) -> None:
        self.parts.append(part)
        self._size += len(part)
        if self._size > self._max_bytes:
            raise http_errors.BadRequest(
                f"The response has more than {self._max_bytes} bytes. Set a lower limit."
            )

    def add_members(self, members: Iterator[bytes]) -> None:
        """Add the members of a JSON list or object."""
        for number, member in enumerate(members):
            self.add(b"," + member if number else member)


def list_all(context: RequestContext) -> webob.Response:
    """GET /allocation_candidates

    Candidates are encoded as they are found, so that only the text of a large response is in
    memory. The search does not block other requests.
    """
    given = context.checked_query(validation.at(schemas.QUERY, context.version.minor))
    candidate_query = query.parse_candidates(list(given.items()), context.version)
    chunks = _Chunks(context.limits.response_bytes)
    with context.repository.snapshot() as base:
        named: dict[str, None] = {}
        found = _noting(_found(context, base, candidate_query), named)
        chunks.add(b'{"allocation_requests": [')
        chunks.add_members(_encoded(context, found))
        chunks.add(b'], "provider_summaries": {')
        chunks.add_members(_summaries(context, base, candidate_query, named))
        chunks.add(b"}}")
    return responses.encoded_response(context, chunks.parts)


def _encoded(context: RequestContext, found: Iterator[model.Candidate]) -> Iterator[bytes]:
    """The candidates as members of a JSON list.

    Encoding in batches is faster than one by one, and takes less memory than all at once.
    """
    form = _request_form(context)
    batch: list[dict[str, Any]] = []
    size = 0
    for candidate in found:
        batch.append(form(candidate))
        size += len(candidate.allocations) + len(candidate.mappings)
        if size > BATCH:
            yield responses.encode(batch)[1:-1]
            batch, size = [], 0
    if batch:
        yield responses.encode(batch)[1:-1]


def _noting(found: Iterator[model.Candidate], named: dict[str, None]) -> Iterator[model.Candidate]:
    for candidate in found:
        named.update(dict.fromkeys(candidate.allocations))
        yield candidate


def _found(
    context: RequestContext, base: state.State, candidate_query: model.CandidateQuery
) -> Iterator[model.Candidate]:
    budget = context.limits.budget()
    if not names.may_match(base, candidate_query, budget):
        return iter(())
    limits = context.limits
    return search.search(
        base,
        dataclasses.replace(candidate_query, limit=limits.lowered(candidate_query.limit)),
        max_candidates=limits.candidates,
        budget=budget,
        strategy=limits.strategy,
    )


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
) -> Iterator[bytes]:
    """The provider summaries as members of a JSON object, encoded in batches."""
    classes = None
    if not microversion.supports(context.version, "candidate whole summaries"):
        classes = frozenset(name for group in candidate_query.groups for name in group.resources)
    with_traits = microversion.supports(context.version, "candidate required traits")
    with_tree = microversion.supports(context.version, "nested candidates")
    batch: dict[str, dict[str, Any]] = {}
    for uuid in summary.summary_providers(base, named, whole_trees=candidate_query.nested):
        summarized = summary.summarize(base, uuid, classes)
        provider = summarized.provider
        entry: dict[str, Any] = {"resources": summarized.resources}
        if with_traits:
            entry["traits"] = standard.in_order(provider.traits)
        if with_tree:
            entry["parent_provider_uuid"] = provider.parent_uuid
            entry["root_provider_uuid"] = provider.root_uuid
        batch[uuid] = entry
        if len(batch) >= BATCH:
            yield responses.encode(batch)[1:-1]
            batch = {}
    if batch:
        yield responses.encode(batch)[1:-1]
