# SPDX-License-Identifier: Apache-2.0
"""What became of the steps of a drain plan, by nova and Placement as they are now. Pure.

Nothing is taken from the run of a script: a step is done when its server rests on its target.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

from osc_placement.model import command_line
from osc_placement.nova import values
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import (
    guest_search,
    nova_servers,
    server_moves,
    servers,
)
from osc_placement.workflows.cloud.server_moves import Phase
from osc_placement.workflows.moving import document
from osc_placement.workflows.moving.plan import Drain


class FollowedState(enum.StrEnum):
    """What became of a step."""

    DONE = "done"
    #: It rests on a host that is not drained, but not on its target.
    ELSEWHERE = "elsewhere"
    WAITS = "waits"
    MOVING = "moving"
    CONFIRM = "confirm"
    #: Nova's server and its migration contradict each other.
    DISAGREES = "disagrees"
    ERROR = "error"
    DELETED = "deleted"


@dataclasses.dataclass(frozen=True, slots=True)
class FollowedStep:
    """A step of a plan; ``host`` is nova's, ``advice`` a sentence or a command."""

    move: document.PlannedMove
    state: FollowedState
    host: str
    advice: str = ""


def follow(plan: document.DrainPlan, drain: Drain, compute: ServerHosts) -> list[FollowedStep]:
    """The state of each step; ``drain`` was read with the servers of ``plan``."""
    reading = nova_servers.reading_of(drain.read.base, drain.read.on_hosts, compute)
    return [_followed(plan, move, reading) for move in plan.moves]


def _followed(
    plan: document.DrainPlan, move: document.PlannedMove, reading: server_moves.MovesReading
) -> FollowedStep:
    server = reading.servers.get(move.server)
    if server is None:
        return FollowedStep(move, FollowedState.DELETED, "", "nova has this server no more")
    state, advice = _state(plan, move, server, reading)
    return FollowedStep(move, state, server.host or "", advice)


def _state(
    plan: document.DrainPlan,
    move: document.PlannedMove,
    server: values.Server,
    reading: server_moves.MovesReading,
) -> tuple[FollowedState, str]:
    now = server_moves.move_of(reading, server)
    if now.phase is Phase.DISAGREES:
        return FollowedState.DISAGREES, f"{now.why()}: {guest_search.next_step(reading, now)}"
    if now.phase is Phase.WAITING:
        return FollowedState.CONFIRM, command_line.line("server migration confirm", server.uuid)
    if not now.is_settled:
        return FollowedState.MOVING, now.why()
    if server.status == "ERROR":
        reset = command_line.line("server set", server.uuid, options=server_moves.RESET)
        return FollowedState.ERROR, f"the move failed: if the guest runs, {reset}"
    if server.host == move.target:
        return FollowedState.DONE, ""
    if server.host in plan.hosts:
        return FollowedState.WAITS, ""
    return FollowedState.ELSEWHERE, f"planned: {move.target}"


def changes(before: document.DrainPlan, now: document.DrainPlan) -> Iterator[str]:
    """What a new plan does otherwise, one sentence for each server."""
    planned = {move.server: move for move in before.moves}
    for move in now.moves:
        name = move.name or move.server
        if move.server not in planned:
            yield f"{name}: new, to {move.target}"
        elif planned[move.server].target != move.target:
            yield f"{name}: to {move.target} instead of {planned[move.server].target}"
    for server in now.blocked:
        if server.server in planned:
            yield f"{server.name or server.server}: stays: {'; '.join(server.reasons)}"


@dataclasses.dataclass(frozen=True, slots=True)
class HostState:
    """What is on a drained host: servers by nova, and consumers in Placement."""

    host: str
    servers: tuple[str, ...]
    consumers: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nova and Placement agree that nothing is there."""
        return not self.servers and not self.consumers


def host_states(drain: Drain, compute: ServerHosts) -> list[HostState]:
    """What nova and Placement have on each host of the plan."""
    read = drain.read
    stand = nova_servers.standing(read.base, read.on_hosts, compute)
    on_hosts = [*stand.resting, *stand.held, *stand.doubtful]
    return [
        HostState(
            host,
            tuple(sorted({uuid for uuid, own in on_hosts if own == root})),
            tuple(sorted(servers.consumers_on(read.base, root))),
        )
        for root, host in zip(drain.plan.nodes, drain.plan.hosts, strict=True)
    ]


def leftovers(states: Sequence[HostState]) -> Iterator[str]:
    """The command for allocations on hosts that have no server any more."""
    for state in states:
        if state.consumers and not state.servers:
            options = (("--repair", None), ("--host", state.host))
            yield command_line.line("placement allocation audit", options=options)
