"""What is asked of neutron about ports, and the one thing that is written: a binding profile.

Called where healing gives servers' ports their devices.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from osc_placement import errors
from osc_placement.client import api_errors, transport
from osc_placement.model.candidate import RequestGroup
from osc_placement.neutron import port as model

#: How many servers one request asks about: the query stays below 4 KiB.
_SERVERS = 64

_PORTS = "GET /v2.0/ports"


class Network(Protocol):
    """Neutron: ``ask("/ports?device_id=…")`` is the parsed JSON of that GET.

    ``source`` names where the answers come from when that is not the cloud itself.
    """

    @property
    def source(self) -> str: ...

    def ask(self, path: str) -> Any:
        """One request. Errors: NetworkRefused, and ConnectionFailed when nobody answers."""

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Send one PUT; it fails if the revision changed. Errors: as ``ask``, OutcomeUnknown."""


class NetworkRefused(api_errors.ApiError):
    """Neutron answered with an error."""


class SessionNetwork:
    """Neutron as an openstacksdk connection reaches it."""

    source = ""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, path: str) -> Any:
        """One GET."""
        return self._answer("GET", path, skip_cache=True)

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """One PUT."""
        guard = {"If-Match": f"revision_number={revision}"} if revision is not None else {}
        return self._answer("PUT", path, json=body, headers=guard)

    def _answer(self, method: str, path: str, **options: Any) -> Any:
        try:
            answer = self._connection.network.request(path, method, raise_exc=False, **options)
        except Exception as error:  # The SDK's and keystoneauth's errors have no common root.
            if method != "GET" and transport.was_sent(error):
                raise _lost(method, path, 0, str(error)) from error
            raise api_errors.ConnectionFailed(f"neutron cannot be asked: {error}") from error
        if method != "GET" and answer.status_code in api_errors.IN_FLIGHT:
            raise _lost(method, path, answer.status_code, answer.text)
        if answer.status_code >= 400:
            raise _refused(method, path, answer.status_code, answer.text)
        try:
            return answer.json()
        except ValueError as error:
            told = _refused if method == "GET" else _lost
            raise told(method, path, answer.status_code, "the answer is no JSON") from error


class RecordedNetwork:
    """Neutron's answers of another day: ``{"GET /v2.0/ports": body}``; without, no ports."""

    def __init__(self, answers: Mapping[str, Any], source: str) -> None:
        bodies = [body for key, body in answers.items() if key.partition("?")[0].startswith(_PORTS)]
        ports = [port for body in bodies for port in body["ports"]]
        self._ports = {port["id"]: port for port in ports}
        self.source = source

    def ask(self, path: str) -> Any:
        """No request."""
        plain, _, query = path.partition("?")
        uuid = plain.rpartition("/")[2]
        if plain != "/ports":
            if uuid not in self._ports:
                raise _refused("GET", path, 404, "no such port")
            return {"port": self._ports[uuid]}
        wanted = {value for name, value in urllib.parse.parse_qsl(query) if name == "device_id"}
        return {"ports": [port for port in self._ports.values() if port["device_id"] in wanted]}

    def write(self, path: str, body: Any, revision: int | None) -> Any:
        """Never."""
        raise errors.PlacementError(f"{self.source} cannot be written to")


def ports_of(asked: Network, servers: Sequence[str]) -> list[model.Port]:
    """The ports of these servers, by UUID, that ask for resources.

    Cost: one request per 64 servers. Errors: as ``ask``.
    """
    found: list[model.Port] = []
    for start in range(0, len(servers), _SERVERS):
        pairs = [("device_id", uuid) for uuid in servers[start : start + _SERVERS]]
        path = f"/ports?{urllib.parse.urlencode(pairs)}"
        answer = asked.ask(path)
        with _parsing(path):
            found += map(_port, answer["ports"])
    return [port for port in found if port.groups]


def port(asked: Network, uuid: str) -> model.Port | None:
    """One port; None when neutron has none of that UUID. Cost: one request."""
    path = f"/ports/{urllib.parse.quote(uuid, safe='')}"
    try:
        answer = asked.ask(path)
    except NetworkRefused as error:
        if error.status == 404:
            return None
        raise
    with _parsing(path):
        return _port(answer["port"])


def bind(asked: Network, item: model.Port, allocation: Mapping[str, str]) -> model.Port:
    """Tell in the binding profile from where a port has its resources, and how it is now.

    Cost: one request. Errors: as ``ask``; NetworkRefused with status 412 when somebody else
    wrote the port since it was read.
    """
    path = f"/ports/{item.uuid}"
    body = {"port": {"binding:profile": item.bound(allocation)}}
    answer = asked.write(path, body, item.revision)
    with _parsing(path):
        return _port(answer["port"])


def _port(item: Mapping[str, Any]) -> model.Port:
    uuid = item["id"]
    groups = _groups(uuid, item.get("resource_request") or {})
    profile = item.get("binding:profile") or {}
    return model.Port(
        uuid=uuid,
        name=item.get("name") or uuid,
        server_uuid=item["device_id"],
        groups=groups,
        same_subtree=frozenset((item.get("resource_request") or {}).get("same_subtree") or ()),
        allocation=_allocation(uuid, profile.get(model.ALLOCATION)),
        profile=profile,
        revision=item.get("revision_number"),
    )


def _groups(uuid: str, request: Mapping[str, Any]) -> dict[str, RequestGroup]:
    """Of either form: one request, or several groups with ids."""
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


def _allocation(uuid: str, told: Any) -> dict[str, str]:
    if not told:
        return {}
    return dict(told) if isinstance(told, Mapping) else {uuid: str(told)}


def _lost(method: str, path: str, status: int, detail: str) -> api_errors.OutcomeUnknown:
    """The error for a write whose outcome is unknown."""
    return api_errors.OutcomeUnknown(
        status, f"neutron, {method} {path}: {detail}", method=method, url=path
    )


def _refused(method: str, path: str, status: int, detail: str) -> NetworkRefused:
    told = f"neutron, {method} {path.partition('?')[0]}: {detail}"
    return NetworkRefused(status, told, method=method, url=path)


@contextlib.contextmanager
def _parsing(path: str) -> Iterator[None]:
    """Turn what is missing in an answer into a PlacementError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError) as error:
        raise errors.PlacementError(
            f"neutron's answer to {path.partition('?')[0]} lacks what it tells: {error!r}"
        ) from error
