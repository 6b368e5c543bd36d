"""Neutron's agents that report resources to Placement."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from osc_placement.neutron import api

_PATH = "/agents"


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """An agent with resource providers: one for itself, ``HOST:TYPE``, and one per device.

    ``hypervisors`` is ``{device: hypervisor}``, the compute node above it; without an entry, it
    is the node of the agent's host.
    """

    host: str
    type: str
    hypervisors: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def provider_name(self) -> str:
        """The name of the agent's own provider."""
        return f"{self.host}:{self.type}"


def agents(neutron: api.Neutron) -> list[Agent] | None:
    """The agents that report resources; None if this neutron does not list agents.

    Requests: one GET. Errors: as ``ask``.
    """
    try:
        body = neutron.ask(_PATH)
    except api.NeutronRefused as error:
        if error.status == 404:
            return None
        raise
    with api.parsing(_PATH):
        found = [_agent(item) for item in body["agents"]]
    return [item for item in found if item is not None]


def _agent(item: Mapping[str, Any]) -> Agent | None:
    """The agent; None if it reports no resources."""
    configuration = item.get("configurations") or {}
    if not isinstance(configuration, Mapping):
        return None
    devices = configuration.get("resource_provider_bandwidths") or {}
    if not devices:
        return None
    hypervisors = configuration.get("resource_provider_hypervisors") or {}
    named = {device: hypervisors[device] for device in devices if hypervisors.get(device)}
    return Agent(item["host"], item["agent_type"], named)
