"""Keeps the responses of nova and neutron that heal, audit and mirror read, in a snapshot."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

from osc_placement import errors
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, flavors, hosts as nova_hosts, permission, servers
from osc_placement.server.store import staging

_HYPERVISORS = "/os-hypervisors/detail"

#: Keeps one response: ``keep("GET /v2.1/os-aggregates", body)``.
Keep = Callable[[str, Any], None]


class RecordingNova:
    """Nova, whose responses are kept as they arrive."""

    def __init__(self, nova: nova_api.Nova, keep: Keep) -> None:
        self._nova, self._keep = nova, keep
        self._hypervisors: list[Any] = []

    @property
    def source(self) -> str:
        """The recording from which nova's responses come; empty for a cloud."""
        return self._nova.source

    def ask(self, path: str, version: str) -> Any:
        """Send one GET, and keep the response."""
        body = self._nova.ask(path, version)
        if path.startswith(_HYPERVISORS):
            # The size of these pages depends on cells that are down: keep them as one.
            self._hypervisors += body["hypervisors"]
            self._keep(f"GET /v2.1{_HYPERVISORS}", {"hypervisors": self._hypervisors})
        else:
            self._keep(f"GET /v2.1{path}", body)
        return body


class RecordingNeutron:
    """Neutron, of whose responses the ports with resource requests are kept."""

    source = ""

    def __init__(self, neutron: neutron_api.Neutron, keep: Keep) -> None:
        self._neutron, self._keep = neutron, keep

    def ask(self, path: str) -> Any:
        """Send one GET, and keep the ports with resource requests."""
        body = self._neutron.ask(path)
        ports = [port for port in body["ports"] if port.get("resource_request")]
        if ports:
            first = urllib.parse.quote(ports[0]["id"])
            self._keep(f"GET /v2.0/ports?id={first}", {"ports": ports})
        return body

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Refuse: a snapshot only reads."""
        raise errors.PlacementError("a snapshot does not write to neutron")


def record(nova: nova_api.Nova, neutron: neutron_api.Neutron | None, file: staging.Staging) -> None:
    """Replace the responses in the file by those of now.

    Requests: to nova one for host aggregates and one for services, and one per 1000 hypervisors,
    servers, deleted servers, migrations, flavors and server groups; to neutron one per 64 servers.
    Errors: InvalidInput with every missing right; PlacementError.
    """
    file.clear_recording()
    recorder = RecordingNova(nova, file.save_recording)
    missing = errors.InputErrors()
    found: list[str] = []
    with permission.collected(missing):
        nova_api.host_aggregates(recorder)
    with permission.collected(missing):
        nova_hosts.read_all(recorder)
    with permission.collected(missing):
        found = [server.uuid for server in servers.servers(recorder)]
    with permission.collected(missing):
        servers.migrations(recorder)
    with permission.collected(missing):
        servers.deleted_servers(recorder)
    with permission.collected(missing):
        flavors.flavors(recorder)
    with permission.collected(missing):
        nova_api.server_groups(recorder)
    missing.check()
    if neutron is not None:
        neutron_api.ports_of(RecordingNeutron(neutron, file.save_recording), found)
