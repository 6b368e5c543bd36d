"""Plans that heal, as values: a picture in, changes and reasons out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement.client import api_errors, responses
from osc_placement.model import inventory, provider
from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from osc_placement.plan import change, plan
from osc_placement.workflows.allocations import expected, scope, snapshot
from osc_placement.workflows.allocations.heal import choice, plan as heal_plan
from tests.support.clouds.small import OFFERED, PROVIDERS, SMALL, USES, cloud, move, server

WITH_GPU = dataclasses.replace(SMALL, extra_specs={"resources:VGPU": "1"})
GRANULAR = dataclasses.replace(SMALL, extra_specs={"resources1:VGPU": "1"})
GPUS = tuple(
    provider.Provider(f"u-{name}", name, 0, root_uuid="n-c.", parent_uuid="n-c.")
    for name in ("gpu0", "gpu1")
)
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}


def healed(
    seen: snapshot.CloudSnapshot, answers: expected.Answers | None = None, **fields: Any
) -> plan.Plan:
    return heal_plan.plan_heal(seen, heal_plan.Request(**fields), answers)


def the_change(made: plan.Plan) -> change.Change:
    (item,) = made.changes
    return item


def the_reason(made: plan.Plan) -> str:
    (item,) = made.remarks
    assert not made.changes
    return item.reason


def with_gpus(
    *used: int, server: values.Server, free: int = 1
) -> tuple[snapshot.CloudSnapshot, Any]:
    """Host ``c`` with two GPUs of which so much is used, and Placement's answer about them."""
    others = {item.uuid: {"VGPU": taken} for item, taken in zip(GPUS, used, strict=True) if taken}
    seen = cloud(
        [server],
        providers=provider.by_uuid([*PROVIDERS, *GPUS]),
        allocations={"others": others} if others else {},
    )
    gpus = {item.uuid: {"VGPU": inventory.Inventory(total=free)} for item in GPUS}
    seen = dataclasses.replace(seen, inventories={**seen.inventories, **gpus})
    query = expected.query_of(seen, server, "n-c.")
    assert query is not None
    fitting = [item for item, taken in zip(GPUS, used, strict=True) if taken < free]
    found = responses.Candidates(
        tuple(responses.AllocationRequest({item.uuid: {"VGPU": 1}}) for item in fitting),
        {
            item.uuid: responses.ProviderSummary({"VGPU": responses.ResourceSummary(free, taken)})
            for item, taken in zip(GPUS, used, strict=True)
        },
    )
    return seen, {query[0]: found}


def test_a_server_without_allocations_gets_what_its_flavor_says_on_its_host() -> None:
    item = the_change(healed(cloud([server("a")])))
    assert item.after == {f"n-a.:{name}": amount for name, amount in USES.items()} | OWNER
    assert set(item.before.values()) == {None}
    assert (item.subject, item.generation) == (change.Subject("vm-s", "s"), None)
    assert item.reason == "on a.: DISK_GB=10, MEMORY_MB=512, VCPU=1"


def test_what_a_server_has_stays_and_is_unchanged() -> None:
    made = healed(cloud([server("a")], allocations={"s": {"n-a.": USES}}))
    assert (made.changes, made.remarks[0].unchanged) == ((), True)


def test_a_disk_comes_from_the_sharing_provider_only_where_the_root_has_none() -> None:
    seen = cloud([server("a")])
    diskless = {name: one for name, one in seen.inventories["n-a."].items() if name != "DISK_GB"}
    without = dataclasses.replace(seen, inventories={**seen.inventories, "n-a.": diskless})
    made = healed(without)
    assert the_change(made).after == OWNER | {
        "n-a.:VCPU": 1,
        "n-a.:MEMORY_MB": 512,
        "u-nfs:DISK_GB": 10,
    }
    assert the_change(made).reason == "on a.: MEMORY_MB=512, VCPU=1; nfs: DISK_GB=10"
    assert made.names == {"n-a.": "a.", "u-nfs": "nfs"}


def test_of_two_sharing_providers_either_may_be_it() -> None:
    seen = cloud([server("c")], sharing={"n-c.": ("u-nfs", "n-gone.")})
    inventories = {**seen.inventories, "n-c.": {}}
    for name in ("VCPU", "MEMORY_MB"):
        inventories["n-c."][name] = inventory.Inventory(total=OFFERED[name])  # type: ignore[index]
    seen = dataclasses.replace(seen, inventories=inventories)
    assert "ambiguous: it is on nfs or gone." in the_reason(healed(seen))


@pytest.mark.parametrize("flavor", [WITH_GPU, GRANULAR])
def test_the_one_device_with_room_is_certain(flavor: Flavor) -> None:
    made = healed(*with_gpus(1, 0, server=server("c", flavor=flavor)))
    assert the_change(made).after == OWNER | {
        **{f"n-c.:{name}": amount for name, amount in USES.items()},
        "u-gpu1:VGPU": 1,
    }
    assert "guessed" not in the_change(made).reason


@pytest.mark.parametrize(
    ("wish", "goal", "how"),
    [
        (choice.HealOptions("spread"), "u-gpu1", "spread"),
        (choice.HealOptions("pack"), "u-gpu0", "pack"),
        (choice.HealOptions(assigned={"s": frozenset({"gpu0"})}), "u-gpu0", "as assigned"),
        (choice.HealOptions("pack", {"s": frozenset({"u-gpu1"})}), "u-gpu1", "as assigned"),
    ],
)
def test_of_two_devices_the_operator_decides_and_the_plan_says_so(
    wish: choice.HealOptions, goal: str, how: str
) -> None:
    seen, answers = with_gpus(2, 1, server=server("c", flavor=WITH_GPU), free=4)
    assert the_reason(healed(seen, answers)) == (
        "ambiguous: it is on gpu0 or gpu1 (--assign or --strategy decides)"
    )
    item = the_change(healed(seen, answers, wish=wish))
    assert item.after[f"{goal}:VGPU"] == 1
    assert item.reason.startswith(f"guessed ({how}): on c.: ")


def test_an_assignment_that_cannot_be_is_not_followed() -> None:
    seen, answers = with_gpus(0, 1, server=server("c", flavor=WITH_GPU))
    wish = choice.HealOptions(assigned={"s": frozenset({"gpu1"})})
    assert "it cannot be on gpu1" in the_reason(healed(seen, answers, wish=wish))


def test_what_one_guess_takes_is_not_there_for_the_next() -> None:
    servers = [
        server("c", uuid, flavor=WITH_GPU, created=f"2020-01-0{day}")
        for uuid, day in (("young", 3), ("old", 1), ("middle", 2))
    ]
    seen, answers = with_gpus(0, 0, server=servers[0])
    seen = dataclasses.replace(seen, servers={item.uuid: item for item in servers})
    made = healed(seen, answers, wish=choice.HealOptions("pack"))
    assert {item.subject.uuid for item in made.changes} == {"old", "middle"}
    (left,) = made.remarks
    assert left.subject.uuid == "young"
    assert left.reason == "no capacity on gpu0: VGPU needs 1, 0 free"


def test_no_device_is_told_from_no_room() -> None:
    seen, answers = with_gpus(1, 1, server=server("c", flavor=WITH_GPU))
    assert the_reason(healed(seen, answers)) == (
        "no capacity in the tree of c.: VGPU needs 1, 0 free"
    )
    (key,) = answers
    elsewhere = dataclasses.replace(
        seen,
        inventories={uuid: found for uuid, found in seen.inventories.items() if "gpu" not in uuid},
    )
    assert the_reason(healed(elsewhere, answers)) == (
        "nothing in the tree of c. has inventory of VGPU (it needs 1)"
    )
    refused = {key: api_errors.ApiError(500, "it broke")}
    assert "Placement cannot tell where it fits: it broke" in the_reason(healed(seen, refused))


def test_capacity_is_counted_along_and_the_oldest_come_first() -> None:
    big = dataclasses.replace(SMALL, vcpus=5)
    servers = [
        server("c", "young", flavor=big, created="2021-01-01"),
        server("c", "old", flavor=big, created="2020-01-01"),
    ]
    made = healed(cloud(servers))
    assert the_change(made).subject.uuid == "old"
    (left,) = made.remarks
    assert left.reason == "no capacity on c.: VCPU needs 5, 3 free"
    assert left.refused


def test_what_does_not_suit_the_units_is_told() -> None:
    seen = cloud([server("c")])
    few = {**seen.inventories["n-c."], "VCPU": inventory.Inventory(total=8, min_unit=2)}
    seen = dataclasses.replace(seen, inventories={**seen.inventories, "n-c.": few})
    assert "1 VCPU do not suit c.: min_unit 2" in the_reason(healed(seen))


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
        (
            server(
                "a", flavor=dataclasses.replace(SMALL, extra_specs={"accel:device_profile": "x"})
            ),
            [],
            "Cyborg knows what the device profile x takes",
            True,
        ),
    ],
)
def test_who_is_not_healed_is_left_alone_with_the_reason_and_stops_nobody(
    one: values.Server, moves: list[values.Migration], reason: str, refused: bool
) -> None:
    made = healed(cloud([one, server("c", "other")], moves))
    assert the_change(made).subject.uuid == "other"
    (left,) = made.remarks
    assert reason in left.reason
    assert (left.refused, left.unchanged) == (refused, False)


def test_a_node_without_provider_is_told_from_one_with_another_uuid() -> None:
    known = [item for item in PROVIDERS if item.uuid != "n-a."]
    made = healed(cloud([server("a")], providers=provider.by_uuid(known)))
    assert the_reason(made).startswith("its host has no resource provider: nova-compute on a makes")
    renewed = [*known, provider.Provider("n-new", "a.", 0, root_uuid="n-new")]
    made = healed(cloud([server("a")], providers=provider.by_uuid(renewed)))
    assert the_reason(made).startswith("the provider a. has another uuid")


def test_a_tree_that_could_not_be_read_is_left_alone() -> None:
    made = healed(cloud([server("b"), server("a", "t")], unread={"u-nic": "timeout"}))
    assert the_change(made).subject.uuid == "t"
    assert made.remarks[0].reason == "the allocations on b.:nic cannot be read: timeout"


def test_hidden_image_properties_matter_only_where_they_decide() -> None:
    hidden = server("a", image_properties=None)
    assert the_change(healed(cloud([hidden])))
    pinned = server("b", image_properties=None)
    assert the_reason(healed(cloud([pinned]))).startswith("ambiguous: the image may pin CPUs")
    guessed = the_change(healed(cloud([pinned]), wish=choice.HealOptions("spread")))
    assert guessed.after["n-b.:VCPU"] == 1
    assert "guessed" in guessed.reason


def test_an_image_that_pins_takes_pinned_cpus() -> None:
    pinned = server("b", image_properties={"hw_cpu_policy": "dedicated"})
    after = the_change(healed(cloud([pinned]))).after
    assert (after.get("n-b.:PCPU"), after.get("n-b.:VCPU")) == (1, None)


def test_wrong_owners_get_the_servers_and_keep_type_and_allocations() -> None:
    zero = "00000000-0000-0000-0000-000000000000"
    seen = cloud(
        [server("a")],
        allocations={"s": {"n-a.": USES}},
        owners={"s": snapshot.Owner(zero, zero, "unknown")},
    )
    item = the_change(healed(seen))
    changed = {key: value for key, value in item.after.items() if item.before[key] != value}
    assert changed == {"project_id": "p", "user_id": "u"}
    assert item.generation == 1
    assert item.reason == f"project p instead of {zero}; user u instead of {zero}"


def test_an_owner_that_was_not_read_is_taken_as_right() -> None:
    seen = cloud([server("a")], allocations={"s": {"n-a.": USES}})
    made = healed(dataclasses.replace(seen, owners={}))
    assert made.remarks[0].unchanged


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ({"n-c.": USES}, "it has allocations on c., where it is not"),
        ({"n-a.": USES, "n-c.": USES}, "it has allocations on c., where it is not"),
        ({"n-a.": {"VCPU": 1}}, "it has VCPU=1 where its flavor says"),
        ({"n-a.": {"VCPU": 1, "MEMORY_MB": 512}, "u-nfs": {"DISK_GB": 10}}, ""),
    ],
)
def test_wrong_allocations_are_told_and_not_touched(
    held: dict[str, dict[str, int]], reason: str
) -> None:
    made = healed(cloud([server("a")], allocations={"s": held}))
    (left,) = made.remarks
    assert (made.changes, left.unchanged, left.refused) == ((), not reason, False)
    assert left.reason.startswith(reason)


def test_only_servers_in_scope_stand_in_the_plan() -> None:
    seen = cloud([server("a"), server("c", "t")])
    for within, found in (
        (scope.Scope(hosts=frozenset("c")), {"t"}),
        (scope.Scope(servers=frozenset({"s"})), {"s"}),
        (scope.Scope(frozenset("c"), frozenset({"s"})), set()),
    ):
        made = healed(seen, scope=within)
        assert {item.subject.uuid for item in made.items()} == found


def test_a_change_builds_on_what_nova_said() -> None:
    premise = the_change(healed(cloud([server("a")]))).premise
    assert premise == {
        "host": "a",
        "node": "a.",
        "vm_state": "active",
        "task_state": None,
        "resources": "DISK_GB=10, MEMORY_MB=512, VCPU=1",
    }


def test_below_consumer_types_none_is_named() -> None:
    assert "consumer_type" not in the_change(healed(cloud([server("a")]), consumer_type=None)).after


def test_the_same_picture_makes_the_same_plan() -> None:
    servers = [server(host, f"{host}{number}") for host in "abc" for number in range(9)]
    one, other = healed(cloud(servers)), healed(cloud(reversed(servers)))
    assert one.to_json() == other.to_json()
