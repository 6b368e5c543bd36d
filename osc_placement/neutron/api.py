# SPDX-License-Identifier: Apache-2.0
"""Neutron's ports with resource requests, and its agents that report resources to Placement.

The only write is PUT /ports/{uuid} of a port's binding profile, for healing.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from osc_placement import errors
from osc_placement.client import service
from osc_placement.model import recording
from osc_placement.model.candidate import RequestGroup

#: Servers per request: the query string stays below 4 KiB.
_SERVERS = 64

_PORTS = "GET /v2.0/ports"
#: The key of the agents in a recording; ``{"agents": null}``: this neutron lists none.
AGENTS = "GET /v2.0/agents"


class Neutron(Protocol):
    """``ask("/ports?device_id=...")`` is the parsed JSON of that GET.

    ``source`` names a recording; it is empty for a cloud.
    """

    @property
    def source(self) -> str: ...

    def ask(self, path: str) -> Any:
        """Send one GET. Errors: NeutronRefused; ConnectionFailed when neutron is unreachable."""

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Send one PUT under a revision number. Errors: as ``ask``; OutcomeUnknown."""


class NeutronRefused(service.ServiceRefused):
    """Neutron answered with an error status."""

    service = "neutron"


class SessionNeutron:
    """Neutron over an openstacksdk connection."""

    source = ""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, path: str) -> Any:
        """Send one GET."""
        return self._send("GET", path, skip_cache=True)

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Send one PUT; neutron refuses it with 412 if the revision number has changed."""
        guard = {"If-Match": f"revision_number={revision}"} if revision is not None else {}
        return self._send("PUT", path, json=body, headers=guard)

    def _send(self, method: str, path: str, **options: Any) -> Any:
        answer, _ = service.send(
            self._connection, "network", method, path, NeutronRefused, **options
        )
        return answer


class RecordedNeutron:
    """Recorded responses of neutron: ``{"GET /v2.0/ports": body}``; no ports by default."""

    def __init__(self, recorded: Mapping[str, Any], source: str) -> None:
        self._agents = recorded.get(AGENTS, {"agents": None})
        bodies = [recorded[key] for key in recorded if key.partition("?")[0].startswith(_PORTS)]
        with service.parsing(f"the recorded neutron of {source}", "/ports"):
            self._ports = {item["id"]: item for body in bodies for item in body["ports"]}
            self._of_server: dict[str, list[Any]] = {}
            for item in self._ports.values():
                self._of_server.setdefault(item["device_id"], []).append(item)
        self.source = source

    def ask(self, path: str) -> Any:
        """Send no request; find the recorded response."""
        plain, _, query = path.partition("?")
        uuid = plain.rpartition("/")[2]
        if plain == "/agents":
            agents = recording.known(self._agents)
            if agents.get("agents") is None:
                raise NeutronRefused(404, "not recorded", url=path)
            return agents
        if plain != "/ports":
            if uuid not in self._ports:
                raise NeutronRefused(404, "no such port", url=path)
            return {"port": self._ports[uuid]}
        servers = [value for name, value in urllib.parse.parse_qsl(query) if name == "device_id"]
        return {"ports": [item for uuid in servers for item in self._of_server.get(uuid, ())]}

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Refuse: a recording is read-only."""
        raise errors.PlacementError(f"{self.source} is a recording and cannot be changed")


@dataclasses.dataclass(frozen=True, slots=True)
class CopyOfNeutron:
    """Neutron for a dry run: a PUT changes nothing, and answers as if it did."""

    neutron: Neutron

    @property
    def source(self) -> str:
        return self.neutron.source

    def ask(self, path: str) -> Any:
        """Send one GET."""
        return self.neutron.ask(path)

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Send one GET. Errors: those of a recording, which refuses every write."""
        if self.source:
            return self.neutron.write(path, body, revision)
        return {"port": {**self.ask(path)["port"], **body["port"]}}


def ports_of(neutron: Neutron, servers: Sequence[str], *, with_request: bool = True) -> list[Port]:
    """The ports of these servers, by UUID; ``with_request``: only those that request resources.

    Requests: one GET per 64 servers, more where neutron limits its pages. Errors: as ``ask``.
    """
    ports: list[Port] = []
    for start in range(0, len(servers), _SERVERS):
        of_servers = [("device_id", uuid) for uuid in servers[start : start + _SERVERS]]
        for path, page in _pages(neutron, "ports", of_servers):
            with service.parsing("neutron", path):
                ports += map(service.checked, map(_port, page))
    return [port for port in ports if port.groups or not with_request]


def by_server(ports: Iterable[Port]) -> dict[str, tuple[Port, ...]]:
    """``{UUID of a server: its ports}``"""
    listed: dict[str, tuple[Port, ...]] = {}
    for port in ports:
        listed[port.server_uuid] = (*listed.get(port.server_uuid, ()), port)
    return listed


def _pages(
    neutron: Neutron, key: str, query: Sequence[tuple[str, str]] = ()
) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """``(path, items)`` of each page of a listing; ``key`` names the listing and its items.

    Neutron's option pagination_max_limit limits pages for which no limit was requested, too.
    """

    def ask(marker: Mapping[str, str]) -> tuple[str, Any]:
        parameters = urllib.parse.urlencode([*query, *marker.items()])
        path = "?".join(filter(None, (f"/{key}", parameters)))
        return path, neutron.ask(path)

    return service.pages(NeutronRefused.service, key, ask)


def port(neutron: Neutron, uuid: str) -> Port | None:
    """One port; None when neutron has no port of that UUID. Requests: one GET."""
    path = f"/ports/{urllib.parse.quote(uuid, safe='')}"
    try:
        body = neutron.ask(path)
    except NeutronRefused as error:
        if error.status == 404:
            return None
        raise
    with service.parsing("neutron", path):
        return service.checked(_port(body["port"]))


def bind(neutron: Neutron, port: Port, allocation: Mapping[str, str]) -> Port:
    """Write ``{group id: provider uuid}`` to a port's binding profile; return the port after it.

    Requests: one PUT. Errors: as ``write``; NeutronRefused with status 412 when the port was
    changed after it was read.
    """
    path = f"/ports/{port.uuid}"
    body = {"port": {"binding:profile": port.profile_with(allocation)}}
    answer = neutron.write(path, body, port.revision)
    with service.parsing("neutron", path):
        return service.checked(_port(answer["port"]))


def _port(item: Mapping[str, Any]) -> Port:
    uuid = item["id"]
    request = item.get("resource_request") or {}
    profile = item.get("binding:profile") or {}
    return Port(
        uuid=uuid,
        name=item.get("name") or uuid,
        server_uuid=item["device_id"],
        groups=_groups(uuid, request),
        same_subtree=frozenset(request.get("same_subtree") or ()),
        allocation=_allocation(uuid, profile.get(ALLOCATION)),
        profile=profile,
        revision=item.get("revision_number"),
        vnic_type=item.get("binding:vnic_type") or "normal",
    )


def _groups(uuid: str, request: Mapping[str, Any]) -> dict[str, RequestGroup]:
    """The groups of a resource request in either form: one group, or a list with ids."""
    parts = request.get("request_groups")
    if parts is None:
        parts = [{"id": uuid, **request}] if request.get("resources") else []
    return {
        part["id"]: RequestGroup(
            part["id"],
            dict(part["resources"]),
            tuple(frozenset({trait}) for trait in part.get("required") or ()),
        )
        for part in parts
    }


def _allocation(uuid: str, value: Any) -> dict[str, str]:
    if not value:
        return {}
    return dict(value) if isinstance(value, Mapping) else {uuid: str(value)}


@dataclasses.dataclass(frozen=True, slots=True)
class Agent:
    """An agent with resource providers: one for itself, ``HOST:TYPE``, and one per device.

    ``hypervisors`` is ``{device: hypervisor}``, the compute node above it; without an entry, it
    is the node of the agent's host. ``devices`` are those with a bandwidth; ``packet_hypervisors``
    the compute nodes for which it reports packet rates, on its own provider. ``is_synced``:
    whether neutron's last update of Placement succeeded, None if there was none.
    """

    host: str
    type: str
    hypervisors: Mapping[str, str] = dataclasses.field(default_factory=dict)
    devices: frozenset[str] = frozenset()
    packet_hypervisors: frozenset[str] = frozenset()
    is_synced: bool | None = None

    @property
    def provider_name(self) -> str:
        """The name of the agent's own provider."""
        return f"{self.host}:{self.type}"


def agents(neutron: Neutron) -> list[Agent] | None:
    """The agents that report resources; None if this neutron does not list agents.

    Requests: one GET, more where neutron limits its pages. Errors: as ``ask``.
    """
    bodies = agent_bodies(neutron)
    if bodies is None:
        return None
    with service.parsing("neutron", "/agents"):
        agents = [service.checked(_agent(body)) for body in bodies]
    return [agent for agent in agents if agent is not None]


def agent_bodies(neutron: Neutron) -> list[Mapping[str, Any]] | None:
    """As ``agents``, as neutron's JSON."""
    bodies: list[Mapping[str, Any]] = []
    try:
        for path, page in _pages(neutron, "agents"):
            with service.parsing("neutron", path):
                bodies += [body for body in page if _agent(body) is not None]
    except NeutronRefused as error:
        if error.status == 404:
            return None
        raise
    return bodies


def _agent(item: Mapping[str, Any]) -> Agent | None:
    """The agent; None if it reports no resources."""
    configuration = item.get("configurations") or {}
    if not isinstance(configuration, Mapping):
        return None
    devices = configuration.get("resource_provider_bandwidths") or {}
    packets = frozenset().union(*(_with_rate(configuration.get(key)) for key in _PACKET_RATES))
    if not devices and not packets:
        return None
    hypervisors = configuration.get("resource_provider_hypervisors") or {}
    named = {device: hypervisors[device] for device in devices if hypervisors.get(device)}
    synced = item.get("resources_synced")
    return Agent(
        item["host"],
        item["agent_type"],
        named,
        _with_rate(devices),
        frozenset(name or item["host"] for name in packets),
        synced if isinstance(synced, bool) else None,
    )


#: The options of an agent's packet rates; each is ``{hypervisor: {direction: rate}}``.
_PACKET_RATES = tuple(
    f"resource_provider_packet_processing_{kind}_direction" for kind in ("with", "without")
)


def _with_rate(rates: Any) -> frozenset[str]:
    """The names of ``{name: {direction: rate}}`` with a rate above 0."""
    return frozenset(name for name, by_way in (rates or {}).items() if any(by_way.values()))


#: The key of a binding profile that holds the providers of a port's resources.
ALLOCATION = "allocation"


@dataclasses.dataclass(frozen=True, slots=True)
class Port:
    """A port of a server, and the resources that it requests on the server's host.

    ``groups`` is ``{group id: request group}``, empty for most ports. Without neutron's
    port-resource-request-groups extension there is one group, and its id is the port's UUID.
    ``allocation`` is ``{group id: provider uuid}`` from the binding profile; ``profile`` is
    the whole profile. ``revision`` is the revision number, None in an old neutron.
    ``vnic_type`` is its VNIC type: a SmartNIC manages one that is remote-managed.
    """

    uuid: str
    name: str
    server_uuid: str
    groups: Mapping[str, RequestGroup] = dataclasses.field(default_factory=dict)
    same_subtree: frozenset[str] = frozenset()
    allocation: Mapping[str, str] = dataclasses.field(default_factory=dict)
    profile: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    revision: int | None = None
    vnic_type: str = "normal"

    def profile_with(self, allocation: Mapping[str, str]) -> dict[str, Any]:
        """The binding profile with this allocation; without the key when it is empty."""
        profile = {key: value for key, value in self.profile.items() if key != ALLOCATION}
        if not allocation:
            return profile
        # For a request of the old form, it holds one provider's UUID.
        is_old = list(self.groups) == [self.uuid]
        value = allocation.get(self.uuid) if is_old else dict(allocation)
        return {**profile, ALLOCATION: value}
