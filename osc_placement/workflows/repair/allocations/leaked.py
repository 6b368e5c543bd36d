# SPDX-License-Identifier: Apache-2.0
"""Allocations that a migration left behind: it is over, or its server is gone. Pure.

A migration's consumer holds the source until the move is over. The repair removes what it holds
once nova shows the server at rest. Where a live migration failed and Placement still holds both
hosts, nova's host of the server is a claim: then the finding is unknown, with how to see where the
guest runs, until the operator vouches for nova (the guard ``claimed-host``).
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change, reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import guest_search, problem, server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.server_moves import ServerMove
from osc_placement.workflows.repair.allocations import preconditions, repair
from osc_placement.workflows.repair.allocations.repair import (
    AllocationFinding,
    AuditContext,
    Repair,
)
from osc_placement.workflows.repair.findings import Evidence, Finding, Proposal, Remedy

LEAKED_MOVE = problem.error("leaked-move", "A migration that is over still has allocations.")
CODES = (LEAKED_MOVE,)

_OVER = "its {type} from {source} to {dest} is {status}, since {updated}"
_DELETED = "its {type} from {source} to {dest} is {status}, and nova has deleted its server"
_GONE = "its {type} from {source} to {dest} is {status}, and nova has its server no more"


def find(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """Migrations with allocations that are over, or whose server nova has no more."""
    for uuid, allocations in snapshot.allocations.items():
        migration = snapshot.migrations.get(uuid)
        if uuid in snapshot.servers or migration is None:
            continue
        finding = _of_migration(snapshot, migration, allocations, context)
        if finding is not None:
            yield finding


def _of_migration(
    snapshot: Cloud,
    migration: values.Migration,
    allocations: allocation.Allocations,
    context: AuditContext,
) -> AllocationFinding | None:
    server = snapshot.servers.get(migration.server_uuid)
    deleted = snapshot.deleted_servers.get(migration.server_uuid)
    if server is not None and not migration.is_over:
        return None
    named = server or deleted
    name = f"{migration.type} of {named.name if named and named.name else migration.server_uuid}"
    finding = Finding(
        LEAKED_MOVE,
        change.Subject(name, migration.uuid),
        repair.hosts_of(snapshot, allocations),
        _evidence(migration, allocations, is_deleted=deleted is not None),
        repair.propose_removal(snapshot, allocations),
        Repair(repair.removal(allocations), precondition=preconditions.NOT_A_SERVER, frees=True),
    )
    if named is None and not migration.is_over:
        return finding.as_unknown(Reason(Code.MOVING, f"the migration is {migration.status}"))
    recent = context.too_young([migration.updated])
    if recent or server is None:
        return finding.as_unknown(recent) if recent else finding
    move = server_moves.move_of(snapshot, server)
    if migration in move.migrations:
        return in_doubt(snapshot, finding, move)
    return finding.as_unknown(move.moving) if move.moving else finding


def _evidence(
    migration: values.Migration, allocations: allocation.Allocations, *, is_deleted: bool
) -> Evidence:
    fields = {
        "migration_type": migration.type,
        "migration_status": migration.status,
        "server_uuid": migration.server_uuid,
        "source_host": migration.source_host,
        "dest_host": migration.dest_host,
        "updated": migration.updated,
        "allocations": allocations,
    }
    text = _OVER if migration.is_over else _DELETED if is_deleted else _GONE
    text = text.format(
        type=migration.type,
        source=migration.source_host or "?",
        dest=migration.dest_host or "?",
        status=migration.status,
        updated=migration.updated[:19] or "?",
    )
    return Evidence(Code.MIGRATION_OVER if migration.is_over else Code.SERVER_DELETED, text, fields)


def in_doubt(snapshot: Cloud, finding: AllocationFinding, move: ServerMove) -> AllocationFinding:
    """The finding as unknown, because nova's host of the server is a claim, and what to do.

    Everything that one move left has the same advice.
    """
    unknown = finding.as_unknown(move.moving or move.absent or reasons.NONE)
    if move.phase is not server_moves.Phase.DISAGREES:
        return unknown
    text = f"{unknown.proposed.text}; {guest_search.next_step(snapshot, move)}"
    fields = {"commands": guest_search.commands(snapshot, move)}
    proposed = Proposal(Remedy.FIND_GUEST, text, fields)
    return Finding(unknown.code, unknown.subject, unknown.hosts, unknown.evidence, proposed)
