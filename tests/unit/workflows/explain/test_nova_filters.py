# SPDX-License-Identifier: Apache-2.0
"""What nova's own filters say about candidates, from recorded answers of nova."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement.nova import api, flavor, values
from osc_placement.scheduling import filters, request
from osc_placement.workflows.cloud import compute_nodes
from osc_placement.workflows.explain import nova_filters
from osc_placement.workflows.explain.nova_filters import FilterVerdict

HOSTS = ("up", "disabled", "down", "absent")
MEMBERS = ("s1", "s2", "s3")


def recorded(group: Mapping[str, Any] | None = None, own: str | None = None) -> api.RecordedNova:
    """Nova with three hosts; ``up`` has two members of the server group, ``down`` one.

    ``own`` is the host of the server ``s0``.
    """

    def server(uuid: str, host: str | None) -> dict[str, Any]:
        plain = {"vcpus": 1, "ram": 1, "disk": 0, "ephemeral": 0, "swap": 0, "extra_specs": {}}
        return {
            "id": uuid, "name": uuid, "tenant_id": "p", "user_id": "u", "status": "ACTIVE",
            "OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:hypervisor_hostname": f"{host}.node",
            "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None, "flavor": plain,
            "image": "", "created": "", "updated": "",
        }  # fmt: skip

    answers: dict[str, Any] = {
        "GET /v2.1/os-services?binary=nova-compute": {
            "services": [
                {
                    "binary": "nova-compute", "host": host,
                    "status": "disabled" if host == "disabled" else "enabled",
                    "state": "down" if host == "down" else "up",
                }
                for host in HOSTS[:3]
            ]
        },
        "GET /v2.1/os-hypervisors/detail": {
            "hypervisors": [
                {
                    "id": host, "hypervisor_hostname": f"{host}.node", "service": {"host": host},
                    "running_vms": 2,
                }
                for host in HOSTS
            ]
        },
    }  # fmt: skip
    answers["GET /v2.1/servers/detail?uuid=s0"] = {"servers": [server("s0", own)]}
    for uuid, host in zip(MEMBERS, ("up", "up", "down"), strict=True):
        answers[f"GET /v2.1/servers/detail?uuid={uuid}"] = {"servers": [server(uuid, host)]}
    if group is not None:
        found = {"id": "g", "name": "group", "members": ["s0", *MEMBERS], **group}
        answers["GET /v2.1/os-server-groups"] = {"server_groups": [found]}
    return api.RecordedNova(answers, "answers")


def judged(
    nova: api.Nova | None = None,
    specs: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    enabled: tuple[str, ...] | None = None,
    reads_services: bool = True,
    releases: tuple[int, ...] = (),
    **server: Any,
) -> dict[str, nova_filters.FilterJudgement]:
    """``metadata`` is that of an aggregate with the host ``up``."""
    aggregates = [values.HostAggregate("1", "a", "uuid", ("up",), metadata or {})]
    spec = request.ServerSpec(flavor.Flavor(1, 1, 1, extra_specs=specs or {}), "f", **server)
    asked = request.request_to_placement(spec, aggregates)
    asked = dataclasses.replace(asked, releases=releases)
    uuids = {f"{host}.node": host for host in HOSTS}
    nova = nova or recorded()
    compute = compute_nodes.read_server_hosts(nova if reads_services else None)
    limit = None if enabled is None else request.DEFAULT_MAX_INSTANCES
    scheduler = request.SchedulerOptions(enabled_filters=enabled, max_instances_per_host=limit)
    found = nova_filters.FilterJudge(nova, scheduler).judge(asked, uuids, compute)
    return {each.filter: each for each in found}


def test_hosts_without_a_running_service_are_refused() -> None:
    found = judged()["ComputeFilter"]
    assert (found.verdict, found.refused) == (
        FilterVerdict.REFUSES,
        {
            "disabled.node": "nova-compute disabled",
            "down.node": "nova-compute down",
            "absent.node": "no compute service",
        },
    )


def test_without_the_compute_services_only_what_is_requested_is_judged() -> None:
    found = judged(specs={"hw:numa_nodes": "1"}, metadata={"ssd": "true"}, reads_services=False)
    assert {each.verdict for name, each in found.items() if not name.startswith("Agg")} == {
        FilterVerdict.NOT_CHECKED,
        FilterVerdict.ACCEPTS,
    }
    assert nova_filters.refused(found.values()) == {}
    lines = nova_filters.not_checked(found.values(), ["up.node"]).doubts
    assert compute_nodes.NOVA_NOT_READ in lines
    assert any(line.startswith("NUMATopologyFilter: ") for line in lines)


def test_only_certain_refusals_are_subtracted() -> None:
    specs, metadata = {"ssd": "false"}, {"ssd": "true"}
    found = judged(specs=specs, metadata=metadata).values()
    assert set(nova_filters.refused(found)) == {"disabled.node", "down.node", "absent.node"}
    name = "AggregateInstanceExtraSpecsFilter"
    line = f"{name}: nova.conf says whether it is enabled"
    # A filter that may be off turns the answer only if it refuses all hosts.
    (judgement,) = (one for one in found if one.filter == name)
    refused = [*judgement.refused]
    assert line in nova_filters.not_checked(found, refused).doubts
    assert line in nova_filters.not_checked(found, [*refused, "other.node"]).notes
    found = judged(specs=specs, metadata=metadata, enabled=("ComputeFilter", name)).values()
    assert nova_filters.refused(found)["up.node"] == f"{name}: ssd=true is not false"
    assert nova_filters.not_checked(found, ["other.node"]) == ((), ())


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
    found = judged(
        specs={"ssd": "false"},
        metadata=metadata,
        project_id="other",
        flavor_name="small",
        image={"hw_disk_bus": "virtio"},
    )
    reasons = {
        name: each.refused.get("up.node")
        for name, each in found.items()
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
    assert {found[name].is_enabled for name in reasons} == {None}


def test_without_a_project_its_filter_is_not_checked() -> None:
    found = judged(metadata={"filter_tenant_id": "acme"})["AggregateMultiTenancyIsolation"]
    assert (found.verdict, found.refused) == (FilterVerdict.NOT_CHECKED, {})
    assert found.reason == "the project is not known, and 1 host accepts only some"


@pytest.mark.parametrize(
    ("metadata", "releases", "project_id"),
    [
        ({"filter_tenant_id": "acme"}, (), None),
        ({"filter_tenant_id2": "acme"}, (29, 30), "other"),
        ({"instance_type": "big"}, (), None),
        ({"max_io_ops_per_host": "2"}, (), None),
    ],
)
def test_what_is_open_about_some_hosts_turns_no_answer_while_others_are_accepted(
    metadata: dict[str, str], releases: tuple[int, ...], project_id: str | None
) -> None:
    found = judged(metadata=metadata, releases=releases, project_id=project_id).values()
    refused = [*nova_filters.refused(found)]
    assert "up.node" not in refused
    alone = nova_filters.not_checked(found, ["up.node"])
    assert (len(alone.doubts), alone.notes) == (1, ())
    assert nova_filters.not_checked(found, ["up.node", "other.node"]) == ((), alone.doubts)


@pytest.mark.parametrize(
    ("releases", "verdict"),
    [
        # The values are those of nova 27 to 34, see lab/tests/test_filters.py.
        ((29,), FilterVerdict.ACCEPTS),
        ((30,), FilterVerdict.REFUSES),
        ((30, 31), FilterVerdict.REFUSES),
        ((29, 30), FilterVerdict.NOT_CHECKED),
    ],
)
def test_only_newer_releases_read_several_keys_of_projects(
    releases: tuple[int, ...], verdict: FilterVerdict
) -> None:
    name = "AggregateMultiTenancyIsolation"
    metadata = {"filter_tenant_id2": "acme"}
    found = judged(metadata=metadata, enabled=(name,), releases=releases, project_id="other")[name]
    assert found.verdict is verdict
    assert ("nova 29 and nova 30 differ" in found.reason) == (releases == (29, 30))


def test_only_the_filters_of_nova_conf_are_judged() -> None:
    enabled = ("ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter")
    specs = {"hw:numa_nodes": "1"}
    found = judged(specs=specs, enabled=enabled)
    assert {name: str(each.verdict) for name, each in found.items()} == {
        "ComputeFilter": "refuses",
        "NUMATopologyFilter": "not checked",
        "PciPassthroughFilter": "accepts",
    }
    assert found["NUMATopologyFilter"].reason.startswith("hw:numa_nodes: nova does not show")


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
    found = judged(enabled=(*OF_NOVA, "MyOwnFilter", "MyOwnFilter"), flavor_name="small")
    assert found.keys() == {*OF_NOVA, "MyOwnFilter"}
    not_checked = {
        name: item.reason for name, item in found.items() if item.verdict == "not checked"
    }
    assert not_checked == {
        "AggregateIoOpsFilter": "nova does not show the builds, resizes and snapshots in progress",
        "IoOpsFilter": "nova does not show the builds, resizes and snapshots in progress",
        "IsolatedHostsFilter": "isolated_hosts and isolated_images of nova.conf are not read",
        "MetricsFilter": "nova does not show the metrics of the hosts",
        "MyOwnFilter": "this filter is not known",
    }
    hints = judged(recorded({"policy": "affinity"}), enabled=("SameHostFilter",), uuid="s0")
    assert "scheduler hints" in nova_filters.not_checked(hints.values(), ["up.node"]).doubts[0]


def test_the_number_of_servers_has_the_limit_of_nova_conf() -> None:
    names = ("NumInstancesFilter", "AggregateNumInstancesFilter")
    asked = request.SchedulerOptions(enabled_filters=names, max_instances_per_host=2)
    spec = request.ServerSpec(flavor.Flavor(1, 1, 1), "f")
    nova = recorded()
    compute = compute_nodes.read_server_hosts(nova)
    for metadata, by_aggregate in (({}, 2), ({"max_instances_per_host": "9"}, 9)):
        aggregates = [values.HostAggregate("1", "a", "uuid", ("up",), metadata)]
        of_server = request.request_to_placement(spec, aggregates)
        found = nova_filters.FilterJudge(nova, asked).judge(of_server, {"up.node": "up"}, compute)
        assert [bool(item.refused) for item in found] == [True, by_aggregate <= 2]
    assert "NumInstancesFilter" not in judged()


def test_an_anti_affine_server_needs_a_host_without_members() -> None:
    nova = recorded({"policy": "anti-affinity"})
    found = judged(nova, uuid="s0")[nova_filters.ANTI_AFFINITY]
    assert found.refused == {"up.node": "2 members of server group group"}
    nova = recorded({"policy": "anti-affinity", "rules": {"max_server_per_host": 3}})
    assert judged(nova, uuid="s0")[nova_filters.ANTI_AFFINITY].refused == {}
    nova = recorded({"policy": "anti-affinity", "rules": {"max_server_per_host": 2}})
    assert list(judged(nova, uuid="s0")[nova_filters.ANTI_AFFINITY].refused) == ["up.node"]


def test_an_affine_server_needs_a_host_of_its_group() -> None:
    found = judged(recorded({"policy": "affinity"}), uuid="s0")
    # The group is on the only host that the ComputeFilter accepts.
    assert found[nova_filters.AFFINITY].verdict is FilterVerdict.ACCEPTS
    assert found[nova_filters.ANTI_AFFINITY].verdict is FilterVerdict.ACCEPTS


def test_a_server_counts_as_a_member_for_affinity_only() -> None:
    # Seen with nova 34: no move takes a single member away from its host.
    single = {"policy": "affinity", "members": ["s0"]}
    found = judged(recorded(single, own="down"), uuid="s0")[nova_filters.AFFINITY]
    assert found.refused == {"up.node": "server group group is on down"}
    apart = {"policy": "anti-affinity", "members": ["s0"]}
    found = judged(recorded(apart, own="up"), uuid="s0")[nova_filters.ANTI_AFFINITY]
    assert found.refused == {}
    # A new server of an empty group may start anywhere.
    found = judged(recorded(single), uuid="s0")[nova_filters.AFFINITY]
    assert found.refused == {}


def test_server_groups_that_nova_does_not_show_are_not_checked() -> None:
    found = judged(uuid="s0")[nova_filters.AFFINITY]
    assert found.verdict is FilterVerdict.NOT_CHECKED
    assert "os-server-groups" in found.reason
