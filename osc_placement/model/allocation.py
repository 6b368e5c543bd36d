# SPDX-License-Identifier: Apache-2.0
"""Consumers and their allocations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: ``{resource class: amount}``
Resources = Mapping[str, int]

#: ``{provider uuid: {resource class: amount}}``: all allocations of a consumer.
Allocations = Mapping[str, Resources]

#: The API's type of a consumer without a type; it cannot be written.
UNKNOWN_TYPE = "unknown"

#: The types of nova's consumers: servers, and migrations (which hold the source host).
INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"

#: The project and user of consumers written below 1.8, without an owner: the default of
#: placement.conf's incomplete_consumer_project_id and incomplete_consumer_user_id.
PLACEHOLDER = "00000000-0000-0000-0000-000000000000"


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer with all its allocations.

    ``generation`` is None for a new consumer and below 1.28; ``consumer_type`` is None
    below 1.38.
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


def add_resources(*parts: Resources) -> dict[str, int]:
    """The sum per resource class."""
    total: dict[str, int] = {}
    for part in parts:
        for resource_class, amount in part.items():
            total[resource_class] = total.get(resource_class, 0) + amount
    return total
