"""``placement migration``: nova-manage's way of doing things in batches."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.peer import shell
from tests.peer import target as targets

RUN = "placement migration run"
NAME = "mirror_host_aggregates"


@pytest.fixture(autouse=True)
def cloud(target: targets.Target) -> None:
    target.load("12-hosts")


def run(openstack: shell.OpenStack, *arguments: str) -> tuple[int, Any, str]:
    ended = openstack.run(RUN, "--nova-answers", "12-hosts", *arguments, "-f", "json")
    return ended.code, json.loads(ended.stdout), ended.stderr


def row(found: int, done: int) -> list[dict[str, Any]]:
    return [{"migration": NAME, "found": found, "done": done}]


def test_batches_go_on_until_nothing_is_left(openstack: shell.OpenStack) -> None:
    ended = [run(openstack, "--max-count", "6")[:2] for _ in range(3)]
    assert ended == [(1, row(11, 6)), (1, row(5, 5)), (0, row(0, 0))]


def test_without_a_limit_all_is_done_at_once_and_what_is_left_alone_is_told(
    openstack: shell.OpenStack,
) -> None:
    code, rows, said = run(openstack)
    assert (code, rows) == (0, row(11, 11))
    assert "3 left alone" in said
    assert "placement plan undo" in said


def test_a_count_that_makes_no_sense_is_127_and_none_at_all_is_2(
    openstack: shell.OpenStack,
) -> None:
    assert run(openstack, "--max-count", "0")[0] == 127
    assert openstack.run(RUN, "--max-count", "many").code == 2


def test_the_list_needs_no_cloud() -> None:
    ended = shell.run(["placement", "migration", "list", "-f", "json"])
    assert [row["migration"] for row in json.loads(ended.stdout)] == [NAME]
