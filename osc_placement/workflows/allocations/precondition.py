"""Checks, just before a write, that a server is still what the change was planned for.

A change that depends on a server carries what nova reported as its precondition.
``NovaPreconditions`` reads all servers at once and keeps the answer for a moment.
"""

from __future__ import annotations

import dataclasses
import datetime
import threading
import time
from collections.abc import Callable, Mapping

from osc_placement.nova import api, servers, values
from osc_placement.plan import change
from osc_placement.plan.precondition import Precondition, ServerState
from osc_placement.workflows.allocations import expected, location

#: How far the clocks of nova and of this machine may be apart.
_SLACK = datetime.timedelta(minutes=10)

#: For how many seconds an answer is good.
_FRESH = 2.0

#: From what age of a plan on all servers are asked for at first: one that was deleted may
#: have been archived since, and then no listing tells of it.
_OLD = datetime.timedelta(hours=1)

_GONE = "nova has no such server any more"
_DELETED = "it was deleted"
_APPEARED = "nova has a {what} of this UUID now"
_CHANGED = "nova has changed it since: {what} is {now}, it was {before}"


#: Of the removal of a consumer whose server is deleted, or that is not in nova at all.
NOT_A_SERVER = Precondition()
NOT_IN_NOVA = Precondition(no_migration=True)


def of(server: values.Server) -> Precondition:
    """The precondition of a change of a server's allocations.

    Whether its root disk is a volume never changes, and needs a request: it is left out.
    """
    request = expected.request_of(dataclasses.replace(server, from_volume=False))
    resources = dict(sorted(request.total().items()))
    return Precondition(
        ServerState(server.host, server.node, server.vm_state, server.task_state, resources)
    )


class NovaPreconditions:
    """Checks preconditions; safe to call from many threads.

    ``planned`` is when the plan was made (UTC). Cost: at nova one request per 1000 servers,
    and one per 1000 migrations, that changed since then, every two seconds at most; for an old
    plan all servers the first time, and all migrations once if something is to be nobody's.
    """

    def __init__(
        self,
        asked: api.Nova,
        planned: datetime.datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self._asked, self._clock = asked, clock
        self._planned = planned or now
        self._whole = now - (planned or now) > _OLD
        self._lock = threading.Lock()
        self._looked: float | None = None
        self._servers: dict[str, values.Server] = {}
        self._moves: Mapping[str, values.Migration] = {}
        self._known_moves: frozenset[str] | None = None

    def __call__(self, item: change.Change) -> str:
        """Why the precondition of a change is not met; empty when it is, or without one.

        Errors: as nova's, when it cannot be asked.
        """
        precondition = item.precondition
        if precondition is None:
            return ""
        with self._lock:
            self._look()
            server = self._servers.get(item.subject.uuid)
            move = self._moves.get(item.subject.uuid)
        if precondition.server is None:
            if server is not None and not server.is_deleted:
                return _APPEARED.format(what="server")
            is_move = precondition.no_migration and self._is_move(item.subject.uuid)
            return _APPEARED.format(what="migration") if is_move else ""
        if server is None:
            # A move may be on record before its server is touched.
            begun = location.describe(move) if move is not None else ""
            return _GONE if self._whole else begun
        return _difference(precondition.server, server, move)

    def _is_move(self, uuid: str) -> bool:
        """Whether nova knows a migration of that UUID.

        It leaves out those of a cell that does not answer in time, and does not say so: what
        was not told once is asked for again before it is taken for nobody's.
        """
        with self._lock:
            if self._known_moves is None:
                moves = servers.migrations(self._asked)
                self._known_moves = frozenset(move.uuid for move in moves)
            return uuid in self._known_moves

    def _look(self) -> None:
        """Ask, if the last answer is too old."""
        now = self._clock()
        if self._looked is not None and now - self._looked < _FRESH:
            return
        if self._looked is None and self._whole:
            self._servers = {one.uuid: one for one in servers.servers(self._asked)}
        changed = servers.servers(self._asked, **self._since())
        self._servers |= {one.uuid: one for one in changed}
        moves = servers.migrations(self._asked, **self._since())
        self._moves = {move.server_uuid: move for move in moves if not move.is_over}
        self._looked = self._clock()

    def _since(self) -> dict[str, str]:
        """The filter for what changed since the plan was made, by nova's clock."""
        since = self._planned - api.clock_offset(self._asked) - _SLACK
        return {"changes-since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}


def _difference(before: ServerState, server: values.Server, move: values.Migration | None) -> str:
    """Why a server is no longer as it was planned for; empty when it is."""
    if server.is_deleted:
        return _DELETED
    if not server.known:
        return location.CELL_DOWN
    if move is not None:
        return location.describe(move)
    now = of(server).server
    for field in dataclasses.fields(ServerState):
        is_now, was = getattr(now, field.name), getattr(before, field.name)
        if is_now != was:
            return _CHANGED.format(what=field.name, now=_text(is_now), before=_text(was))
    return ""


def _text(value: Mapping[str, int] | str | None) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={amount}" for name, amount in value.items())
    return str(value)


def eyes(asked: api.Nova, created: str = "") -> NovaPreconditions:
    """NovaPreconditions for a plan that was made at ``created`` (ISO 8601), or just now."""
    made = datetime.datetime.fromisoformat(created) if created else None
    return NovaPreconditions(asked, made)
