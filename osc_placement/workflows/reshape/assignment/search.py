"""The entry point: which target each amount of a reshape goes to, or why there is none. Pure.

``assign`` places by a strategy (``pack`` first finds the smallest number of targets, ``spread`` the
lowest share of the fullest target), then finds the consumers without a choice, or those that do not
fit, with the reasons.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import demand, exhaustive


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
    problem = demand.build_problem(demands, targets, rules)
    try:
        return _answer(problem, rules, exhaustive.Deadline(seconds, clock))
    except exhaustive.OutOfTime:
        return demand.GaveUp(seconds)


def _answer(
    problem: demand.Problem, rules: demand.Rules, until: exhaustive.Deadline
) -> demand.Answer:
    if not all(item.options for item in problem.items):
        return impossible(problem, until)
    placement = place(problem, rules.strategy, until)
    if placement is None:
        return impossible(problem, until)
    free = set(problem.consumers) - unique(problem, placement, until)
    if free and rules.strategy is None:
        return demand.Undecided(tuple(sorted(free)))
    return demand.Found(_placed(problem, placement), frozenset(free))


def _placed(
    problem: demand.Problem, placement: demand.Placement
) -> Mapping[demand.Key, Mapping[str, int]]:
    placed: dict[demand.Key, dict[str, int]] = {}
    for index, item in enumerate(problem.items):
        target = problem.targets[placement[index]].name
        for name, amount in item.resources:
            amounts = placed.setdefault(demand.Key(item.consumer, item.source, name), {})
            amounts[target] = amounts.get(target, 0) + amount
    return placed


#: Shares of a capacity are compared in thousandths.
WHOLE = 1000


def place(
    problem: demand.Problem, strategy: demand.Strategy | None, until: exhaustive.Deadline
) -> demand.Placement | None:
    """Place all items as the strategy prefers; None: proved impossible.

    Every item needs options. Raises OutOfTime.
    """
    known = exhaustive.solve(problem, until)
    if known is None or strategy is None:
        return known
    order: Sequence[int] = problem.large_first
    prefer: exhaustive.Preference = exhaustive.as_given
    if strategy == "pack":
        problem, known = _on_few_targets(problem, known, until)
    elif strategy == "spread":
        problem, known = _on_low_share(problem, known, until)
        prefer = _emptiest
    else:
        order, prefer = range(len(problem.items)), _onward
    return exhaustive.solve_preferred(problem, order, prefer, known, until)


def _emptiest(occupancy: demand.Occupancy, item: demand.Item) -> Sequence[int]:
    def share(target: int) -> float:
        return max(occupancy.share(target, name, amount) for name, amount in item.resources)

    return sorted(item.options, key=share)


def _onward(occupancy: demand.Occupancy, item: demand.Item) -> Sequence[int]:
    """From the target that received the same classes last; earlier targets come at the end."""
    last = occupancy.last(item)
    return sorted(item.options, key=lambda target: (target < last, target))


def _on_few_targets(
    problem: demand.Problem, known: demand.Placement, until: exhaustive.Deadline
) -> tuple[demand.Problem, demand.Placement]:
    """The problem limited to the smallest number of targets, and a solution of it."""
    used = len(set(known.values()))
    lowest = max(map(_fewest_targets, problem.totals.values()), default=0)
    for number in range(lowest, used):
        limited = dataclasses.replace(problem, max_targets=number)
        if found := exhaustive.solve(limited, until, exhaustive.EFFORT):
            return limited, found
    return dataclasses.replace(problem, max_targets=used), known


def _fewest_targets(total: demand.Total) -> int:
    """The number of targets that a class needs if it takes the largest ones."""
    needed, number = total.needed, 0
    for free in sorted(total.free, reverse=True):
        if needed <= 0:
            break
        needed -= free
        number += 1
    return number


def _on_low_share(
    problem: demand.Problem, known: demand.Placement, until: exhaustive.Deadline
) -> tuple[demand.Problem, demand.Placement]:
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


def _highest_share(problem: demand.Problem, name: str, placement: demand.Placement) -> int:
    occupancy = demand.Occupancy(problem, placement)
    return math.ceil(max(WHOLE * occupancy.share(at, name) for at in occupancy.used_targets))


def _solve_evenly(problem: demand.Problem, until: exhaustive.Deadline) -> demand.Placement | None:
    placed = exhaustive.extend(problem, problem.large_first, _emptiest)
    if exhaustive.is_complete(problem, placed):
        return placed
    return exhaustive.solve(problem, until, exhaustive.EFFORT)


def _limit(problem: demand.Problem, name: str, share: int) -> demand.Problem:
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


def _could_fit(problem: demand.Problem) -> bool:
    """Whether each item fits alone, and all fit in sum: a cheap test that decides most cases."""
    return not problem.exceeds_free and all(
        any(
            all(amount <= problem.free[target].get(name, 0) for name, amount in item.resources)
            for target in item.options
        )
        for item in problem.items
    )


def unique(
    problem: demand.Problem, placement: demand.Placement, until: exhaustive.Deadline
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
    problem: demand.Problem, placement: demand.Placement
) -> Mapping[demand.Kind, collections.Counter[int]]:
    """The number of items of each kind on each target."""
    return {
        kind: collections.Counter(placement[index] for index in indexes)
        for kind, indexes in problem.kinds.items()
    }


def _free_within_a_step(problem: demand.Problem, placement: demand.Placement) -> set[demand.Kind]:
    occupancy = demand.Occupancy(problem, placement)
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
    occupancy: demand.Occupancy,
    kind: demand.Kind,
    target: int,
    others: Sequence[tuple[demand.Kind, int]],
) -> set[demand.Kind]:
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
    occupancy: demand.Occupancy, kind: demand.Kind, target: int, leaving: demand.Kind | None = None
) -> bool:
    """Whether an item of a kind fits on a target, once an item of another kind leaves it."""
    freed = dict(leaving.resources) if leaving else {}
    left = occupancy.left[target]
    return all(amount <= left[name] + freed.get(name, 0) for name, amount in kind.resources)


#: The number of consumers that are tried a second time after they did not fit.
MAX_RETRIED = 16


def impossible(problem: demand.Problem, until: exhaustive.Deadline) -> demand.Impossible:
    """A set of consumers without which all others fit; consumers with small amounts are kept.

    The set is minimal unless it exceeds MAX_RETRIED or a proof takes too many steps. Raises
    OutOfTime.
    """
    alone = [item for item in problem.items if not item.options]
    unplaceable = {item.consumer for item in alone}
    rest = problem.restricted_to(name for name in problem.consumers if name not in unplaceable)
    left_over = _left_over(rest, until)
    reasons = [
        *(_why_nowhere(problem, item) for item in alone),
        *(_reasons(rest) if left_over else ()),
    ]
    consumers = tuple(sorted({*unplaceable, *left_over}))
    return demand.Impossible(consumers, tuple(dict.fromkeys(reasons)))


def _left_over(problem: demand.Problem, until: exhaustive.Deadline) -> Collection[str]:
    def fit(consumers: Sequence[str]) -> bool:
        restricted = problem.restricted_to(consumers)
        return exhaustive.solve(restricted, until, exhaustive.EFFORT) is not None

    sizes = _sizes(problem)
    small_first = sorted(problem.consumers, key=lambda name: (sizes[name], name))
    kept = _kept(problem, small_first)
    if not fit(kept):
        kept = []
    left = [name for name in small_first if name not in set(kept)]
    for name in left[:MAX_RETRIED]:
        if fit([*kept, name]):
            kept = [*kept, name]
    return [name for name in left if name not in set(kept)]


def _sizes(problem: demand.Problem) -> Mapping[str, float]:
    """The share of the free amounts that each consumer needs, the largest of its classes."""
    free = {name: sum(total.free) or 1 for name, total in problem.totals.items()}
    return {
        consumer: max(
            amount / free[name]
            for index in indexes
            for name, amount in problem.items[index].resources
        )
        for consumer, indexes in problem.consumers.items()
    }


def _kept(problem: demand.Problem, order: Sequence[str]) -> list[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: dict[int, int] = {}
    kept = []
    for consumer in order:
        indexes = [*placed, *problem.consumers[consumer]]
        more = exhaustive.extend(problem, indexes, exhaustive.as_given, placed)
        if len(more) == len(indexes):
            placed = more
            kept.append(consumer)
    return kept


def _why_nowhere(problem: demand.Problem, item: demand.Item) -> str:
    amounts = ", ".join(f"{amount} {name}" for name, amount in item.resources)
    reasons = "; ".join(filter(None, (_why_not(item, target) for target in problem.targets)))
    start = f"{item.consumer}: {amounts} from {item.source} fits nowhere"
    return f"{start}: {reasons}" if reasons else f"{start}: no move has a target for it"


def _why_not(item: demand.Item, target: demand.Target) -> str:
    """Why an item does not fit on a target; empty if it does, or if no move leads there."""
    if not demand.accepts(target, item.source, item.classes):
        return ""
    for name, amount in item.resources:
        free = target.free(name)
        if amount > free:
            return f"{target.name} has room for {free} {name}"
        if not demand.could_suit_units(target, item.consumer, name, amount, item.shares):
            offered = target.inventories[name]
            return (
                f"{target.name} takes {name} with min_unit {offered.min_unit}, max_unit"
                f" {offered.max_unit}, step_size {offered.step_size}"
            )
    return ""


def _reasons(problem: demand.Problem) -> Iterator[str]:
    for name, total in problem.totals.items():
        if total.needed > sum(total.free):
            yield f"{total.needed} {name} are to be placed, and there is room for {sum(total.free)}"
            break
    else:
        yield "no distribution among the targets fits"
