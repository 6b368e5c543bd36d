"""The schema of the SQLite file as named steps; files of earlier versions can be opened.

Each step and its record are one transaction.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import NamedTuple


class Migration(NamedTuple):
    """One step: a name that never changes, and its statements."""

    name: str
    statements: tuple[str, ...]


MIGRATIONS = (
    Migration(
        "2026-11 first schema",
        (
            "CREATE TABLE provider ("
            " uuid TEXT PRIMARY KEY, name TEXT NOT NULL, generation INTEGER NOT NULL,"
            " root_uuid TEXT NOT NULL, parent_uuid TEXT, inventories TEXT NOT NULL,"
            " traits TEXT NOT NULL, aggregates TEXT NOT NULL, updated_at REAL NOT NULL)",
            "CREATE TABLE consumer ("
            " uuid TEXT PRIMARY KEY, generation INTEGER NOT NULL, project_id TEXT NOT NULL,"
            " user_id TEXT NOT NULL, consumer_type TEXT, allocations TEXT NOT NULL,"
            " updated_at REAL NOT NULL)",
            "CREATE TABLE trait (name TEXT PRIMARY KEY, updated_at REAL NOT NULL)",
            "CREATE TABLE resource_class (name TEXT PRIMARY KEY, updated_at REAL NOT NULL)",
        ),
    ),
    Migration(
        "2026-11 snapshots",
        (
            "CREATE TABLE snapshot (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
            "CREATE TABLE snapshot_note ("
            " uuid TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (uuid, note))",
            "CREATE TABLE recording (request TEXT PRIMARY KEY, body TEXT NOT NULL)",
        ),
    ),
)

_LEDGER = "CREATE TABLE migration (name TEXT PRIMARY KEY)"


def applied(connection: sqlite3.Connection) -> list[str] | None:
    """The names of the steps that a file has; None for a file of another program."""
    schema = _schema(connection)
    if not schema:
        return []
    if schema.get("migration") != ("table", _LEDGER):
        return None
    return [row[0] for row in connection.execute("SELECT name FROM migration ORDER BY rowid")]


def foreign(connection: sqlite3.Connection, done: list[str]) -> list[str]:
    """The objects of a file with these steps that no step created, except additional tables.

    Views, triggers and virtual tables run statements; so do generated columns and constraints.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as model:
        model.execute(_LEDGER)
        for migration in MIGRATIONS:
            for statement in migration.statements if migration.name in done else ():
                model.execute(statement)
        expected = _schema(model)
    schema = _schema(connection)
    return [
        f"{kind} {name}"
        for name, (kind, sql) in schema.items()
        if (schema[name] != expected.get(name, ("table", sql)) and kind != "index")
        or sql.upper().startswith("CREATE VIRTUAL")
    ]


def _schema(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """``{name: (kind, statement)}`` of all objects of a file."""
    rows = connection.execute("SELECT name, type, COALESCE(sql, '') FROM sqlite_master")
    return {name: (kind, sql) for name, kind, sql in rows}


def pending(done: list[str]) -> list[Migration]:
    """The steps that a file lacks, in order."""
    return [migration for migration in MIGRATIONS if migration.name not in done]


def unknown(done: list[str]) -> list[str]:
    """The steps of a file that this program does not know, because it is older."""
    known = {migration.name for migration in MIGRATIONS}
    return [name for name in done if name not in known]


def apply(connection: sqlite3.Connection, migration: Migration, first: bool) -> None:
    """Execute one step in a transaction."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if first:
            connection.execute(_LEDGER)
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (migration.name,))
