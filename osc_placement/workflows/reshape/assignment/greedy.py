"""Placing items one after the other, each on the target that is preferred.

The result is the first of all placements in the order of the preferences. Where that takes too
many proofs, the remaining items are placed in any way that fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from osc_placement.workflows.reshape.assignment import exhaustive, item as assignment_item

#: The number of proofs that one strategy may use.
MAX_PROOFS = 12

#: The targets that an item may use, the best first.
Preference = Callable[[assignment_item.Occupancy, assignment_item.Item], Sequence[int]]


def extend(
    problem: assignment_item.Problem,
    order: Sequence[int],
    prefer: Preference,
    placed: assignment_item.Placement | None = None,
) -> dict[int, int]:
    """Place the items after ``placed`` until one does not fit; without looking ahead."""
    occupancy = assignment_item.Occupancy(problem, placed)
    found = dict(placed or {})
    for index in order[len(found) :]:
        item = problem.items[index]
        best = next((each for each in prefer(occupancy, item) if occupancy.fits(item, each)), None)
        if best is None:
            break
        occupancy.put(item, best)
        found[index] = best
    return found


def as_given(_: assignment_item.Occupancy, item: assignment_item.Item) -> Sequence[int]:
    """The targets in the given order."""
    return item.options


def is_complete(problem: assignment_item.Problem, placed: assignment_item.Placement) -> bool:
    """Whether all items are placed, and the sums suit the units."""
    return (
        len(placed) == len(problem.items)
        and assignment_item.Occupancy(problem, placed).suits_units()
    )


def solve(
    problem: assignment_item.Problem, until: exhaustive.Deadline, effort: int = 0
) -> assignment_item.Placement | None:
    """Any placement of all items; None as ``exhaustive.complete``. Raises OutOfTime."""
    if problem.exceeds_free:
        return None
    placed = extend(problem, problem.large_first, as_given)
    if is_complete(problem, placed):
        return placed
    return exhaustive.complete(problem, {}, until, effort)


def solve_preferred(
    problem: assignment_item.Problem,
    order: Sequence[int],
    prefer: Preference,
    known: assignment_item.Placement,
    until: exhaustive.Deadline,
) -> assignment_item.Placement:
    """Place all items as preferred; ``known`` is any solution. Raises OutOfTime."""
    search = _Search(problem, known, until)
    start: dict[int, int] | None = {}
    while start is not None:
        placed = extend(problem, order, prefer, start)
        if is_complete(problem, placed):
            return placed
        start = search.correct(start, placed, order, prefer)
    return search.known


class _Search:
    """Finds the beginnings that can be completed, and keeps the last solution it saw."""

    def __init__(
        self,
        problem: assignment_item.Problem,
        known: assignment_item.Placement,
        until: exhaustive.Deadline,
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
        occupancy = assignment_item.Occupancy(self._problem, start)
        others = (
            start | {index: target}
            for target in prefer(occupancy, item)
            if target != bad.get(index) and occupancy.fits(item, target)
        )
        return next(filter(self._can_complete, others), None)

    def _can_complete(self, part: dict[int, int]) -> bool:
        """Whether the other items fit beside these; uses a proof only if they do not just fit."""
        rest = [index for index in self._problem.large_first if index not in part]
        found: assignment_item.Placement | None
        found = extend(self._problem, [*part, *rest], as_given, part)
        if not is_complete(self._problem, found):
            self._proofs -= 1
            found = None
            if self._proofs >= 0:
                found = exhaustive.complete(self._problem, part, self._until, exhaustive.EFFORT)
        if found:
            self.known = found
        return bool(found)


def _first(placed: dict[int, int], number: int) -> dict[int, int]:
    return dict(itertools.islice(placed.items(), number))
