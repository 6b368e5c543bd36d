from __future__ import annotations

import datetime
import json
import pathlib
import types
import urllib.parse
from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.nova import api, values


def connection(status: int = 200, body: Any = None, error: Exception | None = None) -> Any:
    """The part of an openstacksdk connection that is used."""
    requests: list[tuple[str, dict[str, Any]]] = []

    def get(path: str, **options: Any) -> Any:
        requests.append((path, options))
        if error:
            raise error
        return types.SimpleNamespace(status_code=status, json=lambda: body, reason="Some Reason")

    return types.SimpleNamespace(compute=types.SimpleNamespace(get=get), requests=requests)


class Cells:
    """A nova with two cells of compute nodes; the second one may be down.

    Like nova 34.0 it refuses a page that reaches into a cell that is down.
    """

    def __init__(self, near: int, far: int, *, down: bool = False, version: str = "2.104") -> None:
        self.near = [f"near-{number:04}" for number in range(near)]
        self.far = [f"far-{number:04}" for number in range(far)]
        self.down, self.version = down, version
        self.requests: list[str] = []

    def ask(self, path: str, version: str) -> Any:
        self.requests.append(path)
        if version.split(".")[1].zfill(3) > self.version.split(".")[1].zfill(3):
            raise api.NovaRefused(406, f"Version {version} is not supported", url=path)
        if path.startswith("/os-services"):
            return {"services": list(self._services())}
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(path).query))
        names = self.near + self.far
        start = names.index(query["marker"]) + 1 if "marker" in query else 0
        page = names[start : start + int(query["limit"])]
        if self.down and (set(page) & set(self.far) or len(page) < int(query["limit"])):
            raise api.NovaRefused(500, "Unexpected API Error", url=path)
        answer: dict[str, Any] = {"hypervisors": [_hypervisor(name) for name in page]}
        if len(page) == int(query["limit"]):
            answer["hypervisors_links"] = [{"rel": "next", "href": "http://nova/somewhere"}]
        return answer

    def _services(self) -> Any:
        for name in self.near + self.far:
            state = "UNKNOWN" if self.down and name in self.far else "enabled"
            yield {"binary": "nova-compute", "host": name, "status": state, "state": "up"}


def _hypervisor(name: str) -> dict[str, Any]:
    return {"id": name, "hypervisor_hostname": f"{name}.example.org", "service": {"host": name}}


def test_host_aggregates_are_parsed() -> None:
    body = {"aggregates": [{"id": 7, "name": "racks", "uuid": "u", "hosts": ["h", "i"]}]}
    cloud = connection(body=body)
    assert api.host_aggregates(api.SessionNova(cloud)) == [
        values.HostAggregate("7", "racks", "u", ("h", "i"))
    ]
    ((path, options),) = cloud.requests
    assert (path, options["microversion"]) == ("/os-aggregates", "2.41")


@pytest.mark.parametrize(
    ("cloud", "message"),
    [
        (connection(error=RuntimeError("no such endpoint")), "no such endpoint"),
        (connection(406, {"computeFault": {"code": 406, "message": "no"}}), r"too old.* 2\.41"),
        (connection(500, {"computeFault": {"message": "out\n of order"}}), "out of order"),
        (connection(503, []), "Some Reason"),
        (connection(body={"aggregates": [{"id": 7}]}), "lacks"),
        (connection(body=[]), "lacks"),
    ],
)
def test_errors_of_nova_are_reported(cloud: Any, message: str) -> None:
    with pytest.raises(errors.PlacementError, match=message):
        api.host_aggregates(api.SessionNova(cloud))


def test_the_policy_rule_is_parsed_from_a_refusal() -> None:
    message = "Policy doesn't allow os_compute_api:os-aggregates:index to be performed."
    cloud = connection(403, {"forbidden": {"code": 403, "message": message}})
    with pytest.raises(api.NovaRefused) as caught:
        api.host_aggregates(api.SessionNova(cloud))
    assert caught.value.rule == "os_compute_api:os-aggregates:index"


def test_hypervisors_are_read_in_pages() -> None:
    cloud = Cells(near=1000, far=1500)
    found = api.hosts(cloud)
    assert [node.host for node in found.nodes] == cloud.near + cloud.far
    assert found.nodes[0] == values.ComputeNode("near-0000", "near-0000.example.org", "near-0000")
    assert len(cloud.requests) == 1 + 3
    assert found.unreachable == frozenset()


@pytest.mark.parametrize("near", [0, 1, 15, 16, 999, 1000, 1003])
def test_with_a_cell_down_its_hosts_and_the_nodes_of_other_cells_are_found(
    near: int,
) -> None:
    cloud = Cells(near=near, far=3, down=True)
    found = api.hosts(cloud)
    assert found.unreachable == set(cloud.far)
    assert found.services == set(cloud.near + cloud.far)
    assert [node.host for node in found.nodes] == cloud.near
    assert len(cloud.requests) <= 1 + 2 + 10


def test_an_old_nova_does_not_list_cells_that_are_down() -> None:
    found = api.hosts(Cells(near=2, far=0, version="2.53"))
    assert (found.lists_down_cells, len(found.nodes)) == (False, 2)


def test_a_refused_page_is_an_error_when_no_cell_is_down() -> None:
    cloud = Cells(near=2, far=1, down=True, version="2.60")
    cloud._services = lambda: iter(())  # type: ignore[method-assign]
    with pytest.raises(api.NovaRefused, match="Unexpected API Error"):
        api.hosts(cloud)


def test_a_recording_answers_like_nova() -> None:
    recorded = api.RecordedNova(testing.sample_nova("12-hosts"), "12-hosts")
    found = api.hosts(recorded)
    assert len(api.host_aggregates(recorded)) == 8
    assert len(found.nodes) == 15
    assert [len(nodes) for nodes in found.of_host().values()] == [1] * 12 + [3]
    assert "ghost-nonode" in found.services


@pytest.mark.parametrize("text", [None, "no json", "[]", "{}"])
def test_an_invalid_recording_is_named(tmp_path: pathlib.Path, text: str | None) -> None:
    path = tmp_path / "nova.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.PlacementError, match=r"nova\.json"):
        api.hosts(api.read_recording(path))


def test_the_recording_with_the_most_matching_parameters_is_used() -> None:
    answers = {"GET /v2.1/x": "general", "GET /v2.1/x?limit=1": "special"}
    recorded = api.RecordedNova(json.loads(json.dumps(answers)), "here")
    assert [recorded.ask(path, "2.1") for path in ("/x?limit=1", "/x?limit=2")] == [
        "special",
        "general",
    ]


@pytest.mark.parametrize(
    ("headers", "is_ahead"),
    [
        ({"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}, True),
        ({"Date": "yesterday"}, False),
        ({}, False),
    ],
)
def test_the_first_response_sets_the_clock_offset(headers: dict[str, str], is_ahead: bool) -> None:
    opened = connection(body={"servers": []})
    get = opened.compute.get

    def with_headers(path: str, **options: Any) -> Any:
        answer = get(path, **options)
        answer.headers = headers
        return answer

    opened.compute.get = with_headers
    found = api.clock_offset(api.SessionNova(opened))
    assert (found > datetime.timedelta(days=1)) is is_ahead
    assert len(opened.requests) == 1


def test_a_recording_has_no_clock_offset() -> None:
    assert api.clock_offset(api.RecordedNova({}, "a recording")) == datetime.timedelta()
