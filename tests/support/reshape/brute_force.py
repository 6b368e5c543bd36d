"""Every assignment that there is, by trying all: slow, and plainly right."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import demand

#: ``{key: {target: amount}}``
Placed = Mapping[demand.Key, Mapping[str, int]]


def keys(demands: Sequence[demand.Demand]) -> dict[demand.Key, int]:
    found: collections.Counter[demand.Key] = collections.Counter()
    for item in demands:
        for name, amount in item.resources.items():
            found[demand.Key(item.consumer, item.source, name)] += amount
    return {key: amount for key, amount in sorted(found.items()) if amount}


def all_of(
    demands: Sequence[demand.Demand], targets: Sequence[demand.Target], rules: demand.Rules
) -> Iterator[Placed]:
    """Every placement that keeps to the rules."""
    needed = keys(demands)
    by_name = {target.name: target for target in targets}
    ways = [[{name: amount} for name in by_name] for amount in needed.values()]
    for way in itertools.product(*ways):
        placed = dict(zip(needed, way, strict=True))
        if keeps_to_rules(placed, by_name, rules):
            yield placed


def keeps_to_rules(
    placed: Placed, targets: Mapping[str, demand.Target], rules: demand.Rules
) -> bool:
    return moves_lead(placed, targets) and fits(placed, targets) and stays_together(placed, rules)


def moves_lead(placed: Placed, targets: Mapping[str, demand.Target]) -> bool:
    return all(leads(targets[name], key) for key, amounts in placed.items() for name in amounts)


def leads(target: demand.Target, key: demand.Key) -> bool:
    taken = target.accepts.get(key.source, frozenset())
    return key.resource_class in taken and key.resource_class in target.inventories


def fits(placed: Placed, targets: Mapping[str, demand.Target]) -> bool:
    """Whether each allocation keeps to the units, and all of them to the capacity."""
    allocations: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for key, amounts in placed.items():
        for name, amount in amounts.items():
            allocations[name, key.consumer, key.resource_class] += amount
    sums: collections.Counter[tuple[str, str]] = collections.Counter()
    for (name, consumer, resource_class), amount in allocations.items():
        sums[name, resource_class] += amount
        held = targets[name].held.get(consumer, {}).get(resource_class, 0)
        if not targets[name].inventories[resource_class].suits_units(amount + held):
            return False
    return all(
        targets[name].used.get(resource_class, 0) + amount
        <= targets[name].inventories[resource_class].capacity
        for (name, resource_class), amount in sums.items()
    )


def stays_together(placed: Placed, rules: demand.Rules) -> bool:
    homes: dict[tuple[str, str], set[str]] = {}
    for key, amounts in placed.items():
        if key.resource_class in rules.together:
            homes.setdefault((key.consumer, key.source), set()).update(amounts)
    return all(len(names) == 1 for names in homes.values())


def free(every: Sequence[Placed]) -> set[str]:
    """The consumers that are not the same in all of these."""
    return {
        key.consumer
        for key in (every[0] if every else ())
        if any(placed[key] != every[0][key] for placed in every)
    }
