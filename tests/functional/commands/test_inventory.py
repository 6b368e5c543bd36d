# SPDX-License-Identifier: Apache-2.0
"""``resource provider inventory …`` and usages."""

from __future__ import annotations

import pytest

from tests.support.functional_cloud import AGGREGATE, OWNER, UNUSED_UUID, allocate, create
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack

SET = "resource provider inventory set"
FIELDS = ["allocation_ratio", "min_unit", "max_unit", "reserved", "step_size", "total"]
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


def test_a_resource_without_a_field_is_its_total(openstack: OpenStack) -> None:
    create(openstack, "node")
    rows = openstack(
        SET, "node", "--resource", "VCPU=8", "--resource", "MEMORY_MB:total=64",
        "--resource", "MEMORY_MB:allocation_ratio=1.5", "--resource", "VCPU:reserved=2",
    )  # fmt: skip
    assert rows == [
        {"resource_class": "VCPU", **DEFAULTS, "reserved": 2, "total": 8},
        {"resource_class": "MEMORY_MB", **DEFAULTS, "allocation_ratio": 1.5, "total": 64},
    ]
    heading = openstack.do("resource provider inventory list", "node", "-f", "csv")
    assert heading.splitlines()[0] == ",".join(
        f'"{n}"' for n in ["resource_class", *FIELDS, "used"]
    )


def test_set_replaces_and_amend_keeps_other_classes(openstack: OpenStack) -> None:
    create(openstack, "node", VCPU=8, MEMORY_MB=64)
    # The order of the classes is the database's.
    rows = openstack(SET, "node", "--amend", "--resource", "VCPU:max_unit=4")
    found = {row["resource_class"]: (row["total"], row["max_unit"]) for row in rows}
    assert found == {"VCPU": (8, 4), "MEMORY_MB": (64, 2147483647)}
    (row,) = openstack(SET, "node", "--resource", "VCPU=9")
    assert (row["total"], row["max_unit"]) == (9, 2147483647)
    assert openstack(SET, "node") == []
    assert openstack("resource provider inventory list", "node") == []


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("VCPU", 'Resource argument must have "name=value" format'),
        ("VCPU==", 'Resource argument must have "name=value" format'),
        ("VCPU=1=2", 'Resource argument must have "name=value" format'),
        ("VCPU:=1", "Name, field and value must be not empty"),
        ("=1", "Name, field and value must be not empty"),
        ("VCPU=", "Name, field and value must be not empty"),
        ("VCPU:speed=1", "Unknown inventory field speed"),
        ("VCPU=two", "invalid int value: 'two'"),
        ("VCPU:allocation_ratio=x", "invalid float value: 'x'"),
        ("VCPU:reserved=1", "'total' is a required property"),
        ("CUSTOM_NOBODY=1", "No such resource class CUSTOM_NOBODY"),
    ],
)
def test_a_malformed_resource_is_refused(openstack: OpenStack, argument: str, text: str) -> None:
    create(openstack, "node")
    code, message = openstack.fails(SET, "node", "--resource", argument)
    assert (code, text in message) == (1, True), message


def test_all_errors_of_a_command_line_are_reported(openstack: OpenStack) -> None:
    create(openstack, "node")
    arguments = ("VCPU", "VCPU:speed=1", "DISK_GB=x", "MEMORY_MB=1", "MEMORY_MB:total=2")
    code, text = openstack.fails(SET, "node", *(f"--resource={item}" for item in arguments))
    assert code == 1
    assert len(text.strip().splitlines()) == 4
    assert "MEMORY_MB:total is given twice" in text
    assert openstack("resource provider inventory list", "node") == []


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


def test_a_dry_run_reports_what_the_server_would_refuse(openstack: OpenStack) -> None:
    node = create(openstack, "node", VCPU=8)
    allocate(openstack, node, "VCPU=1")
    arguments = ("CUSTOM_NOBODY=1", "DISK_GB=0", "MEMORY_MB=4", "MEMORY_MB:reserved=5")
    resources = [f"--resource={item}" for item in arguments]
    code, text = openstack.fails(SET, "node", "--dry-run", *resources)
    assert code == 1
    assert "No such resource class CUSTOM_NOBODY" in text
    assert "less than the minimum of 1" in text
    assert "reserved 5" in text
    assert "Inventory for 'VCPU'" in text
    assert openstack.fails(SET, "node", *resources)[0] == 1


def test_all_members_of_an_aggregate_are_set(openstack: OpenStack) -> None:
    uuids = [member(openstack, name, VCPU=8) for name in ("one", "two")]
    command = (SET, AGGREGATE, "--aggregate", "--amend", "--resource", "VCPU:allocation_ratio=4.0")
    planned = openstack(*command, "--dry-run")
    rows = openstack(*command)
    assert rows == planned
    assert sorted(row["resource_provider"] for row in rows) == sorted(uuids)
    assert next(iter(rows[0])) == "resource_provider"
    assert {row["allocation_ratio"] for row in rows} == {4.0}
    code, text = openstack.fails(SET, UNUSED_UUID, "--aggregate", "--resource", "VCPU=1")
    assert code == 1
    assert f"No resource providers found in aggregate with uuid {UNUSED_UUID}." in text


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


def test_one_class_is_replaced(openstack: OpenStack) -> None:
    create(openstack, "node", VCPU=8, MEMORY_MB=64)
    command = "resource provider inventory class set"
    row = openstack(command, "node", "VCPU", "--total", "16", "--max_unit", "4",
                    "--allocation_ratio", "2.5")  # fmt: skip
    assert row == {**DEFAULTS, "total": 16, "max_unit": 4, "allocation_ratio": 2.5}
    assert list(row) == FIELDS
    code, text = openstack.fails(command, "node", "VCPU", "--max_unit", "4")
    assert code == 2
    assert "the following arguments are required: --total" in text
    code, text = openstack.fails(command, "node", "VCPU", "--total", "four")
    assert (code, "invalid int value" in text) == (2, True)
    code, text = openstack.fails(command, "node", "DISK_GB", "--total", "4")
    assert (code, "HTTP 400" in text) == (1, True)


def test_one_class_is_shown_with_its_usage(openstack: OpenStack) -> None:
    node = create(openstack, "node", VCPU=8)
    allocate(openstack, node, "VCPU=3")
    shown = openstack("resource provider inventory show", "node", "VCPU")
    assert shown == {**DEFAULTS, "total": 8, "used": 3}
    (row,) = openstack("resource provider inventory list", "node", "--long")
    assert (row["used"], row["capacity"], row["free"]) == (3, 8, 5)
    code, text = openstack.fails("resource provider inventory show", "node", "PCPU")
    assert (code, "HTTP 404" in text) == (1, True)


def test_one_inventory_or_from_1_5_all_are_deleted(openstack: OpenStack) -> None:
    create(openstack, "node", VCPU=8, MEMORY_MB=64, DISK_GB=10)
    command = "resource provider inventory delete"
    assert openstack.do(command, "node", "--resource-class", "VCPU") == ""
    code, text = openstack.fails(command, "node", "--resource-class", "VCPU")
    assert (code, "HTTP 404" in text) == (1, True)
    code, text = openstack.fails(command, "node", version="1.4")
    assert code == 2
    assert "the following arguments are required: --resource-class" in text
    assert openstack.do(command, "node") == ""
    assert openstack("resource provider inventory list", "node") == []


def test_inventory_in_use_is_not_deleted(openstack: OpenStack) -> None:
    node = create(openstack, "node", VCPU=8)
    allocate(openstack, node, "VCPU=1")
    for arguments in ((), ("--resource-class", "VCPU")):
        code, text = openstack.fails("resource provider inventory delete", "node", *arguments)
        assert (code, "HTTP 409" in text) == (1, True)
        assert "in use" in text


def test_provider_usage_is_shown_per_class(openstack: OpenStack) -> None:
    node = create(openstack, "node", VCPU=8, MEMORY_MB=64)
    allocate(openstack, node, "VCPU=2")
    rows = openstack("resource provider usage show", "node")
    assert {row["resource_class"]: row["usage"] for row in rows} == {"VCPU": 2, "MEMORY_MB": 0}


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
