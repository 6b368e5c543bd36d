"""The entry point: which target each amount of a reshape goes to. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import (
    build_problem,
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
    """Find the target of each demand, or prove that there is none.

    The order of ``targets`` matters to strategies; the order of ``demands`` and of mappings does
    not. Only GaveUp depends on the machine: it is the answer after ``seconds`` by ``clock``.
    Time: items times targets without proofs. Proofs are exponential at worst; 12 consumers on 4
    targets take about a second.
    """
    rules = rules or demand.Rules()
    problem = build_problem.build_problem(demands, targets, rules)
    try:
        return _answer(problem, rules, exhaustive.Deadline(seconds, clock))
    except exhaustive.OutOfTime:
        return demand.GaveUp(seconds)


def _answer(
    problem: assignment_item.Problem, rules: demand.Rules, until: exhaustive.Deadline
) -> demand.Answer:
    if not all(item.options for item in problem.items):
        return unplaceable.impossible(problem, until)
    placement = strategy.place(problem, rules.strategy, until)
    if placement is None:
        return unplaceable.impossible(problem, until)
    free = set(problem.consumers) - unique.unique(problem, placement, until)
    if free and rules.strategy is None:
        return demand.Undecided(tuple(sorted(free)))
    return demand.Found(_placed(problem, placement), frozenset(free))


def _placed(
    problem: assignment_item.Problem, placement: assignment_item.Placement
) -> Mapping[demand.Key, Mapping[str, int]]:
    placed: dict[demand.Key, dict[str, int]] = {}
    for index, item in enumerate(problem.items):
        target = problem.targets[placement[index]].name
        for name, amount in item.resources:
            amounts = placed.setdefault(demand.Key(item.consumer, item.source, name), {})
            amounts[target] = amounts.get(target, 0) + amount
    return placed
