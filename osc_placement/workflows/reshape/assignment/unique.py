"""Which consumers could not be elsewhere: the same in every assignment that there is."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from osc_placement.workflows.reshape.assignment import exhaustive, item


def forced(
    problem: item.Problem, placement: item.Placement, prove: exhaustive.Proof
) -> frozenset[str]:
    """The consumers all of whose lots have one possible target. Raises OutOfTime.

    ``placement`` is any solution. One step from it frees most that can be free; the solver
    settles the rest.
    """
    counts = _counts(problem, placement)
    free = {kind for kind, targets in counts.items() if not kind.owner and len(targets) > 1}
    free |= _movable(problem, placement)
    doubtful = [kind for kind in counts if kind not in free and len(kind.options) > 1]
    solver = prove.of(problem) if doubtful else None
    while solver and doubtful:
        other = solver.differently(placement, doubtful)
        if other is None:
            break
        moved = _counts(problem, other)
        free |= {kind for kind in doubtful if moved[kind] != counts[kind]}
        doubtful = [kind for kind in doubtful if kind not in free]
    return frozenset(
        consumer
        for consumer, indexes in problem.consumers.items()
        if not any(problem.lots[index].kind in free for index in indexes)
    )


def _counts(
    problem: item.Problem, placement: item.Placement
) -> Mapping[item.Kind, Mapping[int, int]]:
    """How many lots of each kind are on each target."""
    return {
        kind: collections.Counter(placement[index] for index in indexes)
        for kind, indexes in problem.kinds.items()
    }


def _movable(problem: item.Problem, placement: item.Placement) -> set[item.Kind]:
    """The kinds of which one can go elsewhere alone, or change places with one of another."""
    load = item.Occupancy(problem, placement)
    stands = {(problem.lots[index].kind, placement[index]) for index in placement}
    plain = sorted((kind, target) for kind, target in stands if not kind.owner)
    found = {
        kind
        for kind, target in plain
        if any(other != target and _has_room(load, kind, other, ()) for other in kind.options)
    }
    for kind, target in plain:
        if kind not in found:
            found |= _exchanged(load, kind, target, plain)
    return found


def _exchanged(
    load: item.Occupancy, kind: item.Kind, target: int, others: Sequence[tuple[item.Kind, int]]
) -> set[item.Kind]:
    """This kind and one that it can change places with; empty: there is none."""
    for other, there in others:
        if (
            there != target
            and there in kind.options
            and target in other.options
            and _has_room(load, kind, there, other.resources)
            and _has_room(load, other, target, kind.resources)
        ):
            return {kind, other}
    return set()


def _has_room(
    load: item.Occupancy, kind: item.Kind, target: int, given_back: Sequence[tuple[str, int]]
) -> bool:
    back = dict(given_back)
    left = load.left[target]
    return all(amount <= left.get(name, 0) + back.get(name, 0) for name, amount in kind.resources)
