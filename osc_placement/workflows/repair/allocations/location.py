# SPDX-License-Identifier: Apache-2.0
"""Where a server is, and the check just before a write that nova still reports the same.

``locate`` is pure: whether a server is moving, and on which trees it may hold allocations. Since
Queens, a migration's consumer holds the source and the server's the destination, from the claim
until the move is confirmed, reverted or over. In an evacuation the server's consumer holds both,
until nova-compute restarts on the source and cleans up: ``done`` becomes ``completed``.

``NovaPreconditions`` sends requests: it reads nova when a change is about to be written.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from osc_placement.nova import api, servers, values
from osc_placement.plan import reasons
from osc_placement.plan.change import Change, Precondition, ServerState
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.repair.allocations import expected
from osc_placement.workflows.repair.allocations.snapshot import CloudSnapshot

LOG = logging.getLogger(__name__)

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
    allocations = snapshot.allocations.get(server.uuid, {})
    return [uuid for uuid in allocations if not location.may_hold(snapshot.root_of(uuid))]


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
        if node.hostname in snapshot.roots:
            return Reason(Code.OTHER_UUID, _OTHER_UUID.format(name=node.hostname))
        return Reason(Code.NO_PROVIDER, _NO_PROVIDER.format(host=node.host))
    for item in snapshot.trees.get(node.uuid, ()):
        if item.uuid in snapshot.read_errors:
            text = _READ_ERROR.format(name=item.name, why=snapshot.read_errors[item.uuid])
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


#: The assumed maximum difference between nova's clock and the local one.
_SLACK = datetime.timedelta(minutes=10)

#: How many seconds a read of nova stays valid.
_FRESH = 2.0

#: For plans older than this, all servers are read once: deleted servers may be archived, and
#: no listing of changes contains archived servers.
_OLD = datetime.timedelta(hours=1)

_MISSING = "nova has no such server any more"
_DELETED = "it was deleted"
_CREATED = "nova has a {what} of this UUID now"
_CHANGED = "nova has changed it since: {what} is {now}, it was {before}"

#: For consumers of deleted servers, and for consumers that nova does not know.
NOT_A_SERVER = Precondition()
NOT_IN_NOVA = Precondition(no_migration=True)


def precondition_of(server: values.Server) -> Precondition:
    """The precondition of a change of a server's allocations."""
    return Precondition(_state_of(server))


def _state_of(server: values.Server) -> ServerState:
    # Whether the root disk is a volume never changes, and reading it takes a request.
    request = expected.request_of(dataclasses.replace(server, from_volume=False))
    resources = dict(sorted(request.total().items()))
    return ServerState(server.host, server.node, server.vm_state, server.task_state, resources)


class NovaPreconditions:
    """Checks the preconditions of changes; safe to call from several threads.

    ``planned``: the creation time of the plan (UTC); the default is now. ``clock`` returns
    seconds.
    Requests: to nova, at most every two seconds, one per 1000 servers and one per 1000
    migrations that changed since ``planned``. For an old plan all servers the first time. All
    migrations once if a change requires that there is none. A recording is read once.
    """

    def __init__(
        self,
        nova: api.Nova,
        planned: datetime.datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self._nova, self._clock = nova, clock
        self._planned = planned or now
        self._is_old = now - self._planned > _OLD
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._servers: dict[str, values.Server] = {}
        self._open_migrations: Mapping[str, values.Migration] = {}
        self._migrations: frozenset[str] | None = None

    def __call__(self, change: Change) -> str:
        """Why the precondition of a change is not met; empty if it is met, or without one.

        Errors: those of nova.
        """
        precondition, uuid = change.precondition, change.subject.uuid
        if precondition is None:
            return ""
        with self._lock:
            self._refresh()
            server = self._servers.get(uuid)
            migration = self._open_migrations.get(uuid)
        if precondition.server is None:
            reason = self._why_in_nova(uuid, server, precondition)
        elif server is not None:
            reason = _difference(precondition.server, server, migration)
        elif self._is_old:
            reason = _MISSING
        else:
            # Nova may create a migration before it changes the server.
            reason = describe(migration).text if migration is not None else ""
        if reason:
            LOG.info("%s: precondition not met: %s", uuid, reason)
        return reason

    def _why_in_nova(
        self, uuid: str, server: values.Server | None, precondition: Precondition
    ) -> str:
        if server is not None and not server.is_deleted:
            return _CREATED.format(what="server")
        if precondition.no_migration and self._is_migration(uuid):
            return _CREATED.format(what="migration")
        return ""

    def _is_migration(self, uuid: str) -> bool:
        """Whether nova has a migration with this UUID.

        Nova's listing silently omits the migrations of a cell that does not respond in time, so
        that it is read again before a consumer counts as unknown.
        """
        with self._lock:
            if self._migrations is None:
                migrations = servers.migrations(self._nova)
                self._migrations = frozenset(item.uuid for item in migrations)
            return uuid in self._migrations

    def _refresh(self) -> None:
        """Read nova if the last read is too long ago."""
        if self._read_at is not None and self._is_fresh(self._read_at):
            return
        if self._read_at is None and self._is_old:
            self._servers = {item.uuid: item for item in servers.servers(self._nova)}
        changed = servers.servers(self._nova, **self._since())
        self._servers |= {item.uuid: item for item in changed}
        migrations = servers.migrations(self._nova, **self._since())
        self._open_migrations = {item.server_uuid: item for item in migrations if not item.is_over}
        self._read_at = self._clock()

    def _is_fresh(self, read_at: float) -> bool:
        return bool(self._nova.source) or self._clock() - read_at < _FRESH

    def _since(self) -> dict[str, str]:
        """Nova's filter for changes since the plan, by nova's clock."""
        since = self._planned - api.clock_offset(self._nova) - _SLACK
        return {"changes-since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}


def preconditions_of_plan(nova: api.Nova, created: str) -> NovaPreconditions:
    """The check for a plan file that was created at ``created`` (ISO 8601)."""
    return NovaPreconditions(nova, datetime.datetime.fromisoformat(created) if created else None)


def _difference(
    before: ServerState, server: values.Server, migration: values.Migration | None
) -> str:
    """What nova has changed in a server since the plan; empty if nothing."""
    if server.is_deleted:
        return _DELETED
    if not server.known:
        return CELL_DOWN.text
    if migration is not None:
        return describe(migration).text
    now = _state_of(server)
    for field in dataclasses.fields(ServerState):
        new, old = getattr(now, field.name), getattr(before, field.name)
        if new != old:
            return _CHANGED.format(what=field.name, now=_text(new), before=_text(old))
    return ""


def _text(value: Mapping[str, int] | str | None) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={amount}" for name, amount in value.items())
    return str(value)
