"""Providers of neutron's agents without a compute node above them, or below the wrong one. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.model import provider
from osc_placement.neutron.api import Agent
from osc_placement.plan import change
from osc_placement.plan.reasons import Code
from osc_placement.workflows.findings import Action, Evidence, Finding, Proposal
from osc_placement.workflows.provider_audit.snapshot import ProviderFinding, ProviderSnapshot

AGENT_WITHOUT_HOST = "agent-without-host"
AGENT_WRONG_HOST = "agent-wrong-host"
CODES = (AGENT_WITHOUT_HOST, AGENT_WRONG_HOST)

_RESTART = Proposal(
    Action.RESTART_AGENT,
    "delete it (resource provider delete --tree) when no server uses it, and restart the agent",
)


def find(snapshot: ProviderSnapshot) -> Iterator[ProviderFinding]:
    """Findings about the own provider of each agent; those of its devices are below it."""
    by_name = {item.name: item for item in snapshot.providers}
    nodes = {node.uuid: node for node in snapshot.nodes}
    for agent in snapshot.agents or ():
        found = by_name.get(agent.provider_name)
        if found is None:
            continue
        root = found.root_uuid or found.uuid
        expected = _expected(snapshot, agent)
        if root not in nodes and not snapshot.hosts.unreachable:
            yield _without_host(found, agent)
        elif root in nodes and expected and root not in expected:
            yield _wrong_host(found, agent, nodes[root].host)


def _expected(snapshot: ProviderSnapshot, agent: Agent) -> set[str]:
    """The compute nodes that the agent's provider may be below; empty if nova has none."""
    hostnames = set(agent.hypervisors.values())
    return {
        node.uuid
        for node in snapshot.nodes
        if node.hostname in hostnames or (not hostnames and node.host == agent.host)
    }


def _without_host(found: provider.Provider, agent: Agent) -> ProviderFinding:
    text = f"it is of neutron's {agent.type} on {agent.host}, and no compute node is above it"
    return Finding(
        AGENT_WITHOUT_HOST,
        change.Subject(found.name, found.uuid),
        (agent.host,),
        Evidence(Code.NO_HOST, text, {"agent_host": agent.host, "agent_type": agent.type}),
        _RESTART,
    )


def _wrong_host(found: provider.Provider, agent: Agent, host: str) -> ProviderFinding:
    text = f"it is of neutron's {agent.type} on {agent.host}, and below the compute node of {host}"
    fields = {"agent_host": agent.host, "agent_type": agent.type, "host": host}
    evidence = Evidence(Code.OTHER_HOST, text, fields)
    subject = change.Subject(found.name, found.uuid)
    return Finding(AGENT_WRONG_HOST, subject, tuple(sorted({agent.host, host})), evidence, _RESTART)
