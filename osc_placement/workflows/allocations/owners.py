"""Which consumers may have a wrong owner, from Placement's sums. Pure.

No listing reports a consumer's owner, but ``GET /usages`` adds up what the consumers of one
project and user hold, and from 1.38 how many they are. Two consumers of the same size that have
swapped owners do not show in these sums; ``--check-owners`` reads every consumer instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from osc_placement.model import allocation
from osc_placement.workflows.allocations.snapshot import CloudSnapshot, ProjectUser, UsageSum


def server_owners(snapshot: CloudSnapshot) -> list[ProjectUser]:
    """The owners of all servers that hold allocations."""
    owners = {
        ProjectUser(server.project_id, server.user_id)
        for server in snapshot.servers.values()
        if server.project_id and server.user_id and snapshot.allocations.get(server.uuid)
    }
    return sorted(owners)


def suspects(snapshot: CloudSnapshot, uuids: Iterable[str]) -> list[str]:
    """Of servers, by UUID, those whose consumers may have a wrong owner."""
    wrong = differing(expected_sums(snapshot), snapshot.usages)
    return [uuid for uuid in uuids if _expected_owner(snapshot, uuid) in wrong]


def unexplained(snapshot: CloudSnapshot, suspected: Collection[str]) -> list[str]:
    """Consumers without a known owner that may explain the sums, if they are fewer to read."""
    unknown = [uuid for uuid in snapshot.allocations if _expected_owner(snapshot, uuid) is None]
    return unknown if suspected and len(unknown) < len(suspected) else []


def differing(
    expected: Mapping[ProjectUser, UsageSum], reported: Mapping[ProjectUser, UsageSum]
) -> set[ProjectUser]:
    """The owners whose sums in Placement are not the expected ones."""
    return {
        owner for owner, usage in expected.items() if not _sums_equal(usage, reported.get(owner))
    }


def expected_sums(snapshot: CloudSnapshot) -> dict[ProjectUser, UsageSum]:
    """What each owner's consumers should hold in all."""
    found: dict[ProjectUser, list[allocation.Resources]] = {}
    for uuid, allocations in snapshot.allocations.items():
        owner = _expected_owner(snapshot, uuid)
        if owner is not None:
            found.setdefault(owner, []).append(allocation.add_resources(*allocations.values()))
    return {
        owner: UsageSum(allocation.add_resources(*held), len(held)) for owner, held in found.items()
    }


def _sums_equal(expected: UsageSum, reported: UsageSum | None) -> bool:
    if reported is None or reported.consumers not in {None, expected.consumers}:
        return False
    used = {name: amount for name, amount in reported.resources.items() if amount}
    return used == {name: amount for name, amount in expected.resources.items() if amount}


def _expected_owner(snapshot: CloudSnapshot, uuid: str) -> ProjectUser | None:
    """The owner in nova; for consumers that nova does not know, the one read from Placement."""
    server = snapshot.servers.get(uuid) or snapshot.deleted_servers.get(uuid)
    move = snapshot.migrations.get(uuid)
    if server is None and move is not None:
        moved = move.server_uuid
        server = snapshot.servers.get(moved) or snapshot.deleted_servers.get(moved)
    owner = server or snapshot.owners.get(uuid) or move
    if owner is None or owner.project_id is None or owner.user_id is None:
        return None
    return ProjectUser(owner.project_id, owner.user_id)
