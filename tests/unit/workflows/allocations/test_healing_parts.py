"""Healing host by host, as the online data migration does it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from osc_placement.client import api, compute
from osc_placement.testing import service
from osc_placement.workflows import carry_out
from osc_placement.workflows.allocations import heal, healing, observe, premise
from tests.unit.workflows import watched
from tests.unit.workflows.allocations import old_cloud

HOSTS, SERVERS = 6, 60


@pytest.fixture
def transport() -> Iterator[watched.Watched]:
    with service.InProcessPlacement() as placement:
        yield watched.Watched(placement.client().transport)


@pytest.fixture
def client(transport: watched.Watched) -> api.Client:
    return api.Client(transport)  # type: ignore[arg-type]


@pytest.fixture
def cloud(client: api.Client, monkeypatch: pytest.MonkeyPatch) -> old_cloud.OldCloud:
    monkeypatch.setattr(observe, "_PART", 2)
    return old_cloud.OldCloud(client, hosts=HOSTS, servers=SERVERS)


def test_the_parts_together_are_the_whole(client: api.Client, cloud: old_cloud.OldCloud) -> None:
    asked = compute.RecordedNova(cloud.answers, "a recording")
    whole = healing.plan_healing(client, asked, heal.Request()).plan
    parts = list(healing.plan_missing(client, asked, heal.Request()))
    missing = {item.key: item.after for item in whole.changes if not any(item.before.values())}
    assert len(parts) == HOSTS / 2
    assert {item.key: item.after for _, part in parts for item in part.plan.changes} == missing
    assert len(missing) == SERVERS * 7 / 10


def test_a_position_leaves_out_the_hosts_before_it(
    client: api.Client, cloud: old_cloud.OldCloud
) -> None:
    asked = compute.RecordedNova(cloud.answers, "a recording")
    (first, _), *rest = healing.plan_missing(client, asked, heal.Request())
    after = list(healing.plan_missing(client, asked, heal.Request(), after=first))
    assert [position for position, _ in after] == [position for position, _ in rest]


def test_only_the_hosts_of_the_part_and_who_lacks_something_there_are_read(
    client: api.Client, transport: watched.Watched, cloud: old_cloud.OldCloud
) -> None:
    asked = compute.RecordedNova(cloud.answers, "a recording")
    transport.sent.clear()
    parts = healing.plan_missing(client, asked, heal.Request())
    _, planned = next(parts)
    lacking = len(planned.plan.changes)
    assert transport.count() == {
        # All of them, those that share; allocations and inventories of two hosts.
        "GET /resource_providers": 2 + 2 + 2,
        "GET /allocations": lacking,
    }
    how = carry_out.Options(broken=premise.Eyes(asked))
    carry_out.carry_out(client, planned, "a test", how)
    (_, again), *_ = healing.plan_missing(client, asked, heal.Request())
    assert not again.plan.changes
