# SPDX-License-Identifier: Apache-2.0
"""Neutron's agents that report resources."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement import errors
from osc_placement.neutron import api


def neutron(*agents: dict[str, Any]) -> api.RecordedNeutron:
    return api.RecordedNeutron({"GET /v2.0/agents": {"agents": list(agents)}}, "a recording")


def test_only_agents_with_resources_are_returned() -> None:
    found = api.agents(
        neutron(
            {"host": "a", "agent_type": "DHCP agent", "configurations": {}},
            {
                "host": "b",
                "agent_type": "NIC Switch agent",
                "configurations": {
                    "resource_provider_bandwidths": {"ens1": {}, "ens2": {}},
                    "resource_provider_hypervisors": {"ens1": "b.example", "other": "c"},
                },
            },
        )
    )
    assert found == [api.Agent("b", "NIC Switch agent", {"ens1": "b.example"})]
    assert found[0].provider_name == "b:NIC Switch agent"


def test_a_neutron_without_agents_has_none() -> None:
    assert api.agents(api.RecordedNeutron({}, "a recording")) is None


def test_a_malformed_response_is_an_error() -> None:
    broken = {"configurations": {"resource_provider_bandwidths": {"ens1": {}}}}
    with pytest.raises(errors.PlacementError, match="neutron's response to /agents lacks"):
        api.agents(neutron(broken))
