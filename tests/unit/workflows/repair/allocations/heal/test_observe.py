# SPDX-License-Identifier: Apache-2.0
"""Heal on a reference server, at once or by hosts: requests sent, and concurrent writers."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import pathlib
from typing import Any

import pytest

from osc_placement import errors, microversion, testing
from osc_placement.model import allocation, inventory
from osc_placement.nova import api as nova_api, servers as nova_servers, values
from osc_placement.plan import apply, change, file, plan, result
from osc_placement.testing import traffic
from osc_placement.workflows.cloud import compute_nodes, server_moves
from osc_placement.workflows.repair.allocations import heal, heal_request, observe, preconditions
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from tests.support import batch_runs, embedded, plans
from tests.support.batch_runs import statuses
from tests.support.clouds import caching_scheduler
from tests.support.embedded import uuid_of

TASK = {"OS-EXT-STS:task_state": "migrating"}


_NOTHING: dict[str, Any] = {"servers": [], "migrations": []}


class CountingNova(nova_api.RecordedNova):
    """Recorded responses; counts the requests, and may refuse them."""

    def __init__(self, answers: Any) -> None:
        super().__init__(answers, "a recording")
        self.requests: list[str] = []
        self.refused: errors.PlacementError | None = None

    def ask(self, path: str, version: str) -> Any:
        self.requests.append(path.partition("?")[0])
        if self.refused is not None:
            raise self.refused
        return super().ask(path, version)


class Run:
    """One cloud, and what a test does with it."""

    def __init__(self, **size: Any) -> None:
        self.cloud = caching_scheduler.OldCloud(**size)
        self.client = self.cloud.client
        self.nova = CountingNova(self.cloud.answers)

    def planned(self, **fields: Any) -> plan.ObservedPlan:
        return heal.plan_healing(self.client, self.nova, HealRequest(**fields))

    def apply_planned(self, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
        check = preconditions.NovaPreconditions(self.nova)
        return batch_runs.run(self.client, planned, check_precondition=check, **options)

    def healed(self, **options: Any) -> dict[str, int]:
        return statuses(self.apply_planned(self.planned(), **options))

    def state(self) -> dict[str, allocation.Consumer]:
        consumers = [self.client.show_allocations(item["id"]) for item in self.cloud.listed]
        return {item.uuid: dataclasses.replace(item, generation=None) for item in consumers}


@pytest.fixture
def run() -> Run:
    return Run()


def test_second_run_writes_nothing(run: Run) -> None:
    assert run.healed() == {"applied": 24, "unchanged": 6}
    expected = {item.uuid: item for item in map(run.cloud.consumer, range(30))}
    assert run.state() == expected
    run.client.sent.clear()
    assert run.healed() == {"unchanged": 30}
    # No request per consumer, and no write.
    assert run.client.count() == {
        "GET /resource_providers": 2,
        "GET /resource_providers/{}/allocations": 3,
        "GET /usages": 3,
    }


@pytest.mark.parametrize(("hosts", "servers"), [(3, 30), (21, 210)])
def test_requests_grow_with_hosts_and_not_with_servers(hosts: int, servers: int) -> None:
    run = Run(hosts=hosts, servers=servers)
    run.healed()
    lacking, ownerless = servers * 7 // 10, servers // 10
    with_owner_read = servers * 3 // 10
    few = hosts if hosts <= 5 else 0
    assert run.client.count() == {
        # Two listings; allocations of each provider, and its inventories where servers lack any.
        "GET /resource_providers": 2,
        "GET /resource_providers/{}/allocations": hosts,
        "GET /resource_providers/{}/inventories": hosts,
        **({} if few else {"GET /allocation_candidates": 1}),
        "GET /usages": len(caching_scheduler.OWNERS),
        # All three owners have a consumer without allocations.
        "GET /allocations/{}": with_owner_read,
        "POST /allocations": -(-lacking // 64) + -(-ownerless // 64),
    }
    assert collections.Counter(run.nova.requests) == {
        "/": 1,
        "/os-services": 1,
        "/os-hypervisors/detail": 1,
        # For the plan, and just before the first write.
        "/servers/detail": 2,
        "/os-aggregates": 1,
        "/os-migrations": 2,
    }


def test_one_server_needs_few_requests() -> None:
    run = Run(hosts=20, servers=200)
    planned = run.planned(scope=heal_request.Scope(servers=frozenset({uuid_of("vm-0003")})))
    assert [item.subject.name for item in planned.plan.changes] == ["vm-0003"]
    assert run.client.count() == {
        "GET /resource_providers": 2,
        "GET /resource_providers/{}/allocations": 1,
        "GET /resource_providers/{}/inventories": 1,
        "GET /allocations/{}": 1,
    }


def test_narrow_scope_sees_allocations_on_other_hosts(run: Run) -> None:
    other = uuid_of(run.cloud.host(1))
    elsewhere = allocation.Consumer(uuid_of("vm-0003"), {other: {"VCPU": 1}}, "acme", "alice")
    run.client.write_allocations([dataclasses.replace(elsewhere, consumer_type="INSTANCE")])
    within = heal_request.Scope(hosts=frozenset({run.cloud.host(0)}))
    planned = run.planned(scope=within).plan
    assert len(planned.items()) == 10
    skipped = {item.subject.name: item.reason for item in planned.skipped if not item.unchanged}
    assert "it has allocations on cmp-0001, where it is not" in skipped["vm-0003"]


def test_swapped_owners_show_only_with_check_owners(run: Run) -> None:
    run.healed()
    swapped = [
        dataclasses.replace(
            run.cloud.consumer(number, caching_scheduler.OWNERS[other]),
            generation=run.client.show_allocations(uuid_of(f"vm-{number:04d}")).generation,
        )
        for number, other in ((0, 1), (1, 0))
    ]
    run.client.write_allocations(swapped)
    assert run.planned().plan.changes == ()
    assert len(run.planned(check_owners=True).plan.changes) == 2


def test_orphaned_consumer_costs_one_request(run: Run) -> None:
    run.healed()
    orphan = dataclasses.replace(run.cloud.consumer(0), uuid=uuid_of("orphan"))
    run.client.write_allocations([orphan])
    run.client.sent.clear()
    assert run.planned().plan.changes == ()
    assert run.client.count()["GET /allocations/{}"] == 1


def test_server_that_moves_after_planning_is_skipped(run: Run) -> None:
    planned = run.planned()
    run.cloud.moves(3, **TASK)
    run.cloud.moves(4, **{"OS-EXT-SRV-ATTR:host": "cmp-0002"})
    run.cloud.moves(5, **{"OS-EXT-STS:vm_state": "deleted"})
    run.cloud.moves(6, flavor=dict(caching_scheduler.FLAVOR, vcpus=2))
    run.cloud.migrations.append(run.cloud.migration("a move", "vm-0007", "queued"))
    report = run.apply_planned(planned)
    assert statuses(report) == {"applied": 19, "skipped": 5, "unchanged": 6}
    reasons = {item.subject.name: item.reason for item in report.results}
    assert reasons["vm-0003"] == ("nova has changed it since: task_state is migrating, it was none")
    assert "host is cmp-0002" in reasons["vm-0004"]
    assert reasons["vm-0005"] == "it was deleted"
    assert "resources is DISK_GB=10, MEMORY_MB=512, VCPU=2" in reasons["vm-0006"]
    assert reasons["vm-0007"] == "its migration is queued"


def test_plan_file_is_stale_where_nova_changed(run: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    run.healed(dry_run=True, plan_out=path)
    run.cloud.moves(3, **TASK)
    stored = file.read(path)
    check = preconditions.preconditions_of_plan(run.nova, stored.created)
    report = plans.apply_file(run.client, stored, path, apply.Options(check_precondition=check))
    assert statuses(report) == {"applied": 23, "stale": 1, "unchanged": 6}
    with pytest.raises(plan.PlanRefused, match="nova is not available"):
        plans.apply_file(run.client, stored, path, apply.Options())


def test_old_plan_notices_archived_server(run: Run) -> None:
    planned = run.planned()
    item = planned.plan.changes[-1]
    run.cloud.listed[:] = [one for one in run.cloud.listed if one["id"] != item.subject.uuid]
    day = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    assert (
        preconditions.NovaPreconditions(run.nova, day)(item) == "nova has no such server any more"
    )
    assert preconditions.NovaPreconditions(run.nova)(item) == ""


def test_changes_since_uses_novas_clock(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []
    item = run.planned().plan.changes[-1]
    monkeypatch.setattr(nova_api, "clock_offset", lambda _: datetime.timedelta(hours=3))
    monkeypatch.setattr(
        type(run.nova), "ask", lambda self, path, version: requests.append(path) or _NOTHING
    )
    planned = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    preconditions.NovaPreconditions(run.nova, planned)(item)
    assert {path.partition("changes-since=")[2][:19] for path in requests[1:]} == {
        "2026-01-01T08%3A50%"
    }


def test_migration_is_noticed_before_its_server_changes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = run.planned().plan.changes[-1]
    move = run.cloud.migration("a move", item.subject.name, "queued")
    changed = {"servers": [], "migrations": [move]}
    monkeypatch.setattr(type(run.nova), "ask", lambda self, path, version: changed)
    assert preconditions.NovaPreconditions(run.nova)(item) == "its migration is queued"
    changed |= {"servers": [{"id": item.subject.uuid, "status": "UNKNOWN"}], "migrations": []}
    assert preconditions.NovaPreconditions(run.nova)(item) == server_moves.CELL_DOWN.text


@pytest.mark.parametrize(("source", "reads"), [("", 2), ("nova.json", 1)])
def test_precondition_reads_nova_again_after_two_seconds_and_a_recording_once(
    run: Run, source: str, reads: int
) -> None:
    run.nova.source = source
    item = run.planned().plan.changes[-1]
    now = [100.0]
    check = preconditions.NovaPreconditions(run.nova, clock=lambda: now[0])
    run.nova.requests.clear()
    for later in (0.0, 1.9, 0.2, 1.0):
        now[0] += later
        assert check(item) == ""
    assert len(run.nova.requests) == 2 * reads


def test_nothing_is_written_if_nova_refuses(run: Run) -> None:
    planned = run.planned()
    run.nova.refused = nova_api.NovaRefused(403, "Policy doesn't allow os_compute_api:x")
    report = run.apply_planned(planned)
    assert report.halted
    assert statuses(report).get("applied", 0) == 0


def test_missing_right_in_nova_is_reported(run: Run) -> None:
    run.nova.refused = nova_api.NovaRefused(403, "Policy doesn't allow os_compute_api:servers:x")
    with pytest.raises(errors.InvalidInput, match="missing permission in nova"):
        run.planned()


def test_missing_right_in_placement_is_no_answer_about_a_server() -> None:
    with testing.InProcessPlacement(load="12-hosts") as placement:
        detail = "Policy does not allow placement:allocation_candidates:list to be performed."
        placement.before(traffic.at("GET /allocation_candidates", traffic.refuse(403, detail)))
        nova = nova_api.RecordedNova(testing.sample_nova("12-hosts"), "12-hosts")
        with pytest.raises(errors.PlacementError, match="placement:allocation_candidates:list"):
            heal.plan_healing(placement.client(), nova, HealRequest())


def test_empty_providers_are_not_read() -> None:
    run = Run(hosts=21, servers=21)
    run.planned()
    with_allocations = sum(number % 10 < 3 for number in range(21))
    assert run.client.count()["GET /resource_providers/{}/allocations"] == with_allocations
    # All providers, and sharing providers.
    assert run.client.count()["GET /resource_providers"] == 2


def test_narrow_scope_reads_servers_or_providers_whichever_are_fewer() -> None:
    run = Run(hosts=3, servers=60)
    run.planned(scope=heal_request.Scope(hosts=frozenset({run.cloud.host(0)})))
    assert run.client.count() == {
        "GET /resource_providers": 2,
        "GET /resource_providers/{}/allocations": 3,
        "GET /resource_providers/{}/inventories": 1,
        "GET /allocations/{}": 6,
    }


def test_placement_before_consumer_types_works() -> None:
    run = Run()
    run.client = run.client.at(microversion.Microversion(1, 37))
    assert run.healed() == {"applied": 24, "unchanged": 6}
    run.client.sent.clear()
    assert run.healed() == {"unchanged": 30}
    assert "GET /allocations/{}" not in run.client.count()
    assert run.client.rival.show_allocations(uuid_of("vm-0003")).consumer_type == "unknown"


def test_a_root_disk_on_a_volume_that_was_made_from_an_image_is_not_allocated(run: Run) -> None:
    for number, device in ((3, "/dev/vda"), (4, "/dev/vdb")):
        item = run.cloud.listed[number]
        item["OS-EXT-SRV-ATTR:root_device_name"] = "/dev/vda"
        item["os-extended-volumes:volumes_attached"] = [{"id": "a volume"}]
        run.cloud.answers[f"GET /servers/{item['id']}/os-volume_attachments"] = {
            "volumeAttachments": [{"device": device}]
        }
    run.nova = CountingNova(run.cloud.answers)
    run.nova.source = ""
    run.healed()
    totals = [run.state()[uuid_of(f"vm-{number:04d}")].total() for number in (3, 4, 5)]
    assert [total.get("DISK_GB", 0) for total in totals] == [0, 10, 10]
    assert sum("os-volume_attachments" in path for path in run.nova.requests) == 2


@pytest.mark.parametrize("shows_properties", [True, False])
def test_hidden_properties_of_an_image_are_doubted_for_the_whole_tree_of_the_host(
    run: Run, *, shows_properties: bool
) -> None:
    """The encryption contexts of a host can be on a child, which else is not read."""
    root, child = uuid_of(run.cloud.host(0)), uuid_of("sev")
    run.client.rival.create_provider("sev", child, parent_uuid=root)
    contexts = {"MEM_ENCRYPTION_CONTEXT": inventory.Inventory(total=8)}
    run.client.rival.replace_inventories(child, 0, contexts)
    if not shows_properties:
        run.cloud.listed[3]["image"] = {"id": "an image"}
    wanted = heal_request.Scope(servers=frozenset({uuid_of("vm-0003")}))
    planned = run.planned(scope=wanted).plan
    reasons = [item.reason for item in planned.skipped]
    assert len(planned.changes) == shows_properties
    assert all("the image may request encrypted memory" in reason for reason in reasons)
    assert run.client.count()["GET /resource_providers/{}/inventories"] == 2 - shows_properties


HOSTS, SERVERS = 6, 60


Cloud = tuple[embedded.Client, nova_api.RecordedNova]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    monkeypatch.setattr(observe, "_PART", 2)
    old = caching_scheduler.OldCloud(hosts=HOSTS, servers=SERVERS)
    return old.client, nova_api.RecordedNova(old.answers, "a recording")


def test_parts_add_up_to_the_whole_plan(cloud: Cloud) -> None:
    client, nova = cloud
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


def test_position_skips_the_hosts_before_it(cloud: Cloud) -> None:
    (first, _), *rest = heal.plan_missing(*cloud, HealRequest())
    after = list(heal.plan_missing(*cloud, HealRequest(), after=first))
    assert [position for position, _ in after] == [position for position, _ in rest]


def test_part_reads_its_hosts_and_servers_without_allocations(cloud: Cloud) -> None:
    client, nova = cloud
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
    how = apply.Options(check_precondition=preconditions.NovaPreconditions(nova))
    plans.apply_new(client, planned, "a test", how)
    (_, again), *_ = heal.plan_missing(client, nova, HealRequest())
    assert not again.plan.changes


@pytest.mark.parametrize(
    ("planned", "now", "why"),
    [
        ({}, {}, ""),
        ({"is_enabled": False}, {}, "nova-compute is enabled, it was disabled"),
        (
            {"is_enabled": False, "is_up": False},
            {"is_up": False},
            "nova-compute is enabled and down, it was disabled and down",
        ),
        ({}, None, "nova has no compute node of it any more"),
        (None, {}, "nova has a compute node of it now"),
        ({}, "cell", "the cell of other is down"),
        (None, "cell", "the cell of other is down"),
    ],
)
def test_a_stored_change_about_a_host_needs_the_state_in_which_it_was_planned(
    planned: Any, now: Any, why: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hosts(service: Any) -> values.Hosts:
        if not isinstance(service, dict):
            return values.Hosts(unreachable=frozenset(["other"] if service else []))
        node = values.ComputeNode("u", "one.example.org", "one")
        return values.Hosts((node,), (values.ComputeService("one", **service),))

    host = compute_nodes.ComputeStates(hosts(planned)).of("one.example.org", "u")
    item = dataclasses.replace(
        run.planned().plan.changes[-1], precondition=change.Precondition(host=host)
    )
    monkeypatch.setattr(nova_servers, "read_hosts", lambda _: hosts(now))
    answer = preconditions.NovaPreconditions(run.nova, is_stored=True)(item)
    assert why in answer
    assert bool(answer) is bool(why)
