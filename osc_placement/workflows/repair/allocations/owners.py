# SPDX-License-Identifier: Apache-2.0
"""Which consumers may have a wrong owner, from Placement's sums. Pure.

No listing reports a consumer's owner, but ``GET /usages`` adds up what the consumers of one
project and user hold, and from 1.38 how many they are. Where a sum is not the expected one, the
consumers whose amounts explain the difference are read, some at a time: each wrong owner that is
found changes the sums of two owners. A consumer with a wrong owner is missing in the sum of the
owner that it should have, and extra in the sum of another one. Two consumers of the same size that
have swapped owners do not show in these sums; ``--check-owners`` reads every consumer instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator

from osc_placement.model import allocation
from osc_placement.model.name import counted
from osc_placement.workflows.repair.allocations.snapshot import CloudSnapshot, ProjectUser

#: The most consumers that are read one by one without ``--check-owners``.
MOST_READS = 20_000

#: Of the suspected consumers of an owner, a quarter is read at a time, but at least ``_FEW``: a
#: wrong owner is found before all of them are read.
_PARTS, _FEW = 4, 8


def server_owners(snapshot: CloudSnapshot) -> list[ProjectUser]:
    """The owners of all servers that hold allocations."""
    owners = {
        ProjectUser(server.project_id, server.user_id)
        for server in snapshot.servers.values()
        if server.project_id and server.user_id and snapshot.allocations.get(server.uuid)
    }
    return sorted(owners)


def unexplained(snapshot: CloudSnapshot, suspected: Collection[str]) -> list[str]:
    """Consumers without a known owner that may explain the sums, if they are fewer to read."""
    unknown = [uuid for uuid in snapshot.allocations if owner_of(snapshot, uuid) is None]
    return unknown if suspected and len(unknown) < len(suspected) else []


def limit_note(snapshot: CloudSnapshot, readable: Iterable[str]) -> list[str]:
    """What the search left out because of ``MOST_READS``; empty if it ended before."""
    if len(snapshot.owners) < MOST_READS:
        return []
    left = len(OwnerSearch(snapshot, readable).suspects())
    if not left:
        return []
    return [
        f"the owners of {counted(left, 'server')} were not checked: the sums of their projects and"
        f" users differ, and the limit of {MOST_READS} reads is reached; --check-owners reads all"
    ]


class OwnerSearch:
    """Chooses the consumers to read until the sums of all owners are explained.

    ``readable``: the consumers that may be read. ``learn`` takes what was read.
    """

    def __init__(self, snapshot: CloudSnapshot, readable: Iterable[str]) -> None:
        self._classes = _classes(snapshot)
        self._account_of: dict[str, _Account] = {}
        self._accounts = {
            owner: _Account(self._amounts(usage.resources), usage.consumers)
            for owner, usage in snapshot.usages.items()
        }
        self._sizes: dict[Vector, Vector] = {}
        self._vectors = {
            uuid: self._size(allocations) for uuid, allocations in snapshot.allocations.items()
        }
        for uuid in snapshot.allocations:
            account = self._account(snapshot, uuid)
            if account is not None:
                account.expect(self._vectors[uuid])
                self._account_of[uuid] = account
        for uuid in readable:
            if uuid in self._account_of and uuid not in snapshot.owners:
                vector = self._vectors[uuid]
                self._account_of[uuid].unread.setdefault(vector, {})[uuid] = None
        self.reads = len(snapshot.owners)

    def suspects(self) -> list[str]:
        """All unread consumers of the owners whose sums differ."""
        return [
            uuid
            for account in self._differing()
            for uuids in account.unread.values()
            for uuid in uuids
        ]

    def next(self) -> list[str]:
        """The consumers to read next; empty when the sums are explained, or at the limit."""
        probable, others = [], []
        for account in self._differing():
            vectors = explanations(
                tuple(account.difference), account.count, account.unread, self._sizes
            )
            probable += account.first_part(vectors or ())
            others += account.first_part(account.unread)
        # Each wrong owner that is found may explain the sums of another owner too.
        suspects = probable or others
        return suspects[: max(MOST_READS - self.reads, 0)]

    def learn(self, snapshot: CloudSnapshot, uuids: Iterable[str]) -> None:
        """Correct the sums with the owners of consumers that were read."""
        for uuid in uuids:
            self.reads += 1
            account, vector = self._account_of.pop(uuid), self._vectors[uuid]
            account.forget(uuid, vector)
            if uuid in snapshot.allocations:
                actual = self._account(snapshot, uuid)
                resources = allocation.add_resources(*snapshot.allocations[uuid].values())
                if actual is not None:
                    actual.expect(self._amounts(resources))

    def _differing(self) -> list[_Account]:
        return [account for account in self._accounts.values() if account.differs]

    def _account(self, snapshot: CloudSnapshot, uuid: str) -> _Account | None:
        owner = owner_of(snapshot, uuid)
        return None if owner is None else self._accounts.get(owner)

    def _size(self, allocations: allocation.Allocations) -> Vector:
        """The amounts of a consumer: the same object for equal amounts."""
        vector = self._amounts(allocation.add_resources(*allocations.values()))
        return self._sizes.setdefault(vector, vector)

    def _amounts(self, resources: allocation.Resources) -> Vector:
        return tuple(resources.get(name, 0) for name in self._classes)


class _Account:
    """The consumers of one owner: what Placement reports of them, minus what is expected.

    ``count`` is the difference of their number, None if Placement does not report it.
    ``unread``: ``{amounts: consumers that may have another owner}``, in a fixed order.
    """

    def __init__(self, reported: Vector, count: int | None) -> None:
        self.difference = list(reported)
        self.count = count
        self.unread: dict[Vector, dict[str, None]] = {}

    @property
    def differs(self) -> bool:
        """Whether the sums are not the expected ones."""
        return any(self.difference) or bool(self.count)

    def expect(self, vector: Vector, number: int = 1) -> None:
        """Expect one more consumer with these amounts, or one less."""
        for index, amount in enumerate(vector):
            self.difference[index] -= number * amount
        if self.count is not None:
            self.count -= number

    def forget(self, uuid: str, vector: Vector) -> None:
        """Expect a consumer no longer: it was read."""
        self.expect(vector, -1)
        del self.unread[vector][uuid]
        if not self.unread[vector]:
            del self.unread[vector]

    def first_part(self, vectors: Iterable[Vector]) -> list[str]:
        """Some of the unread consumers with these amounts."""
        uuids = [uuid for vector in sorted(vectors) for uuid in self.unread[vector]]
        return uuids[: max(_FEW, len(uuids) // _PARTS)]


def _classes(snapshot: CloudSnapshot) -> list[str]:
    """The resource classes of all allocations and sums."""
    used = {name for usage in snapshot.usages.values() for name in usage.resources}
    allocated = {
        name
        for allocations in snapshot.allocations.values()
        for resources in allocations.values()
        for name in resources
    }
    return sorted(used | allocated)


def owner_of(snapshot: CloudSnapshot, uuid: str) -> ProjectUser | None:
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


#: The amounts of a consumer, or a difference of sums, in a fixed order of resource classes.
Vector = tuple[int, ...]

#: The most combinations of amounts that are tried for one owner.
_MOST_COMBINATIONS = 10_000


def explanations(
    difference: Vector, count: int | None, own: Collection[Vector], others: Collection[Vector]
) -> set[Vector] | None:
    """The amounts of missing consumers in the smallest explanations of a difference.

    ``difference`` is what Placement reports, minus what is expected; ``count`` is the same for
    the number of consumers, None if Placement does not report it. ``own`` are the amounts that
    may be missing, ``others`` those that may be extra. Empty if extra consumers alone explain
    the difference; None if more than three consumers, or more combinations than are tried, are
    needed.
    """
    missing, extra = frozenset(own), frozenset(others)
    for size in (1, 2, 3):
        subsets = [
            lost
            for lost, gained in _combinations(difference, size, missing, extra)
            if count is None or count == gained - len(lost)
        ]
        if subsets:
            # Missing consumers first: each of them is extra in another owner's sum.
            return {vector for lost in subsets for vector in lost}
    return None


def _combinations(
    difference: Vector, size: int, own: frozenset[Vector], others: frozenset[Vector]
) -> Iterator[tuple[tuple[Vector, ...], int]]:
    """``(missing amounts, number of extra consumers)`` that explain the difference together."""
    for gained in range(size + 1):
        lost = size - gained
        if len(own) ** max(lost - (not gained), 0) * len(others) ** max(gained - 1, 0) > (
            _MOST_COMBINATIONS
        ):
            continue
        for extra in itertools.combinations_with_replacement(sorted(others), max(gained - 1, 0)):
            rest = _minus(difference, *extra)
            yield from _completed(rest, lost, gained, own, others)


def _completed(
    rest: Vector, lost: int, gained: int, own: frozenset[Vector], others: frozenset[Vector]
) -> Iterator[tuple[tuple[Vector, ...], int]]:
    """Choose the missing amounts; the last amount follows from the others."""
    chosen = lost if gained else lost - 1
    for missing in itertools.combinations_with_replacement(sorted(own), chosen):
        left = _plus(rest, *missing)
        if gained:
            if left in others:
                yield missing, gained
        else:
            last = tuple(-amount for amount in left)
            if last in own:
                yield (*missing, last), gained


def _plus(vector: Vector, *more: Vector) -> Vector:
    return tuple(map(sum, zip(vector, *more, strict=True)))


def _minus(vector: Vector, *less: Vector) -> Vector:
    return _plus(vector, *(tuple(-amount for amount in each) for each in less))
