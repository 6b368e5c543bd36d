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
    """As much of openstacksdk as is used."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def get(path: str, **options: Any) -> Any:
        asked.append((path, options))
        if error:
            raise error
        return types.SimpleNamespace(status_code=status, json=lambda: body, reason="Some Reason")

    return types.SimpleNamespace(compute=types.SimpleNamespace(get=get), asked=asked)


class Cells:
    """A nova of two cells of compute nodes; it lists the first, and the second unless it is down.

    As the real one (34.0) it refuses a page that would reach into a cell that is down.
    """

    def __init__(self, near: int, far: int, *, down: bool = False, version: str = "2.104") -> None:
        self.near = [f"near-{number:04}" for number in range(near)]
        self.far = [f"far-{number:04}" for number in range(far)]
        self.down, self.version = down, version
        self.asked: list[str] = []

    def ask(self, path: str, version: str) -> Any:
        self.asked.append(path)
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


def test_a_host_aggregate_has_an_id_a_name_hosts_and_the_uuid_of_its_mirror() -> None:
    body = {"aggregates": [{"id": 7, "name": "racks", "uuid": "u", "hosts": ["h", "i"]}]}
    talked = connection(body=body)
    assert api.host_aggregates(api.SessionNova(talked)) == [
        values.HostAggregate("7", "racks", "u", ("h", "i"))
    ]
    ((path, options),) = talked.asked
    assert (path, options["microversion"]) == ("/os-aggregates", "2.41")


@pytest.mark.parametrize(
    ("talked", "said"),
    [
        (connection(error=RuntimeError("no such endpoint")), "no such endpoint"),
        (connection(406, {"computeFault": {"code": 406, "message": "no"}}), r"too old.* 2\.41"),
        (connection(500, {"computeFault": {"message": "out\n of order"}}), "out of order"),
        (connection(503, []), "Some Reason"),
        (connection(body={"aggregates": [{"id": 7}]}), "lacks"),
        (connection(body=[]), "lacks"),
    ],
)
def test_what_is_wrong_with_nova_is_told(talked: Any, said: str) -> None:
    with pytest.raises(errors.PlacementError, match=said):
        api.host_aggregates(api.SessionNova(talked))


def test_the_rule_of_novas_policy_that_forbids_is_known() -> None:
    message = "Policy doesn't allow os_compute_api:os-aggregates:index to be performed."
    talked = connection(403, {"forbidden": {"code": 403, "message": message}})
    with pytest.raises(api.NovaRefused) as caught:
        api.host_aggregates(api.SessionNova(talked))
    assert caught.value.rule == "os_compute_api:os-aggregates:index"


def test_hypervisors_are_read_page_by_page() -> None:
    cloud = Cells(near=1000, far=1500)
    found = api.hosts(cloud)
    assert [node.host for node in found.nodes] == cloud.near + cloud.far
    assert found.nodes[0] == values.ComputeNode("near-0000", "near-0000.example.org", "near-0000")
    assert len(cloud.asked) == 1 + 3
    assert found.unreachable == frozenset()


@pytest.mark.parametrize("near", [0, 1, 15, 16, 999, 1000, 1003])
def test_of_a_cell_that_is_down_the_hosts_are_known_and_the_nodes_of_others_are_found(
    near: int,
) -> None:
    cloud = Cells(near=near, far=3, down=True)
    found = api.hosts(cloud)
    assert found.unreachable == set(cloud.far)
    assert found.services == set(cloud.near + cloud.far)
    assert [node.host for node in found.nodes] == cloud.near
    assert len(cloud.asked) <= 1 + 2 + 10


def test_an_old_nova_does_not_tell_of_cells() -> None:
    found = api.hosts(Cells(near=2, far=0, version="2.53"))
    assert (found.lists_down_cells, len(found.nodes)) == (False, 2)


def test_a_nova_that_cannot_list_its_hypervisors_for_no_known_reason_is_an_error() -> None:
    cloud = Cells(near=2, far=1, down=True, version="2.60")
    cloud._services = lambda: iter(())  # type: ignore[method-assign]
    with pytest.raises(api.NovaRefused, match="Unexpected API Error"):
        api.hosts(cloud)


def test_recorded_answers_are_as_good_as_nova() -> None:
    recorded = api.RecordedNova(testing.sample_nova("12-hosts"), "12-hosts")
    found = api.hosts(recorded)
    assert len(api.host_aggregates(recorded)) == 8
    assert len(found.nodes) == 15
    assert [len(nodes) for nodes in found.of_host().values()] == [1] * 12 + [3]
    assert "ghost-nonode" in found.services


@pytest.mark.parametrize("text", [None, "no json", "[]", "{}"])
def test_a_file_without_the_answers_is_named(tmp_path: pathlib.Path, text: str | None) -> None:
    path = tmp_path / "nova.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.PlacementError, match=r"nova\.json"):
        api.hosts(api.read_recording(path))


def test_an_answer_to_the_very_question_comes_before_a_general_one() -> None:
    answers = {"GET /v2.1/x": "general", "GET /v2.1/x?limit=1": "special"}
    recorded = api.RecordedNova(json.loads(json.dumps(answers)), "here")
    assert [recorded.ask(path, "2.1") for path in ("/x?limit=1", "/x?limit=2")] == [
        "special",
        "general",
    ]


@pytest.mark.parametrize(
    ("told", "ahead"),
    [
        ({"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}, True),
        ({"Date": "yesterday"}, False),
        ({}, False),
    ],
)
def test_how_far_our_clock_is_ahead_of_novas_is_told_by_its_first_answer(
    told: dict[str, str], ahead: bool
) -> None:
    opened = connection(body={"servers": []})
    get = opened.compute.get

    def with_headers(path: str, **options: Any) -> Any:
        answer = get(path, **options)
        answer.headers = told
        return answer

    opened.compute.get = with_headers
    found = api.clock_offset(api.SessionNova(opened))
    assert (found > datetime.timedelta(days=1)) is ahead
    assert len(opened.asked) == 1


def test_recorded_answers_have_no_clock() -> None:
    assert api.clock_offset(api.RecordedNova({}, "a recording")) == datetime.timedelta()
