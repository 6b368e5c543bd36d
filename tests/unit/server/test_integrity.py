# SPDX-License-Identifier: Apache-2.0
"""Damaged, deleted and replaced database files."""

from __future__ import annotations

import pathlib
import sqlite3
from typing import Any

import pytest

from osc_placement import server
from osc_placement.server import run
from osc_placement.server.store import errors
from tests.support.in_process import ask

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A database with the sample cloud of twelve hosts."""
    file = tmp_path / "placement.sqlite"
    assert run.main(["--database", str(file), "--load", "12-hosts", "--export", "/dev/null"]) == 0
    return file


def change(path: pathlib.Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


DAMAGE = {
    "a missing root": (
        "UPDATE provider SET root_uuid = '00000000-0000-4000-8000-00000000000f' WHERE rowid = 1",
        "root 00000000-0000-4000-8000-00000000000f does not exist",
    ),
    "a step size of 0": (
        """UPDATE provider SET inventories = '{"VCPU": {"total": 1, "step_size": 0}}'""",
        "VCPU: step_size is less than 1",
    ),
    "an infinite ratio": (
        """UPDATE provider SET inventories = '{"VCPU": {"total": 1, "allocation_ratio": "x"}}'""",
        "allocation_ratio 'x' is not a number",
    ),
    "inventories of another type": ("UPDATE provider SET inventories = '[1]'", "table provider"),
    "no JSON": ("UPDATE provider SET traits = 'x'", "table provider, row '"),
    "a missing trait": (
        """UPDATE provider SET traits = '["CUSTOM_NONE"]' WHERE rowid = 1""",
        "trait CUSTOM_NONE does not exist",
    ),
    "allocations of another type": ("UPDATE consumer SET allocations = '7'", "table consumer"),
    "an amount of another type": (
        """UPDATE consumer SET allocations = '{"x": {"VCPU": "1"}}'""",
        "VCPU '1' is not a natural number",
    ),
    "an unknown provider": (
        """UPDATE consumer SET allocations = '{"x": {"VCPU": 1}}'""",
        "provider x has no inventory of VCPU",
    ),
    "a generation of another type": ("UPDATE provider SET generation = 'x'", "generation 'x'"),
    "a date of another type": ("UPDATE consumer SET updated_at = 'x'", "updated_at 'x'"),
    "a date that no header has": (
        "UPDATE provider SET updated_at = 1099511627776",
        "is not a date before the year 10000",
    ),
    "an invalid custom name": (
        "INSERT INTO trait VALUES ('x', 1.0)",
        "'x' is not a name",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_with_table_and_row(
    damage: str, path: pathlib.Path, capsys: Capture
) -> None:
    statement, problem = DAMAGE[damage]
    change(path, statement)
    with pytest.raises(errors.NotADatabase) as caught:
        server.create_app(str(path))
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert run.main(["--check", str(path)]) == 1
    assert problem in capsys.readouterr().err


def test_a_check_reports_a_good_file(path: pathlib.Path, capsys: Capture) -> None:
    assert run.main(["--check", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: ")


def test_a_check_creates_no_file(tmp_path: pathlib.Path, capsys: Capture) -> None:
    assert run.main(["--check", str(tmp_path / "none.sqlite")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_or_replaced_file_refuses_writes(path: pathlib.Path, replaced: bool) -> None:
    app = server.create_app(str(path))
    assert ask(app, "/traits/CUSTOM_A", "PUT").status_int == 201
    copy = path.read_bytes()
    path.unlink()
    if replaced:
        path.write_bytes(copy)
    answer = ask(app, "/traits/CUSTOM_B", "PUT")
    assert answer.status_int == 503
    assert "deleted or replaced" in answer.json["errors"][0]["detail"]
    assert ask(app, "/traits/CUSTOM_B").status_int == 404
    app.close()
