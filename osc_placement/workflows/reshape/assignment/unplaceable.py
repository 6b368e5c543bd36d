"""The consumers that do not fit, with the reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import (
    build_problem,
    demand,
    exhaustive,
    greedy,
    item as assignment_item,
)

#: The number of consumers that are tried a second time after they did not fit.
MAX_RETRIED = 16


def impossible(problem: assignment_item.Problem, until: exhaustive.Deadline) -> demand.Impossible:
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


def _left_over(problem: assignment_item.Problem, until: exhaustive.Deadline) -> Collection[str]:
    def fit(consumers: Sequence[str]) -> bool:
        restricted = problem.restricted_to(consumers)
        return greedy.solve(restricted, until, exhaustive.EFFORT) is not None

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


def _sizes(problem: assignment_item.Problem) -> Mapping[str, float]:
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


def _kept(problem: assignment_item.Problem, order: Sequence[str]) -> list[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: dict[int, int] = {}
    kept = []
    for consumer in order:
        indexes = [*placed, *problem.consumers[consumer]]
        more = greedy.extend(problem, indexes, greedy.as_given, placed)
        if len(more) == len(indexes):
            placed = more
            kept.append(consumer)
    return kept


def _why_nowhere(problem: assignment_item.Problem, item: assignment_item.Item) -> str:
    amounts = ", ".join(f"{amount} {name}" for name, amount in item.resources)
    reasons = "; ".join(filter(None, (_why_not(item, target) for target in problem.targets)))
    start = f"{item.consumer}: {amounts} from {item.source} fits nowhere"
    return f"{start}: {reasons}" if reasons else f"{start}: no move has a target for it"


def _why_not(item: assignment_item.Item, target: demand.Target) -> str:
    """Why an item does not fit on a target; empty if it does, or if no move leads there."""
    if not build_problem.accepts(target, item.source, item.classes):
        return ""
    for name, amount in item.resources:
        free = target.free(name)
        if amount > free:
            return f"{target.name} has room for {free} {name}"
        if not build_problem.could_suit_units(target, item.consumer, name, amount, item.shares):
            offered = target.inventories[name]
            return (
                f"{target.name} takes {name} with min_unit {offered.min_unit}, max_unit"
                f" {offered.max_unit}, step_size {offered.step_size}"
            )
    return ""


def _reasons(problem: assignment_item.Problem) -> Iterator[str]:
    for name, total in problem.totals.items():
        if total.needed > sum(total.free):
            yield f"{total.needed} {name} are to be placed, and there is room for {sum(total.free)}"
            break
    else:
        yield "no distribution among the targets fits"
