# SPDX-License-Identifier: Apache-2.0
"""Servers without allocations or with a wrong owner, as heal decides about them. Pure.

The proposal is what heal would do. A server that heal skips is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations import expected, repair
from osc_placement.workflows.allocations.decision import HealDecision, decide
from osc_placement.workflows.allocations.location import (
    BUILDING,
    CELL_DOWN,
    ON_NO_HOST,
    locate,
    precondition_of,
)
from osc_placement.workflows.allocations.repair import AllocationFinding, AuditContext, Repair
from osc_placement.workflows.allocations.snapshot import CloudSnapshot, Owner
from osc_placement.workflows.findings import UNKNOWN, Evidence, Fields, Finding, Proposal, Remedy

MISSING = "missing"
INCOMPLETE = "incomplete"
WRONG_OWNER = "wrong-owner"
CODES = (MISSING, INCOMPLETE, WRONG_OWNER)

_NOTHING = "it has no allocations"
_LACKS = "it lacks resources that its ports request"
_UNBOUND = "the binding profiles of its ports do not name their providers"
_STUCK = "unchanged since {since}"

#: A server that is being built for more seconds than this is a finding.
_LONG_BUILD = 3600


def find(snapshot: CloudSnapshot, context: AuditContext) -> Iterator[AllocationFinding]:
    """What heal would change, and what it cannot."""
    for decision in decide(snapshot, context.request):
        changes = _changes(snapshot, decision) if decision.is_change else ()
        for finding in changes or _skipped(snapshot, decision, context):
            yield context.settled(finding, [decision.server.updated])


def _changes(snapshot: CloudSnapshot, decision: HealDecision) -> list[AllocationFinding]:
    """A server that gets what it lacks, or another owner, or both."""
    before, after = decision.before, decision.after
    hosts = _hosts(snapshot, decision.server)
    owner = Owner(after.project_id, after.user_id, after.consumer_type)
    nova = precondition_of(decision.server)
    parts = {
        uuid: part
        for uuid, part in after.allocations.items()
        if before.allocations.get(uuid) != part
    }
    changes = []
    if parts or decision.bindings:
        lacking = Repair(parts, None if before.allocations else owner, nova, decision.bindings)
        evidence = _evidence(decision, parts)
        proposed = _proposal(snapshot, decision, parts)
        subject = repair.subject_of(decision.server)
        changes.append(Finding(MISSING, subject, hosts, evidence, proposed, lacking))
    if before.allocations and _owner_of(before) != _owner_of(after):
        changes.append(_wrong_owner(decision, hosts, Repair(owner=owner, precondition=nova)))
    return changes


def _evidence(decision: HealDecision, parts: allocation.Allocations) -> Evidence:
    before = decision.before
    fields = {**repair.server_fields(decision.server), "allocations": before.allocations}
    if not before.allocations:
        return Evidence(Code.NO_ALLOCATIONS, _NOTHING, fields)
    if parts:
        return Evidence(Code.PORT_RESOURCES, _LACKS, fields)
    return Evidence(Code.NO_BINDING, _UNBOUND, fields)


def _proposal(
    snapshot: CloudSnapshot, decision: HealDecision, parts: allocation.Allocations
) -> Proposal:
    ports = {"ports": decision.bindings} if decision.bindings else {}
    if not parts:
        return Proposal(Remedy.BIND_PORTS, decision.reason.text, ports)
    fields = {"allocations": parts, **ports}
    return Proposal(Remedy.CREATE_ALLOCATIONS, repair.describe(snapshot, parts), fields)


def _wrong_owner(
    decision: HealDecision, hosts: tuple[str, ...], renewed: Repair
) -> AllocationFinding:
    before, after = decision.before, decision.after
    fields = _owner_fields(before)
    evidence = Evidence(Code.OTHER_OWNER, f"its owner is {_differing(before, after)}", fields)
    code = WRONG_OWNER
    if allocation.PLACEHOLDER in _owner_of(before):
        code = INCOMPLETE
        evidence = Evidence(Code.PLACEHOLDER_OWNER, "its owner is a placeholder", fields)
    text = f"{_differing(after, before)} instead"
    proposed = Proposal(Remedy.SET_OWNER, text, _owner_fields(after))
    return Finding(code, repair.subject_of(decision.server), hosts, evidence, proposed, renewed)


def _owner_fields(consumer: allocation.Consumer) -> Fields:
    return {"project_id": consumer.project_id, "user_id": consumer.user_id}


def _owner_of(consumer: allocation.Consumer) -> tuple[str | None, str | None]:
    return (consumer.project_id, consumer.user_id)


def _differing(one: allocation.Consumer, other: allocation.Consumer) -> str:
    """What is different in the owner of one: ``project 7fc7; user 3079``."""
    fields = zip(("project", "user"), _owner_of(one), _owner_of(other), strict=True)
    return "; ".join(f"{name} {mine}" for name, mine, theirs in fields if mine != theirs)


def _skipped(
    snapshot: CloudSnapshot, decision: HealDecision, context: AuditContext
) -> Iterator[AllocationFinding]:
    """A finding if the server needs allocations and has none, or if its build takes too long."""
    server = decision.server
    location = locate(snapshot, server)
    if decision.is_change or not server.known or location.moving == CELL_DOWN:
        return
    if decision.before.allocations:
        building = AuditContext(context.now, _LONG_BUILD).too_young([server.updated])
        if location.moving == BUILDING and not building:
            allocations = repair.describe(snapshot, decision.before.allocations)
            text = f"{location.moving}, but has {allocations}"
            reason = Reason(Code.BUILDING, _STUCK.format(since=server.updated))
            yield _unknown(snapshot, server, text, reason)
    elif location.absent not in ON_NO_HOST and _requests_something(server):
        yield _unknown(snapshot, server, _NOTHING, decision.reason)


def _requests_something(server: values.Server) -> bool:
    request = expected.request_of(server)
    return bool(request.unknown or request.total())


def _unknown(
    snapshot: CloudSnapshot, server: values.Server, text: str, reason: Reason
) -> AllocationFinding:
    allocations = snapshot.allocations.get(server.uuid, {})
    fields = {**repair.server_fields(server), "updated": server.updated, "allocations": allocations}
    action = Remedy.ASSIGN if reason.code is Code.AMBIGUOUS else Remedy.NONE
    return Finding(
        UNKNOWN,
        repair.subject_of(server),
        _hosts(snapshot, server),
        Evidence(reason.code, text, fields),
        Proposal(action, f"skipped: {reason.text}"),
    )


def _hosts(snapshot: CloudSnapshot, server: values.Server) -> tuple[str, ...]:
    if server.host:
        return (server.host,)
    return repair.hosts_of(snapshot, snapshot.allocations.get(server.uuid, {}))
