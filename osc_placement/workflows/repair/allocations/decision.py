# SPDX-License-Identifier: Apache-2.0
"""What to heal, and what each server lacks and gets: allocations, its owner, its ports. Pure.

Heal plans these decisions, the audit reports them. The oldest server
is first, as in nova-manage, because each decision reduces the free capacity for the next. Where
several allocations are possible, one is taken if it is certain or if the operator decides; a choice
that is not certain is marked as guessed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change, reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud.cloud import Cloud, Owner
from osc_placement.workflows.cloud.server_moves import ON_NO_HOST, move_of
from osc_placement.workflows.repair.allocations import expected, ports, wrong
from osc_placement.workflows.repair.allocations.comparable import elsewhere, skip_reason
from osc_placement.workflows.repair.allocations.expected import (
    Expected,
    FreeCapacity,
    HealOption,
    NoRepair,
)
from osc_placement.workflows.repair.allocations.heal_request import PACK, HealOptions, HealRequest
from osc_placement.workflows.repair.allocations.ports import Bindings
from osc_placement.workflows.repair.allocations.preconditions import precondition_of
from osc_placement.workflows.repair.allocations.repair import Repair, format_amounts

LOG = logging.getLogger(__name__)


_AUDIT = "run 'openstack placement allocation audit'"
_ELSEWHERE = "it has allocations on {names}, where it is not: {audit}"
_WRONG_SIZE = "it has {held}, but its flavor requests {requested}: {audit}"
_NOTHING = Reason(Code.REQUESTS_NOTHING, "its flavor requests nothing")


@dataclasses.dataclass(frozen=True, slots=True)
class HealDecision:
    """A server's consumer, and what it gets; ``repair`` is None if it stays as it is.

    ``reason`` describes the repair, or says why there is none. ``refused``: the server lacks
    something and does not get it.
    """

    server: values.Server
    before: allocation.Consumer
    reason: Reason = reasons.NONE
    repair: Repair | None = None
    refused: bool = False


def decide(snapshot: Cloud, request: HealRequest) -> Iterator[HealDecision]:
    """The decision for each server in scope, from what ``HealReader.read_missing`` read."""
    deciding = _Deciding(snapshot, request)
    for server in request.scope.select(snapshot.servers.values()):
        decision = deciding.decide(server)
        action = "change" if decision.repair else "skip"
        if decision.reason:
            LOG.info("server %s: %s: %s", server.uuid, action, decision.reason)
        else:
            LOG.debug("server %s: has its allocations", server.uuid)
        yield decision


class _Deciding:
    def __init__(self, snapshot: Cloud, request: HealRequest) -> None:
        self._snapshot, self._request = snapshot, request
        self._free = FreeCapacity(snapshot)

    def decide(self, server: values.Server) -> HealDecision:
        move = move_of(self._snapshot, server)
        before = self._snapshot.consumer(server.uuid)
        reason = skip_reason(self._snapshot, server, move)
        if reason:
            needs_nothing = move.absent in ON_NO_HOST or server.vm_state == "soft-delete"
            refused = not before.allocations and not needs_nothing
            return HealDecision(server, before, reason, refused=refused)
        if move.node is None:
            raise AssertionError(server)
        own = wrong.on_roots(self._snapshot, before.allocations, move.shared | {move.node.uuid})
        # After an evacuation a server may hold its source too, but not alone.
        away = elsewhere(self._snapshot, server, move) if own else [*before.allocations]
        unallocated = ports.unallocated(self._snapshot, server)
        if not before.allocations or (unallocated and not away):
            return self._allocate(server, before, move.node.uuid)
        return self._keep(server, before, self._why_wrong(server, own, away, move.node.uuid))

    def _allocate(
        self, server: values.Server, before: allocation.Consumer, root: str
    ) -> HealDecision:
        """Everything that a server lacks, or what its ports lack."""
        options, names = self._request.options, self._snapshot.provider_names
        try:
            lacking = expected.expect(self._snapshot, server, root)
            if any(not option.allocations for option in lacking.options):
                return HealDecision(server, before, _NOTHING)
            option, guessed = choose(before, lacking, self._free, options, names)
        except NoRepair as error:
            return HealDecision(server, before, error.reason, refused=True)
        self._free.allocate(option.allocations)
        reason = self._describe(option.allocations, root)
        if guessed:
            reason = f"guessed ({guessed}): {reason}"
        allocations = {
            uuid: allocation.add_resources(before.allocations.get(uuid, {}), resources)
            for uuid, resources in option.allocations.items()
        }
        consumer_type = None if before.allocations else self._request.consumer_type
        owner = Owner(server.project_id, server.user_id, consumer_type)
        bindings = self._bindings(server, option)
        repair = Repair(allocations, owner, precondition_of(server), bindings)
        return HealDecision(server, before, Reason(text=reason), repair)

    def _bindings(self, server: values.Server, option: expected.HealOption) -> Bindings:
        if not self._request.bind:
            return {}
        return {
            port.uuid: {group: option.ports[group] for group in port.groups}
            for port in ports.unallocated(self._snapshot, server)
        }

    def _keep(
        self, server: values.Server, before: allocation.Consumer, why_wrong: Reason
    ) -> HealDecision:
        """A server with allocations: its owner and its ports' bindings may be wrong."""
        if server.uuid not in self._snapshot.owners:
            return HealDecision(server, before, why_wrong)
        owner, bindings = Owner(server.project_id, server.user_id), Bindings()
        if self._request.bind and not why_wrong:
            bindings = ports.missing_bindings(self._snapshot, server)
        texts = [ports.describe(self._snapshot, bindings), _owner_change(before, owner)]
        if not any(texts):
            return HealDecision(server, before, why_wrong)
        reason = Reason(text="; ".join(filter(None, [*texts, why_wrong.text])))
        repair = Repair({}, owner, precondition_of(server), bindings)
        return HealDecision(server, before, reason, repair)

    def _why_wrong(
        self, server: values.Server, own: allocation.Allocations, away: list[str], root: str
    ) -> Reason:
        """What is wrong with allocations that heal does not change; the audit repairs them."""
        if away:
            names = ", ".join(sorted(set(map(self._snapshot.name_of, away))))
            return Reason(Code.WRONG_HOST, _ELSEWHERE.format(names=names, audit=_AUDIT))
        total = allocation.add_resources(*own.values())
        requested = wrong.compare(self._snapshot, server, root, total, total).wrong if own else {}
        if not requested:
            return reasons.NONE
        held, needed = format_amounts(total), format_amounts(requested)
        text = _WRONG_SIZE.format(held=held, requested=needed, audit=_AUDIT)
        return Reason(Code.WRONG_SIZE, text)

    def _describe(self, allocations: allocation.Allocations, root: str) -> str:
        """``on cmp-0001: VCPU=1, MEMORY_MB=2048; nfs-share: DISK_GB=20``, the root first."""
        name_of = self._snapshot.name_of
        ordered = sorted(allocations, key=lambda uuid: (uuid != root, name_of(uuid)))
        return "on " + "; ".join(
            f"{name_of(uuid)}: {format_amounts(allocations[uuid])}" for uuid in ordered
        )


def _owner_change(before: allocation.Consumer, after: Owner) -> str:
    """``project acme instead of 0000``, and the same for the user; empty without a change."""
    fields = (
        ("project", before.project_id, after.project_id),
        ("user", before.user_id, after.user_id),
    )
    return "; ".join(f"{name} {new} instead of {old}" for name, old, new in fields if old != new)


_SHOWN = 3
_DECIDES = "placement allocation heal --assign or --strategy decides"


def choose(
    before: allocation.Consumer,
    expected: Expected,
    free: FreeCapacity,
    options: HealOptions,
    names: change.Names,
) -> tuple[HealOption, str]:
    """The option for one consumer, of those for which there is capacity; and how it was guessed.

    The text is empty if the option is certain. Raises NoRepair.
    """
    shortages = [
        free.shortages(option.allocations, before.allocations) for option in expected.options
    ]
    fitting = [
        option for option, short in zip(expected.options, shortages, strict=True) if not short
    ]
    if not fitting:
        raise NoRepair(reasons.first_of(min(shortages, key=len)))
    assigned = options.assigned.get(before.uuid)
    if assigned is not None:
        return _assigned(assigned, fitting, names), "as assigned"
    if len(fitting) == 1 and not expected.doubts:
        return fitting[0], ""
    doubts = list(expected.doubts)
    if len(fitting) > 1:
        doubts.insert(0, f"it is on {_alternatives(fitting, names)}")
    if options.strategy is None:
        text = f"ambiguous: {'; '.join(doubts)} ({_DECIDES})"
        raise NoRepair(Reason(Code.AMBIGUOUS, text))
    return _by_strategy(options.strategy, fitting, free), options.strategy


def _assigned(
    assigned: frozenset[str], fitting: Sequence[HealOption], names: change.Names
) -> HealOption:
    matching = [
        option
        for option in fitting
        if assigned <= {*option.allocations, *(names.get(uuid) for uuid in option.allocations)}
    ]
    if len(matching) == 1:
        return matching[0]
    text = ", ".join(sorted(names.get(label, label) for label in assigned))
    if not matching:
        why_not = f"it cannot be on {text}, only on {_alternatives(fitting, names)}"
        raise NoRepair(Reason(Code.NOT_POSSIBLE, why_not))
    why_not = f"ambiguous: on {text} it is on {_alternatives(matching, names)} (assign more)"
    raise NoRepair(Reason(Code.AMBIGUOUS, why_not))


def _by_strategy(strategy: str, fitting: Sequence[HealOption], free: FreeCapacity) -> HealOption:
    """The first of the best; allocations that all options have in common do not count."""
    utilizations = [free.utilization(_distinctive(option, fitting)) for option in fitting]
    best: Callable[[list[float]], float] = max if strategy == PACK else min
    return fitting[utilizations.index(best(utilizations))]


def _distinctive(
    option: HealOption, options: Sequence[HealOption]
) -> dict[str, allocation.Resources]:
    """The allocations of an option that another option does not have."""
    return {
        uuid: resources
        for uuid, resources in option.allocations.items()
        if any(other.allocations.get(uuid) != resources for other in options)
    }


def _alternatives(options: Sequence[HealOption], names: change.Names) -> str:
    """``gpu0 or gpu1``: the providers by which options differ; all providers of a single one."""
    texts = []
    for option in options:
        uuids = _distinctive(option, options) or option.allocations
        texts.append(" and ".join(sorted(names.get(uuid, uuid) for uuid in uuids)))
    more = len(texts) - _SHOWN
    shown = texts[:_SHOWN] + ([f"one of {more} more"] if more > 0 else [])
    return " or ".join(dict.fromkeys(shown))
