# SPDX-License-Identifier: Apache-2.0
"""The plan of heal: a small cloud in, changes and reasons out; invariants of every plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, strategies as st

from osc_placement.plan import change, plan
from osc_placement.plan.change import Precondition, ServerState
from osc_placement.testing import traffic, uuid_of
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair.allocations import heal, heal_request
from osc_placement.workflows.repair.allocations.heal_request import HealOptions, HealRequest
from tests.support import embedded, plans
from tests.support.clouds import read
from tests.support.clouds.small import (
    CPUS,
    DISK,
    HIDDEN,
    OFFERED,
    PINNED,
    SIZE,
    USES,
    Places,
    Small,
    amounts,
    on_two_disks,
    vm,
)

WITH_GPU: dict[str, Any] = {"extra_specs": {"resources:VGPU": "1"}}
GRANULAR: dict[str, Any] = {"extra_specs": {"resources1:VGPU": "1"}}
CYBORG: dict[str, Any] = {"extra_specs": {"accel:device_profile": "x"}}
DEDICATED: dict[str, Any] = {"image": {"id": "i", "properties": {"hw_cpu_policy": "dedicated"}}}
OWNER = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}


def plan_heal(kit: Small | Cloud, **fields: Any) -> plan.Plan:
    cloud = kit if isinstance(kit, Cloud) else read.read(kit)
    return heal.plan_heal(cloud, HealRequest(**fields))


def only_change(planned: plan.Plan) -> change.Change:
    (item,) = planned.changes
    return item


def only_reason(planned: plan.Plan) -> str:
    (item,) = planned.skipped
    assert not planned.changes
    return item.reason


def healed(planned: plan.Plan) -> dict[str, Any]:
    """The allocations of the only change."""
    return plans.amounts(only_change(planned))


def on(places: Places) -> dict[str, Any]:
    """Allocations by the UUIDs of providers."""
    return {uuid_of(name): parts for name, parts in amounts(places).items()}


def with_gpus(*used: int, free: int = 1, **fields: Any) -> Small:
    """Host ``c`` with two GPUs, and how much of each is used; the server requests one."""
    kit = vm("c", **{**WITH_GPU, **fields})
    for number, taken in enumerate(used):
        kit.child("c", f"gpu{number}", VGPU=free)
        kit.allocated(**{f"other{number}": {f"gpu{number}": {"VGPU": taken}} if taken else ""})
    return kit


def test_server_without_allocations_gets_its_flavor_on_its_host() -> None:
    item = only_change(plan_heal(vm()))
    on_a = {f"{uuid_of('a')}:{name}": amount for name, amount in USES.items()}
    assert plans.after(item) == on_a | OWNER
    assert set(plans.before(item).values()) == {None}
    assert (item.subject, item.generation) == (change.Subject("s", uuid_of("s")), None)
    assert item.reason == "on a: DISK_GB=10, MEMORY_MB=512, VCPU=1"


def test_disk_comes_from_sharing_provider_only_if_root_has_none() -> None:
    planned = plan_heal(vm().change("a", DISK_GB=None))
    assert healed(planned) == on({"a": CPUS, "nfs": DISK})
    assert only_change(planned).reason == "on a: MEMORY_MB=512, VCPU=1; nfs: DISK_GB=10"
    assert planned.names == {uuid_of(name): name for name in ("a", "nfs")}


def test_what_else_is_uncertain_comes_after_the_alternatives() -> None:
    assert only_reason(plan_heal(on_two_disks(**HIDDEN).change("c", PCPU=4))).startswith(
        "ambiguous: it is on nfs-1 or nfs-2; the image may pin CPUs"
    )
    kit = on_two_disks(extra_specs={"pci_passthrough:alias": "nic:1"})
    assert only_reason(plan_heal(kit.change("c", CUSTOM_PCI_8086_154D=1))).startswith(
        "ambiguous: it is on nfs-1 or nfs-2; only the host knows which PCI devices it has"
    )


@pytest.mark.parametrize("flavor", [WITH_GPU, GRANULAR])
def test_only_device_with_capacity_is_certain(flavor: dict[str, Any]) -> None:
    planned = plan_heal(with_gpus(1, 0, **flavor))
    assert healed(planned) == on({"c": USES, "gpu1": {"VGPU": 1}})
    assert "guessed" not in only_change(planned).reason


@pytest.mark.parametrize(
    ("options", "goal", "how"),
    [
        (HealOptions("spread"), "gpu1", "spread"),
        (HealOptions("pack"), "gpu0", "pack"),
        (HealOptions(assigned={uuid_of("s"): frozenset({"gpu0"})}), "gpu0", "as assigned"),
        (
            HealOptions("pack", {uuid_of("s"): frozenset({uuid_of("gpu1")})}),
            "gpu1",
            "as assigned",
        ),
    ],
)
def test_operator_decides_between_two_devices_and_plan_says_guessed(
    options: HealOptions, goal: str, how: str
) -> None:
    cloud = read.read(with_gpus(2, 1, free=4))
    assert only_reason(plan_heal(cloud)) == (
        "ambiguous: it is on gpu0 or gpu1"
        " (placement allocation heal --assign or --strategy decides)"
    )
    planned = plan_heal(cloud, options=options)
    assert healed(planned)[uuid_of(goal)] == {"VGPU": 1}
    assert only_change(planned).reason.startswith(f"guessed ({how}): on c: ")


@pytest.mark.parametrize(
    ("used", "assigned", "reason"),
    [
        (1, "gpu1", "it cannot be on gpu1, only on "),
        (0, "c", "ambiguous: on c it is on gpu0 or gpu1 (assign more)"),
    ],
)
def test_an_assignment_that_leaves_no_or_several_options_is_refused(
    used: int, assigned: str, reason: str
) -> None:
    options = HealOptions(assigned={uuid_of("s"): frozenset({assigned})})
    planned = plan_heal(with_gpus(0, used), options=options)
    assert reason in only_reason(planned)
    assert planned.notes == (f"--assign: nothing is created for {uuid_of('s')}",)


def test_guess_reduces_capacity_for_next_server() -> None:
    kit = Small().child("c", "gpu0", VGPU=1).child("c", "gpu1", VGPU=1)
    for name, day in (("young", 3), ("old", 1), ("middle", 2)):
        kit.instance(name, "c", created=f"2020-01-0{day}", **WITH_GPU)
    planned = plan_heal(kit, options=HealOptions("pack"))
    assert {item.subject.name for item in planned.changes} == {"old", "middle"}
    (skipped,) = planned.skipped
    assert skipped.subject.name == "young"
    assert skipped.reason == "no capacity on gpu0: VGPU needs 1, 0 free"


def test_missing_device_and_missing_capacity_have_different_reasons() -> None:
    assert only_reason(plan_heal(with_gpus(1, 1))) == (
        "no capacity in the tree of c: VGPU needs 1, 0 free"
    )
    assert only_reason(plan_heal(vm("c", **WITH_GPU).child("c", "gpu"))) == (
        "nothing in the tree of c has inventory of VGPU (it needs 1)"
    )
    kit = with_gpus(1, 1)
    client = embedded.Client(load=kit.document())
    client.before(embedded.at("GET /allocation_candidates", embedded.refuse(500, "it broke")))
    reason = only_reason(plan_heal(read.read(kit, client)))
    assert reason.startswith("Placement returned no candidates: GET /allocation_candidates?")
    assert ": it broke (HTTP 500)" in reason


def test_oldest_server_gets_the_capacity() -> None:
    kit = Small().instance("young", "c", vcpus=5, created="2021-01-01")
    planned = plan_heal(kit.instance("old", "c", vcpus=5, created="2020-01-01"))
    assert only_change(planned).subject.name == "old"
    (skipped,) = planned.skipped
    assert skipped.reason == "no capacity on c: VCPU needs 5, 3 free"
    assert skipped.refused


@pytest.mark.parametrize(
    ("kit", "reason", "refused"),
    [
        (vm(task_state="rebooting"), "its task state is rebooting", True),
        (vm().move("migration", "queued"), "its migration is queued", True),
        (vm(None, vm_state="shelved_offloaded"), "it is shelved offloaded", False),
        (vm(None, vm_state="error"), "it is on no host", False),
        (vm(None, vm_state="building"), "it is being built", False),
        (vm(vm_state="soft-delete", status="SOFT_DELETED"), "it is soft-deleted", False),
        (vm(vcpus=0, ram=0, disk=0), "its flavor requests nothing", False),
        (vm().delete_service("a"), "nova lists no compute node a", True),
        (vm().cell_down("a"), "its cell is down", True),
        (vm(flavor={**SIZE, "ephemeral": 0, "swap": 0}), "nova hides extra_specs", True),
        (vm(**CYBORG), "only Cyborg knows the resources of the device profile x", True),
        (
            vm().change("a", VCPU={"total": 8, "min_unit": 2}),
            "1 VCPU do not suit a: min_unit 2",
            True,
        ),
        (
            Small().node("d").instance("s", "d"),
            "its host has no resource provider: nova-compute on nova-d creates",
            True,
        ),
        (
            Small().host("d", **OFFERED).node("d", id=uuid_of("new")).instance("s", "d"),
            "the provider d has another UUID",
            True,
        ),
    ],
)
def test_server_that_cannot_be_healed_is_skipped_and_stops_no_other(
    kit: Small, reason: str, refused: bool
) -> None:
    planned = plan_heal(kit.instance("other", "c"))
    assert only_change(planned).subject.name == "other"
    (skipped,) = planned.skipped
    assert reason in skipped.reason
    assert (skipped.refused, skipped.unchanged) == (refused, False)


@pytest.mark.parametrize(
    ("provider", "what", "why"),
    [
        ("nic", "allocations", "the allocations on nic cannot be read: "),
        ("nfs", "inventories", "what offers DISK_GB to b cannot be read: "),
    ],
)
def test_tree_with_read_error_is_skipped(provider: str, what: str, why: str) -> None:
    kit = vm("b").instance("t", "a").allocated(m={"nic": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}})
    client = embedded.Client(load=kit.change("b", DISK_GB=None).document())
    refuse = traffic.about([uuid_of(provider)], embedded.refuse(400, "broken"))
    client.before(embedded.at(f"GET /resource_providers/{{}}/{what}", refuse))
    planned = plan_heal(read.read(kit, client))
    assert only_change(planned).subject.name == "t"
    reason = planned.skipped[0].reason
    assert reason.startswith(why)
    assert "broken (HTTP 400)" in reason


def test_hidden_image_properties_matter_only_if_host_has_pcpu() -> None:
    assert only_change(plan_heal(vm(**HIDDEN)))
    pinned = vm("b", **HIDDEN)
    assert only_reason(plan_heal(pinned)).startswith("ambiguous: the image may pin CPUs")
    guessed = plan_heal(pinned, options=HealOptions("spread"))
    assert healed(guessed)[uuid_of("b")]["VCPU"] == 1
    assert "guessed" in only_change(guessed).reason


@pytest.mark.parametrize(
    ("host", "by", "cpus"), [("a", PINNED, "VCPU"), ("b", PINNED, "PCPU"), ("b", DEDICATED, "PCPU")]
)
def test_pinned_cpus_are_vcpu_on_a_host_without_pcpu(
    host: str, by: dict[str, Any], cpus: str
) -> None:
    """As nova's second query for pinned CPUs; the audit accepts the same allocations."""
    assert healed(plan_heal(vm(host, **by))) == on({host: {cpus: 1, "MEMORY_MB": 512, **DISK}})


@pytest.mark.parametrize(
    "extra", [{"resources:PCPU": "1"}, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}]
)
def test_pcpu_without_a_second_query_is_missing_on_a_host_without_it(extra: dict[str, str]) -> None:
    planned = plan_heal(vm(vcpus=2, extra_specs=extra))
    assert only_reason(planned).startswith("nothing in the tree of a has inventory of PCPU")


def test_wrong_owner_is_replaced_and_type_and_allocations_stay() -> None:
    zero = "00000000-0000-0000-0000-000000000000"
    kit = vm().server("s", {"a": USES}, project=zero, user=zero, type="unknown")
    item = only_change(plan_heal(kit))
    changed = {
        key: value for key, value in plans.after(item).items() if plans.before(item)[key] != value
    }
    assert changed == {"project_id": "project", "user_id": "user"}
    assert item.generation == 1
    assert item.reason == f"project project instead of {zero}; user user instead of {zero}"


def test_owner_that_was_not_read_counts_as_right() -> None:
    snapshot = read.read(vm().server("s", {"a": USES}, project="q"))
    planned = plan_heal(dataclasses.replace(snapshot, owners={}))
    assert planned.skipped[0].unchanged


@pytest.mark.parametrize(
    ("kit", "reason"),
    [
        (vm().allocated(s="c"), "it has allocations on c, where it is not"),
        (vm().allocated(s="a c"), "it has allocations on c, where it is not"),
        (vm("b").move("evacuation", "done").allocated(s="a"), "it has allocations on a, where"),
        (vm().allocated(s={"a": {"VCPU": 1}}), "it has VCPU=1, but its flavor requests"),
        (vm().allocated(s={"a": CPUS, "nfs": DISK}), ""),
        (vm().allocated(s="a"), ""),
    ],
)
def test_wrong_allocations_are_reported_and_unchanged(kit: Small, reason: str) -> None:
    planned = plan_heal(kit)
    (skipped,) = planned.skipped
    assert (planned.changes, skipped.unchanged, skipped.refused) == ((), not reason, False)
    assert skipped.reason.startswith(reason)


@pytest.mark.parametrize(
    ("held", "is_wrong"),
    [
        ({"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 10}, True),
        ({"PCPU": 1, "MEMORY_MB": 256, "DISK_GB": 10}, True),
        ({"PCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}, False),
    ],
)
def test_an_unknown_image_leaves_only_the_kind_of_cpus_open(
    held: dict[str, int], is_wrong: bool
) -> None:
    (skipped,) = plan_heal(vm(**HIDDEN).allocated(s={"a": held})).skipped
    assert skipped.unchanged is not is_wrong
    assert ("but its flavor requests" in skipped.reason) is is_wrong


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (heal_request.Scope(hosts=frozenset({"nova-c"})), {"t"}),
        (heal_request.Scope(servers=frozenset({uuid_of("s")})), {"s"}),
        (heal_request.Scope(frozenset({"nova-c"}), frozenset({uuid_of("s")})), set()),
    ],
)
def test_plan_contains_only_servers_in_scope(scope: heal_request.Scope, names: set[str]) -> None:
    planned = plan_heal(vm().instance("t", "c"), scope=scope)
    assert {item.subject.name for item in planned.items()} == names


def test_change_has_nova_precondition() -> None:
    condition = only_change(plan_heal(vm())).precondition
    resources = {"DISK_GB": 10, "MEMORY_MB": 512, "VCPU": 1}
    assert condition == Precondition(ServerState("nova-a", "a", "active", None, resources))


def test_same_snapshot_gives_same_plan() -> None:
    names = [f"{host}{number}" for host in "abc" for number in range(9)]
    first, other = Small(), Small()
    for kit, order in ((first, names), (other, names[::-1])):
        for name in order:
            kit.instance(name, name[0])
    assert plans.text_of(plan_heal(first)) == plans.text_of(plan_heal(other))


STATES = st.sampled_from(
    [
        {},
        {"task_state": "migrating"},
        {"vm_state": "shelved_offloaded"},
        {"vm_state": "error"},
        HIDDEN,
        DEDICATED,
    ]
)
HELD = st.sampled_from(["", "a", {"c": {"VCPU": 1}}, "a b"])


@st.composite
def clouds(draw: st.DrawFn) -> Small:
    kit = Small().node("z")
    for number in range(draw(st.integers(0, 12))):
        fields = {"vcpus": draw(st.integers(1, 9)), **draw(STATES)}
        fields["created"] = f"20{draw(st.integers(10, 25))}-01-01"
        node = None if "shelved_offloaded" in fields.values() else draw(st.sampled_from("abcz"))
        kit.instance(f"s{number}", node, **fields)
        kit.allocated(**{f"s{number}": draw(HELD)})
    if draw(st.booleans()):
        kit.move("migration", "queued", server="s0")
    kit.delete_service("z")
    return kit.cell_down("c") if draw(st.booleans()) else kit


@given(clouds())
def test_a_plan_lists_every_server_once_with_a_reason_and_exceeds_no_capacity(kit: Small) -> None:
    cloud = read.read(kit)
    first = plan_heal(cloud)
    assert sorted(item.subject.uuid for item in first.items()) == sorted(cloud.servers)
    assert all(item.unchanged or item.reason for item in first.skipped)
    for item in first.changes:
        kept = {key: value for key, value in plans.before(item).items() if isinstance(value, int)}
        assert kept.items() <= plans.after(item).items()
    names = cloud.provider_names
    after = {item.subject.name: plans.amounts(item, names) for item in first.changes}
    done = read.read(kit.after(**after))
    for uuid, resources in done.used.items():
        for name, used in resources.items():
            capacity = cloud.inventories[uuid][name].capacity
            assert used <= max(capacity, cloud.used.get(uuid, {}).get(name, 0))
    again = plan_heal(done)
    assert again.changes == ()
    right = {item.subject.uuid for item in again.skipped if item.unchanged}
    assert {item.subject.uuid for item in first.changes} <= right
