"""Servers without allocations or with a wrong owner, as heal decides about them. Pure.

The proposal is what heal would do. A server that heal skips is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change
from osc_placement.workflows.allocations import expected, precondition
from osc_placement.workflows.allocations.audit import finding
from osc_placement.workflows.allocations.audit.finding import UNKNOWN, AuditContext, Finding, Repair
from osc_placement.workflows.allocations.decision import Decision, decide
from osc_placement.workflows.allocations.location import BUILDING, CELL_DOWN, ON_NO_HOST, locate
from osc_placement.workflows.allocations.snapshot import CloudSnapshot, Owner

MISSING = "missing"
INCOMPLETE = "incomplete"
WRONG_OWNER = "wrong-owner"
CODES = (MISSING, INCOMPLETE, WRONG_OWNER)

_NOTHING = "it has no allocations"
_STUCK = "unchanged since {since}"

#: A server that is being built for more seconds than this is a finding.
_LONG_BUILD = 3600


def find(snapshot: CloudSnapshot, context: AuditContext) -> Iterator[Finding]:
    """What heal would change, and what it cannot."""
    for decision in decide(snapshot, context.request):
        found = _changes(snapshot, decision) if decision.is_change else ()
        too_young = context.too_young([decision.server.updated])
        for each in found or _skipped(snapshot, decision, context):
            yield each.as_unknown(too_young) if too_young and each.repair else each


def _changes(snapshot: CloudSnapshot, decision: Decision) -> list[Finding]:
    """A server that gets what it lacks, or another owner, or both."""
    before, after = decision.before, decision.after
    subject = change.Subject(decision.server.name, decision.server.uuid)
    hosts = _hosts(snapshot, decision.server)
    owner = Owner(after.project_id, after.user_id, after.consumer_type)
    nova = precondition.of(decision.server)
    parts = {
        uuid: part
        for uuid, part in after.allocations.items()
        if before.allocations.get(uuid) != part
    }
    found = []
    if parts or decision.bindings:
        proposed = finding.describe(snapshot, parts) if parts else decision.reason.text
        repair = Repair(parts, None if before.allocations else owner, nova, decision.bindings)
        evidence = _evidence(before, parts)
        found.append(Finding(MISSING, subject, hosts, evidence, proposed, repair))
    if before.allocations and _owner_of(before) != _owner_of(after):
        incomplete = allocation.PLACEHOLDER in _owner_of(before)
        evidence = f"its owner is {_differing(before, after)}"
        found.append(
            Finding(
                INCOMPLETE if incomplete else WRONG_OWNER,
                subject,
                hosts,
                "its owner is a placeholder" if incomplete else evidence,
                f"{_differing(after, before)} instead",
                Repair(owner=owner, precondition=nova),
            )
        )
    return found


def _evidence(before: allocation.Consumer, parts: allocation.Allocations) -> str:
    if not before.allocations:
        return _NOTHING
    if parts:
        return "it lacks resources that its ports request"
    return "the binding profiles of its ports do not name their providers"


def _owner_of(consumer: allocation.Consumer) -> tuple[str | None, str | None]:
    return (consumer.project_id, consumer.user_id)


def _differing(one: allocation.Consumer, other: allocation.Consumer) -> str:
    """What is different in the owner of one: ``project 7fc7; user 3079``."""
    fields = zip(("project", "user"), _owner_of(one), _owner_of(other), strict=True)
    return "; ".join(f"{name} {mine}" for name, mine, theirs in fields if mine != theirs)


def _skipped(
    snapshot: CloudSnapshot, decision: Decision, context: AuditContext
) -> Iterator[Finding]:
    """A finding if the server needs allocations and has none, or if its build takes too long."""
    server = decision.server
    location = locate(snapshot, server)
    if decision.is_change or not server.known or location.moving == CELL_DOWN:
        return
    if decision.before.allocations:
        building = AuditContext(context.now, _LONG_BUILD).too_young([server.updated])
        if location.moving == BUILDING and not building:
            held = finding.describe(snapshot, decision.before.allocations)
            evidence = f"{location.moving}, but has {held}"
            yield _unknown(snapshot, server, evidence, _STUCK.format(since=server.updated))
    elif location.absent not in ON_NO_HOST and _requests_something(server):
        yield _unknown(snapshot, server, _NOTHING, decision.reason.text)


def _requests_something(server: values.Server) -> bool:
    request = expected.request_of(server)
    return bool(request.unknown or request.total())


def _unknown(snapshot: CloudSnapshot, server: values.Server, evidence: str, reason: str) -> Finding:
    return Finding(
        UNKNOWN,
        change.Subject(server.name or server.uuid, server.uuid),
        _hosts(snapshot, server),
        evidence,
        f"skipped: {reason}",
    )


def _hosts(snapshot: CloudSnapshot, server: values.Server) -> tuple[str, ...]:
    if server.host:
        return (server.host,)
    return finding.hosts_of(snapshot, snapshot.allocations.get(server.uuid, {}))
