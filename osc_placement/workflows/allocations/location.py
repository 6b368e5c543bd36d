"""Where a server is, and whether it stays there: what healing and auditing ask first. Pure.

As nova moves servers since Queens: a server's consumer holds the destination and the
migration's the source, from the claim until the move is confirmed, reverted or over. An
evacuation alone leaves both to the server, until nova-compute comes back at the source and
cleans up: ``done`` then becomes ``completed``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from osc_placement.nova import values
from osc_placement.workflows.allocations import snapshot as observed

EVACUATION = "evacuation"
_DONE = "done"

OFFLOADED = "it is shelved offloaded, on no host"
NO_HOST = "it is on no host"
BUILDING = "it is being built, and on no host yet"
CELL_DOWN = "its cell is down: nova cannot tell of it"
_NO_NODE = "nova lists no compute node {node} of host {host}"
_BUSY = "its task state is {task}"
_VERIFY = "its {move} waits to be confirmed or reverted"
_MOVES = "its {move} is {status}"


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """A server's, now.

    ``moving`` says why nothing of it may be judged or changed; empty when it is at rest.
    ``node`` is where it is; where that is None, ``absent`` says why. ``roots`` are the
    roots of the trees on which its consumer may hold something now: its node's, both ends'
    of a move, the source's of an evacuation that was not cleaned up. ``shared`` are those of
    the providers that share with these trees. ``anywhere``: there may be others.
    """

    moving: str = ""
    node: values.ComputeNode | None = None
    absent: str = ""
    roots: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    anywhere: bool = False

    def may_hold(self, root_uuid: str) -> bool:
        """Whether the server's consumer may hold something on a tree, by its root."""
        return self.anywhere or root_uuid in self.roots or root_uuid in self.shared


def of(picture: observed.CloudSnapshot, server: values.Server) -> Situation:
    """The situation of a server that is not deleted; a soft-deleted one is on its host."""
    moves = [item for item in picture.moves.get(server.uuid, ()) if not item.is_over]
    node = picture.node_of(server)
    ends = [node, *_ends(picture, moves), *_uncleaned(picture, server)]
    roots = frozenset(picture.root_of(end.uuid) for end in ends if end)
    moving = _why_moving(server, moves, picture.hosts)
    absent = "" if node else _why_absent(server)
    return Situation(
        moving=moving,
        node=node,
        absent=absent,
        roots=roots,
        shared=frozenset(_shared(picture, roots)),
        # Who is busy without a move that tells where to may be at the beginning of one.
        anywhere=bool(moving and (None in ends or not moves)) or absent not in _KNOWN,
    )


#: Why a server has no node, where that is certain; empty when it has one.
_KNOWN = frozenset({"", OFFLOADED, NO_HOST})


def _why_moving(
    server: values.Server, moves: Sequence[values.Migration], hosts: values.Hosts
) -> str:
    if not server.known or server.host in hosts.unreachable:
        return CELL_DOWN
    if moves:
        return describe(moves[0])
    if server.task_state:
        return _BUSY.format(task=server.task_state)
    if server.vm_state == "building" and not server.host:
        return BUILDING
    if server.vm_state == "resized":
        return _VERIFY.format(move="resize")
    return ""


def describe(move: values.Migration) -> str:
    """What a migration that is not over does to its server."""
    told = _VERIFY if move.status == "finished" else _MOVES
    return told.format(move=move.type, status=move.status)


def _why_absent(server: values.Server) -> str:
    if server.vm_state == "shelved_offloaded":
        return OFFLOADED
    if not server.host:
        return NO_HOST
    return _NO_NODE.format(node=server.node, host=server.host)


def _ends(
    picture: observed.CloudSnapshot, moves: Sequence[values.Migration]
) -> Iterator[values.ComputeNode | None]:
    """Both ends of each move; None for one that is not known (yet)."""
    for move in moves:
        yield picture.node_at(move.source_host, move.source_node)
        yield picture.node_at(move.dest_host, move.dest_node)


def _uncleaned(
    picture: observed.CloudSnapshot, server: values.Server
) -> Iterator[values.ComputeNode]:
    """Hosts that it was evacuated from, and that have not cleaned up; gone ones never will."""
    for move in picture.moves.get(server.uuid, ()):
        if (move.type, move.status) == (EVACUATION, _DONE):
            node = picture.node_at(move.source_host, move.source_node)
            if node:
                yield node


def _shared(picture: observed.CloudSnapshot, roots: frozenset[str]) -> Iterator[str]:
    for root in roots:
        yield from map(picture.root_of, picture.sharing.get(root, ()))
