# SPDX-License-Identifier: Apache-2.0
"""``placement allocation heal`` on every target, with recorded responses of a real nova."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

HEAL = "placement allocation heal"
RECORDED = ("--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
DOMAIN = "lab.example.org"

NOVA = testing.sample_nova("12-hosts")
LISTED = "GET /v2.1/servers/detail?all_tenants=1"
SERVERS = {item["name"]: item for item in NOVA[LISTED]["servers"]}
PROVIDERS = {
    entry["name"]: uuid for uuid, entry in testing.sample_cloud("12-hosts")["providers"].items()
}


def consumer(target: targets.Target, name: str) -> Any:
    return target.ask("GET", f"/allocations/{SERVERS[name]['id']}")


def held(target: targets.Target, name: str) -> dict[str, dict[str, int]]:
    """``{provider name: {class: amount}}``"""
    names = {uuid: name for name, uuid in PROVIDERS.items()}
    allocations = consumer(target, name)["allocations"]
    return {names[uuid].partition(".")[0]: part["resources"] for uuid, part in allocations.items()}


def rows(
    openstack: shell.OpenStack, *arguments: str, code: int = 0, nova: tuple[str, ...] = RECORDED
) -> dict[str, Any]:
    return {row["name"]: row for row in openstack.rows(HEAL, *nova, *arguments, code=code)}


def named(listed: dict[str, Any], status: str) -> set[str]:
    return {name for name, row in listed.items() if row["status"] == status}


def test_servers_get_what_they_lack_and_others_a_reason_and_undo_restores_everything(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    before = target.state()
    planned = rows(openstack, "--dry-run", "--detailed-exitcode", code=6)
    assert target.state() == before
    listed = rows(openstack, "--undo-out", "undo.json", code=6)
    after = target.state()
    assert named(planned, "planned") == named(listed, "applied")
    assert held(target, "vm-00005") == {
        "cmp-0007": {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 40 + 10 + 2}
    }
    assert held(target, "rs-mixed")["cmp-0002"] == {
        "PCPU": 2,
        "VCPU": 2,
        "MEMORY_MB": 8192,
        "DISK_GB": 20,
    }
    assert held(target, "xx-granular") == {
        "cmp-0004": {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20},
        "cmp-0004_gpu0": {"VGPU": 1},
    }
    owner = consumer(target, "vm-00005")
    assert owner["project_id"] == SERVERS["vm-00005"]["tenant_id"]
    assert owner["consumer_type"] == "INSTANCE"
    reasons = {
        "st-offloaded": "on no host",
        "st-rebooting": "its task state is rebooting",
        "mg-pending": "its migration is queued",
        "xx-nocapacity": "no capacity on cmp-0003",
        "xx-noinventory": "has inventory of CUSTOM_X (it needs 1)",
        "xx-noprovider": "no resource provider: nova-compute on cmp-0010",
        "xx-nonode": "no compute node",
        "xx-cyborg": "Cyborg",
        "al-wronghost": "allocations on cmp-0004",
        "rs-pinned-image": "ambiguous: the image may pin CPUs",
    }
    needs_nothing = {"st-offloaded", "al-wronghost"}
    for name, reason in reasons.items():
        assert listed[name]["status"] == ("skipped" if name in needs_nothing else "refused")
        assert listed[name]["code"]
        assert reason in listed[name]["reason"]
        assert not held(target, name) or name == "al-wronghost"
    # Owners are repaired, and types stay.
    for name in ("vm-00002", "al-otherowner", "al-nested-placeholder"):
        now = consumer(target, name)
        assert now["project_id"] == SERVERS[name]["tenant_id"]
        assert now["user_id"] == SERVERS[name]["user_id"]
        assert now["consumer_type"] == "unknown"
    assert set(held(target, "al-nested-placeholder")) == {"cmp-0004", "cmp-0004_gpu0"}
    rows(openstack, "--check-owners", "--dry-run", "--detailed-exitcode", code=6)
    again = rows(openstack, code=6)
    assert named(again, "unchanged") == named(listed, "applied") | named(listed, "unchanged")
    assert target.state() == after
    openstack.do("placement plan undo", "undo.json")
    assert target.state() == before


@fixtures.ON_ONE_TARGET
def test_scope_max_count_and_consumer_type(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    ids = [SERVERS[name]["id"] for name in ("st-stopped", "xx-vgpu")]
    selection = [word for uuid in ids for word in ("--server", uuid)]
    listed = rows(openstack, *selection, "--consumer-type", "LOST_AND_FOUND")
    assert named(listed, "applied") == {"st-stopped", "xx-vgpu"} == set(listed)
    assert consumer(target, "xx-vgpu")["consumer_type"] == "LOST_AND_FOUND"
    code, text = openstack.fails(HEAL, *RECORDED, "--consumer-type", "X", version="1.37")
    assert (code, "--consumer-type, consumer types" in text) == (1, True)
    on_host = rows(openstack, "--host", "cmp-0012")
    assert {SERVERS[name]["OS-EXT-SRV-ATTR:host"] for name in on_host} == {"cmp-0012"}
    in_aggregate = rows(openstack, "--host-aggregate", "tenant-acme", "--max-count", "3", code=5)
    hosts = {SERVERS[name]["OS-EXT-SRV-ATTR:host"] for name in in_aggregate}
    assert hosts == {"cmp-0001", "cmp-0009"}
    assert len(named(in_aggregate, "applied")) == 3
    both = ("--host", "cmp-0012", "--host-aggregate", "tenant-acme")
    assert rows(openstack, *both) == {}


@fixtures.ON_ONE_TARGET
def test_assignment_and_strategy_decide(openstack: shell.OpenStack, target: targets.Target) -> None:
    assigned = {SERVERS["rs-swap"]["id"]: [f"cmp-0002.{DOMAIN}"]}
    pathlib.Path("assign.json").write_text(json.dumps(assigned))
    listed = rows(openstack, "--assign", "assign.json", code=6)
    assert listed["rs-swap"]["reason"].startswith("guessed (as assigned): on cmp-0002")
    assert held(target, "rs-swap")["cmp-0002"]["VCPU"] == 2
    listed = rows(openstack, "--strategy", "spread", code=6)
    assert listed["vm-00004"]["reason"].startswith("guessed (spread): on cmp-0006")
