"""Servers with allocations where they are not: on a second host, or on a wrong one. Pure.

Compared by root: children and what shares with a host's tree are the host's. Where a
server may hold something while it moves is ``situation``'s. Called by ``audit``.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import change
from osc_placement.workflows.allocations import (
    capacity,
    location,
    precondition,
    snapshot as pictures,
)
from osc_placement.workflows.allocations.audit import amounts, finding
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding, Repair

#: The states in which a server may be on no host.
_ON_NONE = frozenset({"shelved_offloaded", "error", "building"})

#: What most flavors ask for: one that does not wants to have none.
_USUAL = frozenset({flavor.VCPU, flavor.MEMORY_MB, flavor.DISK_GB})


def find(picture: pictures.CloudSnapshot, hints: AuditContext) -> Iterator[Finding]:
    """Servers that hold something where they may not."""
    names = {uuid: item.name for uuid, item in picture.providers.items()}
    free = capacity.Room(picture.inventories, picture.used, names)
    for uuid, server in picture.servers.items():
        held = picture.allocations.get(uuid)
        if not held:
            continue
        where = location.of(picture, server)
        away = {
            part: resources
            for part, resources in held.items()
            if not where.may_hold(picture.root_of(part))
        }
        found = _judge(picture, server, where, away, free) if away else None
        if found is not None:
            moves = picture.moves.get(uuid, ())
            why = hints.too_young([server.updated, *(move.updated for move in moves)])
            yield found.doubted(why) if why and found.repair else found


def _judge(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    where: location.Situation,
    away: allocation.Allocations,
    free: capacity.Room,
) -> Finding | None:
    """Of a server that holds ``away`` where it may not."""
    if where.moving:
        return _wrong_host(picture, server, where, away).doubted(where.moving)
    if where.node is None:
        return _on_none(picture, server, where, away)
    root = where.node.uuid
    odd = _not_a_host(picture, away)
    if odd:
        return _wrong_host(picture, server, where, away).doubted(odd)
    own = {
        uuid: part for uuid, part in picture.allocations[server.uuid].items() if uuid not in away
    }
    classes = {name for part in own.values() for name in part}
    if own and classes >= {name for part in away.values() for name in part}:
        return _doubled(picture, server, own, away)
    return _elsewhere(picture, server, where, own, away, root, free)


def _not_a_host(picture: pictures.CloudSnapshot, away: allocation.Allocations) -> str:
    """Why what is held there may be something else than a server's place on a host."""
    roots: dict[str, set[str]] = {}
    for uuid, part in away.items():
        roots.setdefault(picture.root_of(uuid), set()).update(part)
    for root, classes in roots.items():
        if root not in picture.compute_nodes and not flavor.HOST_CLASSES & classes:
            name = finding.name_of(picture, root)
            return f"{name} is no compute node, and does not share with its host's tree"
    return ""


def _on_none(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    where: location.Situation,
    away: allocation.Allocations,
) -> Finding:
    """Nothing runs on a host that would use it: surely so of what never ran, or was put away."""
    evidence = f"{where.absent}, and has {finding.told(picture, away)}"
    found = _removed(picture, server, Code.WRONG_HOST, evidence, away)
    if server.vm_state in _ON_NONE:
        return found
    return found.doubted(f"a server that is {server.vm_state} is on some host")


def _doubled(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    own: allocation.Allocations,
    away: allocation.Allocations,
) -> Finding:
    evidence = f"it is on {server.host}, and has it all there: {finding.told(picture, own)}"
    return _removed(picture, server, Code.DOUBLED, evidence, away)


def _removed(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    code: Code,
    evidence: str,
    away: allocation.Allocations,
) -> Finding:
    """What a server holds where it may not goes, and the rest stays."""
    return Finding(
        code,
        change.Subject(server.name, server.uuid),
        finding.hosts_of(picture, away),
        evidence,
        f"remove {finding.told(picture, away)}",
        Repair(finding.emptied(away), premise=precondition.of(server), frees=True),
    )


def _elsewhere(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    where: location.Situation,
    own: allocation.Allocations,
    away: allocation.Allocations,
    root: str,
    free: capacity.Room,
) -> Finding:
    """What is elsewhere and not here is to be here, if that is all known."""
    found = _wrong_host(picture, server, where, away)
    why = _unmovable(picture, root)
    if why:
        return found.doubted(why)
    here = allocation.add_resources(*own.values())
    there = allocation.add_resources(*away.values())
    every = allocation.add_resources(here, there)
    judged = amounts.amounts(picture, server, root, here, every)
    why = judged.untold or _untold(judged, there)
    if why:
        return found.doubted(why)
    new = amounts.settle(picture, root, own, judged.wrong, free)
    if new.why_not:
        return found.doubted(new.why_not)
    return Finding(
        Code.WRONG_HOST,
        found.subject,
        found.hosts,
        found.evidence,
        f"{finding.told(picture, new.parts)} instead",
        Repair({**finding.emptied(away), **new.parts}, premise=precondition.of(server)),
    )


def _unmovable(picture: pictures.CloudSnapshot, root: str) -> str:
    """Why nothing can be put on a host."""
    if root not in picture.providers:
        return "its host has no resource provider"
    unread = [item.uuid for item in picture.trees[root] if item.uuid in picture.unread]
    if unread:
        return f"the allocations on {finding.name_of(picture, unread[0])} cannot be read"
    return ""


def _untold(judged: amounts.Amounts, there: allocation.Resources) -> str:
    """What it has there for no reason that its flavor tells, and might need here."""
    devices = there.keys() - judged.needed.keys() - _USUAL
    names = sorted(devices | (judged.hidden & there.keys()))
    return f"what it has {', '.join(names)} for is not known" if names else ""


def _wrong_host(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    where: location.Situation,
    away: allocation.Allocations,
) -> Finding:
    on = f"it is on {server.host}" if where.node else where.absent
    return Finding(
        Code.WRONG_HOST,
        change.Subject(server.name or server.uuid, server.uuid),
        finding.hosts_of(picture, away),
        f"{on}, and has {finding.told(picture, away)}",
        "",
    )
