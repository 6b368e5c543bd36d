# SPDX-License-Identifier: Apache-2.0
"""Runs logged queries on a snapshot, and on a second state, and compares the candidates."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from osc_placement import microversion
from osc_placement.client import api, api_errors
from osc_placement.model import json_text
from osc_placement.workflows.cloud import logs
from osc_placement.workflows.cloud.context import ReadContext


@dataclasses.dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The candidates of one query; ``error`` says why Placement refused it.

    ``seconds`` passed until it began; None for a refused query, and for one that is not timed.
    """

    candidates: Candidates = frozenset()
    error: str = ""
    seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueryComparison:
    """A query with its candidates before and after.

    ``is_cut``: both answers end at the limit of the query, so that they may have different
    candidates of more, and are not compared.
    """

    query: logs.Query
    before: QueryAnswer
    after: QueryAnswer
    is_cut: bool = False

    @property
    def lost(self) -> Candidates:
        """The candidates that only the first state has."""
        return frozenset() if self.is_cut else self.before.candidates - self.after.candidates

    @property
    def gained(self) -> Candidates:
        """The candidates that only the second state has."""
        return frozenset() if self.is_cut else self.after.candidates - self.before.candidates

    @property
    def is_refused(self) -> bool:
        """Whether only the second state refuses the query."""
        return bool(self.after.error) and not self.before.error

    @property
    def is_lost(self) -> bool:
        """Whether candidates are lost, or the query is refused now."""
        return self.is_refused or bool(self.lost)

    @property
    def is_changed(self) -> bool:
        """Whether the answers differ, and nothing is lost."""
        return not self.is_lost and bool(self.gained)

    @property
    def percent(self) -> float:
        """The share of the candidates that is lost."""
        total = len(self.before.candidates)
        return 100 * len(self.lost) / total if total else 0.0

    @property
    def is_exhausted(self) -> bool:
        """Whether the query had candidates and has none any more."""
        return bool(self.before.candidates) and not self.after.candidates

    def is_affected(self, percent: float) -> bool:
        """Whether it gets no candidate any more, loses more than a share, or is now refused."""
        return self.is_exhausted or self.is_refused or self.percent > percent

    @property
    def lost_providers(self) -> frozenset[str]:
        """The UUIDs of the providers that are in no candidate any more."""
        return _providers(self.before) - _providers(self.after)


def _providers(answer: QueryAnswer) -> frozenset[str]:
    return frozenset(uuid for item in answer.candidates for uuid in json_text.parse(item))


def compare(
    before: api.Client,
    after: api.Client,
    source: logs.QuerySource,
    context: ReadContext | None = None,
) -> Iterator[QueryComparison]:
    """Each query on both states, without its limit, which would hide lost candidates."""
    progress = (context or ReadContext()).progress
    progress.start("replaying queries", len(source.queries))
    for query in source.queries:
        yield QueryComparison(query, ask(before, query), ask(after, query))
        progress.advance()


def ask(client: api.Client, query: logs.Query) -> QueryAnswer:
    """The candidates of one query. Requests: one GET. Errors: none that concern the query."""
    version = microversion.MAXIMUM
    if query.version:
        version = microversion.Microversion.parse(query.version)
    try:
        url = f"/allocation_candidates?{query.unlimited}"
        return QueryAnswer(candidates(client.transport.send("GET", url, version=version).body))
    except api_errors.ApiError as error:
        return QueryAnswer(error=error.detail)


#: Allocation requests, each as canonical text: answers are compared as sets.
Candidates = frozenset[str]


def candidates(body: Any) -> Candidates:
    """The allocation requests of a response, without the order of providers and classes."""
    return frozenset(
        json.dumps(_resources(item["allocations"]), sort_keys=True, separators=(",", ":"))
        for item in body["allocation_requests"]
    )


def _resources(allocations: Any) -> dict[str, Any]:
    """``{provider uuid: {class: amount}}``, from the form of any microversion."""
    if isinstance(allocations, list):
        return {item["resource_provider"]["uuid"]: item["resources"] for item in allocations}
    return {uuid: item["resources"] for uuid, item in allocations.items()}
