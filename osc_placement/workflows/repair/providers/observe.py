# SPDX-License-Identifier: Apache-2.0
"""What the provider audit knows: nova's hosts, neutron's agents, and the providers.

Only ``read`` sends requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from osc_placement.client import api
from osc_placement.model import command_line, inventory, provider
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import pci, values
from osc_placement.nova.api import Nova
from osc_placement.nova.provider_config import ProviderConfig
from osc_placement.plan import change
from osc_placement.plan.kinds.inventories import ONE_TIME_USE
from osc_placement.plan.reasons import Code
from osc_placement.scheduling.traits import OWNER
from osc_placement.workflows.cloud import facts, source
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.problem import ProblemCode
from osc_placement.workflows.repair.findings import Evidence, Fields, Finding, Proposal, Remedy

#: A finding about a provider; its repair is ``{trait: whether to have it}``.
ProviderFinding = Finding[Mapping[str, bool]]


class ProviderProblem(NamedTuple):
    """A code: why a finding has it, and what to do. ``advice`` can name fields of the evidence."""

    code: ProblemCode
    cause: Code
    remedy: Remedy
    advice: str = ""

    def about(
        self,
        item: provider.Provider | change.Subject,
        hosts: tuple[str, ...],
        text: str,
        fields: Fields,
    ) -> ProviderFinding:
        """The finding about a provider. ``text`` and ``fields`` are the evidence."""
        quoted = {key: command_line.quote(str(value)) for key, value in fields.items()}
        return Finding(
            self.code,
            change.Subject(item.name, item.uuid),
            hosts,
            Evidence(self.cause, text, fields),
            Proposal(self.remedy, self.advice.format(**quoted)),
        )

    def repaired(
        self, item: HostNode, traits: Mapping[str, bool], text: str, fields: Fields
    ) -> ProviderFinding:
        """The finding about a compute node's provider, with the traits to set and to remove."""
        advice = ", ".join(f"{'add' if has else 'remove'} {name}" for name, has in traits.items())
        return dataclasses.replace(
            self.about(item.provider, (item.node.host,), text, fields),
            proposed=Proposal(self.remedy, advice, {"traits": dict(traits)}),
            repair=traits,
        )


class HostNode(NamedTuple):
    """A compute node, and its provider: that of its UUID, or the root provider of its name."""

    node: values.ComputeNode
    provider: provider.Provider


#: The traits that say which service offers a provider.
OWNERS = (OWNER, "OWNER_CYBORG")


@dataclasses.dataclass(eq=False)
class AuditedCloud:
    """A cloud beside the files of its site: ``pci`` and ``config`` are None without them."""

    cloud: Cloud
    pci: pci.PciConfiguration | None = None
    config: ProviderConfig | None = None

    def offered(self, item: provider.Provider) -> inventory.Inventories:
        """The inventories of a provider, none of one that cannot be read: a finding says so."""
        return facts.value(self.cloud.inventories, item.uuid, {})

    def having(self, trait: str) -> frozenset[str]:
        """The providers with a trait. Requests: one, the first time."""
        return self.cloud.with_trait.get(trait, frozenset())

    @property
    def pci_devices(self) -> frozenset[str]:
        """The PCI devices that nova-compute manages."""
        return self.having(pci.MANAGED)

    def owners_of(self, item: provider.Provider) -> list[str]:
        """The traits of a provider that name its owner."""
        return [name for name in OWNERS if item.uuid in self.having(name)]

    @functools.cached_property
    def used_up(self) -> frozenset[str]:
        """The one-time-use devices without capacity and without usage."""
        devices = [*used_up_devices(self.cloud.inventories, self.having(ONE_TIME_USE))]
        facts.prefetch(self.cloud.usages, devices)
        return frozenset(
            uuid
            for uuid in devices
            if uuid in self.cloud.usages and not any(self.cloud.usages[uuid].values())
        )

    @functools.cached_property
    def sev_es(self) -> dict[str, int]:
        """``{provider: contexts in use}`` of SEV-ES on hosts with SEV-SNP."""
        sev_es = self.having("HW_CPU_X86_AMD_SEV_ES") & self.cloud.providers.keys()
        if not sev_es:
            return {}
        roots = set(map(self.cloud.root_of, self.having("HW_CPU_X86_AMD_SEV_SNP")))
        uuids = sorted(uuid for uuid in sev_es if self.cloud.root_of(uuid) in roots)
        facts.prefetch(self.cloud.usages, uuids)
        read = {uuid: self.cloud.usages[uuid] for uuid in uuids if uuid in self.cloud.usages}
        return {uuid: used.get("MEM_ENCRYPTION_CONTEXT", 0) for uuid, used in read.items()}

    @functools.cached_property
    def pci_consumers(self) -> dict[str, list[str]]:
        """``{device: consumers}`` of the devices that ``pci`` may not match."""
        unmatched = [item.uuid for item in self.unmatched_devices] if self.pci else []
        facts.prefetch(self.cloud.held, unmatched)
        return {
            uuid: sorted(self.cloud.held[uuid].allocations)
            for uuid in unmatched
            if uuid in self.cloud.held
        }

    @functools.cached_property
    def host_nodes(self) -> list[HostNode]:
        """The compute nodes that have a provider."""
        pairs = ((node, self.cloud.provider_of(node)) for node in self.cloud.hosts.nodes)
        return [HostNode(node, item) for node, item in pairs if item is not None]

    @functools.cached_property
    def roots_without_node(self) -> list[provider.Provider]:
        """The root providers with neither the UUID nor the name of a compute node."""
        return [
            item
            for item in self.cloud.roots.values()
            if item.uuid not in self.cloud.compute_nodes and item.name not in self.cloud.hostnames
        ]

    def hosts_of(self, item: provider.Provider) -> tuple[str, ...]:
        """The host of a provider's tree; the name of a root that is not a compute node."""
        root = self.cloud.providers.get(self.cloud.root_of(item.uuid), item)
        return (self._host_of_root.get(root.uuid, root.name),)

    @functools.cached_property
    def unmatched_devices(self) -> list[provider.Provider]:
        """The PCI devices that the nova.conf does not match for certain."""
        return [
            item
            for item in self.cloud.providers.values()
            if item.uuid in self.pci_devices and not self.pci_match(item)
        ]

    def is_novas(self, item: provider.Provider) -> bool:
        """Whether nova-compute offers a device."""
        return item.uuid in self.pci_devices or item.uuid in self.having(OWNER)

    def pci_match(self, item: provider.Provider) -> bool | None:
        """Whether the nova.conf matches a PCI device; None if this cannot be checked."""
        device = pci.device_of(item.name, self.offered(item))
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
        offered = inventories[uuid].values() if uuid in inventories else ()
        if any(0 < item.total <= item.reserved for item in offered):
            yield uuid


@dataclasses.dataclass(frozen=True, slots=True)
class ProviderAuditRequest:
    """What to audit: ``hosts`` by nova's names or providers' names, ``only`` these codes.

    Empty sets select everything. ``config``: what the site's provider.yaml files say.
    ``pci``: what the nova.conf of the compute hosts says about PCI devices.
    """

    hosts: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    repair: bool = False
    config: ProviderConfig | None = None
    pci: pci.PciConfiguration | None = None


def read(
    client: api.Client,
    nova: Nova,
    neutron: neutron_api.Neutron | None,
    request: ProviderAuditRequest,
    context: ReadContext,
) -> AuditedCloud:
    """The cloud with the inventories of all providers and the traits of the compute nodes.

    Requests: see ``audit.audit_providers``.
    """
    cloud = source.read(client, nova, context)
    cloud.agents = None if neutron is None else neutron_api.agents(neutron)
    facts.prefetch(cloud.inventories, cloud.providers)
    audited = AuditedCloud(cloud, request.pci, request.config)
    nodes = [item.provider.uuid for item in audited.host_nodes]
    source.of(client, context).prefetch_traits(cloud, nodes)
    return audited
