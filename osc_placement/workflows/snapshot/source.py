"""The requests that read one provider or one consumer for a snapshot."""

from __future__ import annotations

import dataclasses
import email.utils

from osc_placement.client import api, api_errors, responses, retry
from osc_placement.model import allocation
from osc_placement.workflows.snapshot import staging

#: How often a provider is read while it changes.
_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderRead:
    """One provider as read; ``reading`` is None if it was deleted, or for an ``error``.

    ``is_stable``: all responses have the same generation. ``is_verified``: the generation was
    also the same after the last of them, so the reading is a state that existed.
    """

    uuid: str
    reading: staging.Reading | None
    is_stable: bool = True
    is_verified: bool = False
    requests: int = 0
    error: api_errors.ApiError | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AllocationsRead:
    """The allocations of one provider as read; ``held`` is None if it was deleted."""

    uuid: str
    held: dict[str, staging.Held] | None


def read_provider(client: api.Client, uuid: str, *, verify: bool = False) -> ProviderRead:
    """Inventories, aggregates, traits and allocations; repeated while the generation changes.

    Requests: four; one more with ``verify``, for a provider without inventories, and in every
    repetition, of which there are two at most.
    """
    requests = 0
    read = ProviderRead(uuid, None)
    for attempt in range(_ATTEMPTS):
        verified = verify or attempt > 0
        try:
            read = _read_once(client, uuid, verify=verified)
        except api_errors.NotFound:
            return ProviderRead(uuid, None, requests=requests + 1)
        except api_errors.ApiError as error:
            if api_errors.concerns_all(error):
                raise
            return ProviderRead(uuid, None, requests=requests + 1, error=error)
        requests += read.requests
        if read.is_stable:
            break
    return dataclasses.replace(read, requests=requests)


def _read_once(client: api.Client, uuid: str, *, verify: bool) -> ProviderRead:
    inventories = retry.read(lambda: client.list_inventories(uuid))
    aggregates = retry.read(lambda: client.list_aggregates(uuid))
    traits = retry.read(lambda: client.list_provider_traits(uuid))
    allocations = retry.read(lambda: client.list_provider_allocations(uuid))
    found = [inventories.generation, aggregates.generation, traits.generation]
    found.append(allocations.generation)
    modified = _seconds(inventories.updated)
    verify = verify or not inventories.inventories
    stable = True
    if verify:
        last = read_stamp(client, uuid, with_inventories=bool(inventories.inventories))
        found.append(last.generation)
        stable = not inventories.inventories or last.modified == modified
        modified = last.modified
    reading = staging.Reading(
        uuid,
        inventories.generation,
        inventories.inventories,
        traits.traits,
        aggregates.aggregates,
        _held(allocations),
        modified,
    )
    stable = stable and len(set(found)) == 1
    return ProviderRead(uuid, reading, stable, stable and verify, len(found))


def read_stamp(client: api.Client, uuid: str, *, with_inventories: bool) -> staging.Stamp:
    """What shows whether a provider has changed since it was read. Requests: one.

    ``with_inventories``: it had some, which change when the provider is created again, and not
    when it is renamed.
    """
    if with_inventories:
        inventories = retry.read(lambda: client.list_inventories(uuid))
        return staging.Stamp(inventories.generation, _seconds(inventories.updated))
    shown = retry.read(lambda: client.show_provider(uuid))
    return staging.Stamp(shown.generation, _seconds(shown.updated))


def _seconds(header: str | None) -> float | None:
    """A date of HTTP in seconds since the epoch; None without a valid one."""
    try:
        return email.utils.parsedate_to_datetime(header or "").timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def read_allocations(client: api.Client, uuid: str) -> AllocationsRead:
    """The allocations of one provider. Requests: one."""
    try:
        found = retry.read(lambda: client.list_provider_allocations(uuid))
    except api_errors.NotFound:
        return AllocationsRead(uuid, None)
    return AllocationsRead(uuid, _held(found))


def _held(found: responses.ProviderAllocations) -> dict[str, staging.Held]:
    return {
        consumer: staging.Held(one.resources, one.consumer_generation)
        for consumer, one in found.allocations.items()
    }


def read_owner(client: api.Client, uuid: str) -> staging.Owner:
    """One consumer with its owner and all its allocations. Requests: one."""
    found = retry.read(lambda: client.show_allocations(uuid))
    known = None if found.consumer_type == allocation.UNKNOWN_TYPE else found.consumer_type
    return staging.Owner(
        uuid, found.generation, found.project_id, found.user_id, known, found.allocations
    )
