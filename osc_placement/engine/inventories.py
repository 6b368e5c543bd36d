# SPDX-License-Identifier: Apache-2.0
"""Changes the inventories of a provider by the rules of Placement, and finds providers with room.

Every change goes into a draft, and raises the generation of the provider (``draft.bump``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from osc_placement.engine import (
    errors,
    providers,
    record,
    standard,
    state,
)
from osc_placement.engine.draft import Draft
from osc_placement.model.inventory import Inventories, Inventory, is_finite


def replace_all(
    draft: Draft,
    uuid: str,
    generation: int,
    inventories: Inventories,
    may_reserve_all: bool = True,
) -> record.ProviderRecord:
    """Replace all inventories of a provider.

    ``may_reserve_all`` False is the rule below 1.26: reserved must be less than total.
    """
    provider = providers.require(draft, uuid)
    providers.check_generation(provider, generation)
    for name, inventory in inventories.items():
        check(uuid, name, inventory, may_reserve_all)
    state.check_classes(draft, inventories)
    return assign(draft, provider, inventories)


def assign(
    draft: Draft, provider: record.ProviderRecord, inventories: Inventories
) -> record.ProviderRecord:
    """Give a provider exactly these inventories; raises UsedInventory."""
    _refuse_in_use(draft, provider, provider.inventories.keys() - inventories.keys())
    return draft.bump(dataclasses.replace(provider, inventories=dict(inventories)))


def add(
    draft: Draft,
    uuid: str,
    name: str,
    inventory: Inventory,
    may_reserve_all: bool = True,
) -> record.ProviderRecord:
    """Add inventory of a class that the provider does not have. The client sends no generation."""
    provider = providers.require(draft, uuid)
    check(uuid, name, inventory, may_reserve_all)
    state.check_classes(draft, (name,))
    if name in provider.inventories:
        raise errors.InventoryExists(uuid=uuid, name=name)
    renewed = {**provider.inventories, name: inventory}
    return draft.bump(dataclasses.replace(provider, inventories=renewed))


def replace_one(
    draft: Draft,
    uuid: str,
    name: str,
    generation: int,
    inventory: Inventory,
    may_reserve_all: bool = True,
) -> record.ProviderRecord:
    """Replace the inventory of one class."""
    provider = providers.require(draft, uuid)
    providers.check_generation(provider, generation)
    check(uuid, name, inventory, may_reserve_all)
    state.check_classes(draft, (name,))
    if name not in provider.inventories:
        raise errors.InventoryNotFound(name=name)
    renewed = {**provider.inventories, name: inventory}
    return draft.bump(dataclasses.replace(provider, inventories=renewed))


def delete_one(draft: Draft, uuid: str, name: str) -> None:
    """Delete the inventory of one class."""
    provider = providers.require(draft, uuid)
    state.check_classes(draft, (name,))
    if name not in provider.inventories:
        raise errors.InventoryNotFoundForDelete(name=name)
    rest = {other: item for other, item in provider.inventories.items() if other != name}
    assign(draft, provider, rest)


def delete_all(draft: Draft, uuid: str) -> None:
    """Delete all inventories of a provider."""
    assign(draft, providers.require(draft, uuid), {})


def can_supply(
    base: state.CloudState, provider: record.ProviderRecord, resources: Mapping[str, int]
) -> bool:
    """Whether a provider has free capacity for ``resources``, in valid units."""
    return all(
        suppliers(base, (provider.uuid,), name, amount) for name, amount in resources.items()
    )


def suppliers(
    base: state.CloudState, uuids: Iterable[str], resource_class: str, amount: int
) -> list[str]:
    """Those of the providers that have free capacity for an amount, in valid units."""
    # A room is (least, most, step) of the amounts that a provider can still supply of a class.
    room_of = base.rooms(resource_class).get
    return [
        uuid
        for uuid in uuids
        for least, most, step in (room_of(uuid, state.NO_ROOM),)
        if least <= amount <= most and not amount % step
    ]


def check(uuid: str, name: str, inventory: Inventory, may_reserve_all: bool = True) -> None:
    """Raise InventoryInvalid if the ratio is not finite, or the capacity is out of range.

    ``may_reserve_all`` as in ``replace_all``.
    """
    check_finite(uuid, name, inventory)
    if inventory.capacity < (0 if may_reserve_all else 1):
        bound = "total" if may_reserve_all else "or equal to total"
        raise errors.InventoryInvalid(uuid=uuid, name=name, bound=bound)


def check_finite(uuid: str, name: str, inventory: Inventory) -> None:
    """Raise InventoryInvalid if the allocation ratio is not a finite number.

    The message is the one for too much reserved.
    """
    if not is_finite(inventory.allocation_ratio):
        raise errors.InventoryInvalid(uuid=uuid, name=name, bound="total")


def _refuse_in_use(draft: Draft, provider: record.ProviderRecord, names: Iterable[str]) -> None:
    """Raise UsedInventory if a class of ``names`` has allocations on the provider."""
    used = draft.used(provider.uuid)
    in_use = standard.classes_in_order(name for name in names if used.get(name))
    if in_use:
        raise errors.UsedInventory(uuid=provider.uuid, names=", ".join(in_use))
