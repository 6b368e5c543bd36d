"""Rules for allocations: what a consumer claims is written whole, or not at all."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence

from osc_placement.engine import draft as drafts
from osc_placement.engine import errors, record
from osc_placement.engine import inventory as inventories
from osc_placement.model import allocation as model

#: What stands for project and user of a consumer made below 1.8.
INCOMPLETE_OWNER = "00000000-0000-0000-0000-000000000000"


class Unchecked(enum.Enum):
    """Marks a claim made below 1.28, where consumers have no generation."""

    TOKEN = 0


UNCHECKED = Unchecked.TOKEN


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """All that a consumer shall have from now on; empty allocations free it.

    ``generation`` is the consumer's as the caller saw it, None for a new consumer.
    ``consumer_type`` None leaves the type as it is.
    """

    consumer_uuid: str
    allocations: model.Allocations
    project_id: str = INCOMPLETE_OWNER
    user_id: str = INCOMPLETE_OWNER
    generation: int | Unchecked | None = UNCHECKED
    consumer_type: str | None = None


def write(draft: drafts.Draft, claims: Sequence[Claim]) -> None:
    """Replace the allocations of the claims' consumers, all of them or none.

    Every provider that a claim names, or that an emptied consumer leaves, has its
    generation raised by one. Capacity is checked against the sum of all claims.
    """
    for claim in claims:
        _check_generation(draft, claim)
    touched = _providers_of(draft, claims)
    for claim in claims:
        for resources in claim.allocations.values():
            inventories.check_classes(draft, tuple(resources))
    for claim in claims:
        _put(draft, claim)
    _check_amounts(draft, claims)
    for uuid in touched:
        provider = draft.provider(uuid)
        if provider is not None:
            draft.bump(provider)


def delete(draft: drafts.Draft, consumer_uuid: str) -> None:
    """Remove a consumer with all its allocations, whatever its generation."""
    consumer = draft.consumer(consumer_uuid)
    if consumer is None or not consumer.allocations:
        raise errors.AllocationsNotFound(uuid=consumer_uuid)
    draft.remove_consumer(consumer_uuid)


def _check_generation(draft: drafts.Draft, claim: Claim) -> None:
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


def _providers_of(draft: drafts.Draft, claims: Iterable[Claim]) -> list[str]:
    """The providers whose generation the claims raise, each once."""
    touched: dict[str, None] = {}
    for claim in claims:
        for uuid in claim.allocations:
            if draft.provider(uuid) is None:
                raise errors.AllocationProviderNotFound(uuid=uuid)
            touched[uuid] = None
        if not claim.allocations:
            consumer = draft.consumer(claim.consumer_uuid)
            touched.update(dict.fromkeys(consumer.allocations if consumer else ()))
    return list(touched)


def _put(draft: drafts.Draft, claim: Claim) -> None:
    consumer = draft.consumer(claim.consumer_uuid)
    if consumer is not None and consumer.allocations and not claim.allocations:
        draft.remove_consumer(claim.consumer_uuid)
        return
    generation = consumer.generation if consumer else draft.first_generation
    known_type = consumer.consumer_type if consumer else None
    draft.put_consumer(
        record.ConsumerRecord(
            uuid=claim.consumer_uuid,
            # A consumer that gets nothing is known from then on, but did not change.
            generation=generation + 1 if claim.allocations else generation,
            project_id=claim.project_id,
            user_id=claim.user_id,
            allocations=claim.allocations,
            consumer_type=claim.consumer_type or known_type,
        )
    )


def _check_amounts(draft: drafts.Draft, claims: Iterable[Claim]) -> None:
    for claim in claims:
        for uuid, resources in claim.allocations.items():
            provider = draft.provider(uuid)
            if provider is not None:
                _check_provider(draft, provider, resources)


def _check_provider(
    draft: drafts.Draft, provider: record.ProviderRecord, resources: model.Resources
) -> None:
    after = draft.used(provider.uuid)
    before = draft.base.used(provider.uuid)
    for name, amount in resources.items():
        inventory = provider.inventories.get(name)
        if inventory is None:
            raise errors.NoInventory(name=name, uuid=provider.uuid)
        if not inventory.suits_units(amount):
            raise errors.UnitsViolated(name=name, uuid=provider.uuid)
        # What only shrinks may stay over capacity: it could never be freed otherwise.
        if after[name] > inventory.capacity and after[name] >= before.get(name, 0):
            raise errors.CapacityExceeded(name=name, uuid=provider.uuid)
