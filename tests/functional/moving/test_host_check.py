# SPDX-License-Identifier: Apache-2.0
"""``placement host check``."""

from __future__ import annotations

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.clouds import compute_services
from tests.support.functional_cloud import cloud_of, migration, nova_of, server
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, table

CHECK = "placement host check"
KNOWN, MISSING, AWAY, LEAVING, ELSEWHERE, MOVER = (
    uuid_of(name) for name in ("known", "missing", "away", "leaving", "elsewhere", "mover")
)
MIGRATING = {"OS-EXT-STS:task_state": "migrating"}
RUNNING = migration(uuid_of("move"), MOVER, "live-migration", "running", "full", "target")
PAIR, THREE = ("full", "target"), ("full", "free", "target")


ALONE = cloud_of(PAIR, known="full 3")
FREE = cloud_of(THREE, known="full 3", movable="free 3")
#: What the servers of WITHOUT have elsewhere.
TARGET = {"away": "target 1", "leaving": "target 1", "elsewhere": "target 1"}
WITHOUT = nova_of(
    *PAIR,
    servers=[
        *(server(uuid, "full") for uuid in (KNOWN, MISSING, AWAY)),
        server(LEAVING, "full", **MIGRATING),
        server(ELSEWHERE, "target"),
    ],
)


def unlisted(state: str) -> State:
    """Nova does not list the node of ``full``."""
    names = {uuid_of(name): name for name in THREE}
    states = {uuid: state if name == "full" else "up" for uuid, name in names.items()}
    return State(FREE, compute_services.answers(states, names))


def staying(node: str = "", **fields: str) -> State:
    """``full`` has a server that nova does not migrate, ``free`` one that it does."""
    listed = [server(KNOWN, "full", **fields), server(uuid_of("movable"), "free")]
    nodes = {"full": {"hypervisor_type": node}} if node else {}
    return State(FREE, nova_of(*THREE, servers=listed, nodes=nodes))


AGGREGATES = [
    {"id": number, "name": name, "uuid": uuid_of(name), "hosts": hosts, "metadata": {}}
    for number, (name, hosts) in enumerate({"rack": ["nova-full"], "none": []}.items())
]
STATES = {
    "servers of 3 and 6": State(
        testing.Cloud()
        .host("host0", VCPU=8, aggregates=["rack"])
        .host("host1", VCPU=8, aggregates=["rack"])
        .host("host2", VCPU=8)
        .server("small", {"host0": {"VCPU": 3}})
        .server("large", {"host1": {"VCPU": 6}})
    ),
    "target down": State(ALONE, nova_of(*PAIR, services={"target": {"state": "down"}})),
    "cell down": unlisted("cell down"),
    "no node": unlisted("no node"),
    "without allocations": State(cloud_of(PAIR, known="full 3", **TARGET), WITHOUT),
    "with allocations": State(
        cloud_of(PAIR, **TARGET | {"known": "full 3", "missing": "full 3", "away": "full 2"}),
        WITHOUT,
    ),
    "moving": State(
        cloud_of(PAIR, mover="target 3", move="full 3", gone="full 1"),
        nova_of(*PAIR, servers=[server(MOVER, "full", **MIGRATING)], migrations=[RUNNING]),
    ),
    "in aggregates": State(
        testing.Cloud().host("full", VCPU=8).host("target", VCPU=8, aggregates=["pool"]),
        nova_of(*PAIR) | {"GET /v2.1/os-aggregates": {"aggregates": AGGREGATES}},
    ),
    "empty": State(cloud_of(PAIR), nova_of(*PAIR)),
    "no migrations": State(cloud_of(PAIR), nova_of(*PAIR, hidden=["os-migrations"])),
    "no servers": State(cloud_of(PAIR), nova_of(*PAIR, hidden=["servers/detail"])),
    "rescued": staying(**{"OS-EXT-STS:vm_state": "rescued"}),
    "rebooting": staying(**{"OS-EXT-STS:task_state": "rebooting"}),
    "ironic": staying("ironic"),
}
SMALL, LARGE = "servers of 3 and 6", uuid_of("large")
GONE = f"traits, zones and aggregates of server {uuid_of('gone')}, which nova does not list:"
LISTED = ("the servers of full: nova lists no compute node",)
HIDDEN = {"answer": "unknown", "reason": ("the servers on these hosts and their moves: ",)}
HEAL = "1 server without allocations: openstack placement allocation heal --host=nova-full"
AUDIT = "1 server with allocations on other hosts only: openstack placement allocation audit"


def stays(reason: str) -> dict[str, object]:
    found = {"server": KNOWN, "host": "full", "reasons": [f"nova does not migrate {reason}"]}
    return {"answer": "no", "servers": 1, "unplaced": [found]}


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
    Row(f"{CHECK} full free --max-count 2", "rescued", 0, {"answer": "yes", "hosts": ["free"]}),
    Row(f"{CHECK} full --max-count 1", "rescued", 3, {"answer": "no", "hosts": ["full"]}),
    Row("placement capacity show --resource VCPU=1 --keep 1", "rescued", 0,
        f"Note: server {KNOWN}: not evacuated if its host fails, because evacuate needs a server"),
]
# fmt: on


@table(TABLE)
def test_host_check(row: Row, openstack: OpenStack) -> None:
    row.check(openstack, STATES)
