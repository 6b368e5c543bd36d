# SPDX-License-Identifier: Apache-2.0
"""How many requests the answers about a mixed cloud send: the number of its hosts is no factor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement.engine import state
from osc_placement.model import constraint, inventory
from osc_placement.scheduling import nova_options
from osc_placement.testing import service
from osc_placement.workflows.capacity import show
from osc_placement.workflows.cloud import nova_servers, observe_hosts
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import explain, flavor_audit
from tests.support.candidates import clouds, explained, random_queries
from tests.support.capacity import brute_force, cases
from tests.unit.workflows.explain import test_flavor_audit

CONTEXT = ReadContext(workers=1)
NAME = "00000000-0000-4000-8000-{:012}"
AGGREGATE = random_queries.AGGREGATES[0]
SHARED = NAME.format(0)
NEAREST = 3

#: What a question may send: at most, whatever the number of hosts.
FIXED = 60


def mixed(number: int) -> state.CloudState:
    """Hosts: with a shared disk, with children, without free memory, with a small or odd unit."""
    hosts = number - 1
    providers = [clouds.provider(SHARED, traits=clouds.SHARES, aggregates=AGGREGATE, DISK_GB=9999)]
    for at in range(1, hosts):
        providers += _host(at)
    # A fixed number of them is read alone.
    odd = inventory.Inventory(16, min_unit=2, step_size=2)
    providers += [clouds.provider(NAME.format(hosts), VCPU=odd, MEMORY_MB=128)]
    used = {NAME.format(at): {"MEMORY_MB": 128, "VCPU": 2} for at in range(1, hosts) if at % 4 == 2}
    return brute_force.claim(clouds.cloud(*providers), NAME.format(9999), used)


def _host(at: int) -> Iterator[Any]:
    """A host of one of four kinds; one kind is in the aggregate of the shared disk."""
    name, kind = NAME.format(at), at % 4
    if kind == 1:
        yield clouds.provider(name, MEMORY_MB=128)
        for child in range(2):
            yield clouds.provider(f"{child + 1:08}-0000-4000-8000-{at:012}", name, VCPU=4, VGPU=1)
    elif kind == 3:
        small = inventory.Inventory(16, max_unit=6)
        yield clouds.provider(name, VCPU=small, MEMORY_MB=128, DISK_GB=10)
    else:
        near = "" if kind else AGGREGATE
        yield clouds.provider(name, aggregates=near, VCPU=8, MEMORY_MB=128)


def asked(**amounts: int) -> explain.ExplainedQuery:
    query = clouds.query(clouds.group(**amounts))
    return explain.ExplainedQuery(query, constraint.constraints_of(query), nearest=NEAREST)


def _explain(client: explained.CountingClient) -> None:
    explain.explain(client, [asked(VCPU=9, MEMORY_MB=16, DISK_GB=5)], CONTEXT)


def _capacity(client: explained.CountingClient) -> None:
    first, second = asked(VCPU=2, MEMORY_MB=16).query, asked(VCPU=1, VGPU=1).query
    queries = {"a": ((first,),), "b": ((second,),)}
    show.show(client, show.ShowRequest(queries), CONTEXT)


def _flavors(client: explained.CountingClient) -> None:
    nova = test_flavor_audit.recorded(**test_flavor_audit.FLAVORS)
    flavor_audit.audit(client, nova, (), nova_options.SchedulerOptions(), CONTEXT)


def _host_check(client: explained.CountingClient) -> None:
    queries = {uuid: asked(VCPU=2, MEMORY_MB=4, DISK_GB=5).query for uuid in SERVERS}
    server_cases = nova_servers.ServerCases(cases.of_servers(queries))
    reader = nova_servers.NovaReader(requests=lambda *_: server_cases)
    observe_hosts.read(client, STOPPED, [], reader, CONTEXT)


SERVERS = [f"00000000-0000-4000-8000-0000000000c{at}" for at in range(4)]
STOPPED = [NAME.format(4), NAME.format(8)]


@pytest.mark.parametrize(
    ("question", "most"),
    [
        (_explain, FIXED + 3 * NEAREST),
        (_capacity, FIXED),
        (_flavors, FIXED + 4 * len(test_flavor_audit.FLAVORS)),
        (_host_check, FIXED + 3 * len(STOPPED) + 2 * len(SERVERS)),
    ],
)
def test_ten_times_the_hosts_need_no_more_requests_and_keep_the_bounds(
    question: Callable[[explained.CountingClient], None], most: int
) -> None:
    sent = []
    for number in (50, 500):
        base = mixed(number)
        for at, uuid in enumerate(SERVERS):
            amounts = {STOPPED[at % 2]: {"VCPU": 2, "MEMORY_MB": 4}, SHARED: {"DISK_GB": 5}}
            base = brute_force.claim(base, uuid, amounts)
        with service.InProcessPlacement() as placement:
            client = explained.as_service(placement, base)
            client.sent.clear()
            question(client)
            sent.append(client.sent.total())
    # The flavor audit reads the open hosts if they are few.
    assert sent[1] <= sent[0] <= most
