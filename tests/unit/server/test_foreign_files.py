# SPDX-License-Identifier: Apache-2.0
"""Files from elsewhere: damaged records are named, and new files are private."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sqlite3
import stat
from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import server
from osc_placement.server import run
from osc_placement.server.store import database_file, errors
from osc_placement.testing import service
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.snapshot import file, save

MISSING = object()
METADATA: dict[str, tuple[Any, ...]] = {
    "origin": (None, 7, [], MISSING),
    "target": (None, {}, MISSING),
    "started": (None, "now", 1e300, -1.5, MISSING),
    "finished": ("now", None, []),
    "nova_saved": ("now",),
    "microversion": (None, 1.39),
    "server_versions": (None, 7),
    "program": (None, []),
    "owners": (None, "yes", 1),
    "requests": (None, "7", 1.5),
    "digest": (None, 7),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A snapshot of the sample cloud, which no test changes."""
    with service.InProcessPlacement(load="12-hosts") as placement:
        request = save.SaveRequest(tmp_path_factory.mktemp("saved") / "cloud.sqlite")
        save.save(placement.client(), request, ReadContext(workers=1))
    return request.path


@pytest.fixture
def path(saved: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the snapshot, with its permissions."""
    return pathlib.Path(shutil.copy(saved, tmp_path))


def execute(path: pathlib.Path, script: str, *parameters: Any) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    if parameters:
        connection.execute(script, parameters)
    else:
        connection.executescript(script)
    connection.commit()
    connection.close()


def opened_to_read(path: pathlib.Path) -> None:
    with file.SnapshotFile(path):
        pass


OPENINGS: tuple[Callable[[pathlib.Path], object], ...] = (
    lambda path: server.create_app(str(path)).close(),
    opened_to_read,
)


@pytest.mark.parametrize("field", METADATA)
def test_wrong_and_missing_metadata_is_named_by_every_opening(
    path: pathlib.Path, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in METADATA[field]:
        if value is MISSING:
            execute(path, "DELETE FROM snapshot WHERE key = ?", field)
        else:
            execute(path, "UPDATE snapshot SET value = ? WHERE key = ?", json.dumps(value), field)
        for opening in OPENINGS:
            with pytest.raises(errors.NotADatabase, match=rf"{path} is damaged \({field} "):
                opening(path)
        assert run.main(["--check", str(path)]) == 1
        message = capsys.readouterr().err
        assert f"{field} " in message
        assert message.count("\n") == 1


def test_metadata_that_this_release_does_not_have_is_ignored(path: pathlib.Path) -> None:
    execute(path, "INSERT INTO snapshot VALUES ('anonymized', 'true')")
    for opening in OPENINGS:
        opening(path)
    assert file.summarize(path).is_unchanged


@pytest.mark.parametrize("value", [b"\xff", 7, "not json", None])
def test_metadata_that_is_not_json_is_refused(path: pathlib.Path, value: object) -> None:
    execute(path, "UPDATE OR IGNORE snapshot SET value = ? WHERE key = 'origin'", value or "")
    with pytest.raises(errors.NotADatabase, match="origin"):
        opened_to_read(path)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("provider", "generation", 2**63 - 1),
        ("provider", "generation", 2**31),
        ("consumer", "generation", 2**63 - 1),
        ("provider", "name", "x" * 201),
        ("consumer", "project_id", "x" * 256),
        ("consumer", "user_id", "x" * 256),
        ("consumer", "consumer_type", "X" * 256),
        ("provider", "name", "x" * 2_000_000),
        ("trait", "name", "X" * 2_000_000),
    ],
)
def test_amounts_and_names_that_placement_cannot_have_are_refused(
    path: pathlib.Path,
    table: str,
    column: str,
    value: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # In place of 256 MiB, so that the test needs no such file.
    monkeypatch.setattr(database_file, "LONGEST_TEXT", 1_000_000)
    execute(path, f"INSERT OR IGNORE INTO {table} (name, updated_at) VALUES ('X', 1)") if (
        table == "trait"
    ) else None
    where = f"rowid = (SELECT MIN(rowid) FROM {table})"
    execute(path, f"UPDATE {table} SET {column} = ? WHERE {where}", value)
    with pytest.raises(errors.NotADatabase, match=str(path)) as caught:
        server.create_app(str(path))
    assert len(str(caught.value)) < 2000
    assert run.main(["--check", str(path)]) == 1
    assert len(capsys.readouterr().err) < 2000


@pytest.mark.parametrize(
    "script",
    [
        "INSERT INTO recording VALUES ('GET /v2.1/flavors', 'no json')",
        "INSERT INTO recording VALUES ('GET /v2.1/flavors', X'ff')",
        "INSERT INTO snapshot_note VALUES (X'ff', 'a note')",
        "INSERT INTO snapshot_note VALUES ('x', X'ff')",
    ],
)
def test_the_check_finds_damaged_recordings_and_notes(
    path: pathlib.Path, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(path, script)
    assert run.main(["--check", str(path)]) == 1
    assert "is damaged (table" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["no json", "[]", "7", '{"VCPU": 1}'])
def test_a_damaged_record_is_reported_by_the_commands_that_read_the_file(
    path: pathlib.Path, text: str
) -> None:
    execute(path, "UPDATE consumer SET allocations = ?", text)
    execute(path, "UPDATE provider SET inventories = ?, traits = ?", text, "7")
    with pytest.raises(Exception, match=str(path)):
        file.summarize(path)
    with file.SnapshotFile(path) as opened, pytest.raises(errors.StoreError, match=str(path)):
        list(opened.providers())


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def victim(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "elsewhere" / "victim"


def test_a_new_database_is_private_and_does_not_follow_a_link(
    tmp_path: pathlib.Path, victim: pathlib.Path
) -> None:
    new = tmp_path / "new.sqlite"
    before = os.umask(0)
    try:
        server.create_app(str(new)).close()
    finally:
        os.umask(before)
    assert mode(new) == 0o600
    dangling = tmp_path / "dangling.sqlite"
    dangling.symlink_to(victim)
    with pytest.raises(errors.NotWritable, match="cannot be created"):
        server.create_app(str(dangling))
    assert not victim.exists()
    # A link to a database that exists is the operator's own.
    (tmp_path / "link.sqlite").symlink_to(new)
    server.create_app(str(tmp_path / "link.sqlite")).close()


def test_an_export_is_private_and_does_not_follow_a_link(
    path: pathlib.Path, tmp_path: pathlib.Path, victim: pathlib.Path
) -> None:
    goal = tmp_path / "goal"
    (tmp_path / "goal.part").symlink_to(victim)
    assert run.main(["--database", str(path), "--export", str(goal)]) == 0
    assert json.loads(goal.read_text())["providers"]
    assert mode(goal) == 0o600
    assert not victim.exists()
