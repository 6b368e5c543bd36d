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
from osc_placement.model import candidate
from osc_placement.search import placing
from osc_placement.workflows.cloud import (
    compute_nodes,
    nova_servers,
    observe,
    observe_hosts,
    servers,
)
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving import document, make_room, places, steps
from osc_placement.workflows.snapshot import replay


@dataclasses.dataclass(frozen=True, slots=True)
class RoomRequest:
    """Make room so that ``query`` fits ``number`` times, with at most ``most_moves`` moves."""

    query: candidate.CandidateQuery
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

    Servers at rest move that are active or paused, on hosts whose nova-compute is up, and that are
    in no server group with affinity.

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
    compute: compute_nodes.ServerHosts,
    read: tuple[nova_servers.KnownServers, nova_servers.ServersOnHosts, nova_servers.Standing],
) -> RoomPlan:
    known, on_hosts, stand = read
    every = servers.servers_on(base, hosts_of(base), known.queries, known.groups, known.migrations)
    movable = [
        dataclasses.replace(each, barred=compute.refused_live(each.root_uuid))
        for each in every
        if _is_movable(each, compute, stand)
    ]
    found = places.Moves(
        base,
        movable,
        SearchBudget(request.seconds),
        [request.query],
        groups=known.groups,
        refused=compute.refused(base.tree),
    )
    options = found.options_of(servers.kind_of(request.query), ())
    now = placing.most(options, found.free((), ())).least
    made = make_room.find(found, request.query, request.number, movable, request.most_moves)

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
        not_checked += (f"{text} of server {move.server.uuid}" for text in move.server.unknown)
    return RoomPlan(
        now, planned, made.at_least, made.is_smallest, tuple(dict.fromkeys(not_checked))
    )


def _is_movable(
    server: servers.PlacedServer,
    compute: compute_nodes.ServerHosts,
    stand: nova_servers.Standing,
) -> bool:
    listed = stand.resting.get((server.uuid, server.root_uuid))
    if listed is None or listed.vm_state not in nova_servers.LIVE or server.together:
        return False
    node = compute.node(server.root_uuid)
    if node is None or nova_servers.why_staying(listed, node):
        return False
    return compute.is_up(server.root_uuid)
