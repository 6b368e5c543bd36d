# SPDX-License-Identifier: Apache-2.0
"""Which option each request of a reshape gets, or why there is none. Pure and deterministic.

``place_requests`` assigns requests that cannot compete for a slot separately, with ``assign``. This
places them with ``search.placing``, where each provider is a tree. The strategy ``pack`` finds the
smallest number of providers. Then ``assign`` finds the consumers that have a choice, or those that
do not fit, with the reasons::

    providers a and b with 4 VGPU free each; consumers c0 to c3 with 1, 1, 2 and 2 VGPU
    no strategy: Undecided, because each consumer fits on a and on b
    pack:        large amounts first: c2 and c3 on a, c0 and c1 on b
    a consumer c4 with 3 VGPU more: Impossible, 9 VGPU are to be placed, and there is room for 8
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Literal

from osc_placement.engine.candidates.budget import SearchBudget, SearchTooLong
from osc_placement.search import placing
from osc_placement.search.placing import Option, Slot
from osc_placement.workflows.reshape.requests import ConsumerRequest, OfferedSlot

LOG = logging.getLogger(__name__)

#: How to choose where capacity leaves a choice.
#:
#: ``pack``: use as few providers as possible, in the given order, large amounts first. It is a
#: preference: it yields where it would leave an amount unplaced.
Strategy = Literal["pack"]

#: The effort that is spent on a mere preference: providers of all steps.
EFFORT = 50_000

#: The number of consumers that are tried a second time after they did not fit.
MAX_RETRIED = 16

#: The default time limit in seconds.
TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class AssignOptions:
    """The strategy where evidence leaves a choice, and the time limit in seconds."""

    strategy: Strategy | None = None
    timeout: float = TIMEOUT


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A request and its option; ``guess`` is the strategy where only that decided."""

    request: ConsumerRequest
    option: Option
    guess: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Assigned:
    """The option of each request, in their order.

    ``guessed`` are the consumers for which the strategy chose.
    """

    options: tuple[Option, ...]
    guessed: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """These consumers (sorted) have several options, and no strategy is set."""

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


def place_requests(
    requests: Sequence[ConsumerRequest],
    offered: Mapping[Slot, OfferedSlot],
    options: AssignOptions,
    names: Mapping[str, str],
) -> tuple[list[Placed], list[str]]:
    """The option of each request, and why requests cannot be placed; ``names`` of providers."""
    end = time.monotonic() + options.timeout
    placed: list[Placed] = []
    reasons: list[str] = []
    for group in placing.separate(requests, ConsumerRequest.slots):
        LOG.debug("assigning %d allocations", len(group))
        seconds = max(end - time.monotonic(), 0.1)
        answer = assign(group, offered, options.strategy, seconds, names)
        if isinstance(answer, Assigned):
            for request, option in zip(group, answer.options, strict=True):
                is_guess = request.consumer in answer.guessed and request.assigned is None
                placed.append(Placed(request, option, str(options.strategy) if is_guess else ""))
        else:
            classes = ", ".join(sorted({name for request in group for name in request.resources}))
            sources = sorted({names[request.source] for request in group})
            what = f"the {classes} of {', '.join(sources)}"
            reasons.append(_explain(answer, what, options))
    return placed, reasons


def moved_amounts(placed: Iterable[Placed]) -> dict[str, collections.Counter[Slot]]:
    """``{consumer: {slot: how much more it has after the moves}}``; a negative amount is less."""
    moved: dict[str, collections.Counter[Slot]] = {}
    for item in placed:
        request = item.request
        amounts = moved.setdefault(request.consumer, collections.Counter())
        amounts.subtract({(request.source, name): n for name, n in request.resources.items()})
        amounts.update(item.option.amounts)
    return moved


def _explain(answer: Undecided | Impossible | GaveUp, what: str, options: AssignOptions) -> str:
    """Why the requests of a group are not placed."""
    if isinstance(answer, Undecided):
        return (
            f"{what} has several options for these consumers: assign them, or"
            f" choose a --strategy: {', '.join(answer.consumers)}"
        )
    if isinstance(answer, Impossible):
        reasons = "; ".join(answer.reasons)
        return (
            f"{what} cannot be placed: {reasons}; these consumers do not fit:"
            f" {', '.join(answer.consumers)}"
        )
    return (
        f"gave up the search for options for {what} after {options.timeout:g} seconds, without"
        " a solution or a proof that there is none; assign some consumers"
    )


def assign(
    requests: Sequence[ConsumerRequest],
    offered: Mapping[Slot, OfferedSlot],
    strategy: Strategy | None = None,
    seconds: float = 60.0,
    names: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Find the option of each request, or prove that there is none.

    The order of ``offered`` matters to ``pack``; that of ``requests`` and of other mappings does
    not. Only GaveUp depends on the machine: it is the answer after ``seconds`` by ``clock``.
    Time: requests times options without proofs. Proofs are exponential at worst; 12 consumers on 4
    providers take about a second.
    """
    search = _Search(requests, offered, names or {})
    budget = SearchBudget(seconds, clock=clock)
    try:
        placement = None if search.nowhere else _place(search.problem, strategy, budget)
        if placement is None:
            return _impossible(search, budget)
        undecided = set(search.consumers) - _unique(search, placement, budget)
    except SearchTooLong:
        return GaveUp(seconds)
    if undecided and strategy is None:
        return Undecided(tuple(sorted(undecided)))
    return Assigned(search.chosen(placement), frozenset(undecided))


class _Search:
    """The requests as a problem of ``search.placing``. One that fits nowhere alone is left out.

    The names of the requests are their positions, in the order of consumers, sources and classes.
    Classes of which one becomes the other count as one class; then a slot of the problem is
    ``("<provider> <class>", <their common name>)``.
    """

    def __init__(
        self,
        requests: Sequence[ConsumerRequest],
        offered: Mapping[Slot, OfferedSlot],
        names: Mapping[str, str],
    ) -> None:
        self._offered, self._names = offered, names
        self._order = {slot: at for at, slot in enumerate(offered)}
        self._class_of = _changing_classes(requests)
        positions = sorted(range(len(requests)), key=lambda at: _sort_key(requests[at]))
        self.requests = {str(at): requests[at] for at in positions}
        self._sums = self._parts_of_sums()
        self._usable = {
            name: [option for option in self._options(name) if not self._why_not(name, option)]
            for name in self.requests
        }
        self.nowhere = [name for name, options in self._usable.items() if not options]
        lost = {self.requests[name].consumer for name in self.nowhere}
        #: ``{consumer: its requests}``, consumers sorted
        self.consumers: dict[str, list[str]] = {}
        for name, request in self.requests.items():
            if request.consumer not in lost:
                self.consumers.setdefault(request.consumer, []).append(name)
        self.problem = self._problem()

    def of(self, consumers: Collection[str]) -> placing.Problem:
        """The problem of these consumers alone."""
        kept = {
            name: key
            for name, key in self.problem.requests.items()
            if self.requests[name].consumer in consumers
        }
        return dataclasses.replace(self.problem, requests=kept)

    def chosen(self, placement: placing.Placement) -> tuple[Option, ...]:
        """The option of each request, in the order in which the requests were given."""
        problem = self.problem
        by_position = {
            int(name): self._usable[name][problem.options[problem.requests[name]].index(option)]
            for name, option in placement.items()
        }
        return tuple(option for _, option in sorted(by_position.items()))

    def why_nowhere(self, name: str) -> str:
        """Why a request fits on no provider."""
        request = self.requests[name]
        amounts = ", ".join(f"{amount} {key}" for key, amount in sorted(request.resources.items()))
        source = self._name_of(request.source)
        if request.assigned is not None:
            source += f", assigned to {self._name_of(request.assigned.root_uuid)},"
        reasons = "; ".join(
            f"{self._name_of(option.root_uuid)} {self._why_not(name, option)}"
            for option in self._options(name)
        )
        return f"{request.consumer}: {amounts} from {source} fits nowhere: {reasons}"

    def _problem(self) -> placing.Problem:
        requests: dict[str, Hashable] = {}
        options: dict[Hashable, Sequence[Option]] = {}
        free: dict[Slot, int] = {}
        owners: dict[Hashable, str] = {}
        sums: dict[tuple[Hashable, Slot], placing.SumRule] = {}
        for consumer, name in ((c, name) for c, names in self.consumers.items() for name in names):
            owner = (consumer, self.requests[name].source) if name in self._sums else None
            ways = []
            for option in self._usable[name]:
                amounts = {self._slot(slot): amount for slot, amount in option.amounts.items()}
                ways.append(Option(option.root_uuid, amounts))
                for slot in option.amounts:
                    free[self._slot(slot)] = self._offered[slot].free
                    if owner:
                        sums[consumer, self._slot(slot)] = self._offered[slot].sum_rule(consumer)
            key = (owner, *(tuple(sorted(way.amounts.items())) for way in ways))
            requests[name] = key
            options.setdefault(key, ways)
            if owner:
                owners[key] = consumer
        return placing.Problem(requests, options, free, owners, sums)

    def _slot(self, slot: Slot) -> Slot:
        uuid, name = slot
        return f"{uuid} {name}", self._class_of.get(name, name)

    def _name_of(self, uuid: str) -> str:
        return self._names.get(uuid, uuid)

    def _options(self, name: str) -> list[Option]:
        """The possible options of a request, in the order of the slots."""

        def rank(option: Option) -> tuple[object, ...]:
            slots = sorted(option.amounts)
            return min(self._order.get(slot, len(self._order)) for slot in slots), slots

        return sorted(self.requests[name].possible, key=rank)

    def _parts_of_sums(self) -> set[str]:
        """The requests whose consumer may have more of the same class on a provider.

        There min_unit, max_unit and step_size apply to the sum.
        """
        slots = {name: request.slots() for name, request in self.requests.items()}
        numbers = collections.Counter(
            (self.requests[name].consumer, slot) for name in slots for slot in slots[name]
        )
        for slot, offered in self._offered.items():
            numbers.update(
                (consumer, slot) for consumer, amount in offered.present.items() if amount
            )
        return {
            name
            for name in slots
            if any(numbers[self.requests[name].consumer, slot] > 1 for slot in slots[name])
        }

    def _why_not(self, name: str, option: Option) -> str:
        """Why a request does not fit with an option; empty if it does."""
        for slot, amount in sorted(option.amounts.items()):
            offered, resource_class = self._offered.get(slot), slot[1]
            if offered is None:
                return f"has no {resource_class}"
            if amount > offered.free:
                return f"has room for {offered.free} {resource_class}"
            units, suits = offered.inventory, offered.inventory.suits_units(amount)
            if name in self._sums:
                present = offered.present.get(self.requests[name].consumer, 0)
                suits = amount + present <= units.max_unit
            if not suits:
                return (
                    f"takes {resource_class} with min_unit {units.min_unit}, max_unit"
                    f" {units.max_unit}, step_size {units.step_size}"
                )
        return ""


def _sort_key(request: ConsumerRequest) -> tuple[object, ...]:
    options = [sorted(option.amounts.items()) for option in request.possible]
    return request.consumer, request.source, sorted(request.resources), options


def _changing_classes(requests: Iterable[ConsumerRequest]) -> dict[str, str]:
    """``{class: a common name}`` of the classes of which an option has another amount."""
    changing = []
    for request in requests:
        totals = [sorted(placing.totals(option).items()) for option in request.options]
        pairs = {pair for total in totals for pair in total}
        if names := {
            name for name, amount in pairs if any((name, amount) not in t for t in totals)
        }:
            changing.append(sorted(names))
    groups = placing.separate(changing, tuple)
    return {name: group[0][0] for group in groups for names in group for name in names}


def _place(
    problem: placing.Problem, strategy: Strategy | None, budget: SearchBudget
) -> placing.Placement | None:
    """A placement of all requests; None if it is proved that there is none."""
    placement = placing.place(problem, budget)
    if placement is None or strategy is None:
        return placement
    used = len({option.root_uuid for option in placement.values()})
    for number in range(_fewest_providers(problem), used):
        limited = dataclasses.replace(problem, most_trees=number)
        if packed := placing.place(limited, budget, effort=EFFORT):
            return packed
    return placement


def _fewest_providers(problem: placing.Problem) -> int:
    """The number of providers that are needed if each class takes those with the most free."""
    fewest = 1
    for name, needed in problem.needed.items():
        free: collections.Counter[str] = collections.Counter()
        for slot in problem.slots[name]:
            free[slot[0].partition(" ")[0]] += problem.free[slot]
        largest_first = itertools.accumulate(sorted(free.values(), reverse=True))
        fewest = max(fewest, 1 + sum(total < needed for total in largest_first))
    return fewest


def _unique(search: _Search, placement: placing.Placement, budget: SearchBudget) -> frozenset[str]:
    """The consumers whose requests all have one possible option; ``placement`` is any solution."""
    problem = search.problem
    counts = _counts(problem, placement)
    movable = {
        key for key, number in counts.items() if key not in problem.owners and len(number) > 1
    }
    for key in counts:
        names, options = problem.alike[key], problem.options[key]
        for option in options if len(options) > 1 else ():
            if key in movable:
                break
            number = counts[key][id(option)]
            more = dict.fromkeys(names[: number + 1], option)
            if len(more) == number:
                continue
            if other := placing.place(problem, budget, more):
                moved = _counts(problem, other)
                movable |= {key for key in counts if moved[key] != counts[key]}
    return frozenset(
        consumer
        for consumer, names in search.consumers.items()
        if not any(problem.requests[name] in movable for name in names)
    )


def _counts(
    problem: placing.Problem, placement: placing.Placement
) -> Mapping[Hashable, collections.Counter[int]]:
    """The number of equal requests with each option."""
    counts: dict[Hashable, collections.Counter[int]] = {}
    for name, option in placement.items():
        counts.setdefault(problem.requests[name], collections.Counter())[id(option)] += 1
    return counts


def _impossible(search: _Search, budget: SearchBudget) -> Impossible:
    """A set of consumers without which all others fit; consumers with small amounts are kept.

    The set is minimal unless it exceeds MAX_RETRIED or a proof takes too many steps.
    """
    left_over = _left_over(search, budget)
    reasons = [search.why_nowhere(name) for name in search.nowhere]
    if left_over:
        reasons.append(_why_not_together(search.problem))
    consumers = {*(search.requests[name].consumer for name in search.nowhere), *left_over}
    return Impossible(tuple(sorted(consumers)), tuple(dict.fromkeys(reasons)))


def _left_over(search: _Search, budget: SearchBudget) -> Collection[str]:
    def fit(consumers: Collection[str]) -> bool:
        return placing.place(search.of(consumers), budget, effort=EFFORT) is not None

    large_first = [search.requests[name].consumer for name in search.problem.large_first]
    small_first = [*reversed(dict.fromkeys(large_first))]
    kept = _kept(search, small_first)
    if not fit(kept):
        kept = set()
    left = [name for name in small_first if name not in kept]
    for name in left[:MAX_RETRIED]:
        if fit(kept | {name}):
            kept.add(name)
    return [name for name in left if name not in kept]


def _kept(search: _Search, order: Sequence[str]) -> set[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: placing.Placement = {}
    kept = set()
    for consumer in order:
        names = search.consumers[consumer]
        more = placing.first_fit(search.problem, placed, names).placed
        if len(more) == len(placed) + len(names):
            placed = more
            kept.add(consumer)
    return kept


def _why_not_together(problem: placing.Problem) -> str:
    if problem.lacking is None:
        return "no distribution among the options fits"
    name, needed, usable = problem.lacking
    return f"{needed} {name} are to be placed, and there is room for {usable}"
