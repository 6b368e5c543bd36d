# SPDX-License-Identifier: Apache-2.0
"""The audit on a reference server: requests sent, and concurrent writers."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import allocation
from osc_placement.nova import api as nova_api
from osc_placement.plan import result
from osc_placement.workflows.repair.allocations import audit, preconditions
from osc_placement.workflows.repair.findings import AuditResult
from tests.support import batch_runs, embedded
from tests.support.clouds import caching_scheduler
from tests.support.clouds.caching_scheduler import USES
from tests.support.embedded import uuid_of

DELETED = "GET /servers/detail?all_tenants=1&deleted=true"
NOW = "2026-01-01T00:00:00+00:00"
TASK = {"OS-EXT-STS:task_state": "migrating"}


class Nova(nova_api.RecordedNova):
    """Nova that also shows single servers; ``hidden`` servers are in no listing."""

    def __init__(self, cloud: caching_scheduler.OldCloud) -> None:
        super().__init__(cloud.answers, "")
        self.cloud = cloud
        self.requests: list[str] = []
        self.hidden: list[dict[str, Any]] = []
        self.failing: set[str] = set()

    def ask(self, path: str, version: str) -> Any:
        plain = path.partition("?")[0]
        kind, _, uuid = plain.strip("/").partition("/")
        if kind != "servers" or uuid == "detail":
            self.requests.append(plain)
            return super().ask(path, version)
        self.requests.append("/servers/{uuid}")
        if uuid in self.failing:
            raise nova_api.NovaRefused(400, "cannot tell", url=path)
        listed = [item for item in [*self.cloud.listed, *self.hidden] if item["id"] == uuid]
        if not listed:
            raise nova_api.NovaRefused(404, "no such server", url=path)
        return {"server": listed[0]}


class Run:
    """A cloud of three hosts and two servers with right allocations, and what a test breaks."""

    def __init__(self) -> None:
        self.cloud = caching_scheduler.OldCloud(hosts=3, servers=2)
        self.client = self.cloud.client
        self.cloud.answers[DELETED] = {"servers": []}
        self.nova = Nova(self.cloud)

    def holds(self, name: str, **hosts: int) -> str:
        """Write a consumer of project acme with these VCPU on hosts; returns its UUID."""
        uuid = uuid_of(name)
        now = self.client.rival.show_allocations(uuid)
        parts = {
            uuid_of(host.replace("_", "-")): {**USES, "VCPU": count}
            for host, count in hosts.items()
        }
        renewed = allocation.Consumer(uuid, parts, "acme", "alice", now.generation, "INSTANCE")
        self.client.rival.replace_allocations(renewed)
        return uuid

    def has(self, name: str) -> dict[str, int]:
        """``{host: VCPU}``"""
        allocations = self.client.rival.show_allocations(uuid_of(name)).allocations
        hosts = {uuid_of(self.cloud.host(number)): self.cloud.host(number) for number in range(3)}
        return {hosts[uuid]: part["VCPU"] for uuid, part in allocations.items()}

    def audited(self, **fields: Any) -> AuditResult[Any]:
        return audit.audit_cloud(self.client, self.nova, audit.AuditRequest(**fields))

    def codes(self, **fields: Any) -> list[str]:
        return [str(item.code) for item in self.audited(**fields).findings]

    def repaired(
        self, concurrently: Callable[[], object] = lambda: None, **options: Any
    ) -> result.RunReport:
        audited = self.audited(repair=True)
        concurrently()
        check = preconditions.NovaPreconditions(self.nova)
        return batch_runs.run(self.client, audited.planned, check_precondition=check, **options)


def statuses(report: result.RunReport) -> dict[str, str]:
    return {item.subject.name: str(item.status) for item in report.results}


@pytest.fixture
def run() -> Run:
    return Run()


def test_right_cloud_needs_no_request_per_consumer_and_no_write(run: Run) -> None:
    assert run.codes(repair=True) == []
    assert run.client.count() == {
        # The listings: all, sharing, with COMPUTE_NODE.
        "GET /resource_providers": 3,
        "GET /resource_providers/{}/allocations": 3,
        "GET /resource_providers/{}/inventories": 3,
        "GET /usages": 2,
    }
    assert collections.Counter(run.nova.requests) == {
        "/os-services": 1,
        "/os-hypervisors/detail": 1,
        "/servers/detail": 2,
        "/os-migrations": 1,
    }


def test_only_unknown_consumers_are_read_one_by_one(run: Run) -> None:
    run.holds("unknown", cmp_0000=1)
    run.holds("vm-0000", cmp_0000=1, cmp_0001=1)
    assert run.codes() == ["doubled", "orphaned"]
    # Only the unknown consumer: its allocations explain the sums of its owner.
    assert run.client.count()["GET /allocations/{}"] == 1
    assert run.nova.requests.count("/servers/{uuid}") == 1


def test_repair_takes_two_requests_and_second_audit_finds_nothing(run: Run) -> None:
    run.holds("unknown", cmp_0000=1)
    run.holds("vm-0000", cmp_0000=1, cmp_0001=1)
    run.holds("vm-0001", cmp_0002=1)
    report = run.repaired()
    assert set(statuses(report).values()) == {"applied"}
    assert (run.has("unknown"), run.has("vm-0000")) == ({}, {"cmp-0000": 1})
    assert run.has("vm-0001") == {"cmp-0001": 1}
    # First the changes that free capacity, then those that need it.
    assert run.client.count()["POST /allocations"] == 1
    assert run.client.count()["PUT /allocations/{}"] == 1
    assert run.codes() == []


def test_a_consumer_that_is_no_or_no_single_name_is_named(run: Run) -> None:
    listed = run.cloud.answers["GET /v2.1/servers/detail"]["servers"]
    for server in listed[:2]:
        server["name"] = "twin"
    with pytest.raises(errors.InvalidInput) as caught:
        run.audited(consumers={"twin", "nobody"})
    twins = ", ".join(server["id"] for server in listed[:2])
    assert caught.value.reasons == (
        "nova has no server or migration nobody, and Placement has no allocations of it",
        f"nova has 2 servers with the name 'twin': {twins}",
    )


def test_server_that_nova_does_not_list_is_not_orphaned(run: Run) -> None:
    hidden = run.cloud.server(7)
    run.nova.hidden.append(hidden)
    run.holds("vm-0007", cmp_0001=1)
    # Its allocations are right; the test wrote them as alice.
    assert run.codes() == ["wrong-owner"]


def test_consumer_that_nova_cannot_show_is_not_repaired(run: Run) -> None:
    run.nova.failing.add(run.holds("unknown", cmp_0000=1))
    (finding,) = run.audited().findings
    assert finding.code == "unknown"
    assert "cannot tell" in finding.evidence.text


def test_orphaned_consumer_that_becomes_a_server_is_skipped(run: Run) -> None:
    run.holds("vm-0007", cmp_0001=1)
    report = run.repaired(lambda: run.cloud.listed.append(run.cloud.server(7)))
    (ended,) = report.results
    assert (ended.status, "has a server" in ended.reason) == (result.Status.SKIPPED, True)
    assert run.has("vm-0007") == {"cmp-0001": 1}


def test_orphaned_consumer_that_becomes_a_migration_is_skipped(run: Run) -> None:
    run.holds("a move", cmp_0001=1)
    move = run.cloud.migration("a move", "vm-0000", "finished", "resize")
    (ended,) = run.repaired(lambda: run.cloud.migrations.append(move)).results
    assert (ended.status, "has a migration" in ended.reason) == (result.Status.SKIPPED, True)
    assert run.has("a move") == {"cmp-0001": 1}


@pytest.mark.parametrize(
    "state",
    [
        {"OS-EXT-STS:vm_state": "deleted", "status": "DELETED"},
        {"OS-EXT-STS:vm_state": "error", "status": "DELETED"},
    ],
)
def test_deleted_server_in_any_state_is_not_healed_and_its_consumer_is_removed(
    run: Run, state: dict[str, str]
) -> None:
    run.cloud.answers[DELETED]["servers"] += [
        {**run.cloud.server(number), **state} for number in (7, 8)
    ]
    run.nova = Nova(run.cloud)
    run.holds("vm-0007", cmp_0001=1)
    assert run.codes() == ["orphaned"]
    deleted = {**run.cloud.server(7), **state}
    assert statuses(run.repaired(lambda: run.cloud.listed.append(deleted))) == {
        "vm-0007": "applied"
    }
    assert run.has("vm-0007") == {}


@pytest.mark.parametrize(
    ("hidden", "rule"),
    [
        ("OS-EXT-SRV-ATTR:host", "os_compute_api:os-extended-server-attributes"),
        ("extra_specs", "os_compute_api:os-flavor-extra-specs:index"),
    ],
)
def test_field_hidden_by_policy_is_a_missing_right(
    run: Run, hidden: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for item in run.cloud.listed:
        item["flavor"] = {**item["flavor"]}
        (item if hidden in item else item["flavor"]).pop(hidden)
    with pytest.raises(errors.InvalidInput, match="missing permission in nova"):
        run.audited()
    assert rule in caplog.text


def test_a_server_with_hidden_extra_specs_is_not_checked_and_never_changed(run: Run) -> None:
    """The others are checked and repaired as without it."""
    for name in ("vm-0000", "vm-0001", "gone"):
        run.holds(name, cmp_0000=1, cmp_0001=1)
    problems = [(item.code, item.subject.uuid) for item in run.audited().findings]
    flavor = {**run.cloud.listed[0]["flavor"]}
    del flavor["extra_specs"]
    run.cloud.listed[0]["flavor"] = flavor
    audited = run.audited()
    left = [(item.code, item.subject.uuid) for item in audited.findings]
    odd = uuid_of("vm-0000")
    assert left == [item for item in problems if item[1] != odd]
    assert len(left) < len(problems)
    assert any("1 server: nova hides extra_specs" in text for text in audited.not_checked)
    before = run.has("vm-0000")
    repaired = statuses(run.repaired(bool))
    assert (repaired.get("vm-0000"), repaired["vm-0001"]) == (None, "applied")
    assert run.has("vm-0000") == before


def test_server_that_moves_after_planning_is_skipped(run: Run) -> None:
    run.holds("vm-0000", cmp_0000=1, cmp_0001=1)
    run.holds("unknown", cmp_0000=1)
    report = run.repaired(lambda: run.cloud.moves(0, **TASK))
    assert statuses(report)["vm-0000"] == "skipped"
    assert run.has("vm-0000") == {"cmp-0000": 1, "cmp-0001": 1}
    assert run.has("unknown") == {}


def test_consumer_changed_between_two_reads_is_judged_again(run: Run) -> None:
    run.holds("vm-0000", cmp_0000=1, cmp_0001=1)

    def repair(request: embedded.Request) -> None:
        run.holds("vm-0000", cmp_0000=1)

    run.client.before(embedded.about("vm-0000", embedded.once_each(repair)))
    audited = run.audited(repair=True)
    assert (list(audited.findings), audited.planned.plan.changes) == ([], ())


def without_type(run: Run, name: str) -> None:
    """A consumer of a host, as a service without consumer types creates it."""
    uuid = run.holds(name, cmp_0000=1)
    now = run.client.show_allocations(uuid)
    run.client.replace_allocations(dataclasses.replace(now, allocations={}))
    older = run.client.at(min(run.client.microversion, type(run.client.microversion)(1, 37)))
    older.replace_allocations(dataclasses.replace(now, generation=None, consumer_type=None))


def has_services(run: Run, *types: str) -> None:
    """The cloud's catalog has these services."""
    catalog = [{"type": name} for name in types]
    run.cloud.answers[nova_api.LOGIN] = {"token": {"issued_at": NOW, "catalog": catalog}}


@pytest.mark.parametrize(
    ("services", "code", "text"),
    [
        (("compute",), "orphaned", ""),
        (("compute", "application-container"), "unknown", "a consumer of Zun"),
        (("container", "application-container"), "unknown", "a consumer of Zun"),
        (None, "unknown", "another service, such as Zun: .* the services of the catalog"),
    ],
)
def test_a_consumer_is_left_over_if_no_other_service_can_have_created_it(
    run: Run, services: tuple[str, ...] | None, code: str, text: str
) -> None:
    without_type(run, "unknown")
    if services is not None:
        has_services(run, *services)
    (finding,) = run.audited().findings
    assert finding.code == code
    assert re.search(text, finding.evidence.text)


@pytest.mark.parametrize(
    ("services", "status"), [(("compute", "container"), "skipped"), (("compute",), "applied")]
)
def test_a_plan_is_checked_again_against_the_services_that_are_there_now(
    run: Run, services: tuple[str, ...], status: str
) -> None:
    without_type(run, "unknown")
    has_services(run, "compute")
    report = run.repaired(lambda: has_services(run, *services))
    (item,) = report.results
    assert item.status == status
    assert ("a consumer of Zun" in item.reason) is (status == "skipped")


@pytest.mark.parametrize(
    ("name", "now", "reason"),
    [
        ("vm-0007", "hidden", "nova has a server of this UUID now"),
        ("vm-0000", "hidden", ""),
        ("vm-0000", "gone", "nova has no such server any more"),
    ],
)
def test_a_stored_plan_is_checked_with_the_servers_that_have_not_changed_since(
    run: Run, name: str, now: str, reason: str
) -> None:
    """A plan of a snapshot is younger than its servers, and the snapshot may lack some."""
    run.holds(name, cmp_0001=1)
    (item,) = run.audited(repair=True).planned.plan.changes
    listed = {server["name"]: server for server in (*run.cloud.listed, run.cloud.server(7))}
    run.nova.hidden += [listed[name]] if now == "hidden" else []
    run.cloud.listed[:] = [server for server in run.cloud.listed if server["name"] != name]
    assert preconditions.preconditions_of_plan(run.nova, NOW)(item) == reason
    assert preconditions.preconditions_of_plan(run.nova, "")(item) == reason


def test_placement_without_compute_node_trait_works(run: Run) -> None:
    unknown = embedded.refuse(400, "No such trait(s): COMPUTE_NODE.")
    run.client.before(lambda request: unknown(request) if "COMPUTE_NODE" in request.query else None)
    assert run.codes() == []


def test_service_types_come_from_the_catalog() -> None:
    class Connection:
        service_catalog = ({"type": "compute"}, {"type": "container"})

    assert nova_api.service_types(nova_api.SessionNova(Connection())) == {"compute", "container"}
    with pytest.raises(errors.NotKnown, match="no catalog"):
        nova_api.service_types(nova_api.SessionNova(object()))
