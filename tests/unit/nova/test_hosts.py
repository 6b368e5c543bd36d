# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import json
import urllib.parse
from collections.abc import Callable, Collection
from typing import Any

import pytest

from osc_placement.nova import api, servers, values
from tests.support.clouds import large


class Cells:
    """A nova with two cells of compute nodes; the second one may be down.

    Like nova 34.0 it refuses a page that reaches into a cell that is down.
    """

    def __init__(self, near: int, far: int, *, down: bool = False, version: str = "2.104") -> None:
        self.near = [f"near-{number:04}" for number in range(near)]
        self.far = [f"far-{number:04}" for number in range(far)]
        self.down, self.version = down, version
        self.requests: list[str] = []
        #: ``(path, microversion)`` without the query.
        self.versions: set[tuple[str, str]] = set()

    def ask(self, path: str, version: str) -> Any:
        self.requests.append(path)
        self.versions.add((path.partition("?")[0], version))
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


def test_hypervisors_are_read_in_pages() -> None:
    cloud = Cells(near=1000, far=1500)
    hosts = servers.read_hosts(cloud)
    assert [node.host for node in hosts.nodes] == cloud.near + cloud.far
    assert hosts.nodes[0] == values.ComputeNode("near-0000", "near-0000.example.org", "near-0000")
    assert len(cloud.requests) == 1 + 3
    assert cloud.versions == {("/os-services", "2.69"), ("/os-hypervisors/detail", "2.53")}
    assert hosts.unreachable == frozenset()


@pytest.mark.parametrize("near", [0, 1, 15, 16, 999, 1000, 1003])
def test_with_a_cell_down_its_hosts_and_the_nodes_of_other_cells_are_found(near: int) -> None:
    cloud = Cells(near=near, far=3, down=True)
    hosts = servers.read_hosts(cloud)
    assert hosts.unreachable == set(cloud.far)
    assert hosts.services == set(cloud.near + cloud.far)
    assert [node.host for node in hosts.nodes] == cloud.near
    assert len(cloud.requests) <= 1 + 2 + 10


def test_an_old_nova_does_not_list_cells_that_are_down() -> None:
    hosts = servers.read_hosts(Cells(near=2, far=0, version="2.53"))
    assert (hosts.lists_down_cells, len(hosts.nodes)) == (False, 2)


def test_a_refused_page_is_an_error_when_no_cell_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cells(near=2, far=1, down=True, version="2.60")
    monkeypatch.setattr(cloud, "_services", lambda: iter(()))
    with pytest.raises(api.NovaRefused, match="Unexpected API Error"):
        servers.read_hosts(cloud)


def test_equal_values_of_servers_are_one_object() -> None:
    cloud = large.LargeCloud(1, 0, 100)
    # Only parsed JSON has an object for each value.
    nova = api.RecordedNova(json.loads(json.dumps(cloud.nova())), "recorded")
    nova_servers = servers.servers(nova)
    for field in ("project_id", "user_id", "host", "node", "status", "flavor", "flavor_name"):
        each = [getattr(server, field) for server in nova_servers]
        assert len(set(map(id, each))) == len(set(map(str, each))), field
    assert len({id(server.image_properties) for server in nova_servers}) == 1


def test_flavors_with_different_extra_specs_stay_different() -> None:
    answers = json.loads(json.dumps(large.LargeCloud(1, 0, 2).nova()))
    listed = answers["GET /v2.1/servers/detail?all_tenants=1"]["servers"]
    listed[1]["flavor"] = listed[0]["flavor"] | {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    server, other = servers.servers(api.RecordedNova(answers, "recorded"))
    assert server.flavor is not None
    assert not server.flavor.extra_specs
    assert other.flavor == dataclasses.replace(
        server.flavor, extra_specs={"hw:cpu_policy": "dedicated"}
    )


HIDES = (
    "nova hides extra_specs; the policy rule os_compute_api:os-flavor-extra-specs:index shows it"
)


class Listing:
    """A nova that hides the extra specs of some of its servers, and the hosts of others."""

    def __init__(
        self, count: int, specs: Collection[int] = (), hosts: Collection[int] = ()
    ) -> None:
        answers = json.loads(json.dumps(large.LargeCloud(1, 0, count).nova()))
        self.items = answers["GET /v2.1/servers/detail?all_tenants=1"]["servers"]
        for number in specs:
            del self.items[number]["flavor"]["extra_specs"]
        for number in hosts:
            del self.items[number]["OS-EXT-SRV-ATTR:host"]

    source = ""

    def ask(self, path: str, version: str) -> Any:
        return {"servers": self.items, "server": self.items[0]}


def test_a_server_with_hidden_extra_specs_is_not_known_and_the_others_are() -> None:
    listed = servers.servers(Listing(3, specs={0}))
    assert [(item.known, item.why_unknown) for item in listed] == [
        (False, HIDES),
        (True, ""),
        (True, ""),
    ]
    assert (listed[0].flavor, listed[0].host) == (None, listed[1].host)
    down = values.Server("d", known=False)
    assert servers.unread([*listed, down]) == [
        "1 server in cells that are down",
        f"1 server: {HIDES}",
    ]
    assert not servers.unread(listed[1:])


def test_deleted_servers_may_all_be_hidden() -> None:
    assert not servers.deleted_servers(Listing(1, specs={0}))[0].known


@pytest.mark.parametrize(
    ("nova", "read", "message"),
    [
        (Listing(2, specs={0, 1}), servers.servers, HIDES),
        (Listing(1, specs={0}), lambda nova: servers.server(nova, "u"), HIDES),
        (Listing(1, specs={0}), lambda nova: servers.servers_on(nova, ["a"]), HIDES),
        # It could be on any host.
        (Listing(3, hosts={0}), servers.servers, "nova hides OS-EXT-SRV-ATTR:host"),
        (Listing(3, hosts={0}), servers.deleted_servers, "nova hides OS-EXT-SRV-ATTR:host"),
    ],
)
def test_a_listing_without_a_server_that_can_be_read_is_refused(
    nova: Listing, read: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(api.NovaRefused, match=message) as caught:
        read(nova)
    assert caught.value.status == 403


class WithoutRequestSpec:
    """Nova 29 before 29.4, with a server that has no request spec: a bug at one version."""

    def __init__(self, *broken: str) -> None:
        self.broken = {"2.96", *broken}
        self.versions: list[str] = []
        self.source = ""

    def ask(self, path: str, version: str) -> Any:
        self.versions.append(version)
        if version == "2.98":
            raise api.NovaRefused(406, "no such version", url=path)
        if version in self.broken:
            raise api.NovaRefused(500, "Unexpected API Error", url=path)
        return {"servers": []}


@pytest.mark.parametrize("broken", [(), ("2.69",)])
def test_a_listing_that_fails_at_one_version_is_asked_once_more(broken: tuple[str, ...]) -> None:
    nova = WithoutRequestSpec(*broken)
    refused = pytest.raises(api.NovaRefused, match="Unexpected API Error")
    with refused if broken else contextlib.nullcontext():
        assert servers.servers(nova) == []  # type: ignore[arg-type]
    assert nova.versions == ["2.98", "2.96", "2.69"]
