# SPDX-License-Identifier: Apache-2.0
"""``resource provider create | delete | list | set | show | unset``, aggregates, traits, tree."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.support.functional_cloud import (
    AGGREGATE,
    OTHER_AGGREGATE,
    UNUSED_UUID,
    allocate,
    create,
)
from tests.support.peer.shell import OpenStack

FLAT = {"uuid", "name", "generation"}
NESTED = FLAT | {"root_provider_uuid", "parent_provider_uuid"}


@pytest.mark.parametrize(
    ("version", "columns"),
    [("1.0", FLAT), ("1.13", FLAT), ("1.14", NESTED), ("1.39", NESTED), (None, NESTED)],
)
def test_create_shows_the_tree_from_1_14(
    openstack: OpenStack, version: str | None, columns: set[str]
) -> None:
    created = openstack("resource provider create", "node", version=version)
    assert set(created) == columns
    assert (created["name"], created["generation"]) == ("node", openstack.generation())
    assert openstack("resource provider show", created["uuid"], version=version) == created
    assert openstack("resource provider list", version=version) == [created]


def test_columns_have_upstreams_order(openstack: OpenStack) -> None:
    create(openstack, "node")
    heading = openstack.do("resource provider list", "-f", "csv").splitlines()[0]
    assert heading == '"uuid","name","generation","root_provider_uuid","parent_provider_uuid"'


def test_a_provider_is_created_with_a_given_uuid(openstack: OpenStack) -> None:
    created = openstack("resource provider create", "node", "--uuid", AGGREGATE)
    assert created["uuid"] == AGGREGATE


def test_a_used_name_is_a_409(openstack: OpenStack) -> None:
    create(openstack, "node")
    code, text = openstack.fails("resource provider create", "node")
    assert code == 1
    assert "HTTP 409" in text
    assert "node already exists" in text


def test_a_parent_is_given_by_name(openstack: OpenStack) -> None:
    root = create(openstack, "root")
    child = openstack("resource provider create", "child", "--parent-provider", "root")
    assert (child["root_provider_uuid"], child["parent_provider_uuid"]) == (root, root)
    tree = openstack("resource provider list", "--in-tree", "child")
    assert [row["name"] for row in tree] == ["root", "child"]


def test_an_unknown_provider_is_reported(openstack: OpenStack) -> None:
    create(openstack, "compute-1")
    code, text = openstack.fails("resource provider show", UNUSED_UUID)
    assert (code, "HTTP 404" in text) == (1, True)
    assert f"No resource provider with uuid {UNUSED_UUID} found" in text
    code, text = openstack.fails("resource provider show", "compute")
    assert code == 1
    assert "'compute'; similar: compute-1" in text


def test_all_unknown_names_are_reported(openstack: OpenStack) -> None:
    code, text = openstack.fails("resource provider delete", "one", "two")
    assert code == 1
    assert "'one'" in text
    assert "'two'" in text


def test_a_provider_is_renamed(openstack: OpenStack) -> None:
    create(openstack, "old")
    assert openstack("resource provider set", "old", "--name", "new")["name"] == "new"
    assert openstack("resource provider show", "new")["name"] == "new"


def test_set_without_options_is_a_usage_error(openstack: OpenStack) -> None:
    code, text = openstack.fails("resource provider set", "node")
    assert (code, "--name" in text) == (2, True)


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


def test_several_providers_are_deleted(openstack: OpenStack) -> None:
    for name in ("one", "two", "three"):
        create(openstack, name)
    assert openstack.do("resource provider delete", "one", "two") == ""
    assert [row["name"] for row in openstack("resource provider list")] == ["three"]


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


def test_a_list_is_filtered_by_name_uuid_and_resources(openstack: OpenStack) -> None:
    big = create(openstack, "big", VCPU=16)
    create(openstack, "small", VCPU=2)

    def listed(*arguments: str) -> list[str]:
        return [row["name"] for row in openstack("resource provider list", *arguments)]

    assert listed("--name", "small") == ["small"]
    assert listed("--uuid", big) == ["big"]
    assert listed("--resource", "VCPU=4") == ["big"]
    assert listed("--name", "none") == []
    code, text = openstack.fails("resource provider list", "--resource", "VCPU=two")
    assert (code, "invalid int value" in text) == (1, True)


def test_a_list_is_filtered_by_traits(openstack: OpenStack) -> None:
    for name, traits in {"both": ("SSD", "AVX"), "one": ("SSD",), "none": ()}.items():
        create(openstack, name)
        for trait in traits:
            openstack.do("trait create", f"CUSTOM_{trait}")
        given = [f"--trait=CUSTOM_{trait}" for trait in traits]
        openstack("resource provider trait set", name, *given)

    def listed(*arguments: str) -> set[str]:
        return {row["name"] for row in openstack("resource provider list", *arguments)}

    assert listed("--required", "CUSTOM_SSD") == {"both", "one"}
    assert listed("--required", "CUSTOM_SSD", "--required", "CUSTOM_AVX") == {"both"}
    assert listed("--required", "CUSTOM_SSD", "--forbidden", "CUSTOM_AVX") == {"one"}
    assert listed("--forbidden", "CUSTOM_SSD") == {"none"}
    assert listed("--required", "CUSTOM_SSD,CUSTOM_AVX") == {"both", "one"}


def test_a_list_is_filtered_by_aggregates(openstack: OpenStack) -> None:
    members = {"both": [AGGREGATE, OTHER_AGGREGATE], "one": [AGGREGATE], "none": []}
    for name, uuids in members.items():
        create(openstack, name)
        given = [f"--aggregate={uuid}" for uuid in uuids]
        first = str(openstack.generation())
        openstack("resource provider aggregate set", name, *given, "--generation", first)

    def listed(*arguments: str) -> set[str]:
        return {row["name"] for row in openstack("resource provider list", *arguments)}

    assert listed("--member-of", AGGREGATE) == {"both", "one"}
    assert listed("--member-of", f"{OTHER_AGGREGATE},{AGGREGATE}") == {"both", "one"}
    assert listed("--member-of", f"in:{OTHER_AGGREGATE},{AGGREGATE}") == {"both", "one"}
    assert listed("--member-of", AGGREGATE, "--member-of", OTHER_AGGREGATE) == {"both"}
    assert listed("--not-member-of", OTHER_AGGREGATE) == {"one", "none"}
    assert listed("--member-of", f"!{OTHER_AGGREGATE}") == {"one", "none"}
    assert listed("--member-of", AGGREGATE, "--not-member-of", OTHER_AGGREGATE) == {"one"}


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


def test_the_old_aggregate_option_works_with_a_warning(openstack: OpenStack) -> None:
    create(openstack, "node")
    outcome = openstack.run("resource provider list", "--aggregate-uuid", AGGREGATE)
    assert outcome.code == 0
    warning = "The --aggregate-uuid option is deprecated, please use --member-of instead."
    assert outcome.messages.strip() == warning
    both = ("--aggregate-uuid", AGGREGATE, "--member-of", AGGREGATE)
    code, text = openstack.fails("resource provider list", *both)
    assert (code, "not allowed with argument" in text) == (2, True)


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


def test_aggregates_are_set_under_a_generation_from_1_19(openstack: OpenStack) -> None:
    create(openstack, "node")
    command = ("resource provider aggregate set", "node", "--aggregate", AGGREGATE)
    assert openstack(*command, version="1.18") == [{"uuid": AGGREGATE}]
    code, text = openstack.fails(*command)
    assert (code, text.strip()) == (1, "A generation must be specified.")
    code, text = openstack.fails(*command, "--generation", "0", version="1.18")
    assert (code, "requires at least version 1.19" in text) == (1, True)
    code, text = openstack.fails(*command, "--generation", str(openstack.generation(7)))
    assert (code, "HTTP 409" in text) == (1, True)
    code, text = openstack.fails(*command, "--generation", "x")
    assert (code, "invalid int value" in text) == (2, True)
    first, second = str(openstack.generation()), str(openstack.generation(1))
    assert openstack(*command, "--generation", first) == [{"uuid": AGGREGATE}]
    assert openstack("resource provider aggregate list", "node") == [{"uuid": AGGREGATE}]
    assert openstack("resource provider aggregate set", "node", "--generation", second) == []


def test_traits_of_a_provider_are_set_listed_and_deleted(openstack: OpenStack) -> None:
    create(openstack, "node")
    avx, ssd = {"name": "HW_CPU_X86_AVX"}, {"name": "STORAGE_DISK_SSD"}
    rows = openstack(
        "resource provider trait set", "node", "--trait", avx["name"], "--trait", ssd["name"]
    )
    assert sorted(row["name"] for row in rows) == [avx["name"], ssd["name"]]
    assert openstack("resource provider trait set", "node", "--trait", ssd["name"]) == [ssd]
    assert openstack("resource provider trait list", "node") == [ssd]
    assert openstack("trait list", "--associated") == [ssd]
    code, text = openstack.fails("resource provider trait set", "node", "--trait", "CUSTOM_NO")
    assert (code, "HTTP 400" in text) == (1, True)
    assert openstack.do("resource provider trait delete", "node") == ""
    assert openstack("resource provider trait list", "node") == []


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


@pytest.mark.parametrize(
    ("command", "arguments", "messages"),
    [
        (
            "resource provider list",
            ("--resource", "VCPU=x", "--in-tree", "unknown"),
            ("'x' in 'VCPU=x'", "'unknown'"),
        ),
        (
            "allocation candidate list",
            ("--resource", "VCPU", "--group", "1", "--resource", "VCPU=x", "--in-tree", "unknown"),
            ("<resource_class>=<value>: 'VCPU'", "'x' in 'VCPU=x'", "'unknown'"),
        ),
        (
            "resource provider allocation amend",
            (UNUSED_UUID, "--allocation", "rp=unknown,VCPU=1", "--allocation", "nonsense"),
            ("'unknown'", "'nonsense'"),
        ),
        (
            "resource provider inventory set",
            ("unknown", "--resource", "VCPU=x"),
            ("'x' in 'VCPU=x'", "'unknown'"),
        ),
        (
            "resource provider trait add",
            ("unknown", "--required", "CUSTOM_NO", "--in-tree", "none", "--trait", "nonsense"),
            ("'unknown'", "CUSTOM_NO", "'none'", "unknown trait nonsense"),
        ),
    ],
)
def test_unknown_names_and_malformed_values_are_reported_together(
    openstack: OpenStack, command: str, arguments: tuple[str, ...], messages: tuple[str, ...]
) -> None:
    code, text = openstack.fails(command, *arguments)
    assert code == 1
    assert [part for part in messages if part not in text] == []
