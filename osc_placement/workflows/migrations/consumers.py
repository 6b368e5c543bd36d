"""Data migrations of consumers without a type, or without an owner (written below API 1.8).

``GET /usages`` counts such consumers but does not name them. So nova's consumers are read in
the order of their UUIDs until that many are found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from osc_placement.client import api, retry
from osc_placement.model import allocation
from osc_placement.nova import api as nova_api, servers as nova_servers
from osc_placement.plan import plan, workers as plan_workers
from osc_placement.plan.kinds import allocations

#: The number of consumers that are read and planned before the first is written.
_SLICE = 256

#: ``(project, user)``
_Owner = tuple[str | None, str | None]
_ANY_OWNER: _Owner = (None, None)

#: Yields ``(position, plan)``; a later run can continue after the position.
Slices = Iterator[tuple[str, plan.ObservedPlan]]


@dataclasses.dataclass(frozen=True, slots=True)
class _NovaConsumer:
    """A consumer in nova's database: name for the operator, type, owner."""

    uuid: str
    name: str
    type: str
    project_id: str | None
    user_id: str | None

    @property
    def owner(self) -> _Owner:
        return self.project_id, self.user_id


class _Missing:
    """The number of incomplete consumers of each owner; ``found`` counts down.

    With the key ``_ANY_OWNER`` the owners are not known.
    """

    def __init__(self, counts: dict[_Owner, int]) -> None:
        self._counts = counts

    def may_be(self, item: _NovaConsumer) -> bool:
        return self._counts.get(self._key(item), 0) > 0

    def found(self, item: _NovaConsumer) -> None:
        self._counts[self._key(item)] -= 1

    def _key(self, item: _NovaConsumer) -> _Owner:
        return _ANY_OWNER if _ANY_OWNER in self._counts else item.owner


def plan_types(
    client: api.Client, nova: nova_api.Nova, *, after: str = "", workers: int = 1
) -> Slices:
    """Plan the type of every server's and migration's consumer without a type (1.38).

    ``after`` is the position to continue after. Other consumers are not read. Undo cannot
    remove a type.
    Requests: nova's servers and migrations; one per project and, if it has consumers without
    a type, one per user; one per consumer until all are found.
    """
    known = _known(nova)

    def completed(one: allocation.Consumer, item: _NovaConsumer) -> allocation.Consumer | None:
        untyped = one.consumer_type == allocation.UNKNOWN_TYPE
        return dataclasses.replace(one, consumer_type=item.type) if untyped else None

    missing = _Missing(_untyped(client, known))
    return _in_slices(client, known, missing, completed, after, workers)


def plan_owners(
    client: api.Client, nova: nova_api.Nova, *, after: str = "", workers: int = 1
) -> Slices:
    """Plan project and user of nova's consumers that have placeholders.

    Requests: nova's servers and migrations; one for the usage of the placeholder project; one
    per consumer until all are found.
    """
    known = [item for item in _known(nova) if item.project_id and item.user_id]

    def completed(one: allocation.Consumer, item: _NovaConsumer) -> allocation.Consumer | None:
        if one.project_id != allocation.PLACEHOLDER:
            return None
        return dataclasses.replace(one, project_id=item.project_id, user_id=item.user_id)

    incomplete = retry.read(lambda: client.show_total_usage(allocation.PLACEHOLDER))
    missing = _Missing({_ANY_OWNER: incomplete.consumer_count or 0})
    return _in_slices(client, known, missing, completed, after, workers)


def _known(nova: nova_api.Nova) -> list[_NovaConsumer]:
    """Nova's consumers: servers that are not deleted, and migrations."""
    servers = [
        _NovaConsumer(one.uuid, one.name, allocation.INSTANCE, one.project_id, one.user_id)
        for one in nova_servers.servers(nova)
    ]
    moves = [
        _NovaConsumer(
            one.uuid,
            f"{one.type} of {one.server_uuid}",
            allocation.MIGRATION,
            one.project_id,
            one.user_id,
        )
        for one in nova_servers.migrations(nova)
    ]
    return servers + moves


def _in_slices(
    client: api.Client,
    known: Iterable[_NovaConsumer],
    missing: _Missing,
    complete: Callable[[allocation.Consumer, _NovaConsumer], allocation.Consumer | None],
    after: str,
    workers: int,
) -> Slices:
    ordered = sorted((item for item in known if item.uuid > after), key=lambda item: item.uuid)
    items = [item for item in ordered if missing.may_be(item)]
    for start in range(0, len(items), _SLICE):
        part = items[start : start + _SLICE]
        by_uuid = {item.uuid: item for item in part if missing.may_be(item)}
        changes, observed = [], {}
        for one in _read(client, by_uuid, workers):
            item = by_uuid[one.uuid]
            new = complete(one, item) if one.allocations else None
            if new is not None:
                missing.found(item)
                changes.append(allocations.planned(item.name, one, new))
                observed[changes[-1].key] = allocations.observed(one)
        yield part[-1].uuid, plan.ObservedPlan(plan.make(changes), observed)


def _read(client: api.Client, uuids: Iterable[str], workers: int) -> Iterator[allocation.Consumer]:
    def read(uuid: str) -> allocation.Consumer:
        return retry.read(lambda: client.show_allocations(uuid))

    return plan_workers.each(read, uuids, workers)


def _untyped(client: api.Client, known: Iterable[_NovaConsumer]) -> dict[_Owner, int]:
    """The number of consumers without a type per owner; projects without any are left out."""
    users: dict[str, set[str]] = {}
    for item in known:
        if item.project_id and item.user_id:
            users.setdefault(item.project_id, set()).add(item.user_id)
    return {
        (project, user): _count_untyped(client, project, user)
        for project in sorted(users)
        if _count_untyped(client, project)
        for user in sorted(users[project])
    }


def _count_untyped(client: api.Client, project: str, user: str | None = None) -> int:
    usages = retry.read(lambda: client.show_usages(project, user, allocation.UNKNOWN_TYPE))
    return sum(usage.consumer_count or 0 for usage in usages)
