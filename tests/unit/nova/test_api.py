# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime
import json
import pathlib
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from osc_placement import errors, microversion, testing
from osc_placement.client import api_errors, service
from osc_placement.model import recording
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api, device_profiles, flavors, roles, servers, values


def connection(status: int = 200, body: Any = None, error: Exception | None = None) -> Any:
    """The part of an openstacksdk connection that is used."""
    requests: list[tuple[str, dict[str, Any]]] = []

    def request(path: str, method: str, **options: Any) -> Any:
        assert method == "GET"
        requests.append((path, options))
        if error:
            raise error
        content = json.dumps(body).encode()
        return types.SimpleNamespace(status_code=status, content=content, reason="Some Reason")

    return types.SimpleNamespace(compute=types.SimpleNamespace(request=request), requests=requests)


def test_host_aggregates_are_parsed() -> None:
    body = {"aggregates": [{"id": 7, "name": "racks", "uuid": "u", "hosts": ["h", "i"]}]}
    cloud = connection(body=body)
    assert api.host_aggregates(api.SessionNova(cloud)) == [
        values.HostAggregate("7", "racks", "u", ("h", "i"))
    ]
    ((path, options),) = cloud.requests
    assert (path, options["microversion"]) == ("/os-aggregates", "2.41")


@pytest.mark.parametrize(
    ("newest", "shows_zone"), [("2.95", False), ("2.96", True), ("2.99", True)]
)
def test_the_requested_zone_is_read_from_every_nova_that_shows_it(
    newest: str, shows_zone: bool
) -> None:
    item = testing.sample_nova("12-hosts")["GET /v2.1/servers/detail?all_tenants=1"]["servers"][0]

    class Nova:
        source = ""

        def ask(self, path: str, version: str) -> Any:
            if microversion.Microversion.parse(version) > microversion.Microversion.parse(newest):
                raise api.NovaRefused(406, "no such version", url=path)
            zoned = version in ("2.96", "2.98")
            return {"servers": [{**item, **({"pinned_availability_zone": "az1"} if zoned else {})}]}

    (server,) = servers.servers(Nova())
    assert (server.shows_zone, server.pinned_zone) == (shows_zone, "az1" if shows_zone else None)


@pytest.mark.parametrize(
    ("cloud", "message"),
    [
        (connection(error=RuntimeError("no such endpoint")), "no such endpoint"),
        (connection(406, {"computeFault": {"code": 406, "message": "no"}}), r"too old.* 2\.41"),
        (connection(500, {"computeFault": {"message": "out\n of order"}}), "out of order"),
        (connection(503, []), "Some Reason"),
        (connection(body={"aggregates": [{"id": 7}]}), "lacks"),
        (connection(body=[]), "another form"),
    ],
)
def test_errors_of_nova_are_reported(cloud: Any, message: str) -> None:
    with pytest.raises(errors.PlacementError, match=message):
        api.host_aggregates(api.SessionNova(cloud))


def test_a_recording_answers_like_nova() -> None:
    recorded = api.RecordedNova(testing.sample_nova("12-hosts"), "12-hosts")
    hosts = servers.read_hosts(recorded)
    assert len(api.host_aggregates(recorded)) == 8
    assert len(hosts.nodes) == 15
    assert [len(nodes) for nodes in hosts.of_host().values()] == [1] * 12 + [3]
    assert "ghost-nonode" in hosts.services


GROUP = {"id": "g", "name": "g", "policy": "affinity", "members": []}


@pytest.mark.parametrize("wrong", [None, 5, ["a"], {"a": 1}, 1.5])
@pytest.mark.parametrize(
    ("path", "key", "fields", "read"),
    [
        (
            "/os-hypervisors/detail",
            "hypervisors",
            ("hypervisor_hostname", "id"),
            servers.read_hosts,
        ),
        ("/os-services", "services", ("host",), servers.read_hosts),
        ("/os-aggregates", "aggregates", ("name", "uuid"), api.host_aggregates),
        ("/os-server-groups", "server_groups", ("name", "policy"), api.server_groups),
        ("/flavors/detail", "flavors", ("name", "id", "vcpus", "extra_specs"), flavors.flavors),
        ("/servers/detail", "servers", ("name", "id"), servers.servers),
    ],
)
def test_a_field_of_another_type_is_an_error_that_names_the_listing(
    path: str, key: str, fields: Sequence[str], read: Callable[[Any], Any], wrong: object
) -> None:
    for field in fields:
        if field == "vcpus" and wrong == 5:
            continue
        recorded = json.loads(json.dumps(testing.sample_nova("12-hosts")))
        for request, answer in recorded.items():
            if f"{path}?" in f"{request}?":
                answer[key] = answer[key] or [dict(GROUP)]
                answer[key][0][field] = wrong
        with pytest.raises(errors.PlacementError, match=path):
            read(api.RecordedNova(recorded, "here"))


@pytest.mark.parametrize("wrong", [None, 5, ["a"], {"a": 1}, 1.5])
@pytest.mark.parametrize("field", ["name", "id", "status"])
def test_a_field_of_one_server_is_checked_as_in_a_listing(field: str, wrong: object) -> None:
    recorded = testing.sample_nova("12-hosts")
    listing = next(answer for path, answer in recorded.items() if "/servers/detail" in path)
    one = {"server": {**listing["servers"][0], field: wrong}}
    with pytest.raises(errors.PlacementError, match="/servers/u"):
        servers.server(api.SessionNova(connection(body=one)), "u")


@pytest.mark.parametrize("text", [None, "no json", "[]", "{}"])
def test_an_invalid_recording_is_named(tmp_path: pathlib.Path, text: str | None) -> None:
    path = tmp_path / "nova.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(errors.PlacementError, match=r"nova\.json"):
        servers.read_hosts(api.read_recording(path))


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
    request = opened.compute.request

    def with_headers(path: str, method: str, **options: Any) -> Any:
        answer = request(path, method, **options)
        answer.headers = headers
        return answer

    opened.compute.request = with_headers
    nova = api.SessionNova(opened)
    offset = api.clock_offset(nova)
    assert (offset > datetime.timedelta(days=1)) is is_ahead
    assert api.clock_offset(nova) == offset
    assert len(opened.requests) == 1


def test_a_recording_has_the_time_and_the_services_of_its_cloud() -> None:
    assert api.clock_offset(api.RecordedNova({}, "a recording")) == datetime.timedelta()
    opened = connection(body={"servers": []})
    opened.service_catalog = [{"type": "container"}, {"type": "compute"}]
    login = api.recorded_login(api.SessionNova(opened))
    saved = api.RecordedNova({api.LOGIN: login}, "a recording")
    assert api.service_types(saved) == {"compute", "container"}
    assert datetime.timedelta() < api.clock_offset(saved) < datetime.timedelta(hours=1)


@pytest.mark.parametrize("login", [None, {}, {"token": {"issued_at": "now", "catalog": [{}]}}])
def test_a_damaged_login_in_a_recording_is_an_error(login: object) -> None:
    nova = api.RecordedNova({api.LOGIN: login}, "a recording")
    with pytest.raises(errors.PlacementError, match="auth/tokens"):
        api.clock_offset(nova)
    with pytest.raises(errors.PlacementError, match="auth/tokens"):
        api.service_types(nova)


@pytest.mark.parametrize("rule", ["os_compute_api:os-services:list", ""])
def test_a_refusal_of_nova_names_the_role_that_it_needs(
    rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    detail = f"Policy doesn't allow {rule} to be performed." if rule else "a proxy says no"
    advice = "missing permission in nova: by default this needs an admin of the project"
    with caplog.at_level("INFO"):
        refused = api.NovaRefused(403, detail, url="/os-services")
    assert str(refused) == f"{advice} (the rules: -v)"
    assert caplog.messages == [
        f"nova refuses a request: nova, GET /os-services: {detail} (HTTP 403)"
    ]
    for status in (400, 401, 404, 500):
        assert advice not in str(api.NovaRefused(status, detail, url="/os-services"))


def test_a_recorded_list_of_images_is_parsed_once_and_answers_for_each_image() -> None:
    class Bodies(dict[str, object]):
        reads = 0

        def __getitem__(self, key: str) -> object:
            Bodies.reads += 1
            return super().__getitem__(key)

    listed = {"images": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]}
    nova = api.RecordedNova(Bodies({f"GET /v2{flavors.LISTING}": listed}), "a recording")
    for uuid in ("1", "2"):
        assert flavors.image_of_server(flavors.glance_of(nova), uuid).id == uuid
    assert flavors.image(flavors.glance_of(nova), "b").id == "2"
    with pytest.raises(errors.NotKnown, match="no more"):
        flavors.image_of_server(flavors.glance_of(nova), "3")
    assert Bodies.reads == 1


@pytest.mark.parametrize(
    ("configured", "catalog", "has_nova"),
    [
        ({}, "http://nova", True),
        ({}, None, False),
        ({"compute_endpoint_override": "http://nova"}, None, True),
        # Without a catalog, a request to nova shows the error.
        ({}, RuntimeError("no catalog"), True),
    ],
)
def test_a_cloud_has_nova_if_its_catalog_or_its_configuration_has_an_endpoint(
    configured: dict[str, str], catalog: str | Exception | None, has_nova: bool
) -> None:
    def endpoint(service_type: str) -> str | None:
        assert service_type == "compute"
        if isinstance(catalog, Exception):
            raise catalog
        return catalog

    config = types.SimpleNamespace(config=configured, get_endpoint_from_catalog=endpoint)
    assert api.has_endpoint(types.SimpleNamespace(config=config)) is has_nova


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "no image with the name or ID 'linux'"), (2, "2 images with the name 'linux'")],
)
def test_no_or_several_images_of_a_name_are_an_error(number: int, text: str) -> None:
    class Glance:
        def ask(self, path: str) -> Any:
            if "?name=" not in path:
                raise flavors.GlanceRefused(404, "no", url=path)
            return {"images": [{"id": str(at), "name": "linux"} for at in range(number)]}

    with pytest.raises(errors.InvalidInput, match=f"glance has {text}"):
        flavors.image(Glance(), "linux")


def test_a_page_without_entries_that_names_a_next_one_is_an_error() -> None:
    body = {"servers": [], "servers_links": [{"rel": "next"}]}
    with pytest.raises(errors.PlacementError, match="nova's listing /servers has a page without"):
        service.next_marker("nova", "/servers", "servers", body, set())


@pytest.mark.parametrize(
    "refused",
    [
        api.NovaRefused(403, "no", url="/servers"),
        api.NovaHides("nova hides the host", "/servers"),
        flavors.GlanceRefused(403, "no", url="/images"),
        neutron_api.NeutronRefused(403, "no", url="/ports"),
        roles.KeystoneRefused(403, "no", url="/users"),
        device_profiles.CyborgRefused(403, "no", url="/device_profiles"),
        api_errors.from_status(403, "no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_recording_says_which_service_refused_a_right(refused: errors.PlacementError) -> None:
    kept: dict[str, Any] = {}

    def refuse() -> Any:
        raise refused

    recording.keep_or_reason(kept.__setitem__, "key", refuse)
    live, file = errors.InputErrors(), errors.InputErrors()
    with api.collected(live):
        refuse()
    with api.collected(file):
        recording.known(kept["key"])
    assert file.reasons == live.reasons
    assert len(live.reasons) == 1
