# SPDX-License-Identifier: Apache-2.0
"""Replaces placeholder owners of nova's consumers, for the online data migrations.

``GET /usages`` counts such consumers without naming them. So nova's consumers are read in the
order of their UUIDs until that many are found.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import NamedTuple

from osc_placement.client import api
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

#: ``(position, plan)``; a run can continue from a position.
Slices = Iterator[tuple[str, plan.ObservedPlan]]


class _NovaConsumer(NamedTuple):
    """A server or a migration whose owner nova reports; ``name`` is for people."""

    uuid: str
    name: str
    project_id: str | None
    user_id: str | None


def plan_owners(client: api.Client, nova: Nova, *, after: str = "", workers: int = 1) -> Slices:
    """Plans that replace the placeholder owners of nova's consumers.

    Starts behind the position ``after``. Consumers of other services are not read.
    Requests: nova's servers and migrations; one for the count; one per consumer until all are
    found.
    """
    client.require_owners()
    listed = sorted(_list_consumers(nova))
    total = client.show_total_usage(allocation.PLACEHOLDER)
    left = total.consumer_count or 0
    reader = PlacementReader(client, ReadContext(workers=workers))
    following = [item for item in listed if item.uuid > after]
    for start in range(0, len(following), _SLICE):
        if left <= 0:
            return
        part = following[start : start + _SLICE]
        planned = _complete(reader, part)
        left -= len(planned.plan.changes)
        yield part[-1].uuid, planned


def _list_consumers(nova: Nova) -> list[_NovaConsumer]:
    """Servers that are not deleted, and migrations; those that have an owner."""
    servers = [
        _NovaConsumer(server.uuid, server.name, server.project_id, server.user_id)
        for server in nova_servers.servers(nova)
    ]
    moves = [
        _NovaConsumer(
            move.uuid, f"{move.type} of {move.server_uuid}", move.project_id, move.user_id
        )
        for move in nova_servers.migrations(nova)
    ]
    return [item for item in (*servers, *moves) if item.project_id and item.user_id]


def _complete(reader: PlacementReader, part: list[_NovaConsumer]) -> plan.ObservedPlan:
    """The changes of one slice. Requests: one per consumer."""
    by_uuid = {item.uuid: item for item in part}
    changes, observed = [], {}
    for consumer in reader.consumers(by_uuid).values():
        if not consumer.allocations or consumer.project_id != allocation.PLACEHOLDER:
            continue
        item = by_uuid[consumer.uuid]
        owner = dataclasses.replace(consumer, project_id=item.project_id, user_id=item.user_id)
        changes.append(allocations.planned(item.name, consumer, owner))
        observed[changes[-1].key] = allocations.observed(consumer)
    LOG.info("%d of %d consumers to complete", len(changes), len(part))
    return plan.ObservedPlan(plan.make(changes), observed)
