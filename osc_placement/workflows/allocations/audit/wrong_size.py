"""Servers on their host with other amounts than their flavor says. Pure.

Compared class by class over all that a server has on its host. Called by ``audit``.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import allocation
from osc_placement.nova import values
from osc_placement.plan import change
from osc_placement.workflows.allocations import (
    capacity,
    location,
    precondition,
    snapshot as pictures,
)
from osc_placement.workflows.allocations.audit import amounts, finding
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding, Repair


def find(picture: pictures.CloudSnapshot, hints: AuditContext) -> Iterator[Finding]:
    """Servers at rest that have too much or too little of a class."""
    names = {uuid: item.name for uuid, item in picture.providers.items()}
    free = capacity.Room(picture.inventories, picture.used, names)
    for server in picture.servers.values():
        found = _judge(picture, server, free)
        if found is not None:
            why = hints.too_young([server.updated])
            yield found.doubted(why) if why and found.repair else found


def _judge(
    picture: pictures.CloudSnapshot, server: values.Server, free: capacity.Room
) -> Finding | None:
    held = picture.allocations.get(server.uuid, {})
    where = location.of(picture, server)
    if not held or where.moving or where.node is None or where.node.uuid not in picture.providers:
        return None
    root = where.node.uuid
    if any(item.uuid in picture.unread for item in picture.trees[root]):
        return None
    own = _on(picture, held, {root, *where.shared})
    rest = _on(picture, held, where.roots - {root})
    if not own:
        return _only_behind(picture, server, rest) if rest else None
    total = allocation.add_resources(*own.values())
    judged = amounts.amounts(picture, server, root, total, total)
    if not judged.wrong:
        return None
    evidence = f"it has {finding.amounts(_of(total, judged))}; its flavor says {_needed(judged)}"
    found = Finding(
        Code.WRONG_SIZE,
        change.Subject(server.name, server.uuid),
        (where.node.host,),
        evidence,
        "",
    )
    new = amounts.settle(picture, root, own, judged.wrong, free)
    if new.why_not:
        return found.doubted(new.why_not)
    return Finding(
        found.code,
        found.subject,
        found.hosts,
        evidence,
        f"{finding.told(picture, new.parts)} instead",
        Repair(new.parts, premise=precondition.of(server)),
    )


def _only_behind(
    picture: pictures.CloudSnapshot, server: values.Server, rest: allocation.Allocations
) -> Finding:
    """It was evacuated, and has something at its source alone."""
    found = Finding(
        Code.WRONG_HOST,
        change.Subject(server.name, server.uuid),
        finding.hosts_of(picture, rest),
        f"it is on {server.host}, but has {finding.told(picture, rest)}",
        "",
    )
    return found.doubted("its evacuation is done, and its source has not cleaned up")


def _on(
    picture: pictures.CloudSnapshot, held: allocation.Allocations, roots: set[str] | frozenset[str]
) -> allocation.Allocations:
    return {uuid: part for uuid, part in held.items() if picture.root_of(uuid) in roots}


def _of(total: allocation.Resources, judged: amounts.Amounts) -> allocation.Resources:
    """Of what it has, what is wrong."""
    return {name: total.get(name, 0) for name in judged.wrong}


def _needed(judged: amounts.Amounts) -> str:
    return finding.amounts(judged.wrong)
