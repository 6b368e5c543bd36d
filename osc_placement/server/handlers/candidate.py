# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import webob

from osc_placement import microversion
from osc_placement.engine import standard, state
from osc_placement.engine.candidates import names, search
from osc_placement.model.candidate import Candidate, CandidateQuery
from osc_placement.server import http_errors, query, schemas, validation
from osc_placement.server.context import RequestContext, encode, encoded_response

#: Amounts and mappings that are encoded at once: few, so that garbage collections find few objects.
BATCH = 128
#: The least size of a part of a response: each part is sent separately.
PART_BYTES = 64 * 1024


class _Parts:
    """The encoded parts of a response; their size is limited."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._parts: list[bytes] = []
        self._pending: list[bytes] = []
        self._pending_size = 0

    def add(self, text: bytes) -> None:
        self._pending.append(text)
        self._pending_size += len(text)
        if self._pending_size > PART_BYTES:
            self._join()
        if self._size + self._pending_size > self._max_bytes:
            raise http_errors.HttpBadRequest(
                f"The response has more than {self._max_bytes} bytes. Set a lower limit."
            )

    def add_members(self, members: Iterator[bytes]) -> None:
        """Add the members of a JSON list or object."""
        for number, member in enumerate(members):
            if number:
                self._pending.append(b",")
            self.add(member)

    def joined(self) -> list[bytes]:
        """All parts."""
        self._join()
        return self._parts

    def _join(self) -> None:
        self._parts.append(b"".join(self._pending))
        self._size += self._pending_size
        self._pending, self._pending_size = [], 0


def list_all(context: RequestContext) -> webob.Response:
    """GET /allocation_candidates

    Candidates are encoded as they are found, so that only the text of a large response is in
    memory. The search does not block other requests: only searches wait for each other.
    """
    parameters = context.checked_query(
        validation.at(schemas.CANDIDATES_QUERY, context.version.minor)
    )
    candidate_query = query.parse_candidates(list(parameters.items()), context.version)
    parts = _Parts(context.limits.response_bytes)
    with context.limits.search_slot(), context.repository.snapshot() as base:
        named: dict[str, Any] = {}
        candidates = _found(context, base, candidate_query)
        parts.add(b'{"allocation_requests": [')
        parts.add_members(_encoded(context, candidates, named))
        parts.add(b'], "provider_summaries": {')
        parts.add_members(_summaries(context, base, candidate_query, named))
        parts.add(b"}}")
    return encoded_response(context, parts.joined())


def _encoded(
    context: RequestContext, candidates: Iterator[Candidate], named: dict[str, Any]
) -> Iterator[bytes]:
    """The candidates as members of a JSON list; adds their providers to the keys of ``named``.

    Encoding in batches is faster than one by one, and takes less memory than all at once.
    """
    form = _request_form(context)
    batch: list[dict[str, Any]] = []
    size = 0
    for candidate in candidates:
        named.update(candidate.allocations)
        batch.append(form(candidate))
        size += len(candidate.allocations) + len(candidate.mappings)
        if size > BATCH:
            yield encode(batch)[1:-1]
            batch, size = [], 0
    if batch:
        yield encode(batch)[1:-1]


def _found(
    context: RequestContext, base: state.CloudState, candidate_query: CandidateQuery
) -> Iterator[Candidate]:
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


def _request_form(context: RequestContext) -> Callable[[Candidate], dict[str, Any]]:
    """The format of an allocation request: the microversion of the request accepts it back."""
    if microversion.supports(context.version, "candidate mappings"):
        return lambda candidate: {
            "allocations": _by_provider(candidate),
            "mappings": candidate.mappings,
        }
    if microversion.supports(context.version, "allocation dict form"):
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
    context: RequestContext,
    base: state.CloudState,
    candidate_query: CandidateQuery,
    named: Collection[str],
) -> Iterator[bytes]:
    """The provider summaries as members of a JSON object."""
    classes = None
    if not microversion.supports(context.version, "candidate whole summaries"):
        classes = frozenset(name for group in candidate_query.groups for name in group.resources)
    for uuid in _summarized(base, named, whole_trees=candidate_query.nested):
        yield _summary(context.version, base, uuid, classes)


#: ``{key: (provider, usage, summary)}``: a summary is valid as long as the state has the same
#: objects, because a write replaces them.
_KEPT: dict[Any, tuple[object, object, bytes]] = {}
_MOST_KEPT = 1 << 16


def _summary(
    version: microversion.Microversion,
    base: state.CloudState,
    uuid: str,
    classes: frozenset[str] | None,
) -> bytes:
    """One provider summary as a member of a JSON object; encoded once until it changes."""
    provider, used = base.providers[uuid], base.used(uuid)
    key = uuid, version.minor, classes
    kept = _KEPT.get(key)
    if kept is not None and kept[0] is provider and kept[1] is used:
        return kept[2]
    resources = {
        name: {"capacity": item.capacity, "used": used.get(name, 0)}
        for name, item in provider.inventories.items()
        if classes is None or name in classes
    }
    shown: dict[str, Any] = {"resources": resources}
    if microversion.supports(version, "candidate required traits"):
        shown["traits"] = standard.in_order(provider.traits)
    if microversion.supports(version, "nested candidates"):
        shown["parent_provider_uuid"] = provider.parent_uuid
        shown["root_provider_uuid"] = provider.root_uuid
    encoded = encode({uuid: shown})[1:-1]
    if len(_KEPT) >= _MOST_KEPT:
        _KEPT.clear()
    _KEPT[key] = provider, used, encoded
    return encoded


def _summarized(base: state.CloudState, named: Iterable[str], whole_trees: bool) -> dict[str, None]:
    """The uuids of the providers with a summary: those of the candidates, as an ordered set.

    ``whole_trees`` (since 1.29) adds every provider of their trees.
    """
    if not whole_trees:
        return dict.fromkeys(named)
    roots = dict.fromkeys(base.providers[uuid].root_uuid for uuid in named)
    return {uuid: None for root_uuid in roots for uuid in base.tree[root_uuid]}
