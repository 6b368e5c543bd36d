# SPDX-License-Identifier: Apache-2.0
"""A service, read over its API, answers queries as its database does."""

from __future__ import annotations

from osc_placement import microversion, testing
from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.testing import service
from osc_placement.workflows.cloud import hosts, source, wide
from osc_placement.workflows.cloud.context import ReadContext
from tests.support.candidates import clouds, explained, random_queries

VERSION = microversion.MAXIMUM
CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"


def serving(base: state.CloudState, query: candidate.CandidateQuery) -> set[str]:
    return set(hosts.HostSearch(base, query).hosts())


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
    assert not serving(wide.Wide(wide.WideReader(client, CONTEXT), [query]).base, query)


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
    reader = wide.WideReader(client, CONTEXT)
    reader.providers()
    client.delete_provider(NAME.format(1))
    query = clouds.query(clouds.group(VCPU=1))
    assert serving(wide.Wide(reader, [query]).base, query) == {NAME.format(0)}
