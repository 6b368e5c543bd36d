# SPDX-License-Identifier: Apache-2.0
"""``placement host retire``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement.testing import Cloud, uuid_of
from tests.support.functional_cloud import compute_hosts, migration, nova_of, server
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, table

RETIRE = "placement host retire --allow recorded-nova old"
SERVER, OTHER, MOVE = uuid_of("server"), uuid_of("other"), uuid_of("move")
NODE, DOWN = "COMPUTE_NODE", {"old": {"state": "down"}}
#: As an evacuation leaves it.
BOTH: dict[str, dict[str, int]] = {"old": {"VCPU": 3}, "pci": {"VGPU": 1}, "new": {"VCPU": 3}}


def cloud(traits: Sequence[str] = (NODE,), **servers: Mapping[str, Mapping[str, int]]) -> Cloud:
    """Two hosts; the providers of one are a tree of three."""
    made = Cloud().host("old", VCPU=8, traits=traits, aggregates=["rack"])
    made.child("old", "numa", MEMORY_MB=64, traits=["HW_NUMA_ROOT"]).child("numa", "pci", VGPU=2)
    made.host("new", VCPU=8, traits=[NODE])
    for name, held in servers.items():
        made.server(name, held, type="unknown", project="project", user="user")
    return made


def state(
    *held: str,
    nodes: Sequence[str] = ("old", "new"),
    services: Mapping[str, Mapping[str, Any]] | None = DOWN,
    on: str = "",
    move: tuple[str, str] | None = None,
    **fields: Any,
) -> State:
    """Consumers with allocations (``server both``), and nova's server on a host, and its move."""
    words = [entry.partition(" ") for entry in held]
    servers = {name: BOTH if both else {"old": {"VCPU": 1}} for name, _, both in words}
    listed = [server(SERVER, on, **fields)] if on else []
    moves = [migration(MOVE, SERVER, *move, "old", "new")] if move else []
    known = {name: each for name, each in (services or {}).items() if name in nodes}
    nova = nova_of(*nodes, servers=listed, migrations=moves, services=known)
    return State(cloud(**servers), nova)


NEW = ("new",)
EVACUATED = state("server both", nodes=NEW, on="new", move=("evacuation", "done"))
IRONIC = compute_hosts({"old": uuid_of("old")}, DOWN)
IRONIC["GET /v2.1/os-hypervisors/detail"]["hypervisors"][0]["hypervisor_type"] = "ironic"
AGGREGATE = {"id": 7, "name": "az1", "uuid": uuid_of("rack"), "hosts": ["old"], "metadata": {}}
TASK = "OS-EXT-STS:task_state"

#: ``{state: (the state, the code of the refusal, words)}``: somebody needs the host.
NEEDED: dict[str, tuple[State, str, str]] = {
    "up": (state(services=None), "service-status", "nova-compute is up"),
    "down": (state(), "service-status", "nova has its compute service"),
    "with a server": (state(on="old"), "not-empty", "placement host drain nova-old"),
    "evacuating": (state(move=("evacuation", "running")), "moving", MOVE),
    # Its cold migration failed on its destination: the disk may be on the source.
    "a failed move": (state(on="new", move=("migration", "error"),
                            **{"OS-EXT-STS:vm_state": "error"}),
                      "moving", "may run on either host"),
    # A consumer that nova does not list may be a server of a cell that is down, or leaked.
    "an unknown consumer": (state("other"), "not-empty", "placement allocation audit"),
    "a consumer, and no node": (state("other", nodes=NEW), "not-empty",
                                "placement allocation audit"),
    # Its only allocations are there: without them, the server has none.
    "only allocations": (state("server", nodes=NEW, on="new"), "not-empty",
                         "placement allocation audit"),
    "a server without node": (state("server", nodes=NEW, on="old"), "not-empty", SERVER),
    "accepted": (state("server both", nodes=NEW, on="new", move=("evacuation", "accepted")),
                 "not-empty", SERVER),
    "rebuilding": (state("server both", nodes=NEW, on="new", **{TASK: "rebuilding"}),
                   "not-empty", SERVER),
    "a cell that is down": (state(services={"old": {"status": "UNKNOWN", "state": "unknown"}}),
                            "cell-down", "cell of nova-old is down"),
    "a node of Ironic": (State(cloud(), {**nova_of("old"), **IRONIC}), "not-a-compute-node", ""),
    # Nova-compute did not make the provider.
    "without the trait": (State(cloud(traits=()), nova_of("new")), "not-a-compute-node", ""),
}  # fmt: skip
STATES = {
    **{name: needed[0] for name, needed in NEEDED.items()},
    "evacuated": EVACUATED,
    # "compute service delete" takes the provider with it; nova keeps what was there.
    "deleted": State(
        Cloud().host("new", VCPU=8, traits=[NODE]),
        {
            **nova_of(
                "new", migrations=[migration(MOVE, SERVER, "migration", "confirmed", "old", "new")]
            ),
            "GET /v2.1/servers/detail?all_tenants=1&deleted=true": {"servers": []},
        },
    ),
    "deleted servers are not recorded": State(
        Cloud().host("new", VCPU=8, traits=[NODE]), nova_of("new")
    ),
    "no migrations": State(
        Cloud().host("new", VCPU=8, traits=[NODE]),
        {
            **nova_of("new"),
            "GET /v2.1/servers/detail?all_tenants=1&host=nova-old&deleted=true": {
                "servers": [server(SERVER, "old", status="DELETED")]
            },
        },
    ),
    "a cell that is down, and no node": State(
        Cloud().host("new", VCPU=8, traits=[NODE]),
        nova_of("new", services={"new": {"status": "UNKNOWN", "state": "unknown"}}),
    ),
    "in a host aggregate": State(
        cloud(), {**nova_of("new"), "GET /v2.1/os-aggregates": {"aggregates": [AGGREGATE]}}
    ),
}
TABLE = [
    *(
        Row(
            RETIRE,
            name,
            6,
            [{"status": "refused", "code": code, "reason": (words,)}],
            unchanged=True,
        )
        for name, (_, code, words) in NEEDED.items()
    ),
    Row(RETIRE, "down", 6, ("openstack compute service set --disable", "compute service delete")),
    Row(RETIRE, "deleted", 0, "nothing is left of old: neither nova nor Placement has it"),
    Row(f"{RETIRE}er", "deleted", 1, "older: neither nova nor Placement has a host of this name"),
    Row(RETIRE, "deleted servers are not recorded", 1, "holds no response to GET /servers/detail"),
    Row(
        "placement host retire --allow recorded-nova new nova-neww",
        "deleted",
        1,
        "nothing is left of it; similar: nova-new",
        unchanged=True,
    ),
    Row(
        "placement host retire --allow recorded-nova nova-old",
        "no migrations",
        0,
        "nothing is left of nova-old",
    ),
    Row(RETIRE, "a cell that is down, and no node", 1, "nova does not show it while the cell of"),
    Row(f"{RETIRE} --dry-run", "in a host aggregate", 0, "openstack aggregate remove host az1 old"),
]


@table(TABLE)
def test_a_command_shows_what_its_row_says(openstack: OpenStack, row: Row) -> None:
    row.check(openstack, STATES)


def test_what_nova_left_is_deleted_and_undo_restores_it(openstack: OpenStack) -> None:
    EVACUATED.arrange(openstack)
    before = openstack.target.state()
    outcome = EVACUATED.run(openstack, f"{RETIRE} --undo-out undo.json")
    assert outcome.code == 0, outcome
    after = openstack.target.state()
    assert [item["name"] for item in after["providers"].values()] == ["new"]
    assert after["consumers"][SERVER]["allocations"] == {uuid_of("new"): {"VCPU": 3}}
    undone = EVACUATED.run(openstack, "placement plan undo undo.json --allow recorded-nova")
    assert undone.code == 0, undone
    assert openstack.target.state() == before
