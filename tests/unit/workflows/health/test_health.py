# SPDX-License-Identifier: Apache-2.0
"""Health: the problems of all areas, equal to those of the single commands, on one reading."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import pathlib
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import requests

from osc_placement import errors, microversion, testing
from osc_placement.client import api, api_errors, retry
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.scheduling import nova_options
from osc_placement.testing import traffic
from osc_placement.workflows.batch import aggregate_ratios, mirror
from osc_placement.workflows.cloud import compute_nodes
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.problem import ProblemCode, Severity
from osc_placement.workflows.explain import flavor_audit
from osc_placement.workflows.health import health
from osc_placement.workflows.health.health import (
    Area,
    HealthProblem,
    HealthServices,
    Mute,
)
from osc_placement.workflows.repair import status
from osc_placement.workflows.repair.allocations import admission, audit as allocation_audit
from osc_placement.workflows.repair.providers import audit as provider_audit, observe
from tests.support import commands, embedded
from tests.support.clouds import large

TODAY = datetime.date(2026, 3, 1)
CONTEXT = ReadContext(workers=1)
SERVERS = "GET /v2.1/servers/detail?all_tenants=1"
AGGREGATES = "GET /v2.1/os-aggregates"


def services(
    document: dict[str, Any] | None = None, nova: dict[str, Any] | None = None
) -> tuple[HealthServices, embedded.Client]:
    client = embedded.Client(load=document or testing.sample_cloud("12-hosts"))
    recorded = nova_api.RecordedNova(nova or testing.sample_nova("12-hosts"), "the sample")
    neutron = neutron_api.RecordedNeutron(recorded.recorded, "the sample")
    return HealthServices(client, recorded, neutron), client


def spoilt(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sample cloud with random faults in Placement and in nova."""
    chance = random.Random(seed)
    document, nova = testing.sample_cloud("12-hosts"), testing.sample_nova("12-hosts")
    for item in document["providers"].values():
        if chance.random() < 0.3:
            item["traits"] = [name for name in item["traits"] if chance.random() < 0.7]
        if chance.random() < 0.2:
            item["aggregates"] = []
        if chance.random() < 0.2 and item["inventories"]:
            for offered in item["inventories"].values():
                offered["allocation_ratio"] *= 2
    for uuid in sorted(document["consumers"]):
        if chance.random() < 0.2:
            del document["consumers"][uuid]
    for item in nova[AGGREGATES]["aggregates"]:
        if chance.random() < 0.3:
            ratio = chance.choice(["1.0", "1,5", "nan", "0.01"])
            item["metadata"]["cpu_allocation_ratio"] = ratio
        if chance.random() < 0.2:
            item["hosts"].append(f"ghost-{chance.randrange(3)}")
        if chance.random() < 0.3:
            item["hosts"] = chance.sample(item["hosts"], len(item["hosts"]) // 2)
    for item in nova[SERVERS]["servers"]:
        if chance.random() < 0.2:
            item["pinned_availability_zone"] = chance.choice(["az1", "az2", "nova"])
    return document, nova


def subjects(areas: list[Area], name: str) -> set[tuple[str, str]]:
    (area,) = (area for area in areas if area.name == name)
    assert not area.error
    return {(item.code, item.subject) for item in area.problems}


def audited_flavors(client: api.Client, nova: nova_api.Nova) -> list[flavor_audit.AuditedFlavor]:
    hosts = compute_nodes.read_server_hosts(nova)
    return flavor_audit.audit(client, nova, (), nova_options.SchedulerOptions(), CONTEXT, hosts)


@pytest.mark.seeds(3, long=200)
def test_each_area_has_the_problems_of_its_command(seed: int) -> None:
    document, nova_document = spoilt(seed)
    read, client = services(document, nova_document)
    areas = health.check_areas(read, CONTEXT)
    sent = [(item.method, item.path, item.query) for item in client.sent]
    assert len(sent) == len(set(sent))

    nova, neutron = read.require_nova(), read.neutron_or_none
    audited = allocation_audit.audit_cloud(
        client, nova, allocation_audit.AuditRequest(min_age=60), CONTEXT, neutron
    )
    problems = {(item.code, item.subject.uuid or item.subject.name) for item in audited.findings}
    assert subjects(areas, "allocations") == problems
    providers = provider_audit.audit_providers(
        client, nova, neutron, observe.ProviderAuditRequest(), CONTEXT
    )
    problems = {(item.code, item.subject.uuid or item.subject.name) for item in providers.findings}
    assert subjects(areas, "providers") == problems
    mirrored = mirror.plan_mirror(client, nova, mirror.MirrorRequest(), CONTEXT).plan
    changed = {item.subject.uuid for item in mirrored.changes}
    in_area = subjects(areas, "host-aggregates")
    refused = {item.subject.uuid or item.subject.name for item in mirrored.skipped if item.refused}
    assert {uuid for code, uuid in in_area if code == "missing-member"} == changed | refused
    assert sum(code == "extra-member" for code, _ in in_area) == sum(
        map(mirror.is_stale, mirrored.skipped)
    )
    ratios = aggregate_ratios.plan_aggregate_ratios(
        client, nova, aggregate_ratios.AggregateRatioRequest(), CONTEXT
    )
    changed = {item.subject.uuid for item in ratios.plan.changes}
    changed |= {
        item.subject.uuid or item.subject.name for item in ratios.plan.skipped if item.refused
    }
    assert {uuid for _, uuid in subjects(areas, "allocation-ratios")} == changed
    flavors = audited_flavors(client, nova)
    codes = {(item.code, item.id) for item in flavors if item.code not in flavor_audit.NO_FINDING}
    in_area = subjects(areas, "flavors")
    assert in_area == {(f"flavor-{code}".replace("_", "-"), uuid) for code, uuid in codes}


def test_the_commands_of_every_problem_exist() -> None:
    read, _ = services()
    problems = [item for area in health.check_areas(read, CONTEXT) for item in area.problems]
    entries = {commands.command_name(entry): entry for entry in commands.PRESENT}
    for line in {*(item.show for item in problems), *(item.repair for item in problems)} - {""}:
        name = next(name for name in entries if line.startswith(name))
        commands.parser_of(entries[name]).parse_args(line.removeprefix(name).split())


def requests_of(client: embedded.Client, run: Callable[[], object]) -> list[tuple[str, ...]]:
    client.sent.clear()
    run()
    return [(item.method, item.path, item.query) for item in client.sent]


def test_a_cloud_is_read_once() -> None:
    read, client = services()
    together = requests_of(client, lambda: health.check_areas(read, CONTEXT))
    assert len(together) == len(set(together)) == 141
    nova, neutron = read.require_nova(), read.neutron_or_none
    single = {
        sent
        for run in (
            lambda: allocation_audit.audit_cloud(
                client, nova, allocation_audit.AuditRequest(min_age=60), CONTEXT, neutron
            ),
            lambda: provider_audit.audit_providers(
                client, nova, neutron, observe.ProviderAuditRequest(), CONTEXT
            ),
            lambda: mirror.plan_mirror(client, nova, mirror.MirrorRequest(), CONTEXT),
            lambda: aggregate_ratios.plan_aggregate_ratios(
                client, nova, aggregate_ratios.AggregateRatioRequest(), CONTEXT
            ),
            lambda: audited_flavors(client, nova),
            lambda: status.observe_status(client, check=True),
        )
        for sent in requests_of(client, run)
    }
    # Only the traits that servers require are read besides.
    assert all("required=" in query for _, path, query in {*together} - single if path != "/")
    assert single <= {*together}


@pytest.mark.seeds(4, long=200)
def test_a_file_has_the_problems_of_a_service(seed: int) -> None:
    document, nova_document = spoilt(seed)
    read, client = services(document, nova_document)
    file = dataclasses.replace(read, client=client.placement.client(microversion.MAXIMUM))
    of_service = health.check_areas(read, CONTEXT, check_owners=True)
    of_file = health.check_areas(file, CONTEXT)
    shown, expected = (
        [
            (
                area.name,
                {*area.problems},
                area.checked,
                area.error,
                {*area.unread},
                {*area.not_checked},
            )
            for area in areas
        ]
        for areas in (of_file, of_service)
    )
    assert shown == expected


def test_an_area_that_cannot_be_read_does_not_hide_the_others() -> None:
    _, client = services()
    areas = health.check_areas(HealthServices(client, "no nova here", "no neutron"), CONTEXT)
    assert {area.name for area in areas if area.error == "no nova here"} == {
        "allocations",
        "servers",
        "hosts",
        "host-aggregates",
        "allocation-ratios",
        "providers",
        "flavors",
    }
    lines = health.lines(areas, today=TODAY)
    assert [line.code for line in lines if line.severity is Severity.WARNING] == [
        "consumer-without-owner"
    ]
    (line,) = (line for line in lines if line.severity is Severity.NOT_CHECKED)
    names = "allocations, servers, hosts, host-aggregates, allocation-ratios, providers, flavors"
    assert (line.code, line.text) == (names, "no nova here")


def area_of(areas: list[Area], name: str) -> Area:
    return next(area for area in areas if area.name == name)


def with_ratio(value: str) -> dict[str, Any]:
    """Nova of the sample, with this ratio of CPUs in each host aggregate."""
    nova = testing.sample_nova("12-hosts")
    for item in nova[AGGREGATES]["aggregates"]:
        item["metadata"]["cpu_allocation_ratio"] = value
    return nova


@pytest.mark.parametrize("value", ["1,5", "0.001"])
def test_a_ratio_that_is_refused_is_a_problem(value: str) -> None:
    read, _ = services(nova=with_ratio(value))
    area = area_of(health.check_areas(read, CONTEXT), "allocation-ratios")
    refused = [item for item in area.problems if not item.repair]
    assert refused
    assert {item.code for item in refused} == {"allocation-ratio"}
    hosts = {host for item in with_ratio(value)[AGGREGATES]["aggregates"] for host in item["hosts"]}
    assert int(area.checked.split()[0]) <= len(hosts)


class Refusing(nova_api.RecordedNova):
    """Refuses a listing."""

    refused = ""

    def ask(self, path: str, version: str) -> Any:
        if path.startswith(self.refused):
            raise nova_api.NovaRefused(403, "no", url=path)
        return super().ask(path, version)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/servers/detail", "allocations servers hosts"),
        ("/flavors/detail", "flavors"),
        ("/os-aggregates", "servers host-aggregates allocation-ratios flavors"),
        (
            "/os-hypervisors",
            "allocations servers hosts host-aggregates allocation-ratios providers",
        ),
    ],
)
def test_an_area_that_nova_refuses_names_the_missing_permission(path: str, names: str) -> None:
    read, _ = services()
    nova = Refusing(testing.sample_nova("12-hosts"), "the sample")
    nova.refused = path
    areas = health.check_areas(dataclasses.replace(read, nova=nova), CONTEXT)
    refused = [area.name for area in areas if "missing permission in nova: " in area.error]
    assert refused == names.split()


def test_a_host_that_cannot_be_read_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    read, client = services(nova=with_ratio("3.0"))
    before = area_of(health.check_areas(read, CONTEXT), "allocation-ratios")
    (name, uuid) = next((item.text, item.subject) for item in before.problems if item.repair)
    listed = client.list_inventories

    def failing(provider: str) -> Any:
        if provider == uuid:
            raise api_errors.ApiError(409, "it is ill")
        return listed(provider)

    monkeypatch.setattr(client, "list_inventories", failing)
    areas = health.check_areas(read, CONTEXT)
    area = area_of(areas, "allocation-ratios")
    assert uuid not in {item.subject for item in area.problems}
    assert not area.is_complete
    assert any(text.startswith(name) for text in area.unread)
    rows = health.lines([area], today=TODAY)
    assert (Severity.NOT_CHECKED, area.unread[0]) in {(row.severity, row.text) for row in rows}
    # The problem is not shown as gone.
    rows = health.lines([area], today=TODAY, before=[before])
    assert {row.gone for row in rows if row.code == "allocation-ratio"} <= {None}


def test_a_cell_that_is_down_is_named() -> None:
    nova = with_ratio("3.0")
    listed = nova["GET /v2.1/os-services"]["services"]
    host = listed[0]["host"]
    listed[0] = {"host": host, "binary": "nova-compute", "status": "UNKNOWN"}
    nodes = nova["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    nodes[:] = [item for item in nodes if item["service"]["host"] != host]
    read, _ = services(nova=nova)
    areas = health.check_areas(read, CONTEXT)
    for name in ("host-aggregates", "allocation-ratios"):
        assert any(text.startswith(host) for text in area_of(areas, name).unread), name


SERVICES = "GET /v2.1/os-services"


@pytest.mark.parametrize(
    ("state", "status", "code"),
    [
        ("down", "enabled", "host-down"),
        ("down", "disabled", "host-down"),
        ("up", "disabled", "host-disabled"),
        ("up", "enabled", None),
    ],
)
def test_a_host_that_takes_no_server_is_a_row_with_its_servers(
    state: str, status: str, code: str | None
) -> None:
    nova = testing.sample_nova("12-hosts")
    for item in nova[SERVICES]["services"]:
        of_row = item["host"] == "cmp-0004"
        item["state"] = state if of_row else "up"
        item["status"] = status if of_row else "enabled"
    on_host = {
        item["id"]
        for item in nova[SERVERS]["servers"]
        if item["OS-EXT-SRV-ATTR:host"] == "cmp-0004"
    }
    # Servers that move there, or that only a revert brings back.
    on_host |= {
        item["instance_uuid"]
        for item in nova["GET /v2.1/os-migrations"]["migrations"]
        if "cmp-0004" in (item["source_compute"], item["dest_compute"])
        and item["status"] in ("running", "finished", "pre-migrating")
    }
    (area,) = (
        one for one in health.check_areas(services(None, nova)[0], CONTEXT) if one.name == "hosts"
    )
    if code is None:
        assert not area.problems
        return
    (problem,) = area.problems
    assert (problem.code, problem.subject) == (code, "cmp-0004")
    assert problem.text == f"cmp-0004: {len(on_host)} servers"


def test_servers_of_a_cell_that_is_down_are_not_checked() -> None:
    nova = testing.sample_nova("12-hosts")
    servers = nova[SERVERS]["servers"]
    servers[0] = {"id": servers[0]["id"], "tenant_id": servers[0]["tenant_id"], "status": "UNKNOWN"}
    read, _ = services(nova=nova)
    area = area_of(health.check_areas(read, CONTEXT), "servers")
    assert area.unread == ["1 server in cells that are down"]


def test_flavors_say_that_the_compute_services_were_not_read() -> None:
    nova = testing.sample_nova("12-hosts")
    for key in [key for key in nova if "os-services" in key]:
        del nova[key]
    read, _ = services(nova=nova)
    (text,) = area_of(health.check_areas(read, CONTEXT), "flavors").unread
    assert text.startswith("compute services: ")


def server_problems(**fields: Any) -> set[str]:
    """The codes about one server of the sample with other fields in nova."""
    nova = testing.sample_nova("12-hosts")
    name = "al-double"
    (server,) = (item for item in nova[SERVERS]["servers"] if item["name"] == name)
    server.update(copy.deepcopy(fields))
    read, _ = services(nova=nova)
    (area,) = (area for area in health.check_areas(read, CONTEXT) if area.name == "servers")
    of_server = [item for item in area.problems if item.subject == server["id"]]
    assert all(item.text.startswith("al-double on ") for item in of_server)
    return {item.code for item in of_server}


def flavor_with(**specs: str) -> dict[str, Any]:
    nova = testing.sample_nova("12-hosts")
    (server,) = (item for item in nova[SERVERS]["servers"] if item["name"] == "al-double")
    return {
        **server["flavor"],
        "extra_specs": {key.replace("__", ":"): specs[key] for key in specs},
    }


def test_a_server_stays_where_its_flavor_its_zone_and_its_aggregates_admit_it() -> None:
    assert server_problems() == set()
    assert server_problems(flavor=flavor_with(trait__CUSTOM_NOWHERE="required")) == {"server-trait"}
    assert server_problems(flavor=flavor_with(trait__COMPUTE_NODE="required")) == set()
    assert server_problems(pinned_availability_zone="az2") == {"server-zone"}
    # Nova adds no aggregate to its query for a zone that no aggregate has.
    assert server_problems(pinned_availability_zone="elsewhere") == set()
    scoped = flavor_with(aggregate_instance_extra_specs__disk="tape")
    assert server_problems(flavor=scoped) == {"server-aggregate"}
    # Another filter may compare a key without the scope.
    assert server_problems(flavor=flavor_with(disk="tape")) == set()


def problem(code: str, subject: str) -> HealthProblem:
    made = ProblemCode(code, Severity.ERROR, f"{code} means this.")
    return HealthProblem(made, subject, f"{subject} is wrong", f"show {code}", f"repair {code}")


def lines_of(*areas: Area, before: list[Area] | None = None, **options: Any) -> dict[str, str]:
    """``{code: "severity count since"}``"""
    answer = health.lines(areas, today=TODAY, before=before, **options)
    return {
        line.code: f"{line.severity} {len(line.subjects)} {line.since}".strip() for line in answer
    }


def test_a_code_is_compared_with_an_earlier_state() -> None:
    before = [Area("a", [problem("orphaned", "x"), problem("doubled", "y")])]
    now = Area("a", [problem("orphaned", "x"), problem("orphaned", "z"), problem("missing", "m")])
    assert lines_of(now, before=before) == {
        "orphaned": "error 2 +1",
        "missing": "error 1 new",
        "doubled": "ok 0 gone",
    }
    assert lines_of(*before, before=before) == {"orphaned": "error 1 =", "doubled": "error 1 ="}
    moved = Area("a", [problem("orphaned", "z")])
    assert lines_of(
        moved, before=[Area("a", [problem("orphaned", "x"), problem("orphaned", "y")])]
    )["orphaned"] == ("error 1 +1 -2")


@pytest.mark.parametrize("is_now", [True, False])
def test_an_area_that_was_not_checked_is_not_compared(is_now: bool) -> None:
    failed, full = Area("a", error="no right"), Area("a", [problem("orphaned", "x")])
    now, before = (failed, full) if is_now else (full, failed)
    expected = {"a": "not checked 0"} if is_now else {"orphaned": "error 1"}
    assert lines_of(now, before=[before]) == expected


def test_a_muted_code_is_shown_and_counts_again_after_its_day() -> None:
    area = Area("a", [problem("orphaned", "x")])
    for mute, severity in (
        (Mute("orphaned"), "muted"),
        (Mute("orphaned", TODAY), "muted"),
        (Mute("orphaned", TODAY - datetime.timedelta(days=1)), "error"),
        (Mute("doubled"), "error"),
    ):
        assert lines_of(area, mutes=[mute]) == {"orphaned": f"{severity} 1"}


@pytest.mark.parametrize("text", ["", "=2026-01-01", "orphaned=", "orphaned=tomorrow"])
def test_a_mute_needs_a_code_and_a_day(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        Mute.parse(text)


def test_an_area_without_problems_is_one_line() -> None:
    answer = health.lines([Area("a", checked="3 hosts")], today=TODAY)
    assert [(line.severity, line.code, line.text) for line in answer] == [("ok", "a", "3 hosts")]


def test_a_file_that_is_no_snapshot_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "none.sqlite"
    opened = health.of_snapshot(path, nova_options.SchedulerOptions())
    with pytest.raises(errors.PlacementError, match="does not exist"), opened:
        pass
    assert not path.exists()


def test_every_code_of_a_check_has_a_severity_and_a_meaning() -> None:
    codes = [
        *allocation_audit.CODES,
        *(code for code in provider_audit.CODES if code not in allocation_audit.CODES),
        *(code.problem for code in {*flavor_audit.FlavorCode} - flavor_audit.NO_FINDING),
        *(check.code for check in status.checks(status.observe_status(embedded.Client()))),
        *(admission.TRAIT, admission.ZONE, admission.AGGREGATE),
        *(health.HOST_DOWN, health.HOST_DISABLED, health.ALLOCATION_RATIO),
        *(health.MISSING_MEMBER, health.EXTRA_MEMBER),
    ]
    assert len(codes) == len({*codes})
    for code in codes:
        assert code.severity in (Severity.ERROR, Severity.WARNING)
        assert re.fullmatch(r"[A-Z].*\.", code.meaning)


PER_PROVIDER = "GET /resource_providers/{}/"


@pytest.mark.parametrize(
    ("paths", "workers", "asked"),
    [
        # Every area needs the listing, or that of the hosts with OWNER_NOVA: once each.
        ("GET /resource_providers", 1, {2}),
        ("GET /resource_providers", 16, {2}),
        (PER_PROVIDER, 1, {retry.MOST_FAILURES}),
        # Reads under way when the last one fails have their attempts.
        (PER_PROVIDER, 16, set(range(retry.MOST_FAILURES, retry.MOST_FAILURES + 16))),
    ],
)
def test_a_failing_placement_is_not_asked_again(paths: str, workers: int, asked: set[int]) -> None:
    cloud = large.LargeCloud(100, 0, 200)
    read, client = services(cloud.document(), cloud.nova())
    refuse = traffic.refuse(500, "the database is gone")
    client.before(lambda sent: refuse(sent) if sent.template.startswith(paths) else None)
    with retry.stop_reading_after_failures():
        areas = health.check_areas(read, ReadContext(workers=workers))
    refused = collections.Counter(
        (item.path, item.query) for item in client.sent if item.template.startswith(paths)
    )
    assert {*refused.values()} == {retry.READS}
    assert len(refused) in asked
    not_checked = [
        line.text
        for line in health.lines(areas, today=TODAY)
        if line.severity is Severity.NOT_CHECKED
    ]
    # Each request that fails is named once: both listings, or the first one of a provider.
    named = sum("the database is gone" in text for text in not_checked)
    assert named == (1 if paths == PER_PROVIDER else 2)


class FailingConnection:
    """A connection whose nova answers 500."""

    def __init__(self) -> None:
        self.compute, self.asked = self, collections.Counter[str]()

    def request(self, path: str, *_: Any, **__: Any) -> Any:
        self.asked[path.partition("?")[0]] += 1
        reply = requests.Response()
        reply.status_code, reply.reason, reply._content = 500, "broken", b""
        return reply


def test_a_failing_nova_is_asked_once_for_each_listing() -> None:
    _, client = services()
    connection = FailingConnection()
    nova = nova_api.SessionNova(connection)
    areas = health.check_areas(HealthServices(client, nova, "no neutron"), CONTEXT)
    assert sum(bool(area.error) for area in areas) == 7
    assert {*connection.asked.values()} == {retry.READS}
