# SPDX-License-Identifier: Apache-2.0
"""``resource provider consumer list`` on every target."""

from __future__ import annotations

import pytest

from tests.support.functional_cloud import allocate, create
from tests.support.peer import shell, target as targets

LIST = "resource provider consumer list"
CONSUMERS = [f"0c57cadb-fc21-585e-9f39-{number:012}" for number in range(2)]


def test_each_consumer_has_a_row_with_its_owner_and_resources(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    uuid = create(openstack, "cn1", VCPU=16, VGPU=8)
    allocate(openstack, uuid, "VCPU=1,VGPU=4", CONSUMERS[0])
    allocate(openstack, uuid, "VCPU=2", CONSUMERS[1])
    rows = openstack(LIST, "cn1")
    assert [row["consumer"] for row in rows] == CONSUMERS
    assert [row["resources"] for row in rows] == [{"VCPU": 1, "VGPU": 4}, {"VCPU": 2}]
    assert {row["server_name"] for row in rows} == {None}
    assert all(row["project_id"] and row["user_id"] for row in rows)
    assert "consumer_type" in rows[0]
    assert "consumer_type" not in openstack(LIST, "cn1", version="1.37")[0]
    table = openstack.run(LIST, uuid)
    assert table.code == 0
    assert "VGPU=4" in table.stdout
    assert "Without the names of servers: " in table.stderr


def test_an_empty_provider_has_no_rows_and_an_unknown_one_is_an_error(
    openstack: shell.OpenStack,
) -> None:
    create(openstack, "cn1", VCPU=16)
    assert openstack.run(LIST, "cn1", "-f", "json").messages == ""
    code, message = openstack.fails(LIST, "cn9")
    assert code == 1
    assert "cn9" in message


@pytest.mark.parametrize("target", ["embedded"], indirect=True)
def test_servers_have_their_names_from_nova(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    target.load("12-hosts")
    rows = openstack(LIST, "cmp-0002.lab.example.org", "--os-nova-recording", "12-hosts")
    names = [row["server_name"] for row in rows]
    assert names[:2] == ["al-double", "al-offloaded"]
    assert names[-2:] == [None, None]
