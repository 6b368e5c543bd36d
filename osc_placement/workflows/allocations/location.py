"""Where a server is, whether it is moving, and on which trees it may hold allocations. Pure.

Since Queens, a migration's consumer holds the source and the server's the destination, from the
claim until the move is confirmed, reverted or over. In an evacuation the server's consumer holds
both, until nova-compute restarts on the source and cleans up: ``done`` becomes ``completed``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from osc_placement.nova import values
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations.snapshot import CloudSnapshot

EVACUATION = "evacuation"
_DONE = "done"

OFFLOADED = Reason(Code.NO_HOST, "it is shelved offloaded, on no host")
NO_HOST = Reason(Code.NO_HOST, "it is on no host")
BUILDING = Reason(Code.BUILDING, "it is being built, and on no host yet")
CELL_DOWN = Reason(Code.CELL_DOWN, "its cell is down: nova does not report it")
_NO_NODE = "nova lists no compute node {node} of host {host}"
_BUSY = "its task state is {task}"
_VERIFY = "its {move} waits to be confirmed or reverted"
_MOVES = "its {move} is {status}"

_SOFT_DELETED = Reason(Code.SOFT_DELETED, "it is soft-deleted: restore it, then heal it")
_NO_PROVIDER = "its host has no resource provider: nova-compute on {host} creates it at its start"
_OTHER_UUID = "the provider {name} has another UUID than the compute node of that name"
_READ_ERROR = "the allocations on {name} cannot be read: {why}"

#: Why a server certainly needs no allocations.
ON_NO_HOST = frozenset({OFFLOADED, NO_HOST})


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """A server's location at the time of the snapshot.

    ``moving``: why the server must not be judged or changed now; empty at rest.
    ``node``: its compute node; if None, ``absent`` is the reason. ``roots``: the roots of the
    trees on which its consumer may hold allocations: its node's, both ends' of a move, and the
    source's of an evacuation before the clean-up. ``shared``: the roots of providers that share
    with these trees. ``anywhere``: other trees are possible too.
    """

    moving: Reason = reasons.NONE
    node: values.ComputeNode | None = None
    absent: Reason = reasons.NONE
    roots: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    anywhere: bool = False

    def may_hold(self, root_uuid: str) -> bool:
        """Whether the server's consumer may hold allocations on the tree of this root."""
        return self.anywhere or root_uuid in self.roots or root_uuid in self.shared


def locate(snapshot: CloudSnapshot, server: values.Server) -> Location:
    """The location of a server that is not deleted; a soft-deleted one is on its host."""
    moves = [move for move in snapshot.migrations_of.get(server.uuid, ()) if not move.is_over]
    node = snapshot.node_of(server)
    ends = [node, *_ends(snapshot, moves), *_evacuated_from(snapshot, server)]
    roots = frozenset(snapshot.root_of(end.uuid) for end in ends if end)
    moving = _why_moving(server, moves, snapshot.hosts)
    absent = reasons.NONE if node else _why_absent(server)
    return Location(
        moving=moving,
        node=node,
        absent=absent,
        roots=roots,
        shared=frozenset(_shared(snapshot, roots)),
        # A task without a migration may be the start of a move to an unknown destination.
        anywhere=bool(moving and (None in ends or not moves))
        or absent not in {reasons.NONE, *ON_NO_HOST},
    )


def elsewhere(snapshot: CloudSnapshot, server: values.Server, location: Location) -> list[str]:
    """The providers on which a server holds allocations though it is not there, by UUID."""
    held = snapshot.allocations.get(server.uuid, {})
    return [uuid for uuid in held if not location.may_hold(snapshot.root_of(uuid))]


def skip_reason(snapshot: CloudSnapshot, server: values.Server, location: Location) -> Reason:
    """Why a server's allocations cannot be judged now; empty if they can."""
    if location.moving:
        return location.moving
    if server.vm_state == "soft-delete":
        return _SOFT_DELETED
    if location.node is None:
        return location.absent
    node = location.node
    if node.uuid not in snapshot.providers:
        same_name = any(
            each.name == node.hostname and each.parent_uuid is None
            for each in snapshot.providers.values()
        )
        if same_name:
            return Reason(Code.OTHER_UUID, _OTHER_UUID.format(name=node.hostname))
        return Reason(Code.NO_PROVIDER, _NO_PROVIDER.format(host=node.host))
    for each in snapshot.trees.get(node.uuid, ()):
        if each.uuid in snapshot.read_errors:
            text = _READ_ERROR.format(name=each.name, why=snapshot.read_errors[each.uuid])
            return Reason(Code.UNREADABLE, text)
    return reasons.NONE


def root_to_heal(snapshot: CloudSnapshot, server: values.Server) -> str | None:
    """The UUID of the root provider to heal a server on; None if ``skip_reason`` has a reason."""
    location = locate(snapshot, server)
    if location.node is None or skip_reason(snapshot, server, location):
        return None
    return location.node.uuid


def describe(move: values.Migration) -> Reason:
    """What an open migration does to its server."""
    text = _VERIFY if move.status == "finished" else _MOVES
    return Reason(Code.MOVING, text.format(move=move.type, status=move.status))


def _why_moving(
    server: values.Server, moves: Sequence[values.Migration], hosts: values.Hosts
) -> Reason:
    if not server.known or server.host in hosts.unreachable:
        return CELL_DOWN
    if moves:
        return describe(moves[0])
    if server.task_state:
        return Reason(Code.BUSY, _BUSY.format(task=server.task_state))
    if server.vm_state == "building" and not server.host:
        return BUILDING
    if server.vm_state == "resized":
        return Reason(Code.MOVING, _VERIFY.format(move="resize"))
    return reasons.NONE


def _why_absent(server: values.Server) -> Reason:
    if server.vm_state == "shelved_offloaded":
        return OFFLOADED
    if not server.host:
        return NO_HOST
    text = _NO_NODE.format(node=server.node, host=server.host)
    return Reason(Code.NO_COMPUTE_NODE, text)


def _ends(
    snapshot: CloudSnapshot, moves: Sequence[values.Migration]
) -> Iterator[values.ComputeNode | None]:
    """Source and destination of each move; None for a node that is not known yet."""
    for move in moves:
        yield snapshot.node_at(move.source_host, move.source_node)
        yield snapshot.node_at(move.dest_host, move.dest_node)


def _evacuated_from(snapshot: CloudSnapshot, server: values.Server) -> Iterator[values.ComputeNode]:
    """The sources of evacuations before the clean-up. A deleted node never cleans up."""
    for move in snapshot.migrations_of.get(server.uuid, ()):
        if (move.type, move.status) == (EVACUATION, _DONE):
            node = snapshot.node_at(move.source_host, move.source_node)
            if node:
                yield node


def _shared(snapshot: CloudSnapshot, roots: frozenset[str]) -> Iterator[str]:
    for root in roots:
        yield from map(snapshot.root_of, snapshot.sharing.get(root, ()))
