# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson
import webob

from osc_placement import microversion
from osc_placement.engine import standard, state
from osc_placement.engine.candidates import search
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model.candidate import Candidate, CandidateQuery
from osc_placement.server import query, schemas
from osc_placement.server.context import Limits, RequestContext, encode, json_response

#: Bytes of a part of a response: as large as the C library returns to the system at once.
_PART = 1 << 20


def list_all(context: RequestContext) -> webob.Response:
    """GET /allocation_candidates

    Candidates are encoded as they are found, so that only the text of a large response is in
    memory. The search reads a snapshot: it does not block writes.
    """
    parameters = context.checked_query(schemas.CANDIDATES_QUERY)
    candidate_query = query.parse_candidates(list(parameters.items()), context.version)
    limits, form = context.limits, _request_form(context.version)
    text = _Text()
    text.add(b'{"allocation_requests": [')
    providers: dict[str, None] = {}
    budget = SearchBudget(limits.search_seconds)
    with context.repository.snapshot() as base:
        for candidate in _candidates(base, candidate_query, limits, budget):
            if providers:
                text.add(b", ")
            text.add(orjson.dumps(form(candidate)))
            limits.check_size(text.size)
            providers.update(dict.fromkeys(candidate.allocations))
        summaries = _summaries(context.version, base, candidate_query, providers)
    text.add(b'], "provider_summaries": ')
    text.add(encode(summaries))
    text.add(b"}")
    limits.check_size(text.size)
    return json_response(context, text.parts())


class _Text:
    """A text that is kept, and sent, in parts: no second copy of a large one is made.

    ``size`` is the number of bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytes] = []
        self._last = bytearray()

    def add(self, text: bytes) -> None:
        """Append some bytes."""
        self.size += len(text)
        self._last += text
        if len(self._last) > _PART:
            self._parts.append(bytes(self._last))
            self._last.clear()

    def parts(self) -> list[bytes]:
        """The whole text."""
        return [*self._parts, bytes(self._last)]


def _candidates(
    base: state.CloudState, candidate_query: CandidateQuery, limits: Limits, budget: SearchBudget
) -> Iterable[Candidate]:
    if not search.may_match(base, candidate_query, budget):
        return ()
    return search.search(
        base,
        candidate_query,
        max_candidates=limits.candidates,
        budget=budget,
        strategy=limits.strategy,
        most=limits.max_candidates,
    )


def _request_form(version: microversion.Microversion) -> Callable[[Candidate], dict[str, Any]]:
    """The format of an allocation request: the microversion of the request accepts it back."""
    if microversion.supports(version, "candidate mappings"):
        return lambda candidate: {
            "allocations": _by_provider(candidate),
            "mappings": candidate.mappings,
        }
    if microversion.supports(version, "allocation dict form"):
        return lambda candidate: {"allocations": _by_provider(candidate)}
    return lambda candidate: {
        "allocations": [
            {"resource_provider": {"uuid": uuid}, "resources": resources}
            for uuid, resources in candidate.allocations.items()
        ]
    }


def _by_provider(candidate: Candidate) -> dict[str, Any]:
    return {uuid: {"resources": resources} for uuid, resources in candidate.allocations.items()}


def _summaries(
    version: microversion.Microversion,
    base: state.CloudState,
    candidate_query: CandidateQuery,
    named: Iterable[str],
) -> dict[str, Any]:
    """The summaries of the providers of the candidates; since 1.29 of their whole trees."""
    uuids = named
    if candidate_query.nested:
        roots = dict.fromkeys(base.providers[uuid].root_uuid for uuid in named)
        uuids = [uuid for root_uuid in roots for uuid in base.tree[root_uuid]]
    classes = None
    if not microversion.supports(version, "candidate whole summaries"):
        classes = {name for group in candidate_query.groups for name in group.resources}
    summaries = {}
    for uuid in uuids:
        provider, used = base.providers[uuid], base.used(uuid)
        resources = {
            name: {"capacity": item.capacity, "used": used.get(name, 0)}
            for name, item in provider.inventories.items()
            if classes is None or name in classes
        }
        shown: dict[str, Any] = {"resources": resources}
        if microversion.supports(version, "candidate required traits"):
            shown["traits"] = standard.in_order(provider.traits)
        if candidate_query.nested:
            shown["parent_provider_uuid"] = provider.parent_uuid
            shown["root_provider_uuid"] = provider.root_uuid
        summaries[uuid] = shown
    return summaries
