"""Consumer types for those that nova made: it names none, and so they are all ``unknown``.

Called by the online data migration of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.client import api, compute, compute_server
from osc_placement.model import allocation
from osc_placement.workflows import batch, consumer, kind, patience, plan, worker

INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"

#: So many consumers are observed before those of them that lack a type are written.
_SLICE = 256

#: ``(project, user)``
_Owner = tuple[str | None, str | None]


def plan_types(
    client: api.Client, asked: compute.Nova, *, after: str = "", workers: int = 1
) -> Iterator[tuple[str, batch.Planned]]:
    """What sets the type of every server's and migration's consumer that has none, in slices.

    Yields ``(position, plan)``; ``after`` is a position to go on from. A consumer that is
    somebody else's is not looked at. Needs 1.38. Setting a type cannot be taken back.
    Cost: nova's servers and migrations; one request per project and, where consumers
    without type are in it, per user; one read per consumer until as many were found.
    """
    wanted, names, owners = _wanted(asked)
    missing = _missing(client, owners.values())
    uuids = sorted(uuid for uuid in wanted if uuid > after and missing.get(owners[uuid]))
    for start in range(0, len(uuids), _SLICE):
        part = uuids[start : start + _SLICE]
        left = [uuid for uuid in part if missing[owners[uuid]]]
        untyped = [item for item in _read(client, left, workers) if _lacks_type(item)]
        for item in untyped:
            missing[owners[item.uuid]] -= 1
        yield part[-1], _planned(untyped, wanted, names)


def _wanted(
    asked: compute.Nova,
) -> tuple[dict[str, str], dict[str, str], dict[str, _Owner]]:
    """By consumer UUID: the type that it should have, its name, its owner."""
    types: dict[str, str] = {}
    names: dict[str, str] = {}
    owners: dict[str, _Owner] = {}
    for server in compute_server.servers(asked):
        types[server.uuid], names[server.uuid] = INSTANCE, server.name
        owners[server.uuid] = (server.project_id, server.user_id)
    for move in compute_server.migrations(asked):
        types[move.uuid], names[move.uuid] = MIGRATION, f"{move.type} of {move.server_uuid}"
        owners[move.uuid] = (move.project_id, move.user_id)
    return types, names, owners


def _missing(client: api.Client, owners: Iterable[_Owner]) -> dict[_Owner, int]:
    """How many consumers of each owner have no type; owners of none are left out."""
    found: dict[_Owner, int] = {}
    users: dict[str, set[str]] = {}
    for project, user in owners:
        if project and user:
            users.setdefault(project, set()).add(user)
    for project in sorted(users):
        if not _untyped(client, project):
            continue
        for user in sorted(users[project]):
            found[project, user] = _untyped(client, project, user)
    return found


def _untyped(client: api.Client, project: str, user: str | None = None) -> int:
    unknown = allocation.UNKNOWN_TYPE
    usages = patience.read(lambda: client.show_usages(project, user, unknown))
    return sum(usage.consumer_count or 0 for usage in usages)


def _read(client: api.Client, uuids: Iterable[str], workers: int) -> list[allocation.Consumer]:
    return list(
        worker.each(
            lambda uuid: patience.read(lambda: client.show_allocations(uuid)), uuids, workers
        )
    )


def _lacks_type(item: allocation.Consumer) -> bool:
    return bool(item.allocations) and item.consumer_type == allocation.UNKNOWN_TYPE


def _planned(
    untyped: Sequence[allocation.Consumer], types: Mapping[str, str], names: Mapping[str, str]
) -> batch.Planned:
    changes = {
        item.uuid: consumer.planned(
            names[item.uuid], item, item.replace(consumer_type=types[item.uuid])
        )
        for item in untyped
    }
    known = {changes[item.uuid].key: kind.seen_consumer(item) for item in untyped}
    return batch.Planned(plan.make(changes.values()), known)
