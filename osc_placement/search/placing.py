# SPDX-License-Identifier: Apache-2.0
"""An option for each of several requests, so that all fit together; or a proof that there is none.

A request has options. Each takes amounts from some providers of one tree, and one is chosen.
``most`` counts how often one request fits. ``first_fit`` places requests one after the other.
``place`` finds an option for all of them, or proves that they do not fit::

    hosts a and b with 4 VCPU free each; requests of 3, 3 and 2 VCPU
    first_fit: 3 on a, 3 on b, 2 fits nowhere
    place: 8 VCPU are needed, and sums of 3, 3 and 2 fill at most 3 of each host: None

    hosts a and b with 8 VCPU free each; requests of 5, 4, 3, 2 and 2 VCPU
    first_fit: 5 and 3 on a, 4, 2 and 2 on b

The search goes depth first over the requests. Three rules keep it small. Of equal trees only one is
tried. A state that failed is remembered, whichever of the equal trees has which request. And a
state is left as soon as the free amounts that sums of the other requests can fill are too small.
Pure.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from osc_placement.engine.candidates.budget import SearchBudget

T = TypeVar("T")

#: ``(provider uuid, resource class)``
Slot = tuple[str, str]

#: ``{slot: amount}``
Amounts = Mapping[Slot, int]

#: Options that ``most`` checks in a part of the cloud before it gives a bound.
EFFORT = 200_000

#: Options of a part of the cloud up to which ``most`` searches.
_MOST_OPTIONS = 200

#: Bits of all sets of sums that a search compares free amounts with.
_MOST_BITS = 1 << 28


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One way to serve a request, with resources of the tree ``root_uuid`` or shared with it.

    ``is_of_host``: that tree serves the request. Otherwise sharing providers serve it alone, and
    ``root_uuid`` is the tree of one of them.
    """

    root_uuid: str
    amounts: Amounts
    is_of_host: bool = True

    def fits(self, left: Amounts) -> bool:
        """Whether the amounts are free."""
        return all(amount <= left[slot] for slot, amount in self.amounts.items())

    def repeats(self, left: Amounts) -> int:
        """How often the option fits."""
        return min(max(left[slot], 0) // amount for slot, amount in self.amounts.items())


#: ``{request: its option}``
Placement = Mapping[str, Option]


class SumRule(NamedTuple):
    """What the sum of one owner's amounts in a slot must suit: the units of an inventory.

    ``present`` is what the owner has there already.
    """

    present: int
    min_unit: int
    max_unit: int
    step_size: int

    def suits(self, amount: int) -> bool:
        """Whether the owner may have this amount more."""
        total = self.present + amount
        return self.min_unit <= total <= self.max_unit and total % self.step_size == 0


@dataclasses.dataclass(frozen=True)
class Problem:
    """``requests`` is ``{name: request}``. Equal requests have the same ``options``.

    ``first_fit`` takes the options of a request in their order. ``free`` has all their slots.
    ``owners`` is ``{request: owner}`` for requests whose amounts in one slot count together, under
    the rule ``sums[owner, slot]``. The placement uses at most ``most_trees`` trees; None sets no
    limit.
    """

    requests: Mapping[str, Hashable]
    options: Mapping[Hashable, Sequence[Option]]
    free: Amounts
    owners: Mapping[Hashable, Hashable] = dataclasses.field(default_factory=dict)
    sums: Mapping[tuple[Hashable, Slot], SumRule] = dataclasses.field(default_factory=dict)
    most_trees: int | None = None

    @functools.cached_property
    def alike(self) -> Mapping[Hashable, Sequence[str]]:
        """``{request: the names of all that are equal}``"""
        names: dict[Hashable, list[str]] = {}
        for name, request in self.requests.items():
            names.setdefault(request, []).append(name)
        return names

    @functools.cached_property
    def large_first(self) -> Sequence[str]:
        """The requests; those come first that need the largest share of a class.

        Those with few options come before others with the same share.
        """
        largest: dict[str, int] = {}
        for (_, name), amount in self.free.items():
            largest[name] = max(largest.get(name, 1), amount)
        ranks: dict[Hashable, tuple[float, int]] = {}
        for request in self.alike:
            amounts = self.amounts_of(request)
            share = max((amount / largest[name] for name, amount in amounts.items()), default=0.0)
            ranks[request] = (-share, len(self.options[request]))
        return sorted(self.requests, key=lambda name: ranks[self.requests[name]])

    @functools.cached_property
    def needed(self) -> Mapping[str, int]:
        """``{resource class: what all requests need}``, classes sorted."""
        total: collections.Counter[str] = collections.Counter()
        for request, names in self.alike.items():
            for name, amount in self.amounts_of(request).items():
                total[name] += amount * len(names)
        return dict(sorted(total.items()))

    @functools.cached_property
    def slots(self) -> Mapping[str, Sequence[Slot]]:
        """``{resource class: the slots that some option of a request uses}``"""
        by_class: dict[str, list[Slot]] = {name: [] for name in self.needed}
        for slot in sorted(
            slots_of(option for kind in self.alike for option in self.options[kind])
        ):
            by_class.setdefault(slot[1], []).append(slot)
        return by_class

    def amounts_of(self, request: Hashable) -> Mapping[str, int]:
        """``{resource class: amount}`` that a request needs at least; empty if it has no option."""
        return least_totals(self.options[request])

    def owner(self, name: str) -> Hashable:
        """The owner of a request; None if its amounts count alone."""
        return self.owners.get(self.requests[name])

    @functools.cached_property
    def lacking(self) -> tuple[str, int, int] | None:
        """A class whose sum cannot fit: ``(class, what is needed, what can be used)``."""
        unit_of = units(option.amounts for kind in self.alike for option in self.options[kind])
        for name, needed in self.needed.items():
            unit = unit_of[name]
            usable = sum(max(self.free[slot], 0) // unit * unit for slot in self.slots[name])
            if needed > usable:
                return name, needed, usable
        return None

    @functools.cached_property
    def too_many_alike(self) -> tuple[int, int] | None:
        """Equal requests that cannot fit alone: ``(their number, how many may fit)``."""
        for request, names in self.alike.items():
            options = [option for option in self.options[request] if option.fits(self.free)]
            fitting = len(options)
            if len(names) > 1:
                fitting = most(options, self.free, effort=0).most
            if len(names) > fitting:
                return len(names), fitting
        return None

    @property
    def cannot_fit(self) -> bool:
        """Whether the amounts alone prove it: a cheap test that decides most cases."""
        return self.lacking is not None or self.too_many_alike is not None


class Occupancy:
    """What is free while requests are placed one by one. ``placed`` is in the order of placing."""

    def __init__(self, problem: Problem, placed: Placement | None = None) -> None:
        self.left = dict(problem.free)
        self.placed: dict[str, Option] = {}
        #: ``{tree: the number of its requests}``, without 0.
        self.trees: dict[str, int] = {}
        self.sums: collections.Counter[tuple[Hashable, Slot]] = collections.Counter()
        self._problem = problem
        for name, option in (placed or {}).items():
            self.put(name, option)

    def fits(self, request: Hashable, option: Option) -> bool:
        """Whether a request fits now; the sum of its owner may still be too small."""
        if not option.fits(self.left):
            return False
        limit = self._problem.most_trees
        if limit is not None and option.root_uuid not in self.trees and len(self.trees) >= limit:
            return False
        owner = self._problem.owners.get(request)
        if owner is None:
            return True
        for slot, amount in option.amounts.items():
            rule = self._problem.sums[owner, slot]
            if rule.present + self.sums[owner, slot] + amount > rule.max_unit:
                return False
        return True

    def put(self, name: str, option: Option) -> None:
        self.placed[name] = option
        self._count(name, option, 1)

    def remove_last(self) -> None:
        name, option = self.placed.popitem()
        self._count(name, option, -1)

    def _count(self, name: str, option: Option, sign: int) -> None:
        number = self.trees.get(option.root_uuid, 0) + sign
        self.trees[option.root_uuid] = number
        if not number:
            del self.trees[option.root_uuid]
        owner = self._problem.owner(name)
        for slot, amount in option.amounts.items():
            self.left[slot] -= sign * amount
            if owner is not None:
                self.sums[owner, slot] += sign * amount

    def suits_units(self, only: Hashable = None) -> bool:
        """Whether the sums of all owners, or of one, suit the units."""
        return all(
            self._problem.sums[owner, slot].suits(amount)
            for (owner, slot), amount in self.sums.items()
            if amount and only in (None, owner)
        )

    @property
    def is_complete(self) -> bool:
        """Whether all requests are placed, and the sums suit the units."""
        return len(self.placed) == len(self._problem.requests) and self.suits_units()


def fullest_first(options: Iterable[Option], free: Amounts) -> list[Option]:
    """The options that fit seldom come first: it keeps large gaps free."""
    return sorted(options, key=lambda option: option.repeats(free))


def first_fit(
    problem: Problem, placed: Placement | None = None, order: Iterable[str] | None = None
) -> Occupancy:
    """Beside ``placed``, the requests that fit one after the other, each with the first option.

    ``order`` None begins with the large requests.
    """
    occupancy = Occupancy(problem, placed)
    rest = {request: iter(problem.options[request]) for request in problem.alike}
    current = {request: next(options, None) for request, options in rest.items()}
    for name in problem.large_first if order is None else order:
        if name in occupancy.placed:
            continue
        request = problem.requests[name]
        # An option that does not fit now does not fit later: amounts only decrease.
        while (option := current[request]) is not None and not occupancy.fits(request, option):
            current[request] = next(rest[request], None)
        if option is not None:
            occupancy.put(name, option)
    return occupancy


def place(
    problem: Problem, budget: SearchBudget, fixed: Placement | None = None, effort: int = 0
) -> Placement | None:
    """An option for each request; None if it is proved that none exists.

    The result contains ``fixed``. With an ``effort`` (trees of all steps; 0: no limit), None may
    also mean that the effort did not suffice: unlike the time, it does not depend on the machine.
    Raises the errors of ``budget``.
    """
    fixed = fixed or {}
    if not _can_begin(problem, fixed):
        return None
    occupancy = first_fit(problem, fixed)
    if occupancy.is_complete:
        return occupancy.placed
    if problem.cannot_fit:
        return None
    budget.check()
    return _Search(problem, fixed, budget).run(effort)


def _can_begin(problem: Problem, fixed: Placement) -> bool:
    """Whether the fixed requests fit, and the sums of the owners without any other suit."""
    occupancy = Occupancy(problem)
    for name, option in fixed.items():
        if not occupancy.fits(problem.requests[name], option):
            return False
        occupancy.put(name, option)
    owners = {problem.owner(name) for name in fixed}
    owners -= {None, *(problem.owner(name) for name in problem.requests if name not in fixed)}
    return all(map(occupancy.suits_units, owners))


class _Search:
    """The search for requests in a fixed order, beside the fixed ones."""

    def __init__(self, problem: Problem, fixed: Placement, budget: SearchBudget) -> None:
        self._problem, self._budget = problem, budget
        self._occupancy = Occupancy(problem, fixed)
        self._order = self._owners_first(fixed)
        self._fixed = len(fixed)
        self._trees = _Trees(problem, self._order, self._occupancy)
        self._failed: set[Hashable] = set()
        self._needed, self._sums = self._remainders()

    def run(self, effort: int) -> Placement | None:
        steps = [self._step()]
        spent = 0
        while steps:
            self._budget.step()
            spent += len(self._trees)
            if effort and spent > effort:
                return None
            if self._at == len(self._order) and self._occupancy.suits_units():
                return self._occupancy.placed
            state, choices = steps[-1]
            option = next(choices, None)
            if option is not None:
                self._occupancy.put(self._order[self._at], option)
                steps.append(self._step())
                continue
            steps.pop()
            self._failed.add(state)
            if steps:
                self._occupancy.remove_last()
        return None

    @property
    def _at(self) -> int:
        """The position of the next request."""
        return len(self._occupancy.placed) - self._fixed

    def _owners_first(self, fixed: Placement) -> list[str]:
        """The requests of an owner come together, so that a bad sum shows early."""
        ranks: dict[Hashable, int] = {}
        for owner in map(self._problem.owner, self._problem.large_first):
            if owner is not None:
                ranks.setdefault(owner, len(ranks))
        rest = [name for name in self._problem.large_first if name not in fixed]
        return sorted(rest, key=lambda name: ranks.get(self._problem.owner(name), len(ranks)))

    def _remainders(self) -> tuple[list[Mapping[str, int]], dict[str, list[int]]]:
        """What the requests from each position on need, per class, and their possible sums.

        The bits of an integer are sums: bit 6 is set if some of the amounts have the sum 6. Classes
        with large amounts have no sums.
        """
        problem, left = self._problem, self._occupancy.left
        needed: list[Mapping[str, int]] = [{}]
        for name in reversed(self._order):
            more = collections.Counter(needed[-1])
            more.update(problem.amounts_of(problem.requests[name]))
            needed.append(more)
        amounts: dict[tuple[Hashable, str], set[int]] = {}
        for request in problem.alike:
            for option in problem.options[request]:
                for (_, name), amount in option.amounts.items():
                    amounts.setdefault((request, name), set()).add(amount)
        sums: dict[str, list[int]] = {}
        for name, slots in problem.slots.items():
            largest = max((left[slot] for slot in slots), default=0)
            if 0 < largest * len(self._order) <= _MOST_BITS:
                mask = (2 << largest) - 1
                possible = [1]
                for item in reversed(self._order):
                    before = after = possible[-1]
                    for amount in amounts.get((problem.requests[item], name), ()):
                        after |= before << amount & mask
                    possible.append(after)
                sums[name] = possible[::-1]
        return needed[::-1], sums

    def _step(self) -> tuple[Hashable, Iterator[Option]]:
        """The state, and the options to try for the next request."""
        at = self._at
        if at == len(self._order) or not self._sums_suit(at) or not self._could_fit(at):
            return (), iter(())
        name = self._order[at]
        owner = self._problem.owner(name)
        state = (at, self._trees.state(owner))
        if state in self._failed:
            return state, iter(())
        distinct: dict[Hashable, Option] = {}
        request = self._problem.requests[name]
        for option in self._problem.options[request]:
            self._budget.step()
            if self._occupancy.fits(request, option):
                distinct.setdefault(self._trees.key(request, option, owner), option)
        return state, iter(fullest_first(distinct.values(), self._occupancy.left))

    def _sums_suit(self, at: int) -> bool:
        """Whether the sums of the owner before, whose requests are all placed, suit the units."""
        before = self._problem.owner(self._order[at - 1]) if at else None
        if before in (None, self._problem.owner(self._order[at])):
            return True
        return self._occupancy.suits_units(before)

    def _could_fit(self, at: int) -> bool:
        """Whether each class has enough free amounts that can be filled."""
        left, used, limit = self._occupancy.left, self._occupancy.trees, self._problem.most_trees
        for name, needed in self._needed[at].items():
            possible = self._sums[name][at] if name in self._sums else 0
            usable = 0
            by_tree: dict[str, int] = {}
            for slot in self._problem.slots[name]:
                free = left[slot]
                if free <= 0:
                    continue
                # The largest sum of the other amounts that fits into what is free.
                free = (possible & (2 << free) - 1).bit_length() - 1 if possible else free
                root = self._trees.root_of.get(slot, "")
                if limit is None or not root:
                    usable += free
                else:
                    by_tree[root] = by_tree.get(root, 0) + free
            best = sorted(((root in used, free) for root, free in by_tree.items()), reverse=True)
            if usable + sum(free for _, free in best[:limit]) < needed:
                return False
        return True


class _Trees:
    """Which trees are interchangeable: equal options of every request, equal amounts left."""

    def __init__(self, problem: Problem, order: Sequence[str], occupancy: Occupancy) -> None:
        self._occupancy, self._start = occupancy, dict(occupancy.left)
        self._limited = problem.most_trees is not None
        alike = dict.fromkeys(problem.requests[name] for name in order)
        users: dict[Slot, set[str]] = {}
        for request in alike:
            for option in problem.options[request]:
                for slot in option.amounts:
                    users.setdefault(slot, set()).add(option.root_uuid)
        #: ``{slot: the only tree that uses it}``
        self.root_of = {slot: next(iter(roots)) for slot, roots in users.items() if len(roots) == 1}
        self._shared = [slot for slot, roots in users.items() if len(roots) > 1]
        self._slots: dict[str, dict[Slot, int]] = {}
        self._positions: dict[tuple[Hashable, int], int] = {}
        self._fixed = dict(occupancy.trees)
        forms: dict[str, list[Hashable]] = {}
        counts: collections.Counter[tuple[Hashable, str]] = collections.Counter()
        for request in alike:
            owner = problem.owners.get(request)
            for option in problem.options[request]:
                root = option.root_uuid
                slots = self._slots.setdefault(root, {})
                form: list[Hashable] = []
                for slot, amount in option.amounts.items():
                    if slot in self.root_of:
                        slots.setdefault(slot, len(slots))
                    rule = problem.sums[owner, slot] if owner is not None else None
                    form.append((slots.get(slot, slot), amount, rule, occupancy.sums[owner, slot]))
                default = self._limited and root in occupancy.trees
                forms.setdefault(root, [default]).append((request, *form))
                self._positions[request, id(option)] = counts[request, root]
                counts[request, root] += 1
        numbers: dict[Hashable, int] = {}
        self._forms = {
            root: numbers.setdefault(tuple(form), len(numbers)) for root, form in forms.items()
        }

    def __len__(self) -> int:
        return len(self._forms)

    def key(self, request: Hashable, option: Option, owner: Hashable) -> Hashable:
        """Equal for options whose choice has the same effect."""
        root = option.root_uuid
        used = self._limited and root in self._occupancy.trees
        return self._forms[root], self._positions[request, id(option)], used, self._now(root, owner)

    def state(self, owner: Hashable) -> Hashable:
        """The trees in use, apart from their names, and what is left of shared slots."""
        left = self._occupancy.left
        changed = sorted(
            (
                self._forms[root],
                tuple(self._start[slot] for slot in self._slots[root]),
                self._now(root, owner),
            )
            for root, number in self._occupancy.trees.items()
            if root in self._forms and number != self._fixed.get(root)
        )
        return tuple(changed), tuple(left[slot] for slot in self._shared)

    def _now(self, root: str, owner: Hashable) -> tuple[int, ...]:
        """What is left in a tree, and what the owner of the next request gets there."""
        slots = self._slots[root]
        now = tuple(self._occupancy.left[slot] for slot in slots)
        if owner is None:
            return now
        return (*now, *(self._occupancy.sums[owner, slot] for slot in slots))


@dataclasses.dataclass(frozen=True, slots=True)
class FitCount:
    """How many requests fit: at least ``least``, at most ``most``.

    ``chosen`` are the options of ``least`` requests, each with its number.
    """

    least: int
    most: int
    chosen: Sequence[tuple[Option, int]] = ()

    @property
    def is_exact(self) -> bool:
        """Whether both bounds are equal."""
        return self.least == self.most


def most(options: Iterable[Option], free: Amounts, effort: int = EFFORT) -> FitCount:
    """How often a request fits, if each time one of its options is chosen.

    The answer is exact for options of separate providers. Options that compete for a provider are
    searched until ``effort``; then the answer is a bound.
    """
    least, upper = 0, 0
    chosen: list[tuple[Option, int]] = []
    for part in separate(options, lambda option: option.amounts):
        if len(part) == 1:
            # A host without nested or shared resources: most parts of most clouds.
            number = part[0].repeats(free)
            least, upper = least + number, upper + number
            chosen += [(part[0], number)] if number else []
            continue
        count = _Part(part, free, effort).count()
        least, upper = least + count.least, upper + count.most
        chosen += count.chosen
    return FitCount(least, upper, tuple(chosen))


def separate(items: Iterable[T], keys: Callable[[T], Iterable[Hashable]]) -> list[list[T]]:
    """The items in parts that have no key in common; parts and items stay in their order.

    Each item has a key.
    """
    parent: dict[Hashable, Hashable] = {}

    def find(key: Hashable) -> Hashable:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    keyed = []
    for item in items:
        first, *others = keys(item)
        keyed.append((first, item))
        parent.setdefault(first, first)
        for key in others:
            parent.setdefault(key, key)
            parent[find(key)] = find(first)
    parts: dict[Hashable, list[T]] = {}
    for first, item in keyed:
        parts.setdefault(find(first), []).append(item)
    return list(parts.values())


class _Part:
    """Options that compete for providers. Branch and bound over how often each is chosen."""

    def __init__(self, options: Sequence[Option], free: Amounts, effort: int) -> None:
        self._left = {slot: free[slot] for slot in slots_of(options)}
        # Options that need the smallest share of what is free leave the most for the others. The
        # order of the options must not matter.
        self._options = sorted(
            options, key=lambda option: (self._share(option), sorted(option.amounts.items()))
        )
        self._totals = least_totals(self._options)
        self._units = units(option.amounts for option in options)
        self._effort = effort
        self._numbers = [0] * len(options)
        self._best: tuple[int, ...] = ()

    def _share(self, option: Option) -> float:
        return sum(amount / max(self._left[slot], 1) for slot, amount in option.amounts.items())

    def count(self) -> FitCount:
        upper = self._bound(0)
        self._take_all()
        if sum(self._best) < upper and len(self._options) <= _MOST_OPTIONS:
            self._fill(0, upper)
            if self._effort > 0:
                upper = sum(self._best)
        pairs = zip(self._options, self._best, strict=True)
        return FitCount(sum(self._best), upper, tuple((option, n) for option, n in pairs if n))

    def _take_all(self) -> None:
        """Each option as often as it fits after the ones before."""
        for at, option in enumerate(self._options):
            self._use(at, option.repeats(self._left))
        self._best = tuple(self._numbers)
        for at, number in enumerate(self._best):
            self._use(at, -number)

    def _fill(self, index: int, enough: int) -> None:
        """Choose how often to use the options from ``index`` on, and keep the best choice."""
        done = sum(self._numbers[:index])
        if index == len(self._options):
            if done > sum(self._best):
                self._best = tuple(self._numbers)
            return
        self._effort -= len(self._options) - index
        for number in range(self._options[index].repeats(self._left), -1, -1):
            if self._effort <= 0 or sum(self._best) >= enough:
                return
            self._use(index, number)
            if done + number + self._bound(index + 1) > sum(self._best):
                self._fill(index + 1, enough)
            self._use(index, -number)

    def _use(self, index: int, number: int) -> None:
        self._numbers[index] += number
        for slot, amount in self._options[index].amounts.items():
            self._left[slot] -= number * amount

    def _bound(self, index: int) -> int:
        """The most that may fit with the options from ``index`` on."""
        options = self._options[index:]
        alone = sum(option.repeats(self._left) for option in options)
        usable = dict.fromkeys(self._totals, 0)
        for slot in slots_of(options):
            if slot[1] in usable:
                unit = self._units[slot[1]]
                usable[slot[1]] += max(self._left[slot], 0) // unit * unit
        return min(
            alone, *(usable[name] // amount for name, amount in self._totals.items() if amount)
        )


def totals(option: Option) -> dict[str, int]:
    """``{resource class: amount}`` of an option."""
    total: dict[str, int] = {}
    for (_, name), amount in option.amounts.items():
        total[name] = total.get(name, 0) + amount
    return total


def least_totals(options: Sequence[Option]) -> dict[str, int]:
    """What each of the options takes at least: of the classes that all of them take.

    The options of a request differ only if nova asks for it twice: with PCPU and with VCPU.
    """
    if not options:
        return {}
    least = totals(options[0])
    for option in options[1:]:
        other = totals(option)
        least = {name: min(amount, other[name]) for name, amount in least.items() if name in other}
    return least


def units(requests: Iterable[Amounts]) -> dict[str, int]:
    """``{resource class: the greatest common divisor of its amounts}``.

    What is free beyond a multiple of it cannot be used.
    """
    divisors: dict[str, int] = {}
    for amounts in requests:
        for (_, name), amount in amounts.items():
            divisors[name] = math.gcd(divisors.get(name, 0), amount)
    return divisors


def slots_of(options: Iterable[Option]) -> Collection[Slot]:
    """All slots that some option uses."""
    return {slot for option in options for slot in option.amounts}
