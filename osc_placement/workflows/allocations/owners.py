"""Whose consumers are, compared in bulk: sums first, consumers only where these differ.

No listing tells a consumer's owner, but ``GET /usages`` tells what the consumers of one
project and user have in all, and from 1.38 how many they are. Two consumers that have
swapped owners and are of one size do not show so; reading each of them shows everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement.client import api, retry
from osc_placement.model import allocation
from osc_placement.plan import workers
from osc_placement.workflows.allocations import observe, snapshot as pictures
from osc_placement.workflows.batch import plan


class Owner(NamedTuple):
    """Who owns consumers."""

    project_id: str
    user_id: str


class UsageSum(NamedTuple):
    """What so many ``consumers`` have in all; None where that is not told (below 1.38)."""

    resources: allocation.Resources
    consumers: int | None


def with_owners(
    client: api.Client,
    picture: pictures.CloudSnapshot,
    uuids: Collection[str],
    reading: plan.ReadContext | None = None,
    *,
    every: bool = False,
) -> pictures.CloudSnapshot:
    """The picture with the owners of those servers' consumers that may be wrong.

    A consumer that is not in ``owners`` afterwards is its server's project's and user's, as far
    as sums tell. ``every``: read all, and compare nothing.
    Cost: one request per project and user that has servers; one per consumer of those whose
    sums differ. Where fewer consumers are neither server's nor migration's, they are read
    first: what they explain need not be read. ``every``: one per consumer.
    """
    reading = reading or plan.ReadContext()
    held = [uuid for uuid in uuids if picture.allocations.get(uuid)]
    if every:
        return observe.with_consumers(client, picture, held, reading)
    told = _told(client, _owners(picture), reading)
    suspects = _suspects(picture, held, told)
    strangers = _strangers(picture)
    if suspects and len(strangers) < len(suspects):
        picture = observe.with_consumers(client, picture, strangers, reading)
        suspects = _suspects(picture, held, told)
    return observe.with_consumers(client, picture, suspects, reading)


def differing(expected: Mapping[Owner, UsageSum], told: Mapping[Owner, UsageSum]) -> set[Owner]:
    """The owners of whom Placement tells other sums than expected. Pure."""
    return {pair for pair, wanted in expected.items() if not _same(wanted, told.get(pair))}


def expected_sums(picture: pictures.CloudSnapshot) -> dict[Owner, UsageSum]:
    """What each owner's consumers should have: servers, their migrations, and who was read."""
    found: dict[Owner, list[allocation.Resources]] = {}
    for uuid, allocations in picture.allocations.items():
        pair = _pair_of(picture, uuid)
        if pair is not None:
            found.setdefault(pair, []).append(allocation.add_resources(*allocations.values()))
    return {
        pair: UsageSum(allocation.add_resources(*each), len(each)) for pair, each in found.items()
    }


def _same(wanted: UsageSum, told: UsageSum | None) -> bool:
    if told is None:
        return False
    counted = told.consumers is None or told.consumers == wanted.consumers
    used = {name: amount for name, amount in told.resources.items() if amount}
    return counted and used == {name: amount for name, amount in wanted.resources.items() if amount}


def _pair_of(picture: pictures.CloudSnapshot, uuid: str) -> Owner | None:
    """Whose a consumer should be, or is where nova does not know it; None if nobody tells."""
    server = picture.servers.get(uuid) or picture.deleted.get(uuid)
    move = picture.migrations.get(uuid)
    if server is None and move is not None:
        server = picture.servers.get(move.server_uuid) or picture.deleted.get(move.server_uuid)
    owner = server or picture.owners.get(uuid) or move
    if owner is None or owner.project_id is None or owner.user_id is None:
        return None
    return Owner(owner.project_id, owner.user_id)


def _owners(picture: pictures.CloudSnapshot) -> list[Owner]:
    pairs = {
        Owner(server.project_id, server.user_id)
        for server in picture.servers.values()
        if server.project_id and server.user_id and picture.allocations.get(server.uuid)
    }
    return sorted(pairs)


def _told(
    client: api.Client, pairs: Sequence[Owner], reading: plan.ReadContext
) -> dict[Owner, UsageSum]:
    """What Placement says of each owner. One request each."""

    def told(pair: Owner) -> UsageSum:
        total = retry.read(lambda: client.show_total_usage(*pair))
        return UsageSum(total.resources, total.consumer_count)

    reading.watch.expect("reading usages", len(pairs))
    found = {}
    for pair, summed in zip(pairs, workers.each(told, pairs, reading.workers), strict=True):
        found[pair] = summed
        reading.watch.advance()
    return found


def _suspects(
    picture: pictures.CloudSnapshot, held: Iterable[str], told: Mapping[Owner, UsageSum]
) -> list[str]:
    """The servers' consumers of owners whose sums differ."""
    wrong = differing(expected_sums(picture), told)
    return [uuid for uuid in held if _pair_of(picture, uuid) in wrong]


def _strangers(picture: pictures.CloudSnapshot) -> list[str]:
    """Consumers of which nova knows nothing."""
    return [uuid for uuid in picture.allocations if _pair_of(picture, uuid) is None]
