# SPDX-License-Identifier: Apache-2.0
"""The goal that a flavor fits, and the moves that lead there.

``RoomRequest.observe`` and ``check`` send the requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses

from osc_placement.client import api
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.search import placing
from osc_placement.workflows.cloud import (
    nova_servers,
    servers,
    ways,
)
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.cloud.observe_hosts import ServersRead
from osc_placement.workflows.moving import document, fewest, make_room, places, planner


@dataclasses.dataclass(frozen=True, slots=True)
class RoomPlan(planner.Planned):
    """``fits``: how often the request fits before the moves.

    The moves of ``answer`` are one after the other, each in a wave of its own. What the plan did
    not check can make the answer wrong: what is free, or a move.
    """

    fits: int
    answer: fewest.Fewest


@dataclasses.dataclass(frozen=True, slots=True)
class RoomRequest:
    """The goal that a request fits ``number`` times, with at most ``most_moves`` live moves.

    Servers at rest move that nova moves live, and that are in no server group with affinity.
    ``anew`` is the command line for this goal.
    """

    case: Case
    number: int = 1
    most_moves: int = 10
    seconds: float = 60.0
    anew: str = ""

    def observe(
        self, client: api.Client, nova: nova_servers.NovaReader, context: ReadContext
    ) -> ServersRead:
        """All servers. Requests: those of ``read_every_server``."""
        return planner.read_every_server(client, nova, context)

    def decide(self, read: ServersRead, compute: ServerHosts) -> RoomPlan:
        """The fewest, then the smallest moves."""
        return _decide(read, self, compute)

    def check(
        self, planned: RoomPlan, read: ServersRead, nova: nova_servers.NovaReader
    ) -> RoomPlan:
        """What can refuse a server that moves. Requests: those of ``nova`` for these."""
        of_moved = planner.doubts_of_moved(planned.plan, read, nova)
        return dataclasses.replace(planned, caveats=planned.caveats + of_moved)


COMMAND = "placement capacity make-room"


def _decide(read: ServersRead, request: RoomRequest, compute: ServerHosts) -> RoomPlan:
    base = read.base
    verdicts = HostVerdicts(base, compute)
    wanted = places.Wanted(servers.queries_of(request.case)[:1], verdicts.of(request.case))
    leaving = ways.leaving(read.resting(), read.known.cases, verdicts, (Way.LIVE_MIGRATE,))
    movable = [server for server in leaving.moving if server.way and not server.together]
    groups, seconds = read.known.groups, request.seconds
    moves = planner.aimed_moves(base, movable, groups, compute, seconds, [wanted])
    options = moves.options_of(wanted.kind, ())
    fits = placing.most(options, moves.free((), ())).least
    made = make_room.find(moves, wanted, request.number, movable, request.most_moves)
    steps = made.steps or ()
    names = planner.StepNames(base, compute, read.cloud.listed_servers)
    placed = [(step.server, step.option) for step in steps]
    plan = document.MovePlan(
        (),
        (),
        tuple(names.move(number, step.server, step.option) for number, step in enumerate(steps, 1)),
        command=COMMAND,
        anew=request.anew,
    )
    caveats = planner.caveats(read, compute, moves, leaving, placed, hosts_of(base))
    return RoomPlan(plan, caveats, fits, made)
