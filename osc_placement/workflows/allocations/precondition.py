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


_SERVER, _MIGRATION = "server", "migration"

#: What the removal of a consumer builds on whose server is deleted, or that is nobody's.
NOT_A_SERVER: Mapping[str, change.Value] = {_SERVER: False}
NOT_IN_NOVA: Mapping[str, change.Value] = {_SERVER: False, _MIGRATION: False}


def of(server: values.Server) -> dict[str, change.Value]:
    """What a change of a server's allocations builds on.

    Whether its root disk is a volume never changes, and costs a request to know.
    """
    asked = expected.request_of(dataclasses.replace(server, from_volume=False))
    resources = ", ".join(f"{name}={amount}" for name, amount in sorted(asked.total().items()))
    return {
        "host": server.host,
        "node": server.node,
        "vm_state": server.vm_state,
        "task_state": server.task_state,
        "resources": resources,
    }


class NovaPreconditions:
    """Judges premises; safe to call from many threads.

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
        """Why the premise of a change is broken; empty when it holds, or there is none.

        Errors: as nova's, when it cannot be asked.
        """
        if not item.premise:
            return ""
        with self._lock:
            self._look()
            server = self._servers.get(item.subject.uuid)
            move = self._moves.get(item.subject.uuid)
        if item.premise.get(_SERVER) is False:
            if server is not None and not server.is_deleted:
                return _APPEARED.format(what=_SERVER)
            is_move = _MIGRATION in item.premise and self._is_move(item.subject.uuid)
            return _APPEARED.format(what=_MIGRATION) if is_move else ""
        if server is None:
            # A move may be on record before its server is touched.
            begun = location.describe(move) if move is not None else ""
            return _GONE if self._whole else begun
        return _broken(item.premise, server, move)

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


def _broken(before: change.Facts, server: values.Server, move: values.Migration | None) -> str:
    if server.is_deleted:
        return _DELETED
    if not server.known:
        return location.CELL_DOWN
    if move is not None:
        return location.describe(move)
    now = of(server)
    for what, value in before.items():
        if now.get(what) != value:
            return _CHANGED.format(what=what, now=now.get(what), before=value)
    return ""


def eyes(asked: api.Nova, created: str = "") -> NovaPreconditions:
    """NovaPreconditions for a plan that was made at ``created`` (ISO 8601), or just now."""
    made = datetime.datetime.fromisoformat(created) if created else None
    return NovaPreconditions(asked, made)
