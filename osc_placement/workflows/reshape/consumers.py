# SPDX-License-Identifier: Apache-2.0
"""The allocations that must move, their possible targets, and the choice between these. Pure.

The allocation of a consumer on a provider moves whole, unless evidence splits it. Classes with the
same possible targets (VCPU and MEMORY_MB of one NUMA node) stay together. Demands that cannot
compete for a target, of other classes or trees, are assigned separately::

    4 VGPU of cn1 move to gpu0, 4 to gpu1; server a has 4 of them, server b has 1
    without evidence   a and b may move to gpu0 and to gpu1: the search or a strategy decides
    assign: {a: gpu0}  a moves to gpu0, and so b to gpu1
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from osc_placement.model import allocation
from osc_placement.model.allocation import Place
from osc_placement.search import placing
from osc_placement.workflows.reshape import assignment, documents, resolve, snapshot

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A demand and its target; ``guess`` is the strategy where only that decided."""

    demand: assignment.Demand
    option: assignment.Destination
    guess: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeDecision:
    """All demands with their targets, and the snapshots before and after the reshape.

    ``after`` still has the providers that are deleted once they are empty.
    """

    resolved: resolve.Resolved
    placed: Sequence[Placed]
    before: snapshot.TreeSnapshot
    after: snapshot.TreeSnapshot


def decided(
    resolved: resolve.Resolved, placed: Sequence[Placed], before: snapshot.TreeSnapshot
) -> ReshapeDecision:
    """The decision to move these allocations, with the snapshot after it."""
    moved = _moved(before.consumers, placed)
    return ReshapeDecision(resolved, placed, before, before.after(resolved.nodes, moved))


def _moved(
    consumers: Mapping[str, allocation.Consumer], placed: Iterable[Placed]
) -> dict[str, allocation.Consumer]:
    """The consumers after the moves. Providers and classes without an amount are left out."""
    amounts = {
        uuid: {key: collections.Counter(part) for key, part in consumer.allocations.items()}
        for uuid, consumer in consumers.items()
    }
    for one in placed:
        demand, by_provider = one.demand, amounts[one.demand.consumer]
        by_provider[demand.source].subtract(demand.resources)
        received = demand.received(one.option)
        by_provider.setdefault(one.option.target, collections.Counter()).update(received)
    return {
        uuid: dataclasses.replace(
            consumers[uuid],
            allocations={key: dict(+part) for key, part in by_provider.items() if +part},
        )
        for uuid, by_provider in amounts.items()
    }


def demands(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> tuple[list[assignment.Demand], list[str]]:
    """All demands, by consumer; and the evidence that does not fit."""
    destinations = _destinations(resolved)
    by_consumer = {
        uuid: list(_demands_of(consumer, destinations))
        for uuid, consumer in sorted(before.consumers.items())
    }
    evidence = {item.consumer: _Evidence(item, resolved) for item in resolved.document.assign}
    for uuid, item in evidence.items():
        item.check(by_consumer.get(uuid, []), is_known=uuid in before.consumers)
    parts = [
        part
        for uuid, items in by_consumer.items()
        for demand in items
        for part in (evidence[uuid].apply(demand) if uuid in evidence else [demand])
    ]
    return parts, [reason for item in evidence.values() for reason in item.reasons]


def _destinations(resolved: resolve.Resolved) -> dict[Place, list[Place]]:
    """The possible destinations of each origin; an origin that keeps an amount is one itself."""
    destinations: dict[Place, list[Place]] = {}
    for move in resolved.moves:
        destinations.setdefault(move.origin, []).append(move.destination)
    for (source, resource_class), places in destinations.items():
        stays = source, resource_class
        if resource_class in resolved.nodes[source].inventories and stays not in places:
            places.append(stays)
    return destinations


def _demands_of(
    consumer: allocation.Consumer, destinations: Mapping[Place, Sequence[Place]]
) -> Iterator[assignment.Demand]:
    for source, resources in sorted(consumer.allocations.items()):
        together: dict[tuple[str, ...], dict[str, int]] = {}
        for resource_class, amount in sorted(resources.items()):
            if places := destinations.get((source, resource_class)):
                key = tuple(target for target, _ in places)
                together.setdefault(key, {})[resource_class] = amount
        for targets, amounts in together.items():
            options = tuple(
                assignment.Destination(
                    target, tuple(destinations[source, name][position][1] for name in amounts)
                )
                for position, target in enumerate(targets)
            )
            yield assignment.Demand(consumer.uuid, source, amounts, options)


class _Evidence:
    """The evidence on one consumer, applied to its demands."""

    def __init__(self, item: documents.ConsumerEvidence, resolved: resolve.Resolved) -> None:
        self.reasons: list[str] = []
        self._item, self._resolved = item, resolved

    def check(self, demands: Sequence[assignment.Demand], *, is_known: bool) -> None:
        """Evidence for all classes must fit one of them; other classes must move."""
        if not demands:
            trees = (
                "has no allocation that moves" if is_known else "has no allocation in these trees"
            )
            self._add_problem(f" {trees}")
            return
        text = self._item.targets.get("")
        if text and not any(
            self._fits(option, text) for demand in demands for option in demand.options
        ):
            self._add_problem(f": no part of its allocations can move to {text!r}")
        for resource_class in sorted({*self._item.targets, *self._item.parts} - {""}):
            if not any(resource_class in demand.resources for demand in demands):
                self._add_problem(f" has no {resource_class} that moves")

    def apply(self, demand: assignment.Demand) -> list[assignment.Demand]:
        """The demand with its target; or one per part if evidence splits it."""
        split = [name for name in demand.resources if name in self._item.parts]
        if not split:
            return [self._assign(demand, self._item.targets)]
        rest = {name: amount for name, amount in demand.resources.items() if name not in split}
        assigned = [self._assign(_part(demand, rest), self._item.targets)] if rest else []
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
            assigned += parts
        return assigned

    def _assign(self, demand: assignment.Demand, targets: Mapping[str, str]) -> assignment.Demand:
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

    def _misfit(self, demand: assignment.Demand, texts: Iterable[str], *, ambiguous: bool) -> str:
        what = f"{', '.join(demand.resources)} to {' and '.join(sorted(texts))!r}"
        choices = sorted(
            f"{self._resolved.name_of(option.target)} ({', '.join(option.classes)})"
            for option in demand.options
        )
        if ambiguous:
            return f"{what} is ambiguous between {' and '.join(choices)}: name the new class"
        return f"{what} is not possible: the targets are {', '.join(choices)}"

    def _fits(self, option: assignment.Destination, text: str) -> bool:
        """Whether evidence means this option, by its provider or by a class."""
        name = self._resolved.name_of(option.target)
        return text in (name, *option.classes) or text.lower() == option.target

    def _add_problem(self, what: str) -> None:
        where = self._resolved.document.at(self._item.line)
        self.reasons.append(f"{where}consumer {self._item.consumer}{what}")


def _part(demand: assignment.Demand, resources: Mapping[str, int]) -> assignment.Demand:
    """Some classes of a demand, or a part of one class."""
    kept = [position for position, name in enumerate(demand.resources) if name in resources]
    options = tuple(
        assignment.Destination(option.target, tuple(option.classes[position] for position in kept))
        for option in demand.options
    )
    return dataclasses.replace(demand, resources=resources, options=options)


#: The default time limit in seconds.
TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class AssignOptions:
    """The strategy where evidence leaves a choice, and the time limit in seconds."""

    strategy: assignment.Strategy | None = None
    timeout: float = TIMEOUT


def assign(
    demands: Sequence[assignment.Demand],
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    options: AssignOptions,
) -> tuple[list[Placed], list[str]]:
    """The target of each demand, and why demands cannot be placed."""
    end = time.monotonic() + options.timeout
    rooms = _rooms(demands, before, resolved)
    names = {**before.names(), **{uuid: resolved.name_of(uuid) for uuid in resolved.nodes}}
    placed: list[Placed] = []
    reasons: list[str] = []
    for group in placing.separate(demands, lambda demand: demand.places):
        LOG.debug("assigning targets to %d allocations", len(group))
        seconds = max(end - time.monotonic(), 0.1)
        answer = assignment.assign(group, rooms, options.strategy, seconds, names)
        if isinstance(answer, assignment.Assigned):
            for demand, option in zip(group, answer.targets, strict=True):
                is_guess = demand.consumer in answer.guessed and demand.assigned is None
                placed.append(Placed(demand, option, str(options.strategy) if is_guess else ""))
        else:
            classes = ", ".join(sorted({name for demand in group for name in demand.resources}))
            sources = sorted({before.name_of(demand.source) for demand in group})
            what = f"the {classes} of {', '.join(sources)}"
            reasons.append(_explain(answer, what, options))
    return placed, reasons


def _rooms(
    demands: Sequence[assignment.Demand],
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
) -> dict[Place, assignment.Room]:
    """The places that demands may move to: those of the document's moves first, in their order."""
    moving: dict[Place, dict[str, int]] = {}
    for demand in demands:
        for name, amount in demand.resources.items():
            amounts = moving.setdefault((demand.source, name), {})
            amounts[demand.consumer] = amounts.get(demand.consumer, 0) + amount
    order = {move.destination: at for at, move in enumerate(resolved.moves)}
    places = set().union(*(demand.places for demand in demands))
    rooms = {}
    for uuid, name in sorted(places, key=lambda place: (order.get(place, len(order)), place)):
        offered, node = resolved.nodes[uuid].inventories.get(name), before.nodes.get(uuid)
        if offered is None:
            continue
        leaving = moving.get((uuid, name), {})
        used = node.used.get(name, 0) if node is not None else 0
        present = before.consumers_of(uuid, name)
        rooms[uuid, name] = assignment.Room(
            offered,
            used - sum(leaving.values()),
            {consumer: present[consumer] for consumer in present.keys() - leaving.keys()},
        )
    return rooms


def _explain(answer: assignment.Answer, what: str, options: AssignOptions) -> str:
    """Why the demands of a group have no targets."""
    if isinstance(answer, assignment.Undecided):
        return (
            f"{what} has several possible targets for these consumers: assign them, or"
            f" choose a --strategy: {', '.join(answer.consumers)}"
        )
    if isinstance(answer, assignment.Impossible):
        reasons = "; ".join(answer.reasons)
        misfits = f"; these consumers do not fit: {', '.join(answer.consumers)}"
        return f"{what} cannot be placed: {reasons}{misfits if answer.consumers else ''}"
    return (
        f"gave up the search for targets for {what} after {options.timeout:g} seconds, without"
        " a solution or a proof that there is none; assign some consumers"
    )
