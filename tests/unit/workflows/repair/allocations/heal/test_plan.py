# SPDX-License-Identifier: Apache-2.0
"""The plan of heal: a snapshot in, changes and reasons out; invariants of every plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, strategies as st

from osc_placement import errors
from osc_placement.client import api_errors, responses
from osc_placement.model import inventory, provider
from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from osc_placement.plan import change, plan
from osc_placement.plan.change import Precondition, ServerState
from osc_placement.workflows.cloud.cloud import Cloud, Owner
from osc_placement.workflows.repair.allocations import expected, heal, heal_request
from osc_placement.workflows.repair.allocations.heal_request import HealOptions, HealRequest
from tests.support import plans
from tests.support.clouds.small import OFFERED, PROVIDERS, SMALL, USES, cloud, move, server

WITH_GPU = dataclasses.replace(SMALL, extra_specs={"resources:VGPU": "1"})
GRANULAR = dataclasses.replace(SMALL, extra_specs={"resources1:VGPU": "1"})
GPUS = tuple(
    provider.Provider(f"u-{name}", name, 0, root_uuid="n-c.", parent_uuid="n-c.")
    for name in ("gpu0", "gpu1")
)
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}


def plan_heal(snapshot: Cloud, **fields: Any) -> plan.Plan:
    return heal.plan_heal(snapshot, HealRequest(**fields))


def only_change(planned: plan.Plan) -> change.Change:
    (item,) = planned.changes
    return item


def only_reason(planned: plan.Plan) -> str:
    (item,) = planned.skipped
    assert not planned.changes
    return item.reason


def with_gpus(*used: int, server: values.Server, free: int = 1) -> Cloud:
    """Host ``c`` with two GPUs, how much of each is used, and Placement's candidates."""
    others = {item.uuid: {"VGPU": taken} for item, taken in zip(GPUS, used, strict=True) if taken}
    snapshot = cloud(
        [server],
        providers=provider.by_uuid([*PROVIDERS, *GPUS]),
        allocations={"others": others} if others else {},
    )
    gpus = {item.uuid: {"VGPU": inventory.Inventory(total=free)} for item in GPUS}
    snapshot = dataclasses.replace(snapshot, inventories={**snapshot.inventories, **gpus})
    query = expected.query_of(snapshot, server, "n-c.")
    assert query is not None
    fitting = [item for item, taken in zip(GPUS, used, strict=True) if taken < free]
    answer = responses.Candidates(
        tuple(responses.AllocationRequest({item.uuid: {"VGPU": 1}}) for item in fitting),
        {
            item.uuid: responses.ProviderSummary({"VGPU": responses.ResourceSummary(free, taken)})
            for item, taken in zip(GPUS, used, strict=True)
        },
    )
    return dataclasses.replace(snapshot, candidates={query[0]: answer})


def test_server_without_allocations_gets_its_flavor_on_its_host() -> None:
    item = only_change(plan_heal(cloud([server("a")])))
    assert plans.after(item) == {f"n-a.:{name}": amount for name, amount in USES.items()} | OWNER
    assert set(plans.before(item).values()) == {None}
    assert (item.subject, item.generation) == (change.Subject("vm-s", "s"), None)
    assert item.reason == "on a.: DISK_GB=10, MEMORY_MB=512, VCPU=1"


def test_right_allocations_are_unchanged() -> None:
    planned = plan_heal(cloud([server("a")], allocations={"s": {"n-a.": USES}}))
    assert (planned.changes, planned.skipped[0].unchanged) == ((), True)


def test_disk_comes_from_sharing_provider_only_if_root_has_none() -> None:
    snapshot = cloud([server("a")])
    diskless = {
        name: offer for name, offer in snapshot.inventories["n-a."].items() if name != "DISK_GB"
    }
    without = dataclasses.replace(snapshot, inventories={**snapshot.inventories, "n-a.": diskless})
    planned = plan_heal(without)
    assert plans.after(only_change(planned)) == OWNER | {
        "n-a.:VCPU": 1,
        "n-a.:MEMORY_MB": 512,
        "u-nfs:DISK_GB": 10,
    }
    assert only_change(planned).reason == "on a.: MEMORY_MB=512, VCPU=1; nfs: DISK_GB=10"
    assert planned.names == {"n-a.": "a.", "u-nfs": "nfs"}


def with_two_disks(nova_server: values.Server, **more: int) -> Cloud:
    """A server on c., whose disk is on one of two sharing providers."""
    snapshot = cloud([nova_server], sharing={"n-c.": ("u-nfs", "n-gone.")})
    totals = {name: OFFERED[name] for name in ("VCPU", "MEMORY_MB")} | more
    offered = {name: inventory.Inventory(total=total) for name, total in totals.items()}
    return dataclasses.replace(snapshot, inventories={**snapshot.inventories, "n-c.": offered})


def test_two_sharing_providers_are_ambiguous() -> None:
    snapshot = with_two_disks(server("c"))
    assert "ambiguous: it is on nfs or gone." in only_reason(plan_heal(snapshot))


def test_what_else_is_uncertain_comes_after_the_alternatives() -> None:
    snapshot = with_two_disks(server("c", image_properties=None), PCPU=4)
    assert only_reason(plan_heal(snapshot)).startswith(
        "ambiguous: it is on nfs or gone.; the image may pin CPUs"
    )


@pytest.mark.parametrize("flavor", [WITH_GPU, GRANULAR])
def test_only_device_with_capacity_is_certain(flavor: Flavor) -> None:
    planned = plan_heal(with_gpus(1, 0, server=server("c", flavor=flavor)))
    assert plans.after(only_change(planned)) == OWNER | {
        **{f"n-c.:{name}": amount for name, amount in USES.items()},
        "u-gpu1:VGPU": 1,
    }
    assert "guessed" not in only_change(planned).reason


@pytest.mark.parametrize(
    ("options", "goal", "how"),
    [
        (HealOptions("spread"), "u-gpu1", "spread"),
        (HealOptions("pack"), "u-gpu0", "pack"),
        (HealOptions(assigned={"s": frozenset({"gpu0"})}), "u-gpu0", "as assigned"),
        (HealOptions("pack", {"s": frozenset({"u-gpu1"})}), "u-gpu1", "as assigned"),
    ],
)
def test_operator_decides_between_two_devices_and_plan_says_guessed(
    options: HealOptions, goal: str, how: str
) -> None:
    snapshot = with_gpus(2, 1, server=server("c", flavor=WITH_GPU), free=4)
    assert only_reason(plan_heal(snapshot)) == (
        "ambiguous: it is on gpu0 or gpu1"
        " (placement allocation heal --assign or --strategy decides)"
    )
    item = only_change(plan_heal(snapshot, options=options))
    assert plans.after(item)[f"{goal}:VGPU"] == 1
    assert item.reason.startswith(f"guessed ({how}): on c.: ")


def test_impossible_assignment_is_refused() -> None:
    snapshot = with_gpus(0, 1, server=server("c", flavor=WITH_GPU))
    options = HealOptions(assigned={"s": frozenset({"gpu1"})})
    assert "it cannot be on gpu1" in only_reason(plan_heal(snapshot, options=options))


def test_guess_reduces_capacity_for_next_server() -> None:
    servers = [
        server("c", uuid, flavor=WITH_GPU, created=f"2020-01-0{day}")
        for uuid, day in (("young", 3), ("old", 1), ("middle", 2))
    ]
    snapshot = with_gpus(0, 0, server=servers[0])
    snapshot = dataclasses.replace(snapshot, servers={item.uuid: item for item in servers})
    planned = plan_heal(snapshot, options=HealOptions("pack"))
    assert {item.subject.uuid for item in planned.changes} == {"old", "middle"}
    (skipped,) = planned.skipped
    assert skipped.subject.uuid == "young"
    assert skipped.reason == "no capacity on gpu0: VGPU needs 1, 0 free"


def test_missing_device_and_missing_capacity_have_different_reasons() -> None:
    snapshot = with_gpus(1, 1, server=server("c", flavor=WITH_GPU))
    assert only_reason(plan_heal(snapshot)) == (
        "no capacity in the tree of c.: VGPU needs 1, 0 free"
    )
    (key,) = snapshot.candidates
    elsewhere = dataclasses.replace(
        snapshot,
        inventories={
            uuid: offers for uuid, offers in snapshot.inventories.items() if "gpu" not in uuid
        },
    )
    assert only_reason(plan_heal(elsewhere)) == (
        "nothing in the tree of c. has inventory of VGPU (it needs 1)"
    )
    refused = dataclasses.replace(snapshot, candidates={key: api_errors.ApiError(500, "it broke")})
    assert only_reason(plan_heal(refused)) == (
        "Placement returned no candidates: it broke (HTTP 500)"
    )


def test_oldest_server_gets_the_capacity() -> None:
    big = dataclasses.replace(SMALL, vcpus=5)
    servers = [
        server("c", "young", flavor=big, created="2021-01-01"),
        server("c", "old", flavor=big, created="2020-01-01"),
    ]
    planned = plan_heal(cloud(servers))
    assert only_change(planned).subject.uuid == "old"
    (skipped,) = planned.skipped
    assert skipped.reason == "no capacity on c.: VCPU needs 5, 3 free"
    assert skipped.refused


def test_unsuitable_unit_is_reported() -> None:
    snapshot = cloud([server("c")])
    few = {**snapshot.inventories["n-c."], "VCPU": inventory.Inventory(total=8, min_unit=2)}
    snapshot = dataclasses.replace(snapshot, inventories={**snapshot.inventories, "n-c.": few})
    assert "1 VCPU do not suit c.: min_unit 2" in only_reason(plan_heal(snapshot))


@pytest.mark.parametrize(
    ("one", "moves", "reason", "refused"),
    [
        (server("a", task_state="rebooting"), [], "its task state is rebooting", True),
        (server("a"), [move("migration", "queued")], "its migration is queued", True),
        (server(None, vm_state="shelved_offloaded"), [], "it is shelved offloaded", False),
        (server(None, vm_state="error"), [], "it is on no host", False),
        (server(None, vm_state="building"), [], "it is being built", False),
        (server("a", vm_state="soft-delete"), [], "it is soft-deleted", False),
        (server("z"), [], "nova lists no compute node z.", True),
        (server("a", known=False), [], "its cell is down", True),
        (server("a", known=False, hidden="nova hides it", flavor=None), [], "nova hides it", True),
        (
            server(
                "a", flavor=dataclasses.replace(SMALL, extra_specs={"accel:device_profile": "x"})
            ),
            [],
            "only Cyborg knows the resources of the device profile x",
            True,
        ),
    ],
)
def test_server_that_cannot_be_healed_is_skipped_and_stops_no_other(
    one: values.Server, moves: list[values.Migration], reason: str, refused: bool
) -> None:
    planned = plan_heal(cloud([one, server("c", "other")], moves))
    assert only_change(planned).subject.uuid == "other"
    (skipped,) = planned.skipped
    assert reason in skipped.reason
    assert (skipped.refused, skipped.unchanged) == (refused, False)


def test_missing_provider_and_other_uuid_have_different_reasons() -> None:
    providers = [item for item in PROVIDERS if item.uuid != "n-a."]
    planned = plan_heal(cloud([server("a")], providers=provider.by_uuid(providers)))
    assert only_reason(planned).startswith(
        "its host has no resource provider: nova-compute on a creates"
    )
    renewed = [*providers, provider.Provider("n-new", "a.", 0, root_uuid="n-new")]
    planned = plan_heal(cloud([server("a")], providers=provider.by_uuid(renewed)))
    assert only_reason(planned).startswith("the provider a. has another UUID")


def test_tree_with_read_error_is_skipped() -> None:
    planned = plan_heal(cloud([server("b"), server("a", "t")], read_errors={"u-nic": "timeout"}))
    assert only_change(planned).subject.uuid == "t"
    assert planned.skipped[0].reason == "the allocations on b.:nic cannot be read: timeout"


def test_hidden_image_properties_matter_only_if_host_has_pcpu() -> None:
    hidden = server("a", image_properties=None)
    assert only_change(plan_heal(cloud([hidden])))
    pinned = server("b", image_properties=None)
    assert only_reason(plan_heal(cloud([pinned]))).startswith("ambiguous: the image may pin CPUs")
    guessed = only_change(plan_heal(cloud([pinned]), options=HealOptions("spread")))
    assert plans.after(guessed)["n-b.:VCPU"] == 1
    assert "guessed" in guessed.reason


def test_image_with_dedicated_cpus_gets_pcpu() -> None:
    pinned = server("b", image_properties={"hw_cpu_policy": "dedicated"})
    after = plans.after(only_change(plan_heal(cloud([pinned]))))
    assert (after.get("n-b.:PCPU"), after.get("n-b.:VCPU")) == (1, None)


@pytest.mark.parametrize(("host", "cpus"), [("a", "VCPU"), ("b", "PCPU")])
def test_pinned_cpus_are_vcpu_on_a_host_without_pcpu(host: str, cpus: str) -> None:
    """As nova's second query for pinned CPUs; the audit accepts the same allocations."""
    pinned = dataclasses.replace(SMALL, extra_specs={"hw:cpu_policy": "dedicated"})
    after = plans.after(only_change(plan_heal(cloud([server(host, flavor=pinned)]))))
    assert {key: amount for key, amount in after.items() if "CPU" in key} == {
        f"n-{host}.:{cpus}": 1
    }


@pytest.mark.parametrize(
    "extra", [{"resources:PCPU": "1"}, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}]
)
def test_pcpu_without_a_second_query_is_missing_on_a_host_without_it(extra: dict[str, str]) -> None:
    flavor = dataclasses.replace(SMALL, vcpus=2, extra_specs=extra)
    planned = plan_heal(cloud([server("a", flavor=flavor)]))
    assert only_reason(planned).startswith("nothing in the tree of a. has inventory of PCPU")


def test_wrong_owner_is_replaced_and_type_and_allocations_stay() -> None:
    zero = "00000000-0000-0000-0000-000000000000"
    snapshot = cloud(
        [server("a")], allocations={"s": {"n-a.": USES}}, owners={"s": Owner(zero, zero, "unknown")}
    )
    item = only_change(plan_heal(snapshot))
    changed = {
        key: value for key, value in plans.after(item).items() if plans.before(item)[key] != value
    }
    assert changed == {"project_id": "p", "user_id": "u"}
    assert item.generation == 1
    assert item.reason == f"project p instead of {zero}; user u instead of {zero}"


def test_owner_that_was_not_read_counts_as_right() -> None:
    snapshot = cloud([server("a")], allocations={"s": {"n-a.": USES}})
    planned = plan_heal(dataclasses.replace(snapshot, owners={}))
    assert planned.skipped[0].unchanged


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ({"n-c.": USES}, "it has allocations on c., where it is not"),
        ({"n-a.": USES, "n-c.": USES}, "it has allocations on c., where it is not"),
        ({"n-a.": {"VCPU": 1}}, "it has VCPU=1, but its flavor requests"),
        ({"n-a.": {"VCPU": 1, "MEMORY_MB": 512}, "u-nfs": {"DISK_GB": 10}}, ""),
    ],
)
def test_wrong_allocations_are_reported_and_unchanged(
    held: dict[str, dict[str, int]], reason: str
) -> None:
    planned = plan_heal(cloud([server("a")], allocations={"s": held}))
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
    hidden = server("a", image_properties=None)
    planned = plan_heal(cloud([hidden], allocations={"s": {"n-a.": held}}))
    (skipped,) = planned.skipped
    assert skipped.unchanged is not is_wrong
    assert ("but its flavor requests" in skipped.reason) is is_wrong


def test_plan_contains_only_servers_in_scope() -> None:
    snapshot = cloud([server("a"), server("c", "t")])
    for within, found in (
        (heal_request.Scope(hosts=frozenset("c")), {"t"}),
        (heal_request.Scope(servers=frozenset({"s"})), {"s"}),
        (heal_request.Scope(frozenset("c"), frozenset({"s"})), set()),
    ):
        planned = plan_heal(snapshot, scope=within)
        assert {item.subject.uuid for item in planned.items()} == found


def test_change_has_nova_precondition() -> None:
    condition = only_change(plan_heal(cloud([server("a")]))).precondition
    resources = {"DISK_GB": 10, "MEMORY_MB": 512, "VCPU": 1}
    assert condition == Precondition(ServerState("a", "a.", "active", None, resources))


def test_no_consumer_type_below_1_38() -> None:
    assert "consumer_type" not in plans.after(
        only_change(plan_heal(cloud([server("a")]), consumer_type=None))
    )


def test_same_snapshot_gives_same_plan() -> None:
    servers = [server(host, f"{host}{number}") for host in "abc" for number in range(9)]
    first, other = plan_heal(cloud(servers)), plan_heal(cloud(reversed(servers)))
    assert plans.text_of(first) == plans.text_of(other)


STATES = st.sampled_from(
    [
        {},
        {"task_state": "migrating"},
        {"vm_state": "shelved_offloaded", "host": None, "node": None},
        {"vm_state": "error"},
        {"known": False},
        {"image_properties": None},
        {"image_properties": {"hw_cpu_policy": "dedicated"}},
    ]
)
HELD = st.sampled_from([None, {"n-a.": USES}, {"n-c.": {"VCPU": 1}}, {"n-a.": USES, "n-b.": USES}])


@st.composite
def clouds(draw: st.DrawFn) -> Cloud:
    servers: list[values.Server] = []
    held = {}
    for number in range(draw(st.integers(0, 12))):
        uuid = f"s{number}"
        size = dataclasses.replace(SMALL, vcpus=draw(st.integers(1, 9)))
        state = draw(STATES)
        fields = {"flavor": size, "created": f"20{draw(st.integers(10, 25))}", **state}
        nova_server = server(draw(st.sampled_from("abcz")), uuid)
        servers.append(dataclasses.replace(nova_server, **fields))  # type: ignore[arg-type]
        allocations = draw(HELD)
        if allocations:
            held[uuid] = allocations
    moves = [move("migration", "queued", of="s0")] if draw(st.booleans()) else []
    return cloud(servers, moves, held)


def planned(snapshot: Cloud) -> plan.Plan:
    """Placement allocations no candidates."""
    candidates: dict[str, responses.Candidates | errors.PlacementError] = {}
    for nova_server in snapshot.servers.values():
        query = expected.query_of(snapshot, nova_server, f"n-{nova_server.host}.")
        if query is not None:
            candidates[query[0]] = responses.Candidates((), {})
    return heal.plan_heal(dataclasses.replace(snapshot, candidates=candidates), HealRequest())


def after(snapshot: Cloud, first: plan.Plan) -> Cloud:
    """The snapshot after the plan is applied."""
    allocations_of = {uuid: dict(allocations) for uuid, allocations in snapshot.allocations.items()}
    owners = dict(snapshot.owners)
    for item in first.changes:
        used: dict[str, dict[str, int]] = {}
        for key, value in plans.after(item).items():
            if isinstance(value, int):
                provider, _, name = key.rpartition(":")
                used.setdefault(provider, {})[name] = value
        allocations_of[item.subject.uuid] = used
        owners[item.subject.uuid] = Owner("p", "u", "INSTANCE")
    return dataclasses.replace(snapshot, allocations=allocations_of, owners=owners)


@given(clouds())
def test_a_plan_lists_every_server_once_with_a_reason_and_exceeds_no_capacity(
    snapshot: Cloud,
) -> None:
    first = planned(snapshot)
    assert sorted(item.subject.uuid for item in first.items()) == sorted(snapshot.servers)
    assert all(item.unchanged or item.reason for item in first.skipped)
    for item in first.changes:
        kept = {key: value for key, value in plans.before(item).items() if isinstance(value, int)}
        assert kept.items() <= plans.after(item).items()
    done = after(snapshot, first)
    before = snapshot.used
    for uuid, resources in done.used.items():
        for name, used in resources.items():
            capacity = snapshot.inventories[uuid][name].capacity
            assert used <= max(capacity, before.get(uuid, {}).get(name, 0))
    again = planned(done)
    assert again.changes == ()
    right = {item.subject.uuid for item in again.skipped if item.unchanged}
    assert {item.subject.uuid for item in first.changes} <= right
