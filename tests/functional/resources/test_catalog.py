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


def test_a_trait_matrix_without_a_trait_names_the_pattern(openstack: OpenStack) -> None:
    create(openstack, "node")
    nothing = openstack.run("resource provider trait compare", "--all", "--trait", "CUSTOM_G")
    assert "None of the selected providers has a trait that matches CUSTOM_G\n" in nothing.stderr
