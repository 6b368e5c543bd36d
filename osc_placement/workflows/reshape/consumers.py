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

import dataclasses
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from osc_placement.model import allocation
from osc_placement.search import placing
from osc_placement.workflows.reshape import assignment, documents, resolve, snapshot

LOG = logging.getLogger(__name__)


class Destination(NamedTuple):
    """A possible target of a demand; ``classes`` are the new classes of its resources, in order."""

    target: str
    classes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MovingAllocation:
    """An allocation of a consumer on one provider that must move or be kept, or a part of one.

    ``assigned`` is set where evidence decides.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    options: tuple[Destination, ...]
    assigned: Destination | None = None

    @property
    def possible(self) -> tuple[Destination, ...]:
        """The options that evidence leaves."""
        return self.options if self.assigned is None else (self.assigned,)


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A demand and its target; ``guess`` is the strategy where only that decided."""

    demand: MovingAllocation
    option: Destination
    guess: str = ""

    @property
    def move(self) -> snapshot.AllocationMove:
        received: dict[str, int] = {}
        for name, amount in zip(self.option.classes, self.demand.resources.values(), strict=True):
            received[name] = received.get(name, 0) + amount
        demand = self.demand
        return snapshot.AllocationMove(
            demand.consumer, demand.source, demand.resources, self.option.target, received
        )


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
    after = before.after(resolved.nodes, [one.move for one in placed])
    return ReshapeDecision(resolved, placed, before, after)


def demands(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> tuple[list[MovingAllocation], list[str]]:
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


def _destinations(resolved: resolve.Resolved) -> dict[resolve.Place, list[resolve.Place]]:
    """The possible destinations of each origin; an origin that keeps an amount is one itself."""
    destinations: dict[resolve.Place, list[resolve.Place]] = {}
    for move in resolved.moves:
        destinations.setdefault(move.origin, []).append(move.destination)
    for (source, resource_class), places in destinations.items():
        stays = source, resource_class
        if resource_class in resolved.nodes[source].inventories and stays not in places:
            places.append(stays)
    return destinations


def _demands_of(
    consumer: allocation.Consumer, destinations: Mapping[resolve.Place, Sequence[resolve.Place]]
) -> Iterator[MovingAllocation]:
    for source, resources in sorted(consumer.allocations.items()):
        together: dict[tuple[str, ...], dict[str, int]] = {}
        for resource_class, amount in sorted(resources.items()):
            if places := destinations.get((source, resource_class)):
                key = tuple(target for target, _ in places)
                together.setdefault(key, {})[resource_class] = amount
        for targets, amounts in together.items():
            options = tuple(
                Destination(
                    target, tuple(destinations[source, name][position][1] for name in amounts)
                )
                for position, target in enumerate(targets)
            )
            yield MovingAllocation(consumer.uuid, source, amounts, options)


class _Evidence:
    """The evidence on one consumer, applied to its demands."""

    def __init__(self, item: documents.ConsumerEvidence, resolved: resolve.Resolved) -> None:
        self.reasons: list[str] = []
        self._item, self._resolved = item, resolved

    def check(self, demands: Sequence[MovingAllocation], *, is_known: bool) -> None:
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

    def apply(self, demand: MovingAllocation) -> list[MovingAllocation]:
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

    def _assign(self, demand: MovingAllocation, targets: Mapping[str, str]) -> MovingAllocation:
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

    def _misfit(self, demand: MovingAllocation, texts: Iterable[str], *, ambiguous: bool) -> str:
        what = f"{', '.join(demand.resources)} to {' and '.join(sorted(texts))!r}"
        choices = sorted(
            f"{self._resolved.name_of(option.target)} ({', '.join(option.classes)})"
            for option in demand.options
        )
        if ambiguous:
            return f"{what} is ambiguous between {' and '.join(choices)}: name the new class"
        return f"{what} is not possible: the targets are {', '.join(choices)}"

    def _fits(self, option: Destination, text: str) -> bool:
        """Whether evidence means this option, by its provider or by a class."""
        name = self._resolved.name_of(option.target)
        return text in (name, *option.classes) or text.lower() == option.target

    def _add_problem(self, what: str) -> None:
        where = self._resolved.document.at(self._item.line)
        self.reasons.append(f"{where}consumer {self._item.consumer}{what}")


def _part(demand: MovingAllocation, resources: Mapping[str, int]) -> MovingAllocation:
    """Some classes of a demand, or a part of one class."""
    kept = [position for position, name in enumerate(demand.resources) if name in resources]
    options = tuple(
        Destination(option.target, tuple(option.classes[position] for position in kept))
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
    demands: Sequence[MovingAllocation],
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    options: AssignOptions,
) -> tuple[list[Placed], list[str]]:
    """The target of each demand, and why demands cannot be placed."""
    end = time.monotonic() + options.timeout
    moving: dict[resolve.Place, dict[str, int]] = {}
    for demand in demands:
        for resource_class, amount in demand.resources.items():
            amounts = moving.setdefault((demand.source, resource_class), {})
            amounts[demand.consumer] = amounts.get(demand.consumer, 0) + amount
    placed: list[Placed] = []
    reasons: list[str] = []
    for group in placing.separate(demands, _places):
        LOG.debug("assigning targets to %d allocations", len(group))
        one = _Question(group, before, resolved, moving)
        answer = one.answer(options, max(end - time.monotonic(), 0.1))
        if isinstance(answer, str):
            reasons.append(answer)
        else:
            placed += answer
    return placed, reasons


def _places(demand: MovingAllocation) -> set[resolve.Place]:
    """The places that a demand may compete for."""
    return {(option.target, name) for option in demand.options for name in option.classes}


class _Question:
    """Demands that can compete, as input of ``assign``.

    A target is a provider. Where a class can become several classes on the same provider, it is
    a provider with the new classes: ``<uuid> <classes>``.
    """

    def __init__(
        self,
        demands: Sequence[MovingAllocation],
        before: snapshot.TreeSnapshot,
        resolved: resolve.Resolved,
        moving: Mapping[resolve.Place, Mapping[str, int]],
    ) -> None:
        self._demands, self._before = demands, before
        self._resolved, self._moving = resolved, moving
        becomes: dict[resolve.Place, set[str]] = {}
        for demand in demands:
            for option in demand.options:
                for name, there in zip(demand.resources, option.classes, strict=True):
                    becomes.setdefault((option.target, name), set()).add(there)
        self._ambiguous = {place for place, classes in becomes.items() if len(classes) > 1}

    def answer(self, options: AssignOptions, seconds: float) -> list[Placed] | str:
        """All demands placed; or why they cannot be."""
        inputs = [
            assignment.Demand(
                demand.consumer,
                demand.source,
                demand.resources,
                tuple(self._target_of(demand, option) for option in demand.possible),
                self._source_name(demand),
            )
            for demand in self._demands
        ]
        answer = assignment.assign(inputs, self._targets(), options.strategy, seconds)
        if isinstance(answer, assignment.Assigned):
            return [
                self._placed(demand, target, answer, options)
                for demand, target in zip(self._demands, answer.targets, strict=True)
            ]
        return self._explain(answer, options)

    def _explain(self, answer: assignment.Answer, options: AssignOptions) -> str:
        classes = ", ".join(sorted({name for demand in self._demands for name in demand.resources}))
        sources = sorted({self._before.name_of(demand.source) for demand in self._demands})
        what = f"the {classes} of {', '.join(sources)}"
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

    def _target_name(self, target: str) -> str:
        uuid, _, classes = target.partition(" ")
        name = self._resolved.name_of(uuid)
        return f"{name} ({classes})" if classes else name

    def _source_name(self, demand: MovingAllocation) -> str:
        name = self._before.name_of(demand.source)
        if demand.assigned is None:
            return name
        return f"{name}, assigned to {self._resolved.name_of(demand.assigned.target)},"

    def _target_of(self, demand: MovingAllocation, option: Destination) -> str:
        classes = [
            there
            for name, there in zip(demand.resources, option.classes, strict=True)
            if (option.target, name) in self._ambiguous
        ]
        return f"{option.target} {','.join(classes)}".rstrip()

    def _placed(
        self,
        demand: MovingAllocation,
        target: str,
        answer: assignment.Assigned,
        options: AssignOptions,
    ) -> Placed:
        option = next(
            option for option in demand.options if self._target_of(demand, option) == target
        )
        is_guess = demand.consumer in answer.guessed and demand.assigned is None
        return Placed(demand, option, str(options.strategy) if is_guess else "")

    def _targets(self) -> list[assignment.TargetProvider]:
        """The targets in the order of the document's moves."""
        becomes: dict[str, dict[str, str]] = {}
        for demand in self._demands:
            for option in demand.options:
                target = self._target_of(demand, option)
                pairs = zip(demand.resources, option.classes, strict=True)
                becomes.setdefault(target, {}).update(pairs)
        order = {move.destination: at for at, move in enumerate(self._resolved.moves)}

        def rank(target: str) -> tuple[int, str]:
            uuid = target.partition(" ")[0]
            ranks = [order.get((uuid, there), len(order)) for there in becomes[target].values()]
            return min(ranks), target

        return [self._target(target, becomes[target]) for target in sorted(becomes, key=rank)]

    def _target(self, target: str, becomes: Mapping[str, str]) -> assignment.TargetProvider:
        """A target with the usage that does not move."""
        uuid = target.partition(" ")[0]
        node = self._before.nodes.get(uuid)
        competing = {demand.consumer for demand in self._demands}
        used: dict[str, int] = {}
        present: dict[str, dict[str, int]] = {}
        for name, there in becomes.items():
            moving = self._moving.get((uuid, there), {})
            total = node.used.get(there, 0) if node is not None else 0
            used[name] = total - sum(moving.values())
            for consumer, amount in self._before.consumers_of(uuid, there).items():
                if consumer in competing and consumer not in moving:
                    present.setdefault(consumer, {})[name] = amount
        offered = self._resolved.nodes[uuid].inventories
        return assignment.TargetProvider(
            target,
            {name: offered[there] for name, there in becomes.items() if there in offered},
            used,
            present,
            self._target_name(target),
        )
