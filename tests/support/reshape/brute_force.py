# SPDX-License-Identifier: Apache-2.0
"""Every assignment that there is, by trying all: slow, and plainly right."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import Demand, TargetProvider

#: The target of each demand, in their order.
Placed = tuple[str, ...]


def all_of(demands: Sequence[Demand], targets: Sequence[TargetProvider]) -> Iterator[Placed]:
    """Every placement that keeps to the rules."""
    by_name = {target.name: target for target in targets}
    for placed in itertools.product(*(demand.targets for demand in demands)):
        if fits(placed, demands, by_name):
            yield placed


def fits(placed: Placed, demands: Sequence[Demand], targets: Mapping[str, TargetProvider]) -> bool:
    """Whether each allocation keeps to the units, and all of them to the capacity."""
    allocations: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for name, demand in zip(placed, demands, strict=True):
        if name not in demand.targets or not demand.resources.keys() <= (
            targets[name].inventories.keys()
        ):
            return False
        for resource_class, amount in demand.resources.items():
            allocations[name, demand.consumer, resource_class] += amount
    sums: collections.Counter[tuple[str, str]] = collections.Counter()
    for (name, consumer, resource_class), amount in allocations.items():
        sums[name, resource_class] += amount
        present = targets[name].present.get(consumer, {}).get(resource_class, 0)
        if not targets[name].inventories[resource_class].suits_units(amount + present):
            return False
    return all(
        targets[name].used.get(resource_class, 0) + amount
        <= targets[name].inventories[resource_class].capacity
        for (name, resource_class), amount in sums.items()
    )


def movable(every: Sequence[Placed], demands: Sequence[Demand]) -> set[str]:
    """The consumers that are not the same in all of these."""
    return {
        demand.consumer
        for at, demand in enumerate(demands)
        if len({placed[at] for placed in every}) > 1
    }
