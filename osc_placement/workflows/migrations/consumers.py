"""What consumers were never given: types, by nova, and owners, before Placement API 1.8.

``GET /usages`` counts them without telling which they are; so nova's consumers are read in
the order of their UUIDs until as many were found. Called by the online data migrations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from osc_placement.client import api, retry
from osc_placement.model import allocation
from osc_placement.nova import api as nova_api, servers as nova_servers
from osc_placement.plan import plan, workers as plan_workers
from osc_placement.plan.kinds import allocations

#: So many consumers are read before those of them that lack something are written.
_SLICE = 256

#: ``(project, user)``
_Owner = tuple[str | None, str | None]
_ANYBODY: _Owner = (None, None)

#: What plans are yielded with: a position to go on from.
Slices = Iterator[tuple[str, plan.ObservedPlan]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Nova:
    """One of nova's consumers, as nova knows it: its name for people, its type, its owner."""

    uuid: str
    name: str
    type: str
    project_id: str | None
    user_id: str | None

    @property
    def owner(self) -> _Owner:
        return self.project_id, self.user_id


class _Missing:
    """How many consumers of each owner lack something; ``found`` counts down.

    Those of ``_ANYBODY`` may be anybody's.
    """

    def __init__(self, counts: dict[_Owner, int]) -> None:
        self._counts = counts

    def may_be(self, item: _Nova) -> bool:
        return self._counts.get(self._whose(item), 0) > 0

    def found(self, item: _Nova) -> None:
        self._counts[self._whose(item)] -= 1

    def _whose(self, item: _Nova) -> _Owner:
        return _ANYBODY if _ANYBODY in self._counts else item.owner


def plan_types(
    client: api.Client, asked: nova_api.Nova, *, after: str = "", workers: int = 1
) -> Slices:
    """What sets the type of every server's and migration's consumer that has none (1.38).

    Yields ``(position, plan)``; ``after`` is a position to go on from. A consumer that is
    somebody else's is not looked at. Setting a type cannot be taken back.
    Cost: nova's servers and migrations; one request per project and, where consumers
    without type are in it, per user; one read per consumer until as many were found.
    """
    known = _known(asked)

    def fixed(one: allocation.Consumer, item: _Nova) -> allocation.Consumer | None:
        untyped = one.consumer_type == allocation.UNKNOWN_TYPE
        return dataclasses.replace(one, consumer_type=item.type) if untyped else None

    missing = _Missing(_untyped(client, known))
    return _in_slices(client, known, missing, fixed, after, workers)


def plan_owners(
    client: api.Client, asked: nova_api.Nova, *, after: str = "", workers: int = 1
) -> Slices:
    """What gives nova's consumers their project and user where they have placeholders.

    Cost: nova's servers and migrations; one request; one read per consumer until as many
    were found as there are.
    """
    known = [item for item in _known(asked) if item.project_id and item.user_id]

    def fixed(one: allocation.Consumer, item: _Nova) -> allocation.Consumer | None:
        if one.project_id != allocation.PLACEHOLDER:
            return None
        return dataclasses.replace(one, project_id=item.project_id, user_id=item.user_id)

    incomplete = retry.read(lambda: client.show_total_usage(allocation.PLACEHOLDER))
    missing = _Missing({_ANYBODY: incomplete.consumer_count or 0})
    return _in_slices(client, known, missing, fixed, after, workers)


def _known(asked: nova_api.Nova) -> list[_Nova]:
    """Nova's consumers: servers that live, and migrations."""
    servers = [
        _Nova(one.uuid, one.name, allocation.INSTANCE, one.project_id, one.user_id)
        for one in nova_servers.servers(asked)
    ]
    moves = [
        _Nova(
            one.uuid,
            f"{one.type} of {one.server_uuid}",
            allocation.MIGRATION,
            one.project_id,
            one.user_id,
        )
        for one in nova_servers.migrations(asked)
    ]
    return servers + moves


def _in_slices(
    client: api.Client,
    known: Iterable[_Nova],
    missing: _Missing,
    fixed: Callable[[allocation.Consumer, _Nova], allocation.Consumer | None],
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
            wanted = fixed(one, item) if one.allocations else None
            if wanted is not None:
                missing.found(item)
                changes.append(allocations.planned(item.name, one, wanted))
                observed[changes[-1].key] = allocations.observed(one)
        yield part[-1].uuid, plan.ObservedPlan(plan.make(changes), observed)


def _read(client: api.Client, uuids: Iterable[str], workers: int) -> Iterator[allocation.Consumer]:
    def read(uuid: str) -> allocation.Consumer:
        return retry.read(lambda: client.show_allocations(uuid))

    return plan_workers.each(read, uuids, workers)


def _untyped(client: api.Client, known: Iterable[_Nova]) -> dict[_Owner, int]:
    """How many consumers of each owner have no type; projects of none are left out."""
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
