# SPDX-License-Identifier: Apache-2.0
"""Commands that follow from each other on an unchanged cloud never come back to their start.

For each step of each move of nova: what host check, the audit, heal, health and explain print,
which commands that names, and whether these have something to say about the same server.
"""

from __future__ import annotations

import dataclasses
import re

import pytest

from osc_placement.engine import state
from osc_placement.model import inventory
from osc_placement.workflows.answers.capacity import nova_servers
from osc_placement.workflows.cloud import compute_nodes, moves
from osc_placement.workflows.health import health
from osc_placement.workflows.repair.allocations import heal
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.allocations.snapshot import CloudSnapshot
from tests.support import moving_cloud
from tests.support.candidates import clouds
from tests.support.capacity import brute_force
from tests.support.moving_cloud import Step, View
from tests.unit.workflows.repair.allocations.test_stuck import findings, snapshot_of

AUDIT, REPAIR, VOUCHED, HEAL, CHECK = "audit", "audit --repair", "vouched", "heal", "host check"
HEALTH, EXPLAIN = "health", "explain"
_COMMANDS = {
    "placement allocation audit": AUDIT,
    "placement allocation heal": HEAL,
    "placement host check": CHECK,
    "placement health show": HEALTH,
    "allocation candidate explain": EXPLAIN,
}
_NAMED = re.compile(rf"({'|'.join(_COMMANDS)})([^;,']*)")

#: At rest, with allocations nowhere, and on another host only.
_AT_REST = (
    View("", Step(None, None, "active", "s", "", "", "s")),
    View("", Step(None, None, "active", "s", "d", "", "s")),
)
VIEWS = [*(group[0] for group in moving_cloud.truths().values()), *_AT_REST]


def named(texts: list[str]) -> set[str]:
    """The commands that some texts name."""
    commands = set()
    for command, options in _NAMED.findall("; ".join(texts)):
        name = _COMMANDS[command]
        if name == AUDIT and "--repair" in options:
            name = VOUCHED if "--allow=claimed-host" in options else REPAIR
        commands.add(name)
    return commands


def of_health(snapshot: CloudSnapshot) -> list[str]:
    """What the rows of health show and repair."""
    rows = [health.problem_of(item, "placement allocation audit") for item in findings(snapshot)]
    return [text for row in (*rows, *health.hosts_area(snapshot).problems) for text in row[-2:]]


def of_explain(snapshot: CloudSnapshot) -> list[str]:
    """The repair of what holds the capacity of a host and is left over."""
    return [
        f"placement allocation audit --repair --consumer {holder.consumer_uuid}"
        for root in snapshot.roots.values()
        for holder in moves.holders_on(snapshot, root.uuid)
        if holder.is_leaked
    ]


def standing_of(snapshot: CloudSnapshot) -> nova_servers.Standing:
    """How the server stands to all hosts."""
    return _joined(snapshot)[1]


def _joined(snapshot: CloudSnapshot) -> tuple[state.CloudState, nova_servers.Standing]:
    base = clouds.cloud(*(clouds.provider(uuid, VCPU=64) for uuid in snapshot.providers))
    for uuid, parts in snapshot.allocations.items():
        base = brute_force.claim(base, uuid, parts)
    hosts = compute_nodes.ServerHosts(snapshot.hosts)
    read = nova_servers.ServersOnHosts(
        snapshot.hosts.nodes, snapshot.servers, snapshot.migrations, was_read=True
    )
    return base, nova_servers.standing(base, read, hosts)


def of_host_check(snapshot: CloudSnapshot) -> list[str]:
    """What host check says about the three hosts."""
    base, stand = _joined(snapshot)
    lost = nova_servers.unallocated(base, stand, [*snapshot.providers])
    return [*stand.held.values(), *stand.doubtful.values(), *lost.lines()]


def of_audit(snapshot: CloudSnapshot) -> list[str]:
    """What the audit proposes."""
    return [
        text
        for item in findings(snapshot)
        for text in (item.proposed.text, *item.proposed.fields.get("commands", ()))
    ]


def of_heal(snapshot: CloudSnapshot) -> list[str]:
    """Why heal skips servers."""
    return [item.reason for item in heal.plan_heal(snapshot, HealRequest()).skipped]


def says_something(snapshot: CloudSnapshot, command: str) -> bool:
    """Whether a command has something to say or to change here."""
    if command == AUDIT:
        return bool(findings(snapshot))
    if command == REPAIR:
        return any(item.repair for item in findings(snapshot))
    if command == VOUCHED:
        vouched = dataclasses.replace(snapshot, trusts_nova=True)
        return any(item.repair for item in findings(vouched))
    if command == HEAL:
        planned = heal.plan_heal(snapshot, HealRequest())
        return bool(planned.changes or [item for item in planned.skipped if item.reason])
    return bool(of_host_check(snapshot))


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: str(view.shown()))
def test_the_printed_commands_end(view: View) -> None:
    snapshot = snapshot_of(view)
    room = {uuid: {"VCPU": inventory.Inventory(total=64)} for uuid in snapshot.providers}
    snapshot = dataclasses.replace(snapshot, inventories=room)
    next_of = {
        HEALTH: named(of_health(snapshot)),
        EXPLAIN: named(of_explain(snapshot)),
        CHECK: named(of_host_check(snapshot)),
        AUDIT: named(of_audit(snapshot)),
        HEAL: named(of_heal(snapshot)),
    }
    for commands in next_of.values():
        for command in commands:
            assert says_something(snapshot, command), command
    for start in next_of:
        waiting, reached = [*next_of[start]], set[str]()
        while waiting:
            command = waiting.pop()
            if command not in reached:
                reached.add(command)
                # A repair changes the state; the others are read again.
                waiting += next_of.get(command, ())
        assert start not in reached
