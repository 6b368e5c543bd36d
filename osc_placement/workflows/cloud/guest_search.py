# SPDX-License-Identifier: Apache-2.0
"""What to do where nova's host of a server is a claim: where to look, and what ends it. Pure.

All commands that show such a server print the text of ``next_step``.
"""

from __future__ import annotations

from osc_placement.model import command_line
from osc_placement.plan import guards
from osc_placement.workflows.cloud import server_moves
from osc_placement.workflows.cloud.cloud import Cloud


def next_step(reading: Cloud, move: server_moves.ServerMove) -> str:
    """The next step for a server whose guest may be on each of several hosts."""
    if any(migration.is_rolled_back for migration in move.migrations):
        return "then run this command again"
    if move.server.hidden:
        return "run this command as a user with this right"
    hosts = " and ".join(sorted({loss.host for loss in move.losses}))
    look = f"look for the guest on {hosts} (virsh list --all)"
    if move.phase is not server_moves.Phase.DISAGREES:
        return look
    repair = _repair(reading, move)
    if _is_claim(move):
        return f"{look}; if it is on {move.server.host}, a minute after the last change: {repair}"
    # No command of nova changes its records then. They can only be slow.
    correct = "correct the server's host and node and the migration's status in nova's database"
    is_waiting = move.server.task_state or move.server.vm_state == "resized"
    reset = command_line.line("server set", move.server.uuid, options=server_moves.RESET)
    lines = [correct, *([reset] if is_waiting else ()), repair]
    return f"{look}; if nova says this still after ten minutes: {', then '.join(lines)}"


def commands(reading: Cloud, move: server_moves.ServerMove) -> list[str]:
    """The command lines of ``next_step``; none where something is done by hand before."""
    return [_repair(reading, move)] if _is_claim(move) else []


def _is_claim(move: server_moves.ServerMove) -> bool:
    """Whether nova's records agree with each other, and only Placement holds another host."""
    newest = move.migrations[0]
    is_elsewhere = newest.dest_host != move.server.host and not move.server.task_state
    return newest.has_failed and is_elsewhere and move.has_leftovers


def _repair(reading: Cloud, move: server_moves.ServerMove) -> str:
    """What gives the server its host, once somebody has seen the guest where nova shows it."""
    if _is_claim(move) and move.node is not None and move.node.uuid not in reading.providers:
        # Nothing can be moved there before.
        return command_line.line("placement provider audit", options=[("--host", move.node.host)])
    allocated = [
        migration.uuid for migration in move.migrations[:1] if migration.uuid in reading.allocations
    ]
    named = [("--consumer", uuid) for uuid in (move.server.uuid, *allocated)]
    vouched = [("--repair", None), ("--allow", guards.CLAIMED_HOST), *named]
    return command_line.line("placement allocation audit", options=vouched)
