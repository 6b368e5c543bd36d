# SPDX-License-Identifier: Apache-2.0
"""Moves that are stuck, and the way that the printed commands lead."""

from __future__ import annotations

import dataclasses
import datetime
import shlex

import pytest

from osc_placement.model import allocation
from osc_placement.testing import uuid_of
from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair.allocations import audit, stuck
from osc_placement.workflows.repair.allocations.repair import AllocationFinding, AuditContext
from tests.support import moving_cloud
from tests.support.clouds import read
from tests.support.moving_cloud import DESTINATION, MIGRATION, SERVER, SOURCE, Step, View

NOW = datetime.datetime(2026, 1, 1, 11, tzinfo=datetime.UTC)
ACCEPTED = View("live-migration", Step("accepted", None, "active", "s", "d", "s", "s"))


def findings(snapshot: Cloud, min_age: float = 60) -> list[AllocationFinding]:
    return audit.find(snapshot, AuditContext(NOW, min_age))


def after(snapshot: Cloud, commands: list[str]) -> Cloud:
    """The cloud after the commands that a finding prints."""
    server = snapshot.servers[SERVER]
    allocations = dict(snapshot.allocations)
    for command in commands:
        words = shlex.split(command)
        if words[:3] == ["openstack", "server", "set"]:
            server = dataclasses.replace(server, task_state=None, vm_state="active")
        elif words[:5] == ["openstack", "resource", "provider", "allocation", "delete"]:
            del allocations[words[-1]]
        elif words[:5] == ["openstack", "resource", "provider", "allocation", "set"]:
            parts: dict[str, allocation.Resources] = {}
            for word in (word for word in words if word.startswith("--allocation=")):
                provider, *amounts = word.removeprefix("--allocation=rp=").split(",")
                pairs = (amount.split("=") for amount in amounts)
                parts[provider] = {name: int(number) for name, number in pairs}
            allocations[words[-1]] = parts
        else:
            raise AssertionError(command)
    return dataclasses.replace(snapshot, servers={SERVER: server}, allocations=allocations)


def test_a_stuck_move_has_both_hosts_its_age_and_the_writes() -> None:
    (finding,) = findings(ACCEPTED.reading())
    assert (finding.code, finding.hosts) == (stuck.STUCK_MOVE, (SOURCE, DESTINATION))
    assert finding.evidence.fields["age"] == 3600
    assert finding.evidence.text.endswith(f"is accepted for 60 min: {SOURCE} has not begun it")
    assert finding.repair is None
    assert finding.proposed.fields["commands"] == [
        f"openstack resource provider allocation delete {MIGRATION}",
        "openstack resource provider allocation set --project-id=project --user-id=user"
        f" --allocation=rp={uuid_of(SOURCE)},VCPU=1 {SERVER}",
    ]


def test_a_young_move_is_not_stuck() -> None:
    assert findings(ACCEPTED.reading(), min_age=3601) == []


@pytest.mark.parametrize("task", [None, "migrating"])
def test_the_commands_of_a_stuck_move_end_it(task: str | None) -> None:
    view = View("live-migration", ACCEPTED.step._replace(task=task))
    (finding,) = findings(view.reading())
    ended = after(view.reading(), finding.proposed.fields["commands"])
    assert findings(ended) == []
    move = server_moves.move_of(ended, ended.servers[SERVER])
    assert (move.phase, moving_cloud.guest_hosts(move)) == (server_moves.Phase.AT_REST, {SOURCE})


def test_a_finished_move_of_a_server_whose_state_was_reset_holds_its_source() -> None:
    """Nova confirms and reverts only a server that waits for it."""
    step = Step("finished", None, "active", "d", "d", "s", "d", "s")
    snapshot = View("resize", step).reading()
    (finding,) = findings(snapshot)
    assert (finding.code, finding.hosts) == (stuck.STUCK_MOVE, (SOURCE, DESTINATION))
    assert "the server is active, so nova neither confirms nor reverts it" in finding.evidence.text
    assert finding.proposed.fields["commands"] == [
        f"openstack resource provider allocation delete {MIGRATION}"
    ]
    assert findings(after(snapshot, finding.proposed.fields["commands"])) == []
    assert findings(snapshot, min_age=3601) == []


@pytest.mark.parametrize("view", list(moving_cloud.views()))
def test_no_command_sends_to_an_audit_that_says_nothing(view: View) -> None:
    snapshot = view.reading()
    move = server_moves.move_of(snapshot, snapshot.servers[SERVER])
    is_stuck = any(server_moves.waits_for_source(migration) for migration in move.migrations)
    if (move.has_leftovers or is_stuck) and not all(loss.is_certain for loss in move.losses):
        problems = findings(snapshot)
        assert problems
        assert not any(problem.proposed.text.endswith(": ") for problem in problems)


@pytest.mark.parametrize("status", ["failed", "error"])
@pytest.mark.parametrize(
    ("is_up", "commands"),
    [
        (False, [f"openstack server evacuate {SERVER}"]),
        (
            True,
            [
                f"openstack server set --state=active --auto-approve {SERVER}",
                f"openstack server reboot --hard {SERVER}",
            ],
        ),
    ],
)
def test_a_server_whose_evacuation_failed_is_evacuated_again_or_started(
    status: str, is_up: bool, commands: list[str]
) -> None:
    view = View("evacuation", Step(status, None, "error", "s", "s", "", "s"))
    service = {"state": "up" if is_up else "down"}
    base = read.read(moving_cloud.hosts(service=service))
    (finding,) = findings(view.reading(base))
    assert (finding.code, finding.hosts) == (stuck.STUCK_MOVE, (SOURCE, DESTINATION))
    assert finding.evidence.text.endswith(f"for 60 min: the server is in ERROR on {SOURCE}")
    assert finding.proposed.fields["commands"] == commands


@pytest.mark.parametrize(
    "step",
    [
        Step("failed", None, "active", "s", "s", "", "s"),
        Step("done", None, "error", "d", "sd", "", "d"),
    ],
    ids=["started again", "it succeeded"],
)
def test_a_server_that_was_started_or_evacuated_needs_no_evacuation(step: Step) -> None:
    assert stuck.STUCK_MOVE not in {
        finding.code for finding in findings(View("evacuation", step).reading())
    }
