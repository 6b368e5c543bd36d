# SPDX-License-Identifier: Apache-2.0
"""Neutron's agents that report resources."""

from __future__ import annotations

import urllib.parse
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


class ShortPages:
    """Neutron with pagination_max_limit = 2."""

    source = ""

    def __init__(self, **listings: list[dict[str, Any]]) -> None:
        self._listings = listings

    def ask(self, path: str) -> Any:
        url = urllib.parse.urlsplit(path)
        key, query = url.path.strip("/"), urllib.parse.parse_qs(url.query)
        uuids = [item["id"] for item in self._listings[key]]
        start = uuids.index(query["marker"][0]) + 1 if "marker" in query else 0
        more = {f"{key}_links": [{"rel": "next", "href": ""}]} if uuids[start + 2 :] else {}
        return {key: self._listings[key][start : start + 2], **more}

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        raise NotImplementedError


def test_all_pages_are_read_where_neutron_limits_them() -> None:
    bandwidths = {"resource_provider_bandwidths": {"ens1": {}}}
    neutron = ShortPages(
        ports=[{"id": f"port-{number}", "device_id": "server"} for number in range(5)],
        agents=[
            {
                "id": str(number),
                "host": f"h{number}",
                "agent_type": "x",
                "configurations": bandwidths,
            }
            for number in range(4)
        ],
    )
    ports = api.ports_of(neutron, ["server"], with_request=False)
    assert [port.uuid for port in ports] == [f"port-{number}" for number in range(5)]
    agents = api.agents(neutron)
    assert agents is not None
    assert [agent.host for agent in agents] == ["h0", "h1", "h2", "h3"]


def test_a_malformed_response_is_an_error() -> None:
    broken = {"configurations": {"resource_provider_bandwidths": {"ens1": {}}}}
    with pytest.raises(errors.PlacementError, match="neutron's response to /agents lacks"):
        api.agents(neutron(broken))
