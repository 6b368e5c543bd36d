"""The way in: where the allocations of a reshape go. Pure; called by ``compile``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import (
    build_problem,
    deadline,
    demand,
    exhaustive,
    item as assignment_item,
    strategy,
    unique,
    unplaceable,
)


def assign(
    demands: Iterable[demand.Demand],
    targets: Sequence[demand.Target],
    rules: demand.Rules | None = None,
    seconds: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> demand.Answer:
    """Find where every demand goes, or tell why not.

    The order of ``targets`` counts for strategies; that of ``demands`` and mappings never
    does. Only GaveUp depends on the machine: ``seconds`` by ``clock``.
    Cost: placing one after the other is lots times targets. The proofs are exponential at
    worst; 12 consumers on 4 targets, which is what they must manage, take a second or so.
    """
    rules = rules or demand.Rules()
    problem = build_problem.problem(demands, targets, rules)
    prove = exhaustive.Proof(deadline.Deadline(seconds, clock))
    try:
        return _answer(problem, rules, prove)
    except deadline.OutOfTime:
        return demand.GaveUp(seconds)


def _answer(
    problem: assignment_item.Problem, rules: demand.Rules, prove: exhaustive.Proof
) -> demand.Answer:
    if not all(item.options for item in problem.lots):
        return unplaceable.impossible(problem, prove)
    placement = strategy.place(problem, rules.strategy, prove)
    if placement is None:
        return unplaceable.impossible(problem, prove)
    free = set(problem.consumers) - unique.forced(problem, placement, prove)
    if free and rules.strategy is None:
        return demand.Undecided(tuple(sorted(free)))
    return demand.Found(_placed(problem, placement), frozenset(free))


def _placed(
    problem: assignment_item.Problem, placement: assignment_item.Placement
) -> Mapping[demand.Key, Mapping[str, int]]:
    placed: dict[demand.Key, dict[str, int]] = {}
    for index, item in enumerate(problem.lots):
        target = problem.targets[placement[index]].name
        for name, amount in item.resources:
            there = placed.setdefault(demand.Key(item.consumer, item.source, name), {})
            there[target] = there.get(target, 0) + amount
    return placed
