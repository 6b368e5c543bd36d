"""The codes of audited flavors, and the requests that an audit sends."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from osc_placement import errors, microversion
from osc_placement.engine import record, standard, state
from osc_placement.model import inventory
from osc_placement.nova import api, request
from osc_placement.testing import service
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.flavors import audit, empty_cloud
from tests.support.candidates import cloud_builder, explained

CONTEXT = ReadContext(workers=1)
UUID = "00000000-0000-4000-8000-{:012}"


def recorded(**specs: Mapping[str, str]) -> api.RecordedNova:
    """Nova with a flavor of 4 VCPU for each set of extra specs."""
    flavors = [
        {
            "id": name, "name": name, "vcpus": 4, "ram": 16, "disk": 0, "swap": 0,
            "OS-FLV-EXT-DATA:ephemeral": 0, "extra_specs": dict(found),
        }
        for name, found in specs.items()
    ]  # fmt: skip
    return api.RecordedNova({"GET /v2.1/flavors/detail": {"flavors": flavors}}, "flavors")


FLAVORS: dict[str, Mapping[str, str]] = {
    "ok": {},
    "one_host": {"trait:CUSTOM_ONE": "required"},
    "full": {"resources:VCPU": "8"},
    "no_host": {"resources:VCPU": "9"},
    "unknown_name": {"trait:CUSTOM_NOPE": "forbidden"},
    "invalid": {"hw:cpu_policy": "bogus"},
}


def cloud(vcpus: int, memory: int = 0) -> state.State:
    """Two hosts with 8 VCPU, of which so much is used."""
    held = {"VCPU": inventory.Inventory(8), "MEMORY_MB": inventory.Inventory(64)}
    hosts = {
        UUID.format(n): record.ProviderRecord(
            UUID.format(n), f"host{n}", UUID.format(n), inventories=held,
            traits=frozenset({"CUSTOM_ONE"} if n else ()),
        )
        for n in range(2)
    }  # fmt: skip
    base = state.State()
    amounts = {"VCPU": vcpus, **({"MEMORY_MB": memory} if memory else {})}
    consumer = record.ConsumerRecord(UUID.format(9), 1, "p", "u", dict.fromkeys(hosts, amounts))
    base.apply(record.Changes(hosts, {consumer.uuid: consumer}, {"CUSTOM_ONE": 0.0}))
    return base


@pytest.fixture
def placement() -> Iterator[service.InProcessPlacement]:
    with service.InProcessPlacement() as started:
        explained.seed(started, cloud(1))
        yield started


def counting(placement: service.InProcessPlacement) -> explained.CountingClient:
    version = microversion.MAXIMUM
    return explained.CountingClient(placement.client(version).transport, version)


def audited(
    client: explained.CountingClient, nova: api.Nova, *names: str, **options: Any
) -> dict[str, audit.AuditedFlavor]:
    scheduler = request.SchedulerOptions(**options)
    return {each.name: each for each in audit.audit(client, nova, names, scheduler, CONTEXT)}


def test_each_code_is_found_with_one_request_per_flavor(
    placement: service.InProcessPlacement,
) -> None:
    client = counting(placement)
    found = audited(client, recorded(**FLAVORS))
    assert {name: str(each.code) for name, each in found.items()} == {
        name: name for name in FLAVORS
    }
    assert [found["ok"].hosts, found["one_host"].hosts, found["full"].empty_hosts] == [2, 1, 2]
    assert "CUSTOM_NOPE" in found["unknown_name"].reason
    # Nothing is sent for a flavor that nova refuses.
    assert sum(client.sent.values()) == len(FLAVORS) - 1


def test_a_service_tells_full_from_impossible_by_capacities(
    placement: service.InProcessPlacement,
) -> None:
    client = counting(placement)
    client.transport.application = lambda: None
    found = audited(client, recorded(**FLAVORS), "full", "no_host")
    assert {name: str(each.code) for name, each in found.items()} == {
        "full": "full",
        "no_host": "no_host",
    }
    assert "min_unit" in found["full"].reason
    # One per flavor; the providers, and the capacities of two classes.
    assert client.sent == {"allocation_candidates/resources": 4, "resource_providers/": 1}


def test_hosts_of_which_nothing_is_free_are_not_judged_on_a_service() -> None:
    with service.InProcessPlacement() as started:
        explained.seed(started, cloud(8, 64))
        client = counting(started)
        client.transport.application = lambda: None
        found = audited(client, recorded(**FLAVORS), "no_host")["no_host"]
    assert str(found.code) == "no_host_now"
    assert "2 hosts have nothing free" in found.reason


@pytest.mark.parametrize("seed", range(8))
def test_a_service_shows_capacities_of_trees_with_anything_free(seed: int) -> None:
    draw = random.Random(f"empty cloud {seed}")
    base = cloud_builder.draw_state(draw)
    while base.with_trait[standard.SHARING_TRAIT]:
        base = cloud_builder.draw_state(draw)
    with service.InProcessPlacement() as started:
        explained.seed(started, base)
        client = started.client(microversion.MAXIMUM)
        read = empty_cloud.read(client, sorted(base.with_class), CONTEXT)
    seen = {each.root_uuid for each in read.state.providers.values() if each.inventories}
    assert read.unseen == len(set(base.tree) - seen)
    for _ in range(10):
        query = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
        if not any(group.member_of or group.forbidden_aggregates for group in query.groups):
            found = set(HostSearch(read.state, query).serving())
            assert found == seen & set(HostSearch(without_units(base), query).serving())


def without_units(base: state.State) -> state.State:
    """The cloud without allocations and without units of inventories."""
    found = state.State()
    found.apply(
        record.Changes(
            {
                uuid: dataclasses.replace(
                    each,
                    inventories={
                        name: inventory.Inventory(held.capacity)
                        for name, held in each.inventories.items()
                    },
                )
                for uuid, each in base.providers.items()
            }
        )
    )
    return found


def test_too_many_candidates_are_counted_up_to_novas_limit(
    placement: service.InProcessPlacement,
) -> None:
    client = counting(placement)
    found = audited(client, recorded(**FLAVORS), "ok", max_placement_results=1)
    assert (str(found["ok"].code), found["ok"].hosts) == ("many_candidates", 1)


def test_an_unknown_flavor_is_named(placement: service.InProcessPlacement) -> None:
    client = counting(placement)
    with pytest.raises(errors.InvalidInput, match="absent"):
        audited(client, recorded(**FLAVORS), "absent")
