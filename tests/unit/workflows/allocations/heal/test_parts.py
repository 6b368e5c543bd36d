"""Healing host by host, as the online data migration does it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from osc_placement.client import api
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply
from osc_placement.testing import service
from osc_placement.workflows.allocations import observe, precondition
from osc_placement.workflows.allocations.heal import observe as heal_observe, plan
from tests.support import watched
from tests.support.clouds import caching_scheduler

HOSTS, SERVERS = 6, 60


@pytest.fixture
def transport() -> Iterator[watched.Watched]:
    with service.InProcessPlacement() as placement:
        yield watched.Watched(placement.client().transport)


@pytest.fixture
def client(transport: watched.Watched) -> api.Client:
    return api.Client(transport)  # type: ignore[arg-type]


@pytest.fixture
def cloud(client: api.Client, monkeypatch: pytest.MonkeyPatch) -> caching_scheduler.OldCloud:
    monkeypatch.setattr(observe, "_PART", 2)
    return caching_scheduler.OldCloud(client, hosts=HOSTS, servers=SERVERS)


def test_the_parts_together_are_the_whole(
    client: api.Client, cloud: caching_scheduler.OldCloud
) -> None:
    asked = nova_api.RecordedNova(cloud.answers, "a recording")
    whole = heal_observe.plan_healing(client, asked, plan.Request()).plan
    parts = list(heal_observe.plan_missing(client, asked, plan.Request()))
    missing = {item.key: item.after for item in whole.changes if not any(item.before.values())}
    assert len(parts) == HOSTS / 2
    assert {item.key: item.after for _, part in parts for item in part.plan.changes} == missing
    assert len(missing) == SERVERS * 7 / 10


def test_a_position_leaves_out_the_hosts_before_it(
    client: api.Client, cloud: caching_scheduler.OldCloud
) -> None:
    asked = nova_api.RecordedNova(cloud.answers, "a recording")
    (first, _), *rest = heal_observe.plan_missing(client, asked, plan.Request())
    after = list(heal_observe.plan_missing(client, asked, plan.Request(), after=first))
    assert [position for position, _ in after] == [position for position, _ in rest]


def test_only_the_hosts_of_the_part_and_who_lacks_something_there_are_read(
    client: api.Client, transport: watched.Watched, cloud: caching_scheduler.OldCloud
) -> None:
    asked = nova_api.RecordedNova(cloud.answers, "a recording")
    transport.sent.clear()
    parts = heal_observe.plan_missing(client, asked, plan.Request())
    _, planned = next(parts)
    lacking = len(planned.plan.changes)
    assert transport.count() == {
        # All of them, those that share; allocations and inventories of two hosts.
        "GET /resource_providers": 2 + 2 + 2,
        "GET /allocations": lacking,
    }
    how = apply.Options(broken=precondition.NovaPreconditions(asked))
    apply.carry_out(client, planned, "a test", how)
    (_, again), *_ = heal_observe.plan_missing(client, asked, plan.Request())
    assert not again.plan.changes
