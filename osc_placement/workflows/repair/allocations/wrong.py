# SPDX-License-Identifier: Apache-2.0
"""Servers with allocations on a second host, on a wrong one, or with wrong amounts. Pure.

Hosts are compared by root: child providers and sharing providers belong to their host. A wrong
amount is changed on the provider that has the class already, or on the one that offers it.
Resources that a flavor does not request (ports' bandwidth, PCI devices, accelerators) stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.cloud import problem
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.server_moves import STATES_ON_NO_HOST, Phase, ServerMove, move_of
from osc_placement.workflows.repair.allocations import expected, leaked, repair
from osc_placement.workflows.repair.allocations.comparable import elsewhere, unready
from osc_placement.workflows.repair.allocations.expected import FreeCapacity, NoRepair
from osc_placement.workflows.repair.allocations.preconditions import precondition_of
from osc_placement.workflows.repair.allocations.repair import (
    AllocationFinding,
    AuditContext,
    Repair,
)
from osc_placement.workflows.repair.findings import Evidence, Proposal, Remedy

DOUBLED = problem.error("doubled", "A server has the same allocations on two hosts.")
WRONG_HOST = problem.error(
    "wrong-host", "A server has its allocations on another host than its own."
)
HOST_CODES = (DOUBLED, WRONG_HOST)

#: Most flavors request these; a flavor that does not request one sets it to 0 on purpose.
_USUAL = frozenset({flavor.VCPU, flavor.MEMORY_MB, flavor.DISK_GB})


def find_wrong_host(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """Servers with allocations where they must not have any."""
    free = FreeCapacity(snapshot)
    for uuid, server in snapshot.servers.items():
        allocations = snapshot.allocations.get(uuid)
        if not allocations:
            continue
        move = move_of(snapshot, server)
        away = {part: allocations[part] for part in elsewhere(snapshot, server, move)}
        if away:
            finding = wrong = _wrong_host(snapshot, server, move, away)
            try:
                finding = _with_host_repair(snapshot, server, wrong, move, away, free)
            except NoRepair as error:
                finding = finding.as_unknown(error.reason)
            if move.phase is Phase.DISAGREES:
                finding = leaked.in_doubt(snapshot, wrong, move)
            listed = snapshot.migrations_of.get(uuid, ())
            yield context.settled(finding, [server.updated, *(item.updated for item in listed)])


def _with_host_repair(
    snapshot: Cloud,
    server: values.Server,
    wrong: AllocationFinding,
    move: ServerMove,
    away: allocation.Allocations,
    free: FreeCapacity,
) -> AllocationFinding:
    """The finding for a server with the allocations ``away`` from its location. Raises NoRepair."""
    if move.moving:
        raise NoRepair(move.moving)
    if move.node is None:
        # A server on no host uses nothing; certain only if it never ran or is shelved.
        if server.vm_state not in STATES_ON_NO_HOST:
            text = f"a server that is {server.vm_state} is on some host"
            raise NoRepair(Reason(Code.NO_HOST, text))
        return _removed(snapshot, server, wrong, away)
    _check_is_a_host(snapshot, away)
    allocations = snapshot.allocations[server.uuid]
    own = {uuid: part for uuid, part in allocations.items() if uuid not in away}
    classes = {name for part in own.values() for name in part}
    if own and classes >= {name for part in away.values() for name in part}:
        text = f"it is on {server.host}, and has all its resources there:"
        text += f" {repair.describe(snapshot, own)}"
        evidence = Evidence(Code.SECOND_HOST, text, wrong.evidence.fields)
        doubled = dataclasses.replace(wrong, code=DOUBLED, evidence=evidence)
        return _removed(snapshot, server, doubled, away)
    return _moved(snapshot, server, wrong, own, away, move.node.uuid, free)


def _check_is_a_host(snapshot: Cloud, away: allocation.Allocations) -> None:
    """Raises NoRepair if the allocations may not come from a host of the server."""
    classes_on: dict[str, set[str]] = {}
    for uuid, part in away.items():
        classes_on.setdefault(snapshot.root_of(uuid), set()).update(part)
    for root, classes in classes_on.items():
        if root not in snapshot.compute_nodes and not flavor.HOST_CLASSES & classes:
            name = snapshot.name_of(root)
            text = f"{name} is not a compute node, and does not share with its host's tree"
            raise NoRepair(Reason(Code.NOT_A_COMPUTE_NODE, text))


def _removed(
    snapshot: Cloud,
    server: values.Server,
    wrong: AllocationFinding,
    away: allocation.Allocations,
) -> AllocationFinding:
    """The repair removes the allocations ``away`` and keeps the rest."""
    return dataclasses.replace(
        wrong,
        proposed=repair.propose_removal(snapshot, away),
        repair=Repair(repair.removal(away), precondition=precondition_of(server), frees=True),
    )


def _moved(
    snapshot: Cloud,
    server: values.Server,
    wrong: AllocationFinding,
    own: allocation.Allocations,
    away: allocation.Allocations,
    root: str,
    free: FreeCapacity,
) -> AllocationFinding:
    """The repair moves the allocations to the server's host, if the use of all of them is known."""
    if why := unready(snapshot, snapshot.compute_nodes[root]):
        raise NoRepair(why)
    request = expected.request_of(server)
    if request.unknown:
        raise NoRepair(Reason(Code.NO_FLAVOR, "; ".join(request.unknown)))
    on_host = allocation.add_resources(*own.values())
    on_other = allocation.add_resources(*away.values())
    total = allocation.add_resources(on_host, on_other)
    compared = compare(snapshot, server, root, on_host, total)
    # Resources on the other host that the flavor does not explain; the server may need them.
    devices = on_other.keys() - request.total().keys() - _USUAL
    names = sorted(devices | (compared.undecided & on_other.keys()))
    if names:
        text = f"the reason for its {', '.join(names)} is not known"
        raise NoRepair(Reason(Code.UNEXPLAINED_RESOURCES, text))
    parts = correct(snapshot, root, own, compared.wrong, free)
    text = f"{repair.describe(snapshot, parts)} instead"
    return dataclasses.replace(
        wrong,
        proposed=Proposal(Remedy.MOVE_ALLOCATIONS, text, {"allocations": parts, "removed": away}),
        repair=Repair({**repair.removal(away), **parts}, precondition=precondition_of(server)),
    )


def _wrong_host(
    snapshot: Cloud,
    server: values.Server,
    move: ServerMove,
    away: allocation.Allocations,
) -> AllocationFinding:
    here = Reason(Code.WRONG_HOST, f"it is on {server.host}")
    where = here if move.node else move.absent
    allocations = snapshot.allocations[server.uuid]
    return repair.about_server(
        server,
        WRONG_HOST,
        repair.hosts_of(snapshot, away),
        where.code,
        f"{where}, and has {repair.describe(snapshot, away)}",
        allocations=away,
        allocations_on_host={uuid: part for uuid, part in allocations.items() if uuid not in away},
    )


WRONG_SIZE = problem.error("wrong-size", "The allocations of a server differ from its flavor.")
SIZE_CODES = (WRONG_SIZE,)

_NOT_CLEANED_UP = Reason(
    Code.EVACUATED, "its evacuation is done, and its source has not cleaned up"
)


def find_wrong_size(snapshot: Cloud, context: AuditContext) -> Iterator[AllocationFinding]:
    """Servers at rest with too much or too little of a class."""
    free = FreeCapacity(snapshot)
    for server in snapshot.servers.values():
        finding = _check_size(snapshot, server, free)
        if finding is not None:
            yield context.settled(finding, [server.updated])


def _check_size(
    snapshot: Cloud, server: values.Server, free: FreeCapacity
) -> AllocationFinding | None:
    allocations = snapshot.allocations.get(server.uuid, {})
    move = move_of(snapshot, server)
    node = move.node
    if not allocations or move.moving or node is None or unready(snapshot, node):
        return None
    own = on_roots(snapshot, allocations, move.shared | {node.uuid})
    if not own:
        left = on_roots(snapshot, allocations, move.roots - {node.uuid})
        return _left_on_source(snapshot, server, left) if left else None
    total = allocation.add_resources(*own.values())
    requested = compare(snapshot, server, node.uuid, total, total).wrong
    if not requested:
        return None
    wrong = {name: total.get(name, 0) for name in requested}
    text = f"it has {repair.format_amounts(wrong)};"
    text += f" its flavor requests {repair.format_amounts(requested)}"
    fields = {"has": wrong, "requested": requested}
    finding = repair.about_server(server, WRONG_SIZE, (node.host,), Code.WRONG_SIZE, text, **fields)
    try:
        parts = correct(snapshot, node.uuid, own, requested, free)
    except NoRepair as error:
        return finding.as_unknown(error.reason)
    text = f"{repair.describe(snapshot, parts)} instead"
    return dataclasses.replace(
        finding,
        proposed=Proposal(Remedy.SET_AMOUNTS, text, {"allocations": parts}),
        repair=Repair(parts, precondition=precondition_of(server)),
    )


def _left_on_source(
    snapshot: Cloud, server: values.Server, left: allocation.Allocations
) -> AllocationFinding:
    """An evacuated server with allocations on its source only."""
    text = f"it is on {server.host}, but has {repair.describe(snapshot, left)}"
    fields = {"allocations": left, "allocations_on_host": {}}
    hosts = repair.hosts_of(snapshot, left)
    finding = repair.about_server(server, WRONG_HOST, hosts, Code.WRONG_HOST, text, **fields)
    return finding.as_unknown(_NOT_CLEANED_UP)


def on_roots(
    snapshot: Cloud, allocations: allocation.Allocations, roots: frozenset[str]
) -> allocation.Allocations:
    """The part of allocations that is in some trees."""
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


class SizeComparison(NamedTuple):
    """A server's amounts compared with its flavor; ``wrong``: ``{class: the right amount}``.

    ``undecided``: classes that depend on properties that nova does not report.
    """

    wrong: allocation.Resources
    undecided: frozenset[str]


def compare(
    snapshot: Cloud,
    server: values.Server,
    root: str,
    on_host: allocation.Resources,
    total: allocation.Resources,
) -> SizeComparison:
    """Compare the amounts ``on_host`` with the flavor; ``total`` includes other hosts."""
    request = expected.request_of(server)
    if request.unknown:
        return SizeComparison({}, frozenset())
    requested = request.total()
    undecided = undecided_classes(snapshot, root, request, total)
    undecided |= {*_variable(snapshot, server, root, total)}
    wrong = {name: requested.get(name, 0) for name in _wrong(requested, on_host, undecided)}
    return SizeComparison(wrong, undecided)


def undecided_classes(
    snapshot: Cloud,
    root: str,
    request: flavor.ServerRequest,
    total: allocation.Resources,
) -> frozenset[str]:
    """Classes that depend on image properties that nova does not report.

    A class without inventory in the tree is not used there. A server with VCPU and no PCPU is
    not pinned by its image.
    """
    if not request.undecided:
        return frozenset()
    offered = snapshot.classes_in_tree(root)
    undecided = {name for name in request.undecided if name in offered or name in total}
    if flavor.PCPU in undecided:
        if flavor.VCPU in total and flavor.PCPU not in total:
            undecided.discard(flavor.PCPU)
        else:
            undecided.add(flavor.VCPU)
    return frozenset(undecided)


def _variable(
    snapshot: Cloud, server: values.Server, root: str, total: allocation.Resources
) -> Iterator[str]:
    """Classes of which nova allocates other amounts to some servers, possibly to this one.

    On a host without PCPU, nova's scheduler falls back to VCPU for pinned CPUs. For a root disk
    on a volume made from an image, nova may report the image.
    """
    vcpus = server.flavor.vcpus if server.flavor else None
    is_pinned = flavor.PCPU in expected.request_of(server).total()
    falls_back = is_pinned and total.get(flavor.VCPU) == vcpus
    if falls_back and flavor.PCPU not in snapshot.classes_in_tree(root):
        yield from (flavor.VCPU, flavor.PCPU)
    if server.has_volumes and flavor.MEMORY_MB in total:
        on_volume = expected.request_of(dataclasses.replace(server, from_volume=True)).total()
        if total.get(flavor.DISK_GB, 0) == on_volume.get(flavor.DISK_GB, 0):
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
    snapshot: Cloud,
    root: str,
    own: allocation.Allocations,
    wrong: allocation.Resources,
    free: FreeCapacity,
) -> allocation.Allocations:
    """``own``, the allocations on the right host, with the amounts of ``wrong``: what changes.

    Subtracts what it adds from ``free``. Raises NoRepair.
    """
    parts = {uuid: dict(part) for uuid, part in own.items()}
    changed = set()
    added: list[allocation.Allocations] = []
    for resource_class, amount in wrong.items():
        holders = [uuid for uuid, part in own.items() if resource_class in part]
        holders = holders or expected.offering_to(snapshot, root, resource_class)
        if len(holders) != 1:
            raise NoRepair(_why_not_one(snapshot, root, resource_class, holders))
        uuid = holders[0]
        changed.add(uuid)
        part = parts.setdefault(uuid, {})
        more = amount - part.pop(resource_class, 0)
        if more > 0:
            addition = {uuid: {resource_class: more}}
            if shortages := free.shortages(addition, own):
                raise NoRepair(reasons.first_of(shortages))
            added.append(addition)
        if amount:
            part[resource_class] = amount
    for extra in added:
        free.allocate(extra)
    return {uuid: parts[uuid] for uuid in changed}


def _why_not_one(snapshot: Cloud, root: str, resource_class: str, holders: list[str]) -> Reason:
    if not holders:
        text = f"{snapshot.name_of(root)} has no inventory of {resource_class}"
        return Reason(Code.NO_INVENTORY, text)
    names = ", ".join(sorted(map(snapshot.name_of, holders)))
    return Reason(Code.AMBIGUOUS, f"{resource_class} could be on each of {names}")
