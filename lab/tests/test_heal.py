# SPDX-License-Identifier: Apache-2.0
"""Heal with a real keystone, nova and placement; the oracle is the real nova-manage."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab import database, nova_manage, place
from lab.nova_manage import Healed
from lab.tests.test_mirror import Cloud

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

HEAL = "placement allocation heal"

#: Intended differences, documented in doc/source/user/repair/heal.rst.
PINNED_BY_IMAGE = "rs-pinned-image"
MOVING = {"mg-pending", "mg-resized-old"}

#: Servers at which nova-manage stops and which heal changes.
HEALED_BY_US = {
    "al-nested-placeholder",
    "st-unmapped",
    "xx-granular",
    "xx-sev",
    "xx-shared",
    "xx-vgpu",
}
#: Servers at which nova-manage stops and which heal skips, with the reason.
SKIPPED = {
    "po-two": "ambiguous: it is on cmp-0006:NIC Switch agent:ens1 or",
    "xx-cyborg": "only Cyborg knows the resources of the device profile dp1",
    "xx-nocapacity": "no capacity on cmp-0003.lab.example.org: DISK_GB needs 80, 60 free",
    "xx-noinventory": "nothing in the tree of cmp-0002.lab.example.org has inventory of CUSTOM_X",
    "xx-nonode": "nova lists no compute node ghost-nonode.lab.example.org",
    "xx-noprovider": "its host has no resource provider: nova-compute on cmp-0010",
    "xx-unmapped": "nova lists no compute node ghost-unmapped.lab.example.org",
}


class Lab(Cloud):
    """The seeded lab, with the allocations of its servers and the profiles of its ports."""

    def __init__(self, lab: place.Place, folder: pathlib.Path) -> None:
        super().__init__(lab, folder)
        self.names = {fields["uuid"]: name for name, fields in self.seed["servers"].items()}

    def held(self, name: str) -> dict[str, Any]:
        """Allocations as ``{provider uuid: {class: amount}}``, owner and type."""
        uuid = self.seed["servers"][name]["uuid"]
        body = self.ask("placement", "GET", f"/allocations/{uuid}")
        amounts = {each: part["resources"] for each, part in body["allocations"].items()}
        body.pop("consumer_generation", None)
        return {**body, "allocations": amounts}

    def everything(self) -> dict[str, dict[str, Any]]:
        return {name: self.held(name) for name in self.seed["servers"]}

    def profiles(self) -> dict[str, Any]:
        """``{server name: the binding profile of its port}``"""
        ports = json.loads(self.lab.path("neutron.json").read_text())["ports"].values()
        return {self.names[port["device_id"]]: port["binding:profile"] for port in ports}

    def heal(self, options: str = "", code: int = 6) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.rows(f"{HEAL} {options}", code)}


def reset(lab: place.Place) -> None:
    database.reset(lab, database.SEEDED)


@pytest.fixture
def lab(seeded_lab: place.Place, tmp_path: pathlib.Path) -> Iterator[Lab]:
    reset(seeded_lab)
    ports = seeded_lab.path("neutron.json").read_text()
    yield Lab(seeded_lab, tmp_path)
    seeded_lab.path("neutron.json").write_text(ports)
    reset(seeded_lab)


def owner(consumer: Mapping[str, Any]) -> tuple[Any, Any]:
    return consumer.get("project_id"), consumer.get("user_id")


def test_same_result_as_nova_manage_for_every_server_it_heals(
    lab: Lab, healed: dict[str, Healed]
) -> None:
    before = lab.everything()
    lab.heal()
    after, profiles = lab.everything(), lab.profiles()
    changed = {name for name in after if after[name] != before[name]}
    theirs = {name for name, outcome in healed.items() if outcome.changed}
    assert changed - theirs == HEALED_BY_US
    assert theirs - changed == MOVING
    for name in theirs - MOVING - {PINNED_BY_IMAGE}:
        assert after[name]["allocations"] == healed[name].allocations, name
        assert owner(after[name]) == (healed[name].project_id, healed[name].user_id), name
        for profile in healed[name].ports.values():
            assert profile.get("allocation") == profiles[name].get("allocation"), name
    (resources,) = after[PINNED_BY_IMAGE]["allocations"].values()
    assert (resources.get("PCPU"), resources.get("VCPU")) == (4, None)
    new = {name for name in changed if not before[name]["allocations"]}
    assert {after[name]["consumer_type"] for name in new} == {"INSTANCE"}
    for name in changed - new:
        assert after[name]["consumer_type"] == before[name]["consumer_type"]


@pytest.mark.smoke
def test_heals_or_skips_with_reason_where_nova_manage_stops(
    lab: Lab, healed: dict[str, Healed]
) -> None:
    rows = lab.heal()
    completes = {nova_manage.HEALED, nova_manage.NOTHING}
    stops = {name for name, outcome in healed.items() if outcome.code not in completes}
    # Nova does not list the hidden server; al-nested has the right allocations.
    assert stops - {"st-hidden", "al-nested"} == HEALED_BY_US | SKIPPED.keys()
    assert {rows[name]["status"] for name in HEALED_BY_US} == {"applied"}
    for name, reason in SKIPPED.items():
        assert rows[name]["status"] in {"skipped", "refused"}
        assert reason in rows[name]["reason"]
    gpu = lab.seed["providers"]["cmp-0004_gpu0"]
    assert lab.held("xx-vgpu")["allocations"][gpu] == {"VGPU": 1}
    assert lab.held("xx-granular")["allocations"][gpu] == {"VGPU": 1}


def test_second_run_writes_nothing_and_undo_restores_everything(lab: Lab) -> None:
    before, ports = lab.everything(), lab.profiles()
    lab.heal("--undo-out undo.json")
    with lab.counting() as sent:
        again = lab.heal()
    assert {row["status"] for row in again.values()} == {"unchanged", "skipped", "refused"}
    assert {line.partition(" ")[0] for line in sent["placement"]} == {"GET"}
    lab.openstack("placement plan undo undo.json")
    assert (lab.everything(), lab.profiles()) == (before, ports)


def test_one_server_and_one_host_use_novas_filters(lab: Lab) -> None:
    uuid = lab.seed["servers"]["st-stopped"]["uuid"]
    with lab.counting() as sent:
        rows = lab.heal(f"--instance {uuid} --dry-run", code=0)
    assert {name: row["status"] for name, row in rows.items()} == {"st-stopped": "planned"}
    assert any(f"uuid={uuid}" in line for line in sent["nova"])
    with lab.counting() as sent:
        rows = lab.heal("--host cmp-0004 --dry-run", code=0)
    hosts = {lab.seed["servers"][name]["host"] for name in rows}
    assert hosts == {"cmp-0004"}
    assert any("host=cmp-0004" in line for line in sent["nova"])
