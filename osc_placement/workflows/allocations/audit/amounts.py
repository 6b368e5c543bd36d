"""What a server is to have on its host, built on what is right of it already. Pure.

Classes of which the right amount is there stay where they are; of others the amount is set
where the class is, or is to be. What a flavor does not speak of (ports' bandwidth, PCI
devices, accelerators) is not touched. Called by ``place`` and ``size``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.workflows.allocations import capacity, expected, snapshot as pictures
from osc_placement.workflows.allocations.audit import finding

#: Classes that a server has for its flavor, and for nothing else.
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
class Amounts:
    """What is wrong of a server's amounts: ``{class: what it should be}``.

    ``needed`` is what its flavor asks for; ``hidden`` are classes that are not judged, since
    they depend on what is not shown. ``untold`` says why nothing can be judged.
    """

    wrong: allocation.Resources = dataclasses.field(default_factory=dict)
    needed: allocation.Resources = dataclasses.field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    untold: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """``parts`` are what changes, by provider; or ``why_not`` says why that is not known."""

    parts: allocation.Allocations = dataclasses.field(default_factory=dict)
    why_not: str = ""


def amounts(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    root: str,
    own: allocation.Resources,
    every: allocation.Resources,
) -> Amounts:
    """What is wrong of the amounts ``own`` on the right host; ``every`` are those anywhere."""
    asked = expected.request_of(server)
    if asked.unknown:
        return Amounts(untold="; ".join(asked.unknown))
    needed = asked.total()
    hidden = _hidden(picture, root, asked, every) | {*_as_nova_may(picture, server, root, every)}
    wrong = {name: needed.get(name, 0) for name in _wrong(needed, own, hidden)}
    return Amounts(wrong, needed, hidden)


def _hidden(
    picture: pictures.CloudSnapshot,
    root: str,
    asked: flavor.ServerRequest,
    every: allocation.Resources,
) -> frozenset[str]:
    """Classes that properties of an image decide about which nobody sees.

    What nothing offers there is not used there; and who has CPUs that are not pinned was
    not pinned by its image.
    """
    trees = picture.trees.get(root, ())
    offered = {name for item in trees for name in picture.inventories.get(item.uuid, {})}
    found = {name for name in asked.undecided if name in offered or name in every}
    if flavor.PCPU in found:
        if flavor.VCPU in every and flavor.PCPU not in every:
            found.discard(flavor.PCPU)
        else:
            found.add(flavor.VCPU)
    return frozenset(found)


def _as_nova_may(
    picture: pictures.CloudSnapshot, server: values.Server, root: str, every: allocation.Resources
) -> Iterator[str]:
    """Classes of which nova gives other amounts to some servers, and this may be one.

    Pinned CPUs are VCPU on a host that has no PCPU, where nova's scheduler falls back to these;
    and of a server whose root disk is a volume made from an image nova may tell that image.
    """
    needed = expected.request_of(server).total()
    offered = {
        name
        for item in picture.trees.get(root, ())
        for name in picture.inventories.get(item.uuid, {})
    }
    vcpus = server.flavor.vcpus if server.flavor else None
    if flavor.PCPU in needed.keys() - offered and every.get(flavor.VCPU) == vcpus:
        yield from (flavor.VCPU, flavor.PCPU)
    of_volume = expected.request_of(dataclasses.replace(server, from_volume=True)).total()
    disks = [amounts.get(flavor.DISK_GB, 0) for amounts in (every, of_volume)]
    if server.has_volumes and disks[0] == disks[1] and flavor.MEMORY_MB in every:
        yield flavor.DISK_GB


def _wrong(
    needed: allocation.Resources, held: allocation.Resources, hidden: frozenset[str]
) -> Iterator[str]:
    for name in sorted({*needed, *(OF_FLAVORS & held.keys())} - hidden):
        has, needs = held.get(name, 0), needed.get(name, 0)
        # More of an operator's own class may be a device's that the server has too.
        if has < needs or (has > needs and name in OF_FLAVORS):
            yield name


def settle(
    picture: pictures.CloudSnapshot,
    root: str,
    own: allocation.Allocations,
    wrong: allocation.Resources,
    free: capacity.Room,
) -> Settled:
    """How ``own``, what is on the right host, comes to have the amounts of ``wrong``.

    What is taken of ``free`` is gone for the next one.
    """
    parts = {uuid: dict(part) for uuid, part in own.items()}
    touched = set()
    taken: list[allocation.Allocations] = []
    for resource_class, amount in wrong.items():
        holders = [uuid for uuid, part in own.items() if resource_class in part]
        holders = holders or _places(picture, root, resource_class)
        if len(holders) != 1:
            return Settled(why_not=_where(picture, root, resource_class, holders))
        uuid = holders[0]
        touched.add(uuid)
        part = parts.setdefault(uuid, {})
        more = amount - part.pop(resource_class, 0)
        lacking = free.lacking({uuid: {resource_class: more}}) if more > 0 else []
        if lacking:
            return Settled(why_not="; ".join(lacking))
        if more > 0:
            taken.append({uuid: {resource_class: more}})
        if amount:
            part[resource_class] = amount
    for each in taken:
        free.take(each)
    return Settled({uuid: parts[uuid] for uuid in touched})


def _places(picture: pictures.CloudSnapshot, root: str, resource_class: str) -> list[str]:
    """Where a class is to be taken from: the root, or else what shares it with its tree."""
    if resource_class in picture.inventories.get(root, {}):
        return [root]
    shares = picture.sharing.get(root, ())
    return [uuid for uuid in shares if resource_class in picture.inventories.get(uuid, {})]


def _where(
    picture: pictures.CloudSnapshot, root: str, resource_class: str, holders: list[str]
) -> str:
    if not holders:
        return f"{finding.name_of(picture, root)} has no inventory of {resource_class}"
    names = ", ".join(sorted(finding.name_of(picture, uuid) for uuid in holders))
    return f"{resource_class} could be on each of {names}"
