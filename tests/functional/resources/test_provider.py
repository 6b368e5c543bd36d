# SPDX-License-Identifier: Apache-2.0
"""``resource provider create | delete | list | set | show | unset``, aggregates, traits, tree."""

from __future__ import annotations

import json
import pathlib

from tests.support.functional_cloud import (
    AGGREGATE,
    UNUSED_UUID,
    allocate,
    create,
)
from tests.support.peer.shell import OpenStack

FLAT = {"uuid", "name", "generation"}


def test_a_parent_can_be_changed_from_1_37(openstack: OpenStack) -> None:
    for name in ("one", "two", "child"):
        create(openstack, name)
    parent = ("resource provider set", "child", "--parent-provider")
    assert openstack(*parent, "one")["parent_provider_uuid"]
    code, text = openstack.fails(*parent, "two")
    assert (code, "re-parenting" in text) == (1, True)
    moved = openstack(*parent, "two", version="1.37")
    assert moved["parent_provider_uuid"] == openstack("resource provider show", "two")["uuid"]
    alone = openstack("resource provider unset", "--parent-provider", "child")
    assert alone["parent_provider_uuid"] is None
    assert alone["root_provider_uuid"] == alone["uuid"]
    again = openstack("resource provider unset", "--parent-provider", "child")
    assert again == alone


def test_a_provider_with_children_is_deleted_only_with_its_tree(openstack: OpenStack) -> None:
    create(openstack, "root")
    create(openstack, "child", parent="root")
    create(openstack, "grandchild", parent="child")
    create(openstack, "sibling", parent="root")
    code, text = openstack.fails("resource provider delete", "root")
    assert (code, "HTTP 409" in text) == (1, True)
    assert "root has children: --tree deletes them too" in text
    openstack.do("resource provider delete", "--tree", "child")
    assert {row["name"] for row in openstack("resource provider list")} == {"root", "sibling"}
    openstack.do("resource provider delete", "--tree", "root")
    assert openstack("resource provider list") == []


def test_a_failed_deletion_does_not_stop_the_others(openstack: OpenStack) -> None:
    used = create(openstack, "used", VCPU=1)
    create(openstack, "free")
    allocate(openstack, used, "VCPU=1")
    code, text = openstack.fails("resource provider delete", "used", "free")
    assert code == 1
    assert "has allocations" in text
    step = "used is in use: 'openstack resource provider consumer list used' shows its consumers"
    assert step in text
    assert step in openstack.fails("resource provider delete", "used")[1]
    assert "Failed to delete 1 of 2 resource providers." in text
    assert [row["name"] for row in openstack("resource provider list")] == ["used"]


def test_allocations_of_a_provider_are_shown_on_request(openstack: OpenStack) -> None:
    uuid = create(openstack, "node", VCPU=4)
    consumer = allocate(openstack, uuid, "VCPU=2")
    shown = openstack("resource provider show", "node", "--allocations", version="1.27")
    assert shown["allocations"] == {consumer: {"resources": {"VCPU": 2}}}
    shown = openstack("resource provider show", "node", "--allocations")
    assert shown["allocations"][consumer]["consumer_generation"] == openstack.generation(1)
    assert "allocations" not in openstack("resource provider show", "node")


def test_a_list_accepts_the_selectors_of_batch_operations(
    openstack: OpenStack, tmp_path: pathlib.Path
) -> None:
    for name in ("rack1-1", "rack1-2", "rack2-1"):
        create(openstack, name, VCPU=8)

    def listed(*arguments: str) -> list[str]:
        return [row["name"] for row in openstack("resource provider list", *arguments)]

    assert sorted(listed("--name-glob", "rack1-*")) == ["rack1-1", "rack1-2"]
    assert listed("rack1-2", "--name-glob", "rack*") == ["rack1-2"]
    assert listed("rack1-2", "--resource", "VCPU=9") == []
    (tmp_path / "hosts").write_text("rack2-1\n")
    assert listed("rack1-2", "rack2-1", "--providers-from", "hosts", "--name-glob", "rack2*") == [
        "rack2-1"
    ]
    assert len(listed("--all")) == 3
    code, text = openstack.fails("resource provider list", "rack9")
    assert (code, "'rack9'" in text) == (1, True)


def test_a_long_list_shows_traits_aggregates_and_inventories(openstack: OpenStack) -> None:
    create(openstack, "node", VCPU=8)
    generation = f"--generation={openstack.generation(1)}"
    openstack("resource provider aggregate set", "node", "--aggregate", AGGREGATE, generation)
    openstack("resource provider trait set", "node", "--trait", "STORAGE_DISK_SSD")
    (row,) = openstack("resource provider list", "--long")
    assert row["traits"] == ["STORAGE_DISK_SSD"]
    assert row["aggregates"] == [AGGREGATE]
    assert row["inventories"]["VCPU"]["total"] == 8
    assert row["updated"].endswith("GMT")
    (row,) = openstack("resource provider list", "--long", version="1.0")
    assert set(row) == FLAT | {"inventories"}


def test_setting_traits_warns_which_standard_traits_it_removes(openstack: OpenStack) -> None:
    openstack.do("trait create", "CUSTOM_GOLD")
    create(openstack, "node")
    given = ("--trait", "HW_CPU_X86_AVX", "--trait", "STORAGE_DISK_SSD", "--trait", "CUSTOM_GOLD")
    assert "Warning" not in openstack.run("resource provider trait set", "node", *given).stderr
    outcome = openstack.run("resource provider trait set", "node", "--trait", "STORAGE_DISK_SSD")
    assert "Warning: the standard trait HW_CPU_X86_AVX was removed" in outcome.stderr
    assert "'resource provider trait add'" in outcome.stderr
    openstack.run("resource provider trait set", "node", *given)
    outcome = openstack.run("resource provider trait set", "node")
    assert "the standard traits HW_CPU_X86_AVX, STORAGE_DISK_SSD were removed" in outcome.stderr


def test_traits_are_set_on_all_members_of_an_aggregate(openstack: OpenStack) -> None:
    for name in ("one", "two"):
        create(openstack, name)
        generation = f"--gen={openstack.generation()}"
        openstack("resource provider aggregate set", name, f"--aggregate={AGGREGATE}", generation)
    rows = openstack(
        "resource provider trait set", AGGREGATE, "--aggregate", "--trait", "STORAGE_DISK_SSD"
    )
    assert [row["name"] for row in rows] == ["STORAGE_DISK_SSD"] * 2
    outcome = openstack.run("resource provider trait set", AGGREGATE, "--aggregate", "-f", "json")
    assert json.loads(outcome.stdout) == []
    assert "Warning: the standard trait STORAGE_DISK_SSD was removed" in outcome.stderr
    code, text = openstack.fails("resource provider trait set", UNUSED_UUID, "--aggregate")
    assert code == 1
    assert f"No resource providers found in aggregate with uuid {UNUSED_UUID}." in text


def test_a_tree_is_listed_root_first(openstack: OpenStack) -> None:
    root = create(openstack, "root", VCPU=8)
    create(openstack, "numa0", parent="root", MEMORY_MB=512)
    create(openstack, "gpu", parent="numa0")
    create(openstack, "numa1", parent="root")
    openstack("resource provider trait set", "gpu", "--trait", "HW_NUMA_ROOT")
    allocate(openstack, root, "VCPU=3")
    rows = openstack("resource provider tree show", "numa1", "--long")
    names = [row["name"] for row in rows]
    assert names in (["root", "numa0", "gpu", "numa1"], ["root", "numa1", "numa0", "gpu"])
    by_name = {row["name"]: row for row in rows}
    assert [by_name[name]["depth"] for name in ("root", "numa0", "gpu")] == [0, 1, 2]
    assert by_name["gpu"]["parent"] == by_name["numa0"]["uuid"]
    assert {row["kind"] for row in rows} == {"provider"}
    assert by_name["root"]["used/capacity"] == {"VCPU": {"used": 3, "capacity": 8}}
    drawn = openstack.do("resource provider tree show", "numa1")
    assert "├─ numa" in drawn
    assert "VCPU=3/8" in drawn
    assert by_name["gpu"]["traits"] == ["HW_NUMA_ROOT"]
    assert by_name["numa0"]["inventories"]["MEMORY_MB"]["total"] == 512
    code, text = openstack.fails("resource provider tree show", UNUSED_UUID)
    assert (code, "found" in text) == (1, True)


def test_an_empty_table_says_what_is_empty_and_where(openstack: OpenStack) -> None:
    empty = openstack.run("resource provider list", "--name", "nobody")
    assert (empty.code, empty.stdout.strip()) == (0, "")
    assert empty.messages.startswith("No resource provider found on ")
    assert openstack.run("resource provider list", "-f", "json").messages == ""
