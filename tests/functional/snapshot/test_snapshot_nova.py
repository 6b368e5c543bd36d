# SPDX-License-Identifier: Apache-2.0
"""Heal, audit and mirror run on a snapshot alone that was saved with nova."""

from __future__ import annotations

import json
import pathlib
import re
import urllib.parse
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api, flavors, servers
from osc_placement.samples import sample
from osc_placement.testing import service
from osc_placement.workflows.snapshot import file, nova, save
from tests.support import embedded
from tests.support.fake_neutron import FakeNeutron
from tests.support.peer import fixtures, shell, target as targets

CLOUD = "cloud.sqlite"
RECORDING = ("--os-nova-recording", "12-hosts")

target = fixtures.only("embedded")


def test_host_aggregates_select_providers_on_the_snapshot(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    target.load("12-hosts")
    openstack("placement snapshot save", CLOUD, "--with-nova", *RECORDING)
    shown = openstack("placement snapshot show", CLOUD)
    assert shown["nova_saved"]
    assert "GET /v2.1/os-aggregates" in shown["recorded"]
    name = sample.sample_nova("12-hosts")["GET /v2.1/os-aggregates"]["aggregates"][0]["name"]
    on_file = ("--os-placement-database", CLOUD)
    mirror = f"placement aggregate mirror --host-aggregate {name} -f json"
    assert shell.run([*on_file, *mirror.split()]).code == 0
    add = f"resource provider trait add --trait HW_CPU_X86_SGX --member-of {name} --dry-run"
    outcome = shell.run([*on_file, *add.split(), "-f", "json"])
    assert outcome.code == 0, outcome.stderr
    assert json.loads(outcome.stdout)


class PagedNova:
    """The sample's nova, with four entries in a page, and one in a page of server groups."""

    source = ""

    def __init__(self) -> None:
        groups = [
            {"id": name, "name": name, "policy": "affinity", "members": [], "rules": {}}
            for name in ("one", "two", "three")
        ]
        recorded = dict(sample.sample_nova("12-hosts"))
        recorded["GET /v2.1/os-server-groups?all_projects=True"] = {"server_groups": groups}
        self._recorded = api.RecordedNova(recorded, "")

    def ask(self, path: str, version: str) -> Any:
        body = self._recorded.ask(path, version)
        ((key, items),) = body.items()
        parameters = dict(urllib.parse.parse_qsl(path.partition("?")[2]))
        if "limit" not in parameters:
            return body
        if "offset" in parameters:
            # Pages of server groups have no links.
            start = int(parameters["offset"])
            return {key: items[start : start + 1]}
        names = [str(item.get("uuid") or item["id"]) for item in items]
        start = names.index(parameters["marker"]) + 1 if "marker" in parameters else 0
        page = {key: items[start : start + 4]}
        return {**page, f"{key}_links": [{"rel": "next"}]} if items[start + 4 :] else page


class RefusingNova(PagedNova):
    """Refuses some requests."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self._refused = refused
        self.limits: set[str] = set()

    def ask(self, path: str, version: str) -> Any:
        self.limits.update(re.findall(r"limit=\d+", path))
        for part in self._refused:
            if part in path:
                detail = f"Policy doesn't allow os_compute_api:{part.strip('/')} to be performed."
                raise api.NovaRefused(403, detail, url=path)
        return super().ask(path, version)


REFUSED = (
    "/os-aggregates",
    "/os-services",
    "/os-hypervisors",
    "/servers/detail",
    "/servers/detail?all_tenants=1&deleted",
    "/os-migrations",
    "/flavors/detail",
    "/os-server-groups",
)


@pytest.mark.parametrize("refused", [*((path,) for path in REFUSED), (*REFUSED[:2], *REFUSED[3:])])
def test_a_missing_right_in_nova_is_found_before_placement_is_read(
    tmp_path: pathlib.Path, refused: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    path, client = tmp_path / CLOUD, embedded.Client(embedded.hosts(2))
    refusing = RefusingNova(*refused)
    request = save.SaveRequest(path, also=nova.Recording(refusing))
    with pytest.raises(errors.PlacementError) as caught:
        save.save(client, request)
    assert [sent.path for sent in client.sent if sent.path != "/"] == []
    assert list(tmp_path.iterdir()) == []
    for part in refused:
        assert part.partition("?")[0] in caplog.text
    assert str(caught.value).count("missing permission in nova") == 1
    assert refusing.limits <= {"limit=1"}


def test_a_missing_endpoint_of_neutron_is_found_before_placement_is_read(
    tmp_path: pathlib.Path,
) -> None:
    client = embedded.Client(embedded.hosts(2))
    also = nova.Recording(PagedNova(), neutron_api.SessionNeutron(object()))
    with pytest.raises(errors.PlacementError, match="cannot reach neutron"):
        save.save(client, save.SaveRequest(tmp_path / CLOUD, also=also))
    assert [sent.path for sent in client.sent if sent.path != "/"] == []
    assert list(tmp_path.iterdir()) == []


def test_pages_of_nova_and_ports_are_read_again_from_the_file(tmp_path: pathlib.Path) -> None:
    paged, path = PagedNova(), tmp_path / CLOUD
    uuids = [server.uuid for server in servers.servers(paged)]
    port = {"id": "p", "device_id": uuids[0], "binding:vnic_type": "accelerator-direct"}
    neutron = FakeNeutron(port, {"id": "q", "device_id": uuids[1], "mac_address": "fa:16:3e"})
    with service.InProcessPlacement(load="12-hosts") as placement:
        save.save(placement.client(), save.SaveRequest(path, also=nova.Recording(paged, neutron)))
    with file.SnapshotFile(path) as opened:
        recorded = api.RecordedNova(opened.recording(), str(path))
        saved = neutron_api.RecordedNeutron(opened.recording(), str(path))
        ports = [neutron_api.ports_of(it, uuids, with_request=False) for it in (saved, neutron)]
        assert [len(listed) for listed in ports] == [2, 2]
        assert ports[0] == ports[1]
        assert len(opened.recorded_requests()) > 10
    assert len(servers.servers(paged)) > 4
    assert servers.servers(recorded) == servers.servers(paged)
    assert servers.deleted_servers(recorded) == servers.deleted_servers(paged)
    assert servers.migrations(recorded) == servers.migrations(paged)
    assert servers.read_hosts(recorded) == servers.read_hosts(paged)
    assert flavors.flavors(recorded) == flavors.flavors(paged)
    assert len(api.server_groups(paged)) == 3
    assert api.server_groups(recorded) == api.server_groups(paged)


class SlowCell(PagedNova):
    """Leaves a server out of its listings, as nova does for a cell that is slow, and shows it."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status
        listed = self._recorded.ask("/servers/detail?all_tenants=1", "2.1")["servers"]
        self.left_out = next(server for server in listed if server["name"] == "vm-00002")

    def ask(self, path: str, version: str) -> Any:
        if path == f"/servers/{self.left_out['id']}" and self._status == 200:
            return {"server": self.left_out}
        if re.fullmatch(r"/servers/[0-9a-f-]+", path):
            raise api.NovaRefused(self._status, "no such server", url=path)
        body = super().ask(path, version)
        if not path.startswith("/servers/detail"):
            return body
        return {**body, "servers": [it for it in body["servers"] if it != self.left_out]}


@pytest.mark.parametrize(
    ("status", "cause"),
    [(200, "placeholder-owner"), (404, "other-service"), (503, "unreadable")],
)
def test_a_consumer_that_is_in_no_listing_of_nova_is_looked_up_for_the_file(
    tmp_path: pathlib.Path, status: int, cause: str
) -> None:
    slow, path = SlowCell(status), tmp_path / CLOUD
    with service.InProcessPlacement(load="12-hosts") as placement:
        save.save(placement.client(), save.SaveRequest(path, also=nova.Recording(slow)))
    words = ["--os-placement-database", str(path), "placement", "allocation", "audit"]
    outcome = shell.run([*words, "-f", "json"])
    causes = {row["uuid"]: row["cause"] for row in json.loads(outcome.stdout)}
    assert causes[slow.left_out["id"]] == cause


@pytest.mark.parametrize(
    "command",
    [
        "placement allocation audit",
        "placement allocation heal --dry-run",
        "placement migration run --dry-run --migration complete_consumers",
        "placement status show --check",
    ],
)
def test_a_snapshot_without_owners_is_refused_where_owners_are_compared(
    openstack: shell.OpenStack, target: targets.Target, command: str
) -> None:
    target.load("12-hosts")
    openstack("placement snapshot save", CLOUD, "--with-nova", "--without-owners", *RECORDING)
    outcome = shell.run(["--os-placement-database", CLOUD, *command.split()])
    assert outcome.code != 0
    assert "without the owners of consumers" in outcome.stderr + outcome.stdout
