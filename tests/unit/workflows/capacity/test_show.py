# SPDX-License-Identifier: Apache-2.0
"""What ``placement capacity show`` counts of a service, of its database, and by brute force."""

from __future__ import annotations

import contextlib
import random

import pytest

from osc_placement import microversion
from osc_placement.client import api
from osc_placement.engine import standard, state
from osc_placement.model import candidate
from osc_placement.nova.values import HostAggregate
from osc_placement.testing import service
from osc_placement.workflows.capacity import show
from osc_placement.workflows.context import ReadContext
from tests.support.candidates import cloud_builder, clouds, explained, oracle
from tests.support.candidates.clouds import group, provider, query
from tests.support.capacity import brute_force

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"

#: Nova's host aggregates, two of them in one zone.
AGGREGATES = [
    HostAggregate(str(n), f"aggregate{n}", uuid, metadata={"availability_zone": f"az{n // 2}"})
    for n, uuid in enumerate(cloud_builder.AGGREGATES)
]


def clients(placement: service.InProcessPlacement) -> tuple[api.Client, explained.CountingClient]:
    """The cloud as a database file and as a service."""
    live = explained.CountingClient(placement.client(VERSION).transport, VERSION)
    file = placement.client(VERSION)
    live.transport.local = lambda: None
    return file, live


def counted(
    client: api.Client, request: candidate.CandidateQuery, by: show.By | None = None
) -> show.Shown:
    return show.show(client, show.ShowRequest({"": request}, by), CONTEXT, lambda: AGGREGATES)


@pytest.mark.seeds(8, long=500)
def test_a_service_is_counted_as_its_database_and_by_brute_force(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"capacity of a service {seed}")
    base = brute_force.small_state(draw)
    explained.seed(placement, base)
    file, live = clients(placement)
    for _ in range(3):
        request = cloud_builder.draw_query(draw, base, VERSION)
        for by in (None, *show.By):
            whole = counted(file, request, by)
            assert counted(live, request, by) == whole
        (row,) = counted(live, request).rows
        with contextlib.suppress(brute_force.TooManyStates):
            expected = brute_force.most(base, request)
            assert expected == row.capacity.count.least == row.capacity.count.most
        assert row.capacity.hosts == len(oracle.hosts(base, request))
        for each in row.capacity.classes:
            assert usable(base, request, each.name) >= each.free


def usable(base: state.CloudState, request: candidate.CandidateQuery, name: str) -> int:
    """At least what is free of a class on trees that the traits of the request admit."""
    groups = [each for each in request.groups if each.resources]
    free = 0
    for root in base.tree:
        uuids = {*base.tree[root]} | {
            uuid
            for uuid in base.with_trait[standard.SHARING_TRAIT]
            for aggregate in base.providers[uuid].aggregates
            if not base.with_aggregate[aggregate].isdisjoint(base.tree[root])
        }
        there = frozenset().union(*(base.providers[uuid].traits for uuid in uuids))
        if all(there & any_of for each in groups for any_of in each.required):
            for uuid in uuids:
                held = base.providers[uuid].inventories.get(name)
                free += 0 if held is None else held.capacity - base.used(uuid).get(name, 0)
    return free


def test_only_hosts_with_the_traits_of_several_classes_count() -> None:
    base = clouds.cloud(
        provider(NAME.format(1), traits="HW_CPU_X86_SSE", VCPU=8, MEMORY_MB=10),
        provider(NAME.format(2), VCPU=8, MEMORY_MB=10),
    )
    with service.InProcessPlacement() as placement:
        explained.seed(placement, base)
        asked = query(group(VCPU=1, MEMORY_MB=1, required="HW_CPU_X86_SSE"))
        for client in clients(placement):
            (row,) = counted(client, asked).rows
            assert {each.name: each.capacity for each in row.capacity.classes} == {
                "VCPU": 8,
                "MEMORY_MB": 10,
            }


@pytest.mark.parametrize(
    ("by", "more"),
    [
        (None, {}),
        (show.By.HOST, {}),
        (show.By.AGGREGATE, {"resource_providers/aggregates/": 6}),
        (show.By.ZONE, {"resource_providers/member_of": 3}),
    ],
)
def test_the_number_of_requests_is_exact(
    by: show.By | None, more: dict[str, int], placement: service.InProcessPlacement
) -> None:
    base = clouds.cloud(
        *(provider(NAME.format(n), VCPU=8, MEMORY_MB=8) for n in range(4)),
        *(provider(NAME.format(n), PCPU=8) for n in range(4, 6)),
    )
    explained.seed(placement, base)
    _, live = clients(placement)
    counted(live, query(group(VCPU=2, MEMORY_MB=1, required="HW_CPU_X86_SSE")), by)
    assert live.sent == {
        "resource_providers/": 1,
        "resource_providers/required": 2,
        "resource_providers/inventories/": 6,
        "resource_providers/usages/": 4,
        **more,
    }
