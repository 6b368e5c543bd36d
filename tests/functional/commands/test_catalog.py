# SPDX-License-Identifier: Apache-2.0
"""``trait …`` and ``resource class …``."""

from __future__ import annotations

from tests.support.functional_cloud import create
from tests.support.peer.shell import OpenStack


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
