# SPDX-License-Identifier: Apache-2.0
"""The allocations that must move, their possible targets, and the choice between these. Pure.

The allocation of a consumer on a provider moves whole, unless evidence splits it. Classes with the
same possible targets (VCPU and MEMORY_MB of one NUMA node) stay together. Requests that cannot
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
from osc_placement.search import placing
from osc_placement.search.placing import Slot
from osc_placement.workflows.reshape import assignment, documents, resolve, snapshot
from osc_placement.workflows.reshape.assignment import ConsumerRequest, MoveOption, OfferedSlot

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """A request and its target; ``guess`` is the strategy where only that decided."""

    request: ConsumerRequest
    option: MoveOption
    guess: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeDecision:
    """All requests with their targets, and the snapshots before and after the reshape.

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
        request, by_provider = one.request, amounts[one.request.consumer]
        by_provider[request.source].subtract(request.resources)
        received = request.received(one.option)
        by_provider.setdefault(one.option.provider, collections.Counter()).update(received)
    return {
        uuid: dataclasses.replace(
            consumers[uuid],
            allocations={key: dict(+part) for key, part in by_provider.items() if +part},
        )
        for uuid, by_provider in amounts.items()
    }


def requests(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> tuple[list[ConsumerRequest], list[str]]:
    """All requests, by consumer; and the evidence that does not fit."""
    target_slots = _target_slots(resolved)
    by_consumer = {
        uuid: list(_requests_of(consumer, target_slots))
        for uuid, consumer in sorted(before.consumers.items())
    }
    evidence = {item.consumer: _Evidence(item, resolved) for item in resolved.document.assign}
    for uuid, item in evidence.items():
        item.check(by_consumer.get(uuid, []), is_known=uuid in before.consumers)
    parts = [
        part
        for uuid, items in by_consumer.items()
        for request in items
        for part in (evidence[uuid].apply(request) if uuid in evidence else [request])
    ]
    return parts, [reason for item in evidence.values() for reason in item.reasons]


def _target_slots(resolved: resolve.Resolved) -> dict[Slot, list[Slot]]:
    """The slots that each source slot moves to; one that keeps an amount is one itself."""
    target_slots: dict[Slot, list[Slot]] = {}
    for move in resolved.moves:
        target_slots.setdefault(move.source_slot, []).append(move.target_slot)
    for (source, resource_class), slots in target_slots.items():
        stays = source, resource_class
        if resource_class in resolved.nodes[source].inventories and stays not in slots:
            slots.append(stays)
    return target_slots


def _requests_of(
    consumer: allocation.Consumer, target_slots: Mapping[Slot, Sequence[Slot]]
) -> Iterator[ConsumerRequest]:
    for source, resources in sorted(consumer.allocations.items()):
        together: dict[tuple[str, ...], dict[str, int]] = {}
        for resource_class, amount in sorted(resources.items()):
            if slots := target_slots.get((source, resource_class)):
                key = tuple(target for target, _ in slots)
                together.setdefault(key, {})[resource_class] = amount
        for targets, amounts in together.items():
            options = tuple(
                MoveOption(
                    target, tuple(target_slots[source, name][position][1] for name in amounts)
                )
                for position, target in enumerate(targets)
            )
            yield ConsumerRequest(consumer.uuid, source, amounts, options)


class _Evidence:
    """The evidence on one consumer, applied to its requests."""

    def __init__(self, item: documents.ConsumerEvidence, resolved: resolve.Resolved) -> None:
        self.reasons: list[str] = []
        self._item, self._resolved = item, resolved

    def check(self, requests: Sequence[ConsumerRequest], *, is_known: bool) -> None:
        """Evidence for all classes must fit one of them; other classes must move."""
        if not requests:
            trees = (
                "has no allocation that moves" if is_known else "has no allocation in these trees"
            )
            self._add_problem(f" {trees}")
            return
        text = self._item.targets.get("")
        if text and not any(
            self._fits(option, text) for request in requests for option in request.options
        ):
            self._add_problem(f": no part of its allocations can move to {text!r}")
        for resource_class in sorted({*self._item.targets, *self._item.parts} - {""}):
            if not any(resource_class in request.resources for request in requests):
                self._add_problem(f" has no {resource_class} that moves")

    def apply(self, request: ConsumerRequest) -> list[ConsumerRequest]:
        """The request with its target; or one per part if evidence splits it."""
        split = [name for name in request.resources if name in self._item.parts]
        if not split:
            return [self._assign(request, self._item.targets)]
        rest = {name: amount for name, amount in request.resources.items() if name not in split}
        assigned = [self._assign(_part(request, rest), self._item.targets)] if rest else []
        for name in split:
            amounts = self._item.parts[name]
            if sum(amounts.values()) != request.resources[name]:
                what = f"{sum(amounts.values())} {name} are assigned"
                self._add_problem(f": {what}, and it has {request.resources[name]}")
            parts = [
                self._assign(_part(request, {name: amount}), {name: text})
                for text, amount in amounts.items()
            ]
            if len({part.assigned for part in parts}) < len(parts):
                self._add_problem(f": {name} is assigned twice to the same target")
            assigned += parts
        return assigned

    def _assign(self, request: ConsumerRequest, targets: Mapping[str, str]) -> ConsumerRequest:
        texts = {text for name, text in targets.items() if name in request.resources}
        is_whole = not texts
        if is_whole:
            texts = {text for name, text in targets.items() if not name}
        fitting = [
            option for option in request.options if all(self._fits(option, text) for text in texts)
        ]
        if texts and len(fitting) == 1:
            return dataclasses.replace(request, assigned=fitting[0])
        if texts and (fitting or not is_whole):
            self._add_problem(f": {self._misfit(request, texts, ambiguous=bool(fitting))}")
        return request

    def _misfit(self, request: ConsumerRequest, texts: Iterable[str], *, ambiguous: bool) -> str:
        what = f"{', '.join(request.resources)} to {' and '.join(sorted(texts))!r}"
        choices = sorted(
            f"{self._resolved.name_of(option.provider)} ({', '.join(option.classes)})"
            for option in request.options
        )
        if ambiguous:
            return f"{what} is ambiguous between {' and '.join(choices)}: name the new class"
        return f"{what} is not possible: the targets are {', '.join(choices)}"

    def _fits(self, option: MoveOption, text: str) -> bool:
        """Whether evidence means this option, by its provider or by a class."""
        name = self._resolved.name_of(option.provider)
        return text in (name, *option.classes) or text.lower() == option.provider

    def _add_problem(self, what: str) -> None:
        where = self._resolved.document.at(self._item.line)
        self.reasons.append(f"{where}consumer {self._item.consumer}{what}")


def _part(request: ConsumerRequest, resources: Mapping[str, int]) -> ConsumerRequest:
    """Some classes of a request, or a part of one class."""
    kept = [position for position, name in enumerate(request.resources) if name in resources]
    options = tuple(
        MoveOption(option.provider, tuple(option.classes[position] for position in kept))
        for option in request.options
    )
    return dataclasses.replace(request, resources=resources, options=options)


#: The default time limit in seconds.
TIMEOUT = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class AssignOptions:
    """The strategy where evidence leaves a choice, and the time limit in seconds."""

    strategy: assignment.Strategy | None = None
    timeout: float = TIMEOUT


def assign(
    requests: Sequence[ConsumerRequest],
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
    options: AssignOptions,
) -> tuple[list[Placed], list[str]]:
    """The target of each request, and why requests cannot be placed."""
    end = time.monotonic() + options.timeout
    offered_slots = _offered_slots(requests, before, resolved)
    names = {**before.names(), **{uuid: resolved.name_of(uuid) for uuid in resolved.nodes}}
    placed: list[Placed] = []
    reasons: list[str] = []
    for group in placing.separate(requests, lambda request: request.slots):
        LOG.debug("assigning targets to %d allocations", len(group))
        seconds = max(end - time.monotonic(), 0.1)
        answer = assignment.assign(group, offered_slots, options.strategy, seconds, names)
        if isinstance(answer, assignment.Assigned):
            for request, option in zip(group, answer.targets, strict=True):
                is_guess = request.consumer in answer.guessed and request.assigned is None
                placed.append(Placed(request, option, str(options.strategy) if is_guess else ""))
        else:
            classes = ", ".join(sorted({name for request in group for name in request.resources}))
            sources = sorted({before.name_of(request.source) for request in group})
            what = f"the {classes} of {', '.join(sources)}"
            reasons.append(_explain(answer, what, options))
    return placed, reasons


def _offered_slots(
    requests: Sequence[ConsumerRequest],
    before: snapshot.TreeSnapshot,
    resolved: resolve.Resolved,
) -> dict[Slot, OfferedSlot]:
    """The slots that requests may move to: those of the document's moves first, in their order."""
    moving: dict[Slot, dict[str, int]] = {}
    for request in requests:
        for name, amount in request.resources.items():
            amounts = moving.setdefault((request.source, name), {})
            amounts[request.consumer] = amounts.get(request.consumer, 0) + amount
    order = {move.target_slot: at for at, move in enumerate(resolved.moves)}
    slots = set().union(*(request.slots for request in requests))
    offered_slots = {}
    for uuid, name in sorted(slots, key=lambda slot: (order.get(slot, len(order)), slot)):
        offered, node = resolved.nodes[uuid].inventories.get(name), before.nodes.get(uuid)
        if offered is None:
            continue
        leaving = moving.get((uuid, name), {})
        used = node.used.get(name, 0) if node is not None else 0
        present = before.consumers_of(uuid, name)
        offered_slots[uuid, name] = OfferedSlot(
            offered,
            used - sum(leaving.values()),
            {consumer: present[consumer] for consumer in present.keys() - leaving.keys()},
        )
    return offered_slots


def _explain(answer: assignment.Answer, what: str, options: AssignOptions) -> str:
    """Why the requests of a group have no targets."""
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
