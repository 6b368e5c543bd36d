# SPDX-License-Identifier: Apache-2.0
"""The allocations that must move, as requests, and what is free for them. Pure.

The allocation of a consumer on a provider moves whole, unless evidence splits it. Classes with the
same possible providers (VCPU and MEMORY_MB of one NUMA node) stay together::

    4 VGPU of cn1 move to gpu0, 4 to gpu1; server a has 4 of them, server b has 1
    without evidence   a and b have two options each: the search or a strategy decides
    assign: {a: gpu0}  a moves to gpu0, and so b to gpu1
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement.model import inventory
from osc_placement.search import placing
from osc_placement.search.placing import Option, Slot
from osc_placement.workflows.reshape import documents, resolve, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class ConsumerRequest:
    """Amounts of one consumer on one source that move or stay together: ``{class: amount}``.

    All are positive. Each option is one provider (``root_uuid``), with the new classes of the
    resources. An amount is never split, because Placement never serves a class of one request group
    from two providers. ``assigned`` is set where evidence decides.
    """

    consumer: str
    source: str
    resources: Mapping[str, int]
    options: tuple[Option, ...]
    assigned: Option | None = None

    def slots(self) -> set[Slot]:
        """The slots of all options."""
        return {slot for option in self.options for slot in option.amounts}

    @property
    def possible(self) -> tuple[Option, ...]:
        """The options that evidence leaves."""
        return self.options if self.assigned is None else (self.assigned,)


@dataclasses.dataclass(frozen=True, slots=True)
class OfferedSlot:
    """A slot that can receive amounts: its inventory after the reshape, and what stays there.

    ``present`` is the part of ``used`` that belongs to moving consumers, and that they keep:
    ``{consumer: amount}``.
    """

    inventory: inventory.Inventory
    used: int = 0
    present: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def free(self) -> int:
        """The unused capacity."""
        return max(0, self.inventory.capacity - self.used)

    def sum_rule(self, consumer: str) -> placing.SumRule:
        """The units that the sum of a consumer's amounts must suit."""
        offered, present = self.inventory, self.present.get(consumer, 0)
        return placing.SumRule(present, offered.min_unit, offered.max_unit, offered.step_size)


def find_requests(
    before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> tuple[list[ConsumerRequest], list[str]]:
    """All requests, by consumer; and the evidence that does not fit."""
    slots = _slots_by_source(resolved)
    evidence = {item.consumer: item for item in resolved.document.assign}
    requests: list[ConsumerRequest] = []
    reasons = [
        _reason(item, resolved, " has no allocation in these trees")
        for item in evidence.values()
        if item.consumer not in before.consumers
    ]
    for uuid, consumer in sorted(before.consumers.items()):
        own = [
            _request(uuid, source, resources, slots)
            for source, allocation in sorted(consumer.allocations.items())
            for resources in _together(source, allocation, slots)
        ]
        if uuid in evidence:
            own, problems = _assign(own, evidence[uuid], slots, resolved)
            reasons += [_reason(evidence[uuid], resolved, problem) for problem in problems]
        requests += own
    return requests, reasons


def _reason(item: documents.ConsumerEvidence, resolved: resolve.Resolved, problem: str) -> str:
    return f"{resolved.document.at(item.line)}consumer {item.consumer}{problem}"


#: ``{slot: the slots that its amounts move to}``
_Slots = Mapping[Slot, Sequence[Slot]]


def _slots_by_source(resolved: resolve.Resolved) -> _Slots:
    """The slots that each source moves to; one that keeps an amount is one itself."""
    by_source: dict[Slot, list[Slot]] = {}
    for move in resolved.moves:
        by_source.setdefault(move.source, []).append(move.to)
    for (source, name), slots in by_source.items():
        if name in resolved.nodes[source].inventories and (source, name) not in slots:
            slots.append((source, name))
    return by_source


def _together(
    source: str, allocation: Mapping[str, int], slots: _Slots
) -> Iterable[Mapping[str, int]]:
    """The amounts of an allocation that move; those with the same providers together."""
    together: dict[tuple[str, ...], dict[str, int]] = {}
    for name, amount in sorted(allocation.items()):
        if (source, name) in slots:
            providers = tuple(uuid for uuid, _ in slots[source, name])
            together.setdefault(providers, {})[name] = amount
    return together.values()


def _request(
    consumer: str, source: str, resources: Mapping[str, int], slots: _Slots
) -> ConsumerRequest:
    options = []
    for row in zip(*(slots[source, name] for name in resources), strict=True):
        amounts: dict[Slot, int] = {}
        for slot, amount in zip(row, resources.values(), strict=True):
            amounts[slot] = amounts.get(slot, 0) + amount
        options.append(Option(row[0][0], amounts))
    return ConsumerRequest(consumer, source, resources, tuple(options))


def _assign(
    requests: Sequence[ConsumerRequest],
    item: documents.ConsumerEvidence,
    slots: _Slots,
    resolved: resolve.Resolved,
) -> tuple[list[ConsumerRequest], list[str]]:
    """The requests of one consumer with its evidence, which may split them; and its errors."""
    if not requests:
        return [], [" has no allocation that moves"]
    moving = {name for request in requests for name in request.resources}
    problems = [
        f" has no {name} that moves"
        for name in sorted({*item.options, *item.parts} - {"", *moving})
    ]
    everywhere = {text for name, text in item.options.items() if not name}
    options = [option for request in requests for option in request.options]
    for text in everywhere:
        if not any(_fits(option, [text], resolved) for option in options):
            problems.append(f": no part of its allocations can move to {text!r}")
    assigned = []
    for request in requests:
        for resources, source in _parts(request.resources, item):
            part = _request(request.consumer, request.source, resources, slots)
            texts = source or everywhere
            fitting = [option for option in part.options if _fits(option, texts, resolved)]
            if texts and len(fitting) == 1:
                part = dataclasses.replace(part, assigned=fitting[0])
            elif source or (texts and fitting):
                problems.append(_misfit(part, texts, resolved, is_ambiguous=bool(fitting)))
            assigned.append(part)
        for name in sorted(item.parts.keys() & request.resources.keys()):
            total = sum(item.parts[name].values())
            if total != request.resources[name]:
                what = f"{total} {name} are assigned"
                problems.append(f": {what}, and it has {request.resources[name]}")
    return assigned, problems


def _parts(
    resources: Mapping[str, int], item: documents.ConsumerEvidence
) -> Iterator[tuple[Mapping[str, int], Collection[str]]]:
    """The parts of a request, each with the evidence for its classes alone."""
    whole = {name: amount for name, amount in resources.items() if name not in item.parts}
    if whole:
        yield whole, {text for name, text in item.options.items() if name in whole}
    for name in sorted(resources.keys() & item.parts.keys()):
        for text, amount in item.parts[name].items():
            yield {name: amount}, {text}


def _fits(option: Option, texts: Iterable[str], resolved: resolve.Resolved) -> bool:
    """Whether evidence means this option, by its provider or by a class."""
    uuid = option.root_uuid
    names = {resolved.name_of(uuid), uuid, *(name for _, name in option.amounts)}
    return all(text in names or text.lower() == uuid for text in texts)


def _misfit(
    request: ConsumerRequest,
    texts: Iterable[str],
    resolved: resolve.Resolved,
    *,
    is_ambiguous: bool,
) -> str:
    what = f": {', '.join(request.resources)} to {' and '.join(sorted(texts))!r}"
    options = sorted(
        f"{resolved.name_of(option.root_uuid)} ({', '.join(name for _, name in option.amounts)})"
        for option in request.options
    )
    if is_ambiguous:
        return f"{what} is ambiguous between {' and '.join(options)}: name the new class"
    return f"{what} is not possible: the options are {', '.join(options)}"


def find_offered(
    requests: Iterable[ConsumerRequest], before: snapshot.TreeSnapshot, resolved: resolve.Resolved
) -> dict[Slot, OfferedSlot]:
    """The slots of all options: those of the document's moves first, in their order."""
    leaving: dict[Slot, dict[str, int]] = {}
    for request in requests:
        for name, amount in request.resources.items():
            amounts = leaving.setdefault((request.source, name), {})
            amounts[request.consumer] = amounts.get(request.consumer, 0) + amount
    kept: dict[Slot, dict[str, int]] = {}
    for consumer, item in sorted(before.consumers.items()):
        for uuid, resources in item.allocations.items():
            for name, amount in resources.items():
                if consumer not in leaving.get((uuid, name), {}):
                    kept.setdefault((uuid, name), {})[consumer] = amount
    order = {move.to: at for at, move in enumerate(resolved.moves)}
    slots = {slot for request in requests for slot in request.slots()}
    offered = {}
    for slot in sorted(slots, key=lambda slot: (order.get(slot, len(order)), slot)):
        uuid, name = slot
        inventory_after = resolved.nodes[uuid].inventories.get(name)
        used = before.nodes[uuid].used.get(name, 0) if uuid in before.nodes else 0
        if inventory_after is not None:
            used -= sum(leaving.get(slot, {}).values())
            offered[slot] = OfferedSlot(inventory_after, used, kept.get(slot, {}))
    return offered
