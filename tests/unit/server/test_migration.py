# SPDX-License-Identifier: Apache-2.0
"""Files of every version of the schema can be opened.

``data/N.sql`` is a dump of a file that version N of the schema wrote and never changes;
``data/1.json`` is the content of each of them.
"""

from __future__ import annotations

import json
import pathlib
import sqlite3
from typing import Any

import pytest

from osc_placement import server
from osc_placement.server.store import database_file, errors

DATA = pathlib.Path(__file__).with_name("data")
VERSIONS = range(1, len(database_file.SCHEMA_STEPS) + 1)
NAMES = [step.name for step in database_file.SCHEMA_STEPS]


def restored(version: int, folder: pathlib.Path) -> pathlib.Path:
    """A database of that version."""
    file = folder / f"{version}.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript((DATA / f"{version}.sql").read_text(encoding="utf-8"))
    connection.close()
    return file


def content() -> Any:
    return json.loads((DATA / "1.json").read_text(encoding="utf-8"))


def opened(file: pathlib.Path) -> Any:
    app = server.create_app(str(file))
    document = app.export()
    app.close()
    return document


def steps(file: pathlib.Path) -> list[str] | None:
    connection = sqlite3.connect(file)
    try:
        return database_file.applied_steps(connection)
    finally:
        connection.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_each_version_is_opened_with_its_content(
    version: int, tmp_path: pathlib.Path
) -> None:
    file = restored(version, tmp_path)
    # The names of released steps never change.
    assert steps(file) == NAMES[:version]
    assert opened(file) == content()
    assert steps(file) == NAMES
    assert opened(file) == content()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_pending_step_is_done_once(
    version: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = database_file.SchemaStep(
        "2099-01 colours", ("ALTER TABLE provider ADD COLUMN colour TEXT",)
    )
    monkeypatch.setattr(database_file, "SCHEMA_STEPS", (*database_file.SCHEMA_STEPS, step))
    file = restored(version, tmp_path)
    for _ in range(2):
        assert opened(file) == content()
        assert steps(file) == [*NAMES, step.name]


def test_a_failing_step_leaves_the_file_unchanged(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = ("ALTER TABLE provider ADD COLUMN colour TEXT", "ALTER TABLE nowhere ADD COLUMN a")
    file = restored(VERSIONS[-1], tmp_path)
    with monkeypatch.context() as patched:
        broken = database_file.SchemaStep("2099-01 broken", statements)
        patched.setattr(database_file, "SCHEMA_STEPS", (*database_file.SCHEMA_STEPS, broken))
        with pytest.raises(errors.NotWritable, match="no such table: nowhere"):
            opened(file)
    assert steps(file) == NAMES
    assert opened(file) == content()
