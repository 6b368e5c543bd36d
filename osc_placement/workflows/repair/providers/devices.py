# SPDX-License-Identifier: Apache-2.0
"""Devices, and providers of neutron's agents, that do not fit their host. Pure.

Devices that wait to be cleaned, or that nova-compute does not manage any more; SEV-ES guests, which
stop nova 34; agents' providers that are missing, or without their compute node above them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from osc_placement.model import provider
from osc_placement.model.name import and_more
from osc_placement.neutron.api import Agent
from osc_placement.nova import pci
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.cloud import problem
from osc_placement.workflows.repair.findings import Remedy
from osc_placement.workflows.repair.providers.observe import (
    AuditedCloud,
    ProviderFinding,
    ProviderProblem,
)

USED_UP = ProviderProblem(
    problem.warning("used-up", "A one-time-use device waits to be cleaned."),
    Code.USED_UP,
    Remedy.CLEAN_DEVICE,
    "clean it, then: resource provider inventory amend --resource CLASS:reserved=0",
)
#: nova-compute of nova 34 does not start on a host with SEV-ES guests and SEV-SNP.
SEV_ES_WITH_SNP = ProviderProblem(
    problem.warning("sev-es-with-snp", "Guests with SEV-ES run where nova 34 does not start."),
    Code.SEV_ES_GUESTS,
    Remedy.CHECK_CONFIGURATION,
    "before an upgrade to nova 34: move the servers away, or switch SEV-SNP off on the host",
)
#: nova-compute of nova 34 keeps the provider of such a device while a server uses it.
PCI_DEVICE_OUT_OF_SPEC = ProviderProblem(
    problem.warning(
        "pci-device-out-of-spec", "A device in use that the configuration does not name any more."
    ),
    Code.OUT_OF_SPEC,
    Remedy.CHECK_CONFIGURATION,
    "add it to device_spec again, or move or delete the server; then restart nova-compute",
)
TWO_OWNERS = ProviderProblem(
    problem.error("two-owners", "Two services offer one device: each gives it to a server."),
    Code.TWO_OWNERS,
    Remedy.CHECK_CONFIGURATION,
    "leave the device to one service: [pci]device_spec of nova, or the driver of the other one",
)
DEVICE_CODES = (
    USED_UP.code,
    SEV_ES_WITH_SNP.code,
    PCI_DEVICE_OUT_OF_SPEC.code,
    TWO_OWNERS.code,
)


def find_devices(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Used-up devices, SEV-ES guests on hosts with SEV-SNP, and PCI devices out of device_spec."""
    for item in audited.cloud.providers.values():
        hosts = audited.hosts_of(item)
        if item.uuid in audited.used_up:
            reserved = {
                name: offered.reserved
                for name, offered in audited.cloud.inventories[item.uuid].items()
                if offered.reserved
            }
            text = f"nothing is allocated, and {', '.join(sorted(reserved))} is reserved"
            yield USED_UP.about(item, hosts, text, {"reserved": reserved})
        count = audited.sev_es.get(item.uuid)
        if count:
            text = f"SEV-ES contexts in use: {count}, on a host with SEV-SNP: nova-compute 34 does"
            yield SEV_ES_WITH_SNP.about(item, hosts, f"{text} not start", {"contexts": count})
        consumers = audited.pci_consumers.get(item.uuid)
        if consumers and audited.pci_match(item) is False:
            text = f"no [pci]device_spec matches it, and it is in use by {and_more(consumers, 3)}"
            yield PCI_DEVICE_OUT_OF_SPEC.about(item, hosts, text, {"consumers": [*consumers]})


def find_two_owners(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Providers with two owners, and PCI addresses that nova and another service offer."""
    by_address: dict[tuple[object, ...], list[provider.Provider]] = {}
    for item in audited.cloud.providers.values():
        own = audited.owners_of(item)
        if len(own) > 1:
            text = f"it has the traits {and_more(sorted(own))}"
            yield TWO_OWNERS.about(item, audited.hosts_of(item), text, {"traits": sorted(own)})
        offered = audited.offered(item)
        device = pci.device_of(item.name, offered)
        if device is not None and offered:
            key = audited.cloud.root_of(item.uuid), device.address
            by_address.setdefault(key, []).append(item)
    for items in by_address.values():
        novas = [item for item in items if audited.is_novas(item)]
        for item in items:
            if novas and item not in novas:
                text = f"nova offers the same device as {novas[0].name}"
                fields = {"providers": [novas[0].name]}
                yield TWO_OWNERS.about(item, audited.hosts_of(item), text, fields)


_RESTART = (
    "delete it (resource provider delete --tree) when no server uses it, and restart the agent"
)
AGENT_WITHOUT_HOST = ProviderProblem(
    problem.warning("agent-without-host", "The network bandwidths of an agent belong to no host."),
    Code.NO_HOST,
    Remedy.RESTART_AGENT,
    _RESTART,
)
AGENT_WRONG_HOST = ProviderProblem(
    problem.warning(
        "agent-wrong-host", "The network bandwidths of an agent belong to another host."
    ),
    Code.OTHER_HOST,
    Remedy.RESTART_AGENT,
    _RESTART,
)
#: Neutron finds the compute node by its name, and creates no provider without one.
AGENT_OTHER_NAME = ProviderProblem(
    problem.warning(
        "agent-other-name", "A network agent reports for a host by a name that nova does not have."
    ),
    Code.OTHER_NAME,
    Remedy.CHECK_CONFIGURATION,
    "set resource_provider_hypervisors of the agent to nova's name of the hypervisor, and restart"
    " the agent",
)
AGENT_WITHOUT_PROVIDER = ProviderProblem(
    problem.warning(
        "agent-without-provider",
        "Placement does not have the bandwidths or packet rates of an agent.",
    ),
    Code.NO_PROVIDER,
    Remedy.RESTART_AGENT,
    "restart the agent; if that does not help, the log of neutron-server has the reason",
)
AGENT_NOT_SYNCED = ProviderProblem(
    problem.warning("agent-not-synced", "The last report of an agent to Placement failed."),
    Code.NOT_SYNCED,
    Remedy.RESTART_AGENT,
    "the log of neutron-server has the reason; restart the agent afterwards",
)
AGENT_CODES = tuple(
    item.code
    for item in (
        AGENT_WITHOUT_HOST,
        AGENT_WRONG_HOST,
        AGENT_OTHER_NAME,
        AGENT_WITHOUT_PROVIDER,
        AGENT_NOT_SYNCED,
    )
)


def find_agents(audited: AuditedCloud) -> Iterator[ProviderFinding]:
    """Findings about the own provider of each agent; those of its devices are below it."""
    by_name = {item.name: item for item in audited.cloud.providers.values()}
    for agent in audited.cloud.agents or ():
        item = by_name.get(agent.provider_name)
        yield from _unreported(audited, agent, item, by_name)
        if item is None:
            continue
        root, expected = audited.cloud.root_of(item.uuid), _expected(audited, agent)
        node = audited.cloud.compute_nodes.get(root)
        fields = {"agent_host": agent.host, "agent_type": agent.type}
        text = f"it is of neutron's {agent.type} on {agent.host}, and"
        if node is None and not audited.cloud.hosts.unreachable:
            text += " no compute node is above it"
            yield AGENT_WITHOUT_HOST.about(item, (agent.host,), text, fields)
        elif node is not None and expected and root not in expected:
            text += f" below the compute node of {node.host}"
            hosts = tuple(sorted({agent.host, node.host}))
            yield AGENT_WRONG_HOST.about(item, hosts, text, {**fields, "host": node.host})


def _unreported(
    audited: AuditedCloud,
    agent: Agent,
    item: provider.Provider | None,
    by_name: Container[str],
) -> Iterator[ProviderFinding]:
    """Findings about an agent whose bandwidths or packet rates Placement does not have."""
    subject = item or change.Subject(agent.provider_name, "")
    fields: dict[str, Any] = {"agent_host": agent.host, "agent_type": agent.type}
    text = f"neutron's {agent.type} on {agent.host}"
    unnamed = sorted(_hostnames(agent) - audited.cloud.hostnames)
    if item is not None:
        expected = [f"{agent.provider_name}:{device}" for device in sorted(agent.devices)]
        missing = [name for name in expected if name not in by_name]
        if missing:
            lacking = f"{text} reports bandwidths, and Placement has no {and_more(missing)}"
            yield AGENT_WITHOUT_PROVIDER.about(
                subject, (agent.host,), lacking, {**fields, "providers": missing}
            )
    elif agent.devices or agent.packet_hypervisors:
        what = "bandwidths" if agent.devices else "packet rates"
        text += f" reports {what}"
        if unnamed and not audited.cloud.hosts.unreachable:
            nodes = audited.cloud.nodes_of_host.get(agent.host, ())
            names = and_more([node.hostname for node in nodes]) or "no compute node"
            text += f" for the hypervisor {and_more(unnamed)}, and nova has {names} on this host"
            more = {**fields, "hypervisors": unnamed}
            yield AGENT_OTHER_NAME.about(subject, (agent.host,), text, more)
        else:
            text += ", and Placement has no provider of it"
            missing = [agent.provider_name]
            yield AGENT_WITHOUT_PROVIDER.about(
                subject, (agent.host,), text, {**fields, "providers": missing}
            )
    if item is not None and agent.is_synced is False:
        text += ": neutron's last update of Placement failed (resources_synced)"
        yield AGENT_NOT_SYNCED.about(subject, (agent.host,), text, fields)


def _hostnames(agent: Agent) -> set[str]:
    """The hypervisors that the agent names."""
    return {*agent.hypervisors.values(), *agent.packet_hypervisors}


def _expected(audited: AuditedCloud, agent: Agent) -> set[str]:
    """The compute nodes that the agent's provider may be below; empty if nova has none."""
    hostnames = _hostnames(agent)
    return {
        node.uuid
        for node in audited.cloud.hosts.nodes
        if node.hostname in hostnames or (not hostnames and node.host == agent.host)
    }
