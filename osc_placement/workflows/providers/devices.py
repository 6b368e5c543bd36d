# SPDX-License-Identifier: Apache-2.0
"""Devices, and providers of neutron's agents, that do not fit their host. Pure.

Devices that wait to be cleaned, or that nova-compute does not manage any more; SEV-ES guests, which
stop nova 34; and agents' providers without a compute node above them, or below the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from osc_placement.model import provider
from osc_placement.model.name import and_more
from osc_placement.neutron.api import Agent
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.findings import Evidence, Finding, Proposal, Remedy
from osc_placement.workflows.providers.observe import ProviderFinding, ProviderSnapshot

USED_UP = "used-up"
SEV_ES_WITH_SNP = "sev-es-with-snp"
PCI_DEVICE_OUT_OF_SPEC = "pci-device-out-of-spec"
DEVICE_CODES = (USED_UP, SEV_ES_WITH_SNP, PCI_DEVICE_OUT_OF_SPEC)

_CLEAN = Proposal(
    Remedy.CLEAN_DEVICE,
    "clean it, then: resource provider inventory amend --resource CLASS:reserved=0",
)


_MOVE = Proposal(
    Remedy.CHECK_CONFIGURATION,
    "before an upgrade to nova 34: move the servers away, or switch SEV-SNP off on the host",
)


_CONFIGURE = Proposal(
    Remedy.CHECK_CONFIGURATION,
    "add it to device_spec again, or move or delete the server; then restart nova-compute",
)


def find_devices(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Used-up devices, SEV-ES guests on hosts with SEV-SNP, and PCI devices out of device_spec."""
    for item in snapshot.providers.values():
        if item.uuid in snapshot.used_up:
            reserved = {
                name: offered.reserved
                for name, offered in snapshot.inventories[item.uuid].items()
                if offered.reserved
            }
            text = f"nothing is allocated, and {', '.join(sorted(reserved))} is reserved"
            yield Finding(
                USED_UP,
                change.Subject(item.name, item.uuid),
                snapshot.hosts_of(item),
                Evidence(Code.USED_UP, text, {"reserved": reserved}),
                _CLEAN,
            )
        if snapshot.sev_es.get(item.uuid):
            yield _sev_es(snapshot, item)
        consumers = snapshot.pci_consumers.get(item.uuid)
        if consumers and snapshot.pci_match(item) is False:
            yield _out_of_spec(snapshot, item, consumers)


def _out_of_spec(
    snapshot: ProviderSnapshot, item: provider.Provider, consumers: Sequence[str]
) -> ProviderFinding:
    """nova-compute of nova 34 keeps the provider of such a device while a server uses it."""
    text = f"no [pci]device_spec matches it, and it is in use by {and_more(consumers, 3)}"
    return Finding(
        PCI_DEVICE_OUT_OF_SPEC,
        change.Subject(item.name, item.uuid),
        snapshot.hosts_of(item),
        Evidence(Code.OUT_OF_SPEC, text, {"consumers": list(consumers)}),
        _CONFIGURE,
    )


def _sev_es(snapshot: ProviderSnapshot, item: provider.Provider) -> ProviderFinding:
    """nova-compute of nova 34 does not start on a host with SEV-ES guests and SEV-SNP."""
    count = snapshot.sev_es[item.uuid]
    text = (
        f"SEV-ES contexts in use: {count}, on a host with SEV-SNP: nova-compute 34 does not start"
    )
    return Finding(
        SEV_ES_WITH_SNP,
        change.Subject(item.name, item.uuid),
        snapshot.hosts_of(item),
        Evidence(Code.SEV_ES_GUESTS, text, {"contexts": count}),
        _MOVE,
    )


AGENT_WITHOUT_HOST = "agent-without-host"
AGENT_WRONG_HOST = "agent-wrong-host"
AGENT_CODES = (AGENT_WITHOUT_HOST, AGENT_WRONG_HOST)

_RESTART = Proposal(
    Remedy.RESTART_AGENT,
    "delete it (resource provider delete --tree) when no server uses it, and restart the agent",
)


def find_agents(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Findings about the own provider of each agent; those of its devices are below it."""
    by_name = {item.name: item for item in snapshot.providers.values()}
    nodes = snapshot.compute_nodes
    for agent in snapshot.agents or ():
        item = by_name.get(agent.provider_name)
        if item is None:
            continue
        root = snapshot.root_of(item.uuid)
        expected = _expected(snapshot, agent)
        if root not in nodes and not snapshot.hosts.unreachable:
            yield _without_host(item, agent)
        elif root in nodes and expected and root not in expected:
            yield _wrong_host(item, agent, nodes[root].host)


def _expected(snapshot: ProviderSnapshot, agent: Agent) -> set[str]:
    """The compute nodes that the agent's provider may be below; empty if nova has none."""
    hostnames = set(agent.hypervisors.values())
    return {
        node.uuid
        for node in snapshot.hosts.nodes
        if node.hostname in hostnames or (not hostnames and node.host == agent.host)
    }


def _without_host(item: provider.Provider, agent: Agent) -> ProviderFinding:
    text = f"it is of neutron's {agent.type} on {agent.host}, and no compute node is above it"
    return Finding(
        AGENT_WITHOUT_HOST,
        change.Subject(item.name, item.uuid),
        (agent.host,),
        Evidence(Code.NO_HOST, text, {"agent_host": agent.host, "agent_type": agent.type}),
        _RESTART,
    )


def _wrong_host(item: provider.Provider, agent: Agent, host: str) -> ProviderFinding:
    text = f"it is of neutron's {agent.type} on {agent.host}, and below the compute node of {host}"
    fields = {"agent_host": agent.host, "agent_type": agent.type, "host": host}
    evidence = Evidence(Code.OTHER_HOST, text, fields)
    subject = change.Subject(item.name, item.uuid)
    return Finding(AGENT_WRONG_HOST, subject, tuple(sorted({agent.host, host})), evidence, _RESTART)
