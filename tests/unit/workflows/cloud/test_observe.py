"""A live cloud, read with few requests, answers a query as the whole cloud does."""

from __future__ import annotations

import random

import pytest

from osc_placement import microversion, testing
from osc_placement.engine import state
from osc_placement.model import candidate, constraint
from osc_placement.testing import service
from osc_placement.workflows.cloud import hosts, listings, observe
from osc_placement.workflows.context import ReadContext
from tests.support.candidates import cloud_builder, clouds, explained

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)


def serving(base: state.State, query: candidate.CandidateQuery) -> set[str]:
    return set(hosts.HostSearch(base, query).serving())


@pytest.mark.seeds(25, long=600)
def test_the_model_of_a_live_cloud_answers_as_the_cloud(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"observe {seed}")
    base = cloud_builder.draw_state(draw)
    client = explained.seeded(placement, base)
    for _ in range(5):
        query = cloud_builder.draw_query(draw, base, VERSION)
        found = observe.LiveReader(client, CONTEXT).read(query)
        assert serving(found.state, found.query) == serving(base, query)
        merged = constraint.constraints_of(found.query)
        for real, one in zip(constraint.constraints_of(query), merged, strict=True):
            assert serving(found.state, constraint.without(found.query, [one])) == serving(
                base, constraint.without(query, [real])
            ), real


def test_the_number_of_requests_depends_on_the_query_alone(
    placement: service.InProcessPlacement,
) -> None:
    hosts_with_disk = [
        clouds.provider(f"00000000-0000-4000-8000-{n:012}", VCPU=8, MEMORY_MB=8, DISK_GB=8)
        for n in range(30)
    ]
    client = explained.seeded(placement, clouds.cloud(*hosts_with_disk))
    query = clouds.query(
        clouds.group(VCPU=1, DISK_GB=2, required="HW_CPU_X86_AVX2|HW_CPU_X86_AVX", forbidden="N"),
        clouds.group("_A", VCPU=1, member_of=f"{cloud_builder.UNKNOWN}|{cloud_builder.UNKNOWN}"),
        root_forbidden=frozenset({"COMPUTE_STATUS_DISABLED"}),
    )
    query = constraint.without(
        query, [constraint.Constraint(constraint.Kind.FORBIDDEN, "", ("N",))]
    )
    observe.LiveReader(client, CONTEXT).read(query)
    assert client.sent == {
        "resource_providers/": 1,
        "resource_providers/required": 3,
        "resource_providers/resources": 3,
        "resource_providers/member_of": 1,
    }


def test_a_database_file_is_read_without_requests() -> None:
    with service.InProcessPlacement(load="12-hosts") as placement:
        client = explained.CountingClient(placement.client(VERSION).transport, VERSION)
        query = clouds.query(clouds.group(VCPU=1))
        with observe.observed(client, query, CONTEXT) as found:
            assert found.is_complete
            assert len(found.roots()) == len(
                {each["root"] for each in testing.sample_cloud("12-hosts")["providers"].values()}
            )
    assert not client.sent


def test_amounts_that_need_too_many_listings_are_an_error() -> None:
    groups = [clouds.group(f"_{n}", VCPU=2**n) for n in range(5)]
    with pytest.raises(listings.TooManySums, match="5 groups with VCPU"):
        listings.needed([clouds.query(*groups)])


@pytest.mark.parametrize("fitting", [(1,), (2, 4), (3, 6, 9), (4, 6)])
def test_an_inventory_has_room_for_the_amounts_that_fit(fitting: tuple[int, ...]) -> None:
    found = listings.inventory_for(fitting)
    assert all(found.suits_units(n) and found.has_room(0, n) for n in fitting)
    assert not found.suits_units(max(fitting) + 1)
