# SPDX-License-Identifier: Apache-2.0
"""Keeps the responses of nova and neutron that heal, audit and mirror read, in a snapshot."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Callable, Collection, Mapping
from typing import Any

from osc_placement import errors
from osc_placement.model import recording
from osc_placement.neutron.api import AGENTS, Neutron, agent_bodies, ports_of
from osc_placement.nova import api, device_profiles, flavors, servers, values

_HYPERVISORS = "/os-hypervisors/detail"
#: What decides about a move also of a port that requests nothing.
_PORT_FIELDS = ("id", "name", "device_id", "binding:vnic_type")
_PAGE = re.compile(r"\blimit=\d+(&offset=\d+)?")

#: Keeps one response: ``keep("GET /v2.1/os-aggregates", body)``.
Keep = Callable[[str, Any], None]


class RecordingNova:
    """Nova, whose responses are kept as they arrive."""

    def __init__(self, nova: api.Nova, keep: Keep) -> None:
        self._nova, self._keep, self.source = nova, keep, nova.source
        self._hypervisors: list[Any] = []

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
    """Neutron, whose ports are kept: whole if they request resources, otherwise a few fields."""

    source = ""

    def __init__(self, neutron: Neutron, keep: Keep) -> None:
        self._neutron, self._keep = neutron, keep

    def ask(self, path: str) -> Any:
        """Send one GET, and keep the ports."""
        body = self._neutron.ask(path)
        ports = [
            {key: port[key] for key in port if port.get("resource_request") or key in _PORT_FIELDS}
            for port in body["ports"]
        ]
        if ports:
            first = urllib.parse.quote(ports[0]["id"])
            self._keep(f"GET /v2.0/ports?id={first}", {"ports": ports})
        return body

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Refuse: a snapshot only reads."""
        raise errors.PlacementError("a snapshot does not write to neutron")


class FirstEntries:
    """Nova, of whose listings only the first entry is read."""

    def __init__(self, nova: api.Nova) -> None:
        self._nova, self.source = nova, nova.source

    def ask(self, path: str, version: str) -> Any:
        """Send one GET. The response names no next page."""
        # A recording has only whole listings, which cost nothing.
        short = path if self.source else _PAGE.sub("limit=1", path)
        body = self._nova.ask(short, version)
        return {key: value for key, value in body.items() if not key.endswith("_links")}


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """Nova, and neutron unless ports are skipped, for a snapshot."""

    nova: api.Nova
    neutron: Neutron | None = None

    def check(self) -> None:
        """Find missing rights and services before Placement is read.

        Requests: to nova one for each kind that ``record`` reads, two for server groups; to
        neutron one.
        Errors: InvalidInput with every missing right; PlacementError.
        """
        _read_all(FirstEntries(self.nova))
        if self.neutron is not None:
            self.neutron.ask("/ports?limit=1")

    def record(self, keep: Keep, consumers: Collection[str]) -> None:
        """Keep the responses of now; ``consumers`` (UUIDs) are those that have allocations.

        Requests: to nova one for host aggregates, one for services and one for its version, one
        per 1000 hypervisors, servers, deleted servers, migrations, flavors and server groups, one
        more for server groups, and one for each consumer that is no listed server or migration; to
        neutron one per 64 servers and one per page of agents; to Cyborg one, if the catalog has it;
        to glance one per page of images, and one for each other image of a server of which nova
        does not show the properties.
        Errors: InvalidInput with every missing right; PlacementError.
        """
        listed, migrations = _read_all(RecordingNova(self.nova, keep))
        keep_or_reason = functools.partial(recording.keep_or_reason, keep)
        # A listing omits the servers of a cell that does not respond in time.
        for uuid in sorted({*consumers}.difference(migrations, (it.uuid for it in listed))):
            path = servers.server_path(uuid)
            if api.can_answer(self.nova, path):
                show = functools.partial(servers.ask_server, self.nova, uuid)
                keep_or_reason(f"GET /v2.1{path}", show)
        keep_or_reason(api.LOGIN, lambda: api.recorded_login(self.nova))
        if self.neutron is not None:
            ports_of(RecordingNeutron(self.neutron, keep), [server.uuid for server in listed])
            keep_or_reason(AGENTS, functools.partial(_agents, self.neutron))
        profiles = functools.partial(device_profiles.ask, self.nova)
        keep_or_reason(f"GET /v2{device_profiles.LISTING}", profiles)
        images: list[Mapping[str, Any]] = []

        def list_images() -> Any:
            images.extend(flavors.image_bodies(flavors.glance_of(self.nova)))
            return {"images": images}

        def show_image(uuid: str) -> Any:
            return flavors.ask_image(flavors.glance_of(self.nova), uuid)

        keep_or_reason(f"GET /v2{flavors.LISTING}", list_images)
        hidden = {server.image_id or "" for server in listed if server.hides_image}
        for uuid in sorted(hidden.difference(item["id"] for item in images)):
            keep_or_reason(f"GET /v2/images/{uuid}", functools.partial(show_image, uuid))


def _agents(neutron: Neutron) -> Any:
    return {"agents": agent_bodies(neutron)}


def _read_all(recorder: api.Nova) -> tuple[list[values.Server], set[str]]:
    """Read everything of nova; the servers, and the migrations (UUIDs). Errors: InvalidInput."""
    missing = errors.InputErrors()
    listed: list[values.Server] = []
    migrations: set[str] = set()
    with api.collected(missing):
        api.host_aggregates(recorder)
    with api.collected(missing):
        servers.read_hosts(recorder)
    with api.collected(missing):
        listed = servers.servers(recorder)
    with api.collected(missing):
        migrations.update(move.uuid for move in servers.migrations(recorder))
    with api.collected(missing):
        servers.deleted_servers(recorder)
    with api.collected(missing):
        flavors.flavors(recorder)
    with api.collected(missing):
        api.server_groups(recorder)
    with contextlib.suppress(errors.NotKnown):
        api.maximum_version(recorder)
    missing.check()
    return listed, migrations
