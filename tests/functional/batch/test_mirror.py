# SPDX-License-Identifier: Apache-2.0
"""``placement aggregate mirror`` on every target, with recorded answers of a real nova."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import fixtures, shell, target as targets
from tests.support.rows import State, one_line

pytestmark = pytest.mark.usefixtures("sample")

MIRROR = "placement aggregate mirror"
RECORDED = ("--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
DOMAIN = "lab.example.org"

NOVA = testing.sample_nova("12-hosts")
AGGREGATES = {item["name"]: item for item in NOVA["GET /v2.1/os-aggregates"]["aggregates"]}
NODES = {
    item["hypervisor_hostname"]: item
    for item in NOVA["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
}
SHARE = "7c4aee34-82dc-5451-83d6-8ae744ab9365"


def uuid_of(name: str) -> str:
    return str(AGGREGATES[name]["uuid"])


def expected(without: tuple[str, ...] = ("cmp-0010",)) -> dict[str, set[str]]:
    """``{aggregate: provider names}`` in nova, for hosts with a provider."""
    nodes = {item["service"]["host"]: name for name, item in NODES.items()}
    return {
        name: {nodes[host] for host in item["hosts"] if host in nodes and host not in without}
        for name, item in AGGREGATES.items()
    }


def members(target: targets.Target) -> dict[str, set[str]]:
    """The same in Placement."""
    return {
        name: {
            entry["name"]
            for entry in target.ask("GET", f"/resource_providers?member_of={uuid_of(name)}")[
                "resource_providers"
            ]
        }
        for name in AGGREGATES
    }


def put(target: targets.Target, provider: str, *aggregates: str) -> None:
    """Set the aggregates of a provider."""
    path = f"/resource_providers/{provider}"
    body = {
        "aggregates": list(aggregates),
        "resource_provider_generation": target.ask("GET", path)["generation"],
    }
    target.ask("PUT", f"{path}/aggregates", body)


def rows(
    openstack: shell.OpenStack, *arguments: str, code: int = 0, nova: tuple[str, ...] = RECORDED
) -> dict[str, Any]:
    return {row["name"]: row for row in openstack.rows(MIRROR, *nova, *arguments, code=code)}


def status_of(listed: dict[str, Any]) -> dict[str, str]:
    return {name: row["status"] for name, row in listed.items()}


def test_a_cloud_is_mirrored_and_problems_are_reported(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    foreign = target.ask("GET", f"/resource_providers/{SHARE}/aggregates")
    check = ("--dry-run", "--detailed-exitcode")
    planned = rows(openstack, *check, code=6)
    assert members(target) != expected()
    listed = rows(openstack, code=6)
    assert members(target) == expected()
    assert {name: row["code"] for name, row in listed.items() if row["code"]} == {
        "empty": "empty-aggregate",
        "ghost-nonode": "no-compute-node",
        "ghost-unmapped": "no-compute-node",
        f"cmp-0010.{DOMAIN}": "no-provider",
    }
    assert listed["empty"]["status"] == "skipped"
    assert [name for name, status in status_of(planned).items() if status == "planned"] == [
        name for name, status in status_of(listed).items() if status == "applied"
    ]
    assert listed[f"cmp-0001.{DOMAIN}"]["reason"] == "to ssd, tenant-acme"
    again = rows(openstack, *check, code=6)
    assert set(status_of(again).values()) == {"unchanged", "skipped", "refused"}
    assert target.ask("GET", f"/resource_providers/{SHARE}/aggregates") == foreign


def test_drift_in_both_directions_is_repaired_and_undone(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    rows(openstack, code=6)
    node = NODES[f"cmp-0001.{DOMAIN}"]["id"]
    put(target, node, uuid_of("az2"), uuid_of("ssd"))
    put(target, SHARE, uuid_of("az1"))
    drifted = members(target)
    listed = rows(openstack, "--dry-run", "--detailed-exitcode", "--prune", code=6)
    row = listed[f"cmp-0001.{DOMAIN}"]
    assert (row["status"], row["reason"]) == ("planned", "to az1, tenant-acme; out of az2")
    assert "not a compute node" in listed["nfs-share"]["reason"]
    assert rows(openstack, "--prune", "--undo-out", "undo.json", code=6)
    assert members(target) == expected() | {"az1": expected()["az1"] | {"nfs-share"}}
    openstack.do("placement plan undo", "undo.json")
    assert members(target) == drifted
    rows(openstack, "--prune", "--provider", "nfs-share", code=6)
    assert members(target) == expected()
    # Without --prune, a member too many is drift.
    put(target, node, *(uuid_of(name) for name in ("az1", "ssd", "tenant-acme", "empty")))
    rows(openstack, "--dry-run", "--detailed-exitcode", "--host", "cmp-0001", code=3)


@fixtures.ON_ONE_TARGET
def test_a_plan_names_its_command_and_its_recording(openstack: shell.OpenStack) -> None:
    rows(openstack, "--dry-run", "--plan-out", "plan.json")
    shown = openstack.run("placement plan show", "plan.json")
    assert "placement aggregate mirror" in shown.stderr
    assert "nova's responses come from the sample 12-hosts" in shown.stderr


def test_a_compute_service_or_a_recording_is_required(openstack: shell.OpenStack) -> None:
    code, text = openstack.fails(MIRROR)
    assert (code, "nova" in text, "Traceback" in text) == (1, True, False), text


@pytest.mark.parametrize(
    ("options", "planned", "now", "why"),
    [
        ("", ("one",), (), "nova does not have one in the host aggregate ssd any more"),
        ("--prune --allow many", (), ("one",), "nova has one in the host aggregate ssd now"),
        ("--ratios", ("one",), (), "cpu_allocation_ratio is none, it was 2.0"),
    ],
)
@fixtures.ON_ONE_TARGET
def test_a_stored_plan_is_not_made_where_nova_has_changed_the_host_aggregate(
    openstack: shell.OpenStack,
    options: str,
    planned: tuple[str, ...],
    now: tuple[str, ...],
    why: str,
) -> None:
    member = [] if planned else ["ssd"]

    def cloud(hosts: tuple[str, ...]) -> State:
        built = testing.Cloud().compute("one", VCPU=8, aggregates=member)
        return State(built.aggregate("ssd", hosts, cpu_allocation_ratio="2.0"))

    cloud(planned).arrange(openstack)
    save = f"{MIRROR} {options} --allow recorded-nova --dry-run --plan-out plan.json"
    assert cloud(planned).run(openstack, save).code == 0
    before = openstack.target.state()
    apply = "placement plan apply plan.json --allow recorded-nova"
    outcome = cloud(now).run(openstack, apply)
    assert outcome.code == 7, outcome
    assert why in one_line(outcome.stdout), outcome
    assert openstack.target.state() == before
    assert cloud(planned).run(openstack, apply).code == 0
    assert openstack.target.state() != before


@fixtures.ON_ONE_TARGET
def test_a_stored_plan_removes_no_provider_of_which_nova_has_a_node_now(
    openstack: shell.OpenStack,
) -> None:
    def cloud(*, is_node: bool) -> State:
        built = testing.Cloud().compute("one", VCPU=8).host("two", VCPU=8, aggregates=["ssd"])
        return State((built.node("two") if is_node else built).aggregate("ssd", ["one"]))

    cloud(is_node=False).arrange(openstack)
    options = "--prune --provider two --allow many --allow recorded-nova --dry-run"
    save = f"{MIRROR} {options} --plan-out plan.json"
    assert cloud(is_node=False).run(openstack, save).code == 0
    apply = "placement plan apply plan.json --allow recorded-nova"
    outcome = cloud(is_node=True).run(openstack, apply)
    assert outcome.code == 7, outcome
    assert "nova has a compute node of it now" in one_line(outcome.stdout), outcome
