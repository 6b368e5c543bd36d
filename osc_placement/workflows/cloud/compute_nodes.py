# SPDX-License-Identifier: Apache-2.0
"""Nova's host aggregates, compute nodes and their providers; several workflows use them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from osc_placement import errors
from osc_placement.client import api
from osc_placement.model import provider
from osc_placement.nova import servers, values
from osc_placement.nova.api import Nova, collected
from osc_placement.plan.change import AggregatesState, ComputeState
from osc_placement.plan.reasons import Code
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud.cloud import Cloud


def read_hosts(client: api.Client, nova: Nova, input_errors: errors.InputErrors) -> Cloud:
    """Nova's hosts and all providers; without what cannot be read, which ``input_errors`` gets.

    Requests: to nova, the services, and the hypervisors in pages; to Placement, one listing.
    """
    hosts, providers = values.Hosts(), list[provider.Provider]()
    with collected(input_errors):
        hosts = servers.read_hosts(nova)
    with collected(input_errors):
        providers = client.list_providers()
    return Cloud(hosts, provider.by_uuid(providers))


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


class ComputeStates:
    """The states of hosts on which changes are planned."""

    def __init__(self, hosts: values.Hosts) -> None:
        self._nodes = {key: node for node in hosts.nodes for key in (node.hostname, node.host)}
        self._nodes |= {node.uuid: node for node in hosts.nodes}
        self._services = {service.host: service for service in hosts.compute_services}

    def of(self, name: str, uuid: str) -> ComputeState:
        """The state of the host of a root provider with this name and UUID."""
        node = self._nodes.get(uuid) or self._nodes.get(name)
        names = (node.host,) if node else (name, name.partition(".")[0])
        service = next((self._services[it] for it in names if it in self._services), None)
        status = "none"
        if service is not None:
            status = "enabled" if service.is_enabled else "disabled"
            status += "" if service.is_up else " and down"
        return ComputeState(name, uuid, node is not None, status)


def aggregates_state(
    aggregates: Iterable[values.HostAggregate],
    host: str,
    members: Iterable[str] = (),
    keys: Iterable[str] = (),
) -> AggregatesState:
    """What nova's host aggregates say of a host: of aggregates by UUID, of keys of metadata."""
    own = {item.uuid: item.metadata for item in aggregates if host in item.hosts}
    metadata = {
        key: ", ".join(sorted(item[key] for item in own.values() if key in item)) for key in keys
    }
    return AggregatesState(host, {uuid: uuid in own for uuid in members}, metadata)


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

    Requests: those of ``servers.read_hosts``. If nova refuses them, the services are not checked.
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
