# SPDX-License-Identifier: Apache-2.0
"""The planner of moves: a goal is a value that says what to read, and which steps lead there.

``plan`` sends the requests; a goal decides on what was read. A new goal is a class with the
members of ``Goal``; its plan is followed, written as a script and continued as every other one::

    planner.plan(client, plan.DrainRequest(["cmp-1"]), nova, context)
    planner.plan(client, room_plan.RoomRequest(case, "m1.large"), nova, context)
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from osc_placement import errors
from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.nova import values
from osc_placement.scheduling.answer import Caveats
from osc_placement.scheduling.case import GroupMembers, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.search import placing
from osc_placement.workflows.cloud import nova_servers, observe_hosts, source, ways
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.observe_hosts import ServersRead
from osc_placement.workflows.cloud.servers import PlacedServer
from osc_placement.workflows.moving import document, follow, steps
from osc_placement.workflows.moving.places import Moves, Wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """What a goal decides: a plan, and in subclasses what else an operator wants to know."""

    plan: document.MovePlan
    caveats: Caveats


R = TypeVar("R")
P = TypeVar("P", bound=Planned)


class Goal(Protocol[R, P]):
    """What a plan of moves is for."""

    def observe(self, client: api.Client, nova: nova_servers.NovaReader, context: ReadContext) -> R:
        """Read what it decides on. Sends requests."""

    def decide(self, read: R, compute: ServerHosts) -> P:
        """The plan. Pure."""

    def check(self, planned: P, read: R, nova: nova_servers.NovaReader) -> P:
        """The plan, with what only its own steps need to have checked. May send requests."""


def plan(
    client: api.Client,
    goal: Goal[R, P],
    nova: nova_servers.NovaReader,
    context: ReadContext,
    cloud: str = "",
    now: datetime.datetime | None = None,
) -> P:
    """The plan for a goal; ``cloud`` is the operator's name of the cloud.

    A nova that does not show the servers or the migrations is an error: without them, a host may
    look empty.

    Requests: those of the goal. Errors: those of the goal; PlacementError without nova.
    """
    follow.check_nova(nova.compute.not_checked)
    target, now = client.target, now or datetime.datetime.now(datetime.UTC)
    read = goal.observe(client, nova, context)
    planned = goal.check(goal.decide(read, nova.compute), read, nova)
    stamped = dataclasses.replace(
        planned.plan,
        not_checked=planned.caveats.doubts,
        created=now.isoformat(timespec="seconds"),
        target=str(target),
        identity=target.identity,
        cloud=cloud,
    )
    return dataclasses.replace(planned, plan=stamped)


@dataclasses.dataclass(frozen=True, slots=True)
class StepNames:
    """Nova's names of hosts and servers, for the steps of a plan."""

    base: state.CloudState
    compute: ServerHosts
    servers: Mapping[str, values.Server]

    def host(self, root: str) -> str:
        """Nova's name of a host."""
        node = self.compute.node(root)
        return node.host if node else self.base.providers[root].name

    def server(self, uuid: str) -> str:
        """The name of a server; empty if nova shows none."""
        listed = self.servers.get(uuid)
        return listed.name if listed else ""

    def move(
        self, wave: int, server: PlacedServer, option: placing.Option, why: str = ""
    ) -> document.PlannedMove:
        """A step of a plan."""
        return document.PlannedMove(
            wave,
            server.uuid,
            self.server(server.uuid),
            "live" if server.way is Way.LIVE_MIGRATE else "cold",
            self.servers[server.uuid].status,
            self.host(server.root_uuid),
            self.host(option.root_uuid),
            why,
            steps.allocations_of(self.base, option),
        )


def read_every_server(
    client: api.Client,
    nova: nova_servers.NovaReader,
    context: ReadContext,
    aggregates: Collection[str] = (),
) -> ServersRead:
    """All servers of the cloud; ``aggregates`` are those that the operator chose.

    Requests: those of ``source.everything``; to nova and neutron those of ``nova`` for all
    servers. Errors: PlacementError.
    """
    with source.of(client, context).everything(nova.named_aggregates(aggregates)) as base:
        read = observe_hosts.servers_everywhere(base, nova)
    follow.check_nova(filter(None, [read.cloud.servers_problem]))
    return read


def doubts_of_moved(
    planned: document.MovePlan, read: ServersRead, nova: nova_servers.NovaReader
) -> Caveats:
    """What can refuse a server that moves. Requests: those of ``nova`` for these."""
    # What can refuse other servers is no doubt.
    uuids = [move.server for move in planned.moves]
    again = nova.requests(read.cloud, uuids) if uuids else nova_servers.ServerCases()
    unread = (again.groups[uuid].group.name for uuid in again.groups.keys() - read.known.groups)
    late = (
        f"server group {name}: it was not read when the steps were chosen"
        for name in sorted(unread)
    )
    return Caveats((*again.caveats.doubts, *late))


def aimed_moves(
    base: state.CloudState,
    moving: Sequence[PlacedServer],
    groups: Mapping[str, GroupMembers],
    compute: ServerHosts,
    seconds: float,
    more: Iterable[Wanted],
    without: Collection[str] = (),
) -> Moves:
    """Where servers could go by steps that name their targets."""
    return Moves(
        base,
        moving,
        SearchBudget(seconds),
        more,
        without,
        groups,
        compute.refused(base.tree),
        compute.root_of,
        is_aimed=True,
    )


def caveats(
    read: ServersRead,
    compute: ServerHosts,
    moves: Moves,
    leaving: ways.Leaving,
    placed: Sequence[tuple[PlacedServer, placing.Option]],
    among: Collection[str],
) -> Caveats:
    """What was not checked about servers on some hosts, and their targets; each sentence once."""
    doubtful = {server.uuid: leaving.doubtful.get(server.key) for server, _ in placed}
    lines = (
        *compute.not_checked,
        *nova_servers.unallocated(read.base, read.by_state, among).lines(),
        *(f"server {uuid}: {text}" for uuid, text in doubtful.items() if text),
        *doubts_of_targets(moves, placed),
    )
    return Caveats(tuple(dict.fromkeys(lines)))


def named_servers(
    option: str,
    texts: Iterable[str],
    listed: Mapping[str, values.Server],
    before: Collection[str] = (),
) -> frozenset[str]:
    """The servers with these names or UUIDs; those that were named ``before`` may be gone.

    Errors: InvalidInput.
    """
    input_errors = errors.InputErrors()
    uuids: set[str] = set()
    for text in texts:
        named = {uuid for uuid, server in listed.items() if text in (uuid, server.name)}
        if not named and text not in before:
            input_errors.add(f"{option} {text}: no server of the hosts has this name or UUID")
        uuids |= named
    input_errors.check()
    return frozenset(uuids)


def doubts_of_targets(
    moves: Moves, targets: Iterable[tuple[PlacedServer, placing.Option]]
) -> Iterator[str]:
    """Why nova may refuse the targets of servers: each reason once."""
    by_reason: dict[str, list[str]] = {}
    for server, option in targets:
        if not moves.is_sure(server, option.root_uuid):
            why = moves.why_unsure(server, option.root_uuid)
            by_reason.setdefault(why, []).append(server.uuid)
    for why, uuids in by_reason.items():
        yield f"the targets of {nova_servers.named(uuids)}: {why}"
