# SPDX-License-Identifier: Apache-2.0
"""A command with a plan prints the first of many rows on a terminal, and all elsewhere."""

from __future__ import annotations

import json
import re

import pytest

from osc_placement.v1.output import tables
from tests.support.peer import fixtures, shell, target as targets

AMEND = ("resource provider inventory amend", "--all", "--resource", "VCPU:allocation_ratio=2")
RECORDED = ("--os-nova-recording", "12-hosts")
#: ``{words of a command: arguments}``: rows of a plan, of findings, and commands with own tables.
RUNS = {
    AMEND[0]: (*AMEND[1:], "--dry-run"),
    "placement allocation audit": (*RECORDED, "--repair", "--dry-run"),
    "placement migration run": (*RECORDED, "--dry-run"),
    "placement plan show": ("plan.json",),
}

target = fixtures.only("embedded")


@pytest.fixture
def cloud(
    openstack: shell.OpenStack, target: targets.Target, monkeypatch: pytest.MonkeyPatch
) -> shell.OpenStack:
    """The sample cloud with a plan, and two rows are many."""
    target.load("12-hosts")
    openstack.do(*AMEND, "--plan-out", "plan.json")
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    return openstack


def run(openstack: shell.OpenStack, command: str, *more: str) -> shell.Outcome:
    outcome = openstack.run(command, *RUNS[command], *more)
    assert outcome.code == (3 if command == "placement allocation audit" else 0)
    return outcome


def lines(text: str) -> list[tuple[str, ...]]:
    """The lines of tables, without the widths of their columns."""
    drawn = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.split("|")) for line in drawn]


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize("command", RUNS)
def test_a_terminal_shows_the_first_rows_unless_all_are_requested(
    command: str, cloud: shell.OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = run(cloud, command)
    data = json.loads(run(cloud, command, "-f", "json").stdout)
    monkeypatch.setattr(tables, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "1000")
    on_terminal = run(cloud, command)
    line = re.search(r"^(\d+) of (\d+) rows: --rows all, or -f json$", on_terminal.stderr, re.M)
    assert line
    assert tables.MOST_ROWS <= int(line[1]) < int(line[2])
    first, total = (lines(text) for text in (on_terminal.stdout, elsewhere.stdout))
    assert len(first) < len(total)
    assert set(first) <= set(total)
    assert "--rows all" not in elsewhere.stderr
    assert run(cloud, command, "--rows", "all").stdout == elsewhere.stdout
    assert json.loads(run(cloud, command, "-f", "json").stdout) == data
    one_column = run(cloud, command, "-c", list(data[0])[-1])
    assert "--rows all" not in one_column.stderr


def test_unchanged_rows_are_omitted_in_every_format(cloud: shell.OpenStack) -> None:
    cloud.do(AMEND[0], "--name-glob", "cmp-*", *AMEND[2:])
    again = (AMEND[0], "--name-glob", "cmp-*", *AMEND[2:], "--dry-run")
    statuses = {row["status"] for row in cloud(*again)}
    assert "unchanged" in statuses
    left = {row["status"] for row in cloud(*again, "--rows", "changed")}
    assert left == statuses - {"unchanged"}
    assert "unchanged" not in cloud.do(*again, "--rows", "changed")
    migrations = cloud("placement migration run", *RECORDED, "--dry-run", "--rows", "changed")
    assert all(row["found"] for row in migrations)
