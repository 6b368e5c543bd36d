# SPDX-License-Identifier: Apache-2.0
"""Nova's request for the move of a server: what its API and conductor add to the scheduler's query.

The server keeps its allocations until the move is over, so they count as used. Nova leaves out the
source, except of a resize with ``allow_resize_to_same_host``; a target that the operator names is
the only tree of the query. Ports, pinned zone and server group are those of the server.
"""

from __future__ import annotations

import dataclasses
import enum

from osc_placement import errors
from osc_placement.model import command_line
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.nova import api, flavor, servers, values
from osc_placement.scheduling import request
from osc_placement.workflows.cloud import compute_nodes, nova_request, nova_servers, server_moves


class MoveKind(enum.StrEnum):
    """An action of nova that asks the scheduler for a host."""

    LIVE_MIGRATE = "live-migrate"
    MIGRATE = "migrate"
    RESIZE = "resize"
    EVACUATE = "evacuate"
    UNSHELVE = "unshelve"


@dataclasses.dataclass(frozen=True, slots=True)
class MoveRequest:
    """A move, by names: its target, if the operator chooses it, and the flavor of a resize."""

    kind: MoveKind
    to_host: str | None = None
    to_flavor: str | None = None


#: The states of a server that nova accepts for each move. Only an evacuation may have a task.
_STATES = {
    MoveKind.LIVE_MIGRATE: ("active", "paused"),
    MoveKind.MIGRATE: ("active", "stopped"),
    MoveKind.RESIZE: ("active", "stopped"),
    MoveKind.EVACUATE: ("active", "stopped", "error"),
    MoveKind.UNSHELVE: ("shelved_offloaded",),
}
_FROM_HOST = _STATES.keys() - {MoveKind.UNSHELVE}
_NOT_GIVEN = "nova.conf is not given: allow_resize_to_same_host is off"


def plan(
    services: nova_request.RequestServices,
    options: nova_request.RequestOptions,
    move: MoveRequest,
    compute: compute_nodes.ServerHosts,
) -> tuple[list[request.NovaRequest], compute_nodes.ServerHosts]:
    """The requests for a move of the server of ``options``, and the hosts that nova may choose.

    Requests: those of ``observe_request``; to nova one per 1000 migrations of the server, and for a
    resize one per 1000 flavors. Errors: InvalidInput for what does not exist, and for a move that
    nova refuses whatever the target; PlacementError without nova's hosts.
    """
    if compute.hosts is None:
        raise errors.PlacementError(f"--for needs nova's hosts: {'; '.join(compute.not_checked)}")
    server = nova_request.read_server(services.nova, options)
    why = _why_refused(server, move.kind, compute.hosts)
    errors.InputErrors([f"{nova_servers.label(server)}: {why}"] if why else ()).check()
    node = None if move.to_host is None else _target(move.to_host, server, compute.hosts)
    may_stay = options.scheduler.allow_resize_to_same_host if move.to_flavor else False
    assumed = () if may_stay is not None else (_NOT_GIVEN,)
    doubts, notes = _earlier_moves(services.nova, server, compute.hosts)
    options = dataclasses.replace(options, server=server, flavor=move.to_flavor)
    found = [
        dataclasses.replace(
            _aimed(single, node) if node else single,
            assumptions=(*single.assumptions, *assumed),
            not_checked=(*single.not_checked, *doubts),
            notes=(*single.notes, *notes),
        )
        for single in nova_request.observe_request(services, options)
    ]
    return found, compute if may_stay else compute_nodes.ServerHosts(
        compute.hosts, source=server.host or "", is_live=move.kind is MoveKind.LIVE_MIGRATE
    )


def _why_refused(server: values.Server, kind: MoveKind, hosts: values.Hosts) -> str:
    """Why nova refuses a move before it asks the scheduler; empty if it does not."""
    host, evacuates, is_placed = server.host, kind is MoveKind.EVACUATE, kind in _FROM_HOST
    service = next((one for one in hosts.compute_services if one.host == host), None)
    is_up = service is not None and service.is_reachable and service.is_up
    down = command_line.line(
        "compute service set", host or "", "nova-compute", options=[("--down", None)]
    )
    states = " or ".join(_STATES[kind])
    reasons = {
        "its cell is down": not server.known,
        f"nova starts it on {host}, without the scheduler": not is_placed
        and server.vm_state == "shelved",
        f"{kind} needs a server that is {states}, and it is {server.vm_state}": (
            server.vm_state not in _STATES[kind]
        ),
        f"nova refuses to {kind} it while its task is {server.task_state}": server.task_state
        and not evacuates,
        "it is on no host": is_placed and not host,
        "nova does not move a server of an Ironic node": any(
            node.is_ironic for node in hosts.of_host().get(host or "", ())
        ),
        f"nova-compute on {host} is up, and nova evacuates only from a host that is down; if it is"
        f" really off: {down}": evacuates and is_up,
        f"nova-compute on {host} is not up; if the host is off: --for evacuate": is_placed
        and not evacuates
        and not is_up,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _target(text: str, server: values.Server, hosts: values.Hosts) -> values.ComputeNode:
    """The compute node that nova's query names. Errors: InvalidInput."""
    (host,) = compute_nodes.host_names([text], hosts)
    nodes = hosts.of_host().get(host, [])
    problems = compute_nodes.unknown_hosts([host], hosts.of_host())
    if host == server.host:
        problems = [f"{host} is the source: the server is there; name another target"]
    elif len(nodes) > 1:
        problems = [f"{host} has several compute nodes: nova moves no server to such a host"]
    errors.InputErrors(problems).check()
    return nodes[0]


def _aimed(asked: request.NovaRequest, node: values.ComputeNode) -> request.NovaRequest:
    """The request with the target as its only tree."""
    first, *others = asked.query.groups
    groups = (dataclasses.replace(first, in_tree=node.uuid), *others)
    constraint = Constraint(Kind.IN_TREE, first.suffix, (node.uuid,))
    return dataclasses.replace(
        asked,
        query=dataclasses.replace(asked.query, groups=groups),
        sources={**asked.sources, constraint: flavor.Source("requested destination", node.host)},
    )


def _earlier_moves(
    nova: api.Nova, server: values.Server, hosts: values.Hosts
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``(doubts, notes)`` about the migrations that the server has had."""
    try:
        listed = servers.migrations(nova, instance_uuid=server.uuid)
    except errors.PlacementError as error:
        return (f"whether an earlier move of the server is over: {error}",), ()
    by_uuid = {one.uuid: one for one in listed}
    reading = server_moves.MovesReading(
        hosts, {}, servers={server.uuid: server}, migrations=by_uuid
    )
    move = server_moves.move_of(reading, server)
    if move.is_settled or not move.migrations:
        return (), ()
    text = f"the server: {move.why()}"
    # Where nova's host is a claim, a move from there may find no guest.
    return ((), (text,)) if all(loss.is_certain for loss in move.losses) else ((text,), ())
