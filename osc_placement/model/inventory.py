# SPDX-License-Identifier: Apache-2.0
"""The inventory of one resource class on one provider, and its capacity."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from typing import Any

#: The largest amount that Placement stores (a signed 32-bit integer).
MAX_AMOUNT = 0x7FFFFFFF

#: The fields of an inventory, in the order of the API reference.
FIELDS = ("allocation_ratio", "min_unit", "max_unit", "reserved", "step_size", "total")

INTEGER_FIELDS = frozenset(FIELDS) - {"allocation_ratio"}


def whole(amount: Any) -> Any:
    """The integer that JSON may write as ``4.0``; any other value as it is."""
    return int(amount) if isinstance(amount, float) and amount.is_integer() else amount


def is_finite(ratio: float) -> bool:
    """Whether a float can have the value: an integer of JSON may be too large."""
    return abs(ratio) <= sys.float_info.max


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """A provider's inventory of one resource class.

    ``capacity`` is the amount that can be allocated, ``int((total - reserved) *
    allocation_ratio)``; 0 if the ratio is not finite.
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_AMOUNT
    step_size: int = 1
    allocation_ratio: float = 1.0

    #: Computed once, because a search reads it much more often than it changes.
    capacity: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            capacity = int((self.total - self.reserved) * self.allocation_ratio)
        except (OverflowError, ValueError):
            capacity = 0
        object.__setattr__(self, "capacity", capacity)

    def has_room(self, used: int, amount: int) -> bool:
        """Whether ``amount`` more fits with ``used`` already allocated."""
        return used + amount <= self.capacity

    def suits_units(self, amount: int) -> bool:
        """Whether ``amount`` conforms to min_unit, max_unit and step_size."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0

    def as_dict(self) -> dict[str, int | float]:
        """The API's form: ``{field: value}`` in the order of FIELDS."""
        return {field: getattr(self, field) for field in FIELDS}

    @classmethod
    def from_dict(cls, fields: Mapping[str, int | float]) -> Inventory:
        """Parse the API's form; missing fields have the API's default, other keys are ignored.

        Errors: TypeError for a field that is no number; a text would be repeated, not multiplied.
        """
        values: dict[str, Any] = {field: fields[field] for field in FIELDS if field in fields}
        for field, value in values.items():
            if not isinstance(value, int | float):
                raise TypeError(f"{field} is not a number")
            if field in INTEGER_FIELDS:
                values[field] = whole(value)
        return cls(**values)


#: ``{resource class: Inventory}``
Inventories = Mapping[str, Inventory]


def subset_sums(amounts: Iterable[int], most: int) -> set[int]:
    """The sums of any of the amounts; empty if there are more than ``most``."""
    sums = {0}
    for amount in amounts:
        sums |= {total + amount for total in sums}
        if len(sums) > most:
            return set()
    return sums
