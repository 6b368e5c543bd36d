# SPDX-License-Identifier: Apache-2.0
"""Findings in small clouds: servers, consumers without a server, providers; their repairs."""

from __future__ import annotations

import datetime
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from osc_placement.model import allocation
from osc_placement.plan.kinds.inventories import ONE_TIME_USE
from osc_placement.testing import traffic, uuid_of
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.allocations import audit, decision, heal_request, providers
from osc_placement.workflows.repair.allocations.repair import AuditContext
from tests.support import embedded, fake_neutron, plans
from tests.support.clouds import read
from tests.support.clouds.small import (
    CPUS,
    DELETED,
    DISK,
    HIDDEN,
    JUST_NOW,
    LARGE,
    LONG_AGO,
    PINNED,
    USES,
    VOLUMES,
    Audited,
    Places,
    Small,
    amounts,
    on_two_disks,
    vm,
)

SERVERS, HYPERVISORS = "GET /v2.1/servers/detail", "GET /v2.1/os-hypervisors/detail"
CUSTOM: dict[str, Any] = {"extra_specs": {"resources:CUSTOM_X": "1"}}
CYBORG: dict[str, Any] = {"extra_specs": {"accel:device_profile": "x"}}
ON_VOLUME = {"image": ""}
LARGE_USES = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20}
EGRESS = {"NET_BW_EGR_KILOBIT_PER_SEC": 10}
NO_TYPE = {"type": "unknown"}
FOREIGN = {"project": "x", **NO_TYPE}
PLACEHOLDER = {"project": allocation.PLACEHOLDER, "user": allocation.PLACEHOLDER, **NO_TYPE}


def migrating(task: str, kind: str, status: str) -> Small:
    """The server is on ``a``, with a task, and moves to ``b``."""
    return vm(task_state=task).move(kind, status)


LIVE = ("migrating", "live-migration", "running")
HEALTHY: dict[str, Small] = {
    "on its host": vm().allocated(s="a"),
    "with its disk on a share": vm().allocated(s={"a": CPUS, "nfs": DISK}),
    "whose image was put on a volume": vm(**VOLUMES).allocated(s={"a": CPUS}),
    "pinned on a host without PCPU": vm(**PINNED).allocated(s="a"),
    "with a port's device": vm("b").allocated(s={"b": USES, "nic": EGRESS}),
    "with a device that its flavor does not request": vm().allocated(
        s={"a": {**USES, "CUSTOM_PCI_8086_1572": 1}}
    ),
    "soft-deleted": vm(vm_state="soft-delete", status="SOFT_DELETED").allocated(s="a"),
    "live-migrating": migrating(*LIVE).allocated(s="b", m="a"),
    "live-migrating as before Queens": migrating(*LIVE).allocated(s="a b"),
    "being resized": migrating("resize_migrating", "resize", "migrating").allocated(
        s={"b": {**USES, "VCPU": 2}}, m="a"
    ),
    "waiting to be confirmed": vm("b", vm_state="resized", **LARGE)
    .move("resize", "finished")
    .allocated(s={"b": LARGE_USES}, m="a"),
    "being evacuated": migrating("rebuilding", "evacuation", "pre-migrating").allocated(s="a b"),
    "evacuated, and not cleaned up": vm("b").move("evacuation", "done").allocated(s="a b"),
    "being built on no host": vm(None, vm_state="building"),
    "being built with a claim": vm(None, vm_state="building", updated=JUST_NOW).allocated(s="c"),
    "offloaded": vm(None, vm_state="shelved_offloaded"),
    "in error on no host": vm(None, vm_state="error"),
    "pinned by an image that is not shown": vm("b", **HIDDEN).allocated(
        s={"b": {**DISK, "MEMORY_MB": 512, "PCPU": 1}}
    ),
    "whose device profile Cyborg knows": vm(**CYBORG).allocated(s={"a": {"VCPU": 7, "FPGA": 1}}),
}
#: A cloud, the codes, and the allocations after the repair.
WRONG: dict[str, tuple[Small, list[str], dict[str, Places]]] = {
    "on two hosts": (vm().allocated(s="a b"), ["doubled"], {"s": "a"}),
    "on two hosts, its disk shared": (
        vm().allocated(s={"a": CPUS, "nfs": DISK, "b": CPUS}),
        ["doubled"], {"s": {"a": CPUS, "nfs": DISK}}),
    "evacuated from a deleted host": (
        vm("b").move("evacuation", "done", source_compute="nova-gone").allocated(s="b gone"),
        ["doubled"], {"s": "b"}),
    "evacuated, cleaned up, but for this": (
        vm("b").move("evacuation", "completed").allocated(s="a b"), ["doubled"], {"s": "b"}),
    "doubled, and too small": (
        vm(**LARGE).allocated(s="a b"), ["doubled", "wrong-size"], {"s": {"a": LARGE_USES}}),
    "on a wrong host": (vm().allocated(s="c"), ["wrong-host"], {"s": "a"}),
    "on a wrong host but for its disk": (
        vm().allocated(s={"c": CPUS, "nfs": DISK}),
        ["wrong-host"], {"s": {"a": CPUS, "nfs": DISK}}),
    "offloaded with something left": (
        vm(None, vm_state="shelved_offloaded").allocated(s="a"), ["wrong-host"], {"s": {}}),
    "of an older flavor": (
        vm(**LARGE).allocated(s="a"), ["wrong-size"], {"s": {"a": LARGE_USES}}),
    "of an older flavor, its disk shared": (
        vm(**LARGE).allocated(s={"a": CPUS, "nfs": DISK}),
        ["wrong-size"], {"s": {"a": {"VCPU": 2, "MEMORY_MB": 1024}, "nfs": {"DISK_GB": 20}}}),
    "too small by less than min_unit": (
        vm(**LARGE).change("a", VCPU={"total": 8, "min_unit": 2}).allocated(s="a"),
        ["wrong-size"], {"s": {"a": LARGE_USES}}),
    "too large": (vm(**ON_VOLUME).allocated(s="a"), ["wrong-size"], {"s": {"a": CPUS}}),
    "with nothing but a device": (
        vm().allocated(s={"a": {"CUSTOM_X": 1}}),
        ["wrong-size"], {"s": {"a": {**USES, "CUSTOM_X": 1}}}),
    "pinned, and allocated as if not": (
        vm("b", **PINNED).allocated(s="b"),
        ["wrong-size"], {"s": {"b": {"PCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}}}),
    "with nothing": (vm(), ["missing"], {"s": "a"}),
    "whose resize is confirmed": (
        vm("b").move("resize", "confirmed").allocated(s="b", m="a"), ["leaked-move"], {"m": {}}),
}  # fmt: skip
#: A cloud, and a part of the reason why its server is unknown.
UNSURE: dict[str, tuple[Small, str]] = {
    "doubled while it reboots": (
        vm(task_state="rebooting").move("live-migration", "running", "bb").allocated(s="a c"),
        "live-migration is running"),
    "without anything while it moves": (migrating(*LIVE), "live-migration is running"),
    "without anything while it reboots": (vm(task_state="rebooting"), "rebooting"),
    "soft-deleted without anything": (
        vm(vm_state="soft-delete", status="SOFT_DELETED"), "soft-deleted"),
    "stuck while it is built": (vm(None, vm_state="building").allocated(s="c"), "since 2020"),
    "on a share of other hosts": (
        vm("c").allocated(s={"c": USES, "nfs": DISK}), "does not share"),
    "on a wrong host with a port": (
        vm().allocated(s={"b": USES, "nic": EGRESS}), "NET_BW_EGR_KILOBIT_PER_SEC"),
    "on a wrong host, and full": (vm(vcpus=99).allocated(s="c"), "no capacity on a: VCPU"),
    "on a wrong host with a device of Cyborg": (
        vm(**CYBORG).allocated(s={"c": CPUS}), "the resources of the device profile x"),
    "too small, and its size refused": (
        vm(**LARGE).change("a", VCPU={"total": 8, "max_unit": 1}).allocated(s="a"),
        "2 VCPU do not suit a"),
    "without anything, and full": (vm(vcpus=99), "no capacity on a: VCPU"),
    "lacking what its host has not": (
        vm(**CUSTOM).change("gone", CUSTOM_X=1).allocated(s="a"), "no inventory of CUSTOM_X"),
    "at the source alone of an evacuation": (
        vm("b").move("evacuation", "done").allocated(s="a"), "not cleaned up"),
    "pinned by an image that is not shown": (vm("b", **HIDDEN), "image"),
    "changed just now": (vm(updated=JUST_NOW).allocated(s="a b"), "10 seconds ago"),
    "moved just now": (
        vm().move("resize", "reverted", updated_at=JUST_NOW).allocated(s="a b"), "10 seconds ago"),
    "active, and reported on no host": (
        vm(None).allocated(s="a"), "a server that is active is on some host"),
    "in error with its migration": (
        vm(vm_state="error").move("resize", "error").allocated(s="a", m="b"),
        "Placement still holds both hosts"),
    "not evacuated in the end": (
        vm(vm_state="error").move("evacuation", "failed").allocated(s="a b"),
        "Placement still holds both hosts"),
    "put back by half": (
        vm().move("live-migration", "failed").allocated(s="b"),
        "the guest may be on either host"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_right_server_has_no_finding(name: str) -> None:
    assert Audited(HEALTHY[name]).findings == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_server_has_its_code_and_its_repair(name: str) -> None:
    kit, expected, left = WRONG[name]
    audited = Audited(kit)
    assert audited.codes == expected
    assert audited.repaired() == {consumer: amounts(left[consumer]) for consumer in left}
    assert Audited(kit.after(**left)).findings == []


def test_of_a_cell_that_is_down_only_the_provider_is_unknown() -> None:
    (finding,) = Audited(vm().cell_down("a")).findings
    assert (finding.code, finding.subject.name) == ("unknown", "a")


def test_an_ambiguous_server_can_be_assigned() -> None:
    (finding,) = Audited(on_two_disks()).findings
    assert (finding.code, finding.proposed.action) == ("unknown", findings.Remedy.ASSIGN)
    assert "ambiguous: it is on nfs-1 or nfs-2" in finding.proposed.text


@pytest.mark.parametrize("name", UNSURE)
def test_uncertain_finding_is_unknown_and_not_repaired(name: str) -> None:
    kit, why = UNSURE[name]
    audited = Audited(kit)
    (finding,) = audited.findings
    assert finding.code == "unknown"
    assert why in f"{finding.evidence.text}; {finding.proposed.text}"
    assert finding.proposed.action != findings.Remedy.ASSIGN or "ambiguous" in finding.proposed.text
    assert audited.repaired() == {}


#: A consumer that nova does not know: its allocations, its owner, the reading, and the code.
UNKNOWN_CONSUMERS: dict[str, tuple[Places, dict[str, str], dict[str, Any], str]] = {
    "of nova's classes and project": ({"a": CPUS}, NO_TYPE, {}, "orphaned"),
    "of a placeholder": ({"a": CPUS}, PLACEHOLDER, {}, "orphaned"),
    "on two hosts": ({"a": CPUS, "b": CPUS}, NO_TYPE, {}, "orphaned"),
    "of a type of nova's": ({"a": {"CUSTOM_X": 1}}, {"project": "x"}, {}, "orphaned"),
    "of a migration": ({"a": CPUS}, {"project": "x", "type": "MIGRATION"}, {}, "leaked-move"),
    "on a port's device": ({"nic": EGRESS}, NO_TYPE, {}, "orphaned"),
    "on a deleted provider": ({"gone": CPUS}, NO_TYPE, {}, "orphaned"),
    "below microversion 1.38": ({"a": CPUS}, {}, {"version": "1.37"}, "orphaned"),
    "of another service's type": ({"a": CPUS}, {"type": "CONTAINER"}, {}, ""),
    "of a project that nova does not know": ({"a": CPUS}, FOREIGN, {}, "unknown"),
    "of an operator's own class": ({"a": {"CUSTOM_X": 1}}, NO_TYPE, {}, "unknown"),
    "on a disk that others may use": ({"nfs": DISK}, NO_TYPE, {}, "unknown"),
}


def others() -> Small:
    """Nova has another server in the project, which is right."""
    return Small().instance("o").allocated(o="a")


@pytest.mark.parametrize("name", UNKNOWN_CONSUMERS)
def test_unknown_consumer_is_orphaned_only_if_nova_created_it(name: str) -> None:
    places, owner, options, code = UNKNOWN_CONSUMERS[name]
    audited = Audited(others().server("x", amounts(places), **owner), **options)
    assert audited.codes == ([code] if code else [])
    assert audited.repaired() == ({"x": {}} if code in ("orphaned", "leaked-move") else {})


def refused(consumer: str) -> dict[str, Any]:
    """Nova does not show whether there is a server of this UUID."""
    reason = {"not known": "no", "service": "nova", "status": 400}
    return {f"GET /v2.1/servers/{uuid_of(consumer)}": reason}


def test_only_nova_allocates_the_class_of_a_bare_metal_node() -> None:
    kit = others().compute("metal").server("x", {"metal": {"CUSTOM_GOLD": 1}}, **NO_TYPE)
    assert Audited(kit).codes == ["orphaned"]


def test_consumer_may_belong_to_a_cell_that_is_down() -> None:
    kit = others()
    for name, host in (("x", "c"), ("y", "b")):
        kit.server(name, {host: USES}, type="MIGRATION")
    problems = Audited(kit.cell_down("c")).findings
    codes = {item.subject.uuid: item.code for item in problems}
    assert (codes[uuid_of("x")], codes[uuid_of("y")]) == ("unknown", "leaked-move")


def test_several_hosts_that_nova_does_not_know_may_be_another_novas() -> None:
    def lost(kit: Small, **options: Any) -> tuple[set[str], dict[str, str]]:
        problems = Audited(kit.delete_service("b").delete_service("c"), **options).findings
        names = {uuid_of(name): name for name in "xyz"}
        orphaned = {names[item.subject.uuid] for item in problems if item.code == "orphaned"}
        texts = {names.get(item.subject.uuid, ""): item.evidence.text for item in problems}
        return orphaned, texts

    places = {"x": "b", "y": "c", "z": "a"}
    orphaned, texts = lost(others().allocated(**places))
    assert orphaned == {"z"}
    assert "another nova's" in texts["x"]
    # The operator names the host; or nova has a record of a server there, or a server.
    assert lost(others().allocated(**places), hosts=frozenset({"b"}))[0] == {"x", "z"}
    once = others().allocated(**places).instance("d", "b", **DELETED)
    assert lost(once)[0] == {"x", "y", "z"}
    assert lost(Small().instance("o").allocated(o="b", **places))[0] == {"x", "y", "z"}
    # A single such host was removed.
    assert lost(Small().instance("o").allocated(x="b"))[0] == {"x"}


@pytest.mark.parametrize(
    "recorded",
    [{SERVERS: Small().instance("o").cell_down("a").nova()[SERVERS]}, refused("another")],
)
def test_no_consumer_is_orphaned_if_a_cell_went_down_during_the_audit(
    recorded: dict[str, Any],
) -> None:
    kit = others().allocated(x="a", another="a")
    problems = {item.subject.uuid: item for item in Audited(kit, recorded=recorded).findings}
    assert {item.code for item in problems.values()} == {"unknown"}
    assert "cell that is down" in problems[uuid_of("x")].evidence.text


def test_consumers_of_a_deleted_server_and_of_its_migration_are_left_over() -> None:
    problems = Audited(vm(**DELETED).move("resize", "finished").allocated(s="b", m="a"))
    assert problems.codes == ["leaked-move", "orphaned"]
    assert [item.subject.name for item in problems.findings] == ["resize of s", "s"]
    late = vm(updated=JUST_NOW, **DELETED).move("resize", "finished").allocated(s="b", m="a")
    assert "unknown" in Audited(late).codes


@pytest.mark.parametrize(
    ("status", "code"), [("finished", "unknown"), ("confirmed", "leaked-move")]
)
def test_open_migration_without_server_is_unknown(status: str, code: str) -> None:
    assert Audited(Small().move("resize", status).allocated(m="a")).codes == [code]


def test_provider_over_capacity_is_reported_and_not_repaired() -> None:
    problems = Audited(vm().allocated(s={"a": {**USES, "DISK_GB": 200}})).findings
    over = next(item for item in problems if item.code == "over-capacity")
    assert over.evidence.text == "DISK_GB 200 used of 100"
    assert over.evidence.fields == {"resources": {"DISK_GB": {"used": 200, "capacity": 100}}}
    assert (over.subject.name, over.hosts, over.repair) == ("a", ("nova-a",), None)


@pytest.mark.parametrize(
    ("disk", "cores", "notes"),
    [
        (200, 4, ("over capacity: a. A Placement older than 2025.2 refuses ",)),
        # Nothing is written.
        (200, 1, ()),
        (20, 4, ()),
    ],
)
def test_a_repair_on_a_host_over_its_capacity_says_which_placement_refuses_it(
    disk: int, cores: int, notes: tuple[str, ...]
) -> None:
    kit = vm().instance("other", vm_state="error").allocated(s={"a": {**USES, "VCPU": cores}})
    audited = Audited(kit.allocated(other={"a": {"DISK_GB": disk - 20}} if disk > 20 else ""))
    problems = findings.select(audited.findings, subjects={uuid_of("s")})
    planned = audit._plan(audited.snapshot, problems, ())
    assert len(planned.changes) == (cores != 1)
    assert [note[: len(text)] for note, text in zip(planned.notes, notes, strict=True)] == [*notes]


@pytest.mark.parametrize(
    ("hypervisor", "traits", "is_over"),
    [("QEMU", (), True), ("ironic", (), False), ("QEMU", (ONE_TIME_USE,), False)],
)
def test_an_ironic_node_or_one_time_use_device_in_use_is_not_over_capacity(
    hypervisor: str, traits: tuple[str, ...], is_over: bool
) -> None:
    """Nova reserves it when a server gets it, so that it is not used again uncleaned."""
    kit = Small().host("metal", traits=traits, CUSTOM_X={"total": 1, "reserved": 1})
    kit.node("metal", hypervisor_type=hypervisor).instance("s", "metal")
    audited = Audited(kit.allocated(s={"metal": {"CUSTOM_X": 1}}))
    assert providers.has_use_without_capacity(audited.snapshot)
    assert ("over-capacity" in audited.codes) is is_over


#: A cloud, more of nova's answers, and whether the provider is stale.
STALE: dict[str, tuple[Small, dict[str, Any], str]] = {
    "a trait": (Small("COMPUTE_NODE"), {}, "stale-provider"),
    "nothing": (Small(), {}, "unknown"),
    "a deleted server": (
        Small().node("gone").instance("s", "gone", **DELETED).delete_service("gone"),
        {},
        "stale-provider",
    ),
    "another node of its name": (Small().node("gone", id=uuid_of("new")), {}, "stale-provider"),
    "a service without a node": (
        Small("COMPUTE_NODE").node("gone", "gone"),
        {HYPERVISORS: Small().nova()[HYPERVISORS]},
        "unknown",
    ),
    "a cell that is down": (Small("COMPUTE_NODE").node("gone").cell_down("gone"), {}, "unknown"),
}


@pytest.mark.parametrize("name", STALE)
def test_provider_without_compute_node_is_stale_only_with_evidence(name: str) -> None:
    kit, recorded, code = STALE[name]
    audited = Audited(kit, recorded=recorded)
    (finding,) = audit.find(audited.snapshot, audited.context)
    assert (finding.code, finding.subject.name, finding.repair) == (code, "gone", None)
    is_undiscovered = name in ("a service without a node", "a cell that is down")
    assert ("resource provider delete --tree" in finding.proposed.text) is not is_undiscovered


def test_provider_with_read_error_is_reported_and_its_host_not_checked() -> None:
    kit = vm().allocated(m="a")
    client = embedded.Client(load=kit.document())
    listed = "GET /resource_providers/{}/allocations"
    refuse = traffic.about([uuid_of("a")], embedded.refuse(400, "broken"))
    client.before(embedded.at(listed, refuse))
    audited = Audited(kit, client=client)
    assert {*audited.codes} == {"unknown"}
    assert audited.repaired() == {}


parts = strategies.dictionaries(
    strategies.sampled_from(["a", "b", "c", "gone", "nic", "nfs"]),
    strategies.dictionaries(
        strategies.sampled_from(["VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_X"]),
        strategies.integers(1, 3),
        min_size=1,
        max_size=3,
    ),
    max_size=3,
)


@pytest.mark.parametrize(
    ("owner", "code"), [({"project": "q"}, "wrong-owner"), (PLACEHOLDER, "incomplete")]
)
def test_wrong_owner_and_placeholder_have_different_codes(owner: dict[str, str], code: str) -> None:
    audited = Audited(vm().server("s", {"a": USES}, **owner))
    assert audited.codes == [code]
    (item,) = audit.plan_repair(audited.snapshot, audited.findings).changes
    assert (plans.after(item)["project_id"], plans.after(item)["user_id"]) == ("project", "user")
    assert plans.after(item)["consumer_type"] == owner.get("type", "INSTANCE")


def test_consumer_with_two_findings_is_written_once() -> None:
    audited = Audited(vm().server("s", amounts("a b"), project="q"))
    assert audited.codes == ["doubled", "wrong-owner"]
    on_a, on_b = (f"{uuid_of(name)}:VCPU" for name in "ab")
    (item,) = audit.plan_repair(audited.snapshot, audited.findings).changes
    assert plans.after(item)[on_b] is None
    assert (plans.after(item)[on_a], plans.after(item)["project_id"]) == (1, "project")
    chosen = findings.select(audited.findings, codes=["wrong-owner"])
    (alone,) = audit.plan_repair(audited.snapshot, chosen).changes
    assert plans.after(alone)[on_b] == 1


@pytest.mark.parametrize(
    ("flavor", "project", "code"),
    [(LARGE, "project", "wrong-size"), ({}, "other", "wrong-owner")],
)
def test_missing_binding_is_repaired_with_the_rest(
    flavor: dict[str, Any], project: str, code: str
) -> None:
    groups = [{"id": "t", "resources": EGRESS, "required": []}]
    request = {"request_groups": groups, "same_subtree": ["t"]}
    port = fake_neutron.port("t", "s", resource_request=request)
    kit = vm("b", **flavor).server("s", amounts({"b": USES, "nic": EGRESS}), project=project)
    audited = Audited(kit, ports=[port])
    assert audited.codes == ["missing", code]
    assert "do not name their providers" in audited.findings[0].evidence.text
    (item,) = audit.plan_repair(audited.snapshot, audited.findings).changes
    assert item.kind == "bound allocations"
    key, nic = f"port {uuid_of('t')}:t", uuid_of("nic")
    assert (plans.before(item)[key], plans.after(item)[key]) == (None, nic)
    uses = LARGE_USES if flavor else USES
    assert audited.repaired() == {"s": {"b": uses, "nic": EGRESS}}
    assert plans.after(item)["project_id"] == "project"


def test_repairs_that_free_capacity_come_first() -> None:
    full = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 90}
    audited = Audited(vm().allocated(x={"a": full}))
    assert audited.codes == ["missing", "orphaned"]
    planned = audit.plan_repair(audited.snapshot, audited.findings)
    assert {item.subject.uuid: item.stage for item in planned.changes} == {
        uuid_of("x"): 0, uuid_of("s"): 1,
    }  # fmt: skip


def test_select_narrows_to_hosts_and_codes() -> None:
    kit = vm().instance("t", "b").server("x", {"c": USES}, **NO_TYPE)
    problems = Audited(kit).findings
    for hosts, codes, expected in (
        (["nova-b"], (), ["missing"]),
        (["nova-c"], ["orphaned"], ["orphaned"]),
        ((), ["unknown"], []),
    ):
        assert [item.code for item in findings.select(problems, hosts, codes)] == expected


def test_codes_are_those_of_all_checks() -> None:
    assert {*audit.CODES} == {*audit.REPAIR_ORDER, "unknown"}
    assert len(audit.CODES) == len(audit.REPAIR_ORDER) + 1


def test_time_of_another_clock_does_not_prevent_repair() -> None:
    context = AuditContext(datetime.datetime.fromisoformat(read.NOW), min_age=60)
    assert not context.too_young(["2030-01-01T00:00:00.000000", LONG_AGO, ""])
    assert "0 seconds" in context.too_young(["2026-01-01T00:00:00"]).text


def test_amounts_are_unchanged_if_the_location_is_in_doubt() -> None:
    """After a correction on its host, its allocations elsewhere would look doubled."""
    devices = {"VCPU": 1, "MEMORY_MB": 1, "CUSTOM_X": 1}
    audited = Audited(vm().allocated(s={"a": {"VCPU": 1, "CUSTOM_X": 1}, "c": devices}))
    assert audited.codes == ["unknown"]
    assert audited.repaired() == {}


@hypothesis.given(
    held=parts,
    orphan=parts,
    host=strategies.sampled_from(["a", "b", "c", None]),
    state=strategies.sampled_from(["active", "resized", "shelved_offloaded", "error", "building"]),
    status=strategies.sampled_from(["running", "finished", "confirmed", "done", "error"]),
    kind=strategies.sampled_from(["resize", "evacuation", "live-migration"]),
    flavor=strategies.sampled_from([{}, LARGE, PINNED, CUSTOM]),
)
def test_second_audit_finds_nothing_to_repair(
    held: Any, orphan: Any, host: str | None, state: str, status: str, kind: str, flavor: Any
) -> None:
    kit = vm(host, vm_state=state, **flavor).move(kind, status).allocated(s=held, m=orphan)
    audited = Audited(kit)
    again = Audited(kit.after(**audited.repaired()))
    assert [item for item in again.findings if item.repair] == []
    without = {"over-capacity", "stale-provider", "stuck-move", "unknown"}
    assert all(item.repair or item.code in without for item in audited.findings)


@pytest.mark.seeds(300, long=5000)
def test_heal_sends_to_the_audit_only_what_the_audit_finds(seed: int) -> None:
    draw, kit = random.Random(f"heal and audit {seed}"), Small()
    pinned = {"PCPU": 1, "MEMORY_MB": 512, **DISK}
    large = {"PCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 20}
    amounts = (USES, pinned, CPUS, LARGE_USES, large, {"VCPU": 1})
    for name in "stuvw":
        host, flavor = draw.choice("abc"), draw.choice(({}, LARGE, PINNED, {**LARGE, **PINNED}))
        volumes = VOLUMES if draw.random() < 0.3 else {}
        kit.instance(name, host, **flavor, **volumes, **draw.choice(({}, {}, HIDDEN)))
        places = draw.choice((host, host, host, draw.choice("abc")))
        allocated = {places: draw.choice(amounts)}
        if draw.random() < 0.2:
            allocated["nfs"] = {"DISK_GB": draw.choice((10, 20))}
        kit.allocated(**{name: allocated})
    audited = Audited(kit)
    sent = {
        planned.server.uuid: planned.reason.text
        for planned in decision.decide(audited.snapshot, heal_request.HealRequest())
        if "placement allocation audit" in planned.reason.text
    }
    problems = audited.findings
    assert sent.keys() <= {item.subject.uuid for item in problems}
    assert {item.subject.uuid for item in problems if item.code == "wrong-size"} <= sent.keys()
