"""Servers with allocations on a second host or on a wrong one. Pure.

Hosts are compared by root: child providers and sharing providers belong to their host.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import change, reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations import precondition
from osc_placement.workflows.allocations.audit import amounts, finding
from osc_placement.workflows.allocations.audit.finding import AuditContext, Finding, Repair
from osc_placement.workflows.allocations.capacity import FreeCapacity
from osc_placement.workflows.allocations.location import Location, elsewhere, locate
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.finding import Action, Evidence, Proposal

DOUBLED = "doubled"
WRONG_HOST = "wrong-host"
CODES = (DOUBLED, WRONG_HOST)

#: The states in which a server may be on no host.
_STATES_ON_NO_HOST = frozenset({"shelved_offloaded", "error", "building"})

#: Most flavors request these; a flavor that does not request one sets it to 0 on purpose.
_USUAL = frozenset({flavor.VCPU, flavor.MEMORY_MB, flavor.DISK_GB})


def find(snapshot: CloudSnapshot, context: AuditContext) -> Iterator[Finding]:
    """Servers with allocations where they must not have any."""
    free = FreeCapacity(snapshot)
    for uuid, server in snapshot.servers.items():
        held = snapshot.allocations.get(uuid)
        if not held:
            continue
        location = locate(snapshot, server)
        away = {part: held[part] for part in elsewhere(snapshot, server, location)}
        if away:
            found = _judge(snapshot, server, location, away, free)
            moves = snapshot.migrations_of.get(uuid, ())
            reason = context.too_young([server.updated, *(move.updated for move in moves)])
            yield found.as_unknown(reason) if reason and found.repair else found


def _judge(
    snapshot: CloudSnapshot,
    server: values.Server,
    location: Location,
    away: allocation.Allocations,
    free: FreeCapacity,
) -> Finding:
    """The finding for a server with the allocations ``away`` from its location."""
    wrong = _wrong_host(snapshot, server, location, away)
    if location.moving:
        return wrong.as_unknown(location.moving)
    if location.node is None:
        return _on_no_host(snapshot, server, wrong.evidence, away)
    reason = _why_not_a_host(snapshot, away)
    if reason:
        return wrong.as_unknown(reason)
    held = snapshot.allocations[server.uuid]
    own = {uuid: part for uuid, part in held.items() if uuid not in away}
    classes = {name for part in own.values() for name in part}
    if own and classes >= {name for part in away.values() for name in part}:
        text = f"it is on {server.host}, and has all its resources there:"
        text += f" {finding.describe(snapshot, own)}"
        evidence = Evidence(Code.SECOND_HOST, text, wrong.evidence.fields)
        return _removed(snapshot, server, DOUBLED, evidence, away)
    return _moved(snapshot, server, wrong, own, away, location.node.uuid, free)


def _why_not_a_host(snapshot: CloudSnapshot, away: allocation.Allocations) -> Reason:
    """Why the allocations may not come from a host of the server; empty if they do."""
    classes_on: dict[str, set[str]] = {}
    for uuid, part in away.items():
        classes_on.setdefault(snapshot.root_of(uuid), set()).update(part)
    for root, classes in classes_on.items():
        if root not in snapshot.compute_nodes and not flavor.HOST_CLASSES & classes:
            name = snapshot.name_of(root)
            text = f"{name} is not a compute node, and does not share with its host's tree"
            return Reason(Code.NOT_A_COMPUTE_NODE, text)
    return reasons.NONE


def _on_no_host(
    snapshot: CloudSnapshot,
    server: values.Server,
    evidence: Evidence,
    away: allocation.Allocations,
) -> Finding:
    """A server on no host uses nothing; certain only if it never ran or is shelved."""
    found = _removed(snapshot, server, WRONG_HOST, evidence, away)
    if server.vm_state in _STATES_ON_NO_HOST:
        return found
    text = f"a server that is {server.vm_state} is on some host"
    return found.as_unknown(Reason(Code.NO_HOST, text))


def _removed(
    snapshot: CloudSnapshot,
    server: values.Server,
    code: str,
    evidence: Evidence,
    away: allocation.Allocations,
) -> Finding:
    """The repair removes the allocations ``away`` and keeps the rest."""
    return Finding(
        code,
        change.Subject(server.name, server.uuid),
        finding.hosts_of(snapshot, away),
        evidence,
        finding.propose_removal(snapshot, away),
        Repair(finding.removal(away), precondition=precondition.of(server), frees=True),
    )


def _moved(
    snapshot: CloudSnapshot,
    server: values.Server,
    wrong: Finding,
    own: allocation.Allocations,
    away: allocation.Allocations,
    root: str,
    free: FreeCapacity,
) -> Finding:
    """The repair moves the allocations to the server's host, if the use of all of them is known."""
    reason = _why_unmovable(snapshot, root)
    if reason:
        return wrong.as_unknown(reason)
    on_host = allocation.add_resources(*own.values())
    on_other = allocation.add_resources(*away.values())
    total = allocation.add_resources(on_host, on_other)
    compared = amounts.compare(snapshot, server, root, on_host, total)
    reason = compared.unknown or _unexplained(compared, on_other)
    if reason:
        return wrong.as_unknown(reason)
    correction = amounts.correct(snapshot, root, own, compared.wrong, free)
    if correction.why_not:
        return wrong.as_unknown(correction.why_not)
    return Finding(
        WRONG_HOST,
        wrong.subject,
        wrong.hosts,
        wrong.evidence,
        Proposal(
            Action.MOVE_ALLOCATIONS,
            f"{finding.describe(snapshot, correction.parts)} instead",
            {"allocations": correction.parts, "removed": away},
        ),
        Repair({**finding.removal(away), **correction.parts}, precondition=precondition.of(server)),
    )


def _why_unmovable(snapshot: CloudSnapshot, root: str) -> Reason:
    """Why nothing can be allocated on a host."""
    if root not in snapshot.providers:
        return Reason(Code.NO_PROVIDER, "its host has no resource provider")
    unread = [each.uuid for each in snapshot.trees[root] if each.uuid in snapshot.read_errors]
    if unread:
        text = f"the allocations on {snapshot.name_of(unread[0])} cannot be read"
        return Reason(Code.UNREADABLE, text)
    return reasons.NONE


def _unexplained(compared: amounts.Comparison, on_other: allocation.Resources) -> Reason:
    """Resources on the other host that the flavor does not explain; the server may need them."""
    devices = on_other.keys() - compared.requested.keys() - _USUAL
    names = sorted(devices | (compared.undecided & on_other.keys()))
    if not names:
        return reasons.NONE
    text = f"the reason for its {', '.join(names)} is not known"
    return Reason(Code.UNEXPLAINED_RESOURCES, text)


def _wrong_host(
    snapshot: CloudSnapshot,
    server: values.Server,
    location: Location,
    away: allocation.Allocations,
) -> Finding:
    here = Reason(Code.WRONG_HOST, f"it is on {server.host}")
    where = here if location.node else location.absent
    held = snapshot.allocations[server.uuid]
    fields = {
        **finding.server_fields(server),
        "allocations": away,
        "allocations_on_host": {uuid: part for uuid, part in held.items() if uuid not in away},
    }
    return Finding(
        WRONG_HOST,
        change.Subject(server.name or server.uuid, server.uuid),
        finding.hosts_of(snapshot, away),
        Evidence(where.code, f"{where}, and has {finding.describe(snapshot, away)}", fields),
        finding.NOTHING_PROPOSED,
    )
