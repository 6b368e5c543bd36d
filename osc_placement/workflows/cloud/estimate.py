# SPDX-License-Identifier: Apache-2.0
"""What is known of inventories that were not read one by one. Pure.

A summary of Placement has the capacity and the usage of a class; a listing says which providers can
supply an amount. ``Estimate.inventories`` can supply at least as much as the provider itself, and
the same of each listed amount, if the provider can supply 1 or has none free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from osc_placement.model.inventory import MAX_AMOUNT, Inventories, Inventory

if TYPE_CHECKING:
    from osc_placement.client.responses import ResourceSummary

#: ``(resource class, amount)``
Amount = tuple[str, int]


class Estimate:
    """Capacity, usage, listed amounts and exact inventories. ``version`` rises with each change.

    ``listed`` is ``{(class, amount): the providers that can supply it}``.
    """

    def __init__(self) -> None:
        self.listed: dict[Amount, frozenset[str]] = {}
        self.version = 0
        self._capacity: dict[str, dict[str, int]] = {}
        self._used: dict[str, Mapping[str, int]] = {}
        self._exact: dict[str, Inventories] = {}

    @property
    def exact(self) -> int:
        """The number of providers whose inventories were read."""
        return len(self._exact)

    def add_summary(self, uuid: str, resources: Mapping[str, ResourceSummary]) -> None:
        """Keep what a summary says; the first one is kept, as it was read with its tree."""
        if uuid not in self._used:
            self._capacity[uuid] = {name: item.capacity for name, item in resources.items()}
            self._used[uuid] = {name: item.used for name, item in resources.items() if item.used}
            self.version += 1

    def add_exact(self, uuid: str, inventories: Inventories) -> None:
        """Keep inventories that were read."""
        self._exact[uuid] = inventories
        self.version += 1

    def add_used(self, uuid: str, used: Mapping[str, int]) -> None:
        """Keep a usage that was read."""
        self._used[uuid] = used

    def add_listed(self, amount: Amount, uuids: frozenset[str]) -> None:
        """Keep the providers that can supply an amount."""
        self.listed[amount] = uuids
        self.version += 1

    def is_exact(self, uuid: str) -> bool:
        """Whether the inventories of a provider were read."""
        return uuid in self._exact

    def is_listed(self, name: str, amount: int) -> bool:
        """Whether it is known which providers can supply an amount."""
        return (name, amount) in self.listed

    def classes(self, uuid: str) -> frozenset[str]:
        """The classes of which a provider has inventory."""
        return frozenset(self._exact.get(uuid, self._capacity.get(uuid, {})))

    def estimated(self, uuid: str) -> frozenset[str]:
        """The classes of a provider whose inventories were not read; none after they were."""
        return frozenset() if uuid in self._exact else self.classes(uuid)

    def used(self, uuid: str) -> Mapping[str, int]:
        """``{class: amount}`` that is used."""
        return self._used.get(uuid, {})

    def free(self, uuid: str, name: str) -> int:
        """What is free of a class."""
        if uuid in self._exact:
            offered = self._exact[uuid].get(name)
            capacity = offered.capacity if offered else 0
        else:
            capacity = self._capacity.get(uuid, {}).get(name, 0)
        return capacity - self.used(uuid).get(name, 0)

    def refuted(self, name: str, amount: int) -> Iterator[str]:
        """Providers, not read, that have an amount free and cannot supply it."""
        return (uuid for uuid in self.unproved(name, amount) if self.free(uuid, name) >= amount)

    def contradicted(self, name: str, amount: int) -> Iterator[str]:
        """Providers, not read, that can supply an amount and have less free."""
        return (
            uuid
            for uuid in self.listed[name, amount]
            if uuid in self._capacity and uuid not in self._exact and self.free(uuid, name) < amount
        )

    def unproved(self, name: str, amount: int) -> Iterator[str]:
        """Providers, not read, with something free that are not known to supply an amount."""
        for uuid, capacity in self._capacity.items():
            if uuid in self._exact or name not in capacity or self.free(uuid, name) < 1:
                continue
            if uuid not in self.listed.get((name, amount), ()):
                yield uuid

    def inventories(self, uuid: str) -> Inventories:
        """The inventories of a provider, exact or estimated."""
        if uuid in self._exact:
            return self._exact[uuid]
        return {
            name: Inventory(capacity, max_unit=self._max_unit(uuid, name))
            for name, capacity in self._capacity.get(uuid, {}).items()
        }

    def _max_unit(self, uuid: str, name: str) -> int:
        """The largest max_unit with which the provider can supply no amount that is refuted."""
        free, most = self.free(uuid, name), MAX_AMOUNT
        for (other, amount), uuids in self.listed.items():
            if other == name and amount <= free and uuid not in uuids:
                most = min(most, amount - 1)
        return most
