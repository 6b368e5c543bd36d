"""Placing lots one after the other, each where it is liked best.

What is found is by definition the first of all assignments in the order of the
preferences, not what a solver happens to find; but where preferring takes too many
questions, the rest is placed as it fits.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from osc_placement.workflows.reshape.assignment import exhaustive, item as assignment_item

if TYPE_CHECKING:
    from osc_placement.workflows.reshape.assignment import solver

#: So often a strategy asks the solver before it takes what fits.
MOST_QUESTIONS = 12

#: The targets that a lot could go to, the best first.
Preference = Callable[[assignment_item.Occupancy, assignment_item.Item], Sequence[int]]


def greedily(
    problem: assignment_item.Problem,
    order: Sequence[int],
    prefer: Preference,
    done: assignment_item.Placement | None = None,
) -> dict[int, int]:
    """Go on from ``done`` until all are placed, or one has no place; never looks ahead."""
    load = assignment_item.Occupancy(problem, done)
    placed = dict(done or {})
    for index in order[len(placed) :]:
        item = problem.lots[index]
        best = next((each for each in prefer(load, item) if load.has_place(item, each)), None)
        if best is None:
            break
        load.put(item, best)
        placed[index] = best
    return placed


def as_given(_: assignment_item.Occupancy, item: assignment_item.Item) -> Sequence[int]:
    """The targets in the order given."""
    return item.options


def large_first(problem: assignment_item.Problem) -> Sequence[int]:
    """Large is what takes much of the largest room of its class; few options first."""
    largest = {name: max(total.rooms, default=0) for name, total in problem.totals.items()}

    def size(index: int) -> tuple[float, int, int]:
        item = problem.lots[index]
        share = max(amount / (largest[name] or 1) for name, amount in item.resources)
        return -share, len(item.options), index

    return sorted(range(len(problem.lots)), key=size)


def is_whole(problem: assignment_item.Problem, placed: assignment_item.Placement) -> bool:
    """Whether everything has a place, and sums keep to the units."""
    return (
        len(placed) == len(problem.lots)
        and assignment_item.Occupancy(problem, placed).suits_units()
    )


def solve(
    problem: assignment_item.Problem, prove: exhaustive.Proof, effort: int = 0
) -> assignment_item.Placement | None:
    """Any way to place all, None when there is none or ``effort`` (0: any) did not suffice.

    Raises OutOfTime.
    """
    if problem.asks_too_much:
        return None
    placed = greedily(problem, large_first(problem), as_given)
    return placed if is_whole(problem, placed) else prove.of(problem).complete({}, effort)


def completely(
    problem: assignment_item.Problem,
    order: Sequence[int],
    prefer: Preference,
    known: assignment_item.Placement,
    prove: exhaustive.Proof,
) -> assignment_item.Placement:
    """Place all. ``known`` is any solution, for what is left when preferring took too long.

    Raises OutOfTime.
    """
    search = _Search(problem, known, prove)
    done: dict[int, int] | None = {}
    while done is not None:
        placed = greedily(problem, order, prefer, done)
        if is_whole(problem, placed):
            return placed
        done = search.corrected(done, placed, order, prefer)
    return search.known


class _Search:
    """Which beginnings can be completed; keeps a solution that has the longest of them."""

    def __init__(
        self,
        problem: assignment_item.Problem,
        known: assignment_item.Placement,
        prove: exhaustive.Proof,
    ) -> None:
        self.known = known
        self._problem = problem
        self._prove = prove
        self._large_first = large_first(problem)
        self._questions = MOST_QUESTIONS

    def corrected(
        self,
        good: dict[int, int],
        bad: dict[int, int],
        order: Sequence[int],
        prefer: Preference,
    ) -> dict[int, int] | None:
        """The longest good beginning of ``bad``, and one lot more that is placed otherwise.

        None when that was not found out.
        """
        low, high = len(good), len(bad)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._goes_on(_first(bad, middle)) else (low, middle)
        done = _first(bad, low)
        index = order[low]
        item = self._problem.lots[index]
        load = assignment_item.Occupancy(self._problem, done)
        others = (
            done | {index: target}
            for target in prefer(load, item)
            if target != bad.get(index) and load.has_place(item, target)
        )
        return next(filter(self._goes_on, others), None)

    @functools.cached_property
    def _solver(self) -> solver.Solver:
        return self._prove.of(self._problem)

    def _goes_on(self, part: dict[int, int]) -> bool:
        """Whether the rest fits beside this; asks the solver only if it does not just fit."""
        rest = [index for index in self._large_first if index not in part]
        found: assignment_item.Placement | None
        found = greedily(self._problem, [*part, *rest], as_given, part)
        if not is_whole(self._problem, found):
            self._questions -= 1
            found = self._solver.complete(part, exhaustive.EFFORT) if self._questions >= 0 else None
        if found:
            self.known = found
        return bool(found)


def _first(placed: dict[int, int], number: int) -> dict[int, int]:
    return dict(itertools.islice(placed.items(), number))
