# SPDX-License-Identifier: Apache-2.0
"""What to do where nova's host of a server is a claim: where to look, and what ends it. Pure.

All commands that show such a server print the text of ``next_step``.
"""

from __future__ import annotations

from osc_placement.model import command_line
from osc_placement.plan import guards
from osc_placement.workflows.cloud import moves


def next_step(reading: moves.MovesReading, move: moves.ServerMove) -> str:
    """The next step for a server whose guest may be on each of several hosts."""
    hosts = " and ".join(sorted({loss.host for loss in move.losses}))
    look = f"look for the guest on {hosts} (virsh list --all)"
    lines = _lines(reading, move)
    if not lines:
        return look
    (ended, *_) = move.migrations
    if ended.has_failed:
        return f"{look}; if it is on {move.server.host}: {lines[0]}"
    # Nova did not write its record at the end, and no command of nova does. It can only be slow.
    correct = "correct its host and node in nova's database"
    ended_there = f"if it is on {ended.dest_host}, and nova says this still after ten minutes"
    return f"{look}; {ended_there}: {', then '.join([correct, *lines])}"


def commands(reading: moves.MovesReading, move: moves.ServerMove) -> list[str]:
    """The command lines of ``next_step``; none where something is done by hand before."""
    return _lines(reading, move) if move.migrations and move.migrations[0].has_failed else []


def _lines(reading: moves.MovesReading, move: moves.ServerMove) -> list[str]:
    """What ends it, once the guest was found where the text says."""
    server, ended = move.server, move.migrations[0] if move.migrations else None
    if ended is None or not ended.is_over or not move.has_leftovers:
        return []
    consumers = [uuid for uuid in (server.uuid, ended.uuid) if uuid in reading.allocations]
    named = [("--consumer", uuid) for uuid in consumers]
    audit = "placement allocation audit"
    if not ended.has_failed:
        repair = command_line.line(audit, options=[("--repair", None), *named])
        reset = command_line.line("server set", server.uuid, options=moves.RESET)
        return [reset, repair] if server.task_state else [repair]
    if server.task_state:
        return []
    if move.node is not None and move.node.uuid not in reading.providers:
        # Nothing can be moved there before.
        return [command_line.line("placement provider audit", options=[("--host", move.node.host)])]
    vouched = [("--repair", None), ("--allow", guards.CLAIMED_HOST), *named]
    return [command_line.line(audit, options=vouched)]
