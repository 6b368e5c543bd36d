# SPDX-License-Identifier: Apache-2.0
"""Heal some hosts at a time, as the online data migration does."""

from __future__ import annotations

import pytest

from osc_placement.nova import api as nova_api
from osc_placement.plan import apply
from osc_placement.workflows.allocations import heal, location, observe
from osc_placement.workflows.allocations.heal_request import HealRequest
from tests.support import embedded, plans
from tests.support.clouds import caching_scheduler

HOSTS, SERVERS = 6, 60


@pytest.fixture
def client() -> embedded.Client:
    return embedded.Client()


@pytest.fixture
def cloud(client: embedded.Client, monkeypatch: pytest.MonkeyPatch) -> caching_scheduler.OldCloud:
    monkeypatch.setattr(observe, "_PART", 2)
    return caching_scheduler.OldCloud(client, hosts=HOSTS, servers=SERVERS)


def test_parts_add_up_to_the_whole_plan(
    client: embedded.Client, cloud: caching_scheduler.OldCloud
) -> None:
    nova = nova_api.RecordedNova(cloud.answers, "a recording")
    whole = heal.plan_healing(client, nova, HealRequest()).plan
    parts = list(heal.plan_missing(client, nova, HealRequest()))
    missing = {
        item.key: plans.after(item)
        for item in whole.changes
        if not any(plans.before(item).values())
    }
    assert len(parts) == HOSTS / 2
    assert {
        item.key: plans.after(item) for _, part in parts for item in part.plan.changes
    } == missing
    assert len(missing) == SERVERS * 7 / 10


def test_position_skips_the_hosts_before_it(
    client: embedded.Client, cloud: caching_scheduler.OldCloud
) -> None:
    nova = nova_api.RecordedNova(cloud.answers, "a recording")
    (first, _), *rest = heal.plan_missing(client, nova, HealRequest())
    after = list(heal.plan_missing(client, nova, HealRequest(), after=first))
    assert [position for position, _ in after] == [position for position, _ in rest]


def test_part_reads_its_hosts_and_servers_without_allocations(
    client: embedded.Client, cloud: caching_scheduler.OldCloud
) -> None:
    nova = nova_api.RecordedNova(cloud.answers, "a recording")
    client.sent.clear()
    parts = heal.plan_missing(client, nova, HealRequest())
    _, planned = next(parts)
    lacking = len(planned.plan.changes)
    assert client.count() == {
        # All providers and sharing providers; the rest of two hosts.
        "GET /resource_providers": 2,
        "GET /resource_providers/{}/allocations": 2,
        "GET /resource_providers/{}/inventories": 2,
        "GET /allocations/{}": lacking,
    }
    how = apply.Options(check_precondition=location.NovaPreconditions(nova))
    plans.apply_new(client, planned, "a test", how)
    (_, again), *_ = heal.plan_missing(client, nova, HealRequest())
    assert not again.plan.changes
