# SPDX-License-Identifier: Apache-2.0
"""Neutron in memory, for tests of ports whose resources Placement has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from osc_placement.neutron import api as neutron_api
from tests.support.embedded import uuid_of

BANDWIDTH = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 1000}


class FakeNeutron:
    """Neutron in memory; ``before`` and ``after`` run around each write."""

    source = ""

    def __init__(self, *ports: dict[str, Any]) -> None:
        self.ports = {port["id"]: port for port in ports}
        self.requests: list[str] = []
        self.before: Callable[[str], None] = lambda path: None
        self.after: Callable[[str], None] = lambda path: None

    @property
    def writes(self) -> int:
        """How many writes changed a port, since each raises a revision from 4."""
        return sum(port["revision_number"] - 4 for port in self.ports.values())

    def ask(self, path: str) -> Any:
        self.requests.append(path.partition("?")[0])
        recorded = neutron_api.RecordedNeutron(
            {"GET /v2.0/ports": {"ports": [*self.ports.values()]}}, ""
        )
        return recorded.ask(path)

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        self.before(path)
        port = self.ports[path.rpartition("/")[2]]
        if revision != port["revision_number"]:
            raise neutron_api.NeutronRefused(412, "the revision is another")
        port.update(body["port"], revision_number=revision + 1)
        self.after(path)
        return {"port": port}

    def profile(self, name: str) -> Any:
        return self.ports[uuid_of(name)]["binding:profile"]


def port(name: str, server: str, **fields: Any) -> dict[str, Any]:
    """A port of a server that requests bandwidth; both are named."""
    return {
        "id": uuid_of(name),
        "name": name,
        "device_id": uuid_of(server),
        "binding:profile": {"pci_slot": "0000:81:00.1"},
        "revision_number": 4,
        "resource_request": {"resources": BANDWIDTH, "required": ["CUSTOM_PHYSNET_A"]},
    } | fields
