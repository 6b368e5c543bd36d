# SPDX-License-Identifier: Apache-2.0
"""The repair of a consumer, its change in a plan, and what the checks share. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Any

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change, plan, reasons
from osc_placement.plan.change import Precondition
from osc_placement.plan.kinds import allocations as kinds_allocations, registry
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud.cloud import Cloud, Owner
from osc_placement.workflows.cloud.problem import ProblemCode
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.allocations.ports import Bindings
from osc_placement.workflows.repair.findings import Evidence, Finding, Proposal, Remedy


@dataclasses.dataclass(frozen=True, slots=True)
class Repair:
    """The change of a consumer: ``parts`` replaces its allocations by provider, empty removes.

    ``owner`` replaces its owner; a type of None keeps the type. ``precondition``: what nova must
    still report just before the write. ``bindings``: providers for the binding profiles of
    ports. ``frees``: it only removes, and so comes first.
    """

    parts: allocation.Allocations = dataclasses.field(default_factory=dict)
    owner: Owner | None = None
    precondition: Precondition | None = None
    bindings: Bindings = dataclasses.field(default_factory=dict)
    frees: bool = False

    def apply(self, before: allocation.Consumer) -> allocation.Consumer:
        """The repaired consumer."""
        parts = {**before.allocations, **self.parts}
        after = dataclasses.replace(
            before, allocations={uuid: part for uuid, part in parts.items() if part}
        )
        if self.owner is None:
            return after
        return dataclasses.replace(
            after,
            project_id=self.owner.project_id,
            user_id=self.owner.user_id,
            consumer_type=self.owner.type or before.consumer_type,
        )


def observed_plan(planned: plan.Plan, snapshot: Cloud) -> plan.ObservedPlan:
    """The plan with the consumers that were read one by one, so that none is read again."""
    observed = {
        change.key(kinds_allocations.TYPE.name, item.subject): kinds_allocations.observed(
            snapshot.consumer(item.subject.uuid)
        )
        for item in planned.changes
        if item.subject.uuid in snapshot.owners
    }
    return plan.ObservedPlan(planned, observed)


def change_of(
    snapshot: Cloud,
    subject: change.Subject,
    repairs: Iterable[Repair],
    reason: str,
    stage: int = 0,
) -> change.Change[Any]:
    """The change of a consumer by some repairs, and of the binding profiles of its ports."""
    before = after = snapshot.consumer(subject.uuid)
    precondition: Precondition | None = None
    bindings: Bindings = {}
    for repair in repairs:
        after = repair.apply(after)
        precondition = repair.precondition or precondition
        bindings |= repair.bindings
    planned = kinds_allocations.planned(
        subject.name, before, after, reason=reason, stage=stage, precondition=precondition
    )
    if not bindings:
        return planned
    ports = [port for port in snapshot.ports[subject.uuid] if port.uuid in bindings]
    allocated = {port.uuid: port.allocation for port in ports}
    return kinds_allocations.with_ports(planned, allocated, bindings)


def provider_names(planned: plan.Plan, snapshot: Cloud) -> dict[str, str]:
    """The names of the providers in a plan."""
    uuids = {
        uuid
        for item in planned.items()
        for state in (item.before, item.after)
        if state is not None
        for uuid in registry.CHANGE_TYPES[item.kind].providers(state)
    }
    return {uuid: name for uuid, name in snapshot.provider_names.items() if uuid in uuids}


#: A finding about allocations.
AllocationFinding = Finding[Repair]


@dataclasses.dataclass(frozen=True, slots=True)
class AuditContext:
    """What the audit knows besides the snapshot.

    ``now`` (UTC) and ``min_age`` (seconds) exclude recent changes. ``computes``: the providers
    with the trait COMPUTE_NODE, which nova-compute sets. ``one_time_use``: one-time-use devices,
    read if a class without capacity is in use. ``other_service``: why a consumer that nova does not
    know may be another service's; empty if it cannot. ``hosts`` and ``consumers``: those that the
    operator named. ``request``: how heal would create allocations.
    """

    now: datetime.datetime
    min_age: float = 0.0
    computes: frozenset[str] = frozenset()
    one_time_use: frozenset[str] = frozenset()
    other_service: str = ""
    hosts: frozenset[str] = frozenset()
    consumers: frozenset[str] = frozenset()
    request: HealRequest = dataclasses.field(default_factory=HealRequest)

    def too_young(self, times: Iterable[str]) -> Reason:
        """Why a change at one of these times is too recent to repair; empty if none is.

        A time in the future by more than ``min_age`` is another clock's.
        """
        ages = [abs((self.now - _parse_time(time)).total_seconds()) for time in times if time]
        least = min(ages, default=self.min_age)
        if least >= self.min_age:
            return reasons.NONE
        return Reason(Code.RECENT_CHANGE, f"it changed {least:.0f} seconds ago (--min-age)")

    def settled(self, finding: AllocationFinding, times: Iterable[str]) -> AllocationFinding:
        """The finding; unknown if it has a repair and one of ``times`` is too recent."""
        reason = self.too_young(times) if finding.repair else reasons.NONE
        return finding.as_unknown(reason) if reason else finding


def format_amounts(resources: allocation.Resources) -> str:
    """``MEMORY_MB=512, VCPU=1``, sorted by class."""
    return ", ".join(f"{name}={amount}" for name, amount in sorted(resources.items())) or "nothing"


def subject_of(server: values.Server) -> change.Subject:
    """The consumer of a server, by the name of the server if nova reports it."""
    return change.Subject(server.name or server.uuid, server.uuid)


def about_server(
    server: values.Server,
    code: ProblemCode,
    hosts: tuple[str, ...],
    cause: Code,
    text: str,
    **fields: Any,
) -> AllocationFinding:
    """A finding about a server, whose repair is not decided yet.

    The evidence has ``fields``, the host of the server and its state.
    """
    state = {
        "server_host": server.host,
        "vm_state": server.vm_state,
        "task_state": server.task_state,
    }
    evidence = Evidence(cause, text, {**state, **fields})
    return Finding(code, subject_of(server), hosts, evidence, Proposal(Remedy.NONE, ""))


def removal(provider_uuids: Iterable[str]) -> allocation.Allocations:
    """The parts of a repair that remove allocations."""
    return {uuid: {} for uuid in provider_uuids}


def propose_removal(snapshot: Cloud, allocations: allocation.Allocations) -> Proposal:
    """The removal of allocations."""
    text = f"remove {describe(snapshot, allocations)}"
    return Proposal(Remedy.REMOVE_ALLOCATIONS, text, {"allocations": allocations})


def describe(snapshot: Cloud, allocations: allocation.Allocations) -> str:
    """``VCPU=1 on cmp-0001; DISK_GB=20 on nfs-share``, sorted by name."""
    parts = sorted(
        (_host_or_name(snapshot, uuid), format_amounts(part)) for uuid, part in allocations.items()
    )
    return "; ".join(f"{amounts} on {name}" for name, amounts in parts) or "nothing"


def _host_or_name(snapshot: Cloud, provider_uuid: str) -> str:
    """The host of a compute node that is the only one of its host; else the provider's name."""
    node = snapshot.compute_nodes.get(provider_uuid)
    if node is None or len(snapshot.nodes_of_host[node.host]) > 1:
        return snapshot.name_of(provider_uuid)
    return node.host


def hosts_of(snapshot: Cloud, provider_uuids: Iterable[str]) -> tuple[str, ...]:
    """The hosts of the providers' trees; the name of a root that is not a compute node."""
    nodes = snapshot.compute_nodes
    roots = {snapshot.root_of(uuid) for uuid in provider_uuids}
    names = {nodes[root].host if root in nodes else snapshot.name_of(root) for root in roots}
    return tuple(sorted(names))


def _parse_time(text: str) -> datetime.datetime:
    """A time from nova, with or without a zone; always UTC."""
    time = datetime.datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
