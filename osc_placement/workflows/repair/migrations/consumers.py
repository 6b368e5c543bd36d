# SPDX-License-Identifier: Apache-2.0
"""Sets missing types and placeholder owners of nova's consumers, for the online data migrations.

``GET /usages`` counts such consumers without naming them. So nova's consumers are read in the
order of their UUIDs until that many are found.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from osc_placement.client import api, retry
from osc_placement.model import allocation
from osc_placement.nova import servers as nova_servers
from osc_placement.nova.api import Nova
from osc_placement.plan import plan
from osc_placement.plan.kinds import allocations
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.reading import PlacementReader

LOG = logging.getLogger(__name__)

#: How many consumers are read before the incomplete ones among them are written.
_SLICE = 256

#: ``(project, user)``
_Owner = tuple[str | None, str | None]

#: The key of a count over all owners.
_ALL_OWNERS: _Owner = (None, None)

#: ``(position, plan)``; a run can continue from a position.
Slices = Iterator[tuple[str, plan.ObservedPlan]]


@dataclasses.dataclass(frozen=True, slots=True)
class _NovaConsumer:
    """A server or a migration as nova reports it; ``name`` is for people."""

    uuid: str
    name: str
    type: str
    project_id: str | None
    user_id: str | None

    @property
    def owner(self) -> _Owner:
        return self.project_id, self.user_id


#: Returns the fields to set in a consumer; empty if there is nothing to set.
_Complete = Callable[[allocation.Consumer, _NovaConsumer], dict[str, Any]]


def plan_types(client: api.Client, nova: Nova, *, after: str = "", workers: int = 1) -> Slices:
    """Plans that set the type of servers' and migrations' consumers without type (1.38).

    Starts behind the position ``after``. Consumers of other services are not read. A type
    cannot be unset.
    Requests: nova's servers and migrations; one per project and, if the project has consumers
    without type, per user; one per consumer until all are found.
    """
    client.require_owners()
    listed = _list_consumers(nova)

    def complete(consumer: allocation.Consumer, reported: _NovaConsumer) -> dict[str, Any]:
        is_unset = consumer.consumer_type == allocation.UNKNOWN_TYPE
        return {"consumer_type": reported.type} if is_unset else {}

    return _in_slices(client, listed, _count_untyped(client, listed), complete, after, workers)


def plan_owners(client: api.Client, nova: Nova, *, after: str = "", workers: int = 1) -> Slices:
    """Plans that replace the placeholder owners of nova's consumers.

    Requests: nova's servers and migrations; one for the count; one per consumer until all are
    found.
    """
    client.require_owners()
    listed = [item for item in _list_consumers(nova) if item.project_id and item.user_id]

    def complete(consumer: allocation.Consumer, reported: _NovaConsumer) -> dict[str, Any]:
        is_placeholder = consumer.project_id == allocation.PLACEHOLDER
        owner = {"project_id": reported.project_id, "user_id": reported.user_id}
        return owner if is_placeholder else {}

    total = retry.read(lambda: client.show_total_usage(allocation.PLACEHOLDER))
    counts = {_ALL_OWNERS: total.consumer_count or 0}
    return _in_slices(client, listed, counts, complete, after, workers)


def _list_consumers(nova: Nova) -> list[_NovaConsumer]:
    """Servers that are not deleted, and migrations."""
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
    listed: Iterable[_NovaConsumer],
    counts: dict[_Owner, int],
    complete: _Complete,
    after: str,
    workers: int,
) -> Slices:
    """``counts``: how many incomplete consumers of each owner are still to be found."""

    def owner(item: _NovaConsumer) -> _Owner:
        return _ALL_OWNERS if _ALL_OWNERS in counts else item.owner

    ordered = sorted((item for item in listed if item.uuid > after), key=lambda item: item.uuid)
    possible = [item for item in ordered if counts.get(owner(item), 0) > 0]
    reader = PlacementReader(client, ReadContext(workers=workers))
    for start in range(0, len(possible), _SLICE):
        part = possible[start : start + _SLICE]
        by_uuid = {item.uuid: item for item in part if counts[owner(item)] > 0}
        changes, observed = [], {}
        for consumer in reader.consumers(by_uuid).values():
            item = by_uuid[consumer.uuid]
            fields = complete(consumer, item) if consumer.allocations else {}
            if fields:
                counts[owner(item)] -= 1
                completed = dataclasses.replace(consumer, **fields)
                changes.append(allocations.planned(item.name, consumer, completed))
                observed[changes[-1].key] = allocations.observed(consumer)
        LOG.info("%d of %d consumers to complete", len(changes), len(by_uuid))
        yield part[-1].uuid, plan.ObservedPlan(plan.make(changes), observed)


def _count_untyped(client: api.Client, listed: Iterable[_NovaConsumer]) -> dict[_Owner, int]:
    """How many consumers of each owner have no type, without owners of none."""
    users: dict[str, set[str]] = {}
    for item in listed:
        if item.project_id and item.user_id:
            users.setdefault(item.project_id, set()).add(item.user_id)

    def count(project: str, user: str | None = None) -> int:
        usages = retry.read(lambda: client.show_usages(project, user, allocation.UNKNOWN_TYPE))
        return sum(usage.consumer_count or 0 for usage in usages)

    return {
        (project, user): count(project, user)
        for project in sorted(users)
        if count(project)
        for user in sorted(users[project])
    }
