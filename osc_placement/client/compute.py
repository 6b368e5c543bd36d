"""What is asked of nova, through an SDK connection that the caller has."""

from __future__ import annotations

import dataclasses
from typing import Any

from osc_placement.client import errors


@dataclasses.dataclass(frozen=True, slots=True)
class HostAggregate:
    """A nova host aggregate; ``uuid`` is the placement aggregate that mirrors it."""

    id: str
    name: str
    uuid: str


def host_aggregates(connection: Any) -> list[HostAggregate]:
    """Every host aggregate that nova has; ``connection`` is an openstacksdk connection.

    Cost: one request to nova. Errors: PlacementError when nova cannot be asked, with
    nova's reason, and when it is too old to tell UUIDs (before compute API 2.41).
    """
    try:
        found = [
            HostAggregate(str(item.id), item.name, item.uuid)
            for item in connection.compute.aggregates()
        ]
    except Exception as error:  # The SDK's and keystoneauth's errors have no common root.
        raise errors.PlacementError(f"nova does not tell its host aggregates: {error}") from error
    if any(item.uuid is None for item in found):
        raise errors.PlacementError(
            "this nova is too old to tell the UUIDs of host aggregates (compute API 2.41):"
            " give the aggregate's UUID"
        )
    return found
