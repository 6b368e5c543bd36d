"""What is placed, and how far targets are filled while it is.

A lot goes to one target as a whole. ``cut`` makes lots of demands; a ``Occupancy`` takes one
after the other.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from osc_placement.workflows.reshape.assignment import demand

#: ``{index of a lot: index of its target}``
Placement = Mapping[int, int]


class Kind(NamedTuple):
    """What makes lots interchangeable. ``owner`` is only told where it matters whose they are."""

    resources: tuple[tuple[str, int], ...]
    options: tuple[int, ...]
    owner: tuple[str, str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """Amounts of one consumer that stay together, and the targets (indexes) it could go to.

    ``shares`` tells that others of its consumer's amounts may stand beside it on a
    target, of the same class: units are then a matter of their sum.
    """

    consumer: str
    source: str
    resources: tuple[tuple[str, int], ...]
    options: tuple[int, ...]
    shares: bool

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.resources)

    @property
    def kind(self) -> Kind:
        owner = (self.consumer, self.source) if self.shares else None
        return Kind(self.resources, self.options, owner)


class Total(NamedTuple):
    """The amount of a class that is wanted, and what is free on each of its targets."""

    wanted: int
    rooms: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Lots, targets, what is free on each (``{class: amount}``), and how many may be used."""

    lots: tuple[Item, ...]
    targets: tuple[demand.Target, ...]
    rooms: tuple[Mapping[str, int], ...]
    most_targets: int | None = None

    @functools.cached_property
    def kinds(self) -> Mapping[Kind, Sequence[int]]:
        """The lots (indexes) of each kind."""
        found: dict[Kind, list[int]] = {}
        for index, lot in enumerate(self.lots):
            found.setdefault(lot.kind, []).append(index)
        return found

    @functools.cached_property
    def consumers(self) -> Mapping[str, Sequence[int]]:
        """The lots (indexes) of each consumer, consumers sorted."""
        found: dict[str, list[int]] = {}
        for index, lot in enumerate(self.lots):
            found.setdefault(lot.consumer, []).append(index)
        return found

    @functools.cached_property
    def totals(self) -> Mapping[str, Total]:
        """What is wanted of each class, and what is free where it could go; sorted."""
        wanted: collections.Counter[str] = collections.Counter()
        options: dict[str, set[int]] = {}
        for lot in self.lots:
            for name, amount in lot.resources:
                wanted[name] += amount
                options.setdefault(name, set()).update(lot.options)
        return {
            name: Total(
                wanted[name], [self.rooms[each].get(name, 0) for each in sorted(options[name])]
            )
            for name in sorted(wanted)
        }

    @property
    def asks_too_much(self) -> bool:
        """Whether more of a class is wanted than is free: a short proof that it does not fit."""
        return any(total.wanted > sum(total.rooms) for total in self.totals.values())

    def replace(self, **fields: Any) -> Problem:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)

    def of(self, consumers: Iterable[str]) -> Problem:
        """The same for these consumers alone."""
        kept = set(consumers)
        return self.replace(lots=tuple(lot for lot in self.lots if lot.consumer in kept))


class Occupancy:
    """How far targets are filled; lots are put one by one."""

    def __init__(self, problem: Problem, placement: Placement | None = None) -> None:
        self.left = [dict(room) for room in problem.rooms]
        self.opened: set[int] = set()
        self._problem = problem
        self._last: dict[tuple[str, ...], int] = {}
        self._sums: collections.Counter[tuple[str, str, int]] = collections.Counter()
        for index, target in (placement or {}).items():
            self.put(problem.lots[index], target)

    def has_place(self, lot: Item, target: int) -> bool:
        """Whether the lot fits there now; a minimum that a sum has yet to reach is not asked."""
        most = self._problem.most_targets
        if most is not None and target not in self.opened and len(self.opened) >= most:
            return False
        left = self.left[target]
        return all(amount <= left.get(name, 0) for name, amount in lot.resources) and (
            not lot.shares or self._is_small(lot, target)
        )

    def put(self, lot: Item, target: int) -> None:
        self.opened.add(target)
        self._last[lot.classes] = target
        for name, amount in lot.resources:
            self.left[target][name] = self.left[target].get(name, 0) - amount
            if lot.shares:
                self._sums[lot.consumer, name, target] += amount

    def last(self, lot: Item) -> int:
        """The target that was last given the same classes; the first one before that."""
        return self._last.get(lot.classes, 0)

    def share(self, target: int, resource_class: str, more: int = 0) -> float:
        """How much of the capacity is used, with ``more`` put there; 0 where nothing was."""
        there = self._problem.targets[target]
        room = self._problem.rooms[target].get(resource_class, 0)
        put = room - self.left[target].get(resource_class, 0) + more
        if not put:
            return 0.0
        used = there.used.get(resource_class, 0) + put
        return used / there.inventories[resource_class].capacity

    def suits_units(self) -> bool:
        """Whether what consumers have in several lots keeps to the units in sum."""
        return all(
            self._problem.targets[target]
            .inventories[name]
            .suits_units(amount + held(self._problem.targets[target], consumer, name))
            for (consumer, name, target), amount in self._sums.items()
        )

    def _is_small(self, lot: Item, target: int) -> bool:
        there = self._problem.targets[target]
        return all(
            self._sums[lot.consumer, name, target] + amount + held(there, lot.consumer, name)
            <= there.inventories[name].max_unit
            for name, amount in lot.resources
        )


def held(target: demand.Target, consumer: str, resource_class: str) -> int:
    """What a consumer has on a target beside what moves there."""
    return target.held.get(consumer, {}).get(resource_class, 0)


def suit_units(
    resources: Iterable[tuple[str, int]], consumer: str, shares: bool, target: demand.Target
) -> bool:
    """Whether amounts could keep to the units of a target, beside others if they share it."""
    return all(
        amount + held(target, consumer, name) <= target.inventories[name].max_unit
        if shares
        else target.inventories[name].suits_units(amount)
        for name, amount in resources
    )
