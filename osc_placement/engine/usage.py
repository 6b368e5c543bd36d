# SPDX-License-Identifier: Apache-2.0
"""Usage by project and user."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.engine import record, state
from osc_placement.model import allocation


def consumers_of(
    base: state.CloudState, project_id: str, user_id: str | None = None
) -> list[record.ConsumerRecord]:
    """The consumers of a project, or of a user in it, that have allocations."""
    found = (base.consumers[uuid] for uuid in base.consumers_in[project_id])
    return [
        consumer
        for consumer in found
        if consumer.allocations and user_id in (None, consumer.user_id)
    ]


def total(consumers: Iterable[record.ConsumerRecord]) -> dict[str, int]:
    """``{resource class: amount}`` over all allocations of the consumers."""
    return allocation.add_resources(
        *(part for consumer in consumers for part in consumer.allocations.values())
    )


def by_type(
    consumers: Iterable[record.ConsumerRecord],
) -> dict[str, list[record.ConsumerRecord]]:
    """``{consumer type: consumers}``; consumers without a type are under ``unknown``."""
    groups: dict[str, list[record.ConsumerRecord]] = {}
    for consumer in consumers:
        groups.setdefault(consumer.consumer_type or allocation.UNKNOWN_TYPE, []).append(consumer)
    return groups
