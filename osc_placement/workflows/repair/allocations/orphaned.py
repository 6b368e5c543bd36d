# SPDX-License-Identifier: Apache-2.0
"""Consumers of deleted servers, and consumers that nova does not know. Pure.

A consumer that nova does not know may belong to another service. It counts as left over only if
its type, its project and its allocations all show that nova created it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from osc_placement.engine import standard
from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import change, reasons
from osc_placement.plan.change import Precondition
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import facts, problem
from osc_placement.workflows.cloud.cloud import Cloud, Owner
from osc_placement.workflows.repair.allocations import leaked, preconditions, repair
from osc_placement.workflows.repair.allocations.repair import (
    AllocationFinding,
    AuditContext,
    Repair,
)
from osc_placement.workflows.repair.findings import UNKNOWN, Evidence, Finding, Proposal, Remedy

ORPHANED = problem.error("orphaned", "No server uses these allocations, so the capacity is lost.")
CODES = (ORPHANED,)

#: The type of a consumer for which none was set.
_NO_TYPE = frozenset({None, allocation.UNKNOWN_TYPE})

#: This many hosts that nova does not know cannot be a single removed host.
_SEVERAL = 2

_CELL_DOWN = Reason(Code.CELL_DOWN, "it may be of a cell that is down")
_NOT_ONLY_NOVAS = Reason(Code.OTHER_SERVICE, "other services may use these resources too")
_FOREIGN = (
    "nova does not know {count} hosts, {name} among them: they may be another nova's"
    " (--host {name}, if it was this one's)"
)
_SHOW = "find out which service created it; if none: resource provider allocation delete"


def find(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """Consumers of deleted servers, and consumers that nova does not know."""
    foreign = _foreign_roots(snapshot, context)
    for uuid, allocations in snapshot.allocations.items():
        if uuid in snapshot.servers or uuid in snapshot.migrations:
            continue
        deleted = snapshot.deleted_servers.get(uuid)
        if deleted is not None:
            finding: AllocationFinding | None = _of_deleted(snapshot, deleted, allocations, context)
        else:
            finding = _of_unknown(snapshot, uuid, allocations, context, foreign)
        if finding is not None:
            yield finding


def _of_deleted(
    snapshot: Cloud,
    server: values.Server,
    allocations: allocation.Allocations,
    context: AuditContext,
) -> AllocationFinding:
    text = f"nova has deleted the server, at {server.updated}"
    fields = {"updated": server.updated, "allocations": allocations}
    evidence = Evidence(Code.SERVER_DELETED, text, fields)
    subject = repair.subject_of(server)
    finding = _left_over(snapshot, subject, allocations, evidence, preconditions.NOT_A_SERVER)
    return context.settled(finding, [server.updated])


def _of_unknown(
    snapshot: Cloud,
    uuid: str,
    allocations: allocation.Allocations,
    context: AuditContext,
    foreign: Collection[str],
) -> AllocationFinding | None:
    """A consumer that nova does not know; None if its type is another service's."""
    owner = snapshot.owners.get(uuid, Owner(None, None))
    if owner.type not in preconditions.NOVA_TYPES | _NO_TYPE:
        return None
    text = "nova has no server and no migration of this UUID"
    if owner.type in preconditions.NOVA_TYPES:
        text += f"; it is of type {owner.type}"
    fields = {
        "project_id": owner.project_id,
        "user_id": owner.user_id,
        "consumer_type": owner.type,
        "allocations": allocations,
    }
    evidence = Evidence(Code.NOT_IN_NOVA, text, fields)
    subject = change.Subject(uuid, uuid)
    code = leaked.LEAKED_MOVE if owner.type == allocation.MIGRATION else ORPHANED
    finding = _left_over(snapshot, subject, allocations, evidence, preconditions.NOT_IN_NOVA, code)
    reason = (
        Reason(Code.UNREADABLE, snapshot.unconfirmed.get(uuid, ""))
        or _why_hidden(snapshot, allocations)
        or _why_foreign(snapshot, allocations, foreign)
        or _why_not_novas(snapshot, owner, allocations, context)
    )
    if not reason:
        return finding
    text = f"{text}; but {reason}: {repair.describe(snapshot, allocations)}"
    return Finding(
        UNKNOWN,
        subject,
        finding.hosts,
        Evidence(reason.code, text, {"seems": str(code), **fields}),
        Proposal(Remedy.IDENTIFY_SERVICE, _SHOW),
    )


def _why_hidden(snapshot: Cloud, allocations: allocation.Allocations) -> Reason:
    """Why nova's listings may lack a consumer's server; empty if they are complete."""
    hosts = snapshot.hosts
    elsewhere = any(snapshot.root_of(uuid) not in snapshot.compute_nodes for uuid in allocations)
    if elsewhere and (hosts.unreachable or not hosts.lists_down_cells):
        return _CELL_DOWN
    # The cell went down between two listings; nova omits the migrations of such a cell.
    lost = snapshot.unconfirmed or snapshot.lost_servers
    return _CELL_DOWN if lost and not hosts.unreachable else reasons.NONE


def _why_foreign(
    snapshot: Cloud, allocations: allocation.Allocations, foreign: Collection[str]
) -> Reason:
    """Why a consumer may be another nova's; empty if it is on no foreign root."""
    roots = sorted({snapshot.root_of(uuid) for uuid in allocations} & {*foreign})
    if not roots:
        return reasons.NONE
    text = _FOREIGN.format(count=len(foreign), name=snapshot.name_of(roots[0]))
    return Reason(Code.OTHER_NOVA, text)


def _foreign_roots(snapshot: Cloud, context: AuditContext) -> frozenset[str]:
    """Roots that may be another nova's hosts, where several regions share one Placement.

    Nova has no compute node or record of them and knows no consumer on them. A single such
    root is a removed host; roots that the operator named are this nova's.
    """
    ours, unknown = {*snapshot.compute_nodes}, set[str]()
    for uuid, allocations in snapshot.allocations.items():
        for provider_uuid, part in allocations.items():
            root = snapshot.root_of(provider_uuid)
            if snapshot.knows(uuid):
                ours.add(root)
            elif flavor.HOST_CLASSES & part.keys() or root in context.computes:
                unknown.add(root)
    names = {root: snapshot.name_of(root) for root in unknown - ours}
    recorded = snapshot.hostnames | snapshot.recorded_nodes
    foreign = {root: name for root, name in names.items() if name not in recorded}
    if len(foreign) < _SEVERAL:
        return frozenset()
    return frozenset(root for root, name in foreign.items() if name not in context.hosts)


def _why_not_novas(
    snapshot: Cloud,
    owner: Owner,
    allocations: allocation.Allocations,
    context: AuditContext,
) -> Reason:
    """Why a consumer may be another service's; empty if it is nova's."""
    if owner.type in preconditions.NOVA_TYPES:
        return reasons.NONE
    if context.other_service:
        return Reason(Code.OTHER_SERVICE, context.other_service)
    if owner.project_id not in {*snapshot.projects, allocation.PLACEHOLDER}:
        text = f"nova knows no server of its project {owner.project_id}"
        return Reason(Code.OTHER_SERVICE, text)
    if not any(_is_novas(snapshot, uuid, part) for uuid, part in allocations.items()):
        return _NOT_ONLY_NOVAS
    return reasons.NONE


def _is_novas(snapshot: Cloud, uuid: str, part: allocation.Resources) -> bool:
    """Whether only nova allocates such resources of this provider."""
    if flavor.HOST_CLASSES & part.keys():
        return True
    root = snapshot.root_of(uuid)
    if root not in snapshot.compute_nodes:
        return False
    # A bare metal node has no CPUs in its inventory, only its own resource class.
    offered = facts.value(snapshot.inventories, root, {})
    if root in snapshot.inventories and not flavor.HOST_CLASSES & offered.keys():
        return True
    return not part.keys().isdisjoint(standard.RESOURCE_CLASSES)


def _left_over(
    snapshot: Cloud,
    subject: change.Subject,
    allocations: allocation.Allocations,
    evidence: Evidence,
    nova: Precondition,
    code: problem.ProblemCode = ORPHANED,
) -> AllocationFinding:
    return Finding(
        code,
        subject,
        repair.hosts_of(snapshot, allocations),
        evidence,
        repair.propose_removal(snapshot, allocations),
        Repair(repair.removal(allocations), precondition=nova, frees=True),
    )
