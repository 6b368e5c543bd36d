# SPDX-License-Identifier: Apache-2.0
"""``trait …`` and ``resource class …``."""

from __future__ import annotations

import pytest

from tests.support.functional_cloud import create
from tests.support.peer.shell import OpenStack


def test_a_trait_is_created_once_and_found_by_its_prefix(openstack: OpenStack) -> None:
    assert openstack.do("trait create", "CUSTOM_GOLD") == ""
    assert openstack.do("trait create", "CUSTOM_GOLD") == ""
    assert openstack("trait list", "--name", "startswith:CUSTOM_") == [{"name": "CUSTOM_GOLD"}]
    found = openstack("trait list", "--name", "in:CUSTOM_GOLD,HW_CPU_X86_AVX,CUSTOM_NO")
    assert sorted(row["name"] for row in found) == ["CUSTOM_GOLD", "HW_CPU_X86_AVX"]
    assert openstack("trait show", "CUSTOM_GOLD") == {"name": "CUSTOM_GOLD"}
    assert openstack("trait list", "--associated") == []
    assert openstack.do("trait delete", "CUSTOM_GOLD") == ""
    code, text = openstack.fails("trait show", "CUSTOM_GOLD")
    assert (code, "HTTP 404" in text) == (1, True)


def test_a_trait_in_use_is_not_deleted(openstack: OpenStack) -> None:
    create(openstack, "node")
    openstack.do("trait create", "CUSTOM_GOLD")
    openstack("resource provider trait set", "node", "--trait", "CUSTOM_GOLD")
    code, text = openstack.fails("trait delete", "CUSTOM_GOLD")
    assert (code, "HTTP 409" in text) == (1, True)


@pytest.mark.parametrize("name", ["GOLD", "CUSTOM_gold", "CUSTOM_A/B", "CUSTOM_Ä", "../traits"])
def test_a_trait_without_the_custom_prefix_is_refused(openstack: OpenStack, name: str) -> None:
    code, text = openstack.fails("trait create", name)
    assert code == 1
    assert "HTTP 4" in text


def test_a_resource_class_is_created_shown_and_deleted(openstack: OpenStack) -> None:
    assert openstack.do("resource class create", "CUSTOM_GOLD") == ""
    code, text = openstack.fails("resource class create", "CUSTOM_GOLD")
    assert (code, "HTTP 409" in text) == (1, True)
    assert openstack.do("resource class set", "CUSTOM_GOLD") == ""
    assert openstack.do("resource class set", "CUSTOM_IRON") == ""
    assert openstack("resource class show", "CUSTOM_GOLD") == {"name": "CUSTOM_GOLD"}
    names = [row["name"] for row in openstack("resource class list")]
    assert {"VCPU", "CUSTOM_GOLD", "CUSTOM_IRON"} <= set(names)
    assert openstack.do("resource class delete", "CUSTOM_GOLD") == ""
    code, text = openstack.fails("resource class show", "CUSTOM_GOLD")
    assert (code, "HTTP 404" in text) == (1, True)
    code, text = openstack.fails("resource class delete", "VCPU")
    assert (code, "HTTP 400" in text) == (1, True)


def test_a_resource_class_in_use_is_not_deleted(openstack: OpenStack) -> None:
    openstack.do("resource class create", "CUSTOM_GOLD")
    create(openstack, "node", CUSTOM_GOLD=4)
    code, text = openstack.fails("resource class delete", "CUSTOM_GOLD")
    assert (code, "HTTP 409" in text) == (1, True)


def test_a_long_list_shows_the_time_of_the_last_change(openstack: OpenStack) -> None:
    openstack.do("trait create", "CUSTOM_GOLD")
    openstack.do("resource class create", "CUSTOM_GOLD")
    (row,) = openstack("trait list", "--name", "startswith:CUSTOM_", "--long")
    assert row["updated"].endswith("GMT")
    classes = {row["name"]: row["updated"] for row in openstack("resource class list", "--long")}
    assert classes["CUSTOM_GOLD"].endswith("GMT")
    code, text = openstack.fails("trait list", "--long", version="1.14")
    assert (code, "requires at least version 1.15" in text) == (1, True)


def test_the_trait_matrix_compares_groups_and_lists_every_provider(openstack: OpenStack) -> None:
    openstack.do("trait create", "CUSTOM_GOLD")
    for name, traits in (("a", ["CUSTOM_GOLD"]), ("b", []), ("c", [])):
        create(openstack, name)
        given = [word for trait in ("HW_CPU_X86_AVX", *traits) for word in ("--trait", trait)]
        openstack("resource provider trait set", name, *given)
    found = openstack("resource provider trait compare", "--all")
    assert [{**row, "uuid": ""} for row in found] == [
        {"name": name, "uuid": "", "CUSTOM_GOLD": name == "a", "HW_CPU_X86_AVX": True}
        for name in "abc"
    ]
    found = openstack("resource provider trait compare", "b", "a", "--differing")
    assert [list(row) for row in found] == [["name", "uuid", "CUSTOM_GOLD"]] * 2
    table = openstack.do("resource provider trait compare", "--name-glob", "[abc]", "-f", "table")
    assert "| 1     | 2         | b, c  | 1      |" in table
    assert "| CUSTOM_GOLD    |   | x |" in table
    nothing = openstack.run("resource provider trait compare", "--all", "--trait", "CUSTOM_G")
    assert "None of the selected providers has a trait that matches CUSTOM_G\n" in nothing.stderr
