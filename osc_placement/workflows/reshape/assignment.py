# SPDX-License-Identifier: Apache-2.0
"""Which target each amount of a reshape goes to, or why there is none. Pure and deterministic.

``assign`` places the amounts with ``search.placing``: a demand is a request, a target is a tree.
The strategy ``pack`` first finds the smallest number of targets. Then ``assign`` finds the
consumers that have a choice, or those that do not fit, with the reasons::

    targets a and b with 4 VGPU free each; consumers c0 to c3 with 1, 1, 2 and 2 VGPU
    no strategy: Undecided, because each consumer fits on a and on b
    pack:        large amounts first: c2 and c3 on a, c0 and c1 on b
    a consumer c4 with 3 VGPU more: Impossible, 9 VGPU are to be placed, and there is room for 8
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from osc_placement.engine.candidates.budget import SearchBudget, SearchTooLong
from osc_placement.model import inventory
from osc_placement.model.allocation import Place
from osc_placement.search import placing

#: How to choose where capacity leaves a choice.
#:
#: ``pack``: use as few targets as possible, in the given order, large amounts first. It is a
#: preference: it yields where it would leave an amount unplaced.
Strategy = Literal["pack"]

#: The effort that is spent on a mere preference: targets of all steps.
EFFORT = 50_000

#: The number of proofs that the strategy may use.
MAX_PROOFS = 12

#: The number of consumers that are tried a second time after they did not fit.
MAX_RETRIED = 16


class Destination(NamedTuple):
    """A possible target of a demand; ``classes`` are the new classes of its resources, in order."""

    target: str
    classes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """Amounts of one consumer on one source that move or stay together: ``{class: amount}``.

    All are positive. An amount is never split, because Placement never serves a class of one
    request group from two providers. ``assigned`` is set where evidence decides.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    options: tuple[Destination, ...]
    assigned: Destination | None = None

    @property
    def possible(self) -> tuple[Destination, ...]:
        """The options that evidence leaves."""
        return self.options if self.assigned is None else (self.assigned,)

    @property
    def places(self) -> set[Place]:
        """The places that it may get an amount of."""
        return {(option.target, name) for option in self.options for name in option.classes}

    def received(self, option: Destination) -> dict[str, int]:
        """``{class: amount}`` on the target."""
        amounts: dict[str, int] = {}
        for name, amount in zip(option.classes, self.resources.values(), strict=True):
            amounts[name] = amounts.get(name, 0) + amount
        return amounts


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """A place that can receive amounts: its inventory after the reshape, and what stays there.

    ``present`` is the part of ``used`` that belongs to moving consumers, and that they keep:
    ``{consumer: amount}``.
    """

    inventory: inventory.Inventory
    used: int = 0
    present: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def free(self) -> int:
        """The unused capacity."""
        return max(0, self.inventory.capacity - self.used)

    def sum_rule(self, consumer: str) -> placing.SumRule:
        """The units that the sum of a consumer's amounts must suit."""
        offered, present = self.inventory, self.present.get(consumer, 0)
        return placing.SumRule(present, offered.min_unit, offered.max_unit, offered.step_size)


@dataclasses.dataclass(frozen=True, slots=True)
class Assigned:
    """The target of each demand, in their order.

    ``guessed`` are the consumers for which the strategy chose.
    """

    targets: tuple[Destination, ...]
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
    rooms: Mapping[Place, Room],
    strategy: Strategy | None = None,
    seconds: float = 60.0,
    names: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Find the target of each demand, or prove that there is none.

    The order of ``rooms`` matters to ``pack``; the order of ``demands`` and of other mappings
    does not. ``names`` of providers are for messages. Only GaveUp depends on the machine: it is the
    answer after ``seconds`` by ``clock``.
    Time: demands times targets without proofs. Proofs are exponential at worst; 12 consumers on 4
    targets take about a second.
    """
    requests = _Requests(demands, rooms)
    try:
        return _answer(requests, strategy, SearchBudget(seconds, clock=clock), names or {})
    except SearchTooLong:
        return GaveUp(seconds)


class DemandKind(NamedTuple):
    """Demands of the same kind are interchangeable. ``owner`` is set where the consumer matters.

    An option is a target with its amounts.
    """

    options: tuple[tuple[str, tuple[tuple[placing.Slot, int], ...]], ...]
    owner: tuple[str, str] | None


class _Requests:
    """The demands as requests. One without a target that it fits on alone fits nowhere.

    The names of the requests are numbers in the order of consumers, sources and classes. A class
    that becomes another counts as the same class. Where it can become several classes on one
    provider, the provider is several targets: ``<uuid> <classes>``.
    """

    def __init__(self, demands: Sequence[Demand], rooms: Mapping[Place, Room]) -> None:
        changes = sorted(
            {
                (option.target, *classes)
                for demand in demands
                for option in demand.options
                for classes in zip(demand.resources, option.classes, strict=True)
            }
        )
        groups = placing.separate(changes, lambda change: change[1:])
        self._alike = {name: group[0][1] for group in groups for _, *both in group for name in both}
        numbers = collections.Counter((target, name) for target, name, _ in changes)
        self._several = {place for place, number in numbers.items() if number > 1}
        self._rooms = {place: room for place, room in rooms.items() if place[1] in self._alike}
        self.rooms = {self._slot(place): room for place, room in self._rooms.items()}
        self.positions = self._positions(demands)
        self._order = sorted(range(len(demands)), key=lambda at: _sort_key(demands[at]))
        self.demands = {str(at): demands[index] for at, index in enumerate(self._order)}
        self._parts = self._parts_of_sums()
        self.kinds = {name: self._kind(name) for name in self.demands}
        self.unplaceable = [name for name, kind in self.kinds.items() if not kind.options]
        lost = {self.demands[name].consumer for name in self.unplaceable}
        #: ``{consumer: its requests}``, consumers sorted
        self.consumers: dict[str, list[str]] = {}
        for name, demand in self.demands.items():
            if demand.consumer not in lost:
                self.consumers.setdefault(demand.consumer, []).append(name)
        options: dict[Hashable, list[placing.Option]] = {}
        free: dict[placing.Slot, int] = {}
        owners: dict[Hashable, str] = {}
        sums: dict[tuple[Hashable, placing.Slot], placing.SumRule] = {}
        for kind in self.kinds.values():
            options[kind] = [placing.Option(root, dict(amounts)) for root, amounts in kind.options]
            if kind.owner:
                owners[kind] = kind.owner[0]
            for slot in (slot for _, amounts in kind.options for slot, _ in amounts):
                free[slot] = self.rooms[slot].free
                if kind.owner:
                    sums[kind.owner[0], slot] = self.rooms[slot].sum_rule(kind.owner[0])
        self.problem = placing.Problem(self.kinds, options, free, owners, sums)
        if self.unplaceable:
            self.problem = self.of(self.consumers)

    def of(self, consumers: Iterable[str]) -> placing.Problem:
        """The problem of these consumers alone."""
        names = [name for consumer in consumers for name in self.consumers[consumer]]
        requests = {name: self.kinds[name] for name in sorted(names, key=int)}
        return dataclasses.replace(self.problem, requests=requests)

    def targets(self, placement: placing.Placement) -> tuple[Destination, ...]:
        """The target of each demand, in the order in which the demands were given."""
        chosen = {}
        for index, (name, demand) in zip(self._order, self.demands.items(), strict=True):
            root = placement[name].root_uuid
            options = (one for one in demand.possible if self._target(demand, one) == root)
            chosen[index] = next(options)
        return tuple(target for _, target in sorted(chosen.items()))

    def why_nowhere(self, name: str, called: Mapping[str, str]) -> str:
        """Why a request fits on no target; ``called`` are the names of providers."""
        demand = self.demands[name]
        amounts = ", ".join(f"{amount} {key}" for key, amount in sorted(demand.resources.items()))
        source = called.get(demand.source, demand.source)
        if demand.assigned is not None:
            target = demand.assigned.target
            source += f", assigned to {called.get(target, target)},"
        start = f"{demand.consumer}: {amounts} from {source} fits nowhere"
        texts = (
            (called.get(option.target, option.target), self._why_not(name, option))
            for option in self._in_order(demand)
        )
        reasons = "; ".join(f"{target} {text}" for target, text in texts if text)
        return f"{start}: {reasons}" if reasons else f"{start}: no move has a target for it"

    def _slot(self, place: Place) -> placing.Slot:
        target, name = place
        return f"{target} {name}", self._alike[name]

    def _positions(self, demands: Sequence[Demand]) -> dict[str, int]:
        """``{target: its position}`` in the order of the rooms."""
        order = {place: at for at, place in enumerate(self._rooms)}
        ranks: dict[str, int] = {}
        for demand in demands:
            for option in demand.options:
                places = ((option.target, name) for name in option.classes)
                rank = min(order.get(place, len(order)) for place in places)
                target = self._target(demand, option)
                ranks[target] = min(rank, ranks.get(target, rank))
        in_order = sorted((rank, target) for target, rank in ranks.items())
        return {target: at for at, (_, target) in enumerate(in_order)}

    def _parts_of_sums(self) -> set[str]:
        """The requests whose consumer may have more of the same class on a target.

        There min_unit, max_unit and step_size apply to the sum.
        """
        numbers = collections.Counter(
            (demand.consumer, place) for demand in self.demands.values() for place in demand.places
        )
        present = {
            (consumer, place)
            for place, room in self._rooms.items()
            for consumer, amount in room.present.items()
            if amount
        }
        return {
            name
            for name, demand in self.demands.items()
            for place in demand.places
            if numbers[demand.consumer, place] > 1 or (demand.consumer, place) in present
        }

    def _target(self, demand: Demand, option: Destination) -> str:
        changed = [
            there
            for name, there in zip(demand.resources, option.classes, strict=True)
            if (option.target, name) in self._several
        ]
        return f"{option.target} {','.join(changed)}".rstrip()

    def _in_order(self, demand: Demand) -> list[Destination]:
        """The possible targets of a demand, in the order of the targets."""
        return sorted(
            demand.possible, key=lambda option: self.positions[self._target(demand, option)]
        )

    def _kind(self, name: str) -> DemandKind:
        demand = self.demands[name]
        options = []
        for option in self._in_order(demand):
            if self._why_not(name, option) == "":
                received = demand.received(option).items()
                amounts = ((self._slot((option.target, key)), amount) for key, amount in received)
                options.append((self._target(demand, option), tuple(sorted(amounts))))
        owner = (demand.consumer, demand.source) if name in self._parts else None
        return DemandKind(tuple(options), owner)

    def _why_not(self, name: str, option: Destination) -> str | None:
        """Why a request does not fit on a target; empty if it does, None if nothing is offered."""
        demand = self.demands[name]
        received = demand.received(option)
        if not all((option.target, key) in self._rooms for key in received):
            return None
        for key, amount in sorted(received.items()):
            room = self._rooms[option.target, key]
            offered = room.inventory
            if amount > room.free:
                return f"has room for {room.free} {key}"
            if name in self._parts:
                suits = amount + room.present.get(demand.consumer, 0) <= offered.max_unit
            else:
                suits = offered.suits_units(amount)
            if not suits:
                return (
                    f"takes {key} with min_unit {offered.min_unit}, max_unit {offered.max_unit},"
                    f" step_size {offered.step_size}"
                )
        return ""


def _sort_key(demand: Demand) -> tuple[object, ...]:
    return demand.consumer, demand.source, sorted(demand.resources), demand.possible


def _answer(
    requests: _Requests, strategy: Strategy | None, budget: SearchBudget, names: Mapping[str, str]
) -> Answer:
    placement = None
    if not requests.unplaceable:
        placement = _Packing(requests, budget).place(strategy)
    if placement is None:
        return _impossible(requests, budget, names)
    undecided = set(requests.consumers) - _unique(requests, placement, budget)
    if undecided and strategy is None:
        return Undecided(tuple(sorted(undecided)))
    return Assigned(requests.targets(placement), frozenset(undecided))


class _Packing:
    """Places all requests on few targets, as far as that leaves room for the rest."""

    def __init__(self, requests: _Requests, budget: SearchBudget) -> None:
        self._requests, self._problem, self._budget = requests, requests.problem, budget
        self._solution: placing.Placement = {}
        self._proofs = MAX_PROOFS

    def place(self, strategy: Strategy | None) -> placing.Placement | None:
        """A placement of all requests; None if it is proved that there is none."""
        solution = placing.place(self._problem, self._budget)
        if solution is None or strategy is None:
            return solution
        self._solution = solution
        self._limit_targets()
        return self._packed()

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

    def _options(self, name: str) -> Sequence[placing.Option]:
        return self._problem.options[self._requests.kinds[name]]

    def _extend(self, placed: placing.Placement) -> placing.Occupancy:
        """Place the requests after ``placed`` until one does not fit; without looking ahead."""
        occupancy = placing.Occupancy(self._problem, placed)
        for name in self._problem.large_first[len(placed) :]:
            kind = self._requests.kinds[name]
            options = self._options(name)
            best = next((option for option in options if occupancy.fits(kind, option)), None)
            if best is None:
                break
            occupancy.put(name, best)
        return occupancy

    def _packed(self) -> placing.Placement:
        """The first of all placements: large amounts first, on targets in the given order.

        Where that takes too many proofs, the remaining requests are placed in any way that fits.
        """
        start: placing.Placement | None = {}
        while start is not None:
            occupancy = self._extend(start)
            if occupancy.is_complete:
                return occupancy.placed
            start = self._correct(start, occupancy.placed)
        return self._solution

    def _correct(self, good: placing.Placement, bad: placing.Placement) -> placing.Placement | None:
        """The longest beginning of ``bad`` that can be completed, and one request placed otherwise.

        None if the allowed proofs do not find it.
        """
        low, high = len(good), len(bad)
        while high - low > 1:
            middle = (low + high) // 2
            if self._can_complete(_first(bad, middle)):
                low = middle
            else:
                high = middle
        start, name = _first(bad, low), self._problem.large_first[low]
        occupancy = placing.Occupancy(self._problem, start)
        others = (
            {**start, name: option}
            for option in self._options(name)
            if option != bad.get(name) and occupancy.fits(self._requests.kinds[name], option)
        )
        return next(filter(self._can_complete, others), None)

    def _can_complete(self, part: placing.Placement) -> bool:
        """Whether the others fit beside these; uses a proof only if they do not just fit."""
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


def _unique(
    requests: _Requests, placement: placing.Placement, budget: SearchBudget
) -> frozenset[str]:
    """The consumers whose requests all have one possible target; ``placement`` is any solution."""
    problem = requests.problem
    counts = _counts(requests, placement)
    movable = {kind for kind, targets in counts.items() if not kind.owner and len(targets) > 1}
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
                moved = _counts(requests, other)
                movable |= {kind for kind in counts if moved[kind] != counts[kind]}
    return frozenset(
        consumer
        for consumer, names in requests.consumers.items()
        if not any(requests.kinds[name] in movable for name in names)
    )


def _counts(
    requests: _Requests, placement: placing.Placement
) -> Mapping[DemandKind, collections.Counter[str]]:
    """The number of requests of each kind on each target."""
    counts: dict[DemandKind, collections.Counter[str]] = {}
    for name, option in placement.items():
        counts.setdefault(requests.kinds[name], collections.Counter())[option.root_uuid] += 1
    return counts


def _impossible(requests: _Requests, budget: SearchBudget, names: Mapping[str, str]) -> Impossible:
    """A set of consumers without which all others fit; consumers with small amounts are kept.

    The set is minimal unless it exceeds MAX_RETRIED or a proof takes too many steps.
    """
    left_over = _left_over(requests, budget)
    reasons = [
        *(requests.why_nowhere(name, names) for name in requests.unplaceable),
        *([_why_not_together(requests.problem)] if left_over else []),
    ]
    consumers = {*(requests.demands[name].consumer for name in requests.unplaceable), *left_over}
    return Impossible(tuple(sorted(consumers)), tuple(dict.fromkeys(reasons)))


def _left_over(requests: _Requests, budget: SearchBudget) -> Collection[str]:
    def fit(consumers: Iterable[str]) -> bool:
        return placing.place(requests.of(consumers), budget, effort=EFFORT) is not None

    sizes = _sizes(requests)
    small_first = sorted(requests.consumers, key=lambda name: (sizes[name], name))
    kept = _kept(requests, small_first)
    if not fit(kept):
        kept = []
    left = [name for name in small_first if name not in set(kept)]
    for name in left[:MAX_RETRIED]:
        if fit([*kept, name]):
            kept = [*kept, name]
    return [name for name in left if name not in set(kept)]


def _sizes(requests: _Requests) -> Mapping[str, float]:
    """The share of the free amounts that each consumer needs, the largest of its classes."""
    free = requests.problem.free
    room = {
        name: sum(free[slot] for slot in slots) or 1
        for name, slots in requests.problem.slots.items()
    }
    return {
        consumer: max(
            amount / room[resource_class]
            for name in names
            for resource_class, amount in requests.problem.amounts_of(requests.kinds[name]).items()
        )
        for consumer, names in requests.consumers.items()
    }


def _kept(requests: _Requests, order: Sequence[str]) -> list[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: placing.Placement = {}
    kept = []
    for consumer in order:
        names = requests.consumers[consumer]
        more = placing.first_fit(requests.problem, placed, names).placed
        if len(more) == len(placed) + len(names):
            placed = more
            kept.append(consumer)
    return kept


def _why_not_together(problem: placing.Problem) -> str:
    if problem.lacking is None:
        return "no distribution among the targets fits"
    name, needed, room = problem.lacking
    return f"{needed} {name} are to be placed, and there is room for {room}"
