# SPDX-License-Identifier: Apache-2.0
"""``placement host check``."""

from __future__ import annotations

from typing import Any

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.clouds import compute_services
from tests.support.rows import Absent, Row, State, checked, hosts

CHECK = "placement host check"
NODES = "GET /v2.1/os-hypervisors/detail"
KNOWN, MISSING, AWAY, LEAVING, MOVER = (
    uuid_of(name) for name in ("known", "missing", "away", "leaving", "mover")
)
PAIR, THREE = ("full", "target"), ("full", "free", "target")


def allocate(cloud: testing.Cloud, **servers: str) -> testing.Cloud:
    """Consumers without a type: ``server="host amount"`` of VCPU."""
    for name, place in servers.items():
        host, _, amount = place.partition(" ")
        cloud.server(name, {host: {"VCPU": int(amount)}}, type="unknown")
    return cloud


def leaving(**servers: str) -> testing.Cloud:
    """Nova has four servers on ``full``; what two of them have is on the other host."""
    made = hosts(*PAIR).instance("elsewhere", "target", vcpus=3)
    for name in ("known", "missing", "away"):
        made.instance(name, "full", vcpus=3)
    made.instance("leaving", "full", vcpus=3, task_state="migrating")
    return allocate(made, **{"leaving": "target 1", "elsewhere": "target 1", **servers})


def unlisted(state: str) -> State:
    """Nova does not list the node of ``full``."""
    names = {uuid_of(name): name for name in THREE}
    states = {uuid: state if name == "full" else "up" for uuid, name in names.items()}
    cloud = testing.Cloud()
    for name in THREE:
        cloud.host(name, VCPU=8, MEMORY_MB=64)
    return State(
        allocate(cloud, known="full 3", movable="free 3"),
        compute_services.answers(states, names),
    )


def staying(node: str = "", **fields: Any) -> testing.Cloud:
    """``full`` has a server that nova does not migrate, ``free`` one that it does."""
    made = hosts(*THREE).guest("known", "full", 3, **fields).guest("movable", "free", 3)
    (full, *_) = made.nova()[NODES]["hypervisors"]
    full |= {"hypervisor_type": node} if node else {}
    return made


def in_aggregates() -> testing.Cloud:
    """Two host aggregates of nova, and one of Placement alone."""
    made = testing.Cloud("nova-{}").compute("full", VCPU=8)
    made.compute("target", VCPU=8, aggregates=["pool"])
    return made.aggregate("rack", ["full"]).aggregate("none", [])


def moving() -> testing.Cloud:
    """A live migration, and a consumer that nova does not list."""
    made = hosts(*PAIR).instance("mover", "full", vcpus=3, task_state="migrating")
    made.migration("move", "mover", "full", "target", updated_at="2026-11-01T12:00:00")
    return allocate(made, mover="target 3", move="full 3", gone="full 1")


def resized(*, listed: bool) -> State:
    """A server on ``target`` that waits for its confirmation; ``full`` keeps its place."""
    made = hosts(*PAIR).instance("mover", "target", vm_state="resized", status="VERIFY_RESIZE")
    made.migration("move", "mover", "full", "target", migration_type="migration", status="finished")
    allocate(made, mover="target 3", move="full 3")
    nodes = made.nova()[NODES]["hypervisors"]
    shown = [node for node in nodes if listed or node["hypervisor_hostname"] != "full"]
    return State(made, {NODES: {"hypervisors": shown}})


def evacuated() -> testing.Cloud:
    """A server that still has allocations on the host that it left."""
    made = hosts(*PAIR).instance("mover", "target", vcpus=3)
    made.migration("move", "mover", "full", "target", migration_type="evacuation", status="done")
    return made.server("mover", {name: {"VCPU": 3} for name in PAIR})


STATES = {
    "resized": resized(listed=True),
    "resized, no node": resized(listed=False),
    "evacuated": State(evacuated()),
    "servers of 3 and 6": State(
        testing.Cloud()
        .host("host0", VCPU=8, aggregates=["rack"])
        .host("host1", VCPU=8, aggregates=["rack"])
        .host("host2", VCPU=8)
        .server("small", {"host0": {"VCPU": 3}})
        .server("large", {"host1": {"VCPU": 6}})
    ),
    "target down": State(allocate(hosts(*PAIR, target={"state": "down"}), known="full 3")),
    "cell down": unlisted("cell down"),
    "no node": unlisted("no node"),
    "without allocations": State(leaving(known="full 3", away="target 1")),
    "with allocations": State(leaving(known="full 3", missing="full 3", away="full 2")),
    "moving": State(moving()),
    "in aggregates": State(in_aggregates()),
    "empty": State(hosts(*PAIR)),
    "no migrations": State(hosts(*PAIR), {"GET /v2.1/os-migrations": None}),
    "no servers": State(hosts(*PAIR), {"GET /v2.1/servers/detail": None}),
    "rescued": State(staying(vm_state="rescued")),
    "rebooting": State(staying(task_state="rebooting")),
    "ironic": State(staying("ironic")),
    "shut down inside": State(staying(power_state=4)),
}
SMALL, LARGE = "servers of 3 and 6", uuid_of("large")
GONE = f"traits, zones and aggregates of server {uuid_of('gone')}, which nova does not list:"
LISTED = ("the servers of full: nova lists no compute node",)
HIDDEN = {"answer": "unknown", "reason": ("the servers on these hosts and their moves: ",)}
HEAL = "1 server without allocations: openstack placement allocation heal --host=nova-full"
AUDIT = "1 server with allocations on other hosts only: openstack placement allocation audit"


def stays(reason: str) -> dict[str, object]:
    staying = {"server": KNOWN, "host": "full", "reasons": [f"nova does not migrate {reason}"]}
    return {"answer": "no", "servers": 1, "unplaced": [staying]}


def moves(host: str) -> dict[str, object]:
    running = "its live-migration is running (from nova-full to nova-target"
    reason = (running, f"nova-{host} must not stop: the guest or its data")
    return {"answer": "no", "unplaced": [{"server": MOVER, "reasons": [reason]}]}


# fmt: off
TABLE = [
    Row(f"{CHECK} host0 --no-nova", SMALL, 0,
        {"answer": "yes", "hosts": ["host0"], "servers": 1, "unplaced": []}),
    Row(f"{CHECK} host0 host1 --no-nova", SMALL, 3,
        {"answer": "no", "unplaced": [{"server": LARGE, "host": "host1"}],
         "reason": "9 VCPU are needed, and there is room for 6"}),
    Row(f"{CHECK} --aggregate {uuid_of('rack')} --max-count 2 --no-nova", SMALL, 0,
        {"answer": "yes", "hosts": [("host",)]}),
    Row(f"{CHECK} host0 host1 --no-nova", SMALL, 3,
        ("| no | host0 | 2 | 1 |", "Servers of host1 without a place",
         "| it fits only without other servers |")),
    # A yes without nova is Placement's alone: it counts only where the operator asks for it.
    Row(f"{CHECK} host0", SMALL, 4),
    Row(f"{CHECK} host0 --no-nova --strict", SMALL, 4),
    Row(f"{CHECK} host0 host1 --strict", SMALL, 3),
    Row(f"{CHECK} full", "target down", 3,
        {"answer": "no", "servers": 1,
         "unplaced": [{"reasons": ["only hosts that take no server have room:"
                                   " target (nova-compute down)"]}],
         "not_counted": [{"host": "target", "reason": "nova-compute down"}]}),
    Row(f"{CHECK} nova-full", "target down", 3, {"hosts": ["full"]}),
    Row(f"{CHECK} full --no-nova", "target down", 0,
        {"answer": "yes", "not_counted": [], "not_checked": ("compute services: ",)}),
    Row(f"{CHECK} full", "cell down", 4, {"answer": "unknown", "unplaced": [], "reason": LISTED}),
    Row(f"{CHECK} full", "no node", 4, {"answer": "unknown", "unplaced": [], "reason": LISTED}),
    Row(f"{CHECK} full free --max-count 2", "cell down", 4,
        {"answer": "unknown", "hosts": ["free"], "reason": ("which nova does not list",)}),
    Row(f"{CHECK} full", "without allocations", 3,
        {"answer": "no", "servers": 4, "without_allocations": sorted([MISSING, AWAY]),
         # A task of a move without a migration: nova alone knows where it goes.
         "unplaced": [{"server": LEAVING}], "not_checked": (f'"{HEAL}"', f'"{AUDIT}')}),
    Row(f"{CHECK} full", "with allocations", 3, {"answer": "no", "servers": 4}),
    Row(f"{CHECK} full", "moving", 3, moves("full") | {"not_checked": (GONE,)}),
    Row(f"{CHECK} target", "moving", 3, moves("target")),
    Row(f"{CHECK} full target", "moving", 3,
        ("Servers of full without a place", "Servers of target without a place")),
    Row(f"{CHECK} full", "no servers", 4,
        ("Not checked: the servers on these hosts and their moves: ", Absent("Reason: "))),
    Row(f"{CHECK} full", "resized", 3, {"answer": "no", "unplaced": [{"server": MOVER}]}),
    Row(f"{CHECK} full", "resized, no node", 3, {"answer": "no", "unplaced": [
        {"server": MOVER, "reasons": [
            "its migration is finished, and the host is the way back: nova lists no compute node"
            " of it"]}]}),
    Row(f"{CHECK} full", "evacuated", 0, {"answer": "yes", "notes": [
        f"server {MOVER}: not on full any more, but allocated there"]}),
    Row(f"{CHECK} full", "empty", 0, {"answer": "yes"}),
    # Nova's host aggregates by name, Placement's by UUID, and both.
    Row(f"{CHECK} --aggregate rack", "in aggregates", 0, {"hosts": ["full"]}),
    Row(f"{CHECK} --aggregate {uuid_of('pool')}", "in aggregates", 0, {"hosts": ["target"]}),
    Row(f"{CHECK} --aggregate rack --aggregate {uuid_of('pool')} --max-count 1", "in aggregates",
        0, {"hosts": [("",)]}),
    Row(f"{CHECK} --aggregate none", "in aggregates", 1,
        "nova's host aggregate 'none' has no hosts"),
    Row(f"{CHECK} full", "no migrations", 4, HIDDEN),
    Row(f"{CHECK} full", "no servers", 4, HIDDEN),
    Row(f"{CHECK} full", "rescued", 3, stays("a server that is rescued")),
    Row(f"{CHECK} full", "rebooting", 3, stays("it while its task is rebooting")),
    Row(f"{CHECK} full", "ironic", 3, stays("a server of an Ironic node")),
    Row(f"{CHECK} full", "shut down inside", 0,
        {"answer": "yes", "notes": (f"server {KNOWN}: not live, because its guest does not run",
                                    "nova moves it only cold; cold: openstack server migrate")}),
    Row(f"{CHECK} full free --max-count 2", "rescued", 0, {"answer": "yes", "hosts": ["free"]}),
    Row(f"{CHECK} full --max-count 1", "rescued", 3, {"answer": "no", "hosts": ["full"]}),
    Row("placement capacity show --resource VCPU=1 --keep 1", "rescued", 0,
        f"Note: server {KNOWN}: not evacuated if its host fails, because evacuate needs a server"),
]
# fmt: on

test_host_check = checked(TABLE, STATES)
