# SPDX-License-Identifier: Apache-2.0
"""The check just before a write that nova still reports what a change was planned on.

``NovaPreconditions`` sends requests: it reads nova when a change is about to be written.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import allocation
from osc_placement.model.name import and_more
from osc_placement.nova import api, servers, values
from osc_placement.plan.change import (
    AggregatesState,
    Change,
    ComputeState,
    Precondition,
    ServerState,
)
from osc_placement.workflows.cloud import compute_nodes, server_moves
from osc_placement.workflows.repair.allocations import expected

LOG = logging.getLogger(__name__)

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
_NODE = "nova has a compute node of it now"
_NO_NODE = "nova has no compute node of it any more"
_MEMBER = "nova has {host} in the host aggregate {name} now"
_NO_MEMBER = "nova does not have {host} in the host aggregate {name} any more"
_CHANGED = "nova has changed it since: {what} is {now}, it was {before}"

#: The consumer types that nova sets. Older versions set none: then the type is ``unknown``.
NOVA_TYPES = frozenset({allocation.INSTANCE, allocation.MIGRATION})

#: Services that allocate the same resources as nova, by their types in the catalog.
_OTHER_SERVICES = {"application-container": "Zun", "container": "Zun"}

#: For consumers of deleted servers, and for consumers that nova does not know.
NOT_A_SERVER = Precondition()
NOT_IN_NOVA = Precondition(no_migration=True)


def other_service(nova: api.Nova) -> str:
    """Why a consumer that nova does not know may be another service's; empty if it cannot.

    Requests: none.
    """
    try:
        types = api.service_types(nova)
    except errors.NotKnown as fact:
        return f"it may be a consumer of another service, such as Zun: {fact}"
    names = (name for service_type, name in _OTHER_SERVICES.items() if service_type in types)
    return "".join(f"it may be a consumer of {name}" for name in dict.fromkeys(names))


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
    seconds. ``is_stored``: the plan is from a file, and perhaps made on a snapshot, which has
    older servers than the plan, or lacks some.
    Requests: to nova, at most every two seconds, one per 1000 servers and one per 1000
    migrations that changed since ``planned``. For a stored or old plan all servers the first
    time, and one for each server of a change that is not listed; the compute services and the
    hypervisors once, if a change is about a host, and the host aggregates, if it is about those
    of a host. All migrations once if a change requires that there is none. A recording is read
    once.
    """

    def __init__(
        self,
        nova: api.Nova,
        planned: datetime.datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        is_stored: bool = False,
    ) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self._nova, self._clock = nova, clock
        self._planned = planned or now
        self._is_old = is_stored or now - self._planned > _OLD
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._servers: dict[str, values.Server] = {}
        self._open_migrations: Mapping[str, values.Migration] = {}
        self._migrations: frozenset[str] | None = None
        self._hosts: values.Hosts | None = None
        self._aggregates: list[values.HostAggregate] | None = None

    def __call__(self, change: Change[Any]) -> str:
        """Why the precondition of a change is not met; empty if it is met, or without one.

        Errors: those of nova.
        """
        precondition, uuid = change.precondition, change.subject.uuid
        if precondition is None:
            return ""
        if precondition.host is not None:
            return self._why_other_host(precondition.host) if self._is_old else ""
        if precondition.aggregates is not None:
            return self._why_other_aggregates(precondition.aggregates) if self._is_old else ""
        with self._lock:
            self._refresh()
            server = self._servers.get(uuid)
            migration = self._open_migrations.get(uuid)
        if server is None and self._is_old and not self._nova.source:
            # Nova's listing silently omits the servers of a cell that does not respond in time.
            server = servers.server(self._nova, uuid)
        if precondition.server is None:
            reason = self._why_in_nova(change, server)
        elif server is not None:
            reason = _difference(precondition.server, server, migration)
        elif self._is_old:
            reason = _MISSING
        else:
            # Nova may create a migration before it changes the server.
            reason = server_moves.describe(migration).text if migration is not None else ""
        if reason:
            LOG.info("%s: precondition not met: %s", uuid, reason)
        return reason

    def _why_other_host(self, before: ComputeState) -> str:
        """What nova has changed in a host since the plan; empty if nothing."""
        with self._lock:
            if self._hosts is None:
                self._hosts = servers.read_hosts(self._nova)
                self._host_states = compute_nodes.ComputeStates(self._hosts)
        now = self._host_states.of(before.name, before.uuid)
        if self._hosts.unreachable and not now.has_node:
            hidden = and_more(sorted(self._hosts.unreachable))
            return f"the cell of {hidden} is down: nova cannot list its compute nodes"
        if now.has_node != before.has_node:
            return _NODE if now.has_node else _NO_NODE
        if now.service == before.service:
            return ""
        return _CHANGED.format(what="nova-compute", now=now.service, before=before.service)

    def _why_other_aggregates(self, before: AggregatesState) -> str:
        """What nova has changed in a host's aggregates since the plan; empty if nothing."""
        with self._lock:
            if self._aggregates is None:
                self._aggregates = api.host_aggregates(self._nova)
        names = {item.uuid: item.name for item in self._aggregates}
        now = compute_nodes.aggregates_state(
            self._aggregates, before.host, before.members, before.metadata
        )
        for uuid, member in now.members.items():
            if member != before.members[uuid]:
                text = _MEMBER if member else _NO_MEMBER
                return text.format(host=before.host, name=names.get(uuid, uuid))
        return _other_field(before.metadata, now.metadata)

    def _why_in_nova(self, change: Change[Any], server: values.Server | None) -> str:
        """Why the consumer of a change may be in use; empty if it is left over."""
        if server is not None and not server.is_deleted:
            return _CREATED.format(what="server")
        if change.precondition != NOT_IN_NOVA:
            return ""
        if self._is_migration(change.subject.uuid):
            return _CREATED.format(what="migration")
        # A plan that was made on a snapshot is as good as the catalog that is there now.
        is_novas = getattr(change.before, "consumer_type", None) in NOVA_TYPES
        return "" if is_novas else other_service(self._nova)

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
        read_at = self._read_at
        if read_at is not None and (self._nova.source or self._clock() - read_at < _FRESH):
            return
        if self._read_at is None and self._is_old:
            self._servers = {item.uuid: item for item in servers.servers(self._nova)}
        changed = servers.servers(self._nova, **self._since())
        self._servers |= {item.uuid: item for item in changed}
        migrations = servers.migrations(self._nova, **self._since())
        self._open_migrations = {item.server_uuid: item for item in migrations if not item.is_over}
        self._read_at = self._clock()

    def _since(self) -> dict[str, str]:
        """Nova's filter for changes since the plan, by nova's clock."""
        since = self._planned - api.clock_offset(self._nova) - _SLACK
        return {"changes-since": f"{since:%Y-%m-%dT%H:%M:%SZ}"}


def preconditions_of_plan(nova: api.Nova, created: str) -> NovaPreconditions:
    """The check for a plan file that was created at ``created`` (ISO 8601)."""
    planned = datetime.datetime.fromisoformat(created) if created else None
    return NovaPreconditions(nova, planned, is_stored=True)


def _difference(
    before: ServerState, server: values.Server, migration: values.Migration | None
) -> str:
    """What nova has changed in a server since the plan; empty if nothing."""
    if server.is_deleted:
        return _DELETED
    if not server.known:
        return server_moves.why_unknown(server).text
    if migration is not None:
        return server_moves.describe(migration).text
    now = _state_of(server)
    names = [field.name for field in dataclasses.fields(ServerState)]
    return _other_field(*({name: getattr(it, name) for name in names} for it in (before, now)))


def _other_field(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first value that nova has changed; empty if none."""
    for name, old in before.items():
        if now[name] != old:
            return _CHANGED.format(what=name, now=_text(now[name]), before=_text(old))
    return ""


def _text(value: Mapping[str, int] | str | None) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={amount}" for name, amount in value.items())
    return "none" if value in (None, "") else str(value)
