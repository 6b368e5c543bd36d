"""The problem of an assignment: demands and targets, items that are placed whole, and occupancy."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from osc_placement.model import inventory

#: How to choose where the rules leave a choice.
#:
#: * ``pack``: use as few targets as possible, in the given order, large amounts first.
#: * ``spread``: keep the fullest target as empty as possible, then fill all evenly.
#: * ``in-order``: assign consumers by UUID to targets in the given order, without returning to
#:   an earlier target.
#:
#: A strategy is a preference: it yields where it would leave an amount unplaced.
Strategy = Literal["pack", "spread", "in-order"]


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """The amounts of one consumer on one source that move: ``{class: amount}``."""

    consumer: str
    source: str
    resources: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A provider that can receive amounts.

    ``inventories`` are its inventories after the reshape, and ``used`` is the usage that remains
    there, ``{class: amount}``. ``accepts`` lists the moves to it, ``{source: classes}``.
    ``held`` is the part of ``used`` that belongs to moving consumers: ``{consumer: {class:
    amount}}``.
    """

    name: str
    inventories: inventory.Inventories
    accepts: Mapping[str, frozenset[str]]
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    held: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)

    def free(self, resource_class: str) -> int:
        """The unused capacity of a class; 0 for a class without inventory."""
        offered = self.inventories.get(resource_class)
        return max(0, offered.capacity - self.used.get(resource_class, 0)) if offered else 0

    def held_by(self, consumer: str, resource_class: str) -> int:
        """The amount that a moving consumer already has here and keeps."""
        return self.held.get(consumer, {}).get(resource_class, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The constraints of an assignment, and the strategy for what they leave open.

    A consumer's ``together`` classes of one source go to one target. An amount is never
    split, because Placement never serves a class of one request group from two providers.
    For an amount with a known target, use a source of its own that this target alone accepts.
    """

    together: frozenset[str] = frozenset()
    strategy: Strategy | None = None


class Key(NamedTuple):
    """One amount that moves: one consumer, one source, one class."""

    consumer: str
    source: str
    resource_class: str


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The target of each amount: ``{key: {target: amount}}``, one target per key.

    ``guessed`` are the consumers for which the strategy chose among several possible targets.
    """

    placed: Mapping[Key, Mapping[str, int]]
    guessed: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """These consumers (sorted) have several possible targets, and no strategy is set."""

    consumers: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Impossible:
    """Proved: not all amounts fit.

    All other consumers fit without ``consumers`` (sorted); ``reasons`` are sentences.
    """

    consumers: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GaveUp:
    """Neither solved nor proved impossible within this many seconds."""

    seconds: float


Answer = Found | Undecided | Impossible | GaveUp


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
    targets: tuple[Target, ...]
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


class _Part(NamedTuple):
    """Amounts of one consumer on one source that stay together."""

    consumer: str
    source: str
    resources: tuple[tuple[str, int], ...]


def build_problem(demands: Iterable[Demand], targets: Sequence[Target], rules: Rules) -> Problem:
    """The problem of these demands, sorted. Demands of the same consumer and source are summed.

    An item without options fits nowhere, even alone.
    """
    parts = list(_parts(demands, rules))
    parts_of = collections.Counter((part.consumer, name) for part in parts for name, _ in part[2])
    classes = sorted({name for part in parts for name, _ in part.resources})

    def shares(part: _Part) -> bool:
        return any(
            parts_of[part.consumer, name] > 1
            or any(target.held_by(part.consumer, name) for target in targets)
            for name, _ in part.resources
        )

    return Problem(
        tuple(Item(*part, _options(part, targets, shares(part)), shares(part)) for part in parts),
        tuple(targets),
        tuple({name: target.free(name) for name in classes} for target in targets),
    )


def _parts(demands: Iterable[Demand], rules: Rules) -> Iterator[_Part]:
    merged: dict[tuple[str, str], collections.Counter[str]] = {}
    for each in demands:
        positive = {name: amount for name, amount in each.resources.items() if amount > 0}
        merged.setdefault((each.consumer, each.source), collections.Counter()).update(positive)
    for (consumer, source), resources in sorted(merged.items()):
        together = tuple(sorted(pair for pair in resources.items() if pair[0] in rules.together))
        if together:
            yield _Part(consumer, source, together)
        for name, amount in sorted(resources.items()):
            if name not in rules.together:
                yield _Part(consumer, source, ((name, amount),))


def _options(part: _Part, targets: Sequence[Target], shares: bool) -> tuple[int, ...]:
    return tuple(
        index
        for index, target in enumerate(targets)
        if accepts(target, part.source, (name for name, _ in part.resources))
        and all(
            amount <= target.free(name)
            and could_suit_units(target, part.consumer, name, amount, shares)
            for name, amount in part.resources
        )
    )


def accepts(target: Target, source: str, classes: Iterable[str]) -> bool:
    """Whether moves lead from a source to a target for all of these classes."""
    accepted = target.accepts.get(source, frozenset())
    return all(name in accepted and name in target.inventories for name in classes)


def could_suit_units(
    target: Target, consumer: str, resource_class: str, amount: int, shares: bool
) -> bool:
    """Whether an amount can suit a target's units, alone or as part of a sum (``shares``)."""
    offered = target.inventories[resource_class]
    if shares:
        return amount + target.held_by(consumer, resource_class) <= offered.max_unit
    return offered.suits_units(amount)
