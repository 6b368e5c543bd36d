# SPDX-License-Identifier: Apache-2.0
"""The mirror with a real keystone, nova and placement; the oracle is the real nova-manage."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from lab import database, place, process
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

MIRROR = "placement aggregate mirror"
CHECK = f"{MIRROR} --dry-run --detailed-exitcode"
FOREIGN = "5f6c1c8e-5a80-4a4c-9b8e-0f2c9ad3a001"
FAR = "11111111-1111-4111-8111-111111111111"

State = dict[str, frozenset[str]]


class Cloud(conftest.SeededCloud):
    """Nova's host aggregates, and what placement has of them."""

    def __init__(self, lab: place.Place, folder: pathlib.Path) -> None:
        super().__init__(lab, folder)
        answer = self.ask("nova", "GET", "/v2.1/os-aggregates")
        self.aggregates = {item["name"]: item for item in answer["aggregates"]}

    def uuid_of(self, aggregate: str) -> str:
        return str(self.aggregates[aggregate]["uuid"])

    def act(self, aggregate: str, action: str, host: str) -> None:
        """Add or remove a host with nova-api, which mirrors the change itself."""
        number = self.aggregates[aggregate]["id"]
        self.ask("nova", "POST", f"/v2.1/os-aggregates/{number}/action", {action: {"host": host}})

    def remove_hosts(self, *hosts: str) -> None:
        """Remove hosts from all host aggregates in the database: nova-api refuses unknown hosts."""
        with database.transaction(self.lab, "nova_api") as nova:
            nova.executemany(
                "DELETE FROM aggregate_hosts WHERE host = ?", [(host,) for host in hosts]
            )

    def providers(self) -> dict[str, dict[str, Any]]:
        answer = self.ask("placement", "GET", "/resource_providers")
        return {entry["name"]: entry for entry in answer["resource_providers"]}

    def state(self) -> State:
        """``{provider: its aggregates}``, including foreign aggregates."""
        members = {}
        for name, entry in self.providers().items():
            path = f"/resource_providers/{entry['uuid']}/aggregates"
            members[name] = frozenset(self.ask("placement", "GET", path)["aggregates"])
        return members

    def join(self, provider: str, *aggregates: str) -> None:
        """Replace a provider's aggregates."""
        entry = self.providers()[provider]
        body = {
            "aggregates": list(aggregates),
            "resource_provider_generation": entry["generation"],
        }
        self.ask("placement", "PUT", f"/resource_providers/{entry['uuid']}/aggregates", body)

    def nova_manage(self) -> int:
        """The exit code of ``nova-manage placement sync_aggregates``."""
        command = [
            self.lab.program("nova-manage"),
            "--config-dir",
            str(self.lab.path("etc", "nova")),
        ]
        return subprocess.run(
            [*command, "placement", "sync_aggregates"],
            env=dict(self.lab.environment()),
            capture_output=True,
            timeout=120,
        ).returncode

    def mirror(self, command: str = MIRROR, code: int = 0) -> dict[str, dict[str, Any]]:
        """``{name: row}`` of a run that must exit with ``code``."""
        return {row["name"]: row for row in self.rows(command, code)}

    @contextlib.contextmanager
    def counting(self) -> Iterator[dict[str, list[str]]]:
        """Collects ``METHOD path`` of every request to nova and placement in the block."""
        before = {service: self._logged(service) for service in ("nova", "placement")}
        sent: dict[str, list[str]] = {}
        yield sent
        for service, count in before.items():
            lines = self._log(service)[count : self._logged(service) - 1]
            sent[service] = [line.partition('"')[2].partition(" HTTP")[0] for line in lines]

    def _logged(self, service: str) -> int:
        """The number of lines in the access log, after all requests so far are logged."""
        mark = f"/?mark={uuid.uuid4()}"
        self.ask(service, "GET", mark)
        while not any(mark in line for line in self._log(service)):
            time.sleep(0.05)
        return len(self._log(service))

    def _log(self, service: str) -> list[str]:
        return self.lab.path("log", f"{service}.access.log").read_text().splitlines()


def names(rows: dict[str, dict[str, Any]], *status: str) -> set[str]:
    return {name for name, row in rows.items() if row["status"] in status}


def test_same_result_as_nova_manage_if_that_finishes(cloud: Cloud) -> None:
    cloud.remove_hosts("ghost-unmapped", "ghost-nonode", "cmp-0010")
    database.save(cloud.lab, "mirror-clean")
    try:
        assert cloud.nova_manage() == 0
        expected = cloud.state()
        database.reset(cloud.lab, "mirror-clean", "placement")
        assert cloud.state() != expected
        cloud.mirror()
        assert cloud.state() == expected
        assert cloud.mirror(CHECK)
        assert cloud.nova_manage() == 0
        assert cloud.state() == expected
    finally:
        shutil.rmtree(cloud.lab.path("saved", "mirror-clean"))


@pytest.mark.smoke
def test_continues_where_nova_manage_stops(cloud: Cloud) -> None:
    before = cloud.state()
    assert cloud.nova_manage() == 2, "a provider is missing"
    stopped = cloud.state()
    database.reset(cloud.lab, database.SEEDED, "placement")
    rows = cloud.mirror(code=6)
    after = cloud.state()
    lacking = {name: after[name] - stopped[name] for name in after if after[name] != stopped[name]}
    assert lacking == {"cmp-0012.lab.example.org": {cloud.uuid_of("no-provider")}}
    assert all(after[name] >= stopped[name] >= before[name] for name in after)
    assert names(rows, "skipped") == {"empty"}
    assert names(rows, "refused") == {"cmp-0010.lab.example.org", "ghost-nonode", "ghost-unmapped"}


def test_mirrors_every_node_of_an_ironic_host(cloud: Cloud) -> None:
    cloud.act("empty", "add_host", "ironic-1")
    assert cloud.nova_manage() == 1
    cloud.mirror(f"{MIRROR} --host-aggregate empty")
    state = cloud.state()
    nodes = {name for name, aggregates in state.items() if cloud.uuid_of("empty") in aggregates}
    assert nodes == {"bm-1", "bm-2", "bm-3"}


def test_every_kind_of_drift_is_repaired(cloud: Cloud) -> None:
    cloud.mirror(code=6)
    right = cloud.state()
    segment = cloud.ask("placement", "POST", "/resource_providers", {"name": "Neutron segment"})
    gone = "cmp-gone.lab.example.org"
    node = "cmp-000{}.lab.example.org".format
    inject: dict[str, tuple[str, ...]] = {
        node(2): (),
        node(3): (*right[node(3)], cloud.uuid_of("ssd")),
        node(7): (*(right[node(7)] - {cloud.uuid_of("az2")}), FOREIGN, cloud.uuid_of("az1")),
        "bm-1": (cloud.uuid_of("empty"),),
        "Neutron segment": (cloud.uuid_of("az1"),),
        gone: (cloud.uuid_of("az2"),),
    }
    for name, aggregates in inject.items():
        cloud.join(name, *aggregates)
    drifted = cloud.state()
    shown = cloud.mirror(f"{CHECK} --prune", code=6)
    assert names(shown, "planned") == {node(2), node(3), node(7), "bm-1"}
    assert names(shown, "skipped") >= {"Neutron segment", gone}
    assert cloud.state() == drifted
    with cloud.counting() as sent:
        cloud.mirror(f"{MIRROR} --prune", code=6)
    assert len(sent["placement"]) <= len(cloud.aggregates) + 2 * 4 + 2, sent
    assert len(sent["nova"]) <= 6, sent
    # A foreign aggregate stays, and so do providers that are not compute nodes.
    expected = right | {
        node(7): right[node(7)] | {FOREIGN},
        segment["name"]: frozenset(inject["Neutron segment"]),
        gone: frozenset(inject[gone]),
    }
    assert cloud.state() == expected
    assert names(cloud.mirror(f"{CHECK} --prune", code=6), "planned") == set()
    with cloud.counting() as sent:
        cloud.mirror(f"{MIRROR} --prune", code=6)
    assert {line.partition(" ")[0] for line in sent["placement"]} == {"GET"}
    cloud.openstack.run(f"{MIRROR} --prune --provider {gone} --provider {segment['uuid']}")
    assert cloud.state() == expected | {gone: frozenset(), segment["name"]: frozenset()}


def test_deleted_host_aggregate_is_forgotten_by_its_uuid(cloud: Cloud) -> None:
    cloud.mirror(code=6)
    expected = cloud.state()
    pinned = cloud.uuid_of("pinned")
    for host in cloud.aggregates["pinned"]["hosts"]:
        cloud.act("pinned", "remove_host", host)
    cloud.ask("nova", "DELETE", f"/v2.1/os-aggregates/{cloud.aggregates['pinned']['id']}")
    # nova-api has removed the hosts from Placement too: restore them, as if that had failed.
    for name, aggregates in expected.items():
        if pinned in aggregates:
            cloud.join(name, *aggregates)
    cloud.mirror(f"{MIRROR} --forget {pinned}", code=6)
    assert not any(pinned in aggregates for aggregates in cloud.state().values())


@pytest.mark.smoke
@pytest.mark.parametrize("user", ["-member", "-reader"])
def test_user_without_rights_gets_the_missing_ones(cloud: Cloud, user: str) -> None:
    before = cloud.state()
    outcome = cloud.openstack.run(MIRROR, user)
    assert (outcome.returncode, outcome.stdout) == (1, "")
    assert "missing permission in nova" in outcome.stderr
    assert "missing permission in placement" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert cloud.state() == before


@contextlib.contextmanager
def cell_down(lab: place.Place, host: str) -> Iterator[None]:
    """A second cell with one host, whose database cannot be opened."""
    with database.transaction(lab, "nova_api") as nova:
        cell = nova.execute(
            "INSERT INTO cell_mappings (uuid, name, transport_url, database_connection, disabled)"
            " VALUES (?, 'far', 'fake:/', 'sqlite:////nowhere/far.sqlite', 0)",
            (FAR,),
        ).lastrowid
        nova.execute("INSERT INTO host_mappings (cell_id, host) VALUES (?, ?)", (cell, host))
    _restart_nova(lab)
    try:
        yield
    finally:
        database.reset(lab, database.SEEDED)
        _restart_nova(lab)


def _restart_nova(lab: place.Place) -> None:
    """Nova caches its cells."""
    process.stop(lab, ["nova"])
    process.start(lab, ["nova"])


def test_providers_of_a_cell_that_is_down_stay(cloud: Cloud) -> None:
    far = cloud.ask("placement", "POST", "/resource_providers", {"name": "far-0001.example.org"})
    cloud.join(far["name"], cloud.uuid_of("az1"))
    cloud.join("cmp-0001.lab.example.org", cloud.uuid_of("pinned"))
    with cell_down(cloud.lab, "far-0001"):
        rows = cloud.mirror(f"{MIRROR} --prune --provider {far['uuid']}", code=6)
        assert rows["cmp-0001.lab.example.org"]["reason"] == (
            "to az1, ssd, tenant-acme; out of pinned"
        )
        assert rows["cmp-0001.lab.example.org"]["status"] == "applied"
        assert "may be a compute node" in rows[far["name"]]["reason"]
        assert "the cell of far-0001 is down" in rows["ghost-nonode"]["reason"]
        assert cloud.state()[far["name"]] == {cloud.uuid_of("az1")}
