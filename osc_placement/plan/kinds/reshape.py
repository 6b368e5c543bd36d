"""A reshape as facts, so that it is a change like any other: compared, kept, taken back. Pure.

===================================  =====================================================
``inventory <provider> VGPU:total``  a field of an inventory that changes; None without it
``allocation <consumer> <provider>   what a consumer has of a provider, where that changes;
VGPU``                               None for nothing
``others <provider> VGPU``           what consumers that do not change have of it, where the
                                     inventory changes; the same before and after
===================================  =====================================================

What a change does not speak of is repeated as it is found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from osc_placement import microversion
from osc_placement.client import api, responses
from osc_placement.model import allocation, inventory
from osc_placement.plan import change, guards, workers
from osc_placement.plan.kinds import base

INVENTORY, ALLOCATION, OTHERS = "inventory", "allocation", "others"

#: ``{provider uuid: {resource class: amount}}`` by consumer.
Shares = Mapping[str, Mapping[str, allocation.Resources]]


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """What the facts of one reshape speak of, as it was read.

    ``inventories`` and ``shares`` (``{provider: {consumer: resources}}``) are of every
    provider whose inventory changes, ``consumers`` are those that change.
    """

    inventories: Mapping[str, responses.ProviderInventories]
    shares: Shares
    consumers: Mapping[str, allocation.Consumer]


def providers(facts: change.Facts) -> list[str]:
    """The providers whose inventories a change speaks of."""
    return list(dict.fromkeys(uuid for uuid, _, _ in _inventory_keys(facts)))


def consumers(facts: change.Facts) -> list[str]:
    """The consumers that a change speaks of."""
    return list(dict.fromkeys(uuid for uuid, _, _, _ in _allocation_keys(facts)))


def places(facts: change.Facts) -> list[str]:
    """The providers of which a change gives consumers something else."""
    return list(dict.fromkeys(uuid for _, uuid, _, _ in _allocation_keys(facts)))


def of_inventories(
    uuid: str, items: inventory.Inventories, classes: Iterable[str]
) -> dict[str, change.Value]:
    """What a provider offers of some classes."""
    found: dict[str, change.Value] = {}
    for resource_class in classes:
        held = items.get(resource_class)
        for field in inventory.FIELDS:
            value = held.as_dict()[field] if held is not None else None
            found[f"{INVENTORY} {uuid} {resource_class}:{field}"] = value
    return found


def of_allocation(consumer: str, provider: str, resource_class: str) -> str:
    """The key of what a consumer has of a provider."""
    return f"{ALLOCATION} {consumer} {provider} {resource_class}"


def of_others(provider: str, resource_class: str) -> str:
    """The key of what all other consumers have of a provider."""
    return f"{OTHERS} {provider} {resource_class}"


def observed(facts: change.Facts, seen: Seen) -> dict[str, change.Value]:
    """What ``seen`` says of each of the keys of ``facts``."""
    changing = set(consumers(facts))
    return {key: _observed(key.split(" "), seen, changing) for key in facts}


def _observed(parts: list[str], seen: Seen, changing: set[str]) -> change.Value:
    kind, *rest = parts
    if kind == INVENTORY:
        resource_class, _, field = rest[1].partition(":")
        held = seen.inventories[rest[0]].inventories.get(resource_class)
        return held.as_dict()[field] if held is not None else None
    if kind == ALLOCATION:
        return seen.consumers[rest[0]].allocations.get(rest[1], {}).get(rest[2])
    shares = seen.shares[rest[0]]
    return sum(
        resources.get(rest[1], 0) for uuid, resources in shares.items() if uuid not in changing
    )


def renewed_inventories(
    after: change.Facts, seen: Seen
) -> dict[str, responses.ProviderInventories]:
    """What every named provider shall have, under the generation it was seen at."""
    fields: dict[str, dict[str, dict[str, change.Value]]] = {}
    for uuid, resource_class, field in _inventory_keys(after):
        value = after[f"{INVENTORY} {uuid} {resource_class}:{field}"]
        fields.setdefault(uuid, {}).setdefault(resource_class, {})[field] = value
    return {uuid: _amended(seen.inventories[uuid], classes) for uuid, classes in fields.items()}


def _amended(
    present: responses.ProviderInventories, classes: Mapping[str, Mapping[str, change.Value]]
) -> responses.ProviderInventories:
    renewed = dict(present.inventories)
    for resource_class, fields in classes.items():
        if fields["total"] is None:
            renewed.pop(resource_class, None)
        else:
            numbers = {
                key: value for key, value in fields.items() if isinstance(value, int | float)
            }
            renewed[resource_class] = inventory.Inventory.from_dict(numbers)
    return responses.ProviderInventories(present.generation, renewed)


def renewed_consumers(after: change.Facts, seen: Seen) -> list[allocation.Consumer]:
    """Every consumer that changes, whole, under the generation it was seen at."""
    allocations = {
        uuid: {provider: dict(has) for provider, has in consumer.allocations.items()}
        for uuid, consumer in seen.consumers.items()
    }
    for consumer, provider, resource_class, key in _allocation_keys(after):
        amount = after[key]
        has = allocations[consumer].setdefault(provider, {})
        if amount is None:
            has.pop(resource_class, None)
        else:
            has[resource_class] = int(amount)
    return [
        dataclasses.replace(
            seen.consumers[uuid],
            allocations={provider: has for provider, has in found.items() if has},
        )
        for uuid, found in allocations.items()
    ]


def _inventory_keys(facts: change.Facts) -> Iterator[tuple[str, str, str]]:
    for key in facts:
        kind, uuid, rest = key.split(" ", 2)
        if kind == INVENTORY:
            resource_class, _, field = rest.partition(":")
            yield uuid, resource_class, field


def _allocation_keys(facts: change.Facts) -> Iterator[tuple[str, str, str, str]]:
    for key in facts:
        kind, consumer, rest = key.split(" ", 2)
        if kind == ALLOCATION:
            provider, _, resource_class = rest.partition(" ")
            yield consumer, provider, resource_class, key


def _read(client: api.Client, about: change.Facts) -> Seen:
    """What ``about`` speaks of. Cost: two requests per provider and one per consumer."""
    client.require_feature("reshaper", "reading what is to be reshaped")
    changing = providers(about)

    def provider(uuid: str) -> tuple[responses.ProviderInventories, responses.ProviderAllocations]:
        # In this order: who writes in between raises the generation that is written under.
        return client.list_inventories(uuid), client.list_provider_allocations(uuid)

    # Providers last: on a busy host it is their generations that do not stand for long.
    met = list(workers.each(client.show_allocations, consumers(about), guards.WORKERS))
    told = dict(zip(changing, workers.each(provider, changing, guards.WORKERS), strict=True))
    return Seen(
        inventories={uuid: inventories for uuid, (inventories, _) in told.items()},
        shares={
            uuid: {consumer: share.resources for consumer, share in shares.allocations.items()}
            for uuid, (_, shares) in told.items()
        },
        consumers={item.uuid: item for item in met},
    )


def _write(client: api.Client, after: change.Facts, seen: Seen) -> None:
    """POST /reshaper, under the generations that were seen."""
    client.require_feature("reshaper", "reshaping")
    sender = client.at(min(client.microversion, microversion.TYPE_STAYS))
    sender.reshape(renewed_inventories(after, seen), renewed_consumers(after, seen))


def _read_reshape(client: api.Client, item: change.Change) -> change.Observed:
    seen = _read(client, item.after)
    return change.Observed(None, observed(item.after, seen), seen)


def _write_reshape(
    client: api.Client, item: change.Change, found: change.Observed
) -> change.Observed:
    _write(client, item.after, found.whole)
    return change.Observed(None, item.after)


TYPE = base.ChangeType(_read_reshape, _write_reshape)
