# SPDX-License-Identifier: Apache-2.0
"""Nova's host aggregates, compute nodes and their providers; several workflows use them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model import provider
from osc_placement.nova import servers, values
from osc_placement.nova.api import Nova, collected, host_aggregates
from osc_placement.plan import change
from osc_placement.plan.reasons import Code, Reason
from osc_placement.scheduling.server_hosts import ServerHosts

_NO_NODE = Reason(
    Code.NO_COMPUTE_NODE, "nova lists a compute service of this host, but no compute node"
)
_UNKNOWN_HOST = Reason(
    Code.UNKNOWN_HOST, "nova lists neither a compute node nor a compute service of this host"
)
_CELL_DOWN = Reason(Code.CELL_DOWN, "its cell is down: nova cannot list its compute nodes")
_CELLS_DOWN = "nova lists no compute node of this host, perhaps because the cell of {hosts} is down"


def no_provider(host: str, other: str = "", subject: str = "it") -> str:
    """Why a compute node of a host has no provider; ``other`` has the one with its name."""
    why = f": nova-compute on {host} creates one when it starts"
    if other:
        why = f", and cannot get one: the compute node of {other} has this name too"
    return f"{subject} has no resource provider{why}"


@dataclasses.dataclass(frozen=True)
class ComputeCloud:
    """Nova's compute hosts, Placement's providers, and which of them belong together.

    ``providers``: ``{uuid: provider}``. ``aggregates``: nova's host aggregates, where they are
    read. Readings of more than this are subclasses.
    """

    hosts: values.Hosts
    providers: Mapping[str, provider.Provider]
    aggregates: Sequence[values.HostAggregate] = ()

    @functools.cached_property
    def compute_nodes(self) -> dict[str, values.ComputeNode]:
        """``{uuid: compute node}``; the provider of a node has its UUID."""
        return {node.uuid: node for node in self.hosts.nodes}

    @functools.cached_property
    def nodes_of_host(self) -> dict[str, list[values.ComputeNode]]:
        """``{host: its compute nodes}``: one, or many with ironic."""
        return self.hosts.of_host()

    @functools.cached_property
    def hostnames(self) -> frozenset[str]:
        """The names of nova's compute nodes; their providers have the same names."""
        return frozenset(node.hostname for node in self.hosts.nodes)

    @functools.cached_property
    def existing_hosts(self) -> frozenset[str]:
        """The hosts that nova has: with a compute node or a service, or in a host aggregate."""
        in_aggregates = {host for aggregate in self.aggregates for host in aggregate.hosts}
        return self.hosts.services | self.nodes_of_host.keys() | in_aggregates

    @functools.cached_property
    def roots(self) -> dict[str, provider.Provider]:
        """``{name: root provider}``."""
        return {item.name: item for item in self.providers.values() if item.parent_uuid is None}

    @functools.cached_property
    def trees(self) -> dict[str, list[provider.Provider]]:
        """``{root uuid: the providers of its tree}``, including the root."""
        by_root: dict[str, list[provider.Provider]] = {}
        for item in self.providers.values():
            by_root.setdefault(item.root_uuid or item.uuid, []).append(item)
        return by_root

    def root_of(self, provider_uuid: str) -> str:
        """The root of a provider's tree; the provider itself if it is not known."""
        item = self.providers.get(provider_uuid)
        return (item.root_uuid if item else None) or provider_uuid

    def provider_of(self, node: values.ComputeNode) -> provider.Provider | None:
        """The provider with the UUID of a node, or the root provider with its hostname.

        But never that of another node: hosts of two cells may have one hostname.
        """
        of_name = self.roots.get(node.hostname)
        if of_name is not None and of_name.uuid in self.compute_nodes:
            of_name = None
        return self.providers.get(node.uuid) or of_name

    def name_taken_by(self, node: values.ComputeNode) -> values.ComputeNode | None:
        """The other compute node whose provider has the hostname of this one."""
        of_name = self.roots.get(node.hostname)
        other = self.compute_nodes.get(of_name.uuid) if of_name else None
        return None if other == node else other

    def providers_of(self, host: str) -> tuple[list[provider.Provider], list[change.Subject]]:
        """The providers of a host's nodes; and its nodes, or the host, without a provider."""
        nodes = self.nodes_of_host.get(host, [])
        providers = [(node, self.provider_of(node)) for node in nodes]
        without = [change.Subject(node.hostname, node.uuid) for node, item in providers if not item]
        existing = [item for _, item in providers if item]
        return existing, without if nodes else [change.Subject(host, "")]

    def why_missing(self, subject: change.Subject) -> Reason:
        """Why a node, or a host, of ``providers_of`` has no provider."""
        if subject.uuid:
            node = self.compute_nodes[subject.uuid]
            other = self.name_taken_by(node)
            return Reason(Code.NO_PROVIDER, no_provider(node.host, other.host if other else ""))
        if subject.name in self.hosts.unreachable:
            return _CELL_DOWN
        if self.hosts.unreachable:
            hosts = ", ".join(sorted(self.hosts.unreachable))
            return Reason(Code.CELL_DOWN, _CELLS_DOWN.format(hosts=hosts))
        return _NO_NODE if subject.name in self.hosts.services else _UNKNOWN_HOST


def observe_cloud(client: api.Client, nova: Nova) -> ComputeCloud:
    """Read both services.

    Requests: to nova, the host aggregates, the services, and the hypervisors in pages; to
    Placement, one listing. Errors: InvalidInput with every missing permission.
    """
    input_errors = errors.InputErrors()
    aggregates: Sequence[values.HostAggregate] = ()
    with collected(input_errors):
        aggregates = host_aggregates(nova)
    cloud = read_hosts(client, nova, input_errors)
    input_errors.check()
    return dataclasses.replace(cloud, aggregates=aggregates)


def read_hosts(client: api.Client, nova: Nova, input_errors: errors.InputErrors) -> ComputeCloud:
    """Nova's hosts and all providers; without what cannot be read, which ``input_errors`` gets.

    Requests: to nova, the services, and the hypervisors in pages; to Placement, one listing.
    """
    hosts, providers = values.Hosts(), list[provider.Provider]()
    with collected(input_errors):
        hosts = servers.read_hosts(nova)
    with collected(input_errors):
        providers = client.list_providers()
    return ComputeCloud(hosts, provider.by_uuid(providers))


def unknown_hosts(requested: Iterable[str], existing: Container[str]) -> list[str]:
    """An error for each requested host that nova does not have."""
    return [
        f"nova has no compute host {host!r}: 'openstack compute service list' shows them"
        for host in sorted(requested)
        if host not in existing
    ]


def host_names(
    requested: Iterable[str], hosts: values.Hosts, providers: Iterable[provider.Provider] = ()
) -> frozenset[str]:
    """Nova's names of hosts that are requested by this name, or by a provider's name or UUID.

    A provider that is no compute node keeps its name, and an unknown text stays.
    """
    names = {item.uuid: item.name for item in providers}
    names |= {text: node.host for node in hosts.nodes for text in (node.uuid, node.hostname)}
    names |= {host: host for host in hosts.services | hosts.of_host().keys()}
    return frozenset(names.get(text, text) for text in requested)


class Doubt(NamedTuple):
    """Why a root provider without a compute node may be right, and the hosts that it concerns."""

    code: Code
    hosts: tuple[str, ...] = ()


def why_not_stale(hosts: values.Hosts, root: provider.Provider, *, was_node: bool) -> Doubt | None:
    """Why a root provider like a compute node's, without a compute node, may be right.

    ``was_node``: it certainly was a compute node's; other services have inventory as a host has.
    Before its discovery, a host has a compute service and a provider, but no hypervisor.
    """
    if hosts.unreachable:
        return Doubt(Code.CELL_DOWN, tuple(sorted(hosts.unreachable)))
    undiscovered = hosts.services - hosts.of_host().keys()
    for host in (root.name, root.name.partition(".")[0]):
        if host in undiscovered:
            return Doubt(Code.UNDISCOVERED_HOST, (host,))
    return None if was_node else Doubt(Code.OTHER_SERVICE)


def read_server_hosts(nova: Nova | None) -> ServerHosts:
    """Read the compute services and the compute nodes; ``nova`` is None without nova.

    Requests: those of ``hosts.read_all``. If nova refuses them, the services are not checked.
    """
    if nova is None:
        return ServerHosts()
    try:
        return ServerHosts(servers.read_hosts(nova))
    except errors.PlacementError as error:
        return ServerHosts(None, f"compute services: {error}")


def not_counted(refused: Mapping[str, str]) -> list[str]:
    """``cmp-7, cmp-9 (nova-compute down)``, one line for each reason, for ``{name: reason}``."""
    names: dict[str, list[str]] = {}
    for name, why in refused.items():
        names.setdefault(why, []).append(name)
    return [f"{', '.join(sorted(hosts))} ({why})" for why, hosts in sorted(names.items())]
