"""Which consumers must follow their resources, and between which providers there is a choice.

Pure. What a consumer has of a provider goes to one target whole, unless evidence says how it
is parted; classes that may go to the same targets (VCPU and MEMORY_MB of one NUMA node) stay
together. ``solve`` chooses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.model import allocation, inventory
from osc_placement.workflows.reshape import resolve, snapshot
from osc_placement.workflows.reshape.document import values


class Option(NamedTuple):
    """A provider that a demand may go to; ``classes`` is what its classes become, in order."""

    target: str
    classes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """What a consumer has of one provider and cannot simply keep, or a part of it.

    ``assigned`` is set where evidence has decided already.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    options: tuple[Option, ...]
    assigned: Option | None = None

    def at(self, option: Option) -> dict[str, int]:
        """``{resource class: amount}`` that it takes of an option's target."""
        changed = (
            {becomes: amount}
            for becomes, amount in zip(option.classes, self.resources.values(), strict=True)
        )
        return allocation.add_resources(*changed)


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A demand and where it goes; ``guess`` names the strategy where only that decided."""

    demand: Demand
    option: Option
    guess: str = ""


def demands(
    seen: snapshot.TreeSnapshot,
    meant: resolve.Wanted,
    inventories: Mapping[str, inventory.Inventories],
    faults: errors.InputErrors,
) -> list[Demand]:
    """Every demand, by consumer; evidence that fits none is a fault."""
    ways = _ways(meant, inventories)
    found = [
        demand
        for uuid, consumer in sorted(seen.consumers.items())
        for demand in _of_consumer(uuid, consumer, ways)
    ]
    return _with_evidence(found, seen, meant, faults)


def _ways(
    meant: resolve.Wanted, inventories: Mapping[str, inventory.Inventories]
) -> dict[tuple[str, str], tuple[tuple[str, str], ...]]:
    """``{(source, class): ((target, class there), …)}``; what is left of a source is a target."""
    ways: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for shift in meant.shifts:
        key = shift.source, shift.resource_class
        ways.setdefault(key, []).append((shift.target, shift.becomes))
    for (source, resource_class), targets in ways.items():
        stays = source, resource_class
        if resource_class in inventories[source] and stays not in targets:
            targets.append(stays)
    return {key: tuple(targets) for key, targets in ways.items()}


def _of_consumer(
    uuid: str,
    consumer: allocation.Consumer,
    ways: Mapping[tuple[str, str], tuple[tuple[str, str], ...]],
) -> Iterable[Demand]:
    for source, resources in sorted(consumer.allocations.items()):
        together: dict[tuple[str, ...], dict[str, int]] = {}
        for resource_class, amount in sorted(resources.items()):
            targets = ways.get((source, resource_class))
            if targets is not None:
                key = tuple(target for target, _ in targets)
                together.setdefault(key, {})[resource_class] = amount
        for targets_of, amounts in together.items():
            options = tuple(
                Option(target, tuple(ways[source, name][position][1] for name in amounts))
                for position, target in enumerate(targets_of)
            )
            yield Demand(uuid, source, amounts, options)


def _with_evidence(
    found: Sequence[Demand],
    seen: snapshot.TreeSnapshot,
    meant: resolve.Wanted,
    faults: errors.InputErrors,
) -> list[Demand]:
    told = {item.consumer: item for item in meant.document.assign}
    of = {item.consumer for item in found}
    for item in told.values():
        if item.consumer not in of:
            known = item.consumer in seen.consumers
            what = "has nothing that moves" if known else "has nothing of these trees"
            faults.add(f"{meant.document.at(item.line)}consumer {item.consumer} {what}")
    decided = [
        part for item in found for part in _parted(item, told.get(item.consumer), meant, faults)
    ]
    for item in told.values():
        _check_used(item, [one for one in found if one.consumer == item.consumer], meant, faults)
    return decided


def _parted(
    demand: Demand, told: values.Evidence | None, meant: resolve.Wanted, faults: errors.InputErrors
) -> list[Demand]:
    """A demand with what evidence says of it: one, or one for each part that is elsewhere."""
    parted = [name for name in demand.resources if told is not None and name in told.parts]
    if told is None or not parted:
        return [_decided(demand, told, meant, faults)]
    where = f"{meant.document.at(told.line)}consumer {told.consumer}"
    rest = {name: amount for name, amount in demand.resources.items() if name not in parted}
    found = [_decided(_only(demand, rest), told, meant, faults)] if rest else []
    for name in parted:
        places = told.parts[name]
        if sum(places.values()) != demand.resources[name]:
            has = f"it has {demand.resources[name]}"
            faults.add(f"{where}: {sum(places.values())} {name} are assigned, and {has}")
        parts = [
            _decided(
                _only(demand, {name: amount}),
                values.Evidence(told.consumer, {name: text}, told.line),
                meant,
                faults,
            )
            for text, amount in places.items()
        ]
        if len({part.assigned for part in parts}) < len(parts):
            faults.add(f"{where}: {name} is assigned twice to one place")
        found += parts
    return found


def _only(demand: Demand, resources: Mapping[str, int]) -> Demand:
    """Some classes of a demand, or a part of one."""
    kept = [position for position, name in enumerate(demand.resources) if name in resources]
    options = tuple(
        Option(option.target, tuple(option.classes[position] for position in kept))
        for option in demand.options
    )
    return dataclasses.replace(demand, resources=resources, options=options)


def _decided(
    demand: Demand, told: values.Evidence | None, meant: resolve.Wanted, faults: errors.InputErrors
) -> Demand:
    """A demand with what evidence says of it."""
    if told is None:
        return demand
    texts = {text for name, text in told.targets.items() if name in demand.resources}
    texts = texts or {text for name, text in told.targets.items() if not name}
    if not texts:
        return demand
    fitting = [
        option for option in demand.options if all(_fits(option, text, meant) for text in texts)
    ]
    if len(fitting) == 1:
        return dataclasses.replace(demand, assigned=fitting[0])
    whole = "" in told.targets and not any(name in demand.resources for name in told.targets)
    if fitting or not whole:
        faults.add(_unfit(demand, told, texts, bool(fitting), meant))
    return demand


def _check_used(
    told: values.Evidence,
    demands_of: Sequence[Demand],
    meant: resolve.Wanted,
    faults: errors.InputErrors,
) -> None:
    """Evidence for all classes must fit one of them; that for a class must have that class."""
    where = f"{meant.document.at(told.line)}consumer {told.consumer}"
    options = [option for demand in demands_of for option in demand.options]
    text = told.targets.get("")
    if demands_of and text and not any(_fits(option, text, meant) for option in options):
        faults.add(f"{where}: nothing of what it has may go to {text!r}")
    for resource_class in {**told.targets, **told.parts}:
        moving = any(resource_class in demand.resources for demand in demands_of)
        if demands_of and resource_class and not moving:
            faults.add(f"{where} has no {resource_class} that moves")


def _unfit(
    demand: Demand,
    told: values.Evidence,
    texts: Iterable[str],
    several: bool,
    meant: resolve.Wanted,
) -> str:
    where = f"{meant.document.at(told.line)}consumer {told.consumer}"
    what = f"{', '.join(demand.resources)} to {' and '.join(sorted(texts))!r}"
    choices = sorted({_named(option, meant) for option in demand.options})
    if several:
        return f"{where}: {what} may mean {' or '.join(choices)}: name the class it gets"
    return f"{where}: {what} cannot be: there is {', '.join(choices)}"


def _named(option: Option, meant: resolve.Wanted) -> str:
    name = meant.nodes[option.target].provider.name
    return f"{name} ({', '.join(option.classes)})"


def _fits(option: Option, text: str, meant: resolve.Wanted) -> bool:
    """Whether an option is what evidence calls so: by its provider, or by the class it gives."""
    node = meant.nodes[option.target]
    return text in (node.provider.name, *option.classes) or text.lower() == option.target
