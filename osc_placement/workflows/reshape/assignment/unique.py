"""The consumers without a choice: all solutions place them on the same targets."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from osc_placement.workflows.reshape.assignment import exhaustive, item


def unique(
    problem: item.Problem, placement: item.Placement, until: exhaustive.Deadline
) -> frozenset[str]:
    """The consumers whose items all have one possible target. Raises OutOfTime.

    ``placement`` is any solution. Most other consumers have a choice within one step from it:
    one item moves, or two change places. A search decides the rest.
    """
    counts = _counts(problem, placement)
    free = {kind for kind, targets in counts.items() if not kind.owner and len(targets) > 1}
    free |= _free_within_a_step(problem, placement)
    for kind, indexes in problem.kinds.items():
        for target in kind.options if len(kind.options) > 1 else ():
            if kind in free:
                break
            more = dict.fromkeys(indexes[: counts[kind][target] + 1], target)
            if len(more) == counts[kind][target]:
                continue
            if other := exhaustive.complete(problem, more, until):
                moved = _counts(problem, other)
                free |= {each for each in counts if moved[each] != counts[each]}
    return frozenset(
        consumer
        for consumer, indexes in problem.consumers.items()
        if not any(problem.items[index].kind in free for index in indexes)
    )


def _counts(
    problem: item.Problem, placement: item.Placement
) -> Mapping[item.Kind, collections.Counter[int]]:
    """The number of items of each kind on each target."""
    return {
        kind: collections.Counter(placement[index] for index in indexes)
        for kind, indexes in problem.kinds.items()
    }


def _free_within_a_step(problem: item.Problem, placement: item.Placement) -> set[item.Kind]:
    occupancy = item.Occupancy(problem, placement)
    pairs = {(problem.items[index].kind, target) for index, target in placement.items()}
    plain = sorted((kind, target) for kind, target in pairs if not kind.owner)
    found = {
        kind
        for kind, target in plain
        if any(other != target and _fits(occupancy, kind, other) for other in kind.options)
    }
    for kind, target in plain:
        if kind not in found:
            found |= _exchange(occupancy, kind, target, plain)
    return found


def _exchange(
    occupancy: item.Occupancy, kind: item.Kind, target: int, others: Sequence[tuple[item.Kind, int]]
) -> set[item.Kind]:
    """This kind and one that it can change places with; empty if there is none."""
    for other, there in others:
        if (
            there != target
            and there in kind.options
            and target in other.options
            and _fits(occupancy, kind, there, other)
            and _fits(occupancy, other, target, kind)
        ):
            return {kind, other}
    return set()


def _fits(
    occupancy: item.Occupancy, kind: item.Kind, target: int, leaving: item.Kind | None = None
) -> bool:
    """Whether an item of a kind fits on a target, once an item of another kind leaves it."""
    freed = dict(leaving.resources) if leaving else {}
    left = occupancy.left[target]
    return all(amount <= left[name] + freed.get(name, 0) for name, amount in kind.resources)
