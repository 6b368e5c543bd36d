"""Placing items on targets, one after the other by preference; and the search that proves.

The search goes depth first over the items. Four rules keep it small. Items of the same kind take
ascending targets; of several equal targets only one is tried; a state that failed is remembered,
whichever of the equal targets has which item; and a state is left as soon as the free amounts that
sums of the remaining amounts can fill are too small for the rest.

``solve_preferred`` gives the first of all placements in the order of the preferences. Where that
takes too many proofs, the remaining items are placed in any way that fits.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Hashable, Iterator, Sequence

from osc_placement.workflows.reshape.assignment import demand

#: The effort that is spent on a mere preference: targets of all steps. It is not a time, so that
#: the answer does not depend on the machine.
EFFORT = 50_000

#: Free amounts up to this size are compared with the sums that can fill them.
_MAX_EXACT = 1 << 16


class OutOfTime(Exception):
    """The time limit is reached."""


class Deadline:
    """A point in time, ``seconds`` after its creation."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def check(self) -> None:
        """Raise OutOfTime once the deadline has passed."""
        if self._clock() >= self._end:
            raise OutOfTime


def complete(
    problem: demand.Problem,
    fixed: demand.Placement,
    until: Deadline,
    effort: int = 0,
) -> demand.Placement | None:
    """A placement of all items that contains ``fixed``.

    None if there is none, or if an ``effort`` (0: no limit) does not suffice. Raises OutOfTime.
    """
    search = _Search(problem, fixed)
    return search.run(until, effort) if search.is_valid else None


class _Search:
    def __init__(self, problem: demand.Problem, fixed: demand.Placement) -> None:
        self._problem, self._fixed = problem, fixed
        self._occupancy = demand.Occupancy(problem)
        self._path: list[int] = []
        self._failed: set[Hashable] = set()
        rest = [index for index in problem.large_first if index not in fixed]
        self._order = sorted(rest, key=self._owners_first)
        self.is_valid = self._put_fixed()
        classes = self._constant_parts()
        self._equal = [classes.index(each) for each in classes]
        self._needed, self._sums = self._remainders()

    def run(self, until: Deadline, effort: int) -> demand.Placement | None:
        steps = [self._step()]
        spent = 0
        while steps:
            until.check()
            spent += len(self._equal)
            if effort and spent > effort:
                return None
            if len(self._path) == len(self._order) and self._occupancy.suits_units():
                return {**self._fixed, **dict(zip(self._order, self._path, strict=True))}
            state, choices = steps[-1]
            target = next(choices, None)
            if target is not None:
                self._occupancy.put(self._next, target)
                self._path.append(target)
                steps.append(self._step())
                continue
            steps.pop()
            self._failed.add(state)
            if self._path:
                target = self._path.pop()
                self._occupancy.take(self._next, target)
        return None

    def _owners_first(self, index: int) -> tuple[bool, tuple[str, ...]]:
        """The items of a consumer whose sum counts come together, so that a bad sum shows early."""
        owner = self._problem.items[index].kind.owner
        return owner is None, owner or ()

    def _put_fixed(self) -> bool:
        """Place the fixed items. False if they do not fit."""
        items = self._problem.items
        for index, target in self._fixed.items():
            if not self._occupancy.fits(items[index], target):
                return False
            self._occupancy.put(items[index], target)
        complete = {items[each].consumer for each in self._fixed}
        complete -= {items[each].consumer for each in self._order}
        return all(map(self._occupancy.suits_units, complete))

    def _constant_parts(self) -> list[Hashable]:
        """What tells targets apart apart from their free amounts."""
        items = [self._problem.items[index] for index in self._order]
        kinds = dict.fromkeys(item.kind for item in items)
        shared = {(item.consumer, name) for item in items if item.shares for name in item.classes}
        return [
            (
                *(at in kind.options for kind in kinds),
                *(target.held_by(*each) + self._occupancy.sums[*each, at] for each in shared),
                *(_units(target, name) for _, name in shared),
            )
            for at, target in enumerate(self._problem.targets)
        ]

    def _remainders(self) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
        """For the items from each position on: amounts per class, and their possible sums.

        The bits of an integer are the sums: bit 6 is set if some of the amounts have the sum 6.
        """
        largest = max((max(left.values(), default=0) for left in self._occupancy.left), default=0)
        mask = (2 << largest) - 1 if largest < _MAX_EXACT else 0
        needed: list[dict[str, int]] = [dict.fromkeys(self._problem.totals, 0)]
        sums = [dict.fromkeys(self._problem.totals, 1)]
        for index in reversed(self._order):
            needed.append(dict(needed[-1]))
            sums.append(dict(sums[-1]))
            for name, amount in self._problem.items[index].resources:
                needed[-1][name] += amount
                sums[-1][name] |= sums[-1][name] << amount & mask
        return needed[::-1], sums[::-1] if mask else []

    @property
    def _next(self) -> demand.Item:
        return self._problem.items[self._order[len(self._path)]]

    def _step(self) -> tuple[Hashable, Iterator[int]]:
        """The state, and the targets to try, the fullest first: it keeps large gaps free."""
        if len(self._path) == len(self._order) or not self._could_fit() or not self._sums_suit():
            return (), iter(())
        state = self._state()
        if state in self._failed:
            return state, iter(())
        item, lowest = self._next, self._lowest()
        distinct = {
            self._state_of(target): target
            for target in reversed(item.options)
            if target >= lowest and self._occupancy.fits(item, target)
        }
        name = item.resources[0][0]
        left = self._occupancy.left
        return state, iter(sorted(distinct.values(), key=lambda target: left[target][name]))

    def _lowest(self) -> int:
        """The lowest target for the next item that keeps its kind in ascending order."""
        at = len(self._path)
        items = self._problem.items
        if at and items[self._order[at - 1]].kind == self._next.kind:
            return self._path[-1]
        return 0

    def _sums_suit(self) -> bool:
        """Whether the sums of the consumer before, whose items are all placed, suit the units."""
        at = len(self._path)
        before = self._problem.items[self._order[at - 1]] if at else self._next
        return (
            not before.shares
            or (self._next.shares and before.consumer == self._next.consumer)
            or self._occupancy.suits_units(before.consumer)
        )

    def _state(self) -> Hashable:
        """A key that does not change when equal targets exchange their items."""
        lowest = self._lowest()
        states = [(at >= lowest, *self._state_of(at)) for at in range(len(self._equal))]
        return len(self._path), tuple(sorted(states))

    def _state_of(self, target: int) -> tuple[object, ...]:
        item, occupancy = self._next, self._occupancy
        limited = self._problem.max_targets is not None
        return (
            self._equal[target],
            limited and occupancy.items_on[target] > 0,
            *occupancy.left[target].values(),
            *(
                occupancy.sums[item.consumer, name, target]
                for name in (self._problem.totals if item.shares else ())
            ),
        )

    def _could_fit(self) -> bool:
        """Whether each class has enough free amounts that can be filled."""
        at, limit = len(self._path), self._problem.max_targets
        used = set(self._occupancy.used_targets) if limit is not None else set()
        for name, needed in self._needed[at].items():
            fillable = [
                (target in used, self._fillable(name, left[name]))
                for target, left in enumerate(self._occupancy.left)
            ]
            best = sorted(fillable, reverse=True)[:limit]
            if sum(amount for _, amount in best) < needed:
                return False
        return True

    def _fillable(self, resource_class: str, free: int) -> int:
        """The largest sum of remaining amounts that a free amount can take."""
        if not self._sums:
            return free
        return (self._sums[len(self._path)][resource_class] & (2 << free) - 1).bit_length() - 1


def _units(target: demand.Target, resource_class: str) -> tuple[int, ...]:
    offered = target.inventories.get(resource_class)
    return (offered.min_unit, offered.max_unit, offered.step_size) if offered else ()


#: The number of proofs that one strategy may use.
MAX_PROOFS = 12

#: The targets that an item may use, the best first.
Preference = Callable[[demand.Occupancy, demand.Item], Sequence[int]]


def extend(
    problem: demand.Problem,
    order: Sequence[int],
    prefer: Preference,
    placed: demand.Placement | None = None,
) -> dict[int, int]:
    """Place the items after ``placed`` until one does not fit; without looking ahead."""
    occupancy = demand.Occupancy(problem, placed)
    found = dict(placed or {})
    for index in order[len(found) :]:
        item = problem.items[index]
        best = next((each for each in prefer(occupancy, item) if occupancy.fits(item, each)), None)
        if best is None:
            break
        occupancy.put(item, best)
        found[index] = best
    return found


def as_given(_: demand.Occupancy, item: demand.Item) -> Sequence[int]:
    """The targets in the given order."""
    return item.options


def is_complete(problem: demand.Problem, placed: demand.Placement) -> bool:
    """Whether all items are placed, and the sums suit the units."""
    return len(placed) == len(problem.items) and demand.Occupancy(problem, placed).suits_units()


def solve(problem: demand.Problem, until: Deadline, effort: int = 0) -> demand.Placement | None:
    """Any placement of all items; None as ``exhaustive.complete``. Raises OutOfTime."""
    if problem.exceeds_free:
        return None
    placed = extend(problem, problem.large_first, as_given)
    if is_complete(problem, placed):
        return placed
    return complete(problem, {}, until, effort)


def solve_preferred(
    problem: demand.Problem,
    order: Sequence[int],
    prefer: Preference,
    known: demand.Placement,
    until: Deadline,
) -> demand.Placement:
    """Place all items as preferred; ``known`` is any solution. Raises OutOfTime."""
    search = _Preferred(problem, known, until)
    start: dict[int, int] | None = {}
    while start is not None:
        placed = extend(problem, order, prefer, start)
        if is_complete(problem, placed):
            return placed
        start = search.correct(start, placed, order, prefer)
    return search.known


class _Preferred:
    """Finds the beginnings that can be completed, and keeps the last solution it saw."""

    def __init__(
        self,
        problem: demand.Problem,
        known: demand.Placement,
        until: Deadline,
    ) -> None:
        self.known = known
        self._problem, self._until = problem, until
        self._proofs = MAX_PROOFS

    def correct(
        self, good: dict[int, int], bad: dict[int, int], order: Sequence[int], prefer: Preference
    ) -> dict[int, int] | None:
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
        start = _first(bad, low)
        index = order[low]
        item = self._problem.items[index]
        occupancy = demand.Occupancy(self._problem, start)
        others = (
            start | {index: target}
            for target in prefer(occupancy, item)
            if target != bad.get(index) and occupancy.fits(item, target)
        )
        return next(filter(self._can_complete, others), None)

    def _can_complete(self, part: dict[int, int]) -> bool:
        """Whether the other items fit beside these; uses a proof only if they do not just fit."""
        rest = [index for index in self._problem.large_first if index not in part]
        found: demand.Placement | None
        found = extend(self._problem, [*part, *rest], as_given, part)
        if not is_complete(self._problem, found):
            self._proofs -= 1
            found = None
            if self._proofs >= 0:
                found = complete(self._problem, part, self._until, EFFORT)
        if found:
            self.known = found
        return bool(found)


def _first(placed: dict[int, int], number: int) -> dict[int, int]:
    return dict(itertools.islice(placed.items(), number))
