# SPDX-License-Identifier: Apache-2.0
"""Every command with a plan prints the first of many rows on a terminal, and all elsewhere."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator

import pytest

from osc_placement.v1.common import plan_command
from osc_placement.v1.output import tables
from tests.support.commands import PRESENT, load
from tests.support.peer import fixtures, shell, target as targets

AMEND = ("resource provider inventory amend", "--all", "--resource", "VCPU:allocation_ratio=2")
RECORDED = ("--os-nova-recording", "12-hosts")
MOVES = """\
moves:
- {from: cmp-0012.lab.example.org, resources: {VGPU: 4}, to: {name: gpu0}}
- {from: cmp-0012.lab.example.org, resources: {VGPU: 4}, to: {name: gpu1}}
"""
#: ``{words of a command: arguments}`` for each command that prints the rows of a plan.
RUNS = {
    AMEND[0]: (*AMEND[1:], "--dry-run"),
    "resource provider trait add": ("--all", "--trait", "HW_CPU_X86_SSE42", "--dry-run"),
    "resource provider trait remove": ("--all", "--trait", "HW_CPU_X86_AVX2", "--dry-run"),
    "resource provider aggregate add": ("--all", "--aggregate", "UUID", "--dry-run"),
    "resource provider aggregate remove": ("--all", "--aggregate", "UUID", "--dry-run"),
    "placement aggregate mirror": (*RECORDED, "--dry-run"),
    "placement allocation audit": (*RECORDED, "--repair", "--dry-run"),
    "placement allocation heal": (*RECORDED, "--dry-run"),
    "placement host retire": (*(f"cmp-000{n}" for n in range(1, 6)), *RECORDED, "--dry-run"),
    "placement migration run": (*RECORDED, "--dry-run"),
    "placement plan apply": ("plan.json", "--dry-run"),
    "placement plan show": ("plan.json",),
    "placement plan undo": ("plan.json", "--dry-run"),
    "placement provider audit": (*RECORDED, "--repair", "--dry-run"),
    "placement reshape": ("moves.yaml", "--dry-run", "--allow", "nova-owned"),
}
AUDITS = ("placement allocation audit", "placement provider audit")
UUID = "04223a25-417d-580c-a706-c4cd6aa4087d"


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    yield from fixtures.embedded("embedded", tmp_path)


@pytest.fixture
def cloud(
    openstack: shell.OpenStack, target: targets.Target, monkeypatch: pytest.MonkeyPatch
) -> shell.OpenStack:
    """The sample cloud with a plan and a document, and two rows are many."""
    target.load("12-hosts")
    openstack.do(*AMEND, "--plan-out", "plan.json")
    vgpu = ("--amend", "--resource", "VGPU=8")
    openstack.do("resource provider inventory set", "cmp-0012.lab.example.org", *vgpu)
    hosts = ("--name-glob", "cmp-000[1-4].*")
    openstack.do("resource provider trait add", *hosts, "--trait", "COMPUTE_STATUS_DISABLED")
    pathlib.Path("moves.yaml").write_text(MOVES)
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    return openstack


def run(openstack: shell.OpenStack, command: str, *more: str) -> shell.Outcome:
    arguments = [UUID if word == "UUID" else word for word in RUNS[command]]
    outcome = openstack.run(command, *arguments, *more)
    assert outcome.code == 0 or (command in AUDITS and outcome.code == 3)
    return outcome


def lines(text: str) -> list[tuple[str, ...]]:
    """The lines of tables, without the widths of their columns."""
    drawn = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.split("|")) for line in drawn]


def test_the_list_has_every_command_that_prints_a_plan() -> None:
    plans = {
        entry.replace("_", " ")
        for entry, path in PRESENT.items()
        if issubclass(load(path), plan_command.PlanCommand)
    }
    assert plans == set(RUNS)


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
