# SPDX-License-Identifier: Apache-2.0
"""Servers with allocations on a second host, on a wrong one, or with wrong amounts. Pure.

Hosts are compared by root: child providers and sharing providers belong to their host. A wrong
amount is changed on the provider that has the class already, or on the one that offers it.
Resources that a flavor does not request (ports' bandwidth, PCI devices, accelerators) stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import change, reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations import expected, repair
from osc_placement.workflows.allocations.expected import FreeCapacity
from osc_placement.workflows.allocations.location import (
    Location,
    elsewhere,
    locate,
    precondition_of,
)
from osc_placement.workflows.allocations.repair import AllocationFinding, AuditContext, Repair
from osc_placement.workflows.allocations.snapshot import CloudSnapshot
from osc_placement.workflows.findings import Evidence, Finding, Proposal, Remedy

DOUBLED = "doubled"
WRONG_HOST = "wrong-host"
HOST_CODES = (DOUBLED, WRONG_HOST)

#: The states in which a server may be on no host.
_STATES_ON_NO_HOST = frozenset({"shelved_offloaded", "error", "building"})

#: Most flavors request these; a flavor that does not request one sets it to 0 on purpose.
_USUAL = frozenset({flavor.VCPU, flavor.MEMORY_MB, flavor.DISK_GB})


def find_wrong_host(snapshot: CloudSnapshot, context: AuditContext) -> Iterator[AllocationFinding]:
    """Servers with allocations where they must not have any."""
    free = FreeCapacity(snapshot)
    for uuid, server in snapshot.servers.items():
        allocations = snapshot.allocations.get(uuid)
        if not allocations:
            continue
        location = locate(snapshot, server)
        away = {part: allocations[part] for part in elsewhere(snapshot, server, location)}
        if away:
            finding = _judge_host(snapshot, server, location, away, free)
            moves = snapshot.migrations_of.get(uuid, ())
            reason = context.too_young([server.updated, *(move.updated for move in moves)])
            yield finding.as_unknown(reason) if reason and finding.repair else finding


def _judge_host(
    snapshot: CloudSnapshot,
    server: values.Server,
    location: Location,
    away: allocation.Allocations,
    free: FreeCapacity,
) -> AllocationFinding:
    """The finding for a server with the allocations ``away`` from its location."""
    wrong = _wrong_host(snapshot, server, location, away)
    if location.moving:
        return wrong.as_unknown(location.moving)
    if location.node is None:
        return _on_no_host(snapshot, server, wrong.evidence, away)
    reason = _why_not_a_host(snapshot, away)
    if reason:
        return wrong.as_unknown(reason)
    allocations = snapshot.allocations[server.uuid]
    own = {uuid: part for uuid, part in allocations.items() if uuid not in away}
    classes = {name for part in own.values() for name in part}
    if own and classes >= {name for part in away.values() for name in part}:
        text = f"it is on {server.host}, and has all its resources there:"
        text += f" {repair.describe(snapshot, own)}"
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
) -> AllocationFinding:
    """A server on no host uses nothing; certain only if it never ran or is shelved."""
    finding = _removed(snapshot, server, WRONG_HOST, evidence, away)
    if server.vm_state in _STATES_ON_NO_HOST:
        return finding
    text = f"a server that is {server.vm_state} is on some host"
    return finding.as_unknown(Reason(Code.NO_HOST, text))


def _removed(
    snapshot: CloudSnapshot,
    server: values.Server,
    code: str,
    evidence: Evidence,
    away: allocation.Allocations,
) -> AllocationFinding:
    """The repair removes the allocations ``away`` and keeps the rest."""
    return Finding(
        code,
        change.Subject(server.name, server.uuid),
        repair.hosts_of(snapshot, away),
        evidence,
        repair.propose_removal(snapshot, away),
        Repair(repair.removal(away), precondition=precondition_of(server), frees=True),
    )


def _moved(
    snapshot: CloudSnapshot,
    server: values.Server,
    wrong: AllocationFinding,
    own: allocation.Allocations,
    away: allocation.Allocations,
    root: str,
    free: FreeCapacity,
) -> AllocationFinding:
    """The repair moves the allocations to the server's host, if the use of all of them is known."""
    reason = _why_unmovable(snapshot, root)
    if reason:
        return wrong.as_unknown(reason)
    on_host = allocation.add_resources(*own.values())
    on_other = allocation.add_resources(*away.values())
    total = allocation.add_resources(on_host, on_other)
    compared = compare(snapshot, server, root, on_host, total)
    reason = compared.unknown or _unexplained(compared, on_other)
    if reason:
        return wrong.as_unknown(reason)
    correction = correct(snapshot, root, own, compared.wrong, free)
    if correction.why_not:
        return wrong.as_unknown(correction.why_not)
    return Finding(
        WRONG_HOST,
        wrong.subject,
        wrong.hosts,
        wrong.evidence,
        Proposal(
            Remedy.MOVE_ALLOCATIONS,
            f"{repair.describe(snapshot, correction.parts)} instead",
            {"allocations": correction.parts, "removed": away},
        ),
        Repair({**repair.removal(away), **correction.parts}, precondition=precondition_of(server)),
    )


def _why_unmovable(snapshot: CloudSnapshot, root: str) -> Reason:
    """Why nothing can be allocated on a host."""
    if root not in snapshot.providers:
        return Reason(Code.NO_PROVIDER, "its host has no resource provider")
    unread = [item.uuid for item in snapshot.trees[root] if item.uuid in snapshot.read_errors]
    if unread:
        text = f"the allocations on {snapshot.name_of(unread[0])} cannot be read"
        return Reason(Code.UNREADABLE, text)
    return reasons.NONE


def _unexplained(compared: SizeComparison, on_other: allocation.Resources) -> Reason:
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
) -> AllocationFinding:
    here = Reason(Code.WRONG_HOST, f"it is on {server.host}")
    where = here if location.node else location.absent
    allocations = snapshot.allocations[server.uuid]
    fields = {
        **repair.server_fields(server),
        "allocations": away,
        "allocations_on_host": {
            uuid: part for uuid, part in allocations.items() if uuid not in away
        },
    }
    return Finding(
        WRONG_HOST,
        change.Subject(server.name or server.uuid, server.uuid),
        repair.hosts_of(snapshot, away),
        Evidence(where.code, f"{where}, and has {repair.describe(snapshot, away)}", fields),
        repair.NOTHING_PROPOSED,
    )


WRONG_SIZE = "wrong-size"
SIZE_CODES = (WRONG_SIZE,)

_NOT_CLEANED_UP = Reason(
    Code.EVACUATED, "its evacuation is done, and its source has not cleaned up"
)


def find_wrong_size(snapshot: CloudSnapshot, context: AuditContext) -> Iterator[AllocationFinding]:
    """Servers at rest with too much or too little of a class."""
    free = FreeCapacity(snapshot)
    for server in snapshot.servers.values():
        finding = _judge_size(snapshot, server, free)
        if finding is not None:
            reason = context.too_young([server.updated])
            yield finding.as_unknown(reason) if reason and finding.repair else finding


def _judge_size(
    snapshot: CloudSnapshot, server: values.Server, free: FreeCapacity
) -> AllocationFinding | None:
    allocations = snapshot.allocations.get(server.uuid, {})
    location = locate(snapshot, server)
    node = location.node
    if not allocations or location.moving or node is None or node.uuid not in snapshot.providers:
        return None
    if any(item.uuid in snapshot.read_errors for item in snapshot.trees[node.uuid]):
        return None
    own = _on(snapshot, allocations, location.shared | {node.uuid})
    if not own:
        left = _on(snapshot, allocations, location.roots - {node.uuid})
        return _left_on_source(snapshot, server, left) if left else None
    total = allocation.add_resources(*own.values())
    compared = compare(snapshot, server, node.uuid, total, total)
    if not compared.wrong:
        return None
    wrong = {name: total.get(name, 0) for name in compared.wrong}
    text = f"it has {repair.format_amounts(wrong)};"
    text += f" its flavor requests {repair.format_amounts(compared.wrong)}"
    fields = {**repair.server_fields(server), "has": wrong, "requested": compared.wrong}
    evidence = Evidence(Code.WRONG_SIZE, text, fields)
    subject = change.Subject(server.name, server.uuid)
    correction = correct(snapshot, node.uuid, own, compared.wrong, free)
    if correction.why_not:
        finding: AllocationFinding = Finding(
            WRONG_SIZE, subject, (node.host,), evidence, repair.NOTHING_PROPOSED
        )
        return finding.as_unknown(correction.why_not)
    return Finding(
        WRONG_SIZE,
        subject,
        (node.host,),
        evidence,
        Proposal(
            Remedy.SET_AMOUNTS,
            f"{repair.describe(snapshot, correction.parts)} instead",
            {"allocations": correction.parts},
        ),
        Repair(correction.parts, precondition=precondition_of(server)),
    )


def _left_on_source(
    snapshot: CloudSnapshot, server: values.Server, left: allocation.Allocations
) -> AllocationFinding:
    """An evacuated server with allocations on its source only."""
    text = f"it is on {server.host}, but has {repair.describe(snapshot, left)}"
    fields = {**repair.server_fields(server), "allocations": left, "allocations_on_host": {}}
    finding: AllocationFinding = Finding(
        WRONG_HOST,
        change.Subject(server.name, server.uuid),
        repair.hosts_of(snapshot, left),
        Evidence(Code.WRONG_HOST, text, fields),
        repair.NOTHING_PROPOSED,
    )
    return finding.as_unknown(_NOT_CLEANED_UP)


def _on(
    snapshot: CloudSnapshot, allocations: allocation.Allocations, roots: frozenset[str]
) -> allocation.Allocations:
    return {uuid: part for uuid, part in allocations.items() if snapshot.root_of(uuid) in roots}


#: Classes that a server has because of its flavor only.
OF_FLAVORS = frozenset(
    {
        flavor.VCPU,
        flavor.PCPU,
        flavor.MEMORY_MB,
        flavor.DISK_GB,
        flavor.MEM_ENCRYPTION_CONTEXT,
        "VGPU",
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class SizeComparison:
    """A server's amounts compared with its flavor; ``wrong``: ``{class: the right amount}``.

    ``requested``: what the flavor requests. ``undecided``: classes that depend on properties
    that nova does not report. ``unknown``: why nothing can be compared, if it cannot.
    """

    wrong: allocation.Resources = dataclasses.field(default_factory=dict)
    requested: allocation.Resources = dataclasses.field(default_factory=dict)
    undecided: frozenset[str] = frozenset()
    unknown: Reason = reasons.NONE


@dataclasses.dataclass(frozen=True, slots=True)
class Correction:
    """``parts``: the changed allocations by provider; or ``why_not``: why there are none."""

    parts: allocation.Allocations = dataclasses.field(default_factory=dict)
    why_not: Reason = reasons.NONE


def compare(
    snapshot: CloudSnapshot,
    server: values.Server,
    root: str,
    on_host: allocation.Resources,
    total: allocation.Resources,
) -> SizeComparison:
    """Compare the amounts ``on_host`` with the flavor; ``total`` includes other hosts."""
    request = expected.request_of(server)
    if request.unknown:
        return SizeComparison(unknown=Reason(Code.NO_FLAVOR, "; ".join(request.unknown)))
    requested = request.total()
    undecided = _undecided(snapshot, root, request, total)
    undecided |= {*_variable(snapshot, server, root, total)}
    wrong = {name: requested.get(name, 0) for name in _wrong(requested, on_host, undecided)}
    return SizeComparison(wrong, requested, undecided)


def _undecided(
    snapshot: CloudSnapshot,
    root: str,
    request: flavor.ServerRequest,
    total: allocation.Resources,
) -> frozenset[str]:
    """Classes that depend on image properties that nova does not report.

    A class without inventory in the tree is not used there. A server with VCPU and no PCPU is
    not pinned by its image.
    """
    offered = snapshot.classes_in_tree(root)
    undecided = {name for name in request.undecided if name in offered or name in total}
    if flavor.PCPU in undecided:
        if flavor.VCPU in total and flavor.PCPU not in total:
            undecided.discard(flavor.PCPU)
        else:
            undecided.add(flavor.VCPU)
    return frozenset(undecided)


def _variable(
    snapshot: CloudSnapshot, server: values.Server, root: str, total: allocation.Resources
) -> Iterator[str]:
    """Classes of which nova allocates other amounts to some servers, possibly to this one.

    On a host without PCPU, nova's scheduler falls back to VCPU for pinned CPUs. For a root disk
    on a volume made from an image, nova may report the image.
    """
    requested = expected.request_of(server).total()
    vcpus = server.flavor.vcpus if server.flavor else None
    offered = snapshot.classes_in_tree(root)
    if flavor.PCPU in requested.keys() - offered and total.get(flavor.VCPU) == vcpus:
        yield from (flavor.VCPU, flavor.PCPU)
    on_volume = expected.request_of(dataclasses.replace(server, from_volume=True)).total()
    same_disk = total.get(flavor.DISK_GB, 0) == on_volume.get(flavor.DISK_GB, 0)
    if server.has_volumes and same_disk and flavor.MEMORY_MB in total:
        yield flavor.DISK_GB


def _wrong(
    requested: allocation.Resources, resources: allocation.Resources, undecided: frozenset[str]
) -> Iterator[str]:
    for name in sorted({*requested, *(OF_FLAVORS & resources.keys())} - undecided):
        has, needs = resources.get(name, 0), requested.get(name, 0)
        # A surplus of a custom class may be for a device that the server has too.
        if has < needs or (has > needs and name in OF_FLAVORS):
            yield name


def correct(
    snapshot: CloudSnapshot,
    root: str,
    own: allocation.Allocations,
    wrong: allocation.Resources,
    free: FreeCapacity,
) -> Correction:
    """Change ``own``, the allocations on the right host, to the amounts of ``wrong``.

    Subtracts what it adds from ``free``.
    """
    parts = {uuid: dict(part) for uuid, part in own.items()}
    changed = set()
    added: list[allocation.Allocations] = []
    for resource_class, amount in wrong.items():
        holders = [uuid for uuid, part in own.items() if resource_class in part]
        holders = holders or _offering(snapshot, root, resource_class)
        if len(holders) != 1:
            return Correction(why_not=_why_not_one(snapshot, root, resource_class, holders))
        uuid = holders[0]
        changed.add(uuid)
        part = parts.setdefault(uuid, {})
        more = amount - part.pop(resource_class, 0)
        if more > 0:
            addition = {uuid: {resource_class: more}}
            shortages = free.shortages(addition)
            if shortages:
                return Correction(why_not=reasons.first_of(shortages))
            added.append(addition)
        if amount:
            part[resource_class] = amount
    for extra in added:
        free.allocate(extra)
    return Correction({uuid: parts[uuid] for uuid in changed})


def _offering(snapshot: CloudSnapshot, root: str, resource_class: str) -> list[str]:
    """The providers that offer a class to a host: the root, or else those that share."""
    if resource_class in snapshot.inventories.get(root, {}):
        return [root]
    sharing = snapshot.sharing.get(root, ())
    return [uuid for uuid in sharing if resource_class in snapshot.inventories.get(uuid, {})]


def _why_not_one(
    snapshot: CloudSnapshot, root: str, resource_class: str, holders: list[str]
) -> Reason:
    if not holders:
        text = f"{snapshot.name_of(root)} has no inventory of {resource_class}"
        return Reason(Code.NO_INVENTORY, text)
    names = ", ".join(sorted(map(snapshot.name_of, holders)))
    return Reason(Code.AMBIGUOUS, f"{resource_class} could be on each of {names}")
