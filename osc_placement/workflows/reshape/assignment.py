# SPDX-License-Identifier: Apache-2.0
"""Which target each amount of a reshape goes to, or why there is none. Pure and deterministic.

``assign`` places the amounts with ``search.placing``: an item is a request, a target is a tree. A
strategy is a preference: ``pack`` first finds the smallest number of targets, ``spread`` the lowest
share of the fullest target. Then ``assign`` finds the consumers that have a choice, or those that
do not fit, with the reasons::

    targets a and b with 4 VGPU free each; consumers c0 to c3 with 1, 1, 2 and 2 VGPU
    no strategy: Undecided, because each consumer fits on a and on b
    pack:        large amounts first: c2 and c3 on a, c0 and c1 on b
    spread:      c2 on a, c3 on b, c0 on a, c1 on b
    a consumer c4 with 3 VGPU more: Impossible, 9 VGPU are to be placed, and there is room for 8
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from osc_placement.engine.candidates.budget import SearchBudget, SearchTooLong
from osc_placement.model import inventory
from osc_placement.search import placing

#: How to choose where capacity leaves a choice.
#:
#: * ``pack``: use as few targets as possible, in the given order, large amounts first.
#: * ``spread``: keep the fullest target as empty as possible, then fill all evenly.
#: * ``in-order``: assign consumers by UUID to targets in the given order, without returning to
#:   an earlier target.
#:
#: A strategy is a preference: it yields where it would leave an amount unplaced.
Strategy = Literal["pack", "spread", "in-order"]

#: The effort that is spent on a mere preference: targets of all steps.
EFFORT = 50_000

#: The number of proofs that one strategy may use.
MAX_PROOFS = 12

#: Shares of a capacity are compared in thousandths.
WHOLE = 1000

#: The number of consumers that are tried a second time after they did not fit.
MAX_RETRIED = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """Amounts of one consumer on one source that move together: ``{class: amount}``, all positive.

    ``targets`` are the names of the targets that they may move to. An amount is never split,
    because Placement never serves a class of one request group from two providers. ``label`` names
    the source in messages.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    targets: tuple[str, ...]
    label: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TargetProvider:
    """A provider that can receive amounts.

    ``inventories`` are its inventories after the reshape, and ``used`` is the usage that remains
    there, ``{class: amount}``. ``present`` is the part of ``used`` that belongs to moving
    consumers, and that they keep: ``{consumer: {class: amount}}``. ``label`` names it in messages.
    """

    name: str
    inventories: inventory.Inventories
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    present: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    label: str = ""

    def free(self, resource_class: str) -> int:
        """The unused capacity of a class; 0 for a class without inventory."""
        offered = self.inventories.get(resource_class)
        return max(0, offered.capacity - self.used.get(resource_class, 0)) if offered else 0

    def present_of(self, consumer: str, resource_class: str) -> int:
        return self.present.get(consumer, {}).get(resource_class, 0)

    def could_suit_units(self, item: Item, resource_class: str, amount: int) -> bool:
        """Whether an amount can suit the units, alone or as part of a sum."""
        offered = self.inventories[resource_class]
        if item.is_part:
            present = self.present_of(item.demand.consumer, resource_class)
            return amount + present <= offered.max_unit
        return offered.suits_units(amount)

    def share(self, resource_class: str, added: int) -> float:
        """The used share of the capacity with an amount added; 0 if nothing is added."""
        if not added:
            return 0.0
        used = self.used.get(resource_class, 0) + added
        return used / self.inventories[resource_class].capacity


@dataclasses.dataclass(frozen=True, slots=True)
class Assigned:
    """The target of each demand, in their order.

    ``guessed`` are the consumers for which the strategy chose.
    """

    targets: tuple[str, ...]
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


Answer = Assigned | Undecided | Impossible | GaveUp


def assign(
    demands: Sequence[Demand],
    targets: Sequence[TargetProvider],
    strategy: Strategy | None = None,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Find the target of each demand, or prove that there is none.

    The order of ``targets`` matters to strategies; the order of ``demands`` and of mappings does
    not. Only GaveUp depends on the machine: it is the answer after ``seconds`` by ``clock``.
    Time: items times targets without proofs. Proofs are exponential at worst; 12 consumers on 4
    targets take about a second.
    """
    items = _Items(demands, {target.name: target for target in targets})
    try:
        return _answer(items, strategy, SearchBudget(seconds, clock=clock))
    except SearchTooLong:
        return GaveUp(seconds)


class Item(NamedTuple):
    """A demand at its position.

    ``is_part``: the consumer may have more of the same class on a target, so that min_unit,
    max_unit and step_size apply to the sum.
    """

    position: int
    demand: Demand
    is_part: bool

    @property
    def consumer(self) -> str:
        return self.demand.consumer


class ItemKind(NamedTuple):
    """Items of the same kind are interchangeable. ``owner`` is set where the consumer matters."""

    resources: tuple[tuple[str, int], ...]
    targets: tuple[str, ...]
    owner: tuple[str, str] | None


class _Items:
    """The demands as requests. One without a target that it fits on alone fits nowhere.

    The names of the requests are numbers in the order of consumers, sources and classes.
    """

    def __init__(self, demands: Sequence[Demand], targets: Mapping[str, TargetProvider]) -> None:
        self.targets = targets
        self.positions = {name: at for at, name in enumerate(targets)}
        self.items = {str(at): item for at, item in enumerate(self._sorted(demands))}
        self.kinds = {name: self._kind(item) for name, item in self.items.items()}
        self.unplaceable = [self.items[at] for at, kind in self.kinds.items() if not kind.targets]
        lost = {item.consumer for item in self.unplaceable}
        #: ``{consumer: its requests}``, consumers sorted
        self.consumers: dict[str, list[str]] = {}
        for name, item in self.items.items():
            if item.consumer not in lost:
                self.consumers.setdefault(item.consumer, []).append(name)
        options: dict[Hashable, list[placing.Option]] = {}
        owners: dict[Hashable, str] = {}
        sums: dict[tuple[Hashable, placing.Slot], placing.SumRule] = {}
        for kind in self.kinds.values():
            options[kind] = _options(kind)
            if kind.owner:
                owner = owners[kind] = kind.owner[0]
                for slot in placing.slots_of(options[kind]):
                    sums[owner, slot] = self._sum_rule(owner, slot)
        free = {
            slot: targets[slot[0]].free(slot[1])
            for slot in placing.slots_of(itertools.chain.from_iterable(options.values()))
        }
        self.problem = placing.Problem(self.kinds, options, free, owners, sums)
        if self.unplaceable:
            self.problem = self.of(self.consumers)

    def of(self, consumers: Iterable[str]) -> placing.Problem:
        """The problem of these consumers alone."""
        names = [name for consumer in consumers for name in self.consumers[consumer]]
        requests = {name: self.kinds[name] for name in sorted(names, key=int)}
        return dataclasses.replace(self.problem, requests=requests)

    def _sorted(self, demands: Sequence[Demand]) -> Iterator[Item]:
        numbers = collections.Counter(
            (demand.consumer, name) for demand in demands for name in demand.resources
        )
        order = sorted(
            range(len(demands)),
            key=lambda at: (
                demands[at].consumer,
                demands[at].source,
                sorted(demands[at].resources),
                demands[at].targets,
            ),
        )
        for at in order:
            demand = demands[at]
            is_part = any(
                numbers[demand.consumer, name] > 1
                or any(target.present_of(demand.consumer, name) for target in self.targets.values())
                for name in demand.resources
            )
            yield Item(at, demand, is_part)

    def _kind(self, item: Item) -> ItemKind:
        demand = item.demand
        suitable = (
            name
            for name, target in self.targets.items()
            if name in demand.targets
            and all(
                resource_class in target.inventories
                and amount <= target.free(resource_class)
                and target.could_suit_units(item, resource_class, amount)
                for resource_class, amount in demand.resources.items()
            )
        )
        owner = (demand.consumer, demand.source) if item.is_part else None
        return ItemKind(tuple(sorted(demand.resources.items())), tuple(suitable), owner)

    def _sum_rule(self, consumer: str, slot: placing.Slot) -> placing.SumRule:
        target = self.targets[slot[0]]
        offered = target.inventories[slot[1]]
        return placing.SumRule(
            target.present_of(consumer, slot[1]),
            offered.min_unit,
            offered.max_unit,
            offered.step_size,
        )


def _options(kind: ItemKind) -> list[placing.Option]:
    return [
        placing.Option(target, {(target, name): amount for name, amount in kind.resources})
        for target in kind.targets
    ]


def _answer(items: _Items, strategy: Strategy | None, budget: SearchBudget) -> Answer:
    placement = None
    if not items.unplaceable:
        placement = _Strategies(items, budget).place(strategy)
    if placement is None:
        return _impossible(items, budget)
    undecided = set(items.consumers) - _unique(items, placement, budget)
    if undecided and strategy is None:
        return Undecided(tuple(sorted(undecided)))
    targets = {item.position: placement[name].root_uuid for name, item in items.items.items()}
    return Assigned(tuple(target for _, target in sorted(targets.items())), frozenset(undecided))


#: The options of a request, the best first.
_Preference = Callable[[placing.Occupancy, str], Sequence[placing.Option]]


class _Strategies:
    """Places all items by a preference, as far as that leaves room for the rest."""

    def __init__(self, items: _Items, budget: SearchBudget) -> None:
        self._items, self._problem, self._budget = items, items.problem, budget
        self._solution: placing.Placement = {}
        self._proofs = MAX_PROOFS

    def place(self, strategy: Strategy | None) -> placing.Placement | None:
        """A placement of all items; None if it is proved that there is none."""
        solution = placing.place(self._problem, self._budget)
        if solution is None or strategy is None:
            return solution
        self._solution = solution
        if strategy == "pack":
            self._limit_targets()
            return self._preferred(self._problem.large_first, self._as_given)
        if strategy == "spread":
            for resource_class in self._problem.needed:
                self._limit_share(resource_class)
            return self._preferred(self._problem.large_first, self._emptiest)
        return self._preferred(list(self._problem.requests), self._onward)

    def _limit_targets(self) -> None:
        """Limit the problem to the smallest number of targets."""
        used = len({option.root_uuid for option in self._solution.values()})
        for number in range(max(map(self._fewest_targets, self._problem.needed), default=0), used):
            limited = dataclasses.replace(self._problem, most_trees=number)
            if solution := placing.place(limited, self._budget, effort=EFFORT):
                self._problem, self._solution = limited, solution
                return
        self._problem = dataclasses.replace(self._problem, most_trees=used)

    def _fewest_targets(self, resource_class: str) -> int:
        """The number of targets that a class needs if it takes the largest ones."""
        free = sorted(self._problem.free[slot] for slot in self._problem.slots[resource_class])
        needed, number = self._problem.needed[resource_class], 0
        while needed > 0 and free:
            needed -= free.pop()
            number += 1
        return number

    def _limit_share(self, resource_class: str) -> None:
        """Limit the problem to the lowest share of the fullest target."""
        low, high = 0, self._highest_share(resource_class)
        while low < high:
            middle = (low + high) // 2
            limited = self._limited(resource_class, middle)
            if solution := self._solve_evenly(limited):
                self._solution = solution
                high = self._highest_share(resource_class)
            else:
                low = middle + 1
        self._problem = self._limited(resource_class, high)

    def _solve_evenly(self, problem: placing.Problem) -> placing.Placement | None:
        if problem.cannot_fit:
            return None
        occupancy = self._extend(problem, problem.large_first, self._emptiest, {})
        if occupancy.is_complete:
            return occupancy.placed
        return placing.place(problem, self._budget, effort=EFFORT)

    def _highest_share(self, resource_class: str) -> int:
        added: collections.Counter[str] = collections.Counter()
        for option in self._solution.values():
            added[option.root_uuid] += option.amounts.get((option.root_uuid, resource_class), 0)
        return math.ceil(
            max(
                WHOLE * self._items.targets[target].share(resource_class, amount)
                for target, amount in added.items()
            )
        )

    def _limited(self, resource_class: str, share: int) -> placing.Problem:
        """The problem where the used share of each target is at most ``share`` thousandths."""
        free = dict(self._problem.free)
        for slot in self._problem.slots[resource_class]:
            target = self._items.targets[slot[0]]
            capacity = target.inventories[resource_class].capacity
            below = capacity * share // WHOLE - target.used.get(resource_class, 0)
            free[slot] = max(0, min(free[slot], below))
        return dataclasses.replace(self._problem, free=free)

    def _as_given(self, _: placing.Occupancy, name: str) -> Sequence[placing.Option]:
        return self._problem.options[self._items.kinds[name]]

    def _emptiest(self, occupancy: placing.Occupancy, name: str) -> Sequence[placing.Option]:
        def share(option: placing.Option) -> float:
            target = self._items.targets[option.root_uuid]
            return max(
                target.share(slot[1], self._problem.free[slot] - occupancy.left[slot] + amount)
                for slot, amount in option.amounts.items()
            )

        return sorted(self._as_given(occupancy, name), key=share)

    def _onward(self, occupancy: placing.Occupancy, name: str) -> Sequence[placing.Option]:
        """From the target that received the same classes last; earlier targets come at the end."""
        items, position = self._items.items, self._items.positions
        classes = items[name].demand.resources.keys()
        same = (
            position[option.root_uuid]
            for other, option in reversed(occupancy.placed.items())
            if items[other].demand.resources.keys() == classes
        )
        last = next(same, 0)
        options = self._as_given(occupancy, name)
        return sorted(options, key=lambda option: position[option.root_uuid] < last)

    def _extend(
        self,
        problem: placing.Problem,
        order: Sequence[str],
        prefer: _Preference,
        placed: placing.Placement,
    ) -> placing.Occupancy:
        """Place the items after ``placed`` until one does not fit; without looking ahead."""
        occupancy = placing.Occupancy(problem, placed)
        for name in order[len(placed) :]:
            kind = self._items.kinds[name]
            options = prefer(occupancy, name)
            best = next((option for option in options if occupancy.fits(kind, option)), None)
            if best is None:
                break
            occupancy.put(name, best)
        return occupancy

    def _preferred(self, order: Sequence[str], prefer: _Preference) -> placing.Placement:
        """The first of all placements in the order of the preferences.

        Where that takes too many proofs, the remaining items are placed in any way that fits.
        """
        start: placing.Placement | None = {}
        while start is not None:
            occupancy = self._extend(self._problem, order, prefer, start)
            if occupancy.is_complete:
                return occupancy.placed
            start = self._correct(start, occupancy.placed, order, prefer)
        return self._solution

    def _correct(
        self,
        good: placing.Placement,
        bad: placing.Placement,
        order: Sequence[str],
        prefer: _Preference,
    ) -> placing.Placement | None:
        """The longest beginning of ``bad`` that can be completed, and one item placed otherwise.

        None if the allowed proofs do not find it.
        """
        low, high = len(good), len(bad)
        while high - low > 1:
            middle = (low + high) // 2
            if self._can_complete(_first(bad, middle)):
                low = middle
            else:
                high = middle
        start, name = _first(bad, low), order[low]
        occupancy = placing.Occupancy(self._problem, start)
        others = (
            {**start, name: option}
            for option in prefer(occupancy, name)
            if option != bad.get(name) and occupancy.fits(self._items.kinds[name], option)
        )
        return next(filter(self._can_complete, others), None)

    def _can_complete(self, part: placing.Placement) -> bool:
        """Whether the other items fit beside these; uses a proof only if they do not just fit."""
        occupancy = placing.first_fit(self._problem, part)
        solution: placing.Placement | None = occupancy.placed
        if not occupancy.is_complete:
            self._proofs -= 1
            solution = None
            if self._proofs >= 0:
                solution = placing.place(self._problem, self._budget, part, EFFORT)
        if solution:
            self._solution = solution
        return bool(solution)


def _first(placed: placing.Placement, number: int) -> placing.Placement:
    return dict(itertools.islice(placed.items(), number))


def _unique(items: _Items, placement: placing.Placement, budget: SearchBudget) -> frozenset[str]:
    """The consumers whose items all have one possible target.

    ``placement`` is any solution. Most other consumers have a choice within one step from it:
    one item moves, or two change places. A search decides the rest.
    """
    problem = items.problem
    counts = _counts(items, placement)
    movable = {kind for kind, targets in counts.items() if not kind.owner and len(targets) > 1}
    movable |= _movable_within_a_step(items, placement)
    for kind in counts:
        names, options = problem.kinds[kind], problem.options[kind]
        for option in options if len(options) > 1 else ():
            if kind in movable:
                break
            number = counts[kind][option.root_uuid]
            more = dict.fromkeys(names[: number + 1], option)
            if len(more) == number:
                continue
            if other := placing.place(problem, budget, more):
                moved = _counts(items, other)
                movable |= {kind for kind in counts if moved[kind] != counts[kind]}
    return frozenset(
        consumer
        for consumer, names in items.consumers.items()
        if not any(items.kinds[name] in movable for name in names)
    )


def _counts(
    items: _Items, placement: placing.Placement
) -> Mapping[ItemKind, collections.Counter[str]]:
    """The number of items of each kind on each target."""
    counts: dict[ItemKind, collections.Counter[str]] = {}
    for name, option in placement.items():
        counts.setdefault(items.kinds[name], collections.Counter())[option.root_uuid] += 1
    return counts


def _movable_within_a_step(items: _Items, placement: placing.Placement) -> set[ItemKind]:
    left = placing.Occupancy(items.problem, placement).left
    pairs = {(items.kinds[name], option.root_uuid) for name, option in placement.items()}
    plain = sorted((kind, target) for kind, target in pairs if not kind.owner)

    def fits(kind: ItemKind, target: str, leaving: ItemKind | None = None) -> bool:
        """Whether an item fits on a target, once an item of another kind leaves it."""
        freed = dict(leaving.resources) if leaving else {}
        return target in kind.targets and all(
            amount <= left[target, name] + freed.get(name, 0) for name, amount in kind.resources
        )

    movable = {
        kind
        for kind, target in plain
        if any(other != target and fits(kind, other) for other in kind.targets)
    }
    for kind, target in plain:
        if kind not in movable:
            for other, there in plain:
                if there != target and fits(kind, there, other) and fits(other, target, kind):
                    movable |= {kind, other}
                    break
    return movable


def _impossible(items: _Items, budget: SearchBudget) -> Impossible:
    """A set of consumers without which all others fit; consumers with small amounts are kept.

    The set is minimal unless it exceeds MAX_RETRIED or a proof takes too many steps.
    """
    left_over = _left_over(items, budget)
    reasons = [
        *(_why_nowhere(items.targets.values(), item) for item in items.unplaceable),
        *([_why_not_together(items.problem)] if left_over else []),
    ]
    consumers = {*(item.consumer for item in items.unplaceable), *left_over}
    return Impossible(tuple(sorted(consumers)), tuple(dict.fromkeys(reasons)))


def _left_over(items: _Items, budget: SearchBudget) -> Collection[str]:
    def fit(consumers: Iterable[str]) -> bool:
        return placing.place(items.of(consumers), budget, effort=EFFORT) is not None

    sizes = _sizes(items)
    small_first = sorted(items.consumers, key=lambda name: (sizes[name], name))
    kept = _kept(items, small_first)
    if not fit(kept):
        kept = []
    left = [name for name in small_first if name not in set(kept)]
    for name in left[:MAX_RETRIED]:
        if fit([*kept, name]):
            kept = [*kept, name]
    return [name for name in left if name not in set(kept)]


def _sizes(items: _Items) -> Mapping[str, float]:
    """The share of the free amounts that each consumer needs, the largest of its classes."""
    free = items.problem.free
    room = {
        name: sum(free[slot] for slot in slots) or 1 for name, slots in items.problem.slots.items()
    }
    return {
        consumer: max(
            amount / room[resource_class]
            for name in names
            for resource_class, amount in items.items[name].demand.resources.items()
        )
        for consumer, names in items.consumers.items()
    }


def _kept(items: _Items, order: Sequence[str]) -> list[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: placing.Placement = {}
    kept = []
    for consumer in order:
        names = items.consumers[consumer]
        more = placing.first_fit(items.problem, placed, names).placed
        if len(more) == len(placed) + len(names):
            placed = more
            kept.append(consumer)
    return kept


def _why_nowhere(targets: Iterable[TargetProvider], item: Item) -> str:
    demand = item.demand
    amounts = ", ".join(f"{amount} {name}" for name, amount in sorted(demand.resources.items()))
    reasons = "; ".join(filter(None, (_why_not(item, target) for target in targets)))
    start = f"{demand.consumer}: {amounts} from {demand.label or demand.source} fits nowhere"
    return f"{start}: {reasons}" if reasons else f"{start}: no move has a target for it"


def _why_not(item: Item, target: TargetProvider) -> str:
    """Why an item does not fit on a target; empty if it does, or if no move leads there."""
    resources, label = item.demand.resources, target.label or target.name
    if target.name not in item.demand.targets or not resources.keys() <= target.inventories.keys():
        return ""
    for name, amount in sorted(resources.items()):
        free = target.free(name)
        if amount > free:
            return f"{label} has room for {free} {name}"
        if not target.could_suit_units(item, name, amount):
            offered = target.inventories[name]
            return (
                f"{label} takes {name} with min_unit {offered.min_unit}, max_unit"
                f" {offered.max_unit}, step_size {offered.step_size}"
            )
    return ""


def _why_not_together(problem: placing.Problem) -> str:
    if problem.lacking is None:
        return "no distribution among the targets fits"
    name, needed, room = problem.lacking
    return f"{needed} {name} are to be placed, and there is room for {room}"
