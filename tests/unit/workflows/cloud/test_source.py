# SPDX-License-Identifier: Apache-2.0
"""Facts of a cloud: read when they are asked for, once, and the same from a file and a service."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api
from osc_placement.nova import values
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import memberships
from osc_placement.testing import service, traffic
from osc_placement.workflows.cloud import facts, rehearsal, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from tests.support import embedded
from tests.support.candidates import clouds, explained

INVENTORIES = "GET /resource_providers/{}/inventories"
SEEDS = range(20)


def connected(client: api.Client) -> tuple[Cloud, source.CloudSource]:
    cloud = Cloud(values.Hosts(), {item.uuid: item for item in client.list_providers()})
    reader = source.of(client, ReadContext())
    reader.connect(cloud)
    return cloud, reader


def everything(client: api.Client, seed: int) -> Mapping[str, Any]:
    """Every fact of a cloud, asked for in another order for each seed."""
    cloud, reader = connected(client)
    uuids = [*cloud.providers]
    random.Random(seed).shuffle(uuids)
    tables = {
        "inventories": cloud.inventories, "traits": cloud.traits, "usages": cloud.usages,
    }  # fmt: skip
    shown: dict[str, Any] = {
        name: {uuid: table[uuid] for uuid in uuids} for name, table in tables.items()
    }
    # Placement shows no zeros of a class without use, and no order of aggregates.
    shown["usages"] = {
        uuid: {name: used for name, used in amounts.items() if used}
        for uuid, amounts in shown["usages"].items()
    }
    shown["memberships"] = {uuid: sorted(cloud.memberships[uuid]) for uuid in uuids}
    shown["held"] = {uuid: cloud.held[uuid].allocations for uuid in uuids}
    traits = sorted({trait for uuid in uuids for trait in cloud.traits[uuid]})
    shown["with_trait"] = {trait: cloud.with_trait[trait] for trait in traits}
    reader.take_allocations(cloud, uuids)
    shown["allocations"] = dict(cloud.allocations)
    reader.take_consumers(cloud, sorted(cloud.allocations))
    shown["consumers"] = {uuid: cloud.consumer(uuid) for uuid in sorted(cloud.allocations)}
    return shown


@pytest.mark.parametrize("seed", SEEDS)
def test_records_and_a_service_have_the_same_facts(seed: int) -> None:
    base = clouds.draw_state(random.Random(seed))
    with service.InProcessPlacement() as placement:
        app, over_api = placement.app, explained.as_service(placement, base)
        of_service = everything(over_api, seed)
        assert placement.count()[INVENTORIES] == len(base.providers)
        before = placement.count()
        with rehearsal.opened(lambda: app) as client:
            assert not source.of(client, ReadContext()).costs_requests
            assert everything(client, seed) == of_service
        assert placement.count() == before


def test_a_copy_of_what_a_plan_concerns_costs_four_requests_for_each_provider() -> None:
    client = embedded.Client(embedded.hosts(9))
    named = client.list_providers()[:2]
    held = [client.list_inventories(item.uuid).inventories for item in named]
    none, avx = memberships.Traits.of([]), memberships.Traits.of(["HW_CPU_X86_AVX"])
    planned = plan.make(
        change.Change("traits", change.Subject(item.name, item.uuid), none, avx) for item in named
    )
    client.sent.clear()
    with rehearsal.concerned(client, ReadContext(), planned) as copy:
        assert [copy.list_inventories(item.uuid).inventories for item in named] == held
        assert len(copy.list_providers()) == 9
    facts = ("inventories", "traits", "aggregates", "allocations")
    listed = {"GET /resource_providers": 1, "GET /traits": 1, "GET /resource_classes": 1}
    assert client.count() == {
        **listed, **{f"GET /resource_providers/{{}}/{name}": 2 for name in facts},
    }  # fmt: skip


def test_what_was_not_read_is_read_once_when_it_is_asked_for() -> None:
    client = embedded.Client(embedded.hosts(3))
    cloud, _ = connected(client)
    first, *others = cloud.providers
    for _ in range(2):
        assert "VCPU" in cloud.inventories[first]
    facts.prefetch(cloud.inventories, cloud.providers)
    assert [uuid in cloud.inventories for uuid in others] == [True, True]
    assert client.count()[INVENTORIES] == 3


def test_a_fact_that_cannot_be_read_is_not_known_and_the_others_are() -> None:
    client = embedded.Client(embedded.hosts(3))
    cloud, _ = connected(client)
    broken, *others = cloud.providers
    client.before(embedded.at(INVENTORIES, traffic.about([broken], embedded.refuse(400, "broken"))))
    facts.prefetch(cloud.inventories, cloud.providers)
    assert all(cloud.inventories[uuid] for uuid in others)
    with pytest.raises(errors.NotKnown):
        cloud.inventories[broken]
    assert list(cloud.read_errors) == [broken]
    assert facts.value(cloud.inventories, broken, {}) == {}


def test_a_deleted_provider_has_no_facts() -> None:
    client = embedded.Client(embedded.hosts(2))
    cloud, _ = connected(client)
    gone, _ = cloud.providers
    client.rival.delete_provider(gone)
    with pytest.raises(errors.NotKnown):
        cloud.inventories[gone]
