# SPDX-License-Identifier: Apache-2.0
"""What a move left behind, over every step of every move of nova."""

from __future__ import annotations

import dataclasses

import pytest

from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair.allocations import audit, leaked
from osc_placement.workflows.repair.findings import UNKNOWN, Remedy
from tests.support import moving_cloud
from tests.support.clouds import read
from tests.support.moving_cloud import DESTINATION, MIGRATION, SERVER, SOURCE, Moving, Step, View
from tests.unit.workflows.repair.allocations.test_stuck import findings

ALL = list(moving_cloud.truths().values())
BROKEN = View("live-migration", Step("error", None, "active", "s", "d", "s", "d"))
COMPLETED = View("live-migration", Step("completed", None, "active", "d", "d", "s", "d"))


def hosts_held(snapshot: Cloud) -> set[str]:
    """The hosts on which the server's or the migration's consumer has allocations."""
    consumers = (SERVER, MIGRATION)
    return {node.host for uuid in consumers for node in snapshot.claimed_by(uuid)}


@pytest.mark.parametrize("group", ALL, ids=lambda group: str(group[0].shown()))
def test_no_repair_frees_a_host_that_may_have_the_guest(group: list[View]) -> None:
    snapshot = group[0].reading()
    after = audit.repaired(snapshot, findings(snapshot))
    names = {"s": SOURCE, "d": DESTINATION}
    possible = {names[key] for view in group for key in view.step.guest}
    assert possible & hosts_held(snapshot) <= hosts_held(after)


@pytest.mark.parametrize("group", ALL, ids=lambda group: str(group[0].shown()))
def test_a_leak_is_repaired_only_for_a_server_at_rest_and_a_migration_that_is_over(
    group: list[View],
) -> None:
    snapshot = group[0].reading()
    for finding in findings(snapshot):
        if finding.code == leaked.LEAKED_MOVE:
            assert finding.repair is not None
            assert snapshot.migrations[MIGRATION].is_over
            assert server_moves.move_of(snapshot, snapshot.servers[SERVER]).is_settled
            after = audit.repaired(snapshot, [finding])
            assert findings(after) == []


def test_the_evidence_has_both_hosts_and_the_time() -> None:
    (finding,) = findings(COMPLETED.reading())
    assert finding.evidence.text == (
        f"its live-migration from {SOURCE} to {DESTINATION} is completed, since 2026-01-01T10:00:00"
    )
    fields = finding.evidence.fields
    assert (fields["source_host"], fields["dest_host"]) == (SOURCE, DESTINATION)
    assert fields["updated"].startswith("2026-01-01T10:00:00")


def test_a_failed_live_migration_waits_for_somebody_who_looks_for_the_guest() -> None:
    snapshot = BROKEN.reading()
    problems = findings(snapshot)
    assert [item.code for item in problems] == [UNKNOWN, UNKNOWN]
    assert {item.evidence.fields["seems"] for item in problems} == {"leaked-move", "wrong-host"}
    # Both rows have the same advice.
    (proposed,) = {(item.proposed.action, item.proposed.text) for item in problems}
    assert proposed[0] is Remedy.FIND_GUEST
    assert f"look for the guest on {SOURCE} and {DESTINATION}" in proposed[1]
    assert problems[0].proposed.fields["commands"] == [
        "openstack placement allocation audit --repair --allow=claimed-host"
        f" --consumer={SERVER} --consumer={MIGRATION}"
    ]


def test_a_vouched_host_gets_the_allocations_back_though_it_is_full() -> None:
    """What the migration holds on the source is free for the server."""
    full = read.read(moving_cloud.hosts(VCPU=1))
    vouched = dataclasses.replace(BROKEN.reading(full), trusts_nova=True)
    problems = findings(vouched)
    assert [item.code for item in problems] == ["leaked-move", "wrong-host"]
    after = audit.repaired(vouched, problems)
    assert (hosts_held(after), after.allocations.keys()) == ({SOURCE}, {SERVER})
    # Then nova and Placement agree without anybody's word.
    assert findings(dataclasses.replace(after, trusts_nova=False)) == []


def test_a_leak_of_a_server_that_moves_again_waits() -> None:
    running = View("live-migration", Step("running", "migrating", "active", "s", "", "", "s"))
    old = COMPLETED.reading()
    again = moving_cloud.reading([Moving(running, DESTINATION, SOURCE, move="again")])
    moving = dataclasses.replace(
        again, migrations={**again.migrations, **old.migrations}, allocations=old.allocations
    )
    (finding,) = findings(moving)
    assert (finding.code, finding.evidence.fields["seems"]) == (UNKNOWN, "leaked-move")
    assert finding.proposed.text == "skipped: its live-migration is running"


@pytest.mark.parametrize(
    "changed", [{"updated_at": None}, {"source_compute": None, "dest_compute": None}]
)
def test_a_migration_without_times_or_hosts_is_described(changed: dict[str, None]) -> None:
    (finding,) = findings(COMPLETED.reading(**changed))
    assert finding.code == leaked.LEAKED_MOVE
    assert "?" in finding.evidence.text
