# SPDX-License-Identifier: Apache-2.0
"""A failed evacuation, a deleted service and a reinstalled host: what helps on real nova.

The cloud is that of test_moves: ``OSC_PLACEMENT_MOVES`` names the folder with *moves.py*.
"""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import Any

import pytest

from lab.tests import test_moves
from lab.tests.test_moves import A, B, Lab
from tests.support.peer import shell

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(3600)]

AUDIT = "placement allocation audit --min-age 0"
PROVIDERS = "placement provider audit"

started, lab = test_moves.started, test_moves.lab


def findings(command: str, concerned: str) -> list[dict[str, Any]]:
    """What an audit says about a server or a host."""
    ended = shell.run([*command.split(), "-f", "json"])
    assert ended.stdout, ended.stderr
    return [row for row in json.loads(ended.stdout) if concerned in (row["uuid"], row["name"])]


def test_a_server_whose_evacuation_failed_is_evacuated_again(lab: Lab) -> None:
    server = lab.server("in-vain", A)
    lab.moves.stop(A, kill=True)
    lab.moves.power_off(A)
    lab.moves.force_down(lab.api, A)
    lab.is_down(A)
    lab.fail(B, "spawn")
    lab.act(server, evacuate={"host": B})
    lab.status(server, "failed", "error")
    lab.settled(server, "ERROR")
    (row,) = findings(AUDIT, server)
    assert row["code"] == "stuck-move"
    assert row["proposed"]["commands"] == [f"openstack server evacuate {server}"]
    lab.moves.release()
    lab.act(server, evacuate={"host": B})
    lab.wait("the server", lambda: lab.api.server(server)["OS-EXT-SRV-ATTR:host"] == B)
    lab.settled(server, "ACTIVE", "SHUTOFF")
    assert findings(AUDIT, server) == []


def run(command: str) -> str:
    """The output of a command that must succeed."""
    ended = shell.run(command.split())
    assert ended.code == 0, ended
    return ended.stdout


def manage(lab: Lab, command: str) -> None:
    """Run nova-manage on the controller."""
    program, config = lab.moves.path("venv/bin/nova-manage"), lab.moves.path("etc/nova")
    lab.moves.cloud.run(program, "--config-dir", config, *command.split())


def zone_of(lab: Lab, host: str) -> str:
    """The host aggregate of a host."""
    aggregates = lab.api.nova("GET", "/os-aggregates")["aggregates"]
    (name,) = (item["name"] for item in aggregates if host in item["hosts"])
    return str(name)


def delete_service(lab: Lab, host: str) -> None:
    (service,) = (item["id"] for item in lab.api.services() if item["host"] == host)
    lab.api.nova("DELETE", f"/os-services/{service}")


def come_back(lab: Lab, host: str, zone: str) -> None:
    """The first three steps of the page: restart, discover_hosts, host aggregate."""
    lab.moves.stop(host)
    lab.moves.start(host)
    lab.wait("the service", lambda: host in {item["host"] for item in lab.api.services()})
    lab.is_down(host, is_down=False)
    manage(lab, "cell_v2 discover_hosts")
    run(f"aggregate add host {zone} {host}")


def test_a_host_whose_service_was_deleted_comes_back(lab: Lab) -> None:
    zone = zone_of(lab, B)
    delete_service(lab, B)
    rows = lab.wait("the provider of a running nova-compute", lambda: findings(PROVIDERS, B))
    assert [row["code"] for row in rows] == ["stale-provider"]
    come_back(lab, B, zone)
    lab.moves.wait_services(lab.api)
    assert findings(PROVIDERS, B) == []
    mirrored = json.loads(run("placement aggregate mirror --dry-run -f json"))
    assert {row["status"] for row in mirrored} == {"unchanged"}
    lab.server("again", B)


class Identity:
    """The file of nova-compute with the UUID of its node."""

    def __init__(self, lab: Lab, host: str) -> None:
        self.lab, self.host = lab, host
        self.file = pathlib.Path(lab.moves.path("hosts", host, "compute_id"))
        self.log = pathlib.Path(lab.moves.path("log", f"{host}.log"))
        self.began = 0

    def start(self, text: str | None) -> None:
        """Start nova-compute with this file."""
        self.lab.moves.stop(self.host)
        self.file.unlink(missing_ok=True)
        if text is not None:
            self.file.write_text(text)
        self.began = len(self.log.read_text())
        self.lab.moves.start(self.host)

    @property
    def said(self) -> str:
        """What nova-compute logged since."""
        return self.log.read_text()[self.began :]

    def refused(self, text: str | None) -> str:
        """What nova-compute says when it ends at its start with this file."""
        self.start(text)
        self.lab.wait("the end", lambda: self.lab.moves.process(self.host) == "stopped")
        return self.said


def test_a_host_that_was_reinstalled_under_its_old_name_gets_its_uuid_back(lab: Lab) -> None:
    server = lab.server("survives", B)
    identity, new = Identity(lab, B), str(uuid.uuid4())
    old = json.loads(run(f"resource provider show {B} -f json"))["uuid"]
    assert "No local node identity found" in identity.refused(None)
    assert f"Duplicate compute node record found for host {B}" in identity.refused(new)
    assert findings(PROVIDERS, B) == []
    recipe = f"placement recipe replace-host {B} {B} --uuid {new}"
    ended = shell.run(recipe.split())
    assert (ended.code, f"the UUID {old}" in " ".join(ended.stderr.split())) == (1, True), ended
    identity.start(old)
    lab.moves.wait_services(lab.api)
    assert findings(PROVIDERS, B) == findings(AUDIT, server) == []
    assert lab.moves.allocations(lab.api).keys() == {server}
    assert list(lab.moves.allocations(lab.api)[server]) == [B]


def test_an_empty_host_that_was_reinstalled_without_its_service_gets_a_new_provider(
    lab: Lab,
) -> None:
    zone, identity, left = zone_of(lab, B), Identity(lab, B), str(uuid.uuid4())
    old = identity.file.read_text()
    body = {"consumer_generation": None, "consumer_type": "INSTANCE"}
    body |= {"project_id": "p", "user_id": "u"}
    body["allocations"] = {old: {"resources": {"VCPU": 1}}}
    lab.api("PUT", "placement", f"/allocations/{left}", body)
    delete_service(lab, B)
    identity.start(None)
    lab.wait("the conflict", lambda: "Failed to create resource provider" in identity.said)
    manage(lab, "cell_v2 discover_hosts")
    (row,) = findings(PROVIDERS, B)
    assert row["code"] == "other-uuid"
    shell.run(f"{AUDIT} --repair --only orphaned --allow many".split())
    run(f"resource provider delete {old}")
    lab.moves.stop(B)
    lab.moves.start(B)
    lab.moves.wait_services(lab.api)
    assert findings(PROVIDERS, B) == []
    new = json.loads(run(f"resource provider show {B} -f json"))["uuid"]
    assert new == identity.file.read_text() != old
    # The next story has the UUID of the lab.
    lab.moves.stop(B)
    delete_service(lab, B)
    identity.file.write_text(old)
    come_back(lab, B, zone)
    # Nova's API keeps the provider of the other UUID, and its next deletion of a service fails.
    lab.moves.stop("nova")
    lab.moves.start("nova")
    lab.moves.wait_port("nova", lab.moves.cloud.NOVA)
