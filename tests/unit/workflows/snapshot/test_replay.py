# SPDX-License-Identifier: Apache-2.0
"""Replayed queries: found in logs and lists; a cloud in a temporary file."""

from __future__ import annotations

from osc_placement.model import allocation
from osc_placement.testing import service
from osc_placement.workflows.cloud import rehearsal
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import replay, save
from tests.support.candidates import clouds, explained

HOSTS = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(3)]
SERVER = "00000000-0000-4000-8000-0000000000c0"


def test_a_service_is_saved_with_five_requests_per_provider_and_one_per_consumer(
    placement: service.InProcessPlacement,
) -> None:
    hosts = clouds.cloud(*(clouds.provider(host, VCPU=4) for host in HOSTS))
    client = explained.seeded(placement, hosts)
    allocations = {HOSTS[0]: {"VCPU": 2}}
    client.replace_allocations(allocation.Consumer(SERVER, allocations, "p", "u", None, "INSTANCE"))
    client.sent.clear()
    with save.saved(client, ReadContext(workers=1)) as path, rehearsal.opened_file(path) as copy:
        saved = client.sent.total()
        assert copy.show_allocations(SERVER).allocations == allocations
        assert [provider.uuid for provider in copy.list_providers()] == HOSTS
    # Two listings of providers, one of traits and one of resource classes.
    assert saved == 4 + 5 * len(HOSTS) + 1
    assert client.sent.total() == saved
    assert not path.exists()


def test_the_order_and_the_form_of_allocations_do_not_matter() -> None:
    old = [
        {"resource_provider": {"uuid": "b"}, "resources": {"VCPU": 1}},
        {"resource_provider": {"uuid": "a"}, "resources": {"X": 1, "DISK_GB": 2}},
    ]
    new = {
        "a": {"resources": {"DISK_GB": 2, "X": 1}},
        "b": {"resources": {"VCPU": 1}},
    }
    first, second = (
        replay.candidates({"allocation_requests": [{"allocations": allocations}]})
        for allocations in (old, new)
    )
    assert first == second
