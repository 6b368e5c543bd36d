# SPDX-License-Identifier: Apache-2.0
"""The metrics of a file: every figure equals another command's, and every name is readable."""

from __future__ import annotations

import math
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from prometheus_client import parser

from osc_placement import microversion, server, testing
from osc_placement.client import api, api_errors, wsgi
from osc_placement.model import allocation, candidate
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, flavors
from osc_placement.scheduling import nova_options, request
from osc_placement.workflows.capacity import count
from osc_placement.workflows.cloud import compute_nodes
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.explain import flavor_audit
from osc_placement.workflows.health import health, metrics, report
from tests.support import embedded
from tests.support.clouds import large

CONTEXT = ReadContext()

HOSTILE = {
    "newline": "a\nb\r\nc",
    "quotes": "a\"b'c",
    "backslash": "a\\nb\\",
    "control": "a\x00\x07\x1b[31mred\x7f\x85\u2028b",
    "long": "n" * 500,
    "emoji": "🙂👩‍👩‍👧‍👦",
    "right-to-left": "\u202eabc\u05d0\u05d1",
    "braces": 'x{hostname="y"} 1',
    "empty": " ",
    "surrogate": "a\ud800b",
}

Values = dict[str, dict[tuple[str, ...], float]]


def file_client(document: dict[str, Any]) -> api.Client:
    transport = wsgi.in_process(lambda: server.create_app(load=document), "a file")
    return api.Client(transport, microversion.MAXIMUM)


def services(document: dict[str, Any] | None = None) -> health.HealthServices:
    client = file_client(document or testing.sample_cloud("12-hosts"))
    nova = nova_api.RecordedNova(testing.sample_nova("12-hosts"), "the sample")
    return health.HealthServices(
        client, nova, neutron_api.RecordedNeutron(nova.recorded, "the sample")
    )


def parsed(text: str) -> Values:
    """``{metric: {label values: value}}`` as prometheus_client's own parser reads it."""
    values: Values = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            labels = tuple(sample.labels.values())
            rows = values.setdefault(sample.name.removeprefix("openstack_placement_"), {})
            assert labels not in rows
            rows[labels] = sample.value
    return values


def test_the_figures_are_those_of_placement() -> None:
    document = testing.sample_cloud("12-hosts")
    values = parsed(
        metrics.text(
            metrics.read(
                services(),
                CONTEXT,
                metrics.Details(["CUSTOM_X", "COMPUTE_NODE"], per_consumer=True),
            )
        )
    )
    names = {uuid: item["name"] for uuid, item in document["providers"].items()}
    roots = {
        item["name"]: names[item.get("root") or uuid]
        for uuid, item in document["providers"].items()
    }
    used: dict[tuple[str, str], int] = {}
    for consumer in document["consumers"].values():
        for provider, resources in consumer["allocations"].items():
            for name, amount in resources.items():
                key = (document["providers"][provider]["name"], name)
                used[key] = used.get(key, 0) + amount
    rows = {
        (item["name"], name): {"allocation_ratio": 1.0, "reserved": 0, **fields}
        for item in document["providers"].values()
        for name, fields in item["inventories"].items()
    }
    for field in ("total", "reserved", "allocation_ratio"):
        assert values[f"resource_{field}"] == {
            (*key, roots[key[0]]): row[field] for key, row in rows.items()
        }
    assert values["resource_usage"] == {(*key, roots[key[0]]): used.get(key, 0) for key in rows}
    assert values["resource_generation"].keys() == values["resource_usage"].keys()
    assert values["resource_capacity"] == {
        (*key, roots[key[0]]): int((row["total"] - row["reserved"]) * row["allocation_ratio"])
        for key, row in rows.items()
    }
    assert values["consumers"] == {(): len(document["consumers"])}
    assert values["resource_provider_allocations"] == {
        (names[provider], name, uuid): amount
        for uuid, consumer in document["consumers"].items()
        for provider, resources in consumer["allocations"].items()
        for name, amount in resources.items()
    }
    assert set(values["provider_trait"]) == {
        (item["name"], roots[item["name"]], trait)
        for item in document["providers"].values()
        for trait in ("CUSTOM_X", "COMPUTE_NODE")
        if trait in item["traits"]
    }


def test_findings_and_flavors_are_those_of_the_commands() -> None:
    read = services()
    values = parsed(metrics.text(metrics.read(read, CONTEXT)))
    areas = health.check_areas(read, CONTEXT)
    by_code: dict[str, set[str]] = {}
    for area in areas:
        for problem in area.problems:
            by_code.setdefault(problem.code, set()).add(problem.subject)
    assert {code: number for (code, _), number in values["findings"].items()} == {
        code: len(subjects) for code, subjects in by_code.items()
    }
    assert values["checked"] == {(area.name,): 1 for area in areas}
    nova = read.require_nova()
    audited = flavor_audit.audit(
        read.client,
        nova,
        (),
        nova_options.SchedulerOptions(),
        CONTEXT,
        compute_nodes.read_server_hosts(nova),
    )
    expected = {(item.name,): item.hosts for item in audited if item.code != "invalid"}
    hosts = values["flavor_hosts"]
    assert hosts == {key: expected[key] for key in hosts}
    assert len(hosts) > len(expected) / 2
    for key, number in values["flavor_fits"].items():
        assert number >= hosts[key]


def test_a_compute_node_has_the_zone_and_the_aggregates_of_nova() -> None:
    recorded = testing.sample_nova("12-hosts")
    values = parsed(metrics.text(metrics.read(services(), CONTEXT)))
    listed = recorded["GET /v2.1/os-aggregates"]["aggregates"]
    assert values["host_info"]
    # The text has the labels in the order of their names.
    for names, host, hostname, zone in values["host_info"]:
        own = [item for item in listed if host in item["hosts"]]
        assert names == ",".join(sorted(item["name"] for item in own))
        assert zone == max((item["availability_zone"] or "" for item in own), default="")
        assert any(row[0] == hostname for row in values["resource_total"])


@pytest.mark.parametrize(
    ("path", "family"), [("os-aggregates", "host_info"), ("flavors/detail", "flavor_hosts")]
)
def test_without_a_right_the_other_families_are_there(path: str, family: str) -> None:
    read = services()
    recorded = dict(read.require_nova().recorded)  # type: ignore[attr-defined]
    recorded = {key: body for key, body in recorded.items() if path not in key}
    nova = nova_api.RecordedNova(recorded, "the sample")
    without = health.HealthServices(read.client, nova, read.neutron)
    values = parsed(metrics.text(metrics.read(without, CONTEXT)))
    assert family not in values
    assert [area for area, _ in values["not_checked"] if area == family] == [family]


def test_a_flavor_fits_on_a_host_as_often_as_claims_succeed() -> None:
    read = services()
    values = parsed(metrics.text(metrics.read(read, CONTEXT, metrics.Details(per_host=True))))
    nova = read.require_nova()
    compute = compute_nodes.read_server_hosts(nova)
    roots = {item.name: item.uuid for item in read.client.list_providers() if not item.parent_uuid}
    named = {item.name: item.flavor for item in flavors.flavors(nova)}
    compared = 0
    for (flavor, hostname), number in [*values["flavor_host_fits"].items()][::3]:
        root = roots[hostname]
        if compute.why_not(root):
            assert number == 0
            continue
        spec = request.ServerSpec(named[flavor], flavor)
        nova_request = request.request_to_placement(spec, (), nova_options.SchedulerOptions())
        assert claims(nova_request.queries, root) == number
        compared += 1
    assert compared > 6


def claims(queries: Sequence[candidate.CandidateQuery], root: str) -> int:
    """How many servers start one after the other in one tree of the sample cloud."""
    client = file_client(testing.sample_cloud("12-hosts"))
    number = 0
    while True:
        answers = map(client.list_allocation_candidates, queries)
        chosen = next(
            (
                item
                for answer in answers
                for item in answer.requests
                if any(answer.summaries[each].root_uuid == root for each in item.allocations)
            ),
            None,
        )
        if chosen is None:
            return number
        consumer = allocation.Consumer(
            str(uuid.uuid4()), chosen.allocations, "p", "u", consumer_type="INSTANCE"
        )
        client.write_allocations([consumer])
        number += 1


class Quotas:
    """Nova with quotas: one project has none, and nova refuses one."""

    def __init__(self, refused: str = "") -> None:
        self.refused, self.paths = refused, []

    def ask(self, path: str, version: str) -> Any:
        self.paths.append(path)
        if path.endswith(self.refused or "/"):
            raise api_errors.from_status(403, "Policy doesn't allow os-quota-sets:show")
        return {"quota_set": {"cores": 20, "ram": -1, "instances": 10}}


@pytest.mark.parametrize("is_service", [False, True])
def test_projects_have_their_usage_and_their_quotas(*, is_service: bool) -> None:
    document = testing.sample_cloud("12-hosts")
    used: dict[tuple[str, str], int] = {}
    for consumer in document["consumers"].values():
        for resources in consumer["allocations"].values():
            for name, amount in resources.items():
                key = (consumer["project"], name)
                used[key] = used.get(key, 0) + amount
    projects = sorted({project for project, _ in used})
    nova = Quotas()
    details = metrics.Details(projects=True, quotas=nova)
    read = services()
    if is_service:
        read.client.transport.local = lambda: None
    values = parsed(metrics.text(metrics.read(read, CONTEXT, details)))
    assert values["project_usage"] == used
    assert sorted(nova.paths) == [f"/os-quota-sets/{project}" for project in projects]
    assert values["project_quota"][projects[0], "cores"] == 20
    assert values["project_quota"][projects[0], "ram"] == math.inf


@pytest.mark.parametrize("quotas", [Quotas("0"), "no nova is there"])
def test_quotas_that_cannot_be_read_are_not_checked(quotas: Any) -> None:
    document = testing.sample_cloud("12-hosts")
    for number, consumer in enumerate(document["consumers"].values()):
        consumer["project"] = f"project-{number % 3}"
    details = metrics.Details(projects=True, quotas=quotas)
    values = parsed(metrics.text(metrics.read(services(document), CONTEXT, details)))
    assert len(values["project_usage"]) > 3
    assert "project_quota" not in values
    (reason,) = (reason for area, reason in values["not_checked"] if area == "project_quota")
    assert "no nova is there" in reason or "HTTP 403" in reason
    # A refused permission ends the requests.
    assert len(getattr(quotas, "paths", [1])) == 1


def test_the_quotas_of_several_projects_are_read_at_the_same_time() -> None:
    document = testing.sample_cloud("12-hosts")
    for number, consumer in enumerate(document["consumers"].values()):
        consumer["project"] = f"project-{number % 5}"
    together = threading.Barrier(4, timeout=120)

    class Waiting(Quotas):
        def ask(self, path: str, version: str) -> Any:
            if not path.endswith("project-0"):
                together.wait()
            return super().ask(path, version)

    details = metrics.Details(projects=True, quotas=Waiting())
    values = parsed(metrics.text(metrics.read(services(document), CONTEXT, details)))
    assert len({project for project, _ in values["project_quota"]}) == 5


def test_without_nova_the_areas_say_so() -> None:
    client = file_client(testing.sample_cloud("12-hosts"))
    read = health.HealthServices(client, "no nova", "no neutron")
    values = parsed(metrics.text(metrics.read(read, CONTEXT, saved=1_700_000_000.5)))
    assert "flavor_hosts" not in values
    assert values["checked"]["allocations",] == 0
    assert values["checked"]["placement",] == 1
    assert values["state_timestamp_seconds"] == {(): 1_700_000_000.5}
    assert values["resource_total"]


def hostile_families() -> list[metrics.Family]:
    samples = [metrics.Sample((name, "VCPU"), 1) for name in HOSTILE.values()]
    return [metrics.Family("resource_total", "What.", ("hostname", "resourcetype"), samples)]


def test_hostile_names_are_read_as_they_are() -> None:
    values = parsed(metrics.text(hostile_families()))
    expected = {name.encode("utf-8", "replace").decode() for name in HOSTILE.values()}
    assert {host for host, _ in values["resource_total"]} == expected


#: What promtool says about the name that openstack-exporter gave to this gauge.
NAMED_BY_EXPORTER = (
    'openstack_placement_resource_total non-counter metrics should not have "_total" suffix\n'
)


def test_prometheus_itself_accepts_the_output() -> None:
    """With promtool of Debian's package prometheus, where it is installed."""
    for text in (metrics.text(hostile_families()), metrics.text(metrics.read(services(), CONTEXT))):
        lines = text.split("\n")
        assert all(line.startswith(("# ", "openstack_placement_")) for line in lines if line)
        program = shutil.which("promtool")
        if program:
            command = [program, "check", "metrics"]
            checked = subprocess.run(command, input=text.encode(), capture_output=True)
            assert checked.stderr.decode() == NAMED_BY_EXPORTER


@pytest.mark.parametrize("run", [health.check_areas, metrics.read, report.read])
def test_a_further_host_needs_two_requests_and_a_further_server_none(
    run: Callable[[health.HealthServices, ReadContext], object],
) -> None:
    def requests_of(hosts: int, servers: int) -> int:
        cloud = large.LargeCloud(hosts, 0, servers)
        client = embedded.Client(load=cloud.document())
        nova = nova_api.RecordedNova(cloud.nova(), "")
        run(health.HealthServices(client, nova, "no neutron"), CONTEXT)
        return len(client.sent)

    small = requests_of(80, 160)
    # The usages of one more project.
    assert requests_of(80, 320) - small <= 1
    assert requests_of(120, 240) - small <= 2.3 * 40


def test_a_flavor_of_equal_needs_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    original = count.Counter

    def counter(base: Any, query: Any, **options: Any) -> Any:
        counted.append(str(query))
        return original(base, query, **options)

    monkeypatch.setattr(count, "Counter", counter)
    metrics.read(services(), CONTEXT)
    assert len(counted) == len(set(counted)) > 0
