"""Allocations: what a consumer has of which provider, and the consumer itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: ``{resource class: amount}``
Resources = Mapping[str, int]

#: ``{provider uuid: {resource class: amount}}``: a consumer's allocations, whole.
Allocations = Mapping[str, Resources]

#: What a consumer's type reads as when none was ever set; it cannot be written.
UNKNOWN_TYPE = "unknown"

#: The types of nova's consumers: servers, and the sources of their moves.
INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"

#: The project and user of consumers that were written below 1.8, when there were none: the
#: default of placement.conf's incomplete_consumer_project_id and incomplete_consumer_user_id.
PLACEHOLDER = "00000000-0000-0000-0000-000000000000"


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """Who uses resources, and all of what it uses.

    ``generation`` is None for a consumer that does not exist yet (or below 1.28, where
    it is not told); ``consumer_type`` is None below 1.38.
    """

    uuid: str
    allocations: Allocations
    project_id: str | None = None
    user_id: str | None = None
    generation: int | None = None
    consumer_type: str | None = None

    def total(self) -> dict[str, int]:
        """``{resource class: amount}`` over all providers."""
        return add_resources(*self.allocations.values())

    def replace(self, **fields: object) -> Consumer:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)  # type: ignore[arg-type]


def add_resources(*parts: Resources) -> dict[str, int]:
    """The sum per resource class."""
    total: dict[str, int] = {}
    for part in parts:
        for resource_class, amount in part.items():
            total[resource_class] = total.get(resource_class, 0) + amount
    return total
