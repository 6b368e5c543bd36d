"""What the provider audit knows: nova's hosts, neutron's agents, and the providers. Pure."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from osc_placement.model import inventory, provider
from osc_placement.neutron.api import Agent
from osc_placement.nova import pci, values
from osc_placement.nova.provider_config import ProviderConfig
from osc_placement.plan import change
from osc_placement.workflows.findings import Finding

#: A finding about a provider; its repair is ``{trait: whether to have it}``.
ProviderFinding = Finding[Mapping[str, bool]]


@dataclasses.dataclass(frozen=True, slots=True)
class HostNode:
    """A compute node, and its provider: that of its UUID, or the root provider of its name."""

    node: values.ComputeNode
    provider: provider.Provider

    @property
    def subject(self) -> change.Subject:
        """The provider, as findings name it."""
        return change.Subject(self.provider.name, self.provider.uuid)


@dataclasses.dataclass(frozen=True)
class ProviderSnapshot:
    """The state of all services.

    ``inventories`` is ``{provider: inventories}``, ``traits`` ``{provider: traits}`` of compute
    nodes, ``used_up`` the one-time-use devices without capacity and without usage. ``computes``
    are the providers with the trait COMPUTE_NODE. ``sev_es`` is ``{provider: contexts in use}`` of
    SEV-ES on hosts with SEV-SNP. ``pci_devices`` are the PCI devices that nova-compute manages,
    ``pci_consumers`` is ``{device: consumers}`` of those that ``pci`` may not match. ``agents``,
    ``pci`` and ``config`` are None if they
    were not read. ``read_errors`` is ``{provider: error}``.
    """

    hosts: values.Hosts
    providers: Sequence[provider.Provider]
    inventories: Mapping[str, inventory.Inventories] = dataclasses.field(default_factory=dict)
    traits: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    generations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    used_up: frozenset[str] = frozenset()
    computes: frozenset[str] = frozenset()
    sev_es: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pci_devices: frozenset[str] = frozenset()
    pci_consumers: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    pci: pci.PciConfiguration | None = None
    agents: Sequence[Agent] | None = None
    config: ProviderConfig | None = None
    read_errors: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def by_uuid(self) -> Mapping[str, provider.Provider]:
        """``{uuid: provider}``."""
        return provider.by_uuid(self.providers)

    @functools.cached_property
    def node_uuids(self) -> frozenset[str]:
        """The UUIDs of the compute nodes that nova lists."""
        return frozenset(node.uuid for node in self.nodes)

    @functools.cached_property
    def roots(self) -> Mapping[str, provider.Provider]:
        """``{name: root provider}``."""
        return {item.name: item for item in self.providers if item.parent_uuid is None}

    @functools.cached_property
    def host_nodes(self) -> list[HostNode]:
        """The compute nodes that have a provider."""
        by_uuid, roots = self.by_uuid, self.roots
        found = ((node, by_uuid.get(node.uuid) or roots.get(node.hostname)) for node in self.nodes)
        return [HostNode(node, item) for node, item in found if item is not None]

    @functools.cached_property
    def trees(self) -> Mapping[str, list[provider.Provider]]:
        """``{root: all providers of its tree}``."""
        found: dict[str, list[provider.Provider]] = collections.defaultdict(list)
        for item in self.providers:
            found[item.root_uuid or item.uuid].append(item)
        return found

    @functools.cached_property
    def roots_without_node(self) -> list[provider.Provider]:
        """The root providers with neither the UUID nor the name of a compute node."""
        names = {node.hostname for node in self.nodes}
        return [
            item
            for item in self.roots.values()
            if item.uuid not in self.node_uuids and item.name not in names
        ]

    @property
    def nodes(self) -> Sequence[values.ComputeNode]:
        """The compute nodes that nova lists."""
        return self.hosts.nodes

    def hosts_of(self, item: provider.Provider) -> tuple[str, ...]:
        """The host of a provider's tree; the name of a root that is not a compute node."""
        root = self.by_uuid.get(item.root_uuid or item.uuid, item)
        return (self._host_of_root.get(root.uuid, root.name),)

    @functools.cached_property
    def unmatched_devices(self) -> list[provider.Provider]:
        """The PCI devices that the nova.conf does not match for certain."""
        return [
            item
            for item in self.providers
            if item.uuid in self.pci_devices and not self.pci_match(item)
        ]

    def pci_match(self, item: provider.Provider) -> bool | None:
        """Whether the nova.conf matches a PCI device; None if this cannot be judged."""
        device = pci.device_of(item.name, self.inventories.get(item.uuid, ()))
        if device is None or self.pci is None:
            return None
        if self.pci.host is not None and self.pci.host not in self.hosts_of(item):
            return None
        return self.pci.matches(device)

    @functools.cached_property
    def _host_of_root(self) -> Mapping[str, str]:
        return {item.provider.uuid: item.node.host for item in self.host_nodes}


def used_up_devices(
    inventories: Mapping[str, inventory.Inventories], one_time_use: frozenset[str]
) -> Iterator[str]:
    """The one-time-use devices of which everything is reserved, in use or not."""
    for uuid in sorted(one_time_use):
        offered = inventories.get(uuid, {}).values()
        if any(0 < item.total <= item.reserved for item in offered):
            yield uuid
