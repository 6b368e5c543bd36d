# SPDX-License-Identifier: Apache-2.0
"""Which consumers may have a wrong owner, from Placement's sums. Pure.

No listing reports a consumer's owner, but ``GET /usages`` adds up what the consumers of one project
and user hold, and from 1.38 how many they are. Where a sum is not the expected one, the consumers
of this owner are read, a part at a time, those first whose amounts are nearest to what the sum
lacks: each wrong owner that is found changes the sums of two owners. Two consumers of the same size
that have swapped owners do not show in these sums; ``--check-owners`` reads every consumer instead,
and a database file shows all owners.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping

from osc_placement.model import allocation
from osc_placement.model.name import counted
from osc_placement.workflows.cloud.cloud import Cloud, ProjectUser

#: The most consumers that are read one by one without ``--check-owners``.
MOST_READS = 20_000

#: Of the suspected consumers of an owner with the nearest amounts, a quarter is read at a time, but
#: at least ``_FEW``: a wrong owner is found before all of them are read.
_PARTS, _FEW = 4, 8


def server_owners(snapshot: Cloud) -> list[ProjectUser]:
    """The owners of all servers that hold allocations."""
    owners = {
        ProjectUser(server.project_id, server.user_id)
        for server in snapshot.servers.values()
        if server.project_id and server.user_id and snapshot.allocations.get(server.uuid)
    }
    return sorted(owners)


def unexplained(snapshot: Cloud, suspected: Collection[str]) -> list[str]:
    """Consumers without a known owner that may explain the sums, if they are fewer to read."""
    unknown = [uuid for uuid in snapshot.allocations if owner_of(snapshot, uuid) is None]
    return unknown if suspected and len(unknown) < len(suspected) else []


def limit_note(snapshot: Cloud, readable: Iterable[str]) -> list[str]:
    """What the search left out because of ``MOST_READS``; empty if it ended before."""
    if len(snapshot.owners) < MOST_READS or not snapshot.sums:
        return []
    left = len(OwnerSearch(snapshot, readable).suspects())
    if not left:
        return []
    return [
        f"the owners of {counted(left, 'server')} were not checked: the sums of their projects and"
        f" users differ, and the limit of {MOST_READS} reads is reached; --check-owners reads all"
    ]


class OwnerSearch:
    """Chooses the consumers to read until the sums of all owners are the expected ones.

    ``readable``: the consumers that may be read. ``learn`` takes what was read.
    """

    def __init__(self, snapshot: Cloud, readable: Iterable[str]) -> None:
        self._accounts = {
            owner: _Account(collections.Counter(usage.resources), usage.consumers)
            for owner, usage in snapshot.sums.items()
        }
        self._account_of: dict[str, _Account] = {}
        self._resources = {
            uuid: allocation.add_resources(*allocations.values())
            for uuid, allocations in snapshot.allocations.items()
        }
        for uuid, resources in self._resources.items():
            account = self._account(snapshot, uuid)
            if account is not None:
                account.expect(resources)
                self._account_of[uuid] = account
        for uuid in sorted(readable):
            if uuid in self._account_of and uuid not in snapshot.owners:
                self._account_of[uuid].unread[uuid] = None
        self.reads = len(snapshot.owners)

    def suspects(self) -> list[str]:
        """All unread consumers of the owners whose sums differ."""
        return [uuid for account in self._differing() for uuid in account.unread]

    def next(self) -> list[str]:
        """The consumers to read next; empty when the sums are the expected ones, or at the limit.

        Of owners that lack something first: a wrong owner that is found there is what another
        owner has too much.
        """
        differing = [account for account in self._differing() if account.unread]
        accounts = [account for account in differing if account.lacks] or differing
        suspects = [uuid for account in accounts for uuid in account.first_part(self._resources)]
        return suspects[: max(MOST_READS - self.reads, 0)]

    def learn(self, snapshot: Cloud, uuids: Iterable[str]) -> None:
        """Correct the sums with the owners of consumers that were read."""
        for uuid in uuids:
            self.reads += 1
            account = self._account_of.pop(uuid)
            account.expect(self._resources[uuid], -1)
            del account.unread[uuid]
            if uuid in snapshot.allocations:
                actual = self._account(snapshot, uuid)
                if actual is not None:
                    actual.expect(allocation.add_resources(*snapshot.allocations[uuid].values()))

    def _differing(self) -> list[_Account]:
        return [account for account in self._accounts.values() if account.differs]

    def _account(self, snapshot: Cloud, uuid: str) -> _Account | None:
        owner = owner_of(snapshot, uuid)
        return None if owner is None else self._accounts.get(owner)


@dataclasses.dataclass(slots=True)
class _Account:
    """The consumers of one owner: what Placement reports of them, minus what is expected.

    ``count`` is the difference of their number, None if Placement does not report it.
    ``unread``: the consumers that may have another owner, in a fixed order.
    """

    difference: collections.Counter[str]
    count: int | None
    unread: dict[str, None] = dataclasses.field(default_factory=dict)

    @property
    def differs(self) -> bool:
        """Whether the sums are not the expected ones."""
        return any(self.difference.values()) or bool(self.count)

    @property
    def lacks(self) -> bool:
        """Whether a sum is less than expected: consumers of this owner have another one."""
        return min(self.difference.values(), default=0) < 0 or (self.count or 0) < 0

    def expect(self, resources: Mapping[str, int], number: int = 1) -> None:
        """Expect one more consumer with these resources, or one less."""
        for name, amount in resources.items():
            self.difference[name] -= number * amount
        if self.count is not None:
            self.count -= number

    def first_part(self, resources: Mapping[str, Mapping[str, int]]) -> list[str]:
        """Some of the unread consumers, nearest to one of those that the sum lacks."""
        number = abs(self.count or 1)
        wanted = {name: abs(amount) / number for name, amount in self.difference.items() if amount}

        def distance(uuid: str) -> float:
            amounts = resources[uuid]
            return sum(abs(1 - amounts.get(name, 0) / amount) for name, amount in wanted.items())

        distances = {uuid: distance(uuid) for uuid in self.unread}
        nearest = sorted(self.unread, key=distances.__getitem__)
        number_nearest = sum(value == distances[nearest[0]] for value in distances.values())
        return nearest[: max(_FEW, number_nearest // _PARTS)]


def owner_of(snapshot: Cloud, uuid: str) -> ProjectUser | None:
    """The owner in Placement, if it was read; otherwise the owner in nova."""
    server = snapshot.servers.get(uuid) or snapshot.deleted_servers.get(uuid)
    move = snapshot.migrations.get(uuid)
    if server is None and move is not None:
        moved = move.server_uuid
        server = snapshot.servers.get(moved) or snapshot.deleted_servers.get(moved)
    owner = snapshot.owners.get(uuid) or server or move
    if owner is None or owner.project_id is None or owner.user_id is None:
        return None
    return ProjectUser(owner.project_id, owner.user_id)
