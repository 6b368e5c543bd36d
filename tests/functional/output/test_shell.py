# SPDX-License-Identifier: Apache-2.0
"""The fixture ``openstack``: a command line has the same result on each target."""

from __future__ import annotations

from tests.support.peer import shell, target as targets

HOST = "cmp-0001.lab.example.org"


def test_rows_are_data(target: targets.Target, openstack: shell.OpenStack) -> None:
    target.load("12-hosts")
    (row,) = openstack("resource provider list", "--name", HOST)
    assert list(row) == [
        "uuid",
        "name",
        "generation",
        "root_provider_uuid",
        "parent_provider_uuid",
    ]
    assert row["name"] == HOST


def test_a_version_can_be_pinned(openstack: shell.OpenStack) -> None:
    row = openstack("resource provider create", "host", version="1.13")
    assert sorted(row) == ["generation", "name", "uuid"]


def test_a_refusal_has_a_code_and_a_reason(openstack: shell.OpenStack) -> None:
    openstack.do("resource provider create", "host")
    code, reason = openstack.fails("resource provider create", "host")
    assert code == 1
    assert "already exists" in reason
    assert "HTTP 409" in reason


def test_a_wrong_command_line_exits_with_2(openstack: shell.OpenStack) -> None:
    outcome = openstack.run("resource provider show")
    assert outcome.code == 2
    assert "the following arguments are required" in outcome.stderr


def test_stderr_is_empty_on_success(openstack: shell.OpenStack) -> None:
    assert openstack.run("resource provider list").messages == ""
