# SPDX-License-Identifier: Apache-2.0
"""The plan that makes room for a flavor: reads both services, and decides which servers move.

``plan`` sends the requests; the rest is pure.
"""

from __future__ import annotations

import contextlib
import dataclasses

from osc_placement import errors
from osc_placement.client import api
from osc_placement.engine import state
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.scheduling.case import Case, Way
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.search import placing
from osc_placement.workflows.cloud import (
    nova_servers,
    observe,
    observe_hosts,
    servers,
    ways,
)
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import document, make_room, places, steps
from osc_placement.workflows.snapshot import replay


@dataclasses.dataclass(frozen=True, slots=True)
class RoomRequest:
    """Make room so that a request fits ``number`` times, with at most ``most_moves`` moves."""

    case: Case
    number: int = 1
    most_moves: int = 10
    seconds: float = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class RoomPlan:
    """``fits``: how often the request fits before the moves.

    ``moves`` are None if none were found; one after the other, each in a wave of its own. Fewer
    than ``at_least`` moves are not enough. ``is_smallest``: no plan with as many moves has smaller
    servers. ``not_checked`` can make the answer wrong: what is free, or a move.
    """

    fits: int
    moves: tuple[document.PlannedMove, ...] | None
    at_least: int
    is_smallest: bool
    not_checked: tuple[str, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Whether fewer moves are not enough."""
        return self.moves is not None and len(self.moves) == self.at_least


def plan(
    client: api.Client, request: RoomRequest, nova: nova_servers.NovaReader, context: ReadContext
) -> RoomPlan:
    """The fewest, then the smallest live moves after which the request fits.

    Servers at rest move that nova moves live, and that are in no server group with affinity.

    Requests: to a service those of ``snapshot.save``; to nova and neutron those of ``nova`` for all
    servers, and for those that move. Errors: PlacementError without nova.
    """
    if nova.compute.hosts is None:
        raise errors.PlacementError(
            f"moves of servers need nova: {'; '.join(nova.compute.not_checked)}"
        )
    with contextlib.ExitStack() as stack:
        if not observe.is_file(client):
            client = stack.enter_context(replay.copied(client, context))
        base = stack.enter_context(observe.file_state(client, "placement capacity make-room"))
        known, on_hosts, stand = observe_hosts.servers_everywhere(base, nova)
        if on_hosts.problem:
            raise errors.PlacementError(f"moves of servers need nova: {on_hosts.problem}")
        made = _decide(base, request, nova.compute, (known, on_hosts, stand))
        if not made.moves:
            return made
        # What can refuse other servers than those that move is no doubt.
        of_moved = nova.requests(on_hosts, [move.server for move in made.moves]).doubts
        return dataclasses.replace(made, not_checked=(*made.not_checked, *of_moved))


def _decide(
    base: state.CloudState,
    request: RoomRequest,
    compute: ServerHosts,
    read: tuple[nova_servers.KnownServers, nova_servers.ServersOnHosts, nova_servers.Standing],
) -> RoomPlan:
    known, on_hosts, stand = read
    placed = servers.servers_on(base, hosts_of(base), known.cases, known.groups, known.migrations)
    verdicts = HostVerdicts(base, compute)
    wanted = places.Wanted(servers.queries_of(request.case)[:1], verdicts.of(request.case))
    leaving = ways.leaving(
        (each for each in placed if (each.uuid, each.root_uuid) in stand.resting),
        known.cases,
        verdicts,
        (Way.LIVE_MIGRATE,),
    )
    movable = [each for each in leaving.moving if each.way and not each.together]
    found = places.Moves(
        base,
        movable,
        SearchBudget(request.seconds),
        [wanted],
        groups=known.groups,
        refused=compute.refused(base.tree),
        root_of=compute.root_of,
        is_aimed=True,
    )
    options = found.options_of(wanted.kind, ())
    now = placing.most(options, found.free((), ())).least
    made = make_room.find(found, wanted, request.number, movable, request.most_moves)

    def host(root: str) -> str:
        node = compute.node(root)
        return node.host if node else base.providers[root].name

    planned = None
    if made.moves is not None:
        planned = tuple(
            document.PlannedMove(
                number,
                move.server.uuid,
                on_hosts.servers[move.server.uuid].name,
                "live",
                on_hosts.servers[move.server.uuid].status,
                host(move.server.root_uuid),
                host(move.option.root_uuid),
                "",
                steps.allocations_of(base, move.option),
            )
            for number, move in enumerate(made.moves, 1)
        )
    not_checked = [
        *compute.not_checked,
        *nova_servers.unallocated(base, stand, hosts_of(base)).lines(),
    ]
    for move in made.moves or ():
        server, target = move.server, move.option.root_uuid
        texts = [leaving.doubtful.get(server.key, "")]
        if not found.is_sure(server, target):
            texts.append(found.why_unsure(server, target))
        not_checked += (f"server {server.uuid}: {text}" for text in texts if text)
    return RoomPlan(
        now, planned, made.at_least, made.is_smallest, tuple(dict.fromkeys(not_checked))
    )
