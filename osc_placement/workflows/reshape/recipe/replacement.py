"""Which provider takes over from which, and on which hosts of nova's they are. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.nova import values
from osc_placement.workflows.reshape.recipe import read


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """``old`` is the root that goes, ``new`` the one that comes, if it is there already.

    ``name`` and ``uuid`` are of the new one, ``host`` is nova's name of the host that it is
    on; both None where nova or Placement tells.
    """

    old: provider.Provider
    name: str
    new: provider.Provider | None = None
    uuid: str | None = None
    host: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """The request with what nova adds to it: the new UUID, and both hosts.

    ``new`` is the new provider where it is there; ``old_host`` None: nova knows none any more.
    """

    old: provider.Provider
    new: provider.Provider | None
    name: str
    uuid: str
    old_host: str | None
    new_host: str

    @property
    def hosts(self) -> list[str]:
        """The hosts where nobody may write meanwhile."""
        return list(dict.fromkeys(filter(None, (self.old_host, self.new_host))))

    @property
    def aside(self) -> str:
        """What the old provider is called from then on, where the new one gets its name."""
        return f"{self.old.name}-replaced-{self.old.uuid[:8]}" if self.takes_name else ""

    @property
    def takes_name(self) -> bool:
        """Whether the new one is called as the old one is."""
        return self.name == self.old.name


def settle(told: read.NovaState, request: Request) -> Settled:
    """What is to be replaced by what. Errors: InvalidInput with all that is not clear."""
    known = request.new.uuid if request.new is not None else ""
    uuid = request.uuid or known or _uuid_of_node(told.nodes, request)
    old = request.old
    old_host = _host(told.nodes, old.uuid) or _host(told.nodes, old.name)
    found = _host(told.nodes, uuid) or _host(told.nodes, request.name)
    new_host = request.host or found or old_host or ""
    faults = errors.InputErrors(_unclear(request, uuid))
    if not new_host:
        faults.add(f"nova knows no node {old.name} or {request.name}: give its --host")
    faults.reasons += _crowded(told.nodes, old_host, new_host)
    faults.check()
    return Settled(old, request.new, request.name, uuid, old_host, new_host)


def _unclear(request: Request, uuid: str) -> Iterator[str]:
    old, new = request.old, request.new
    if not uuid:
        yield (
            f"neither Placement nor nova knows {request.name}: give --uuid, what"
            " /var/lib/nova/compute_id says on the new host"
        )
    elif uuid == old.uuid:
        yield (
            f"{request.name} would keep the UUID of {old.name}: 'openstack resource provider"
            " set --name' is all that it takes"
        )
    if new is not None and new.uuid != uuid:
        yield f"there is a provider {new.name!r} with another UUID, {new.uuid}"
    if new is not None and new.name != request.name:
        yield f"provider {new.uuid} is called {new.name!r}, not {request.name!r}"


def _crowded(nodes: Iterable[values.ComputeNode], old: str | None, new: str) -> Iterator[str]:
    """Bare metal: many nodes on a host, each of which keeps its UUID wherever it goes."""
    known = list(nodes)
    for host in sorted({old, new} - {None, ""}, key=str):
        count = sum(node.host == host for node in known)
        if count > (2 if old == new else 1):
            yield f"host {host} has {count} nodes: this is for hosts with one"


def _uuid_of_node(nodes: Iterable[values.ComputeNode], request: Request) -> str:
    found = [node.uuid for node in nodes if node.hostname == request.name]
    return next((uuid for uuid in found if uuid != request.old.uuid), "")


def _host(nodes: Iterable[values.ComputeNode], of: str) -> str | None:
    """The host of the node with this UUID or hostname."""
    return next((node.host for node in nodes if of in (node.uuid, node.hostname)), None)
