# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
import json
import urllib.parse
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
    found = servers.read_hosts(cloud)
    assert [node.host for node in found.nodes] == cloud.near + cloud.far
    assert found.nodes[0] == values.ComputeNode("near-0000", "near-0000.example.org", "near-0000")
    assert len(cloud.requests) == 1 + 3
    assert cloud.versions == {("/os-services", "2.69"), ("/os-hypervisors/detail", "2.53")}
    assert found.unreachable == frozenset()


@pytest.mark.parametrize("near", [0, 1, 15, 16, 999, 1000, 1003])
def test_with_a_cell_down_its_hosts_and_the_nodes_of_other_cells_are_found(near: int) -> None:
    cloud = Cells(near=near, far=3, down=True)
    found = servers.read_hosts(cloud)
    assert found.unreachable == set(cloud.far)
    assert found.services == set(cloud.near + cloud.far)
    assert [node.host for node in found.nodes] == cloud.near
    assert len(cloud.requests) <= 1 + 2 + 10


def test_an_old_nova_does_not_list_cells_that_are_down() -> None:
    found = servers.read_hosts(Cells(near=2, far=0, version="2.53"))
    assert (found.lists_down_cells, len(found.nodes)) == (False, 2)


def test_a_refused_page_is_an_error_when_no_cell_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cells(near=2, far=1, down=True, version="2.60")
    monkeypatch.setattr(cloud, "_services", lambda: iter(()))
    with pytest.raises(api.NovaRefused, match="Unexpected API Error"):
        servers.read_hosts(cloud)


def test_equal_values_of_servers_are_one_object() -> None:
    cloud = large.LargeCloud(1, 0, 100)
    # Only parsed JSON has an object for each value.
    nova = api.RecordedNova(json.loads(json.dumps(cloud.nova())), "recorded")
    found = servers.servers(nova)
    for field in ("project_id", "user_id", "host", "node", "status", "flavor", "flavor_name"):
        each = [getattr(one, field) for one in found]
        assert len(set(map(id, each))) == len(set(map(str, each))), field
    assert len({id(one.image_properties) for one in found}) == 1


def test_flavors_with_different_extra_specs_stay_different() -> None:
    answers = json.loads(json.dumps(large.LargeCloud(1, 0, 2).nova()))
    listed = answers["GET /v2.1/servers/detail?all_tenants=1"]["servers"]
    listed[1]["flavor"] = listed[0]["flavor"] | {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    one, other = servers.servers(api.RecordedNova(answers, "recorded"))
    assert one.flavor is not None
    assert not one.flavor.extra_specs
    assert other.flavor == dataclasses.replace(
        one.flavor, extra_specs={"hw:cpu_policy": "dedicated"}
    )
