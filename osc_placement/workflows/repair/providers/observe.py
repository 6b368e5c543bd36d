# SPDX-License-Identifier: Apache-2.0
"""What the provider audit knows: nova's hosts, neutron's agents, and the providers.

Only ``read`` sends requests; the rest is pure.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from osc_placement import errors
from osc_placement.client import api, lookup, responses
from osc_placement.model import command_line, inventory, provider
from osc_placement.neutron import api as neutron_api
from osc_placement.neutron.api import Agent
from osc_placement.nova import pci, values
from osc_placement.nova.api import Nova
from osc_placement.nova.provider_config import ProviderConfig
from osc_placement.plan import change
from osc_placement.plan.kinds.inventories import ONE_TIME_USE
from osc_placement.plan.reasons import Code
from osc_placement.scheduling.traits import OWNER
from osc_placement.workflows.cloud.compute_nodes import ComputeCloud, read_hosts
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.observe import inverted, whole_state
from osc_placement.workflows.cloud.problem import ProblemCode
from osc_placement.workflows.cloud.reading import PlacementReader
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


@dataclasses.dataclass(frozen=True)
class ProviderSnapshot(ComputeCloud):
    """The state of all services.

    ``inventories`` is ``{provider: inventories}``, ``traits`` ``{provider: traits}`` of compute
    nodes, ``used_up`` the one-time-use devices without capacity and without usage. ``computes``
    are the providers with the trait COMPUTE_NODE. ``sev_es`` is ``{provider: contexts in use}`` of
    SEV-ES on hosts with SEV-SNP. ``pci_devices`` are the PCI devices that nova-compute manages,
    ``owners`` is ``{provider: its traits of an owner}``, ``pci_consumers`` is ``{device:
    consumers}`` of those that ``pci`` may not match. ``agents``, ``pci`` and ``config`` are None if
    they were not read. ``read_errors`` is ``{provider: error}``.
    """

    inventories: Mapping[str, inventory.Inventories] = dataclasses.field(default_factory=dict)
    traits: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    generations: Mapping[str, int] = dataclasses.field(default_factory=dict)
    used_up: frozenset[str] = frozenset()
    computes: frozenset[str] = frozenset()
    sev_es: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pci_devices: frozenset[str] = frozenset()
    owners: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    pci_consumers: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    pci: pci.PciConfiguration | None = None
    agents: Sequence[Agent] | None = None
    config: ProviderConfig | None = None
    read_errors: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def host_nodes(self) -> list[HostNode]:
        """The compute nodes that have a provider."""
        pairs = ((node, self.provider_of(node)) for node in self.hosts.nodes)
        return [HostNode(node, item) for node, item in pairs if item is not None]

    @functools.cached_property
    def roots_without_node(self) -> list[provider.Provider]:
        """The root providers with neither the UUID nor the name of a compute node."""
        return [
            item
            for item in self.roots.values()
            if item.uuid not in self.compute_nodes and item.name not in self.hostnames
        ]

    def hosts_of(self, item: provider.Provider) -> tuple[str, ...]:
        """The host of a provider's tree; the name of a root that is not a compute node."""
        root = self.providers.get(self.root_of(item.uuid), item)
        return (self._host_of_root.get(root.uuid, root.name),)

    @functools.cached_property
    def unmatched_devices(self) -> list[provider.Provider]:
        """The PCI devices that the nova.conf does not match for certain."""
        return [
            item
            for item in self.providers.values()
            if item.uuid in self.pci_devices and not self.pci_match(item)
        ]

    def is_novas(self, item: provider.Provider) -> bool:
        """Whether nova-compute offers a device."""
        return item.uuid in self.pci_devices or OWNER in self.owners.get(item.uuid, ())

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


T = TypeVar("T")

#: The traits that say which service offers a provider.
OWNERS = (OWNER, "OWNER_CYBORG")


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
) -> ProviderSnapshot:
    input_errors = errors.InputErrors()
    cloud = read_hosts(client, nova, input_errors)
    input_errors.check()
    agents = None if neutron is None else neutron_api.agents(neutron)
    snapshot = ProviderSnapshot(
        cloud.hosts, cloud.providers, agents=agents, config=request.config, pci=request.pci
    )
    read_errors: dict[str, str] = {}
    reader = PlacementReader(client, context)

    def each(read: Callable[[str], T], uuids: Sequence[str], title: str) -> Mapping[str, T]:
        """``{uuid: answer}``; a provider that cannot be read is in ``read_errors`` instead."""
        answers, failed = reader.readable(read, uuids, title)
        read_errors.update(failed)
        return answers

    nodes = [item.provider.uuid for item in snapshot.host_nodes]
    from_state = _from_state(client, [*cloud.providers], nodes)
    if from_state is not None:
        offered, traits = from_state
    else:
        listed = each(client.list_inventories, [*cloud.providers], "reading inventories")
        offered = {uuid: item.inventories for uuid, item in listed.items()}
        in_use = client.list_traits(associated=True)
        if len(in_use) < len(nodes):
            having = inverted(reader.with_traits(in_use))
            traits = {
                uuid: responses.ProviderTraits(
                    cloud.providers[uuid].generation, (*having.get(uuid, ()),)
                )
                for uuid in nodes
            }
        else:
            traits = {**each(client.list_provider_traits, nodes, "reading traits")}
    one_time_use = lookup.providers_with_trait(client, ONE_TIME_USE)
    devices = list(used_up_devices(offered, one_time_use))
    sev_es = _sev_es_with_snp(client, snapshot)
    usages = each(client.list_usages, [*devices, *sev_es], "reading usages")
    computes: frozenset[str] = frozenset()
    if snapshot.roots_without_node:
        computes = lookup.providers_with_trait(client, "COMPUTE_NODE")
    snapshot = dataclasses.replace(
        snapshot,
        inventories=offered,
        pci_devices=lookup.providers_with_trait(client, pci.MANAGED),
        owners={
            uuid: frozenset(names) for uuid, names in inverted(reader.with_traits(OWNERS)).items()
        },
    )
    unmatched = [item.uuid for item in snapshot.unmatched_devices] if request.pci else []
    shares = each(client.list_provider_allocations, unmatched, "reading allocations")
    return dataclasses.replace(
        snapshot,
        pci_consumers={uuid: sorted(share.allocations) for uuid, share in shares.items()},
        traits={uuid: frozenset(item.traits) for uuid, item in traits.items()},
        generations={uuid: item.generation for uuid, item in traits.items()},
        used_up=frozenset(
            uuid for uuid in devices if uuid in usages and not any(usages[uuid].values())
        ),
        computes=computes,
        sev_es={uuid: usages.get(uuid, {}).get("MEM_ENCRYPTION_CONTEXT", 0) for uuid in sev_es},
        read_errors=read_errors,
    )


def _from_state(
    client: api.Client, providers: Sequence[str], nodes: Sequence[str]
) -> tuple[dict[str, inventory.Inventories], dict[str, responses.ProviderTraits]] | None:
    """Inventories of providers and traits of compute nodes, where the whole state is at hand."""
    with whole_state(client) as base:
        if base is None:
            return None
        records = {uuid: base.providers[uuid] for uuid in providers if uuid in base.providers}
        return {uuid: item.inventories for uuid, item in records.items()}, {
            uuid: responses.ProviderTraits(records[uuid].generation, (*records[uuid].traits,))
            for uuid in nodes
            if uuid in records
        }


def _sev_es_with_snp(client: api.Client, snapshot: ProviderSnapshot) -> list[str]:
    """The providers of SEV-ES in trees with SEV-SNP. Requests: one or two listings."""
    sev_es = lookup.providers_with_trait(client, "HW_CPU_X86_AMD_SEV_ES")
    if not sev_es:
        return []
    snp = lookup.providers_with_trait(client, "HW_CPU_X86_AMD_SEV_SNP")
    roots = {*map(snapshot.root_of, snp)}
    return sorted(
        uuid for uuid in sev_es if uuid in snapshot.providers and snapshot.root_of(uuid) in roots
    )
