"""The free capacity of providers while a plan is made: each planned allocation reduces it. Pure.

The rules are Placement's. Placement checks them again when the plan is applied.
"""

from __future__ import annotations

from collections.abc import Mapping

from osc_placement import errors
from osc_placement.client import responses
from osc_placement.model import allocation, inventory
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations.snapshot import CloudSnapshot


class FreeCapacity:
    """Capacities and usages of a snapshot; ``allocate`` adds to the usages."""

    def __init__(self, snapshot: CloudSnapshot) -> None:
        self._inventories = {uuid: dict(each) for uuid, each in snapshot.inventories.items()}
        self._used = {uuid: dict(each) for uuid, each in snapshot.used.items()}
        self._name_of = snapshot.name_of
        for found in snapshot.candidates.values():
            if not isinstance(found, errors.PlacementError):
                self._add_summaries(found.summaries)

    def _add_summaries(self, summaries: Mapping[str, responses.ProviderSummary]) -> None:
        """Use the summaries of providers whose inventories were not read."""
        for uuid, summary in summaries.items():
            if uuid in self._inventories:
                continue
            self._inventories[uuid] = {
                name: inventory.Inventory(total=amount.capacity)
                for name, amount in summary.resources.items()
            }
            self._used[uuid] = {name: amount.used for name, amount in summary.resources.items()}

    def shortages(self, allocations: allocation.Allocations) -> list[Reason]:
        """Why allocations do not fit, with what is needed and what is free; empty if they do."""
        found: list[Reason] = []
        for uuid, resources in allocations.items():
            parts = [self._why_not(uuid, name, amount) for name, amount in resources.items()]
            full = ", ".join(part.text for part in parts if part.code is Code.NO_CAPACITY)
            if full:
                text = f"no capacity on {self._name_of(uuid)}: {full}"
                found.append(Reason(Code.NO_CAPACITY, text))
            found += [part for part in parts if part and part.code is not Code.NO_CAPACITY]
        return found

    def allocate(self, allocations: allocation.Allocations) -> None:
        """Count allocations as used."""
        for uuid, resources in allocations.items():
            used = self._used.setdefault(uuid, {})
            for resource_class, amount in resources.items():
                used[resource_class] = used.get(resource_class, 0) + amount

    def utilization(self, allocations: allocation.Allocations) -> float:
        """The highest used share of a class on these providers with the allocations, 0 to 1."""
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

    def _why_not(self, uuid: str, resource_class: str, amount: int) -> Reason:
        provider = self._name_of(uuid)
        found = self._inventories.get(uuid, {}).get(resource_class)
        if found is None:
            text = f"{provider} has no inventory of {resource_class}, it needs {amount}"
            return Reason(Code.NO_INVENTORY, text)
        used = self._used_of(uuid, resource_class)
        if not found.has_room(used, amount):
            free = max(found.capacity - used, 0)
            return Reason(Code.NO_CAPACITY, f"{resource_class} needs {amount}, {free} free")
        if not found.suits_units(amount):
            text = f"{amount} {resource_class} do not suit {provider}: min_unit {found.min_unit},"
            text += f" max_unit {found.max_unit}, step_size {found.step_size}"
            return Reason(Code.WRONG_UNIT, text)
        return reasons.NONE

    def _used_of(self, uuid: str, resource_class: str) -> int:
        return self._used.get(uuid, {}).get(resource_class, 0)
