# SPDX-License-Identifier: Apache-2.0
"""Servers without allocations or with a wrong owner, as heal decides about them. Pure.

The proposal is what heal would do. A server that heal skips is unknown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan.reasons import Code, Reason
from osc_placement.scheduling.own_host import UnmetNeed
from osc_placement.workflows.cloud import nova_servers, problem
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.server_moves import BUILDING, CELL_DOWN, ON_NO_HOST, move_of
from osc_placement.workflows.repair.allocations import admission, ports, repair
from osc_placement.workflows.repair.allocations.decision import HealDecision, decide
from osc_placement.workflows.repair.allocations.repair import (
    AllocationFinding,
    AuditContext,
    Repair,
)
from osc_placement.workflows.repair.findings import (
    UNKNOWN,
    Evidence,
    Fields,
    Finding,
    Proposal,
    Remedy,
)

MISSING = problem.error(
    "missing", "A server runs without allocations: its resources can be given to another server."
)
INCOMPLETE = problem.warning(
    "incomplete", "Allocations have a placeholder in place of their project and user."
)
WRONG_OWNER = problem.warning(
    "wrong-owner", "The allocations count for another project or user than the server's."
)
CODES = (MISSING, INCOMPLETE, WRONG_OWNER)

_NOTHING = "it has no allocations"
_LACKS = "it lacks resources that its ports request"
_UNBOUND = "the binding profiles of its ports do not name their providers"
_STUCK = "unchanged since {since}"

#: A server that is being built for more seconds than this is a finding.
_LONG_BUILD = 3600


def find(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """What heal would change, and what it cannot."""
    for decision in decide(snapshot, context.request):
        if decision.repair is None:
            new = _skipped(snapshot, decision, context)
        else:
            new = _changes(snapshot, decision, decision.repair)
        for finding in new:
            yield context.settled(finding, [decision.server.updated])


def with_admission(
    finding: AllocationFinding, server: values.Server, rules: Sequence[UnmetNeed]
) -> AllocationFinding:
    """The finding with since when the server exists, and whether nova would choose its host."""
    allowed = admission.in_words(rules)
    if not rules and not server.shows_zone:
        allowed += ", but does not show its zone (compute API 2.96)"
    evidence = finding.evidence
    text = f"{evidence.text}; created {server.created[:19]}; {allowed}"
    broken = [str(admission.CODES[rule.need]) for rule in rules if rule.is_known]
    fields = {"created": server.created, "broken_rules": broken}
    return dataclasses.replace(
        finding, evidence=Evidence(evidence.cause, text, {**evidence.fields, **fields})
    )


def _changes(
    snapshot: Cloud, decision: HealDecision, healed: Repair
) -> Iterator[AllocationFinding]:
    """A server that gets what it lacks, or another owner, or both."""
    before, hosts = decision.before, _hosts(snapshot, decision.server)
    if healed.parts or healed.bindings:
        cause, why = Code.NO_BINDING, _UNBOUND
        if not before.allocations:
            cause, why = Code.NO_ALLOCATIONS, _NOTHING
        elif healed.parts:
            cause, why = Code.PORT_RESOURCES, _LACKS
        fields = {"ports": healed.bindings} if healed.bindings else {}
        text = ports.describe(snapshot, healed.bindings)
        proposed = Proposal(Remedy.BIND_PORTS, text, fields)
        if healed.parts:
            text = repair.describe(snapshot, healed.parts)
            allocations = {"allocations": healed.parts, **fields}
            proposed = Proposal(Remedy.CREATE_ALLOCATIONS, text, allocations)
        finding = repair.about_server(
            decision.server, MISSING, hosts, cause, why, allocations=before.allocations
        )
        lacking = dataclasses.replace(healed, owner=None) if before.allocations else healed
        yield dataclasses.replace(finding, proposed=proposed, repair=lacking)
    owner = Repair(owner=healed.owner, precondition=healed.precondition)
    if before.allocations and _owner_of(before) != _owner_of(owner.apply(before)):
        yield _wrong_owner(decision, hosts, owner)


def _wrong_owner(
    decision: HealDecision, hosts: tuple[str, ...], renewed: Repair
) -> AllocationFinding:
    before = decision.before
    after, fields = renewed.apply(before), _owner_fields(before)
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
    snapshot: Cloud, decision: HealDecision, context: AuditContext
) -> Iterator[AllocationFinding]:
    """A finding if the server lacks allocations, or if its build takes too long."""
    server = decision.server
    move = move_of(snapshot, server)
    if move.moving == CELL_DOWN:
        return
    if decision.before.allocations and decision.refused:
        yield _unknown(snapshot, server, _LACKS, decision.reason)
    elif decision.before.allocations:
        building = AuditContext(context.now, _LONG_BUILD).too_young([server.updated])
        if move.moving == BUILDING and not building:
            allocations = repair.describe(snapshot, decision.before.allocations)
            text = f"{move.moving}, but has {allocations}"
            reason = Reason(Code.BUILDING, _STUCK.format(since=server.updated))
            yield _unknown(snapshot, server, text, reason)
    elif move.absent not in ON_NO_HOST and nova_servers.needs_allocations(server):
        yield _unknown(snapshot, server, _NOTHING, decision.reason)


def _unknown(
    snapshot: Cloud, server: values.Server, text: str, reason: Reason
) -> AllocationFinding:
    allocations = snapshot.allocations.get(server.uuid, {})
    fields = {"updated": server.updated, "allocations": allocations}
    hosts = _hosts(snapshot, server)
    finding = repair.about_server(server, UNKNOWN, hosts, reason.code, text, **fields)
    action = Remedy.ASSIGN if reason.code is Code.AMBIGUOUS else Remedy.NONE
    return dataclasses.replace(finding, proposed=Proposal(action, f"skipped: {reason.text}"))


def _hosts(snapshot: Cloud, server: values.Server) -> tuple[str, ...]:
    if server.host:
        return (server.host,)
    return repair.hosts_of(snapshot, snapshot.allocations.get(server.uuid, {}))
