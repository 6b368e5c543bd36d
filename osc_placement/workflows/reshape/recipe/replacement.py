"""The replacement of one compute node's provider by another, with nova's hosts of both. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.nova import values
from osc_placement.workflows.reshape.recipe import read


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """``old`` is the root to replace, ``new`` the new root if it exists.

    ``name``, ``uuid`` and ``host`` (nova's name of the host) are those of the new root; None reads
    them from nova or Placement.
    """

    old: provider.Provider
    name: str
    new: provider.Provider | None = None
    uuid: str | None = None
    host: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Replacement:
    """A request completed from nova: with the new UUID and both hosts.

    ``new`` is None if the new provider does not exist, ``old_host`` if nova has no such host.
    """

    old: provider.Provider
    new: provider.Provider | None
    name: str
    uuid: str
    old_host: str | None
    new_host: str

    @property
    def hosts(self) -> list[str]:
        """The hosts where nova-compute must be stopped."""
        return list(dict.fromkeys(filter(None, (self.old_host, self.new_host))))

    @property
    def old_name_after(self) -> str:
        """The new name of the old provider, if the new provider gets its name."""
        return f"{self.old.name}-replaced-{self.old.uuid[:8]}" if self.takes_name else ""

    @property
    def takes_name(self) -> bool:
        """Whether the new provider gets the name of the old one."""
        return self.name == self.old.name


def resolve(nova_state: read.NovaState, request: Request) -> Replacement:
    """Complete a request. Errors: InvalidInput with all that is missing or contradictory."""
    known = request.new.uuid if request.new is not None else ""
    uuid = request.uuid or known or _uuid_of_node(nova_state.nodes, request)
    old = request.old
    old_host = _host(nova_state.nodes, old.uuid) or _host(nova_state.nodes, old.name)
    found = _host(nova_state.nodes, uuid) or _host(nova_state.nodes, request.name)
    new_host = request.host or found or old_host or ""
    problems = errors.InputErrors(_contradictions(request, uuid))
    if not new_host:
        problems.add(f"nova knows no node {old.name} or {request.name}: give its --host")
    problems.reasons += _shared_hosts(nova_state.nodes, old_host, new_host)
    problems.check()
    return Replacement(old, request.new, request.name, uuid, old_host, new_host)


def _contradictions(request: Request, uuid: str) -> Iterator[str]:
    old, new = request.old, request.new
    if not uuid:
        yield (
            f"neither Placement nor nova knows {request.name}: give --uuid, the content of"
            " /var/lib/nova/compute_id on the new host"
        )
    elif uuid == old.uuid:
        yield (
            f"{request.name} would keep the UUID of {old.name}: use 'openstack resource provider"
            " set --name' instead"
        )
    if new is not None and new.uuid != uuid:
        yield f"there is a provider {new.name!r} with another UUID, {new.uuid}"
    if new is not None and new.name != request.name:
        yield f"provider {new.uuid} has the name {new.name!r}, not {request.name!r}"


def _shared_hosts(nodes: Iterable[values.ComputeNode], old: str | None, new: str) -> Iterator[str]:
    """Bare metal hosts have many nodes, and a node keeps its UUID on another host."""
    known = list(nodes)
    for host in sorted({old, new} - {None, ""}, key=str):
        count = sum(node.host == host for node in known)
        if count > (2 if old == new else 1):
            yield f"host {host} has {count} nodes: the recipe supports hosts with one"


def _uuid_of_node(nodes: Iterable[values.ComputeNode], request: Request) -> str:
    found = [node.uuid for node in nodes if node.hostname == request.name]
    return next((uuid for uuid in found if uuid != request.old.uuid), "")


def _host(nodes: Iterable[values.ComputeNode], text: str) -> str | None:
    """The host of the node with this UUID or hostname."""
    return next((node.host for node in nodes if text in (node.uuid, node.hostname)), None)
