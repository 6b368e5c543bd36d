"""Every assignment that there is, by trying all: slow, and plainly right."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.workflows.reshape.assignment import Demand, Key, Rules, Target

#: ``{key: target}``
Placed = Mapping[Key, str]


def keys(demands: Sequence[Demand]) -> dict[Key, int]:
    found: collections.Counter[Key] = collections.Counter()
    for item in demands:
        for name, amount in item.resources.items():
            found[Key(item.consumer, item.source, name)] += amount
    return {key: amount for key, amount in sorted(found.items()) if amount}


def all_of(
    demands: Sequence[Demand],
    targets: Sequence[Target],
    rules: Rules,
) -> Iterator[Placed]:
    """Every placement that keeps to the rules."""
    needed = keys(demands)
    by_name = {target.name: target for target in targets}
    for way in itertools.product(by_name, repeat=len(needed)):
        placed = dict(zip(needed, way, strict=True))
        if keeps_to_rules(placed, needed, by_name, rules):
            yield placed


def keeps_to_rules(
    placed: Placed,
    needed: Mapping[Key, int],
    targets: Mapping[str, Target],
    rules: Rules,
) -> bool:
    moves_lead = all(leads(targets[name], key) for key, name in placed.items())
    return moves_lead and fits(placed, needed, targets) and stays_together(placed, rules)


def leads(target: Target, key: Key) -> bool:
    taken = target.accepts.get(key.source, frozenset())
    return key.resource_class in taken and key.resource_class in target.inventories


def fits(placed: Placed, needed: Mapping[Key, int], targets: Mapping[str, Target]) -> bool:
    """Whether each allocation keeps to the units, and all of them to the capacity."""
    allocations: collections.Counter[tuple[str, str, str]] = collections.Counter()
    for key, name in placed.items():
        allocations[name, key.consumer, key.resource_class] += needed[key]
    sums: collections.Counter[tuple[str, str]] = collections.Counter()
    for (name, consumer, resource_class), amount in allocations.items():
        sums[name, resource_class] += amount
        present = targets[name].present.get(consumer, {}).get(resource_class, 0)
        if not targets[name].inventories[resource_class].suits_units(amount + present):
            return False
    return all(
        targets[name].used.get(resource_class, 0) + amount
        <= targets[name].inventories[resource_class].capacity
        for (name, resource_class), amount in sums.items()
    )


def stays_together(placed: Placed, rules: Rules) -> bool:
    homes: dict[tuple[str, str], set[str]] = {}
    for key, name in placed.items():
        if key.resource_class in rules.together:
            homes.setdefault((key.consumer, key.source), set()).add(name)
    return all(len(names) == 1 for names in homes.values())


def movable(every: Sequence[Placed]) -> set[str]:
    """The consumers that are not the same in all of these."""
    return {
        key.consumer
        for key in (every[0] if every else ())
        if any(placed[key] != every[0][key] for placed in every)
    }
