"""The strategies: what each narrows first, and in which order it likes to place.

``pack`` and ``spread`` first find how few targets, or how low a share of the fullest one,
suffice; then all three place one lot after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from osc_placement.workflows.reshape.assignment import (
    demand,
    exhaustive,
    greedy,
    item as assignment_item,
)

#: Shares of a capacity are told in thousandths.
WHOLE = 1000


def place(
    problem: assignment_item.Problem, strategy: demand.Strategy | None, prove: exhaustive.Proof
) -> assignment_item.Placement | None:
    """Place everything as the strategy likes, or somehow; None: proved impossible.

    Raises OutOfTime. Every lot must have options.
    """
    known = greedy.solve(problem, prove)
    if known is None or strategy is None:
        return known
    if strategy == "pack":
        problem, known = _on_few(problem, known, prove)
        return greedy.completely(
            problem, greedy.large_first(problem), greedy.as_given, known, prove
        )
    if strategy == "spread":
        problem, known = _on_low(problem, known, prove)
        return greedy.completely(problem, greedy.large_first(problem), _emptiest, known, prove)
    return greedy.completely(problem, range(len(problem.lots)), _going_on, known, prove)


def _emptiest(load: assignment_item.Occupancy, item: assignment_item.Item) -> Sequence[int]:
    def share(target: int) -> float:
        return max(load.share(target, name, amount) for name, amount in item.resources)

    return sorted(item.options, key=share)


def _going_on(load: assignment_item.Occupancy, item: assignment_item.Item) -> Sequence[int]:
    """From the target on that was last given the same classes; what is before it comes last."""
    last = load.last(item)
    return sorted(item.options, key=lambda target: (target < last, target))


def _on_few(
    problem: assignment_item.Problem, known: assignment_item.Placement, prove: exhaustive.Proof
) -> tuple[assignment_item.Problem, assignment_item.Placement]:
    """The problem with as few targets as suffice, and a solution of it."""
    used = len(set(known.values()))
    for number in range(_fewest(problem), used):
        limited = problem.replace(most_targets=number)
        if found := greedy.solve(limited, prove, exhaustive.EFFORT):
            return limited, found
    return problem.replace(most_targets=used), known


def _fewest(problem: assignment_item.Problem) -> int:
    """On fewer targets no class has room, even where each takes the largest ones."""
    return max(
        (_how_many(sorted(rooms), wanted) for wanted, rooms in problem.totals.values()), default=0
    )


def _how_many(rooms: list[int], wanted: int) -> int:
    number = 0
    while wanted > 0 and rooms:
        wanted -= rooms.pop()
        number += 1
    return number


def _on_low(
    problem: assignment_item.Problem, known: assignment_item.Placement, prove: exhaustive.Proof
) -> tuple[assignment_item.Problem, assignment_item.Placement]:
    """The problem with the highest share of each class as low as suffices, and a solution."""
    for name in list(problem.totals):
        low, high = 0, _highest_share(problem, name, known)
        while low < high:
            middle = (low + high) // 2
            limited = _limited(problem, name, middle)
            found = _solve_evenly(limited, prove) if _could_fit(limited) else None
            if found:
                high, known = _highest_share(limited, name, found), found
            else:
                low = middle + 1
        problem = _limited(problem, name, high)
    return problem, known


def _highest_share(
    problem: assignment_item.Problem, name: str, placement: assignment_item.Placement
) -> int:
    load = assignment_item.Occupancy(problem, placement)
    return math.ceil(max(WHOLE * load.share(each, name) for each in load.opened))


def _solve_evenly(
    problem: assignment_item.Problem, prove: exhaustive.Proof
) -> assignment_item.Placement | None:
    placed = greedy.greedily(problem, greedy.large_first(problem), _emptiest)
    if greedy.is_whole(problem, placed):
        return placed
    return greedy.solve(problem, prove, exhaustive.EFFORT)


def _limited(problem: assignment_item.Problem, name: str, share: int) -> assignment_item.Problem:
    """No target is used beyond so many thousandths of its capacity, if it is given anything."""
    rooms = [
        {**rooms, name: max(0, min(rooms[name], _below(target, name, share)))}
        for target, rooms in zip(problem.targets, problem.rooms, strict=True)
    ]
    return problem.replace(rooms=tuple(rooms))


def _below(target: demand.Target, name: str, share: int) -> int:
    """How much more of a class may be used when it is limited to this share."""
    offered = target.inventories.get(name)
    return offered.capacity * share // WHOLE - target.used.get(name, 0) if offered else 0


def _could_fit(problem: assignment_item.Problem) -> bool:
    """Whether each lot fits alone, and all do in sum: cheap, and settles most questions."""
    return not problem.asks_too_much and all(
        any(
            all(amount <= problem.rooms[target].get(name, 0) for name, amount in item.resources)
            for target in item.options
        )
        for item in problem.lots
    )
