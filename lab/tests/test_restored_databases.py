# SPDX-License-Identifier: Apache-2.0
"""Placement's or nova's database is restored from a dump of the day before: what the page says.

doc/source/start/after-a-mistake.rst. Yesterday's cloud has fewer servers; today one was deleted,
and one moved. Keystone, placement, nova-api and nova's local delete are real; there is no
nova-compute, so that the move is a row in nova's database.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from lab import database, lifecycle, place
from lab.tests.test_heal import HEAL, Lab

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

AUDIT = "placement allocation audit --min-age 0"
YESTERDAY, TODAY = "yesterday", "today"
SERVERS = {YESTERDAY: 40, TODAY: 43}
DELETED, MOVED = "vm-00004", "vm-00005"
CREATED = [f"vm-{number:05d}" for number in range(SERVERS[YESTERDAY], SERVERS[TODAY])]
TARGET = "cmp-0001"


class Cloud(Lab):
    """The lab in one of both states, and what was done today."""

    def codes(self, *more: str) -> dict[str, str]:
        """``{server: the code of its finding}``."""
        uuids = {item["uuid"]: name for name, item in self.seed["servers"].items()}
        rows = self.rows(" ".join([AUDIT, *more]), 0, 3, 4)
        return {uuids[row["uuid"]]: row["code"] for row in rows if row["uuid"] in uuids}

    def amounts(self) -> dict[str, Any]:
        """The allocations and the owner of each server."""
        return {name: {**body, "consumer_type": None} for name, body in self.everything().items()}

    def delete(self, name: str) -> None:
        """Nova deletes a server of a host that is down by itself, with its allocations."""
        uuid = self.seed["servers"][name]["uuid"]
        host = self.ask("nova", "GET", f"/v2.1/servers/{uuid}")["server"]["OS-EXT-SRV-ATTR:host"]
        ended = self.openstack.run(f"compute service set --down {host} nova-compute")
        assert ended.returncode == 0, ended
        self.ask("nova", "DELETE", f"/v2.1/servers/{uuid}")
        self.openstack.run(f"compute service set --up {host} nova-compute")

    def move(self, name: str) -> None:
        """Let a server be on another host, with its allocations."""
        uuid = self.seed["servers"][name]["uuid"]
        with database.transaction(self.lab, "nova_cell1") as nova:
            query = "SELECT host, hypervisor_hostname FROM compute_nodes WHERE host = ?"
            host, node = nova.execute(query, (TARGET,)).fetchone()
            nova.execute(
                "UPDATE instances SET host = ?, node = ?, launched_on = ? WHERE uuid = ?",
                (host, node, host, uuid),
            )
        self.rows(f"{AUDIT} --repair --consumer {uuid}", 0, 9)


@pytest.fixture(scope="module")
def days(seeded_lab: place.Place) -> place.Place:
    """Both states, with all allocations as nova needs them."""
    folder = seeded_lab.path("run")
    for day, servers in SERVERS.items():
        lifecycle.seed(seeded_lab, 12, servers, "ordinary", day)
        Lab(seeded_lab, folder).heal(code=0)
        database.save(seeded_lab, day, "placement")
    return seeded_lab


@pytest.fixture
def cloud(days: place.Place, tmp_path: pathlib.Path) -> Cloud:
    """Today, after a server was deleted and another one moved."""
    database.reset(days, TODAY)
    cloud = Cloud(days, tmp_path)
    cloud.delete(DELETED)
    cloud.move(MOVED)
    assert cloud.codes() == {}
    return cloud


def test_one_repair_makes_every_allocation_right_after_a_restore_of_placement(
    cloud: Cloud,
) -> None:
    truth = cloud.amounts()
    database.reset(cloud.lab, YESTERDAY, "placement")
    assert cloud.amounts() != truth
    assert cloud.codes() == {
        **dict.fromkeys(CREATED, "missing"), DELETED: "orphaned", MOVED: "wrong-host"
    }  # fmt: skip
    stale = cloud.amounts()
    cloud.rows(f"{AUDIT} --repair --dry-run", 3, 9)
    assert cloud.amounts() == stale
    cloud.rows(f"{AUDIT} --repair --allow many", 0, 9)
    assert cloud.amounts() == truth
    assert cloud.codes() == {}


def test_nothing_of_a_running_guest_is_removed_after_a_restore_of_nova(cloud: Cloud) -> None:
    truth = cloud.amounts()
    database.reset(cloud.lab, YESTERDAY, "nova")
    assert cloud.codes() == {
        **dict.fromkeys(CREATED, "orphaned"), DELETED: "missing", MOVED: "wrong-host"
    }  # fmt: skip
    cloud.delete(DELETED)
    assert cloud.codes("--only orphaned") == dict.fromkeys(CREATED, "orphaned")
    assert cloud.amounts() == truth
    healed = {row["name"]: row["status"] for row in cloud.rows(f"{HEAL} --dry-run", 0, 6)}
    assert {name for name, status in healed.items() if status != "unchanged"} <= {MOVED}, healed
    # Their domains are gone now.
    cloud.rows(f"{AUDIT} --only orphaned --repair --allow many", 0, 9)
    assert set(cloud.codes()) == {MOVED}
