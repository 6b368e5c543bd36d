"""The allocations that must move, and their possible targets. Pure.

The allocation of a consumer on a provider moves whole, unless evidence splits it. Classes with the
same possible targets (VCPU and MEMORY_MB of one NUMA node) stay together. ``assign`` chooses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.model import allocation, inventory
from osc_placement.workflows.reshape import resolve, snapshot
from osc_placement.workflows.reshape.document import values


class Option(NamedTuple):
    """A possible target of a demand; ``classes`` are the new classes of its resources, in order."""

    target: str
    classes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """An allocation of a consumer on one provider that must move or be kept, or a part of one.

    ``assigned`` is set where evidence decides.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    options: tuple[Option, ...]
    assigned: Option | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A demand and its target; ``guess`` is the strategy where only that decided."""

    demand: Demand
    option: Option
    guess: str = ""

    @property
    def move(self) -> snapshot.AllocationMove:
        given: dict[str, int] = {}
        for name, amount in zip(self.option.classes, self.demand.resources.values(), strict=True):
            given[name] = given.get(name, 0) + amount
        demand = self.demand
        return snapshot.AllocationMove(
            demand.consumer, demand.source, demand.resources, self.option.target, given
        )


def demands(
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    inventories: Mapping[str, inventory.Inventories],
    problems: errors.InputErrors,
) -> list[Demand]:
    """All demands, by consumer. Evidence that does not fit is added to ``problems``."""
    destinations = _destinations(resolved, inventories)
    found = {
        uuid: list(_demands_of(consumer, destinations))
        for uuid, consumer in sorted(before.consumers.items())
    }
    evidence = {
        item.consumer: _Evidence(item, resolved, problems) for item in resolved.document.assign
    }
    for uuid, item in evidence.items():
        item.check(found.get(uuid, []), is_known=uuid in before.consumers)
    return [
        part
        for uuid, items in found.items()
        for demand in items
        for part in (evidence[uuid].apply(demand) if uuid in evidence else [demand])
    ]


def _destinations(
    resolved: resolve.Resolved, inventories: Mapping[str, inventory.Inventories]
) -> dict[resolve.Place, list[resolve.Place]]:
    """The possible destinations of each origin; an origin that keeps an amount is one itself."""
    found: dict[resolve.Place, list[resolve.Place]] = {}
    for move in resolved.moves:
        found.setdefault(move.origin, []).append(move.destination)
    for (source, resource_class), places in found.items():
        stays = source, resource_class
        if resource_class in inventories[source] and stays not in places:
            places.append(stays)
    return found


def _demands_of(
    consumer: allocation.Consumer, destinations: Mapping[resolve.Place, Sequence[resolve.Place]]
) -> Iterator[Demand]:
    for source, resources in sorted(consumer.allocations.items()):
        together: dict[tuple[str, ...], dict[str, int]] = {}
        for resource_class, amount in sorted(resources.items()):
            if places := destinations.get((source, resource_class)):
                key = tuple(target for target, _ in places)
                together.setdefault(key, {})[resource_class] = amount
        for targets, amounts in together.items():
            options = tuple(
                Option(target, tuple(destinations[source, name][position][1] for name in amounts))
                for position, target in enumerate(targets)
            )
            yield Demand(consumer.uuid, source, amounts, options)


class _Evidence:
    """The evidence on one consumer, applied to its demands."""

    def __init__(
        self, item: values.Evidence, resolved: resolve.Resolved, problems: errors.InputErrors
    ) -> None:
        self._item, self._resolved, self._problems = item, resolved, problems

    def check(self, found: Sequence[Demand], *, is_known: bool) -> None:
        """Evidence for all classes must fit one of them; other classes must move."""
        if not found:
            trees = (
                "has no allocation that moves" if is_known else "has no allocation in these trees"
            )
            self._add_problem(f" {trees}")
            return
        text = self._item.targets.get("")
        if text and not any(self._fits(each, text) for demand in found for each in demand.options):
            self._add_problem(f": no part of its allocations can move to {text!r}")
        for resource_class in sorted({*self._item.targets, *self._item.parts} - {""}):
            if not any(resource_class in demand.resources for demand in found):
                self._add_problem(f" has no {resource_class} that moves")

    def apply(self, demand: Demand) -> list[Demand]:
        """The demand with its target; or one per part if evidence splits it."""
        split = [name for name in demand.resources if name in self._item.parts]
        if not split:
            return [self._assign(demand, self._item.targets)]
        rest = {name: amount for name, amount in demand.resources.items() if name not in split}
        found = [self._assign(_part(demand, rest), self._item.targets)] if rest else []
        for name in split:
            amounts = self._item.parts[name]
            if sum(amounts.values()) != demand.resources[name]:
                what = f"{sum(amounts.values())} {name} are assigned"
                self._add_problem(f": {what}, and it has {demand.resources[name]}")
            parts = [
                self._assign(_part(demand, {name: amount}), {name: text})
                for text, amount in amounts.items()
            ]
            if len({part.assigned for part in parts}) < len(parts):
                self._add_problem(f": {name} is assigned twice to the same target")
            found += parts
        return found

    def _assign(self, demand: Demand, targets: Mapping[str, str]) -> Demand:
        texts = {text for name, text in targets.items() if name in demand.resources}
        is_whole = not texts
        if is_whole:
            texts = {text for name, text in targets.items() if not name}
        fitting = [
            option for option in demand.options if all(self._fits(option, text) for text in texts)
        ]
        if texts and len(fitting) == 1:
            return dataclasses.replace(demand, assigned=fitting[0])
        if texts and (fitting or not is_whole):
            self._add_problem(f": {self._misfit(demand, texts, ambiguous=bool(fitting))}")
        return demand

    def _misfit(self, demand: Demand, texts: Iterable[str], *, ambiguous: bool) -> str:
        what = f"{', '.join(demand.resources)} to {' and '.join(sorted(texts))!r}"
        choices = sorted(
            f"{self._resolved.name_of(option.target)} ({', '.join(option.classes)})"
            for option in demand.options
        )
        if ambiguous:
            return f"{what} is ambiguous between {' and '.join(choices)}: name the new class"
        return f"{what} is not possible: the targets are {', '.join(choices)}"

    def _fits(self, option: Option, text: str) -> bool:
        """Whether evidence means this option, by its provider or by a class."""
        name = self._resolved.name_of(option.target)
        return text in (name, *option.classes) or text.lower() == option.target

    def _add_problem(self, what: str) -> None:
        where = self._resolved.document.at(self._item.line)
        self._problems.add(f"{where}consumer {self._item.consumer}{what}")


def _part(demand: Demand, resources: Mapping[str, int]) -> Demand:
    """Some classes of a demand, or a part of one class."""
    kept = [position for position, name in enumerate(demand.resources) if name in resources]
    options = tuple(
        Option(option.target, tuple(option.classes[position] for position in kept))
        for option in demand.options
    )
    return dataclasses.replace(demand, resources=resources, options=options)
