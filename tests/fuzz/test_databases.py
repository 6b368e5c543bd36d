# SPDX-License-Identifier: Apache-2.0
"""A database file with any wrong value is refused when it is opened, or served without an error."""

from __future__ import annotations

import json
import pathlib
import random
import shutil
import sqlite3
from typing import Any

import pytest

from osc_placement import server
from osc_placement.server import run
from osc_placement.server.store import errors
from tests.support.in_process import ask

TABLES = ("provider", "consumer", "trait", "resource_class")
VALUES: tuple[Any, ...] = (
    *(None, 0, -1, 2**40, 1.5, float("inf"), "", "x", b"\xff", "\x00", "null", "7", "[]", "{}"),
    *('"x"', "[1]", '{"x": 1}', '{"x": {"VCPU": 1}}', '{"VCPU": {"total": -1}}', "[" * 5000),
    *("00000000-0000-4000-8000-00000000000f", "CUSTOM_X", "é" * 300, "\udbff"),
)
LISTED = ("/resource_providers", "/traits", "/resource_classes", "/usages?project_id=x")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    file = tmp_path_factory.mktemp("database") / "placement.sqlite"
    assert run.main(["--database", str(file), "--load", "12-hosts", "--exit"]) == 0
    return file


def damaged(value: Any, chance: random.Random) -> Any:
    """Another value; for a JSON text also one with a changed part."""
    if isinstance(value, str) and value[:1] in "[{" and chance.random() < 0.6:
        document = json.loads(value)
        part, key = document, None
        while isinstance(part, dict | list) and part:
            holder = part
            key = chance.choice(list(part) if isinstance(part, dict) else range(len(part)))
            part = part[key]
            if chance.random() < 0.3:
                break
        if key is not None:
            holder[key] = chance.choice((None, -1, 2**40, "x", [], {}, 1.5, True))
            return json.dumps(document)
    return chance.choice(VALUES)


def damage(path: pathlib.Path, chance: random.Random) -> None:
    """Change one value of one row."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    table = chance.choice(TABLES)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column = chance.choice(columns)
    rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    if rows:
        number, value = chance.choice(rows)
        statement = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE rowid = ?"
        try:
            with connection:
                connection.execute(statement, (damaged(value, chance), number))
        except (sqlite3.IntegrityError, UnicodeEncodeError):
            pass
    connection.close()


def test_any_wrong_value_is_refused_or_served(
    original: pathlib.Path, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    refused = 0
    for seed in range(2000 if request.config.getoption("--long") else 60):
        path = tmp_path / "copy.sqlite"
        shutil.copy(original, path)
        damage(path, random.Random(seed))
        try:
            app = server.create_app(str(path))
        except errors.StoreError as error:
            text = str(error)
            refused += 1
            app = None
        if app is None:
            assert str(path) in text, seed
            continue
        for listed in LISTED:
            assert ask(app, listed).status_code < 500, (seed, listed)
        app.close()
    assert refused > 10
