"""Explanations of random queries on random clouds, compared with the server and brute force."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Collection, Iterator

import pytest

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.engine import record, state
from osc_placement.model import candidate, constraint
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.testing import service
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.explain import amounts, explain
from osc_placement.workflows.explain.values import Action, Change
from tests.support.candidates import cloud_builder, clouds, explained

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
pytestmark = pytest.mark.seeds(2, long=100)
QUERIES = 4


class Cloud:
    """A random cloud in a server, as a database file and as a service."""

    def __init__(self, placement: service.InProcessPlacement, seed: object) -> None:
        self.draw = random.Random(f"explain {seed}")
        self.base = cloud_builder.draw_state(self.draw)
        explained.seed(placement, self.base)
        self.file = placement.client(VERSION)
        self.service = placement.client(VERSION)
        self.service.transport.application = lambda: None

    def queries(self) -> Iterator[candidate.CandidateQuery]:
        for _ in range(QUERIES):
            yield cloud_builder.draw_query(self.draw, self.base, VERSION)

    def explain(
        self, client: api.Client, query: candidate.CandidateQuery, *hosts: str
    ) -> explain.Explanation:
        order = constraint.constraints_of(query)
        return explain.explain(client, explain.ExplainRequest(query, order, hosts), CONTEXT)


@pytest.fixture
def cloud(seed: int, placement: service.InProcessPlacement) -> Cloud:
    return Cloud(placement, seed)


def serving(base: state.State, query: candidate.CandidateQuery) -> list[str]:
    return HostSearch(base, query).serving()


def test_a_host_is_a_candidate_exactly_if_the_server_returns_it(cloud: Cloud) -> None:
    names = [each.name for each in cloud.base.providers.values() if each.uuid == each.root_uuid]
    for query in cloud.queries():
        returned = explained.hosts_in_response(cloud.file, cloud.base, query)
        for client in (cloud.file, cloud.service):
            found = cloud.explain(client, query, *names)
            assert set(found.candidates) == returned
            assert {failure.host for failure in found.failures} == set(names) - returned
            assert found.funnel[-1].hosts == len(returned)


def test_the_funnel_counts_the_hosts_of_each_partial_query(cloud: Cloud) -> None:
    for query in cloud.queries():
        found = cloud.explain(cloud.file, query)
        for count, step in enumerate(found.funnel, start=1):
            rest = [each.constraint for each in found.funnel[count:]]
            partial = constraint.without(query, rest)
            # A class that follows may be the only one that a host has.
            if all(each.kind is not Kind.RESOURCES for each in rest) and rest:
                search = HostSearch(cloud.base, partial)
                meeting = [each for each in cloud.base.tree if search.meets(each)]
                assert step.hosts == len(meeting)


def changed(query: candidate.CandidateQuery, change: Change) -> candidate.CandidateQuery:
    lower = {each: amount or 0 for each, amount in change.amounts.items()}
    return amounts.reduced(constraint.without(query, change.removed), lower)


def smaller(query: candidate.CandidateQuery, change: Change) -> Iterator[candidate.CandidateQuery]:
    """The query with every smaller change: some of the constraints, and larger amounts."""
    kept = [
        (each, range(amount or 0, (each.amount or 0) + 1))
        for each, amount in change.amounts.items()
    ]
    for removed in _subsets(change.removed):
        for chosen in itertools.product(*(values for _, values in kept)):
            lower = dict(zip((each for each, _ in kept), chosen, strict=True))
            if removed != set(change.removed) or lower != change.amounts:
                yield amounts.reduced(constraint.without(query, removed), lower)


def _subsets(items: Collection[Constraint]) -> Iterator[set[Constraint]]:
    for size in range(len(items) + 1):
        yield from map(set, itertools.combinations(items, size))


def test_each_change_gives_candidates_and_no_smaller_one_does(cloud: Cloud) -> None:
    for query in cloud.queries():
        found = cloud.explain(cloud.file, query)
        assert not (found.candidates and found.changes)
        for change in found.changes:
            if change.action is Action.RELAX:
                assert change.hosts == len(serving(cloud.base, changed(query, change))) > 0
                assert not any(
                    HostSearch(cloud.base, each).serving() for each in smaller(query, change)
                )


def test_a_service_is_explained_as_its_database(cloud: Cloud) -> None:
    names = [each.name for each in cloud.base.providers.values() if each.uuid == each.root_uuid]
    for query in cloud.queries():
        for hosts in ((), names):
            whole, asked = (
                cloud.explain(each, query, *hosts) for each in (cloud.file, cloud.service)
            )
            assert asked == whole


def test_room_on_a_host_gives_a_candidate_and_less_does_not(cloud: Cloud) -> None:
    for query in cloud.queries():
        found = cloud.explain(cloud.file, query)
        by_provider: dict[str, dict[str, int]] = {}
        for change in found.changes:
            if change.action is not Action.RELAX:
                room = by_provider.setdefault(change.provider or "", {})
                room[change.resource_class or ""] = change.amount or 0
        for name, room in by_provider.items():
            assert serving(with_room(cloud.base, name, room), query)
            for resource_class in room:
                less = {**room, resource_class: room[resource_class] - 1}
                assert not serving(with_room(cloud.base, name, less), query)


def with_room(base: state.State, name: str, room: dict[str, int]) -> state.State:
    """The cloud with more capacity of some classes on one provider."""
    provider = base.providers[base.named[name]]
    inventories = dict(provider.inventories)
    for resource_class, amount in room.items():
        held = inventories[resource_class]
        inventories[resource_class] = dataclasses.replace(
            held, total=held.capacity + amount, reserved=0, allocation_ratio=1.0
        )
    copied = base.copy()
    copied.apply(
        record.Changes({provider.uuid: dataclasses.replace(provider, inventories=inventories)})
    )
    return copied


def test_the_number_of_requests_is_exact(
    placement: service.InProcessPlacement,
) -> None:
    hosts = [
        clouds.provider(f"00000000-0000-4000-8000-{n:012}", VCPU=8, MEMORY_MB=64) for n in range(30)
    ]
    explained.seed(placement, clouds.cloud(*hosts))
    client = explained.CountingClient(placement.client(VERSION).transport, VERSION)
    client.transport.application = lambda: None
    query = clouds.query(clouds.group(VCPU=9, MEMORY_MB=16, required="HW_CPU_X86_AVX"))
    order = constraint.constraints_of(query)
    found = explain.explain(client, explain.ExplainRequest(query, order, nearest=2), CONTEXT)
    assert [each.amounts for each in found.changes] == [{order[0]: 8}]
    assert client.sent == {
        "allocation_candidates/resources": 1,
        "resource_providers/": 1,
        "resource_providers/required": 2,
        "resource_providers/inventories/": 30,
        "resource_providers/usages/": 30,
    }
