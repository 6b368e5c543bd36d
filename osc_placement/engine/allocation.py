# SPDX-License-Identifier: Apache-2.0
"""Rules for allocations. A write replaces all allocations of its consumers, or changes nothing.

The reshaper also changes the inventories of several providers in the same step.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence

from osc_placement.engine import (
    errors,
    inventories,
    providers,
    record,
    standard,
    state,
)
from osc_placement.engine.draft import Draft
from osc_placement.model.allocation import PLACEHOLDER, Allocations
from osc_placement.model.inventory import Inventories, Inventory


class Unchecked(enum.Enum):
    """The generation of a claim below 1.28, where consumers have no generation."""

    TOKEN = 0


UNCHECKED = Unchecked.TOKEN


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """All allocations that a consumer has after the write; empty ones delete it.

    ``generation`` is the consumer generation that the client sent, None for a new consumer.
    ``consumer_type`` None keeps the type.
    """

    consumer_uuid: str
    allocations: Allocations
    project_id: str = PLACEHOLDER
    user_id: str = PLACEHOLDER
    generation: int | Unchecked | None = UNCHECKED
    consumer_type: str | None = None


def write(draft: Draft, claims: Sequence[Claim]) -> None:
    """Replace the allocations of the claims' consumers, all of them or none.

    The generation of each provider that a claim names, or that a deleted consumer used, increases
    by one. Capacity is checked against the sum of all claims.
    """
    check(draft, claims)
    for claim in claims:
        for resources in claim.allocations.values():
            state.check_classes(draft, resources)
    touched = _changed_providers(draft, claims)
    _check_rows(draft, claims)
    _check_amounts(draft, claims)
    for claim in claims:
        _put(draft, claim)
    for uuid in touched:
        draft.bump(providers.require(draft, uuid))


def check(draft: Draft, claims: Iterable[Claim]) -> None:
    """Raise unless all consumer generations match and all providers exist."""
    claims = list(claims)
    for claim in claims:
        _check_generation(draft, claim)
    for claim in claims:
        for uuid in claim.allocations:
            if draft.provider(uuid) is None:
                raise errors.AllocationProviderNotFound(uuid=uuid)


def reshape(
    draft: Draft,
    inventories_by_provider: Mapping[str, tuple[int, Inventories]],
    claims: Sequence[Claim],
) -> None:
    """Set inventories, ``{provider uuid: (generation, inventories)}``, and allocations.

    As in Placement: first the old and new inventories together (generation + 1 if there are new
    ones), then the allocations (+ 1 per provider used), then the new inventories alone (+ 1).
    Unlike other writes, the result may have a negative capacity.
    """
    for uuid, (generation, _) in inventories_by_provider.items():
        provider = providers.require(draft, uuid)
        if provider.generation != generation:
            raise errors.ReshapeGenerationConflict(
                uuid=uuid, actual=provider.generation, given=generation
            )
    check(draft, claims)
    for uuid, (_, target) in inventories_by_provider.items():
        state.check_classes(draft, target)
        for name, inventory in target.items():
            inventories.check_finite(uuid, name, inventory)
    for uuid, (_, target) in inventories_by_provider.items():
        if target:
            provider = providers.require(draft, uuid)
            inventories.assign(draft, provider, {**provider.inventories, **target})
    write(draft, claims)
    for uuid, (_, target) in inventories_by_provider.items():
        inventories.assign(draft, providers.require(draft, uuid), target)


def create_consumers(draft: Draft, claims: Iterable[Claim]) -> None:
    """Create the consumers that do not exist, without allocations.

    Placement creates consumers before it looks for their providers. A write that names an unknown
    provider therefore leaves a consumer with a generation.
    """
    for claim in claims:
        if draft.consumer(claim.consumer_uuid) is None:
            _put(draft, dataclasses.replace(claim, allocations={}))


def delete(draft: Draft, consumer_uuid: str) -> None:
    """Delete a consumer with all its allocations, regardless of its generation."""
    consumer = draft.consumer(consumer_uuid)
    if consumer is None or not consumer.allocations:
        raise errors.AllocationsNotFound(uuid=consumer_uuid)
    draft.remove_consumer(consumer_uuid)


def _check_generation(draft: Draft, claim: Claim) -> None:
    if claim.generation is UNCHECKED:
        return
    consumer = draft.consumer(claim.consumer_uuid)
    if consumer is None:
        if claim.generation is not None:
            raise errors.ConsumerGenerationConflict(expected="null", given=claim.generation)
    elif claim.generation != consumer.generation:
        raise errors.ConsumerGenerationConflict(
            expected=consumer.generation, given=claim.generation
        )


def _changed_providers(draft: Draft, claims: Iterable[Claim]) -> list[str]:
    """The providers whose generation increases, each once."""
    touched: dict[str, None] = {}
    for claim in claims:
        touched.update(dict.fromkeys(claim.allocations))
        consumer = draft.consumer(claim.consumer_uuid)
        if consumer is not None and not claim.allocations:
            touched.update(dict.fromkeys(consumer.allocations))
    return list(touched)


def _put(draft: Draft, claim: Claim) -> None:
    consumer = draft.consumer(claim.consumer_uuid)
    if consumer is not None and consumer.allocations and not claim.allocations:
        draft.remove_consumer(claim.consumer_uuid)
        return
    generation = consumer.generation if consumer else draft.first_generation
    known_type = consumer.consumer_type if consumer else None
    draft.put_consumer(
        record.ConsumerRecord(
            uuid=claim.consumer_uuid,
            # A consumer without allocations is created, but its generation does not increase.
            generation=generation + 1 if claim.allocations else generation,
            project_id=claim.project_id,
            user_id=claim.user_id,
            allocations=claim.allocations,
            consumer_type=claim.consumer_type or known_type,
        )
    )


def _check_rows(draft: Draft, claims: Iterable[Claim]) -> None:
    """Raise NoInventory for claimed providers without inventory of any of the named classes."""
    named: set[str] = set()
    claimed: dict[str, None] = {}
    for claim in claims:
        consumer = draft.consumer(claim.consumer_uuid)
        freed = consumer.allocations if consumer is not None and not claim.allocations else {}
        named.update(*claim.allocations.values(), *freed.values())
        claimed.update(dict.fromkeys(claim.allocations))
    missing = [
        uuid
        for uuid in claimed
        if providers.require(draft, uuid).inventories.keys().isdisjoint(named)
    ]
    if missing:
        names = ", ".join(standard.classes_in_order(named))
        raise errors.NoInventory(name=names, uuid=", ".join(missing))


def _check_amounts(draft: Draft, claims: Sequence[Claim]) -> None:
    """Raise for the first amount that violates units or capacity.

    The amounts of all claims are added up in order, on top of the usage of other consumers.
    """
    taken = _current_amounts(draft, claims)
    final = _summed(claim.allocations for claim in claims)
    running: dict[tuple[str, str], int] = {}
    for claim in claims:
        for uuid, resources in claim.allocations.items():
            provider, used = providers.require(draft, uuid), draft.used(uuid)
            for name, amount in resources.items():
                inventory = _checked_inventory(provider, name, amount)
                key = uuid, name
                running[key] = running.get(key, 0) + amount
                others = used.get(name, 0) - taken.get(key, 0)
                # An overcommitted provider must accept a claim that does not grow: else no consumer
                # could shrink it.
                grows = final[key] > taken.get(key, 0)
                if grows and not inventory.has_room(others, running[key]):
                    raise errors.CapacityExceeded(name=name, uuid=uuid)


def _current_amounts(draft: Draft, claims: Iterable[Claim]) -> dict[tuple[str, str], int]:
    """The current allocations of the claims' consumers, ``{(provider uuid, class): amount}``."""
    consumers = {claim.consumer_uuid: draft.consumer(claim.consumer_uuid) for claim in claims}
    return _summed(consumer.allocations for consumer in consumers.values() if consumer)


def _summed(parts: Iterable[Allocations]) -> dict[tuple[str, str], int]:
    total: dict[tuple[str, str], int] = {}
    for allocations in parts:
        for uuid, resources in allocations.items():
            for name, amount in resources.items():
                total[uuid, name] = total.get((uuid, name), 0) + amount
    return total


def _checked_inventory(provider: record.ProviderRecord, name: str, amount: int) -> Inventory:
    inventory = provider.inventories.get(name)
    if inventory is None:
        raise errors.NoInventory(name=name, uuid=provider.uuid)
    if not inventory.suits_units(amount):
        raise errors.UnitsViolated(name=name, uuid=provider.uuid)
    return inventory
