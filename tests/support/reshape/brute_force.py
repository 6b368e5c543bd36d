# SPDX-License-Identifier: Apache-2.0
"""Every assignment that there is, by trying all: slow, and plainly right."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.model.allocation import Place
from osc_placement.workflows.reshape.assignment import Demand, Destination, Room

#: The target of each demand, in their order.
Placed = tuple[Destination, ...]


def all_of(demands: Sequence[Demand], rooms: Mapping[Place, Room]) -> Iterator[Placed]:
    """Every placement that keeps to the rules."""
    for placed in itertools.product(*(demand.possible for demand in demands)):
        if fits(placed, demands, rooms):
            yield placed


def fits(placed: Placed, demands: Sequence[Demand], rooms: Mapping[Place, Room]) -> bool:
    """Whether each allocation keeps to the units, and all of them to the capacity."""
    allocations: collections.Counter[tuple[Place, str]] = collections.Counter()
    for option, demand in zip(placed, demands, strict=True):
        for name, amount in zip(option.classes, demand.resources.values(), strict=True):
            place = option.target, name
            if option not in demand.possible or place not in rooms:
                return False
            allocations[place, demand.consumer] += amount
    sums: collections.Counter[Place] = collections.Counter()
    for (place, consumer), amount in allocations.items():
        sums[place] += amount
        present = rooms[place].present.get(consumer, 0)
        if not rooms[place].inventory.suits_units(amount + present):
            return False
    return all(
        rooms[place].used + amount <= rooms[place].inventory.capacity
        for place, amount in sums.items()
    )


def movable(every: Sequence[Placed], demands: Sequence[Demand]) -> set[str]:
    """The consumers that are not the same in all of these."""
    return {
        demand.consumer
        for at, demand in enumerate(demands)
        if len({placed[at] for placed in every}) > 1
    }
