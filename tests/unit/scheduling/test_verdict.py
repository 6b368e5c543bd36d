# SPDX-License-Identifier: Apache-2.0
"""What nova's own filters say about candidates, from recorded answers of nova."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement.nova import api, flavor, values
from osc_placement.scheduling import filters, nova_options, request, verdict
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import NOVA_NOT_READ
from osc_placement.scheduling.verdict import RuleCheck, Says
from osc_placement.testing import nova as kit
from osc_placement.workflows.cloud import cases, compute_nodes

ANTI_AFFINITY, AFFINITY = "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"

HOSTS = ("up", "disabled", "down", "absent")
MEMBERS = ("s1", "s2", "s3")


def recorded(group: Mapping[str, Any] | None = None, own: str | None = None) -> api.RecordedNova:
    """Nova with three hosts; ``up`` has two members of the server group, ``down`` one.

    ``own`` is the host of the server ``s0``.
    """

    def server(uuid: str, host: str | None) -> dict[str, Any]:
        return kit.server(uuid, project="p", user="u", host=host, node=f"{host}.node", ram=1)

    states = {
        "up": {},
        "disabled": {"status": "disabled"},
        "down": {"state": "down"},
    }
    answers = kit.answers(
        services=[kit.service(host, **fields) for host, fields in states.items()],
        hypervisors=[kit.node(host, f"{host}.node", host, running_vms=2) for host in HOSTS],
    )
    answers["GET /v2.1/servers/detail?uuid=s0"] = {"servers": [server("s0", own)]}
    for uuid, host in zip(MEMBERS, ("up", "up", "down"), strict=True):
        answers[f"GET /v2.1/servers/detail?uuid={uuid}"] = {"servers": [server(uuid, host)]}
    if group is not None:
        found = {"id": "g", "name": "group", "members": ["s0", *MEMBERS], **group}
        answers["GET /v2.1/os-server-groups"] = {"server_groups": [found]}
    return api.RecordedNova(answers, "answers")


def checked(
    nova: api.Nova | None = None,
    specs: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    enabled: tuple[str, ...] | None = None,
    reads_services: bool = True,
    releases: tuple[int, ...] = (34,),
    limit: int | None = None,
    **server: Any,
) -> dict[str, RuleCheck]:
    """``metadata`` is that of an aggregate with the host ``up``."""
    aggregates = [values.HostAggregate("1", "a", "uuid", ("up",), metadata or {})]
    spec = request.ServerSpec(flavor.Flavor(1, 1, 1, extra_specs=specs or {}), "f", **server)
    nova = nova or recorded()
    compute = compute_nodes.read_server_hosts(nova if reads_services else None)
    scheduler = nova_options.SchedulerOptions(enabled_filters=enabled, max_instances_per_host=limit)
    uuid = server.get("uuid")
    case = Case(
        Way.BOOT,
        spec,
        compute,
        releases,
        scheduler,
        aggregates=aggregates,
        server=values.Server(uuid) if uuid else None,
        group=cases.read_group(nova, uuid) if uuid else None,
    )
    hosts = verdict.HostList(compute, aggregates, {f"{host}.node": host for host in HOSTS})
    return {check.rule: check for check in verdict.check_hosts(case, hosts)}


def test_hosts_without_a_running_service_are_refused() -> None:
    check = checked()["ComputeFilter"]
    assert (check.says, check.refused) == (
        Says.REFUSES,
        {
            "disabled.node": "nova-compute disabled",
            "down.node": "nova-compute down",
            "absent.node": "no compute service",
        },
    )


def test_without_the_compute_services_only_what_is_requested_is_checked() -> None:
    checks = checked(specs={"hw:numa_nodes": "1"}, metadata={"ssd": "true"}, reads_services=False)
    assert {check.says for name, check in checks.items() if not name.startswith("Agg")} == {
        Says.NOT_CHECKED,
        Says.ACCEPTS,
    }
    assert verdict.refused([*checks.values()]) == {}
    lines = verdict.not_checked([*checks.values()], ["up.node"]).doubts
    assert NOVA_NOT_READ in lines
    assert any(line.startswith("NUMATopologyFilter: ") for line in lines)


def test_only_certain_refusals_are_subtracted() -> None:
    specs, metadata = {"ssd": "false"}, {"ssd": "true"}
    checks = checked(specs=specs, metadata=metadata).values()
    assert set(verdict.refused(checks)) == {"disabled.node", "down.node", "absent.node"}
    name = "AggregateInstanceExtraSpecsFilter"
    line = f"{name}: nova.conf says whether it is enabled"
    # A filter that may be off turns the answer only if it refuses all hosts.
    (check,) = (rule_check for rule_check in checks if rule_check.rule == name)
    refused = [*check.refused]
    assert line in verdict.not_checked(checks, refused).doubts
    assert line in verdict.not_checked(checks, [*refused, "other.node"]).notes
    checks = checked(specs=specs, metadata=metadata, enabled=("ComputeFilter", name)).values()
    assert verdict.refused(checks)["up.node"] == f"{name}: ssd=true is not false"
    assert verdict.not_checked(checks, ["other.node"]) == Caveats()


@pytest.mark.parametrize(
    ("requirement", "met", "not_met"),
    [
        ("", [""], ["4"]),
        ("ssd", ["ssd"], ["ssd1", ""]),
        ("<or> a <or> b", ["a", "b"], ["ab", "<or>"]),
        ("<in> ss", ["ssd", "ss"], ["s"]),
        ("<in>", [], ["ssd"]),
        ("<all-in> aes mmx", ["mmx, aes"], ["aes", "sse"]),
        ("= 4", ["4", "5"], ["3", "x"]),
        ("== 4", ["4", "4.0"], ["5"]),
        ("!= 4", ["5"], ["4"]),
        (">= 4", ["4", "10"], ["3"]),
        ("<= 4", ["4"], ["10"]),
        ("s== 4", ["4"], ["4.0"]),
        ("s!= 4", ["4.0"], ["4"]),
        ("s>= b", ["b", "c"], ["a"]),
        ("s> b", ["c"], ["b"]),
        ("s<= b", ["a", "b"], ["c"]),
        ("s< b", ["a"], ["b"]),
        ("==", ["=="], ["4"]),
        ("s==", ["s=="], ["4"]),
    ],
)
def test_a_value_meets_a_requirement(
    requirement: str, met: Sequence[str], not_met: Sequence[str]
) -> None:
    assert [value for value in (*met, *not_met) if filters.matches(value, requirement)] == met


def test_filters_of_aggregates_are_judged_by_metadata() -> None:
    metadata = {
        "ssd": "true",
        "filter_tenant_id": "acme",
        "instance_type": "big",
        "max_instances_per_host": "2",
        "hw_disk_bus": "scsi",
    }
    checks = checked(
        specs={"ssd": "false"},
        metadata=metadata,
        project_id="other",
        flavor_name="small",
        image={"hw_disk_bus": "virtio"},
    )
    reasons = {
        name: check.refused.get("up.node")
        for name, check in checks.items()
        if name.startswith("Aggregate")
    }
    assert reasons == {
        "AggregateInstanceExtraSpecsFilter": "ssd=true is not false",
        "AggregateImagePropertiesIsolation": "hw_disk_bus=scsi, the image has virtio",
        "AggregateMultiTenancyIsolation": "only for other projects",
        "AggregateTypeAffinityFilter": "only for flavor big",
        "AggregateNumInstancesFilter": "2 servers, max_instances_per_host=2",
    }
    # Without a nova.conf it is not known whether nova uses these filters.
    assert {checks[name].is_enabled for name in reasons} == {None}
    text = checks["AggregateTypeAffinityFilter"].text
    assert text == "if enabled: only for flavor big: up.node"


@pytest.mark.parametrize(
    ("metadata", "releases", "project_id"),
    [
        ({"filter_tenant_id": "acme"}, (34,), None),
        ({"filter_tenant_id2": "acme"}, (29, 30), "other"),
        ({"instance_type": "big"}, (34,), None),
        ({"max_io_ops_per_host": "2"}, (34,), None),
    ],
)
def test_what_is_open_about_some_hosts_turns_no_answer_while_others_are_accepted(
    metadata: dict[str, str], releases: tuple[int, ...], project_id: str | None
) -> None:
    checks = checked(metadata=metadata, releases=releases, project_id=project_id).values()
    refused = [*verdict.refused(checks)]
    assert "up.node" not in refused
    alone = verdict.not_checked(checks, ["up.node"])
    assert (len(alone.doubts), alone.notes) == (1, ())
    assert verdict.not_checked(checks, ["up.node", "other.node"]) == Caveats(notes=alone.doubts)


@pytest.mark.parametrize(
    ("releases", "verdict"),
    [
        # The values are those of nova 27 to 34, see lab/tests/test_filters.py.
        ((29,), Says.ACCEPTS),
        ((30,), Says.REFUSES),
        ((30, 31), Says.REFUSES),
        ((29, 30), Says.NOT_CHECKED),
    ],
)
def test_only_newer_releases_read_several_keys_of_projects(
    releases: tuple[int, ...], verdict: Says
) -> None:
    name = "AggregateMultiTenancyIsolation"
    metadata = {"filter_tenant_id2": "acme"}
    check = checked(metadata=metadata, enabled=(name,), releases=releases, project_id="other")[name]
    assert check.says is verdict
    assert ("nova 29 and nova 30 differ" in check.text) == (releases == (29, 30))


def test_only_the_filters_of_nova_conf_are_checked() -> None:
    enabled = ("ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter")
    specs = {"hw:numa_nodes": "1"}
    checks = checked(specs=specs, enabled=enabled)
    assert {name: str(check.says) for name, check in checks.items()} == {
        "ComputeFilter": "refuses",
        "NUMATopologyFilter": "not checked",
        "PciPassthroughFilter": "accepts",
    }
    assert checks["NUMATopologyFilter"].text.startswith("hw:numa_nodes: nova does not show")


#: The filters of nova 27 to 34.
OF_NOVA = (
    *("AggregateImagePropertiesIsolation", "AggregateInstanceExtraSpecsFilter"),
    *("AggregateIoOpsFilter", "AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter"),
    *("AggregateTypeAffinityFilter", "AllHostsFilter", "AvailabilityZoneFilter"),
    *("ComputeCapabilitiesFilter", "ComputeFilter", "DifferentHostFilter"),
    *("ImagePropertiesFilter", "IoOpsFilter", "IsolatedHostsFilter", "JsonFilter"),
    *("MetricsFilter", "NUMATopologyFilter", "NumInstancesFilter", "PciPassthroughFilter"),
    *("SameHostFilter", "ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter"),
    "SimpleCIDRAffinityFilter",
)


def test_each_filter_of_nova_conf_has_a_verdict() -> None:
    found = checked(enabled=(*OF_NOVA, "MyOwnFilter", "MyOwnFilter"), flavor_name="small")
    assert found.keys() == {*OF_NOVA, "MyOwnFilter"}
    not_checked = {name: item.text for name, item in found.items() if item.says is Says.NOT_CHECKED}
    operations = "nova does not show the builds, resizes and snapshots in progress"
    assert not_checked == {
        "AggregateIoOpsFilter": f"max_io_ops_per_host: {operations}",
        "IoOpsFilter": f"max_io_ops_per_host: {operations}",
        "MetricsFilter": "nova does not show the metrics of the hosts",
        "MyOwnFilter": "this filter is not known",
    }
    hints = checked(recorded({"policy": "affinity"}), enabled=("SameHostFilter",), uuid="s0")
    assert "scheduler hints" in verdict.not_checked(hints.values(), ["up.node"]).doubts[0]


def test_the_number_of_servers_has_the_limit_of_nova_conf() -> None:
    names = ("NumInstancesFilter", "AggregateNumInstancesFilter")
    for metadata, by_aggregate in (({}, True), ({"max_instances_per_host": "9"}, False)):
        checks = checked(enabled=names, metadata=metadata, limit=2)
        refused = ["up.node" in checks[name].refused for name in names]
        assert refused == [True, by_aggregate]
    assert "NumInstancesFilter" not in checked()


def test_an_anti_affine_server_needs_a_host_without_members() -> None:
    nova = recorded({"policy": "anti-affinity"})
    check = checked(nova, uuid="s0")[ANTI_AFFINITY]
    assert check.refused == {"up.node": "2 members of server group group"}
    nova = recorded({"policy": "anti-affinity", "rules": {"max_server_per_host": 3}})
    assert checked(nova, uuid="s0")[ANTI_AFFINITY].refused == {}
    nova = recorded({"policy": "anti-affinity", "rules": {"max_server_per_host": 2}})
    assert list(checked(nova, uuid="s0")[ANTI_AFFINITY].refused) == ["up.node"]


def test_a_server_counts_as_a_member_for_affinity_only() -> None:
    # Seen with nova 34: no move takes a single member away from its host.
    single = {"policy": "affinity", "members": ["s0"]}
    check = checked(recorded(single, own="down"), uuid="s0")[AFFINITY]
    assert check.refused == {"up.node": "server group group is on down"}
    apart = {"policy": "anti-affinity", "members": ["s0"]}
    check = checked(recorded(apart, own="up"), uuid="s0")[ANTI_AFFINITY]
    assert check.refused == {}
    # A new server of an empty group may start anywhere.
    check = checked(recorded(single), uuid="s0")[AFFINITY]
    assert check.refused == {}


def test_server_groups_that_nova_does_not_show_are_not_checked() -> None:
    check = checked(uuid="s0")[AFFINITY]
    assert check.says is Says.NOT_CHECKED
    assert "os-server-groups" in check.text


def test_the_target_is_refused_once_and_before_the_filters() -> None:
    compute = compute_nodes.read_server_hosts(recorded())
    server = values.Server("s0", host="down", vm_state="active")
    spec = request.ServerSpec(flavor.Flavor(1, 1, 1), image={})
    case = Case(Way.MIGRATE, spec, compute, server=server)
    hosts = verdict.HostList(compute, (), {f"{host}.node": host for host in HOSTS})
    target, services, *_ = verdict.check_hosts(case, hosts)
    assert (target.rule, target.refused) == ("ignore_hosts", {"down.node": "the server is there"})
    assert services.refused.keys() == {"disabled.node", "absent.node"}
    assert verdict.about([target, services], ["down.node"])["down.node"].text == (
        "the server is there"
    )


def test_the_hosts_of_two_queries_have_one_check_for_each_rule() -> None:
    first = RuleCheck("A", {"a": "full"}, is_enabled=True)
    second = [RuleCheck("A", {"b": "full"}, {"c": "a trait"}), RuleCheck("B", {"b": "down"})]
    assert verdict.merged([first], second) == [
        RuleCheck("A", {"a": "full", "b": "full"}, {"c": "a trait"}),
        RuleCheck("B", {"b": "down"}),
    ]
