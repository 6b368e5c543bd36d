"""The model of an assignment: items that are placed whole, and the occupancy of the targets."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement.workflows.reshape.assignment import demand

#: ``{index of an item: index of its target}``
Placement = Mapping[int, int]


class Kind(NamedTuple):
    """Items of the same kind are interchangeable. ``owner`` is set where the consumer matters."""

    resources: tuple[tuple[str, int], ...]
    options: tuple[int, ...]
    owner: tuple[str, str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """Amounts of one consumer that stay together, and their possible targets (indexes).

    ``shares``: the consumer may have more of the same class on a target, so that min_unit,
    max_unit and step_size apply to the sum.
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
    """The amount of a class to place, and the free amount on each of its possible targets."""

    needed: int
    free: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Problem:
    """``free`` is ``{class: amount}`` per target; ``max_targets`` None sets no limit."""

    items: tuple[Item, ...]
    targets: tuple[demand.Target, ...]
    free: tuple[Mapping[str, int], ...]
    max_targets: int | None = None

    @functools.cached_property
    def kinds(self) -> Mapping[Kind, Sequence[int]]:
        """The items (indexes) of each kind."""
        found: dict[Kind, list[int]] = {}
        for index, item in enumerate(self.items):
            found.setdefault(item.kind, []).append(index)
        return found

    @functools.cached_property
    def consumers(self) -> Mapping[str, Sequence[int]]:
        """The items (indexes) of each consumer, consumers sorted."""
        found: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            found.setdefault(item.consumer, []).append(index)
        return found

    @functools.cached_property
    def totals(self) -> Mapping[str, Total]:
        """The total of each class, classes sorted."""
        needed: collections.Counter[str] = collections.Counter()
        options: dict[str, set[int]] = {}
        for item in self.items:
            for name, amount in item.resources:
                needed[name] += amount
                options.setdefault(name, set()).update(item.options)
        return {
            name: Total(needed[name], [self.free[each].get(name, 0) for each in options[name]])
            for name in sorted(needed)
        }

    @functools.cached_property
    def large_first(self) -> Sequence[int]:
        """The items (indexes), those that need the largest share of a target first."""
        largest = {name: max(total.free, default=0) for name, total in self.totals.items()}

        def rank(index: int) -> tuple[float, int, int]:
            item = self.items[index]
            share = max(amount / (largest[name] or 1) for name, amount in item.resources)
            return -share, len(item.options), index

        return sorted(range(len(self.items)), key=rank)

    @property
    def exceeds_free(self) -> bool:
        """Whether a class needs more than is free in sum: then the items do not fit."""
        return any(total.needed > sum(total.free) for total in self.totals.values())

    def restricted_to(self, consumers: Iterable[str]) -> Problem:
        """The same problem for these consumers alone."""
        kept = set(consumers)
        items = tuple(item for item in self.items if item.consumer in kept)
        return dataclasses.replace(self, items=items)


class Occupancy:
    """The free amounts of the targets while items are placed one by one."""

    def __init__(self, problem: Problem, placement: Placement | None = None) -> None:
        self.left = [{name: free.get(name, 0) for name in problem.totals} for free in problem.free]
        self.items_on = [0] * len(problem.targets)
        self.sums: collections.Counter[tuple[str, str, int]] = collections.Counter()
        self._problem = problem
        self._last: dict[tuple[str, ...], int] = {}
        for index, target in (placement or {}).items():
            self.put(problem.items[index], target)

    @property
    def used_targets(self) -> list[int]:
        """The targets that have an item."""
        return [target for target, count in enumerate(self.items_on) if count]

    def fits(self, item: Item, target: int) -> bool:
        """Whether an item fits now; the sum of a consumer's items may still be too small."""
        limit = self._problem.max_targets
        if limit is not None and not self.items_on[target] and len(self.used_targets) >= limit:
            return False
        left = self.left[target]
        return all(amount <= left[name] for name, amount in item.resources) and (
            not item.shares
            or all(
                self._sum(item.consumer, name, target) + amount
                <= self._problem.targets[target].inventories[name].max_unit
                for name, amount in item.resources
            )
        )

    def put(self, item: Item, target: int) -> None:
        """Place an item."""
        self._last[item.classes] = target
        self._count(item, target, 1)

    def take(self, item: Item, target: int) -> None:
        """Undo ``put``."""
        self._count(item, target, -1)

    def _count(self, item: Item, target: int, sign: int) -> None:
        self.items_on[target] += sign
        for name, amount in item.resources:
            self.left[target][name] -= sign * amount
            if item.shares:
                self.sums[item.consumer, name, target] += sign * amount

    def last(self, item: Item) -> int:
        """The target that received the same classes last; initially the first target."""
        return self._last.get(item.classes, 0)

    def share(self, target: int, resource_class: str, more: int = 0) -> float:
        """The used share of the capacity with ``more`` added; 0 where nothing was placed."""
        placed = self._problem.free[target].get(resource_class, 0) + more
        placed -= self.left[target][resource_class]
        if not placed:
            return 0.0
        there = self._problem.targets[target]
        used = there.used.get(resource_class, 0) + placed
        return used / there.inventories[resource_class].capacity

    def suits_units(self, only: str | None = None) -> bool:
        """Whether the sums of consumers with several items, or of one, suit the units."""
        return all(
            self._problem.targets[target]
            .inventories[name]
            .suits_units(self._sum(consumer, name, target))
            for (consumer, name, target), amount in self.sums.items()
            if amount and only in (None, consumer)
        )

    def _sum(self, consumer: str, resource_class: str, target: int) -> int:
        placed = self.sums[consumer, resource_class, target]
        return placed + self._problem.targets[target].held_by(consumer, resource_class)
