# SPDX-License-Identifier: Apache-2.0
"""JSON, YAML, CSV and value output of every command contain data only.

No drawing characters, no two numbers in one text ("2/8"), no notation of Python.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from osc_placement.v1.common import base
from tests.support.commands import COMMANDS, PRESENT, load
from tests.support.peer import shell, target as targets

HOST = "cmp-0012.lab.example.org"
AGGREGATE = "04223a25-417d-580c-a706-c4cd6aa4087d"
SERVER = "0c57cadb-fc21-585e-9f39-000d38c633c1"
OWNER = ("--project-id", "p1", "--user-id", "u1")
RECORDED = ("--os-nova-recording", "12-hosts")
#: Commands whose exit code 1 is a warning.
WARNING = ("placement status show", "placement upgrade check")
DRY = "--dry-run"

#: ``{command: its arguments}``, several where options add columns.
RUNS: dict[str, list[tuple[str, ...]]] = {
    "allocation candidate explain": [("--resource", "VCPU=60", "--required", "CUSTOM_RACK_A")],
    "allocation candidate list": [
        ("--resource", "VCPU=1"),
        ("--resource", "VCPU=1", "--long"),
    ],
    "placement aggregate mirror": [(*RECORDED, DRY), (*RECORDED, DRY, "--ratios")],
    "placement allocation audit": [RECORDED, (*RECORDED, "--repair", DRY)],
    "placement allocation heal": [(*RECORDED, DRY)],
    "placement host roll": [("--zone", "az2", *RECORDED)],
    "placement capacity balance": [("--zone", "az2", "--within", "0.1", *RECORDED)],
    "placement capacity make-room": [
        ("--flavor", "m1.small", "--count", "5000", "--max-moves", "1", *RECORDED)
    ],
    "placement capacity show": [("--resource", "VCPU=1"), ("--resource", "VCPU=1", "--by", "host")],
    "placement flavor audit": [("m1.small", *RECORDED)],
    "placement health show": [RECORDED],
    "placement host check": [(HOST, "--no-nova")],
    "placement host drain": [(HOST, *RECORDED)],
    "placement server check": [RECORDED],
    "placement host retire": [(HOST, *RECORDED, DRY)],
    "placement migration list": [()],
    "placement migration run": [(*RECORDED, DRY)],
    "placement plan apply": [("plan.json", DRY)],
    "placement plan list": [()],
    "placement plan show": [("plan.json",)],
    "placement plan undo": [("plan.json", DRY)],
    "placement provider audit": [RECORDED, (*RECORDED, "--repair", DRY)],
    "placement report write": [("--output", "new.html", *RECORDED)],
    "placement reshape": [("moves.yaml", DRY, "--allow", "nova-owned")],
    "placement snapshot diff": [("first.snapshot", "second.snapshot")],
    "placement query replay": [("first.snapshot", "second.snapshot", "--queries", "queries.txt")],
    "placement snapshot save": [("new.snapshot",)],
    "placement snapshot show": [("first.snapshot",)],
    "placement status show": [(), ("--check",)],
    "placement upgrade check": [("--from", "2025.1", "--to", "2026.1", *RECORDED)],
    "resource class list": [()],
    "resource class show": [("VCPU",)],
    "resource provider aggregate add": [(HOST, "--aggregate", AGGREGATE, DRY)],
    "resource provider aggregate list": [(HOST,)],
    "resource provider aggregate remove": [("cmp-0007.lab.example.org", "--aggregate", AGGREGATE)],
    "resource provider aggregate set": [
        ("cmp-0011.lab.example.org", "--aggregate", AGGREGATE, "--generation", "2")
    ],
    "resource provider allocation amend": [(SERVER, "--allocation", f"rp={HOST},VCPU=2")],
    "resource provider allocation set": [
        (SERVER, "--allocation", f"rp={HOST},VCPU=3,MEMORY_MB=64", *OWNER)
    ],
    "resource provider allocation show": [(SERVER,), (SERVER, "--long")],
    "resource provider allocation unset": [(SERVER, "--resource-class", "VGPU")],
    "resource provider consumer list": [(HOST, *RECORDED)],
    "resource provider create": [("new-host",)],
    "resource provider inventory amend": [(HOST, "--resource", "VCPU:total=99", DRY)],
    "resource provider inventory class set": [(HOST, "VCPU", "--total", "64")],
    "resource provider inventory list": [(HOST,)],
    "resource provider inventory set": [
        (HOST, "--amend", "--resource", "VGPU=9"),
        (AGGREGATE, "--aggregate", "--amend", "--resource", "DISK_GB:reserved=4"),
    ],
    "resource provider inventory show": [(HOST, "VCPU")],
    "resource provider list": [(), ("--long",)],
    "resource provider set": [(HOST, "--name", "renamed")],
    "resource provider show": [(HOST,), (HOST, "--allocations")],
    "resource provider trait add": [(HOST, "--trait", "HW_CPU_X86_SSE42", DRY)],
    "resource provider trait list": [(HOST,)],
    "resource provider trait compare": [("--all",)],
    "resource provider trait remove": [(HOST, "--trait", "HW_CPU_X86_SSE42", DRY)],
    "resource provider trait set": [(HOST, "--trait", "HW_CPU_X86_SSE42")],
    "resource provider tree show": [("cmp-0006.lab.example.org", "--long")],
    "resource provider unset": [("--parent-provider", "cmp-0006:NIC Switch agent")],
    "resource provider usage show": [(HOST,)],
    "resource usage show": [("p1",), ("p1", "--long")],
    "trait list": [()],
    "trait show": [("HW_CPU_X86_AVX2",)],
}

MOVES = f"""\
moves:
- {{from: {HOST}, resources: {{VGPU: 4}}, to: {{name: gpu0}}}}
- {{from: {HOST}, resources: {{VGPU: 4}}, to: {{name: gpu1}}}}
assign: {{{SERVER}: gpu0}}
"""

#: The text of upstream's plugin, which scripts parse.
UPSTREAMS_COLUMN = "inventory used/capacity"

#: The columns of upstream's commands whose structures are Python's text in CSV and values.
PYTHON_TEXT = {"allocations", "resources"}
#: A dictionary in Python's text, two levels deep at most inside another.
DICTIONARY = re.compile(r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}")

#: New UUIDs, and seconds.
DIFFERENT_EACH_TIME = {"placement snapshot save", "resource provider create"}

DRAWN = re.compile("[│├└─┌┐┘┬┴┼]")
PAIR = re.compile(r"(?<![\w.-])\d+/\d+(?![\w.-])")
PYTHON = re.compile(r"\b(True|False)\b|[{\[(]'|': |<\w+\.[\w.]+ |\bdatetime\.")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a cloud that has a consumer of VGPU, a plan, moves and a snapshot."""
    folder = tmp_path_factory.mktemp("cloud")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        cloud = targets.OnFile(folder / "cloud.sqlite")
        cloud.load("12-hosts")
        openstack = shell.OpenStack(cloud)
        (folder / "moves.yaml").write_text(MOVES)
        (folder / "queries.txt").write_text("resources=VCPU:1\n")
        inventory = "resource provider inventory"
        openstack.do(f"{inventory} set", HOST, "--amend", "--resource", "VGPU=8")
        allocation = ("--allocation", f"rp={HOST},VGPU=2,VCPU=1", *OWNER)
        openstack.do("resource provider allocation set", SERVER, *allocation)
        openstack.do("placement snapshot save", "first.snapshot")
        amend = ("--resource", "VCPU:reserved+=1", "--plan-out", "plan.json")
        openstack.do(f"{inventory} amend", HOST, *amend)
        openstack.do("placement snapshot save", "second.snapshot")
    shutil.copytree(folder, _pristine(folder))
    return folder


def _pristine(folder: pathlib.Path) -> pathlib.Path:
    """The copy of a prepared folder; a worker may prepare several folders."""
    return folder.with_name(f"{folder.name}-pristine")


class Cloud:
    """Runs each command on the prepared folder, without the changes of earlier commands."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._openstack = shell.OpenStack(targets.OnFile(folder / "cloud.sqlite"))

    def run(self, command: str, *arguments: str) -> str:
        """The stdout of a command that succeeds or finds something."""
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(_pristine(self._folder), self._folder, dirs_exist_ok=True)
        outcome = self._openstack.run(command, *arguments)
        warned = outcome.code == 1 and command in WARNING
        assert warned or outcome.code in (0, 3), outcome
        return outcome.stdout


@pytest.fixture
def cloud(prepared: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    monkeypatch.chdir(prepared)
    monkeypatch.setenv("XDG_STATE_HOME", str(prepared / "state"))
    return Cloud(prepared)


def test_the_list_has_every_command_with_output() -> None:
    with_output = {
        entry.replace("_", " ")
        for entry, path in PRESENT.items()
        if issubclass(load(path), base.Lister | base.ShowOne)
    }
    assert with_output == set(RUNS)


def texts(value: Any, column: str = "") -> Iterator[tuple[str, str]]:
    """``(column, text)`` of every text in an answer."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield column, key
            yield from texts(inner, column or key)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, column)
    elif isinstance(value, str):
        yield column, value


def problems(text: str, column: str = "") -> list[str]:
    patterns = [pattern.pattern for pattern in (DRAWN, PYTHON) if pattern.search(text)]
    if column != UPSTREAMS_COLUMN and PAIR.search(text):
        patterns.append(PAIR.pattern)
    return patterns


def formats_of(command: str) -> list[str]:
    is_list = issubclass(load(COMMANDS[command.replace(" ", "_")]), base.Lister)
    return ["json", "yaml", "value", *(["csv"] if is_list else [])]


@pytest.mark.parametrize("command", RUNS)
def test_the_output_for_programs_is_data(command: str, cloud: Cloud) -> None:
    for arguments in RUNS[command]:
        shown = {name: cloud.run(command, *arguments, "-f", name) for name in formats_of(command)}
        data = json.loads(shown["json"])
        assert [problem for column, text in texts(data) for problem in problems(text, column)] == []
        if command not in DIFFERENT_EACH_TIME:
            assert yaml.safe_load(shown["yaml"]) == data
        python_text = PYTHON_TEXT & columns_of(data) if is_upstreams(command) else set()
        check_csv(shown.get("csv", ""), data, python_text)
        value = shown["value"]
        if python_text:
            structures = [row[name] for row in rows_of(data) for name in sorted(python_text)]
            written = [ast.literal_eval(text) for text in DICTIONARY.findall(value)]
            assert written == structures
            value = DICTIONARY.sub("", value)
        exempt = UPSTREAMS_COLUMN if command == "allocation candidate list" else ""
        assert problems(value, exempt) == []


def rows_of(data: Any) -> list[dict[str, Any]]:
    return data if isinstance(data, list) else [data]


def columns_of(data: Any) -> set[str]:
    return {key for row in rows_of(data) for key in row}


def is_upstreams(command: str) -> bool:
    """Whether the tables of the command are cliff's own."""
    return not issubclass(load(COMMANDS[command.replace(" ", "_")]), base.ReportCommand)


def check_csv(text: str, data: Any, python_text: set[str]) -> None:
    """Each cell is data, and a structure is JSON, or Python's text in these columns."""
    for at, row in enumerate(csv.DictReader(io.StringIO(text))):
        for column, cell in row.items():
            if column in python_text:
                assert ast.literal_eval(cell) == data[at][column]
                continue
            assert not problems(cell, column)
            if cell[:1] in ("{", "["):
                json.loads(cell)
