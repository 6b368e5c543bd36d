"""The amounts that a server should have on its host, keeping those that are right. Pure.

A wrong amount is changed on the provider that has the class already, or on the one that offers
it. Resources that a flavor does not request (ports' bandwidth, PCI devices, accelerators) stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import reasons
from osc_placement.plan.reasons import Code, Reason
from osc_placement.workflows.allocations import expected
from osc_placement.workflows.allocations.capacity import FreeCapacity
from osc_placement.workflows.allocations.snapshot import CloudSnapshot

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
class Comparison:
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
) -> Comparison:
    """Compare the amounts ``on_host`` with the flavor; ``total`` includes other hosts."""
    request = expected.request_of(server)
    if request.unknown:
        return Comparison(unknown=Reason(Code.NO_FLAVOR, "; ".join(request.unknown)))
    requested = request.total()
    undecided = _undecided(snapshot, root, request, total)
    undecided |= {*_variable(snapshot, server, root, total)}
    wrong = {name: requested.get(name, 0) for name in _wrong(requested, on_host, undecided)}
    return Comparison(wrong, requested, undecided)


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
    found = {name for name in request.undecided if name in offered or name in total}
    if flavor.PCPU in found:
        if flavor.VCPU in total and flavor.PCPU not in total:
            found.discard(flavor.PCPU)
        else:
            found.add(flavor.VCPU)
    return frozenset(found)


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
    requested: allocation.Resources, held: allocation.Resources, undecided: frozenset[str]
) -> Iterator[str]:
    for name in sorted({*requested, *(OF_FLAVORS & held.keys())} - undecided):
        has, needs = held.get(name, 0), requested.get(name, 0)
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
    for each in added:
        free.allocate(each)
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
