# SPDX-License-Identifier: Apache-2.0
"""Defines the records of the server's state, and a set of changes to them.

Records are frozen: a change replaces a whole record, so no reader sees half of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from osc_placement.model.allocation import Allocations
from osc_placement.model.inventory import Inventories


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRecord:
    """A resource provider without its allocations.

    ``aggregates`` are in the order in which the client sent them; ``updated_at`` is in seconds
    since the epoch.
    """

    uuid: str
    name: str
    root_uuid: str
    parent_uuid: str | None = None
    generation: int = 0
    inventories: Inventories = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: tuple[str, ...] = ()
    updated_at: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A consumer and its allocations, ``{provider uuid: {resource class: amount}}``.

    ``consumer_type`` is None if it was never set.
    """

    uuid: str
    generation: int
    project_id: str
    user_id: str
    allocations: Allocations
    consumer_type: str | None = None
    updated_at: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a draft: new records by UUID or name, None for a deleted one.

    ``traits`` and ``resource_classes`` are the custom ones, ``{name: updated_at}``; the standard
    ones are not part of the state.
    """

    providers: Mapping[str, ProviderRecord | None] = dataclasses.field(default_factory=dict)
    consumers: Mapping[str, ConsumerRecord | None] = dataclasses.field(default_factory=dict)
    traits: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    resource_classes: Mapping[str, float | None] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.providers or self.consumers or self.traits or self.resource_classes)
