# SPDX-License-Identifier: Apache-2.0
"""Which target each amount of a reshape goes to, or why there is none. Pure and deterministic.

``assign`` places the amounts with ``search.placing``, where each target is a tree.
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
from osc_placement.search import placing
from osc_placement.search.placing import Slot

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


class MoveOption(NamedTuple):
    """A way to serve a request: a provider, and the new classes of its resources in order."""

    provider: str
    classes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """Amounts of one consumer on one source that move or stay together: ``{class: amount}``.

    All are positive. An amount is never split, because Placement never serves a class of one
    request group from two providers. ``assigned`` is set where evidence decides.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    options: tuple[MoveOption, ...]
    assigned: MoveOption | None = None

    @property
    def possible(self) -> tuple[MoveOption, ...]:
        """The options that evidence leaves."""
        return self.options if self.assigned is None else (self.assigned,)

    @property
    def slots(self) -> set[Slot]:
        """The slots that it may get an amount of."""
        return {(option.provider, name) for option in self.options for name in option.classes}

    def received(self, option: MoveOption) -> dict[str, int]:
        """``{class: amount}`` on the target."""
        amounts: dict[str, int] = {}
        for name, amount in zip(option.classes, self.resources.values(), strict=True):
            amounts[name] = amounts.get(name, 0) + amount
        return amounts


@dataclasses.dataclass(frozen=True, slots=True)
class OfferedSlot:
    """A slot that can receive amounts: its inventory after the reshape, and what stays there.

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
    """The target of each request, in their order.

    ``guessed`` are the consumers for which the strategy chose.
    """

    targets: tuple[MoveOption, ...]
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
    requests: Sequence[ConsumerRequest],
    offered_slots: Mapping[Slot, OfferedSlot],
    strategy: Strategy | None = None,
    seconds: float = 60.0,
    names: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Find the target of each request, or prove that there is none.

    The order of ``offered_slots`` matters to ``pack``; that of ``requests`` and of other mappings
    does not. ``names`` of providers are for messages. Only GaveUp depends on the machine: it is the
    answer after ``seconds`` by ``clock``.
    Time: requests times targets without proofs. Proofs are exponential at worst; 12 consumers on 4
    targets take about a second.
    """
    search = _Search(requests, offered_slots)
    try:
        return _answer(search, strategy, SearchBudget(seconds, clock=clock), names or {})
    except SearchTooLong:
        return GaveUp(seconds)


class RequestKind(NamedTuple):
    """Requests of the same kind are interchangeable. ``owner`` is set where the consumer matters.

    An option is a target with its amounts.
    """

    options: tuple[tuple[str, tuple[tuple[placing.Slot, int], ...]], ...]
    owner: tuple[str, str] | None


class _Search:
    """The requests for ``search.placing``. One that fits on no target alone fits nowhere.

    The names of the requests are numbers in the order of consumers, sources and classes. A class
    that becomes another counts as the same class. Where it can become several classes on one
    provider, the provider is several targets: ``<uuid> <classes>``.
    """

    def __init__(
        self, requests: Sequence[ConsumerRequest], offered_slots: Mapping[Slot, OfferedSlot]
    ) -> None:
        changes = sorted(
            {
                (option.provider, *classes)
                for request in requests
                for option in request.options
                for classes in zip(request.resources, option.classes, strict=True)
            }
        )
        groups = placing.separate(changes, lambda change: change[1:])
        self._alike = {name: group[0][1] for group in groups for _, *both in group for name in both}
        numbers = collections.Counter((target, name) for target, name, _ in changes)
        self._several = {slot for slot, number in numbers.items() if number > 1}
        self._offered_slots = {
            slot: offered for slot, offered in offered_slots.items() if slot[1] in self._alike
        }
        self.offered_slots = {
            self._in_tree(slot): offered for slot, offered in self._offered_slots.items()
        }
        self.positions = self._positions(requests)
        self._order = sorted(range(len(requests)), key=lambda at: _sort_key(requests[at]))
        self.requests = {str(at): requests[index] for at, index in enumerate(self._order)}
        self._parts = self._parts_of_sums()
        self.kinds = {name: self._kind(name) for name in self.requests}
        self.unplaceable = [name for name, kind in self.kinds.items() if not kind.options]
        lost = {self.requests[name].consumer for name in self.unplaceable}
        #: ``{consumer: its requests}``, consumers sorted
        self.consumers: dict[str, list[str]] = {}
        for name, request in self.requests.items():
            if request.consumer not in lost:
                self.consumers.setdefault(request.consumer, []).append(name)
        options: dict[Hashable, list[placing.Option]] = {}
        free: dict[placing.Slot, int] = {}
        owners: dict[Hashable, str] = {}
        sums: dict[tuple[Hashable, placing.Slot], placing.SumRule] = {}
        for kind in self.kinds.values():
            options[kind] = [placing.Option(root, dict(amounts)) for root, amounts in kind.options]
            if kind.owner:
                owners[kind] = kind.owner[0]
            for slot in (slot for _, amounts in kind.options for slot, _ in amounts):
                free[slot] = self.offered_slots[slot].free
                if kind.owner:
                    sums[kind.owner[0], slot] = self.offered_slots[slot].sum_rule(kind.owner[0])
        self.problem = placing.Problem(self.kinds, options, free, owners, sums)
        if self.unplaceable:
            self.problem = self.of(self.consumers)

    def of(self, consumers: Iterable[str]) -> placing.Problem:
        """The problem of these consumers alone."""
        names = [name for consumer in consumers for name in self.consumers[consumer]]
        requests = {name: self.kinds[name] for name in sorted(names, key=int)}
        return dataclasses.replace(self.problem, requests=requests)

    def targets(self, placement: placing.Placement) -> tuple[MoveOption, ...]:
        """The target of each request, in the order in which the requests were given."""
        chosen = {}
        for index, (name, request) in zip(self._order, self.requests.items(), strict=True):
            root = placement[name].root_uuid
            options = (one for one in request.possible if self._target(request, one) == root)
            chosen[index] = next(options)
        return tuple(target for _, target in sorted(chosen.items()))

    def why_nowhere(self, name: str, called: Mapping[str, str]) -> str:
        """Why a request fits on no target; ``called`` are the names of providers."""
        request = self.requests[name]
        amounts = ", ".join(f"{amount} {key}" for key, amount in sorted(request.resources.items()))
        source = called.get(request.source, request.source)
        if request.assigned is not None:
            target = request.assigned.provider
            source += f", assigned to {called.get(target, target)},"
        start = f"{request.consumer}: {amounts} from {source} fits nowhere"
        texts = (
            (called.get(option.provider, option.provider), self._why_not(name, option))
            for option in self._in_order(request)
        )
        reasons = "; ".join(f"{target} {text}" for target, text in texts if text)
        return f"{start}: {reasons}" if reasons else f"{start}: no move has a target for it"

    def _in_tree(self, slot: Slot) -> placing.Slot:
        target, name = slot
        return f"{target} {name}", self._alike[name]

    def _positions(self, requests: Sequence[ConsumerRequest]) -> dict[str, int]:
        """``{target: its position}`` in the order of the slots."""
        order = {slot: at for at, slot in enumerate(self._offered_slots)}
        ranks: dict[str, int] = {}
        for request in requests:
            for option in request.options:
                slots = ((option.provider, name) for name in option.classes)
                rank = min(order.get(slot, len(order)) for slot in slots)
                target = self._target(request, option)
                ranks[target] = min(rank, ranks.get(target, rank))
        in_order = sorted((rank, target) for target, rank in ranks.items())
        return {target: at for at, (_, target) in enumerate(in_order)}

    def _parts_of_sums(self) -> set[str]:
        """The requests whose consumer may have more of the same class on a target.

        There min_unit, max_unit and step_size apply to the sum.
        """
        numbers = collections.Counter(
            (request.consumer, slot) for request in self.requests.values() for slot in request.slots
        )
        present = {
            (consumer, slot)
            for slot, offered in self._offered_slots.items()
            for consumer, amount in offered.present.items()
            if amount
        }
        return {
            name
            for name, request in self.requests.items()
            for slot in request.slots
            if numbers[request.consumer, slot] > 1 or (request.consumer, slot) in present
        }

    def _target(self, request: ConsumerRequest, option: MoveOption) -> str:
        changed = [
            there
            for name, there in zip(request.resources, option.classes, strict=True)
            if (option.provider, name) in self._several
        ]
        return f"{option.provider} {','.join(changed)}".rstrip()

    def _in_order(self, request: ConsumerRequest) -> list[MoveOption]:
        """The possible targets of a request, in the order of the targets."""
        return sorted(
            request.possible, key=lambda option: self.positions[self._target(request, option)]
        )

    def _kind(self, name: str) -> RequestKind:
        request = self.requests[name]
        options = []
        for option in self._in_order(request):
            if self._why_not(name, option) == "":
                received = request.received(option).items()
                amounts = (
                    (self._in_tree((option.provider, key)), amount) for key, amount in received
                )
                options.append((self._target(request, option), tuple(sorted(amounts))))
        owner = (request.consumer, request.source) if name in self._parts else None
        return RequestKind(tuple(options), owner)

    def _why_not(self, name: str, option: MoveOption) -> str | None:
        """Why a request does not fit on a target; empty if it does, None if nothing is offered."""
        request = self.requests[name]
        received = request.received(option)
        if not all((option.provider, key) in self._offered_slots for key in received):
            return None
        for key, amount in sorted(received.items()):
            offered = self._offered_slots[option.provider, key]
            units = offered.inventory
            if amount > offered.free:
                return f"has room for {offered.free} {key}"
            if name in self._parts:
                suits = amount + offered.present.get(request.consumer, 0) <= units.max_unit
            else:
                suits = units.suits_units(amount)
            if not suits:
                return (
                    f"takes {key} with min_unit {units.min_unit}, max_unit {units.max_unit},"
                    f" step_size {units.step_size}"
                )
        return ""


def _sort_key(request: ConsumerRequest) -> tuple[object, ...]:
    return request.consumer, request.source, sorted(request.resources), request.possible


def _answer(
    search: _Search, strategy: Strategy | None, budget: SearchBudget, names: Mapping[str, str]
) -> Answer:
    placement = None
    if not search.unplaceable:
        placement = _Packing(search, budget).place(strategy)
    if placement is None:
        return _impossible(search, budget, names)
    undecided = set(search.consumers) - _unique(search, placement, budget)
    if undecided and strategy is None:
        return Undecided(tuple(sorted(undecided)))
    return Assigned(search.targets(placement), frozenset(undecided))


class _Packing:
    """Places all requests on few targets, as far as that leaves room for the rest."""

    def __init__(self, search: _Search, budget: SearchBudget) -> None:
        self._search, self._problem, self._budget = search, search.problem, budget
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
        return self._problem.options[self._search.kinds[name]]

    def _extend(self, placed: placing.Placement) -> placing.Occupancy:
        """Place the requests after ``placed`` until one does not fit; without looking ahead."""
        occupancy = placing.Occupancy(self._problem, placed)
        for name in self._problem.large_first[len(placed) :]:
            kind = self._search.kinds[name]
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
            if option != bad.get(name) and occupancy.fits(self._search.kinds[name], option)
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


def _unique(search: _Search, placement: placing.Placement, budget: SearchBudget) -> frozenset[str]:
    """The consumers whose requests all have one possible target; ``placement`` is any solution."""
    problem = search.problem
    counts = _counts(search, placement)
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
                moved = _counts(search, other)
                movable |= {kind for kind in counts if moved[kind] != counts[kind]}
    return frozenset(
        consumer
        for consumer, names in search.consumers.items()
        if not any(search.kinds[name] in movable for name in names)
    )


def _counts(
    search: _Search, placement: placing.Placement
) -> Mapping[RequestKind, collections.Counter[str]]:
    """The number of requests of each kind on each target."""
    counts: dict[RequestKind, collections.Counter[str]] = {}
    for name, option in placement.items():
        counts.setdefault(search.kinds[name], collections.Counter())[option.root_uuid] += 1
    return counts


def _impossible(search: _Search, budget: SearchBudget, names: Mapping[str, str]) -> Impossible:
    """A set of consumers without which all others fit; consumers with small amounts are kept.

    The set is minimal unless it exceeds MAX_RETRIED or a proof takes too many steps.
    """
    left_over = _left_over(search, budget)
    reasons = [
        *(search.why_nowhere(name, names) for name in search.unplaceable),
        *([_why_not_together(search.problem)] if left_over else []),
    ]
    consumers = {*(search.requests[name].consumer for name in search.unplaceable), *left_over}
    return Impossible(tuple(sorted(consumers)), tuple(dict.fromkeys(reasons)))


def _left_over(search: _Search, budget: SearchBudget) -> Collection[str]:
    def fit(consumers: Iterable[str]) -> bool:
        return placing.place(search.of(consumers), budget, effort=EFFORT) is not None

    sizes = _sizes(search)
    small_first = sorted(search.consumers, key=lambda name: (sizes[name], name))
    kept = _kept(search, small_first)
    if not fit(kept):
        kept = []
    left = [name for name in small_first if name not in set(kept)]
    for name in left[:MAX_RETRIED]:
        if fit([*kept, name]):
            kept = [*kept, name]
    return [name for name in left if name not in set(kept)]


def _sizes(search: _Search) -> Mapping[str, float]:
    """The share of the free amounts that each consumer needs, the largest of its classes."""
    free = search.problem.free
    room = {
        name: sum(free[slot] for slot in slots) or 1 for name, slots in search.problem.slots.items()
    }
    return {
        consumer: max(
            amount / room[resource_class]
            for name in names
            for resource_class, amount in search.problem.amounts_of(search.kinds[name]).items()
        )
        for consumer, names in search.consumers.items()
    }


def _kept(search: _Search, order: Sequence[str]) -> list[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: placing.Placement = {}
    kept = []
    for consumer in order:
        names = search.consumers[consumer]
        more = placing.first_fit(search.problem, placed, names).placed
        if len(more) == len(placed) + len(names):
            placed = more
            kept.append(consumer)
    return kept


def _why_not_together(problem: placing.Problem) -> str:
    if problem.lacking is None:
        return "no distribution among the targets fits"
    name, needed, room = problem.lacking
    return f"{needed} {name} are to be placed, and there is room for {room}"
