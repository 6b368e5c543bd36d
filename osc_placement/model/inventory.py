"""Inventory of one resource class on one provider, and the capacity arithmetic."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: The largest amount that Placement stores (a signed 32 bit integer).
MAX_AMOUNT = 0x7FFFFFFF

#: The fields of an inventory, in the order in which the API's documents list them.
FIELDS = ("allocation_ratio", "min_unit", "max_unit", "reserved", "step_size", "total")

INTEGER_FIELDS = frozenset(FIELDS) - {"allocation_ratio"}


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """What a provider offers of one resource class.

    ``capacity`` is how much may be allocated in all, ``int((total - reserved) *
    allocation_ratio)``; 0 where the ratio is no finite number.
    """

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_AMOUNT
    step_size: int = 1
    allocation_ratio: float = 1.0

    #: Kept: a search asks for it many times more often than it changes.
    capacity: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            capacity = int((self.total - self.reserved) * self.allocation_ratio)
        except (OverflowError, ValueError):
            capacity = 0
        object.__setattr__(self, "capacity", capacity)

    def has_room(self, used: int, amount: int) -> bool:
        """Whether ``amount`` more fits beside what is ``used``."""
        return used + amount <= self.capacity

    def suits_units(self, amount: int) -> bool:
        """Whether ``amount`` keeps to min_unit, max_unit and step_size."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0

    def replace(self, **fields: float) -> Inventory:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, int | float]:
        """The API's form: ``{field: value}`` in the order of FIELDS."""
        return {field: getattr(self, field) for field in FIELDS}

    @classmethod
    def from_dict(cls, fields: Mapping[str, int | float]) -> Inventory:
        """Read the API's form; what is left out has the API's default, other keys are ignored."""
        return cls(**{field: fields[field] for field in FIELDS if field in fields})  # type: ignore[arg-type]


#: ``{resource class: Inventory}``
Inventories = Mapping[str, Inventory]
