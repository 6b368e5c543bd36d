"""Providers that give more than they have, or that nova has no compute node for. Pure.

Nothing of it is repaired: what a host offers is nova-compute's to say, and whether a
provider may go only somebody who knows the machine. Called by ``audit``.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import provider
from osc_placement.nova import flavor
from osc_placement.plan import change
from osc_placement.workflows.allocations import snapshot as pictures
from osc_placement.workflows.allocations.audit import finding
from osc_placement.workflows.allocations.audit.finding import AuditContext, Code, Finding

_MORE = "move servers away, or offer more (resource provider inventory amend)"
_DELETE = "resource provider delete --tree"
_EMPTY_FIRST = f"repair what has something there; then: {_DELETE}"
_CELL_DOWN = "the cell of {hosts} is down, and it may be a compute node there"
_UNDISCOVERED = "host {host} has a compute service: nova-manage cell_v2 discover_hosts"
_WHOSE = "find out whose it is"


def find(picture: pictures.CloudSnapshot, hints: AuditContext) -> Iterator[Finding]:
    """Providers that something is wrong with."""
    for item in picture.providers.values():
        if item.uuid in picture.unread:
            yield _unread(picture, item)
            continue
        over = _over_capacity(picture, item)
        if over is not None:
            yield over
        stale = _stale(picture, item, hints)
        if stale is not None:
            yield stale


def _unread(picture: pictures.CloudSnapshot, item: provider.Provider) -> Finding:
    return Finding(
        Code.UNKNOWN,
        change.Subject(item.name, item.uuid),
        finding.hosts_of(picture, [item.uuid]),
        f"it cannot be read: {picture.unread[item.uuid]}",
        "run it again",
    )


def _over_capacity(picture: pictures.CloudSnapshot, item: provider.Provider) -> Finding | None:
    used = picture.used.get(item.uuid, {})
    offered = picture.inventories.get(item.uuid, {})
    over = [
        f"{name} {used[name]} used of {found.capacity}"
        for name, found in sorted(offered.items())
        if used.get(name, 0) > found.capacity
    ]
    if not over:
        return None
    return Finding(
        Code.OVER_CAPACITY,
        change.Subject(item.name, item.uuid),
        finding.hosts_of(picture, [item.uuid]),
        ", ".join(over),
        _MORE,
    )


def _stale(
    picture: pictures.CloudSnapshot, item: provider.Provider, hints: AuditContext
) -> Finding | None:
    """A root that looks like a compute node's and is none; other services have theirs too."""
    if item.uuid != picture.root_of(item.uuid) or item.uuid in picture.compute_nodes:
        return None
    why = _why_novas(picture, item, hints)
    if not why and not flavor.HOST_CLASSES & picture.inventories.get(item.uuid, {}).keys():
        return None
    tree = picture.trees[item.uuid]
    busy = any(picture.used.get(each.uuid) for each in tree)
    found = Finding(
        Code.STALE_PROVIDER,
        change.Subject(item.name, item.uuid),
        (item.name,),
        why or "nova has no compute node of it",
        _EMPTY_FIRST if busy else _DELETE,
    )
    if picture.hosts.unreachable:
        return found.doubted(_CELL_DOWN.format(hosts=", ".join(sorted(picture.hosts.unreachable))))
    awaited = _awaited(picture, item)
    if awaited:
        return found.doubted(_UNDISCOVERED.format(host=awaited))
    if not why:
        return found.doubted(f"{_WHOSE}; if nova's: {found.proposed}")
    return found


def _awaited(picture: pictures.CloudSnapshot, item: provider.Provider) -> str:
    """The host whose compute node it may be, that nova does not list yet; empty when none is.

    A host that was not discovered has a compute service and a provider, and no hypervisor.
    """
    without = picture.hosts.services - picture.nodes_of_host.keys()
    return next((host for host in (item.name, item.name.partition(".")[0]) if host in without), "")


def _why_novas(
    picture: pictures.CloudSnapshot, item: provider.Provider, hints: AuditContext
) -> str:
    """What tells that a provider was a compute node's; empty when nothing does."""
    if item.name in picture.hostnames:
        return "nova's compute node of this name has another uuid"
    if item.uuid in hints.computes:
        return "nova has no compute node of it, though it has the trait COMPUTE_NODE"
    if item.name in picture.remembered:
        return "nova has no compute node of it any more"
    return ""
