# SPDX-License-Identifier: Apache-2.0
"""Commands that follow from each other on an unchanged cloud never come back to their start.

For each step of each move of nova: what host check, the audit, heal, health and explain print,
which commands that names, and whether these have something to say about the same server.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator

import pytest

from osc_placement import testing
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.testing import uuid_of
from osc_placement.workflows.cloud import (
    guest_search,
    nova_servers,
    observe_hosts,
    server_moves,
)
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.health import health
from osc_placement.workflows.moving import document, follow
from osc_placement.workflows.repair.allocations import audit, heal
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.providers import audit as provider_audit, observe
from tests.support import moving_cloud
from tests.support.candidates import clouds
from tests.support.capacity import cases
from tests.support.clouds import read
from tests.support.moving_cloud import DESTINATION, MIGRATION, SERVER, SOURCE, Moving, Step, View
from tests.unit.workflows.repair.allocations.test_stuck import findings

AUDIT, REPAIR, VOUCHED, HEAL, CHECK = "audit", "audit --repair", "vouched", "heal", "host check"
DRAIN = "drain"
#: A repair after somebody has corrected nova's record.
CORRECTED = "corrected"
HEALTH, EXPLAIN, PROVIDERS = "health", "explain", "provider audit"
_COMMANDS = {
    "placement allocation audit": AUDIT,
    "placement allocation heal": HEAL,
    "placement provider audit": PROVIDERS,
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
    for text in texts:
        for command, options in _NAMED.findall(text):
            name = _COMMANDS[command]
            if name == AUDIT and "--repair" in options:
                name = VOUCHED if "--allow=claimed-host" in options else REPAIR
                name = CORRECTED if "nova's database" in text else name
            commands.add(name)
    return commands


def of_health(snapshot: Cloud) -> list[str]:
    """What the rows of health show and repair."""
    rows = [health.problem_of(item, "placement allocation audit") for item in findings(snapshot)]
    rows += [health.problem_of(item, "placement provider audit") for item in faulty(snapshot)]
    return [text for row in (*rows, *health.hosts_area(snapshot).problems) for text in row[-2:]]


def faulty(snapshot: Cloud) -> list[observe.ProviderFinding]:
    """The findings about providers."""
    return provider_audit.find(observe.AuditedCloud(snapshot))


def of_provider_audit(snapshot: Cloud) -> list[str]:
    """What the provider audit proposes for the providers with allocations."""
    return [
        item.proposed.text
        for item in faulty(snapshot)
        if any(item.subject.uuid in parts for parts in snapshot.allocations.values())
    ]


def of_explain(snapshot: Cloud) -> list[str]:
    """The repair of what holds the capacity of a host and is left over."""
    return [
        f"placement allocation audit --repair --consumer {holder.consumer_uuid}"
        for root in snapshot.roots.values()
        for holder in server_moves.holders_on(snapshot, root.uuid)
        if holder.is_leaked
    ]


def joined(snapshot: Cloud) -> observe_hosts.JoinedServers:
    """How the server stands to all hosts."""
    return observe_hosts.join(_read(snapshot), ServerHosts(snapshot.hosts))


def _read(snapshot: Cloud) -> observe_hosts.ServersRead:
    providers = (clouds.provider(uuid, VCPU=64) for uuid in snapshot.providers)
    base = clouds.cloud(*providers, servers=snapshot.allocations)
    hosts = ServerHosts(snapshot.hosts)
    asked = clouds.query(clouds.group(VCPU=1))
    of_servers = {
        uuid: cases.case(asked, hosts, server=server) for uuid, server in snapshot.servers.items()
    }
    known = nova_servers.ServerCases(of_servers, migrations=frozenset(snapshot.migrations))
    return observe_hosts.ServersRead(base, [*snapshot.providers], snapshot, known)


def of_host_check(snapshot: Cloud) -> list[str]:
    """What host check says about the three hosts."""
    found = joined(snapshot)
    return [*found.by_state.held.values(), *found.by_state.doubtful.values(), *found.lost.lines()]


def of_audit(snapshot: Cloud) -> list[str]:
    """What the audit proposes."""
    return [
        text
        for item in findings(snapshot)
        for text in (item.proposed.text, *item.proposed.fields.get("commands", ()))
    ]


def of_heal(snapshot: Cloud) -> list[str]:
    """Why heal skips servers."""
    return [item.reason for item in heal.plan_heal(snapshot, HealRequest()).skipped]


def of_drain(snapshot: Cloud) -> list[str]:
    """What ``host drain`` says about the server: ``--continue``, and with ``--verify-empty``."""
    states = follow.host_states(_read(snapshot), ServerHosts(snapshot.hosts))
    left = [
        f"{item.reason}: {item.command}" for state in states for item in state.left if item.uuid
    ]
    return [_followed(snapshot).advice, *left]


def says_something(snapshot: Cloud, command: str, min_age: float = 60) -> bool:
    """Whether a command has something to say or to change here."""
    if command == AUDIT:
        return bool(findings(snapshot, min_age))
    if command == REPAIR:
        # With "no provider", the audit says what to repair first.
        problems = findings(snapshot, min_age)
        said = ("no resource provider", "has another UUID", "(--min-age)")
        return any(item.repair or any(text in str(item) for text in said) for item in problems)
    if command == VOUCHED:
        vouched = dataclasses.replace(snapshot, trusts_nova=True)
        return any(item.repair for item in findings(vouched))
    if command == CORRECTED:
        return any(map(findings, corrected(snapshot)))
    if command == PROVIDERS:
        return bool(faulty(snapshot))
    if command == HEAL:
        planned = heal.plan_heal(snapshot, HealRequest())
        return bool(planned.changes or [item for item in planned.skipped if item.reason])
    return bool(of_host_check(snapshot))


def corrected(snapshot: Cloud) -> Iterator[Cloud]:
    """Nova's records say where the guest was seen, on each of both hosts."""
    server, move = snapshot.servers[SERVER], snapshot.migrations[MIGRATION]
    arrived = (
        "completed" if move.type in (server_moves.LIVE, server_moves.EVACUATION) else "confirmed"
    )
    ends = (
        (move.source_host, move.source_node, "error"),
        (move.dest_host, move.dest_node, arrived),
    )
    for host, node, status in ends:
        yield dataclasses.replace(
            snapshot,
            servers={SERVER: dataclasses.replace(server, host=host, node=node, task_state=None)},
            migrations={MIGRATION: dataclasses.replace(move, status=status)},
            trusts_nova=True,
        )


NEW = "cmp-1.example.org"
#: The source was removed from nova without its provider; installed anew, so that its node has
#: another UUID; and got a domain, with a node and a provider of their own.
CHANGES: dict[str, Callable[[testing.Cloud], testing.Cloud]] = {
    "none": lambda kit: kit,
    "removed": lambda kit: kit.delete_service(SOURCE),
    "reinstalled": lambda kit: kit.delete_service(SOURCE).node(SOURCE, id=uuid_of("new")),
    "renamed": lambda kit: kit.delete_service(SOURCE).host(NEW, VCPU=64).node(NEW, SOURCE),
}


@functools.cache
def changed(name: str) -> Cloud:
    """The hosts after a change."""
    return read.read(CHANGES[name](moving_cloud.hosts()))


@pytest.mark.parametrize("task", [None, "migrating"])
def test_a_queued_move_whose_source_works_on_another_sends_nowhere(task: str | None) -> None:
    """The audit says nothing of it: it waits for its turn."""
    steps = moving_cloud.PROTOCOLS["live"][1]
    pair = [
        Moving(View("live-migration", step), name=name, move=f"move of {name}")
        for name, step in (("vm-1", steps[3]._replace(task=task)), ("vm-2", steps[5]))
    ]
    snapshot = moving_cloud.reading(pair)
    assert findings(snapshot) == []
    assert named(of_host_check(snapshot)) == set()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: str(view.shown()))
def test_the_printed_commands_end(view: View, change: str) -> None:
    snapshot = view.reading(changed(change))
    assert bool(faulty(snapshot)) is (change != "none")
    next_of = {
        HEALTH: named(of_health(snapshot)),
        EXPLAIN: named(of_explain(snapshot)),
        CHECK: named(of_host_check(snapshot)),
        AUDIT: named(of_audit(snapshot)),
        HEAL: named(of_heal(snapshot)),
        PROVIDERS: named(of_provider_audit(snapshot)),
        DRAIN: named(of_drain(snapshot)),
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


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: str(view.shown()))
def test_a_command_that_is_printed_while_a_server_moves_finds_it_however_young_the_move_is(
    view: View,
) -> None:
    """Unless the text says to wait."""
    snapshot = view.reading()
    for text in (*of_host_check(snapshot), *of_heal(snapshot), *of_drain(snapshot)):
        for command, options in _NAMED.findall(text):
            (name,) = named([f"{command}{options}"]) or {""}
            age = 0 if "--min-age" in options else 7200
            waits = "a minute after" in text or "after ten minutes" in text
            assert waits or says_something(snapshot, name, age), text
    step = _followed(snapshot)
    if step.state is follow.FollowedState.MOVING:
        is_live = view.type == "live-migration" and view.step.status
        wait = ", by default at most 800 s" if is_live else ""
        assert f"wait for its end{wait}" in step.advice or named([step.advice]), step
    else:
        assert step.advice or step.state is follow.FollowedState.WAITS or step.host, step


IN_DOUBT = [
    view
    for view in VIEWS
    if server_moves.move_of(view.reading(), view.reading().servers[SERVER]).phase
    is server_moves.Phase.DISAGREES
]


def _followed(snapshot: Cloud) -> follow.FollowedStep:
    step = document.PlannedMove(1, SERVER, "", "live", "ACTIVE", SOURCE, DESTINATION, "", {})
    plan = document.MovePlan((SOURCE,), (uuid_of(SOURCE),), (step,))
    (followed,) = follow.follow(plan, snapshot)
    return followed


@pytest.mark.parametrize("view", IN_DOUBT, ids=lambda view: str(view.shown()))
def test_all_commands_have_the_same_next_step_for_a_guest_in_doubt(view: View) -> None:
    snapshot = view.reading()
    move = server_moves.move_of(snapshot, snapshot.servers[SERVER])
    step = guest_search.next_step(snapshot, move)
    assert step.startswith("look for the guest on cmp-1 and cmp-2 (virsh list --all)")
    drained = [text for text in of_drain(snapshot) if "no more" not in text]
    for texts in (drained, of_host_check(snapshot), of_heal(snapshot)):
        assert texts
        assert all(text.endswith(step) for text in texts)
    for item in findings(snapshot):
        assert item.proposed.text.endswith(step)
        assert item.proposed.fields["commands"] == guest_search.commands(snapshot, move)
    assert ("nova's database" in step) is not _is_claim(view)
    # Nobody is sent round: the audit has a finding, and the step ends with its repair.
    assert findings(snapshot)
    assert "placement allocation audit --repair" in re.split(": |, then ", step)[-1]


def _is_claim(view: View) -> bool:
    """Whether nova's records agree, and only Placement says something else."""
    return view.step.status in ("error", "failed") and view.step.host == "s"


@pytest.mark.parametrize("view", [view for view in IN_DOUBT if not _is_claim(view)], ids=str)
def test_the_repair_after_the_correction_of_novas_records_ends_it(view: View) -> None:
    for now in corrected(view.reading()):
        after = audit.repaired(now, findings(now))
        after = dataclasses.replace(after, trusts_nova=False)
        assert findings(after) == []
        assert server_moves.move_of(after, after.servers[SERVER]).is_settled
