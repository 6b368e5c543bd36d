"""Consumers that are no server of nova's: migrations, deleted servers, others' and orphans. Pure.

Whoever may be another service's is left alone: its type, its project and what it holds
where must all say that it was nova's. Called by ``audit``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from osc_placement.model import allocation
from osc_placement.nova import flavor, values
from osc_placement.plan import change
from osc_placement.workflows.allocations import location, precondition, snapshot as pictures
from osc_placement.workflows.allocations.audit import finding
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding, Repair

#: The types that are nova's; it names none, and then they are ``unknown``.
_NOVA_TYPES = frozenset({allocation.INSTANCE, allocation.MIGRATION})
_NO_TYPE = frozenset({None, allocation.UNKNOWN_TYPE})

#: So many hosts of which nova knows nothing at all are more than one that went.
_SEVERAL = 2

_CELL_DOWN = "it may be of a cell that is down"
_FOREIGN = (
    "nova knows nothing of {count} hosts, {name} among them: they may be another nova's"
    " (--host {name}, if it was this one's)"
)
_REMOVE = "remove {what}"
_SHOW = "find out whose it is; if nobody's: resource provider allocation delete"


def suspects(picture: pictures.CloudSnapshot) -> list[str]:
    """Consumers of which nova knows nothing: whose they are is to be read."""
    known = (picture.servers, picture.deleted, picture.migrations)
    return sorted(uuid for uuid in picture.allocations if not any(uuid in each for each in known))


def find(picture: pictures.CloudSnapshot, hints: AuditContext) -> Iterator[Finding]:
    """What is left of what nova does not have any more, and what nobody knows."""
    foreign = _foreign(picture, hints)
    for uuid, held in picture.allocations.items():
        if uuid in picture.servers:
            continue
        move, gone = picture.migrations.get(uuid), picture.deleted.get(uuid)
        if move is not None:
            found = _of_move(picture, move, held, hints)
        elif gone is not None:
            found = _of_deleted(picture, gone, held, hints)
        else:
            found = _of_nobody(picture, uuid, held, hints, foreign)
        if found is not None:
            yield found


def _of_move(
    picture: pictures.CloudSnapshot,
    move: values.Migration,
    held: allocation.Allocations,
    hints: AuditContext,
) -> Finding | None:
    """A migration holds the source side of its move, until that is over."""
    server = picture.servers.get(move.server_uuid) or picture.deleted.get(move.server_uuid)
    name = f"{move.type} of {server.name if server and server.name else move.server_uuid}"
    known = server is not None and not server.is_deleted
    if known and not move.is_over:
        return None
    if server is None and not move.is_over:
        found = _orphan(picture, name, move.uuid, held, "nova has its server no more")
        return found.doubted(f"the migration is {move.status}")
    evidence = "its server is deleted"
    if move.is_over:
        evidence = f"the migration is {move.status}, since {move.updated[:19]}"
    found = _orphan(picture, name, move.uuid, held, evidence, {})
    why = hints.too_young([move.updated]) or _why_open(move, server)
    return found.doubted(why) if why else found


def _why_open(move: values.Migration, server: values.Server | None) -> str:
    """Why a move that is over may yet hold its source: nobody knows where the guest is."""
    if server is None or server.is_deleted:
        return ""
    if not server.known:
        return location.CELL_DOWN
    both_failed = move.status == "error" and server.vm_state == "error"
    return "the migration and its server are both in error" if both_failed else ""


def _of_deleted(
    picture: pictures.CloudSnapshot,
    server: values.Server,
    held: allocation.Allocations,
    hints: AuditContext,
) -> Finding:
    found = _orphan(
        picture, server.name, server.uuid, held, f"nova has deleted the server, at {server.updated}"
    )
    why = hints.too_young([server.updated])
    return found.doubted(why) if why else found


def _of_nobody(
    picture: pictures.CloudSnapshot,
    uuid: str,
    held: allocation.Allocations,
    hints: AuditContext,
    foreign: Collection[str],
) -> Finding | None:
    """A consumer that nova does not know; None when it is another service's."""
    owner = picture.owners.get(uuid, pictures.Owner(None, None))
    if owner.type not in _NOVA_TYPES | _NO_TYPE:
        return None
    evidence = "no server, no migration of nova's"
    if owner.type in _NOVA_TYPES:
        evidence += f"; it is of type {owner.type}"
    found = _orphan(picture, uuid, uuid, held, evidence, precondition.NOBODY)
    why = (
        hints.doubts.get(uuid, "")
        or _why_hidden(picture, held, hints)
        or _why_foreign(picture, held, foreign)
        or _why_not_novas(picture, owner, held, hints)
    )
    if not why:
        return found
    what = finding.told(picture, held)
    return Finding(
        Code.UNKNOWN,
        found.subject,
        found.hosts,
        f"{evidence}; but {why}: {what}",
        _SHOW,
    )


def _why_hidden(
    picture: pictures.CloudSnapshot, held: allocation.Allocations, hints: AuditContext
) -> str:
    """Why nova may know a consumer nevertheless; empty when it told all."""
    hosts = picture.hosts
    elsewhere = any(picture.root_of(uuid) not in picture.compute_nodes for uuid in held)
    if elsewhere and (hosts.unreachable or not hosts.lists_down_cells):
        return _CELL_DOWN
    # Hosts were told and servers are not: it went down in between, and migrations of a cell
    # that is down are left out without a word.
    lost = hints.doubts or any(not one.known for one in picture.servers.values())
    return _CELL_DOWN if lost and not hosts.unreachable else ""


def _why_foreign(
    picture: pictures.CloudSnapshot, held: allocation.Allocations, foreign: Collection[str]
) -> str:
    """Why a consumer may be another nova's; empty when it is not."""
    there = sorted({picture.root_of(uuid) for uuid in held} & {*foreign})
    if not there:
        return ""
    return _FOREIGN.format(count=len(foreign), name=finding.name_of(picture, there[0]))


def _foreign(picture: pictures.CloudSnapshot, hints: AuditContext) -> frozenset[str]:
    """Roots that look as if they were another nova's hosts, as where regions share a Placement.

    Nova has no compute node of them, remembers none, and knows nobody who holds anything
    there. A single one is a host that went, rather; those that were named are this nova's.
    """
    known = (picture.servers, picture.deleted, picture.migrations)
    ours, strange = {*picture.compute_nodes}, set[str]()
    for uuid, held in picture.allocations.items():
        is_known = any(uuid in each for each in known)
        for provider_uuid, part in held.items():
            root = picture.root_of(provider_uuid)
            if is_known:
                ours.add(root)
            elif flavor.HOST_CLASSES & part.keys() or root in hints.computes:
                strange.add(root)
    names = {root: finding.name_of(picture, root) for root in strange - ours}
    remembered = picture.hostnames | picture.remembered
    found = {root: name for root, name in names.items() if name not in remembered}
    if len(found) < _SEVERAL:
        return frozenset()
    return frozenset(root for root, name in found.items() if name not in hints.named)


def _why_not_novas(
    picture: pictures.CloudSnapshot,
    owner: pictures.Owner,
    held: allocation.Allocations,
    hints: AuditContext,
) -> str:
    """Why a consumer may be somebody else's; empty when it cannot be."""
    if owner.type in _NOVA_TYPES:
        return ""
    if hints.others:
        return f"it may be a consumer of {hints.others}'s"
    if owner.project_id not in {*picture.projects, allocation.PLACEHOLDER}:
        return f"nova knows no server of its project {owner.project_id}"
    if not any(_is_novas(picture, uuid, part) for uuid, part in held.items()):
        return "others may use these resources too"
    return ""


def _is_novas(picture: pictures.CloudSnapshot, uuid: str, part: allocation.Resources) -> bool:
    """Whether only nova gives out such resources of this provider."""
    if flavor.HOST_CLASSES & part.keys():
        return True
    root = picture.root_of(uuid)
    if root not in picture.compute_nodes:
        return False
    # A bare metal node has no CPUs to give: its own class is nova's.
    offered = picture.inventories.get(root)
    if offered is not None and not flavor.HOST_CLASSES & offered.keys():
        return True
    return bool(flavor.STANDARD_CLASSES & part.keys())


def _orphan(
    picture: pictures.CloudSnapshot,
    name: str,
    uuid: str,
    held: allocation.Allocations,
    evidence: str,
    given: change.Facts = precondition.NO_SERVER,
) -> Finding:
    what = finding.told(picture, held)
    return Finding(
        Code.ORPHANED,
        change.Subject(name or uuid, uuid),
        finding.hosts_of(picture, held),
        evidence,
        _REMOVE.format(what=what),
        Repair(finding.emptied(held), premise=given, frees=True),
    )
