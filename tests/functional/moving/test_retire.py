# SPDX-License-Identifier: Apache-2.0
"""``placement host retire``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from osc_placement.testing import Cloud, nova, uuid_of
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, checked, one_line

RETIRED = "placement host retire --allow recorded-nova"
RETIRE = f"{RETIRED} old"
SERVER, MOVE = uuid_of("server"), uuid_of("move")
NODE, DOWN = "COMPUTE_NODE", {"state": "down"}
#: As an evacuation leaves it.
BOTH: dict[str, dict[str, int]] = {"old": {"VCPU": 3}, "pci": {"VGPU": 1}, "new": {"VCPU": 3}}


def new_alone(**service: str) -> Cloud:
    """Nova and Placement have one host, and not ``old``."""
    return Cloud("nova-{}").compute("new", service=service, VCPU=8, traits=[NODE])


def cloud(traits: Sequence[str] = (NODE,)) -> Cloud:
    """Two hosts; the providers of one are a tree of three."""
    made = Cloud("nova-{}").host("old", VCPU=8, traits=traits, aggregates=["rack"])
    made.child("old", "numa", MEMORY_MB=64, traits=["HW_NUMA_ROOT"]).child("numa", "pci", VGPU=2)
    return made.compute("new", VCPU=8, traits=[NODE])


def state(
    *consumers: str,
    service: Mapping[str, Any] = DOWN,
    node: bool = True,
    on: str = "",
    move: tuple[str, str] | None = None,
    traits: Sequence[str] = (NODE,),
    **fields: Any,
) -> State:
    """Consumers with allocations (``server both``), and nova's server on a host, and its move.

    Without ``node``, nova has deleted the service of ``old``.
    """
    made = cloud(traits).node("old", service=service)
    for name, _, both in (entry.partition(" ") for entry in consumers):
        made.server(name, BOTH if both else {"old": {"VCPU": 1}}, type="unknown")
    if on:
        made.instance("server", on, vcpus=3, **fields)
    if move:
        kind, status = move
        made.migration("move", "server", "old", "new", migration_type=kind, status=status)
    return State(made if node else made.delete_service("old"))


ON_NEW: dict[str, Any] = {"on": "new", "node": False}
EVACUATED = state("server both", **ON_NEW, move=("evacuation", "done"))

#: ``{state: (the state, the code of the refusal, words)}``: somebody needs the host.
NEEDED: dict[str, tuple[State, str, str]] = {
    "up": (state(service={}), "service-status", "nova-compute is up"),
    "down": (state(), "service-status", "nova has its compute service"),
    "with a server": (state(on="old"), "not-empty", "placement host drain nova-old"),
    "evacuating": (state(move=("evacuation", "running")), "moving", MOVE),
    # Its cold migration failed on its destination: the disk may be on the source.
    "a failed move": (state(on="new", move=("migration", "error"), vm_state="error"),
                      "moving", "may run on either host"),
    # A consumer that nova does not list may be a server of a cell that is down, or leaked.
    "an unknown consumer": (state("other"), "not-empty", "placement allocation audit"),
    "a consumer, and no node": (state("other", node=False), "not-empty",
                                "placement allocation audit"),
    # Its only allocations are there: without them, the server has none.
    "only allocations": (state("server", **ON_NEW), "not-empty", "placement allocation audit"),
    "a server without node": (state("server", on="old", node=False), "not-empty", SERVER),
    "accepted": (state("server both", **ON_NEW, move=("evacuation", "accepted")),
                 "not-empty", SERVER),
    "rebuilding": (state("server both", **ON_NEW, task_state="rebuilding"), "not-empty", SERVER),
    "a cell that is down": (state(service={"status": "UNKNOWN", "state": "unknown"}),
                            "cell-down", "cell of nova-old is down"),
    "a node of Ironic": (State(cloud().node("old", service=DOWN, hypervisor_type="ironic")),
                         "not-a-compute-node", ""),
    # Nova-compute did not make the provider.
    "without the trait": (state(traits=(), node=False), "not-a-compute-node", ""),
}  # fmt: skip
MOVED = (
    new_alone()
    .node("old")
    .migration("move", "server", "old", "new", migration_type="migration", status="confirmed")
)
SERVERS = "GET /v2.1/servers/detail"
STATES = {
    **{name: needed[0] for name, needed in NEEDED.items()},
    "evacuated": EVACUATED,
    # "compute service delete" takes the provider with it; nova keeps what was there.
    "deleted": State(MOVED.delete_service("old")),
    "deleted servers are not recorded": State(new_alone(), {f"{SERVERS}?deleted=true": None}),
    "no migrations": State(
        new_alone(),
        {
            f"{SERVERS}?host=nova-old&deleted=true": {
                "servers": [nova.server(SERVER, host="nova-old", node="old", status="DELETED")]
            }
        },
    ),
    "a cell that is down, and no node": State(new_alone(status="UNKNOWN", state="unknown")),
    "a cell that is down, and a provider": State(
        new_alone(status="UNKNOWN", state="unknown").host("old", VCPU=8, traits=[NODE])
    ),
    "not discovered": State(
        new_alone().host("nova-old.example.org", VCPU=8, traits=[NODE]),
        nova.answers(services=[nova.service("nova-new"), nova.service("nova-old")]),
    ),
    "planned": State(
        cloud().node("old").delete_service("old").flavor("small", ram=0),
        before=[f"{RETIRE} --dry-run --plan-out plan.json"],
    ),
    "in a host aggregate": State(
        cloud().node("old", "old").aggregate("az1", ["old"]).delete_service("old")
    ),
}
# fmt: off
TABLE = [
    *(Row(RETIRE, name, 6, [{"status": "refused", "code": code, "reason": (words,)}],
          unchanged=True) for name, (_, code, words) in NEEDED.items()),
    Row(RETIRE, "down", 6, ("openstack compute service set --disable", "compute service delete")),
    Row(RETIRE, "deleted", 0, "nothing is left of old: neither nova nor Placement has it"),
    Row(f"{RETIRE}er", "deleted", 1, "older: neither nova nor Placement has a host of this name"),
    Row(RETIRE, "deleted servers are not recorded", 1, "holds no response to GET /servers/detail"),
    Row(f"{RETIRED} new nova-neww", "deleted", 1, "nothing is left of it; similar: nova-new",
        unchanged=True),
    Row(f"{RETIRED} nova-old", "no migrations", 0, "nothing is left of nova-old"),
    Row(RETIRE, "a cell that is down, and no node", 1, "nova does not show it while the cell of"),
    Row(RETIRE, "a cell that is down, and a provider", 6, [{"code": "cell-down", "reason": (
        "the cell of nova-new is down: nova cannot list its compute nodes",)}], unchanged=True),
    Row(f"{RETIRED} nova-old.example.org", "not discovered", 6, [{
        "code": "undiscovered-host", "reason": ("nova-manage cell_v2 discover_hosts",)}],
        unchanged=True),
    Row(f"{RETIRED} {uuid_of('old')}", "down", 6, [{"name": "nova-old", "code": "service-status"}]),
    Row("placement plan show plan.json --impact", "planned", 0, [
        {"flavor": "small", "hosts_before": 1, "hosts_after": 1, "fits_after": 8}]),
    Row(f"{RETIRE} --dry-run", "in a host aggregate", 0, "openstack aggregate remove host az1 old"),
]
# fmt: on

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


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


def test_a_stored_plan_deletes_no_host_that_nova_has_again(openstack: OpenStack) -> None:
    gone, back = state(node=False), state()
    gone.arrange(openstack)
    assert gone.run(openstack, f"{RETIRE} --dry-run --plan-out plan.json").code == 0
    before = openstack.target.state()
    for dry_run in ("--dry-run", ""):
        line = f"placement plan apply plan.json --allow recorded-nova {dry_run}"
        outcome = back.run(openstack, line)
        assert outcome.code == 7, outcome
        assert "nova has a compute node of it now" in one_line(outcome.stdout), outcome
        assert openstack.target.state() == before
    assert gone.run(openstack, "placement plan apply plan.json --allow recorded-nova").code == 0
