# SPDX-License-Identifier: Apache-2.0
"""Clouds in a Placement, and the hosts that its responses name, for tests of explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from osc_placement import microversion
from osc_placement.client import api, query as queries
from osc_placement.engine import standard, state
from osc_placement.model import candidate
from osc_placement.server.store import document
from osc_placement.testing import service


class CountingClient(api.Client):
    """Counts the requests by path without UUIDs and, for listings, the first parameter."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.sent: Counter[str] = Counter()

    def _send(self, method: str, *segments: str, **options: Any) -> Any:
        pairs = options.get("pairs") or [("", "")]
        self.sent["/".join([*segments[:1], *segments[2:], pairs[0][0]])] += 1
        return super()._send(method, *segments, **options)


def seed(placement: service.InProcessPlacement, base: state.CloudState) -> None:
    """Put a cloud into an empty server."""
    placement.app.repository.load(document.load_document(document.dump_document(base)))


def seeded(placement: service.InProcessPlacement, base: state.CloudState) -> CountingClient:
    """A client at the latest microversion of an empty server that gets this cloud."""
    seed(placement, base)
    return CountingClient(placement.client(microversion.MAXIMUM).transport, microversion.MAXIMUM)


def as_service(placement: service.InProcessPlacement, base: state.CloudState) -> CountingClient:
    """As ``seeded``, of a server that is read by requests and not as a database file."""
    client = seeded(placement, base)
    client.transport.local = lambda: None
    return client


def hosts_in_response(
    client: api.Client, base: state.CloudState, query: candidate.CandidateQuery
) -> set[str]:
    """The names of the hosts of which Placement returns a candidate.

    A response does not name the host: it is a root that meets the conditions on roots.
    """
    answer = client.list_allocation_candidates(queries.candidate_pairs(query))
    return {
        base.providers[root].name
        for request in answer.requests
        for root in _hosts(base, {*request.allocations, *_mapped(request.mappings or {})})
        if not base.tree[root].isdisjoint(request.allocations)
        and query.root_required <= base.providers[root].traits
        and query.root_forbidden.isdisjoint(base.providers[root].traits)
    }


def _mapped(mappings: Any) -> Iterator[str]:
    for uuids in mappings.values():
        yield from uuids


def _hosts(base: state.CloudState, uuids: Iterable[str]) -> set[str]:
    """The roots to whose tree each provider belongs, or with which it shares."""
    return set.intersection(*(_served(base, uuid) for uuid in uuids))


def _served(base: state.CloudState, uuid: str) -> set[str]:
    provider = base.providers[uuid]
    served = {provider.root_uuid}
    if standard.SHARING_TRAIT in provider.traits:
        for aggregate in provider.aggregates:
            served |= {base.providers[each].root_uuid for each in base.with_aggregate[aggregate]}
    return served
