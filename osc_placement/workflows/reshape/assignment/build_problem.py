"""Building the problem of an assignment: demands to items with their possible targets."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from osc_placement.workflows.reshape.assignment import demand, item


class _Part(NamedTuple):
    """Amounts of one consumer on one source that stay together."""

    consumer: str
    source: str
    resources: tuple[tuple[str, int], ...]


def build_problem(
    demands: Iterable[demand.Demand], targets: Sequence[demand.Target], rules: demand.Rules
) -> item.Problem:
    """The problem of these demands, sorted. Demands of the same consumer and source are summed.

    An item without options fits nowhere, even alone.
    """
    parts = list(_parts(demands, rules))
    parts_of = collections.Counter((part.consumer, name) for part in parts for name, _ in part[2])
    classes = sorted({name for part in parts for name, _ in part.resources})

    def shares(part: _Part) -> bool:
        return any(
            parts_of[part.consumer, name] > 1
            or any(target.held_by(part.consumer, name) for target in targets)
            for name, _ in part.resources
        )

    return item.Problem(
        tuple(
            item.Item(*part, _options(part, targets, shares(part)), shares(part)) for part in parts
        ),
        tuple(targets),
        tuple({name: target.free(name) for name in classes} for target in targets),
    )


def _parts(demands: Iterable[demand.Demand], rules: demand.Rules) -> Iterator[_Part]:
    merged: dict[tuple[str, str], collections.Counter[str]] = {}
    for each in demands:
        positive = {name: amount for name, amount in each.resources.items() if amount > 0}
        merged.setdefault((each.consumer, each.source), collections.Counter()).update(positive)
    for (consumer, source), resources in sorted(merged.items()):
        together = tuple(sorted(pair for pair in resources.items() if pair[0] in rules.together))
        if together:
            yield _Part(consumer, source, together)
        for name, amount in sorted(resources.items()):
            if name not in rules.together:
                yield _Part(consumer, source, ((name, amount),))


def _options(part: _Part, targets: Sequence[demand.Target], shares: bool) -> tuple[int, ...]:
    return tuple(
        index
        for index, target in enumerate(targets)
        if accepts(target, part.source, (name for name, _ in part.resources))
        and all(
            amount <= target.free(name)
            and could_suit_units(target, part.consumer, name, amount, shares)
            for name, amount in part.resources
        )
    )


def accepts(target: demand.Target, source: str, classes: Iterable[str]) -> bool:
    """Whether moves lead from a source to a target for all of these classes."""
    accepted = target.accepts.get(source, frozenset())
    return all(name in accepted and name in target.inventories for name in classes)


def could_suit_units(
    target: demand.Target, consumer: str, resource_class: str, amount: int, shares: bool
) -> bool:
    """Whether an amount can suit a target's units, alone or as part of a sum (``shares``)."""
    offered = target.inventories[resource_class]
    if shares:
        return amount + target.held_by(consumer, resource_class) <= offered.max_unit
    return offered.suits_units(amount)
