# SPDX-License-Identifier: Apache-2.0
"""What became of the steps of a drain plan, by nova and Placement as they are now. Pure.

Nothing is taken from the run of a script: a step is done when its server rests on its target.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api, lookup
from osc_placement.model import command_line
from osc_placement.nova import values
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import (
    guest_search,
    nova_servers,
    observe_hosts,
    server_moves,
    servers,
)
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.server_moves import Phase
from osc_placement.workflows.moving import document


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


def check_nova(problems: Iterable[str]) -> None:
    """Refuse a nova that hides its hosts, servers or migrations: a host may look empty then."""
    if text := "; ".join(problems):
        raise errors.PlacementError(f"a plan of moves needs nova: {text}")


def observe_on(
    client: api.Client,
    hosts: Sequence[str],
    nova: nova_servers.NovaReader,
    context: ReadContext,
    others: Collection[str] = (),
) -> observe_hosts.ServersRead:
    """The servers on hosts, and others wherever they are.

    Requests: those of ``observe_hosts.read``. Errors: PlacementError, also for a nova that hides
    something.
    """
    check_nova(nova.compute.not_checked)
    read = observe_hosts.read(client, hosts, (), nova, context, (), others)
    check_nova(filter(None, [read.cloud.servers_problem]))
    return read


def follow(plan: document.MovePlan, cloud: Cloud) -> list[FollowedStep]:
    """The state of each step; ``cloud`` has the servers of ``plan``."""
    return [_followed(plan, move, cloud) for move in plan.moves]


def _followed(plan: document.MovePlan, move: document.PlannedMove, cloud: Cloud) -> FollowedStep:
    server = cloud.servers.get(move.server)
    if server is None:
        return FollowedStep(move, FollowedState.DELETED, "", "nova has this server no more")
    host = server.host or ""
    if now := _in_motion(cloud, server):
        return FollowedStep(move, now.state, host, ": ".join(filter(None, now[1:])))
    if host == move.target:
        return FollowedStep(move, FollowedState.DONE, host)
    if host in (plan.hosts or (move.source,)):
        return FollowedStep(move, FollowedState.WAITS, host)
    return FollowedStep(move, FollowedState.ELSEWHERE, host, f"planned: {move.target}")


#: What to do about a server that moves. Nova's live_migration_completion_timeout is 800.
_WAIT = "wait for its end"
_WAIT_FOR_LIVE = f"{_WAIT}, by default at most 800 s for each GB of memory and local disk"


class Motion(NamedTuple):
    """Why a server is not at rest, and the command or the sentence that ends it."""

    state: FollowedState
    reason: str
    command: str = ""


def _in_motion(cloud: Cloud, server: values.Server) -> Motion | None:
    """Why a server is not at rest; None if it is."""
    now = server_moves.move_of(cloud, server)
    if now.phase is Phase.DISAGREES:
        return Motion(FollowedState.DISAGREES, now.why(), guest_search.next_step(cloud, now))
    if now.phase is Phase.WAITING:
        confirm = command_line.line("server migration confirm", server.uuid)
        return Motion(FollowedState.CONFIRM, now.why(), confirm)
    if not now.is_settled:
        audit = nova_servers.audit_of_move(cloud, now, server.host or "")
        is_live = any(move.type == server_moves.LIVE for move in now.migrations)
        wait = _WAIT_FOR_LIVE if is_live else _WAIT
        return Motion(FollowedState.MOVING, f"{now.why()}: {audit or wait}")
    if server.status == "ERROR":
        reset = command_line.line("server set", server.uuid, options=server_moves.RESET)
        return Motion(FollowedState.ERROR, "the move failed: if the guest runs", reset)
    return None


def changes(before: document.MovePlan, now: document.MovePlan) -> Iterator[str]:
    """What a new plan does otherwise, one sentence for each server."""
    planned = {move.server: move for move in before.moves}
    for move in now.moves:
        name = move.name or move.server
        if move.server not in planned:
            yield f"{name}: new, to {move.target}"
        elif planned[move.server].target != move.target:
            yield f"{name}: to {move.target} instead of {planned[move.server].target}"
        if move.way != planned.get(move.server, move).way:
            yield f"{name}: {move.way} instead of {planned[move.server].way}"
    for server in now.blocked:
        if server.server in planned:
            yield f"{server.name or server.server}: stays: {'; '.join(server.reasons)}"


class Leftover(NamedTuple):
    """What is left on a host: a server, a consumer or nova-compute, and what ends it."""

    host: str
    name: str
    uuid: str
    reason: str
    command: str


@dataclasses.dataclass(frozen=True, slots=True)
class HostState:
    """What is left on a drained host; ``is_gone``: neither nova nor Placement has it."""

    host: str
    left: tuple[Leftover, ...] = ()
    is_gone: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nova and Placement agree that nothing is there, and nothing comes there."""
        return not self.left


def verify_empty(
    client: api.Client,
    hosts: Mapping[str, str],
    nova: nova_servers.NovaReader,
    context: ReadContext,
    again: str = "",
) -> list[HostState]:
    """What is left on each host, ``{name or UUID of its root provider: nova's name}``.

    ``again`` is the command that plans the rest of a plan.
    Requests: those of ``observe_hosts.read``, and those of ``find_providers`` for hosts that nova
    does not have. Errors: PlacementError.
    """
    check_nova(nova.compute.not_checked)
    absent = [root for root, host in hosts.items() if host and nova.compute.node(root) is None]
    gone = set(absent) - lookup.find_providers(client, absent).keys()
    states = [
        HostState(hosts[root], tuple(_enabled(hosts[root], nova.compute)), is_gone=True)
        for root in hosts
        if root in gone
    ]
    named = [root for root in hosts if root not in gone]
    if not named:
        return states
    read = observe_on(client, named, nova, context)
    return [*states, *host_states(read, nova.compute, again)]


def host_states(
    read: observe_hosts.ServersRead, compute: ServerHosts, again: str = ""
) -> Iterator[HostState]:
    """What is left on the hosts that were read."""
    by_state, cloud = read.by_state, read.cloud
    why = {**dict.fromkeys(by_state.resting, "it is there"), **by_state.held, **by_state.doubtful}
    for root in read.roots:
        node = compute.node(root)
        host = node.host if node else read.base.providers[root].name
        on_host = sorted(uuid for uuid, own in why if own == root)
        left = [*_enabled(host, compute)]
        for uuid in on_host:
            server = cloud.servers[uuid]
            drain = again or command_line.line("placement host drain", host)
            reason, command = why[uuid, root], drain
            if now := _in_motion(cloud, server):
                reason, command = now.reason, now.command
            left.append(Leftover(host, server.name, uuid, reason, command))
        for uuid in sorted(set(servers.consumers_on(read.base, root)).difference(on_host)):
            left.append(_consumer(cloud, host, uuid))
        yield HostState(host, tuple(left))


def _enabled(host: str, compute: ServerHosts) -> Iterator[Leftover]:
    """Nova-compute of a host, while it lets servers come."""
    service = compute.service_of(host)
    if service is not None and service.is_reachable and service.is_enabled:
        options = [("--disable", None), ("--disable-reason", document.REASON)]
        command = command_line.line("compute service set", host, "nova-compute", options=options)
        yield Leftover(host, "nova-compute", "", "it is enabled, so servers may come", command)


def _consumer(cloud: Cloud, host: str, uuid: str) -> Leftover:
    """A consumer with allocations on a host on which it is no server."""
    server, migration = cloud.servers.get(uuid), cloud.migrations.get(uuid)
    reason = "nova lists neither a server nor a migration of this UUID"
    if migration is not None:
        server = cloud.servers.get(migration.server_uuid)
        reason = f"its {migration.type} is {migration.status}, and has allocations here"
    elif server is not None:
        reason = f"nova has it on {server.host}, and it has allocations here"
    of_host = ("--host", host)
    options = (("--repair", None), of_host)
    command = command_line.line("placement allocation audit", options=options)
    if server is None:
        return Leftover(host, "", uuid, reason, command)
    now = _in_motion(cloud, server)
    if now is not None and now.state is not FollowedState.ERROR:
        reason, command = f"{reason}: {now.reason}", now.command
    elif any(map(server_moves.is_uncleaned, cloud.migrations_of.get(server.uuid, ()))):
        reason, command = f"{reason}: nova-compute of {host} removes them when it starts", ""
    elif server.host and cloud.node_of(server) is None:
        reason = f"nova has it on {server.host}, and lists no compute node of this host"
        command = command_line.line("placement provider audit", options=[of_host])
    return Leftover(host, server.name, uuid, reason, command)
