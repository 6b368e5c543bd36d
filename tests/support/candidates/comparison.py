# SPDX-License-Identifier: Apache-2.0
"""The same clouds and queries on two Placements, or on one and the engine's search."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from osc_placement import microversion
from osc_placement.engine import record, standard, state
from osc_placement.engine.candidates import search as candidate_search
from osc_placement.model import candidate
from osc_placement.server.store import document
from tests.support.candidates import clouds, oracle, random_queries
from tests.support.peer import loading, target as targets

#: Allocations and, from 1.34, mappings; see ``oracle.Answer``.
Request = tuple[Any, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """One query on one cloud; ``name`` identifies it."""

    name: str
    base: state.CloudState
    version: microversion.Microversion
    query: candidate.CandidateQuery

    @property
    def path(self) -> str:
        """The query as a request path."""
        return f"/allocation_candidates?{random_queries.query_string(self.query)}"


@dataclasses.dataclass(frozen=True)
class Answer:
    """A response independent of order; ``fault`` has the status and text of an error."""

    requests: Counter[Request]
    summaries: Mapping[str, Any]
    fault: str = ""


def draw_cases(seed: int, queries: int) -> tuple[state.CloudState, Iterator[Case]]:
    """A cloud and cases on it."""
    draw = random.Random(seed)
    base = clouds.draw_state(draw)
    return base, _draw_cases(draw, base, f"{seed}", queries)


def _draw_cases(
    draw: random.Random, base: state.CloudState, name: str, queries: int
) -> Iterator[Case]:
    for number in range(queries):
        version = random_queries.draw_version(draw)
        query = random_queries.draw_query(draw, base, version)
        yield Case(f"{name}.{number}", base, version, query)


def seed(base: state.CloudState, target: targets.Target) -> None:
    """Write a cloud into an empty Placement."""
    loading.load(document.dump_document(base), target.ask)


def response_of(case: Case, target: targets.Target, text: str = "") -> Answer:
    """The response of a Placement; ``text`` is another query string than that of the case."""
    path = f"/allocation_candidates{text}" if text else case.path
    answer = target.request("GET", path, version=str(case.version))
    body = answer.json()
    if answer.status_code != 200:
        return Answer(Counter(), {}, f"{answer.status_code} {body['errors'][0]['detail']}")
    summaries = body["provider_summaries"]
    for summary in summaries.values():
        if "traits" in summary:
            summary["traits"].sort()
    return Answer(Counter(map(_request, body["allocation_requests"])), summaries)


def _request(body: Mapping[str, Any]) -> Request:
    allocations = body["allocations"]
    if isinstance(allocations, list):
        allocations = {part["resource_provider"]["uuid"]: part for part in allocations}
    mappings = body.get("mappings")
    return (
        frozenset((uuid, frozenset(e["resources"].items())) for uuid, e in allocations.items()),
        mappings and frozenset((suffix, frozenset(uuids)) for suffix, uuids in mappings.items()),
    )


def result_of_search(case: Case) -> Answer:
    """The result of the engine, in the API's form at the version of the case."""
    answers = [oracle.freeze(each) for each in candidate_search.search(case.base, case.query)]
    requests = _shown(case, answers)
    return Answer(requests, summaries(case, requests))


def _shown(case: Case, answers: Iterable[oracle.Answer]) -> Counter[Request]:
    with_mappings = microversion.supports(case.version, "candidate mappings")
    return Counter(
        (allocations, mappings if with_mappings else None) for allocations, mappings in answers
    )


def summaries(case: Case, requests: Iterable[Request]) -> dict[str, Any]:
    """The provider summaries for these requests."""
    version = case.version
    named = {uuid for allocations, _ in requests for uuid, _ in allocations}
    nested = microversion.supports(version, "nested candidates")
    whole = microversion.supports(version, "candidate whole summaries")
    requested = {name for group in case.query.groups for name in group.resources}
    roots = {case.base.providers[uuid].root_uuid for uuid in named}
    shown: dict[str, Any] = {}
    for uuid, provider in case.base.providers.items():
        if not (provider.root_uuid in roots if nested else uuid in named):
            continue
        entry: dict[str, Any] = {
            "resources": {
                name: {
                    "capacity": int((item.total - item.reserved) * item.allocation_ratio),
                    "used": case.base.used(uuid).get(name, 0),
                }
                for name, item in provider.inventories.items()
                if whole or name in requested
            }
        }
        shown[uuid] = entry
        if microversion.supports(version, "candidate required traits"):
            entry["traits"] = sorted(provider.traits)
        if nested:
            entry["root_provider_uuid"] = provider.root_uuid
            entry["parent_provider_uuid"] = provider.parent_uuid
    return shown


def excuse(case: Case, real: Answer, ours: Answer) -> str:
    """The known reason for a different response of openstack-placement; empty if there is none.

    The Conformance page of the documentation lists the reasons.
    """
    if adds_up(case.query):
        return "adds up in place"
    if real.fault.startswith("500") and _sharing_below_root(case.base):
        return "fails for a sharing provider below a root"
    if real.fault.startswith("500") and "InvalidTextRepresentation" in real.fault:
        return "fails on PostgreSQL for a forbidden trait"
    missed = ours.requests - real.requests
    is_known = not real.fault and not real.requests - ours.requests
    below_root = _sharing_below_root(case.base)
    used = [{uuid for uuid, _ in allocations} for allocations, _ in missed]
    if is_known and used and all(below_root & uuids for uuids in used):
        return "loses sharing providers below a root"
    if is_known and _are_shared(case, missed) and real.summaries == summaries(case, real.requests):
        return "loses trees that sharing providers serve"
    return ""


def adds_up(query: candidate.CandidateQuery) -> bool:
    """Whether openstack-placement adds up amounts in place, which changes its answer."""
    unsuffixed = {name for group in query.groups if not group.suffix for name in group.resources}
    return query.isolate and any(
        unsuffixed & group.resources.keys() for group in query.groups if group.suffix
    )


def _sharing_below_root(base: state.CloudState) -> set[str]:
    return {
        provider.uuid
        for provider in base.providers.values()
        if provider.parent_uuid is not None and standard.SHARING_TRAIT in provider.traits
    }


def _are_shared(case: Case, requests: Counter[Request]) -> bool:
    """Whether sharing providers alone serve the unsuffixed group of all these requests."""
    sharing = case.base.with_trait[standard.SHARING_TRAIT]
    shared = [
        oracle.freeze(allocation_candidate)
        for allocation_candidate in candidate_search.search(case.base, case.query)
        if "" in allocation_candidate.mappings and sharing >= set(allocation_candidate.mappings[""])
    ]
    return not requests - _shown(case, shared)


def describe(case: Case, real: Answer, ours: Answer) -> list[str]:
    """The difference for a person: the cloud, the query, and what only one side has."""
    names = {provider.uuid: provider.name for provider in case.base.providers.values()}
    lines = [f"case {case.name} at {case.version}"]
    lines += [f"  {_tell(case.base, provider)}" for provider in case.base.providers.values()]
    lines.append(f"  {case.path}")
    lines += [f"  {side}: {a.fault}" for side, a in (("real", real), ("ours", ours)) if a.fault]
    for side, only in (
        ("real", real.requests - ours.requests),
        ("ours", ours.requests - real.requests),
    ):
        lines += [f"  only {side}: {request}" for request in map(str, only.elements())]
    if real.requests == ours.requests and not (real.fault or ours.fault):
        for uuid in sorted({*real.summaries, *ours.summaries}):
            if real.summaries.get(uuid) != ours.summaries.get(uuid):
                lines.append(f"  summary of {uuid} real: {real.summaries.get(uuid)}")
                lines.append(f"  summary of {uuid} ours: {ours.summaries.get(uuid)}")
    return [_renamed(line, names) for line in lines]


def _tell(base: state.CloudState, provider: record.ProviderRecord) -> str:
    offers = {
        name: f"({inv.total}-{inv.reserved})*{inv.allocation_ratio}"
        f" {inv.min_unit}..{inv.max_unit}/{inv.step_size}"
        f" used {base.used(provider.uuid).get(name, 0)}"
        for name, inv in provider.inventories.items()
    }
    aggregates = [random_queries.AGGREGATES.index(aggregate) for aggregate in provider.aggregates]
    return f"{provider.name}: {offers} {sorted(provider.traits)} aggregates {aggregates}"


def _renamed(line: str, names: Mapping[str, str]) -> str:
    for uuid, name in names.items():
        line = line.replace(uuid, name)
    for number, aggregate in enumerate(random_queries.AGGREGATES):
        line = line.replace(aggregate, f"agg{number}")
    return line
