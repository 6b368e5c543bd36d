"""Who is in the way where not everything fits, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import (
    demand,
    exhaustive,
    greedy,
    item as assignment_item,
)

#: So many consumers are tried again when they did not fit at once.
MOST_RETRIED = 16


def impossible(problem: assignment_item.Problem, prove: exhaustive.Proof) -> demand.Impossible:
    """A set of consumers without which the others fit; small amounts are kept first.

    None of it could be kept, unless it was more than MOST_RETRIED, or the solver did not
    know with a fair effort. Raises OutOfTime.
    """
    hopeless = {item.consumer for item in problem.lots if not item.options}
    rest = problem.of(name for name in problem.consumers if name not in hopeless)
    left_over = _left_over(rest, prove)
    reasons = [
        *(_hopeless(problem, item) for item in problem.lots if not item.options),
        *(_reasons(rest) if left_over else ()),
    ]
    return demand.Impossible(tuple(sorted({*hopeless, *left_over})), tuple(dict.fromkeys(reasons)))


def _left_over(problem: assignment_item.Problem, prove: exhaustive.Proof) -> Collection[str]:
    sizes = _sizes(problem)
    small_first = sorted(problem.consumers, key=lambda name: (sizes[name], name))
    kept = _kept(problem, small_first)
    if not _fits(problem.of(kept), prove):
        kept = []
    left = [name for name in small_first if name not in set(kept)]
    for name in left[:MOST_RETRIED]:
        if _fits(problem.of([*kept, name]), prove):
            kept = [*kept, name]
    return [name for name in left if name not in set(kept)]


def _sizes(problem: assignment_item.Problem) -> Mapping[str, float]:
    """How much of what there is each consumer takes, at most of all classes."""
    rooms = {name: sum(total.rooms) or 1 for name, total in problem.totals.items()}
    return {
        consumer: max(
            amount / rooms[name]
            for index in indexes
            for name, amount in problem.lots[index].resources
        )
        for consumer, indexes in problem.consumers.items()
    }


def _kept(problem: assignment_item.Problem, order: Sequence[str]) -> list[str]:
    """Consumers that fit one after the other, without looking ahead."""
    placed: dict[int, int] = {}
    kept = []
    for consumer in order:
        indexes = problem.consumers[consumer]
        wanted = [*placed, *indexes]
        more = greedy.greedily(problem, wanted, greedy.as_given, placed)
        if len(more) == len(wanted):
            placed = more
            kept.append(consumer)
    return kept


def _fits(problem: assignment_item.Problem, prove: exhaustive.Proof) -> bool:
    return greedy.solve(problem, prove, exhaustive.EFFORT) is not None


def _hopeless(problem: assignment_item.Problem, item: assignment_item.Item) -> str:
    wanted = ", ".join(f"{amount} {name}" for name, amount in item.resources)
    whys = [_why_not(item, target) for target in problem.targets]
    told = "; ".join(why for why in whys if why)
    start = f"{item.consumer}: {wanted} from {item.source} fits nowhere"
    return f"{start}: {told}" if told else f"{start}: no move leads it anywhere"


def _why_not(item: assignment_item.Item, target: demand.Target) -> str:
    """What a target has against a lot; empty where no move leads there, or nothing is wrong."""
    taken = target.takes.get(item.source, frozenset())
    if not all(name in taken and name in target.inventories for name in item.classes):
        return ""
    for name, amount in item.resources:
        room = target.room(name)
        if amount > room:
            return f"{target.name} has room for {room} {name}"
        if not assignment_item.suit_units(((name, amount),), item.consumer, item.shares, target):
            offered = target.inventories[name]
            return (
                f"{target.name} takes {name} with min_unit {offered.min_unit}, max_unit"
                f" {offered.max_unit}, step_size {offered.step_size}"
            )
    return ""


def _reasons(problem: assignment_item.Problem) -> Iterator[str]:
    for name, (wanted, rooms) in problem.totals.items():
        if wanted > sum(rooms):
            yield f"{wanted} {name} are to be placed, and there is room for {sum(rooms)}"
            break
    else:
        yield "no way to share them out among the targets fits"
