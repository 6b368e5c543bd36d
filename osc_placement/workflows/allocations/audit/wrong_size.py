"""Servers on their host with other amounts than their flavor requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations import precondition
from osc_placement.workflows.allocations.audit import amounts, finding, wrong_host
from osc_placement.workflows.allocations.audit.finding import AuditContext, Finding, Repair
from osc_placement.workflows.allocations.capacity import FreeCapacity
from osc_placement.workflows.allocations.location import locate
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.finding import Action, Evidence, Proposal

WRONG_SIZE = "wrong-size"
CODES = (WRONG_SIZE,)

_NOT_CLEANED_UP = Reason(
    Code.EVACUATED, "its evacuation is done, and its source has not cleaned up"
)


def find(snapshot: CloudSnapshot, context: AuditContext) -> Iterator[Finding]:
    """Servers at rest with too much or too little of a class."""
    free = FreeCapacity(snapshot)
    for server in snapshot.servers.values():
        found = _judge(snapshot, server, free)
        if found is not None:
            reason = context.too_young([server.updated])
            yield found.as_unknown(reason) if reason and found.repair else found


def _judge(snapshot: CloudSnapshot, server: values.Server, free: FreeCapacity) -> Finding | None:
    held = snapshot.allocations.get(server.uuid, {})
    location = locate(snapshot, server)
    node = location.node
    if not held or location.moving or node is None or node.uuid not in snapshot.providers:
        return None
    if any(each.uuid in snapshot.read_errors for each in snapshot.trees[node.uuid]):
        return None
    own = _on(snapshot, held, location.shared | {node.uuid})
    if not own:
        left = _on(snapshot, held, location.roots - {node.uuid})
        return _left_on_source(snapshot, server, left) if left else None
    total = allocation.add_resources(*own.values())
    compared = amounts.compare(snapshot, server, node.uuid, total, total)
    if not compared.wrong:
        return None
    wrong = {name: total.get(name, 0) for name in compared.wrong}
    text = f"it has {finding.format_amounts(wrong)};"
    text += f" its flavor requests {finding.format_amounts(compared.wrong)}"
    fields = {**finding.server_fields(server), "has": wrong, "requested": compared.wrong}
    evidence = Evidence(Code.WRONG_SIZE, text, fields)
    subject = change.Subject(server.name, server.uuid)
    correction = amounts.correct(snapshot, node.uuid, own, compared.wrong, free)
    if correction.why_not:
        found = Finding(WRONG_SIZE, subject, (node.host,), evidence, finding.NOTHING_PROPOSED)
        return found.as_unknown(correction.why_not)
    return Finding(
        WRONG_SIZE,
        subject,
        (node.host,),
        evidence,
        Proposal(
            Action.SET_AMOUNTS,
            f"{finding.describe(snapshot, correction.parts)} instead",
            {"allocations": correction.parts},
        ),
        Repair(correction.parts, precondition=precondition.of(server)),
    )


def _left_on_source(
    snapshot: CloudSnapshot, server: values.Server, left: allocation.Allocations
) -> Finding:
    """An evacuated server with allocations on its source only."""
    text = f"it is on {server.host}, but has {finding.describe(snapshot, left)}"
    fields = {**finding.server_fields(server), "allocations": left, "allocations_on_host": {}}
    found = Finding(
        wrong_host.WRONG_HOST,
        change.Subject(server.name, server.uuid),
        finding.hosts_of(snapshot, left),
        Evidence(Code.WRONG_HOST, text, fields),
        finding.NOTHING_PROPOSED,
    )
    return found.as_unknown(_NOT_CLEANED_UP)


def _on(
    snapshot: CloudSnapshot, held: allocation.Allocations, roots: frozenset[str]
) -> allocation.Allocations:
    return {uuid: part for uuid, part in held.items() if snapshot.root_of(uuid) in roots}
