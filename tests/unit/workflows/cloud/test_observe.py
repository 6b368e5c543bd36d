# SPDX-License-Identifier: Apache-2.0
"""A service, read over its API, answers queries as its database does."""

from __future__ import annotations

import random

import pytest

from osc_placement import microversion, testing
from osc_placement.engine import state
from osc_placement.model import candidate, constraint
from osc_placement.testing import service
from osc_placement.workflows.cloud import hosts, observe, source
from osc_placement.workflows.cloud.context import ReadContext
from tests.support.candidates import clouds, explained, random_queries

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"


def serving(base: state.CloudState, query: candidate.CandidateQuery) -> set[str]:
    return set(hosts.HostSearch(base, query).hosts())


@pytest.mark.seeds(25, long=600)
def test_the_records_of_a_service_answer_as_its_database(
    seed: int, placement: service.InProcessPlacement
) -> None:
    draw = random.Random(f"observe {seed}")
    base = clouds.draw_state(draw)
    client = explained.seeded(placement, base)
    queries = [random_queries.draw_query(draw, base, VERSION) for _ in range(5)]
    read = observe.CloudReader(client, CONTEXT).read(queries)
    classes = observe.resource_classes(queries)
    for uuid, provider in base.providers.items():
        assert read.providers[uuid].inventories == provider.inventories
        for name in classes & provider.inventories.keys():
            assert read.used(uuid).get(name, 0) == base.used(uuid).get(name, 0)
    for query in queries:
        assert serving(read, query) == serving(base, query)
        for condition in constraint.constraints_of(query):
            relaxed = constraint.without(query, [condition])
            assert serving(read, relaxed) == serving(base, relaxed), condition


def test_a_host_does_not_serve_what_it_has_only_of_a_pool() -> None:
    pool = clouds.provider("pool", aggregates="A", traits=clouds.SHARES, DISK_GB=9)
    base = clouds.cloud(clouds.provider("h", aggregates="A", VCPU=1), pool)
    search = hosts.HostSearch(base, clouds.query(clouds.group(DISK_GB=1)))
    assert (search.can_serve("h"), search.shared_can_serve("h")) == (False, True)


def test_a_sharing_provider_does_not_share_by_way_of_another_one(
    placement: service.InProcessPlacement,
) -> None:
    near, far = random_queries.AGGREGATES[:2]
    share = {"traits": clouds.SHARES}
    base = clouds.cloud(
        clouds.provider(NAME.format(1), aggregates=near, VCPU=8),
        clouds.provider(NAME.format(2), aggregates=f"{near} {far}", **share, DISK_GB=14),
        clouds.provider(NAME.format(3), aggregates=far, **share, DISK_GB=30),
    )
    client = explained.seeded(placement, base)
    query = clouds.query(clouds.group(VCPU=1, DISK_GB=20))
    assert not serving(observe.CloudReader(client, CONTEXT).read([query]), query)


def test_the_number_of_requests_is_exact(placement: service.InProcessPlacement) -> None:
    aggregate, named = random_queries.AGGREGATES[:2]
    base = clouds.cloud(
        *(clouds.provider(NAME.format(n), VCPU=8, MEMORY_MB=8) for n in range(30)),
        *(clouds.provider(NAME.format(n), PCPU=8) for n in range(30, 34)),
        clouds.provider(NAME.format(40), aggregates=aggregate, traits=clouds.SHARES, VCPU=8),
        clouds.provider(NAME.format(41), aggregates=aggregate, traits=clouds.SHARES, PCPU=8),
    )
    client = explained.seeded(placement, base)
    queries = [
        clouds.query(clouds.group(VCPU=1, required="HW_CPU_X86_AVX2|HW_CPU_X86_AVX")),
        clouds.query(
            clouds.group(MEMORY_MB=1, member_of=named),
            root_forbidden=frozenset({"COMPUTE_STATUS_DISABLED"}),
        ),
    ]
    observe.CloudReader(client, CONTEXT).read(queries)
    assert client.sent == {
        "resource_providers/": 1,
        # Those that share, and those with each of the three traits.
        "resource_providers/required": 4,
        # The aggregate of the query, and that of the sharing provider with VCPU.
        "resource_providers/member_of": 2,
        "resource_providers/aggregates/": 1,
        "resource_providers/inventories/": 36,
        "resource_providers/usages/": 31,
    }


def test_a_database_file_is_read_without_requests() -> None:
    with service.InProcessPlacement(load="12-hosts") as placement:
        client = explained.CountingClient(placement.client(VERSION).transport, VERSION)
        with source.of(client, CONTEXT).observed([clouds.query(clouds.group(VCPU=1))]) as cloud:
            assert (
                cloud.base.providers.keys() == testing.sample_cloud("12-hosts")["providers"].keys()
            )
    assert not client.sent


def test_a_provider_that_is_deleted_meanwhile_has_no_inventory(
    placement: service.InProcessPlacement,
) -> None:
    base = clouds.cloud(*(clouds.provider(NAME.format(n), VCPU=8) for n in range(2)))
    client = explained.seeded(placement, base)
    reader = observe.CloudReader(client, CONTEXT)
    reader.providers()
    client.delete_provider(NAME.format(1))
    query = clouds.query(clouds.group(VCPU=1))
    assert serving(reader.read([query]), query) == {NAME.format(0)}
