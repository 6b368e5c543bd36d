# SPDX-License-Identifier: Apache-2.0
"""Responses of neutron, its agents that report resources, and requests without a response."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable
from typing import Any

import keystoneauth1.exceptions
import pytest
import requests
import urllib3

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.neutron import api
from tests.support.fake_neutron import FakeNeutron

PATH = "/ports/p"


class Answer:
    def __init__(self, status: int, body: Any = None) -> None:
        self.status_code, self.reason = status, "a reason"
        self.content = b"no JSON" if body is None else json.dumps(body).encode()


class Connection:
    """Like the SDK's: ``network.request`` returns a response or raises, and keeps the headers."""

    def __init__(self, outcome: Answer | Exception) -> None:
        self.network = self
        self._outcome = outcome

    def request(self, path: str, method: str, **options: Any) -> Answer:
        self.headers = options.get("headers")
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def failure(reason: Any) -> Exception:
    """keystoneauth's error for requests' error for an error of urllib3."""
    found = keystoneauth1.exceptions.ConnectFailure("no answer")
    pool = urllib3.connectionpool.HTTPConnectionPool("neutron")
    found.__context__ = requests.ConnectionError(
        urllib3.exceptions.MaxRetryError(pool, "/", reason)
    )
    return found


REFUSED = failure(urllib3.exceptions.NewConnectionError(None, "refused"))  # type: ignore[arg-type]
CUT = failure(urllib3.exceptions.ProtocolError("Connection aborted."))


def write(neutron: api.SessionNeutron) -> Any:
    return neutron.write(PATH, {"port": {}}, 3)


def ask(neutron: api.SessionNeutron) -> Any:
    return neutron.ask(PATH)


@pytest.mark.parametrize(
    ("call", "outcome", "expected"),
    [
        (ask, REFUSED, api_errors.ConnectionFailed),
        (ask, CUT, api_errors.ConnectionFailed),
        (write, REFUSED, api_errors.ConnectionFailed),
        (write, CUT, api_errors.OutcomeUnknown),
        (write, Answer(503), api_errors.OutcomeUnknown),
        (ask, Answer(503), api.NeutronRefused),
        (write, Answer(412), api.NeutronRefused),
        (write, Answer(200), api_errors.OutcomeUnknown),
        (ask, Answer(200), api.NeutronRefused),
        (ask, RuntimeError("no catalog"), api_errors.ConnectionFailed),
    ],
)
def test_lost_and_refused_requests_have_different_errors(
    call: Callable[[api.SessionNeutron], Any],
    outcome: Answer | Exception,
    expected: type[Exception],
) -> None:
    with pytest.raises(errors.PlacementError) as caught:
        call(api.SessionNeutron(Connection(outcome)))
    assert type(caught.value) is expected
    assert "neutron" in str(caught.value)


@pytest.mark.parametrize(
    ("revision", "headers"), [(3, {"If-Match": "revision_number=3"}), (None, {})]
)
def test_neutron_refuses_a_write_after_another_change(
    revision: int | None, headers: dict[str, str]
) -> None:
    connection = Connection(Answer(200, {"port": {}}))
    api.SessionNeutron(connection).write(PATH, {"port": {}}, revision)
    assert connection.headers == headers


def test_a_refusal_of_neutron_shows_its_message_alone() -> None:
    fault = {"type": "PortInUse", "message": "the port\n is bound", "detail": ""}
    refused = Connection(Answer(409, {"NeutronError": fault}))
    with pytest.raises(api.NeutronRefused) as caught:
        write(api.SessionNeutron(refused))
    assert str(caught.value) == f"neutron, PUT {PATH}: the port is bound (HTTP 409)"


def neutron(*agents: dict[str, Any]) -> api.RecordedNeutron:
    return api.RecordedNeutron({"GET /v2.0/agents": {"agents": list(agents)}}, "a recording")


def agent(host: str, **configurations: Any) -> dict[str, Any]:
    """An agent with these options, which are named without their prefix."""
    options = {f"resource_provider_{name}": value for name, value in configurations.items()}
    return {"id": host, "host": host, "agent_type": "agent", "configurations": options}


def test_only_agents_with_resources_are_returned() -> None:
    bandwidths = {"ens1": {}, "ens2": {"egress": 5}}
    rates = {"c.example": {"egress": 1, "ingress": None}, "d.example": {"egress": 0}}
    without = {"": {"any": 9}}
    agents = api.agents(
        neutron(
            agent("a"),
            agent("b", bandwidths=bandwidths, hypervisors={"ens1": "b.example", "other": "c"}),
            agent(
                "c",
                packet_processing_without_direction=without,
                packet_processing_with_direction=rates,
            )
            | {"resources_synced": False},
            agent("d", packet_processing_without_direction={"": {"any": 0}}),
        )
    )
    assert agents == [
        api.Agent("b", "agent", {"ens1": "b.example"}, frozenset({"ens2"})),
        api.Agent("c", "agent", {}, frozenset(), frozenset({"c", "c.example"}), False),
    ]
    assert agents[0].provider_name == "b:agent"


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
    neutron = ShortPages(
        ports=[{"id": f"port-{number}", "device_id": "server"} for number in range(5)],
        agents=[agent(f"h{number}", bandwidths={"ens1": {}}) for number in range(4)],
    )
    ports = api.ports_of(neutron, ["server"], with_request=False)
    assert [port.uuid for port in ports] == [f"port-{number}" for number in range(5)]
    agents = api.agents(neutron)
    assert agents is not None
    assert [agent.host for agent in agents] == ["h0", "h1", "h2", "h3"]


def test_a_malformed_response_is_an_error() -> None:
    broken = agent("a", bandwidths={"ens1": {}})
    del broken["host"]
    with pytest.raises(errors.PlacementError, match="neutron's response to /agents lacks"):
        api.agents(neutron(broken))


@pytest.mark.parametrize("wrong", [None, 5, ["a"], {"a": 1}, 1.5])
@pytest.mark.parametrize("field", ["id", "device_id", "host", "agent_type"])
def test_a_field_of_another_type_is_an_error_of_neutron(field: str, wrong: object) -> None:
    port = {"id": "p", "device_id": "s", "name": "port"}
    bandwidths = {"ens1": {"egress": 5}}
    agents = [agent("a", bandwidths=bandwidths) | {field: wrong}]
    body = {"port": {**port, field: wrong}, "agents": agents}
    cloud = api.SessionNeutron(Connection(Answer(200, body)))
    with pytest.raises(errors.PlacementError, match="neutron"):
        api.port(cloud, "p") if field in port else api.agents(cloud)


def test_a_dry_run_changes_no_port_and_a_recording_refuses_as_a_run_would() -> None:
    port = {"id": "p", "device_id": "s", "name": "web", "binding:profile": {}}
    change = {"port": {"binding:profile": {"allocation": "card"}}}
    neutron = FakeNeutron(port)
    assert api.CopyOfNeutron(neutron).write(PATH, change, 4) == {"port": {**port, **change["port"]}}
    assert neutron.ports == {"p": port}
    recorded = api.RecordedNeutron({"GET /v2.0/ports": {"ports": [port]}}, "answers.json")
    with pytest.raises(errors.PlacementError, match=r"answers.json is a recording and cannot"):
        api.CopyOfNeutron(recorded).write(PATH, change, 4)
