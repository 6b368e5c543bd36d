"""The strategies: what each optimizes first, and in which order it places.

``pack`` first finds the smallest number of targets, ``spread`` the lowest share of the fullest
target; then all strategies place one item after the other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from osc_placement.workflows.reshape.assignment import (
    demand,
    exhaustive,
    greedy,
    item as assignment_item,
)

#: Shares of a capacity are compared in thousandths.
WHOLE = 1000


def place(
    problem: assignment_item.Problem, strategy: demand.Strategy | None, until: exhaustive.Deadline
) -> assignment_item.Placement | None:
    """Place all items as the strategy prefers; None: proved impossible.

    Every item needs options. Raises OutOfTime.
    """
    known = greedy.solve(problem, until)
    if known is None or strategy is None:
        return known
    order: Sequence[int] = problem.large_first
    prefer: greedy.Preference = greedy.as_given
    if strategy == "pack":
        problem, known = _on_few_targets(problem, known, until)
    elif strategy == "spread":
        problem, known = _on_low_share(problem, known, until)
        prefer = _emptiest
    else:
        order, prefer = range(len(problem.items)), _onward
    return greedy.solve_preferred(problem, order, prefer, known, until)


def _emptiest(occupancy: assignment_item.Occupancy, item: assignment_item.Item) -> Sequence[int]:
    def share(target: int) -> float:
        return max(occupancy.share(target, name, amount) for name, amount in item.resources)

    return sorted(item.options, key=share)


def _onward(occupancy: assignment_item.Occupancy, item: assignment_item.Item) -> Sequence[int]:
    """From the target that received the same classes last; earlier targets come at the end."""
    last = occupancy.last(item)
    return sorted(item.options, key=lambda target: (target < last, target))


def _on_few_targets(
    problem: assignment_item.Problem, known: assignment_item.Placement, until: exhaustive.Deadline
) -> tuple[assignment_item.Problem, assignment_item.Placement]:
    """The problem limited to the smallest number of targets, and a solution of it."""
    used = len(set(known.values()))
    lowest = max(map(_fewest_targets, problem.totals.values()), default=0)
    for number in range(lowest, used):
        limited = dataclasses.replace(problem, max_targets=number)
        if found := greedy.solve(limited, until, exhaustive.EFFORT):
            return limited, found
    return dataclasses.replace(problem, max_targets=used), known


def _fewest_targets(total: assignment_item.Total) -> int:
    """The number of targets that a class needs if it takes the largest ones."""
    needed, number = total.needed, 0
    for free in sorted(total.free, reverse=True):
        if needed <= 0:
            break
        needed -= free
        number += 1
    return number


def _on_low_share(
    problem: assignment_item.Problem, known: assignment_item.Placement, until: exhaustive.Deadline
) -> tuple[assignment_item.Problem, assignment_item.Placement]:
    """The problem limited to the lowest share of the fullest target, per class; a solution."""
    for name in list(problem.totals):
        low, high = 0, _highest_share(problem, name, known)
        while low < high:
            middle = (low + high) // 2
            limited = _limit(problem, name, middle)
            found = _solve_evenly(limited, until) if _could_fit(limited) else None
            if found:
                high, known = _highest_share(limited, name, found), found
            else:
                low = middle + 1
        problem = _limit(problem, name, high)
    return problem, known


def _highest_share(
    problem: assignment_item.Problem, name: str, placement: assignment_item.Placement
) -> int:
    occupancy = assignment_item.Occupancy(problem, placement)
    return math.ceil(max(WHOLE * occupancy.share(at, name) for at in occupancy.used_targets))


def _solve_evenly(
    problem: assignment_item.Problem, until: exhaustive.Deadline
) -> assignment_item.Placement | None:
    placed = greedy.extend(problem, problem.large_first, _emptiest)
    if greedy.is_complete(problem, placed):
        return placed
    return greedy.solve(problem, until, exhaustive.EFFORT)


def _limit(problem: assignment_item.Problem, name: str, share: int) -> assignment_item.Problem:
    """The problem where the used share of each target is at most ``share`` thousandths."""
    free = [
        {**free, name: max(0, min(free[name], _free_below(target, name, share)))}
        for target, free in zip(problem.targets, problem.free, strict=True)
    ]
    return dataclasses.replace(problem, free=tuple(free))


def _free_below(target: demand.Target, name: str, share: int) -> int:
    """The amount of a class that can be added up to this share."""
    offered = target.inventories.get(name)
    return offered.capacity * share // WHOLE - target.used.get(name, 0) if offered else 0


def _could_fit(problem: assignment_item.Problem) -> bool:
    """Whether each item fits alone, and all fit in sum: a cheap test that decides most cases."""
    return not problem.exceeds_free and all(
        any(
            all(amount <= problem.free[target].get(name, 0) for name, amount in item.resources)
            for target in item.options
        )
        for item in problem.items
    )
