# SPDX-License-Identifier: Apache-2.0
"""Moves that nova does not continue, or of which its records contradict each other. Pure.

Nova has no command that ends a live migration before its source host has begun it. So the advice is
nova's command first, and then the writes that put the allocations back where the guest is.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation, command_line
from osc_placement.nova import values
from osc_placement.plan.reasons import Code
from osc_placement.workflows.cloud import problem, server_moves
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.repair.allocations import leaked, repair
from osc_placement.workflows.repair.allocations.repair import AllocationFinding, AuditContext
from osc_placement.workflows.repair.findings import Evidence, Finding, Proposal, Remedy

STUCK_MOVE = problem.error("stuck-move", "A move of a server that nova does not continue.")
CODES = (STUCK_MOVE,)

_TEXT = "its {type} from {source} to {dest} is {status}"
_NOT_BEGUN = ": {source} has not begun it"
_NOT_ENDED = ": the server is {state}, so nova neither confirms nor reverts it"
_NOT_EVACUATED = ": the server is in ERROR on {source}"
_RESTART = "restart nova-conductor and nova-compute on {source}; if the status stays"
#: No command of nova ends a move of which nothing is left but its record.
_CORRECT = "correct the migration's status in nova's database"
_AGAIN = "evacuate it again, or start it on {source} if that is up"
_LOOK = "the guest is on {dest}; remove what is left of it on {source} (its disk, {server}_resize)"


def find(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """Servers with a move that is stuck; there is no repair without nova's command."""
    for server in snapshot.servers.values():
        listed = snapshot.migrations_of.get(server.uuid)
        if not listed:
            continue
        move = server_moves.move_of(snapshot, server)
        stuck = move.stuck(context.now, context.min_age)
        if move.phase is server_moves.Phase.DISAGREES and not move.has_leftovers:
            finding = _finding(snapshot, server, move.migrations[0], context)
            yield leaked.in_doubt(snapshot, finding, move)
        elif stuck is not None and not server_moves.is_queued(snapshot, stuck):
            yield _finding(snapshot, server, stuck, context)
        elif (left := _unconfirmed(snapshot, move, context)) is not None:
            yield _finding(snapshot, server, left, context)
        elif move.is_settled and _is_failed_evacuation(server, newest := listed[0]):
            yield _finding(snapshot, server, newest, context)


def _unconfirmed(
    snapshot: Cloud, move: server_moves.ServerMove, context: AuditContext
) -> values.Migration | None:
    """The finished migration that holds its source, of a server whose state was reset."""
    is_reset = move.server.vm_state != "resized" and not move.server.task_state
    waiting = next(iter(move.migrations), None)
    if waiting is None or move.phase is not server_moves.Phase.WAITING or not is_reset:
        return None
    if not snapshot.allocations.get(waiting.uuid):
        return None
    if context.too_young([waiting.updated, move.server.updated]):
        return None
    return waiting if move.server.host == waiting.dest_host else None


def _is_failed_evacuation(server: values.Server, newest: values.Migration) -> bool:
    """Whether the newest move of a server is an evacuation that failed, and left it in ERROR."""
    is_failed = newest.type == server_moves.EVACUATION and newest.has_failed
    return is_failed and server.vm_state == "error" and server.host == newest.source_host


def _finding(
    snapshot: Cloud, server: values.Server, stuck: values.Migration, context: AuditContext
) -> AllocationFinding:
    ends = (node.host for node in snapshot.claimed_by(server.uuid))
    target = stuck.dest_host or next((host for host in ends if host != stuck.source_host), None)
    age = values.seconds_since(stuck.updated, context.now)
    # Nova may show no time.
    since = "" if age is None else f" for {int(age // 60)} min"
    why, first = _why_and_first(server, stuck)
    text = (_TEXT + since + why).format(
        type=stuck.type,
        source=stuck.source_host,
        dest=target or "?",
        status=stuck.status,
        state=server.vm_state,
    )
    fields = {
        "migration": stuck.uuid,
        "migration_type": stuck.type,
        "migration_status": stuck.status,
        "source_host": stuck.source_host,
        "dest_host": target,
        "age": None if age is None else int(age),
        "task_state": server.task_state,
        "allocations": snapshot.allocations.get(server.uuid, {}),
        "migration_allocations": snapshot.allocations.get(stuck.uuid, {}),
    }
    hosts = tuple(sorted(host for host in (stuck.source_host, target) if host))
    commands = list(commands_to_end(snapshot, server, stuck))
    first = first.format(source=stuck.source_host, dest=target, server=server.uuid)
    advice = f"{first}: {'; '.join(commands) or _CORRECT}"
    return Finding(
        STUCK_MOVE,
        repair.subject_of(server),
        hosts,
        Evidence(Code.MOVING, text, fields),
        Proposal(Remedy.END_MOVE, advice, {"commands": commands}),
    )


def _why_and_first(server: values.Server, stuck: values.Migration) -> tuple[str, str]:
    """Why a move is stuck, and what to do before the commands."""
    if _is_failed_evacuation(server, stuck):
        return _NOT_EVACUATED, _AGAIN
    if server_moves.row_of(stuck).phase is server_moves.Phase.WAITING:
        return _NOT_ENDED, _LOOK
    return (_NOT_BEGUN if server_moves.waits_for_source(stuck) else ""), _RESTART


def commands_to_end(
    snapshot: Cloud, server: values.Server, stuck: values.Migration
) -> Iterator[str]:
    """Nova's command, then the writes that give the server its host and empty the migration."""
    if stuck.type == server_moves.LIVE and stuck.status == "queued":
        # Nova itself puts the allocations back.
        yield command_line.line("server migration abort", server.uuid, stuck.uuid)
        return
    if _is_failed_evacuation(server, stuck):
        yield from _commands_after_evacuation(snapshot, server)
        return
    if server_moves.row_of(stuck).phase is server_moves.Phase.WAITING:
        yield command_line.line("resource provider allocation delete", stuck.uuid)
        return
    if server.task_state:
        yield command_line.line("server set", server.uuid, options=server_moves.RESET)
    parts = snapshot.allocations.get(stuck.uuid, {})
    if not parts:
        return
    yield command_line.line("resource provider allocation delete", stuck.uuid)
    owner = [("--project-id", server.project_id or ""), ("--user-id", server.user_id or "")]
    options = [*owner, *_arguments(parts)]
    yield command_line.line("resource provider allocation set", server.uuid, options=options)


def _commands_after_evacuation(snapshot: Cloud, server: values.Server) -> Iterator[str]:
    """Nova evacuates from a host that is down; on one that is up, the guest can be started."""
    if any(
        service.host == server.host and service.is_up for service in snapshot.hosts.compute_services
    ):
        yield command_line.line("server set", server.uuid, options=server_moves.RESET)
        yield command_line.line("server reboot", server.uuid, options=[("--hard", None)])
    else:
        yield command_line.line("server evacuate", server.uuid)


def _arguments(parts: allocation.Allocations) -> Iterator[command_line.Option]:
    for uuid, resources in sorted(parts.items()):
        amounts = ",".join(f"{name}={amount}" for name, amount in sorted(resources.items()))
        yield "--allocation", f"rp={uuid},{amounts}"
