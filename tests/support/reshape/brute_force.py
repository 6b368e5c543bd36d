# SPDX-License-Identifier: Apache-2.0
"""Every assignment that there is, by trying all: slow, and plainly right."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.search.placing import Option, Slot
from osc_placement.workflows.reshape.requests import ConsumerRequest, OfferedSlot

#: The option of each request, in their order.
Placed = tuple[Option, ...]


def all_of(
    requests: Sequence[ConsumerRequest], offered_slots: Mapping[Slot, OfferedSlot]
) -> Iterator[Placed]:
    """Every placement that keeps to the rules."""
    for placed in itertools.product(*(request.possible for request in requests)):
        if fits(placed, requests, offered_slots):
            yield placed


def fits(
    placed: Placed, requests: Sequence[ConsumerRequest], offered_slots: Mapping[Slot, OfferedSlot]
) -> bool:
    """Whether each allocation keeps to the units, and all of them to the capacity."""
    allocations: collections.Counter[tuple[Slot, str]] = collections.Counter()
    for option, request in zip(placed, requests, strict=True):
        if option not in request.possible or not option.amounts.keys() <= offered_slots.keys():
            return False
        for slot, amount in option.amounts.items():
            allocations[slot, request.consumer] += amount
    sums: collections.Counter[Slot] = collections.Counter()
    for (slot, consumer), amount in allocations.items():
        sums[slot] += amount
        present = offered_slots[slot].present.get(consumer, 0)
        if not offered_slots[slot].inventory.suits_units(amount + present):
            return False
    return all(
        offered_slots[slot].used + amount <= offered_slots[slot].inventory.capacity
        for slot, amount in sums.items()
    )


def movable(placements: Sequence[Placed], requests: Sequence[ConsumerRequest]) -> set[str]:
    """The consumers that are not the same in all of these."""
    return {
        request.consumer
        for at, request in enumerate(requests)
        if any(placed[at] != placements[0][at] for placed in placements)
    }
