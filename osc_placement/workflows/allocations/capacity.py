"""What is free on providers while a plan is made: each server that it heals takes its share.

Called by ``heal``. The arithmetic is Placement's, which has the last word when it is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement.client import responses
from osc_placement.model import allocation, inventory
from osc_placement.plan import change

_FULL = "full: "


class Room:
    """Capacities and what is used of them; ``take`` uses more.

    ``summaries`` tell of providers for which no inventories were read.
    """

    def __init__(
        self,
        inventories: Mapping[str, inventory.Inventories],
        used: Mapping[str, allocation.Resources],
        names: change.Names,
    ) -> None:
        self._inventories = {uuid: dict(found) for uuid, found in inventories.items()}
        self._used = {uuid: dict(found) for uuid, found in used.items()}
        self._names = names

    def learn(self, summaries: Mapping[str, responses.ProviderSummary]) -> None:
        """Take in what a candidates query told of providers that are not known yet."""
        for uuid, summary in summaries.items():
            if uuid in self._inventories:
                continue
            self._inventories[uuid] = {
                name: inventory.Inventory(total=amount.capacity)
                for name, amount in summary.resources.items()
            }
            self._used[uuid] = {name: amount.used for name, amount in summary.resources.items()}

    def lacking(self, allocations: allocation.Allocations) -> list[str]:
        """Why allocations do not fit: what is needed and what is free; empty when they do."""
        found: list[str] = []
        for uuid, resources in allocations.items():
            parts = [self._why_not(uuid, name, amount) for name, amount in resources.items()]
            full = [part.removeprefix(_FULL) for part in parts if part.startswith(_FULL)]
            if full:
                found.append(f"no capacity on {self._names.get(uuid, uuid)}: {', '.join(full)}")
            found += [part for part in parts if part and not part.startswith(_FULL)]
        return found

    def take(self, allocations: allocation.Allocations) -> None:
        """They are used from now on."""
        for uuid, resources in allocations.items():
            here = self._used.setdefault(uuid, {})
            for resource_class, amount in resources.items():
                here[resource_class] = here.get(resource_class, 0) + amount

    def share_of(self, allocations: allocation.Allocations) -> float:
        """How much of its providers' capacity would be used at most, from 0 to 1."""
        return max(
            (
                (self._used_of(uuid, resource_class) + amount)
                / max(self._inventories[uuid][resource_class].capacity, 1)
                for uuid, resources in allocations.items()
                for resource_class, amount in resources.items()
                if resource_class in self._inventories.get(uuid, {})
            ),
            default=0.0,
        )

    def _why_not(self, uuid: str, resource_class: str, amount: int) -> str:
        where = self._names.get(uuid, uuid)
        item = self._inventories.get(uuid, {}).get(resource_class)
        if item is None:
            return f"{where} has no inventory of {resource_class}, it needs {amount}"
        used = self._used_of(uuid, resource_class)
        if not item.has_room(used, amount):
            free = max(item.capacity - used, 0)
            return f"{_FULL}{resource_class} needs {amount}, {free} free"
        if not item.suits_units(amount):
            return (
                f"{amount} {resource_class} do not suit {where}: min_unit {item.min_unit},"
                f" max_unit {item.max_unit}, step_size {item.step_size}"
            )
        return ""

    def _used_of(self, uuid: str, resource_class: str) -> int:
        return self._used.get(uuid, {}).get(resource_class, 0)
