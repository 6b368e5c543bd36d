# SPDX-License-Identifier: Apache-2.0
"""Where the guest of each server may run, and who holds what while it moves. Pure.

One reading of nova (servers, migrations, compute nodes) and of Placement (allocations) gives for
each server a ``ServerMove``: the phase of its move and since when, what the loss of each host would
cost it, and the consumers that hold allocations for it. Nova's host of a server is not enough: from
the claim until a move is confirmed, reverted or over, the migration's consumer holds the source and
the server's the destination, and a live migration shows the source until the guest is over. In an
evacuation the server's consumer holds both, until nova-compute restarts on the source and cleans
up: ``done`` becomes ``completed``.

How to use it. ``move_of(reading, server)`` answers for one server; ``losses_on(reading, nodes)``
gives the servers of some hosts, which are those that lose something when these hosts stop.
``Cloud`` of heal and audit is a ``Cloud``. For others, fill ``Cloud`` with
nova's hosts, the providers, the servers and migrations, and the allocations of their consumers:
without these, a move that failed cannot be told from one that was rolled back. Who holds the
capacity of a host: ``holders_on(reading, root)`` names each consumer there with what nova knows of
it; one with ``is_leaked`` is left over, and ``placement allocation audit --repair`` removes it.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud.cloud import Cloud

LIVE, COLD, RESIZE, EVACUATION = "live-migration", "migration", "resize", "evacuation"


class Phase(enum.StrEnum):
    """The phase of a server's move.

    DISAGREES: nova's server and its migration contradict each other, or the migration failed and
    Placement still holds both ends. Nova's host of the server is a claim then.
    """

    AT_REST = "at-rest"
    BUSY = "busy"
    ASKED_FOR = "asked-for"
    RUNNING = "running"
    WAITING = "waiting-for-confirmation"
    OVER = "over-with-leftovers"
    DISAGREES = "disagrees"
    UNKNOWN = "unknown"


class Cost(enum.IntEnum):
    """What a server loses when a host stops, the cheapest first."""

    NOTHING = 0
    CLEAN_UP = 1
    MOVE = 2
    REVERT = 3
    GUEST = 4

    @property
    def text(self) -> str:
        """As in "cmp-1 must not stop: ..."."""
        return _COST_TEXTS[self]


_COST_TEXTS = {
    Cost.NOTHING: "nothing",
    Cost.CLEAN_UP: "the clean-up after its move",
    Cost.MOVE: "its move",
    Cost.REVERT: "its way back",
    Cost.GUEST: "the guest or its data",
}


class StatusRow(NamedTuple):
    """What an open migration means: its phase, and the cost of the loss of each end."""

    phase: Phase
    source: Cost
    destination: Cost


_ASKED = StatusRow(Phase.ASKED_FOR, Cost.GUEST, Cost.MOVE)
_BOTH = StatusRow(Phase.RUNNING, Cost.GUEST, Cost.GUEST)
_COPYING = StatusRow(Phase.RUNNING, Cost.GUEST, Cost.MOVE)
_COLD_ROWS = {
    "accepted": _ASKED,
    "queued": _ASKED,
    "pre-migrating": _ASKED,
    "migrating": _COPYING,
    "post-migrating": _BOTH,
    "finished": StatusRow(Phase.WAITING, Cost.REVERT, Cost.GUEST),
    "confirming": StatusRow(Phase.RUNNING, Cost.CLEAN_UP, Cost.GUEST),
    "reverting": _BOTH,
}

#: ``{migration type: {status: row}}`` for the statuses of open migrations, as nova 27 to 34 set
#: them. A status that is not in the table counts as ``_BOTH``.
TABLE: Mapping[str, Mapping[str, StatusRow]] = {
    LIVE: {
        "accepted": _ASKED,
        "queued": _ASKED,
        "preparing": _COPYING,
        "running": _BOTH,
        "running (post-copy)": _BOTH,
    },
    COLD: _COLD_ROWS,
    RESIZE: _COLD_ROWS,
    EVACUATION: {"accepted": _ASKED, "pre-migrating": _BOTH},
}

#: Seconds until nova ends a move itself that a host does not answer: rpc_response_timeout.
RPC_TIMEOUT = 60

#: The statuses that nova sets before the source host begins.
_BEFORE_SOURCE = frozenset({"accepted", "queued", "pre-migrating"})

#: Task states of nova of the moves that have a migration.
MIGRATION_TASKS = frozenset(
    {
        "migrating",
        "resize_prep",
        "resize_migrating",
        "resize_migrated",
        "resize_finish",
        "resize_confirming",
        "resize_reverting",
        "rebuilding",
        "rebuild_block_device_mapping",
        "rebuild_spawning",
    }
)
#: The options of ``openstack server set`` after which nova takes a server for active, at rest.
RESET = (("--state", "active"), ("--auto-approve", None))

_DONE = "done"
_COMPLETED = frozenset({"completed", _DONE})

OFFLOADED = Reason(Code.NO_HOST, "it is shelved offloaded, on no host")
NO_HOST = Reason(Code.NO_HOST, "it is on no host")
BUILDING = Reason(Code.BUILDING, "it is being built, and on no host yet")
CELL_DOWN = Reason(Code.CELL_DOWN, "its cell is down: nova does not report it")
_NO_NODE = "nova lists no compute node {node} of host {host}"
_BUSY = "its task state is {task}"
_VERIFY = "its {move} waits to be confirmed or reverted"
_MOVES = "its {move} is {status}"
_ROLLED_BACK = "its {move} is {status}, and nova may still clean up its target: wait a minute"
_DISAGREES = (
    "its {move} to {dest} is {status}, and nova shows it on {host} {as_what}: the guest may run on"
    " either host"
)
_LEFT_HALF = (
    "its {move} to {dest} is {status}, and Placement still holds both hosts: the guest may be on"
    " either host"
)

#: The states in which a server may be on no host.
STATES_ON_NO_HOST = frozenset({"shelved_offloaded", "error", "building"})

#: Why a server certainly needs no allocations.
ON_NO_HOST = frozenset({OFFLOADED, NO_HOST})


class Loss(NamedTuple):
    """What a server loses when a host stops.

    ``node`` is the hypervisor's name, empty if nova does not say it. ``is_certain`` is False where
    nova contradicts itself: then the guest may be there, or not.
    """

    host: str
    node: str
    cost: Cost
    is_certain: bool = True

    def is_at(self, node: values.ComputeNode) -> bool:
        """Whether it is about this compute node."""
        return self.host == node.host and self.node in ("", node.hostname)


class Holder(NamedTuple):
    """A consumer that holds allocations for a server: the server's, or a migration's.

    ``is_leaked``: the migration is over, or nova has its server no more.
    """

    consumer_uuid: str
    migration: values.Migration | None
    root_uuids: frozenset[str]
    is_leaked: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ServerMove:
    """A server's location and its move, at the time of the reading.

    ``since``: when nova last wrote what the phase comes from (ISO 8601; may be empty).
    ``migrations``: those that are open, and the one that a DISAGREES is about, the newest first.
    ``losses``: one for each host whose stop costs something. ``holders``: the consumers with
    allocations. ``moving``: why the server's allocations must not be checked or changed now; empty
    if they may. ``node``: its compute node by nova; if None, ``absent`` is the reason. ``roots``:
    the roots of the trees on which the server's own consumer may hold allocations; ``shared``: the
    roots of providers that share with these trees; ``anywhere``: other trees are possible too.
    """

    server: values.Server
    phase: Phase
    since: str = ""
    migrations: tuple[values.Migration, ...] = ()
    losses: tuple[Loss, ...] = ()
    holders: tuple[Holder, ...] = ()
    moving: Reason = reasons.NONE
    node: values.ComputeNode | None = None
    absent: Reason = reasons.NONE
    roots: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    anywhere: bool = False

    def may_hold(self, root_uuid: str) -> bool:
        """Whether the server's consumer may hold allocations on the tree of this root."""
        return self.anywhere or root_uuid in self.roots or root_uuid in self.shared

    @property
    def is_settled(self) -> bool:
        """Whether nova's host is right: nothing moves and nothing is in doubt."""
        return self.phase in (Phase.AT_REST, Phase.OVER)

    @property
    def has_leftovers(self) -> bool:
        """Whether a consumer holds what it must not: the audit has a finding then."""
        return any(
            holder.is_leaked or not all(map(self.may_hold, holder.root_uuids))
            for holder in self.holders
            if holder.is_leaked or holder.migration is None
        )

    def why(self) -> str:
        """Why nova's host alone does not say where the guest is, with both hosts and since when."""
        text = self.moving.text or self.absent.text
        ends = [
            f"from {move.source_host} to {move.dest_host or 'a host that nova does not show yet'}"
            for move in self.migrations[:1]
        ]
        since = [f"since {self.since[:19]}"] if self.since else []
        details = ", ".join([*ends, *since])
        return f"{text} ({details})" if details else text

    def stuck(self, now: datetime.datetime, min_age: float) -> values.Migration | None:
        """The open migration that nova does not continue; None if there is none.

        Its status is one that nova sets before the source host begins, and it and the server's
        task were not updated for ``min_age`` seconds, at least for nova's own time-out. Use
        ``is_queued`` for those that wait.
        """
        min_age = max(min_age, RPC_TIMEOUT)
        for migration in self.migrations:
            if migration.is_over or not waits_for_source(migration):
                continue
            times = [migration.updated]
            times += [self.server.updated] if self.server.task_state else []
            ages = [values.seconds_since(time, now) for time in times]
            if all(age is not None and age >= min_age for age in ages):
                return migration
        return None


def waits_for_source(migration: values.Migration) -> bool:
    """Whether the status is one that nova sets before the source host begins."""
    row = row_of(migration)
    return migration.status in _BEFORE_SOURCE and row.phase is Phase.ASKED_FOR


def is_queued(reading: Cloud, migration: values.Migration) -> bool:
    """Whether a migration waits for its turn: its source host works on another one now."""
    return migration.status == "queued" and any(
        other.source_host == migration.source_host
        and row_of(other).phase is Phase.RUNNING
        and not other.is_over
        for other in reading.migrations.values()
    )


def row_of(migration: values.Migration) -> StatusRow:
    """The row of the table for an open migration."""
    return TABLE.get(migration.type, {}).get(migration.status, _BOTH)


def describe(migration: values.Migration) -> Reason:
    """What an open migration does to its server."""
    text = _VERIFY if migration.status == "finished" else _MOVES
    text = _ROLLED_BACK if migration.is_rolled_back else text
    move, status = migration.type or "migration", migration.status or "of an unknown status"
    return Reason(Code.MOVING, text.format(move=move, status=status))


def move_of(reading: Cloud, server: values.Server) -> ServerMove:
    """The move of a server that is not deleted; a soft-deleted one is on its host."""
    move = reading.located.get(server.uuid)
    if move is None or move.server is not server:
        move = _locate(reading, server, reading.migrations_of.get(server.uuid, ()))
        reading.located[server.uuid] = move
    return move


def _locate(
    reading: Cloud, server: values.Server, listed: Sequence[values.Migration]
) -> ServerMove:
    open_moves = [
        move for move in listed if not move.is_over and not _is_given_up(reading, server, move)
    ]
    doubtful = [] if open_moves else [move for move in listed[:1] if _is_in_doubt(reading, move)]
    holders = tuple(_holders(reading, server, listed))
    node = reading.node_of(server)
    ends = [node, *_ends(reading, open_moves), *_evacuated_from(reading, listed)]
    absent = reasons.NONE if node else _why_absent(server)
    moving = _why_moving(reading, server, open_moves, doubtful)
    roots = frozenset(reading.root_of(end.uuid) for end in ends if end)
    phase = _phase(reading, server, open_moves, doubtful, holders)
    leading = [*open_moves, *doubtful]
    return ServerMove(
        server,
        phase,
        leading[0].updated if leading else server.updated,
        tuple(leading),
        tuple(_losses(reading, server, phase, open_moves, doubtful)),
        holders,
        moving,
        node,
        absent,
        roots,
        frozenset(_shared(reading, roots)),
        # A task without a migration may be the start of a move to an unknown destination.
        anywhere=bool(moving and (None in ends or not open_moves) and not doubtful)
        or absent not in {reasons.NONE, *ON_NO_HOST},
    )


def losses_on(
    reading: Cloud, nodes: Collection[values.ComputeNode]
) -> dict[str, list[tuple[ServerMove, Loss]]]:
    """``{node uuid: the servers that lose something when it stops, and what}``."""
    by_host: dict[str, list[values.ComputeNode]] = {}
    for node in nodes:
        by_host.setdefault(node.host, []).append(node)
    losses: dict[str, list[tuple[ServerMove, Loss]]] = {node.uuid: [] for node in nodes}
    for server in reading.servers.values():
        move = move_of(reading, server)
        for loss in move.losses:
            for node in by_host.get(loss.host, ()):
                if loss.is_at(node):
                    losses[node.uuid].append((move, loss))
    return losses


def servers_of(migrations: Mapping[str, values.Migration], hosts: Collection[str]) -> set[str]:
    """The UUIDs of the servers that may lose something on hosts where nova does not show them.

    ``migrations``: as in a reading. Those whose migration there is open, and those whose newest
    one there is a cold migration or resize that failed: their disk may be left.
    """
    wanted: set[str] = set()
    newest: dict[str, values.Migration] = {}
    for move in migrations.values():
        is_newest = newest.setdefault(move.server_uuid, move) is move
        is_lost = is_newest and move.has_failed and move.type in (COLD, RESIZE)
        if (is_lost or not move.is_over) and {move.source_host, move.dest_host} & {*hosts}:
            wanted.add(move.server_uuid)
    return wanted - {""}


class HolderOnHost(NamedTuple):
    """A consumer with allocations on a host: ``server`` and ``migration`` as nova knows them."""

    consumer_uuid: str
    allocations: allocation.Allocations
    server: values.Server | None = None
    migration: values.Migration | None = None
    is_leaked: bool = False


def holders_on(reading: Cloud, root: str) -> Iterator[HolderOnHost]:
    """The consumers with allocations in the tree of a root provider: a host's, or one that shares.

    ``is_leaked``: of a migration that is over, or of a server that nova has on other hosts only (of
    a sharing provider: on none), and nothing is in doubt: the audit repairs it. A consumer without
    server and migration is one that nova does not list.
    """
    for uuid, allocations in reading.allocations.items():
        parts = {
            place: part for place, part in allocations.items() if reading.root_of(place) == root
        }
        if not parts:
            continue
        migration, server = reading.migrations.get(uuid), reading.servers.get(uuid)
        if migration is not None:
            server = reading.servers.get(migration.server_uuid)
        yield HolderOnHost(
            uuid, parts, server, migration, _is_leaked(reading, server, migration, root)
        )


def _is_leaked(
    reading: Cloud,
    server: values.Server | None,
    migration: values.Migration | None,
    root: str,
) -> bool:
    """Whether the consumer of a server or migration holds this tree for nothing."""
    if server is None:
        return migration is not None
    move = move_of(reading, server)
    if not move.is_settled:
        return False
    if migration is not None:
        return migration.is_over
    if move.node is not None and root not in reading.compute_nodes:
        # Which hosts share it is not read.
        return False
    is_located = move.node is not None or server.vm_state in STATES_ON_NO_HOST
    return is_located and not move.may_hold(root)


def _is_given_up(reading: Cloud, server: values.Server, move: values.Migration) -> bool:
    """Whether an open live migration was ended by hand: nothing in nova or Placement goes on.

    Nova sets the task before it creates the migration, and cannot close one that no host began.
    """
    node = reading.node_of(server)
    return (
        move.type == LIVE
        and move.status == "accepted"
        and server.vm_state not in (None, "error")
        and not server.task_state
        and node is not None
        and not reading.allocations.get(move.uuid)
        and reading.claimed_by(server.uuid) == [node]
    )


def _is_in_doubt(reading: Cloud, move: values.Migration) -> bool:
    """Whether the newest migration is over, and yet its server's host is a claim.

    A rollback, a confirmation and the end of a live migration all leave one consumer on one host;
    a server that was shelved and unshelved since has its allocations on its new host.
    """
    server = reading.servers.get(move.server_uuid)
    if server is None or not server.known or not server.host:
        return False
    destination = reading.node_at(move.dest_host, move.dest_node)
    on_destination = destination is not None and reading.root_of(
        destination.uuid
    ) in reading.roots_of(server.uuid)
    is_elsewhere = bool(move.dest_host) and server.host != move.dest_host
    if move.type == LIVE and move.status in _COMPLETED:
        return is_elsewhere and (server.task_state == "migrating" or on_destination)
    if not move.has_failed or reading.trusts_nova:
        return False
    if move.type in (COLD, RESIZE) and server.host == move.dest_host:
        # It failed on the destination: the data are still on the source.
        return True
    return bool(reading.allocations.get(move.uuid)) or (is_elsewhere and on_destination)


def _phase(
    reading: Cloud,
    server: values.Server,
    open_moves: Sequence[values.Migration],
    doubtful: Sequence[values.Migration],
    holders: Sequence[Holder],
) -> Phase:
    if not server.known or server.host in reading.hosts.unreachable:
        return Phase.UNKNOWN
    if open_moves:
        phase = row_of(open_moves[0]).phase
        disagrees = phase is Phase.RUNNING and _lacks_task(server, open_moves[0])
        return Phase.DISAGREES if disagrees else phase
    if doubtful:
        return Phase.DISAGREES
    if server.vm_state == "resized":
        return Phase.WAITING
    if server.task_state in MIGRATION_TASKS:
        return Phase.ASKED_FOR
    if server.task_state or (server.vm_state == "building" and not server.host):
        return Phase.BUSY
    leaked = any(holder.is_leaked for holder in holders)
    over = (move for move in reading.migrations_of.get(server.uuid, ()) if is_uncleaned(move))
    return Phase.OVER if leaked or any(over) else Phase.AT_REST


def _lacks_task(server: values.Server, move: values.Migration) -> bool:
    """Whether an open migration goes on without a task; a resize waits and is confirmed so."""
    is_resized = move.status == "confirming" and server.vm_state == "resized"
    return not (server.task_state or is_resized or row_of(move).phase is Phase.WAITING)


def is_uncleaned(move: values.Migration) -> bool:
    """Whether it is an evacuation whose source has not cleaned up."""
    return (move.type, move.status) == (EVACUATION, _DONE)


def _losses(
    reading: Cloud,
    server: values.Server,
    phase: Phase,
    open_moves: Sequence[values.Migration],
    doubtful: Sequence[values.Migration],
) -> Iterator[Loss]:
    """One loss for each host, the dearest one; a certain one comes before a doubtful one."""
    best: dict[tuple[str, str], Loss] = {}
    for loss in _every_loss(reading, server, phase, open_moves, doubtful):
        # Of a host with one node also where nova does not say it.
        node = reading.node_at(loss.host, loss.node)
        key = (loss.host, node.hostname if node else loss.node)
        if loss.cost is Cost.NOTHING or not loss.host:
            continue
        before = best.get(key)
        if before is None or (loss.cost, loss.is_certain) > (before.cost, before.is_certain):
            best[key] = loss._replace(node=key[1])
    yield from best.values()


def _every_loss(
    reading: Cloud,
    server: values.Server,
    phase: Phase,
    open_moves: Sequence[values.Migration],
    doubtful: Sequence[values.Migration],
) -> Iterator[Loss]:
    is_busy = phase in (Phase.BUSY, Phase.ASKED_FOR)
    if not server.host and (is_busy or server.vm_state not in STATES_ON_NO_HOST):
        # Its allocations show where it is, or is going to be.
        certain = is_busy
        for end in reading.claimed_by(server.uuid):
            yield Loss(end.host, end.hostname, Cost.GUEST, certain)
    # An open migration of a server without a task: nova contradicts itself.
    certain = phase is not Phase.UNKNOWN and (
        bool(server.task_state) or phase is not Phase.DISAGREES
    )
    for move in open_moves:
        row = row_of(move)
        is_sure = not _lacks_task(server, move)
        yield Loss(move.source_host or "", move.source_node or "", row.source, is_sure)
        yield Loss(move.dest_host or "", move.dest_node or "", row.destination, is_sure)
        certain = certain and is_sure
    if phase in (Phase.ASKED_FOR, Phase.RUNNING, Phase.DISAGREES):
        # Until the source begins, nova's migration has no destination: the claim shows it.
        for end in reading.claimed_by(server.uuid):
            yield Loss(end.host, end.hostname, Cost.MOVE, certain)
    for move in doubtful:
        certain = False
        yield Loss(move.source_host or "", move.source_node or "", Cost.GUEST, is_certain=False)
        yield Loss(move.dest_host or "", move.dest_node or "", Cost.GUEST, is_certain=False)
    yield Loss(server.host or "", server.node or "", Cost.GUEST, certain)


def _holders(
    reading: Cloud, server: values.Server, listed: Iterable[values.Migration]
) -> Iterator[Holder]:
    roots = reading.roots_of(server.uuid)
    if roots:
        yield Holder(server.uuid, None, roots)
    for move in listed:
        roots = reading.roots_of(move.uuid)
        if roots:
            yield Holder(move.uuid, move, roots, move.is_over)


def why_unknown(server: values.Server) -> Reason:
    """Why nova does not report a server; empty if it does."""
    if server.hidden:
        return Reason(Code.NO_FLAVOR, server.hidden)
    return reasons.NONE if server.known else CELL_DOWN


def _why_moving(
    reading: Cloud,
    server: values.Server,
    open_moves: Sequence[values.Migration],
    doubtful: Sequence[values.Migration],
) -> Reason:
    if reason := why_unknown(server):
        return reason
    if server.host in reading.hosts.unreachable:
        return CELL_DOWN
    if open_moves:
        return describe(open_moves[0])
    if doubtful:
        return why_in_doubt(server, doubtful[0])
    if server.task_state:
        return Reason(Code.BUSY, _BUSY.format(task=server.task_state))
    if server.vm_state == "building" and not server.host:
        return BUILDING
    if server.vm_state == "resized":
        return Reason(Code.MOVING, _VERIFY.format(move="resize"))
    return reasons.NONE


def why_in_doubt(server: values.Server, move: values.Migration) -> Reason:
    """Why the host of a server is a claim after a migration that is over."""
    shows_both = move.status in _COMPLETED or server.host == move.dest_host
    text = _DISAGREES if shows_both else _LEFT_HALF
    return Reason(
        Code.MOVING,
        text.format(
            move=move.type,
            dest=move.dest_host,
            status=move.status,
            host=server.host,
            as_what=server.status or server.vm_state,
        ),
    )


def _why_absent(server: values.Server) -> Reason:
    if server.vm_state == "shelved_offloaded":
        return OFFLOADED
    if not server.known and not server.hidden:
        return CELL_DOWN
    if not server.host:
        return NO_HOST
    text = _NO_NODE.format(node=server.node, host=server.host)
    return Reason(Code.NO_COMPUTE_NODE, text)


def _ends(reading: Cloud, moves: Iterable[values.Migration]) -> Iterator[values.ComputeNode | None]:
    """Source and destination of each move; None for a node that is not known yet."""
    for move in moves:
        yield reading.node_at(move.source_host, move.source_node)
        yield reading.node_at(move.dest_host, move.dest_node)


def _evacuated_from(
    reading: Cloud, moves: Iterable[values.Migration]
) -> Iterator[values.ComputeNode]:
    """The sources of evacuations before the clean-up. A deleted node never cleans up."""
    for move in moves:
        node = reading.node_at(move.source_host, move.source_node)
        if node and is_uncleaned(move):
            yield node


def _shared(reading: Cloud, roots: frozenset[str]) -> Iterator[str]:
    for root in roots:
        yield from map(reading.root_of, reading.sharing.get(root, ()))
