# SPDX-License-Identifier: Apache-2.0
"""Findings in small snapshots: servers, consumers without a server, providers; their repairs."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from osc_placement.model import allocation, inventory
from osc_placement.model.candidate import RequestGroup
from osc_placement.neutron import api
from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from osc_placement.workflows.cloud.cloud import Cloud, Owner
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.allocations import audit, decision, heal_request, providers
from tests.support import plans
from tests.support.clouds.audited import (
    CPUS,
    CUSTOM,
    DISK,
    GONE,
    JUST_NOW,
    LARGE,
    NO_TYPE,
    PINNED,
    codes,
    context,
    find,
    on,
    repaired,
)
from tests.support.clouds.small import LONG_AGO, NODES, SMALL, USES, cloud, move, server

HIDDEN: dict[str, Any] = {"image_properties": None}
RESIZED: dict[str, Any] = {"vm_state": "resized", "flavor": LARGE}
OFFLOADED: dict[str, Any] = {"vm_state": "shelved_offloaded", "host": None}
HEALTHY: dict[str, tuple[values.Server, tuple[values.Migration, ...], dict[str, Any]]] = {
    "on its host": (server(), (), {"s": on(a=USES)}),
    "with its disk on a share": (server(), (), {"s": on(a=CPUS, nfs=DISK)}),
    "whose image was put on a volume": (server(has_volumes=True), (), {"s": on(a=CPUS)}),
    "pinned on a host without PCPU": (server(flavor=PINNED), (), {"s": on(a=USES)}),
    "with a port's device": (
        server("b"),
        (),
        {"s": on(b=USES, nic={"NET_BW_EGR_KILOBIT_PER_SEC": 10})},
    ),
    "with a device that its flavor does not request": (
        server(),
        (),
        {"s": on(a={**USES, "CUSTOM_PCI_8086_1572": 1})},
    ),
    "soft-deleted": (server(vm_state="soft-delete"), (), {"s": on(a=USES)}),
    "live-migrating": (
        server(task_state="migrating"),
        (move("live-migration", "running"),),
        {"s": on(b=USES), "m": on(a=USES)},
    ),
    "live-migrating as before Queens": (
        server(task_state="migrating"),
        (move("live-migration", "running"),),
        {"s": on(a=USES, b=USES)},
    ),
    "being resized": (
        server(task_state="resize_migrating"),
        (move("resize", "migrating"),),
        {"s": on(b={**USES, "VCPU": 2}), "m": on(a=USES)},
    ),
    "waiting to be confirmed": (
        server("b", **RESIZED),
        (move("resize", "finished"),),
        {"s": on(b={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20}), "m": on(a=USES)},
    ),
    "being evacuated": (
        server(task_state="rebuilding"),
        (move("evacuation", "pre-migrating"),),
        {"s": on(a=USES, b=USES)},
    ),
    "evacuated, and not cleaned up": (
        server("b"),
        (move("evacuation", "done"),),
        {"s": on(a=USES, b=USES)},
    ),
    "being built on no host": (server(None, vm_state="building"), (), {}),
    "being built with a claim": (
        server(None, vm_state="building", updated=JUST_NOW),
        (),
        {"s": on(c=USES)},
    ),
    "offloaded": (server(**OFFLOADED), (), {}),
    "in error on no host": (server(None, vm_state="error"), (), {}),
    "of a cell that is down": (server(known=False), (), {}),
    "pinned by an image that is not shown": (
        server("b", **HIDDEN),
        (),
        {"s": on(b={**DISK, "MEMORY_MB": 512, "PCPU": 1})},
    ),
    "whose device profile Cyborg knows": (
        server(flavor=dataclasses.replace(SMALL, extra_specs={"accel:device_profile": "x"})),
        (),
        {"s": on(a={"VCPU": 7, "FPGA": 1})},
    ),
}
#: A server, its migrations, the allocations, the codes, and the allocations after the repair.
WRONG: dict[
    str,
    tuple[values.Server, tuple[values.Migration, ...], dict[str, Any], list[str], dict[str, Any]],
] = {
    "on two hosts": (server(), (), {"s": on(a=USES, b=USES)}, ["doubled"], {"s": on(a=USES)}),
    "on two hosts, its disk shared": (
        server(),
        (),
        {"s": on(a=CPUS, nfs=DISK, b=CPUS)},
        ["doubled"],
        {"s": on(a=CPUS, nfs=DISK)},
    ),
    "evacuated from a deleted host": (
        server("b"),
        (dataclasses.replace(move("evacuation", "done"), source_host="gone"),),
        {"s": on(b=USES, gone=USES)},
        ["doubled"],
        {"s": on(b=USES)},
    ),
    "evacuated, cleaned up, but for this": (
        server("b"),
        (move("evacuation", "completed"),),
        {"s": on(a=USES, b=USES)},
        ["doubled"],
        {"s": on(b=USES)},
    ),
    "doubled, and too small": (
        server(flavor=LARGE),
        (),
        {"s": on(a=USES, b=USES)},
        ["doubled", "wrong-size"],
        {"s": on(a={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20})},
    ),
    "on a wrong host": (server(), (), {"s": on(c=USES)}, ["wrong-host"], {"s": on(a=USES)}),
    "on a wrong host but for its disk": (
        server(),
        (),
        {"s": on(c=CPUS, nfs=DISK)},
        ["wrong-host"],
        {"s": on(a=CPUS, nfs=DISK)},
    ),
    "offloaded with something left": (
        server(**OFFLOADED),
        (),
        {"s": on(a=USES)},
        ["wrong-host"],
        {"s": {}},
    ),
    "of an older flavor": (
        server(flavor=LARGE),
        (),
        {"s": on(a=USES)},
        ["wrong-size"],
        {"s": on(a={"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20})},
    ),
    "of an older flavor, its disk shared": (
        server(flavor=LARGE),
        (),
        {"s": on(a=CPUS, nfs=DISK)},
        ["wrong-size"],
        {"s": on(a={"VCPU": 2, "MEMORY_MB": 1024}, nfs={"DISK_GB": 20})},
    ),
    "too large": (
        server(from_volume=True),
        (),
        {"s": on(a=USES)},
        ["wrong-size"],
        {"s": on(a=CPUS)},
    ),
    "with nothing but a device": (
        server(),
        (),
        {"s": on(a={"CUSTOM_X": 1})},
        ["wrong-size"],
        {"s": on(a={**USES, "CUSTOM_X": 1})},
    ),
    "pinned, and allocated as if not": (
        server("b", flavor=PINNED),
        (),
        {"s": on(b=USES)},
        ["wrong-size"],
        {"s": on(b={"PCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10})},
    ),
    "with nothing": (server(), (), {}, ["missing"], {"s": on(a=USES)}),
    "whose resize is confirmed": (
        server("b"),
        (move("resize", "confirmed"),),
        {"s": on(b=USES), "m": on(a=USES)},
        ["leaked-move"],
        {"m": {}},
    ),
}
#: A server, its migrations, the allocations, and a part of the reason why it is unknown.
UNSURE: dict[str, tuple[values.Server, tuple[values.Migration, ...], dict[str, Any], str]] = {
    "doubled while it reboots": (
        server(task_state="rebooting"),
        (move("live-migration", "running", "bb"),),
        {"s": on(a=USES, c=USES)},
        "live-migration is running",
    ),
    "without anything while it moves": (
        server(task_state="migrating"),
        (move("live-migration", "running"),),
        {},
        "live-migration is running",
    ),
    "without anything while it reboots": (server(task_state="rebooting"), (), {}, "rebooting"),
    "soft-deleted without anything": (server(vm_state="soft-delete"), (), {}, "soft-deleted"),
    "stuck while it is built": (
        server(None, vm_state="building"),
        (),
        {"s": on(c=USES)},
        "since 2020",
    ),
    "on a share of other hosts": (server("c"), (), {"s": on(c=USES, nfs=DISK)}, "does not share"),
    "on a wrong host with a port": (
        server(),
        (),
        {"s": on(b=USES, nic={"NET_BW_EGR_KILOBIT_PER_SEC": 10})},
        "NET_BW_EGR_KILOBIT_PER_SEC",
    ),
    "on a wrong host, and full": (
        server(flavor=Flavor(vcpus=99, ram=512, disk=10)),
        (),
        {"s": on(c=USES)},
        "no capacity on a.",
    ),
    "without anything, and full": (
        server(flavor=Flavor(vcpus=99, ram=512, disk=10)),
        (),
        {},
        "no capacity on a.",
    ),
    "lacking what its host has not": (
        server(flavor=CUSTOM),
        (),
        {"s": on(a=USES)},
        "no inventory of CUSTOM_X",
    ),
    "at the source alone of an evacuation": (
        server("b"),
        (move("evacuation", "done"),),
        {"s": on(a=USES)},
        "not cleaned up",
    ),
    "pinned by an image that is not shown": (server("b", **HIDDEN), (), {}, "image"),
    "changed just now": (server(updated=JUST_NOW), (), {"s": on(a=USES, b=USES)}, "10 seconds ago"),
    "moved just now": (
        server(),
        (dataclasses.replace(move("resize", "reverted"), updated=JUST_NOW),),
        {"s": on(a=USES, b=USES)},
        "10 seconds ago",
    ),
    "active, and reported on no host": (
        server(None),
        (),
        {"s": on(a=USES)},
        "a server that is active is on some host",
    ),
    "in error with its migration": (
        server(vm_state="error"),
        (move("resize", "error"),),
        {"s": on(a=USES), "m": on(b=USES)},
        "Placement still holds both hosts",
    ),
    "not evacuated in the end": (
        server(vm_state="error"),
        (move("evacuation", "failed"),),
        {"s": on(a=USES, b=USES)},
        "Placement still holds both hosts",
    ),
    "put back by half": (
        server(),
        (move("live-migration", "failed"),),
        {"s": on(b=USES)},
        "the guest may be on either host",
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_right_server_has_no_finding(name: str) -> None:
    nova_server, moves, allocations = HEALTHY[name]
    assert find(cloud([nova_server], moves, allocations)) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_server_has_its_code_and_its_repair(name: str) -> None:
    nova_server, moves, allocations, expected, left = WRONG[name]
    snapshot = cloud([nova_server], moves, allocations)
    problems = find(snapshot)
    assert codes(problems) == expected
    assert repaired(snapshot, problems) == left
    after = {uuid: parts for uuid, parts in {**allocations, **left}.items() if parts}
    assert find(cloud([nova_server], moves, after)) == []


def test_an_ambiguous_server_can_be_assigned() -> None:
    snapshot = cloud([server("c")], sharing={"n-c.": ("u-nfs", "n-gone.")})
    offered = dict(snapshot.inventories["n-c."])
    offered.pop("DISK_GB", None)
    inventories = {**snapshot.inventories, "n-c.": offered}
    (finding,) = find(dataclasses.replace(snapshot, inventories=inventories))
    assert (finding.code, finding.proposed.action) == ("unknown", findings.Remedy.ASSIGN)
    assert "ambiguous: it is on nfs or gone." in finding.proposed.text


@pytest.mark.parametrize("name", UNSURE)
def test_uncertain_finding_is_unknown_and_not_repaired(name: str) -> None:
    nova_server, moves, allocations, why = UNSURE[name]
    snapshot = cloud([nova_server], moves, allocations)
    (finding,) = find(snapshot)
    assert finding.code == "unknown"
    assert why in f"{finding.evidence.text}; {finding.proposed.text}"
    assert finding.proposed.action != findings.Remedy.ASSIGN or "ambiguous" in finding.proposed.text
    assert repaired(snapshot, [finding]) == {}


#: A consumer that nova does not know: its allocations, its owner, the context, and the code.
UNKNOWN_CONSUMERS: dict[str, tuple[dict[str, Any], Owner, dict[str, Any], str]] = {
    "of nova's classes and project": (on(a=CPUS), NO_TYPE, {}, "orphaned"),
    "of a placeholder": (
        on(a=CPUS),
        Owner(allocation.PLACEHOLDER, allocation.PLACEHOLDER, "unknown"),
        {},
        "orphaned",
    ),
    "on two hosts": (on(a=CPUS, b=CPUS), NO_TYPE, {}, "orphaned"),
    "of a type of nova's": (on(a={"CUSTOM_X": 1}), Owner("x", "u", "INSTANCE"), {}, "orphaned"),
    "of a migration": (on(a=CPUS), Owner("x", "u", "MIGRATION"), {}, "leaked-move"),
    "on a port's device": (on(nic={"NET_BW_EGR_KILOBIT_PER_SEC": 1}), NO_TYPE, {}, "orphaned"),
    "on a deleted provider": (on(gone=CPUS), NO_TYPE, {}, "orphaned"),
    "below microversion 1.38": (on(a=CPUS), Owner("p", "u"), {}, "orphaned"),
    "of another service's type": (on(a=CPUS), Owner("p", "u", "CONTAINER"), {}, ""),
    "of a project that nova does not know": (on(a=CPUS), Owner("x", "u", "unknown"), {}, "unknown"),
    "of an operator's own class": (on(a={"CUSTOM_X": 1}), NO_TYPE, {}, "unknown"),
    "on a disk that others may use": (on(nfs=DISK), NO_TYPE, {}, "unknown"),
    "where Zun is": (on(a=CPUS), NO_TYPE, {"other_service": "Zun"}, "unknown"),
}


@pytest.mark.parametrize("name", UNKNOWN_CONSUMERS)
def test_unknown_consumer_is_orphaned_only_if_nova_created_it(name: str) -> None:
    allocations, owner, more, code = UNKNOWN_CONSUMERS[name]
    others = server("a", uuid="o")
    snapshot = cloud([others], allocations={"x": allocations, "o": on(a=USES)}, owners={"x": owner})
    found = find(snapshot, **more)
    assert codes(found) == ([code] if code else [])
    assert repaired(snapshot, found) == ({"x": {}} if code in ("orphaned", "leaked-move") else {})


def test_consumer_that_nova_cannot_show_is_unknown() -> None:
    snapshot = cloud(
        [server("a", uuid="o")],
        allocations={"x": on(a=CPUS), "o": on(a=USES)},
        owners={"x": NO_TYPE},
        unconfirmed={"x": "503"},
    )
    assert codes(find(snapshot)) == ["unknown"]


def test_only_nova_allocates_the_class_of_a_bare_metal_node() -> None:
    node = values.ComputeNode("u-nfs", "nfs", "ironic")
    snapshot = cloud(
        [server("a", uuid="o")],
        allocations={"x": on(nfs={"CUSTOM_GOLD": 1}), "o": on(a=USES)},
        owners={"x": NO_TYPE},
        hosts=values.Hosts(nodes=(*NODES, node)),
        sharing={},
    )
    assert codes(find(snapshot)) == ["orphaned"]


def test_consumer_may_belong_to_a_cell_that_is_down() -> None:
    down = values.Hosts(nodes=NODES[:2], unreachable=frozenset({"c"}))
    typed = Owner("p", "u", "MIGRATION")
    snapshot = cloud(
        [server("a", uuid="o")],
        allocations={"x": on(c=USES), "y": on(b=USES), "o": on(a=USES)},
        owners={"x": typed, "y": typed},
        hosts=down,
    )
    found = {item.subject.uuid: item.code for item in find(snapshot)}
    assert (found["x"], found["y"]) == ("unknown", "leaked-move")


def test_several_hosts_that_nova_does_not_know_may_be_another_novas() -> None:
    nodes = values.Hosts(nodes=NODES[:1])
    held: dict[str, Any] = {"x": on(b=USES), "y": on(c=USES), "z": on(a=USES), "o": on(a=USES)}
    typed = dict.fromkeys("xyz", Owner("p", "u", "INSTANCE"))
    snapshot = cloud([server("a", uuid="o")], allocations=held, owners=typed, hosts=nodes)

    def orphaned(snapshot: Cloud, **fields: Any) -> set[str]:
        problems = find(snapshot, **fields)
        return {item.subject.uuid for item in problems if item.code == "orphaned"}

    assert orphaned(snapshot) == {"z"}
    assert "another nova's" in next(
        item.evidence.text for item in find(snapshot) if item.subject.uuid == "x"
    )
    # The operator names the host; or nova has a record of a server there, or a server.
    assert orphaned(snapshot, hosts=frozenset({"b."})) == {"x", "z"}
    once = dataclasses.replace(
        snapshot, deleted_servers={"d": dataclasses.replace(GONE, node="b.")}
    )
    assert orphaned(once) == {"x", "y", "z"}
    there = {**held, "o": on(b=USES)}
    assert orphaned(dataclasses.replace(snapshot, allocations=there)) == {"x", "y", "z"}
    # A single such host was removed.
    assert orphaned(dataclasses.replace(snapshot, allocations={"x": held["x"]})) == {"x"}


@pytest.mark.parametrize(("is_known", "unconfirmed"), [(False, {}), (True, {"another": "503"})])
def test_no_consumer_is_orphaned_if_a_cell_went_down_during_the_audit(
    is_known: bool, unconfirmed: dict[str, str]
) -> None:
    snapshot = cloud(
        [server("a", uuid="o", known=is_known)],
        allocations={"x": on(a=USES), "o": on(a=USES)},
        owners={"x": Owner("p", "u", "INSTANCE")},
        unconfirmed=unconfirmed,
    )
    (finding,) = find(snapshot)
    assert (finding.code, "cell that is down" in finding.evidence.text) == ("unknown", True)


def test_consumers_of_a_deleted_server_and_of_its_migration_are_left_over() -> None:
    snapshot = cloud(
        [],
        [move("resize", "finished")],
        {"s": on(b=USES), "m": on(a=USES)},
        deleted_servers={"s": GONE},
    )
    problems = find(snapshot)
    assert codes(problems) == ["leaked-move", "orphaned"]
    assert [item.subject.name for item in problems] == ["resize of vm-s", "vm-s"]
    late = dataclasses.replace(GONE, updated=JUST_NOW)
    assert "unknown" in {
        item.code for item in find(dataclasses.replace(snapshot, deleted_servers={"s": late}))
    }


def test_open_migration_without_server_is_unknown() -> None:
    for state, code in (("finished", "unknown"), ("confirmed", "leaked-move")):
        snapshot = cloud([], [move("resize", state)], {"m": on(a=USES)})
        assert [item.code for item in find(snapshot)] == [code]


def test_provider_over_capacity_is_reported_and_not_repaired() -> None:
    snapshot = cloud([server()], allocations={"s": on(a={**USES, "DISK_GB": 200})})
    over = next(item for item in find(snapshot) if item.code == "over-capacity")
    assert over.evidence.text == "DISK_GB 200 used of 100"
    assert over.evidence.fields == {"resources": {"DISK_GB": {"used": 200, "capacity": 100}}}
    assert (over.subject.name, over.hosts, over.repair) == ("a.", ("a",), None)


@pytest.mark.parametrize(
    ("disk", "cores", "notes"),
    [
        (200, 4, ("over capacity: a.. A Placement older than 2025.2 refuses ",)),
        # Nothing is written.
        (200, 1, ()),
        (20, 4, ()),
    ],
)
def test_a_repair_on_a_host_over_its_capacity_says_which_placement_refuses_it(
    disk: int, cores: int, notes: tuple[str, ...]
) -> None:
    other = {"other": on(a={"DISK_GB": disk - 20})} if disk > 20 else {}
    parts = {"s": on(a={**USES, "VCPU": cores}), **other}
    snapshot = cloud([server(), server(uuid="other", vm_state="error")], allocations=parts)
    problems = findings.select(find(snapshot), subjects={"s"})
    planned = audit._plan(snapshot, problems, ())
    assert len(planned.changes) == (cores != 1)
    assert [note[: len(text)] for note, text in zip(planned.notes, notes, strict=True)] == [*notes]


def test_a_one_time_use_device_in_use_is_not_over_capacity() -> None:
    reserved = {"n-a.": {"VGPU": inventory.Inventory(total=1, reserved=1)}}
    snapshot = cloud([server()], allocations={"s": on(a={"VGPU": 1})})
    snapshot = dataclasses.replace(snapshot, inventories={**snapshot.inventories, **reserved})
    assert providers.has_use_without_capacity(snapshot)
    assert "over-capacity" in {item.code for item in find(snapshot)}
    problems = find(snapshot, one_time_use=frozenset({"n-a."}))
    assert "over-capacity" not in {item.code for item in problems}


def test_an_ironic_node_in_use_is_not_over_capacity() -> None:
    """Nova reserves the node when a server gets it, so that it is not used again uncleaned."""
    reserved = {"n-a.": {"CUSTOM_X": inventory.Inventory(total=1, reserved=1)}}
    snapshot = cloud([server()], allocations={"s": on(a={"CUSTOM_X": 1})})
    snapshot = dataclasses.replace(snapshot, inventories={**snapshot.inventories, **reserved})
    assert "over-capacity" in {item.code for item in find(snapshot)}
    nodes = tuple(
        dataclasses.replace(node, hypervisor=("ironic", 1)) for node in snapshot.hosts.nodes
    )
    hosts = dataclasses.replace(snapshot.hosts, nodes=nodes)
    problems = find(dataclasses.replace(snapshot, hosts=hosts))
    assert "over-capacity" not in {item.code for item in problems}


@pytest.mark.parametrize(
    ("fields", "more", "code"),
    [
        ({}, {"computes": frozenset({"n-gone."})}, "stale-provider"),
        ({}, {}, "unknown"),
        ({"deleted_servers": {"s": dataclasses.replace(GONE, node="gone.")}}, {}, "stale-provider"),
        (
            {"hosts": values.Hosts(nodes=(*NODES, values.ComputeNode("other", "gone.", "gone")))},
            {},
            "stale-provider",
        ),
        (
            {"hosts": values.Hosts(nodes=NODES, services=frozenset({"gone"}))},
            {"computes": frozenset({"n-gone."})},
            "unknown",
        ),
        (
            {"hosts": values.Hosts(nodes=NODES, unreachable=frozenset({"gone"}))},
            {"computes": frozenset({"n-gone."})},
            "unknown",
        ),
    ],
)
def test_provider_without_compute_node_is_stale_only_with_evidence(
    fields: dict[str, Any], more: dict[str, Any], code: str
) -> None:
    (finding,) = audit.find(cloud(**fields), context(**more))
    assert (finding.code, finding.subject.uuid, finding.repair) == (code, "n-gone.", None)
    is_undiscovered = "hosts" in fields and not code.startswith("stale")
    assert ("resource provider delete --tree" in finding.proposed.text) is not is_undiscovered


def test_provider_with_read_error_is_reported_and_its_host_not_checked() -> None:
    snapshot = cloud([server()], read_errors={"n-a.": "500"})
    problems = find(snapshot)
    assert {item.code for item in problems} == {"unknown"}
    assert repaired(snapshot, problems) == {}


parts = strategies.dictionaries(
    strategies.sampled_from(["n-a.", "n-b.", "n-c.", "n-gone.", "u-nic", "u-nfs"]),
    strategies.dictionaries(
        strategies.sampled_from(["VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_X"]),
        strategies.integers(1, 3),
        min_size=1,
        max_size=3,
    ),
    max_size=3,
)


def test_wrong_owner_and_placeholder_have_different_codes() -> None:
    placeholder = Owner(allocation.PLACEHOLDER, allocation.PLACEHOLDER, "unknown")
    for owner, code in ((Owner("q", "u", "INSTANCE"), "wrong-owner"), (placeholder, "incomplete")):
        snapshot = cloud([server()], allocations={"s": on(a=USES)}, owners={"s": owner})
        problems = find(snapshot)
        assert codes(problems) == [code]
        (item,) = audit.plan_repair(snapshot, problems).changes
        assert (plans.after(item)["project_id"], plans.after(item)["user_id"]) == ("p", "u")
        assert plans.after(item)["consumer_type"] == owner.type


def test_consumer_with_two_findings_is_written_once() -> None:
    snapshot = cloud(
        [server()], allocations={"s": on(a=USES, b=USES)}, owners={"s": Owner("q", "u", "INSTANCE")}
    )
    problems = find(snapshot)
    assert codes(problems) == ["doubled", "wrong-owner"]
    (item,) = audit.plan_repair(snapshot, problems).changes
    assert plans.after(item)["n-b.:VCPU"] is None
    assert (plans.after(item)["n-a.:VCPU"], plans.after(item)["project_id"]) == (1, "p")
    (alone,) = audit.plan_repair(snapshot, findings.select(problems, codes=["wrong-owner"])).changes
    assert plans.after(alone)["n-b.:VCPU"] == 1


def test_missing_binding_is_repaired_with_the_rest() -> None:
    egress = {"NET_BW_EGR_KILOBIT_PER_SEC": 10}
    port = api.Port("t", "t", "s", {"t": RequestGroup("t", egress)})
    snapshot = cloud(
        [server("b", flavor=LARGE)], allocations={"s": on(b=USES, nic=egress)}, ports={"s": (port,)}
    )
    problems = find(snapshot)
    assert codes(problems) == ["missing", "wrong-size"]
    assert "do not name their providers" in problems[0].evidence.text
    (item,) = audit.plan_repair(snapshot, problems).changes
    assert item.kind == "bound allocations"
    assert (plans.before(item)["port t:t"], plans.after(item)["port t:t"]) == (None, "u-nic")
    assert (
        plans.after(item)["n-b.:VCPU"],
        plans.after(item)["u-nic:NET_BW_EGR_KILOBIT_PER_SEC"],
    ) == (2, 10)


def test_repairs_that_free_capacity_come_first() -> None:
    full = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 90}
    snapshot = cloud(
        [server()], allocations={"x": on(a=full)}, owners={"x": Owner("p", "u", "INSTANCE")}
    )
    problems = find(snapshot)
    assert codes(problems) == ["missing", "orphaned"]
    assert {
        item.subject.uuid: item.stage for item in audit.plan_repair(snapshot, problems).changes
    } == {"x": 0, "s": 1}


def test_select_narrows_to_hosts_and_codes() -> None:
    snapshot = cloud(
        [server(), server("b", uuid="t")], allocations={"x": on(c=USES)}, owners={"x": NO_TYPE}
    )
    problems = find(snapshot)
    assert codes(findings.select(problems, ["b"])) == ["missing"]
    assert codes(findings.select(problems, ["c"], ["orphaned"])) == ["orphaned"]
    assert codes(findings.select(problems, codes=["unknown"])) == []


def test_codes_are_those_of_all_checks() -> None:
    assert {*audit.CODES} == {*audit.REPAIR_ORDER, "unknown"}
    assert len(audit.CODES) == len(audit.REPAIR_ORDER) + 1


def test_time_of_another_clock_does_not_prevent_repair() -> None:
    later = "2030-01-01T00:00:00.000000"
    assert not context().too_young([later, LONG_AGO, ""])
    assert "0 seconds" in context().too_young(["2026-01-01T00:00:00"]).text


def test_amounts_are_unchanged_if_the_location_is_in_doubt() -> None:
    """After a correction on its host, its allocations elsewhere would look doubled."""
    devices = {"VCPU": 1, "MEMORY_MB": 1, "CUSTOM_X": 1}
    allocations = {**on(a={"VCPU": 1, "CUSTOM_X": 1}), **on(c=devices)}
    snapshot = cloud([server()], allocations={"s": allocations})
    problems = find(snapshot)
    assert codes(problems) == ["unknown"]
    assert repaired(snapshot, problems) == {}


@hypothesis.given(
    held=parts,
    orphan=parts,
    host=strategies.sampled_from(["a", "b", "c", None]),
    state=strategies.sampled_from(["active", "resized", "shelved_offloaded", "error", "building"]),
    status_of=strategies.sampled_from(["running", "finished", "confirmed", "done", "error"]),
    kind=strategies.sampled_from(["resize", "evacuation", "live-migration"]),
    flavor=strategies.sampled_from([SMALL, LARGE, PINNED, CUSTOM]),
)
def test_second_audit_finds_nothing_to_repair(
    held: Any, orphan: Any, host: str | None, state: str, status_of: str, kind: str, flavor: Flavor
) -> None:
    nova_server = server(host, vm_state=state, flavor=flavor)
    moves = [move(kind, status_of)]
    snapshot = cloud([nova_server], moves, {k: v for k, v in {"s": held, "m": orphan}.items() if v})
    left = {**snapshot.allocations, **repaired(snapshot, problems := find(snapshot))}
    again = find(cloud([nova_server], moves, {uuid: each for uuid, each in left.items() if each}))
    assert [item for item in again if item.repair] == []
    without = {"over-capacity", "stale-provider", "stuck-move", "unknown"}
    assert all(item.repair or item.code in without for item in problems)


@pytest.mark.seeds(300, long=5000)
def test_heal_sends_to_the_audit_only_what_the_audit_finds(seed: int) -> None:
    draw = random.Random(f"heal and audit {seed}")
    flavors = (SMALL, LARGE, PINNED, dataclasses.replace(LARGE, extra_specs=PINNED.extra_specs))
    servers = [
        server(
            draw.choice("abc"),
            uuid,
            flavor=draw.choice(flavors),
            has_volumes=draw.random() < 0.3,
            **draw.choice(({}, {}, HIDDEN)),
        )
        for uuid in "stuvw"
    ]
    amounts = ({**CPUS, **DISK}, {"PCPU": 1, "MEMORY_MB": 512, **DISK}, CPUS,
               {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20},
               {"PCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20}, {"VCPU": 1})  # fmt: skip
    allocations: dict[str, Any] = {}
    for item in servers:
        places = draw.choice((item.host, item.host, item.host, draw.choice("abc")))
        allocations[item.uuid] = on(**{str(places): dict(draw.choice(amounts))})
        if draw.random() < 0.2:
            allocations[item.uuid] |= on(nfs={"DISK_GB": draw.choice((10, 20))})
    snapshot = cloud(servers, allocations=allocations)
    sent = {
        planned.server.uuid: planned.reason.text
        for planned in decision.decide(snapshot, heal_request.HealRequest())
        if "placement allocation audit" in planned.reason.text
    }
    problems = find(snapshot)
    assert sent.keys() <= {item.subject.uuid for item in problems}
    assert {item.subject.uuid for item in problems if item.code == "wrong-size"} <= sent.keys()
