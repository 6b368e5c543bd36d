# SPDX-License-Identifier: Apache-2.0
"""``resource provider inventory …`` and usages."""

from __future__ import annotations

import pytest

from tests.support.functional_cloud import AGGREGATE, OWNER, UNUSED_UUID, allocate, create
from tests.support.peer.shell import OpenStack

SET = "resource provider inventory set"
DEFAULTS = {
    "allocation_ratio": 1.0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "reserved": 0,
    "step_size": 1,
}


def member(openstack: OpenStack, name: str, **totals: int) -> str:
    uuid = create(openstack, name, **totals)
    openstack("resource provider aggregate set", uuid, "--aggregate", AGGREGATE, version="1.18")
    return uuid


def test_a_dry_run_shows_the_new_inventories(openstack: OpenStack) -> None:
    create(openstack, "node", VCPU=8)
    before = openstack("resource provider show", "node")
    (row,) = openstack(
        SET, "node", "--dry-run", "--resource", "VCPU=4", "--resource", "VCPU:reserved=1"
    )
    unset = dict.fromkeys(DEFAULTS, "")
    assert row == {"resource_class": "VCPU", **unset, "reserved": 1, "total": 4}
    (row,) = openstack(SET, "node", "--dry-run", "--amend", "--resource", "VCPU:reserved=1")
    assert row == {"resource_class": "VCPU", **DEFAULTS, "reserved": 1, "total": 8}
    assert openstack("resource provider show", "node") == before


@pytest.mark.parametrize("version", ["1.3", None])
def test_a_dry_run_of_ratios_alone_shows_them(openstack: OpenStack, version: str | None) -> None:
    uuids = [member(openstack, name, VCPU=8) for name in ("one", "two")]
    ratio = ("--resource", "VCPU:allocation_ratio=4.0", "--dry-run")
    rows = openstack(SET, AGGREGATE, "--aggregate", *ratio, version=version)
    unset = dict.fromkeys([*DEFAULTS, "total"], "")
    row = {"resource_class": "VCPU", **unset, "allocation_ratio": 4.0}
    assert sorted(rows, key=str) == sorted(
        [{"resource_provider": uuid, **row} for uuid in uuids], key=str
    )
    assert openstack(SET, "one", *ratio, version=version) == [row]


def test_all_inventories_of_members_can_be_removed(openstack: OpenStack) -> None:
    uuid = member(openstack, "one", VCPU=8)
    assert openstack(SET, AGGREGATE, "--aggregate") == []
    assert openstack("resource provider inventory list", uuid) == []
    assert openstack(SET, AGGREGATE, "--aggregate") == []


def test_a_failed_member_does_not_stop_the_others(openstack: OpenStack) -> None:
    used, free = member(openstack, "used", VCPU=8), member(openstack, "free", VCPU=8)
    allocate(openstack, used, "VCPU=1")
    code, text = openstack.fails(SET, AGGREGATE, "--aggregate", "--resource", "DISK_GB=7")
    assert code == 1
    assert f"Failed to set inventory for resource provider {used}: " in text
    assert "Failed to set inventory for 1 of 2 resource providers." in text
    (row,) = openstack("resource provider inventory list", free)
    assert row["resource_class"] == "DISK_GB"


def test_upstreams_batch_form_has_no_guards_and_exits_with_0_or_1(openstack: OpenStack) -> None:
    uuids = [member(openstack, name, VCPU=8) for name in ("one", "two")]
    allocate(openstack, uuids[1], "VCPU=4")
    amend = (SET, AGGREGATE, "--aggregate", "--amend")
    rows = openstack(*amend, "--resource", "VCPU=2", "--resource", "VCPU:max_unit=1")
    assert [(row["resource_provider"], row["total"]) for row in rows] == [(u, 2) for u in uuids]
    assert openstack(*amend, "--resource", "VCPU=2") == rows
    outcome = openstack.run(*amend, "--resource", "VCPU=2")
    assert outcome.messages == ""
    for value, reason in (
        ("VCPU=0", "0 is less than the minimum of 1"),
        ("CUSTOM_NO=1", "No such"),
    ):
        code, text = openstack.fails(*amend, "--resource", value)
        lines = text.strip().splitlines()
        assert code == 1
        assert reason in lines[0]
        assert lines[0].startswith(f"Failed to set inventory for resource provider {uuids[0]}: ")
        assert lines[-1] == "Failed to set inventory for 2 of 2 resource providers."


def test_one_class_is_shown_with_its_usage(openstack: OpenStack) -> None:
    node = create(openstack, "node", VCPU=8)
    allocate(openstack, node, "VCPU=3")
    shown = openstack("resource provider inventory show", "node", "VCPU")
    assert shown == {**DEFAULTS, "total": 8, "used": 3}
    (row,) = openstack("resource provider inventory list", "node", "--long")
    assert (row["used"], row["capacity"], row["free"]) == (3, 8, 5)
    code, text = openstack.fails("resource provider inventory show", "node", "PCPU")
    assert (code, "HTTP 404" in text) == (1, True)


def test_project_usage_is_shown_per_class_and_from_1_38_per_type(openstack: OpenStack) -> None:
    node = create(openstack, "node", VCPU=8, MEMORY_MB=64)
    allocate(openstack, node, "VCPU=2")
    arguments = (f"--allocation=rp={node},VCPU=1", *OWNER, "--consumer-type", "INSTANCE")
    openstack("resource provider allocation set", UNUSED_UUID, *arguments, version="1.38")
    show = ("resource usage show", "project")
    assert openstack(*show) == [{"resource_class": "VCPU", "usage": 3}]
    assert openstack(*show, "--user-id", "other") == []
    rows = openstack(*show, "--long", version="1.38")
    assert {(r["resource_class"], r["usage"], r["consumer_type"], r["consumer_count"])
            for r in rows} == {("VCPU", 2, "unknown", 1), ("VCPU", 1, "INSTANCE", 1)}  # fmt: skip
    assert openstack(*show, "--long") == rows
    (row,) = openstack(*show, "--consumer-type", "INSTANCE")
    assert (row["usage"], row["consumer_count"]) == (1, 1)
    (row,) = openstack(*show, "--consumer-type", "all")
    assert (row["usage"], row["consumer_count"]) == (3, 2)
    code, text = openstack.fails(*show, "--consumer-type", "INSTANCE", version="1.37")
    assert (code, "requires at least version 1.38" in text) == (1, True)
