# SPDX-License-Identifier: Apache-2.0
"""The SQLite files of the store and of snapshots: connections, and the schema as named steps.

Files of earlier versions can be opened. Each step of the schema and its record are one transaction.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from osc_placement.server.store import errors

#: How long a connection waits for another process that has locked the file.
BUSY_SECONDS = 5.0

#: Bytes of the longest text that is read: responses of nova are the longest that a file has.
LONGEST_TEXT = 256 * 1024 * 1024

#: Bytes of memory for the pages of a snapshot: without a limit the cache grows with the file.
_CACHE_BYTES = 16 * 1024 * 1024


def open_file(path: str) -> sqlite3.Connection:
    """A connection to a file that is created or migrated, and locked for this process.

    Raises StoreError if the file cannot be used.
    """
    connection = _open(path)
    try:
        with explained(path):
            _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_own(path: str) -> sqlite3.Connection:
    """As ``open_file``, for a file that only this program writes."""
    connection = open_file(path)
    _limit_cache(connection)
    return connection


def create(path: str) -> None:
    """Create a new, empty file with mode 0600, because records name projects and users.

    A link at the path is not followed. Errors: NotWritable.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_RDWR, 0o600))
    except OSError as error:
        raise errors.NotWritable(f"the file {path} cannot be created: {error.strerror}") from error


def open_to_read(path: str) -> sqlite3.Connection:
    """A connection that only reads a snapshot. Errors: StoreError, which names the file."""
    if not os.path.isfile(path):
        raise errors.NotASnapshot(f"the snapshot {path} does not exist, or is not a file")
    with explained(path):
        uri = f"{pathlib.Path(path).resolve().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            _limit_cache(connection)
            _limit(connection)
            if pending_steps(_checked_steps(connection, path)):
                raise errors.NotASnapshot(
                    f"{path} is not a snapshot: it has no records, or an older version of"
                    " osc-placement wrote it"
                )
        except BaseException:
            connection.close()
            raise
    return connection


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an error of SQLite into a StoreError that names the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise errors.InUse(
                f"the file {path} is in use by another process: wait for it to end, or work on"
                " a copy"
            ) from error
        raise errors.NotWritable(f"the file {path} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise errors.NotADatabase(
            f"{path} is not a Placement database ({error}): choose another file"
        ) from error
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise errors.NotADatabase(
            f"the file {path} has a damaged record ({error}): restore it from a copy"
        ) from error


def _open(path: str) -> sqlite3.Connection:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise errors.NotWritable(
            f"the database {path} cannot be created: folder {folder} does not exist"
        )
    if os.path.isdir(path):
        raise errors.NotADatabase(f"{path} is a folder, not a database")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise errors.NotWritable(
            f"the database {path} is not writable: change its permissions, or work on a copy"
        )
    if not os.access(folder, os.W_OK):
        raise errors.NotWritable(
            f"the database {path} needs a journal in folder {folder}, which is not"
            " writable: change its permissions, or work on a copy"
        )
    if not os.path.exists(path):
        create(path)
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise errors.NotWritable(f"the database {path} cannot be opened: {error}") from error
    _limit(connection)
    return connection


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    done = _checked_steps(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    for step in pending_steps(done):
        apply_step(connection, step, first=not done)
        done.append(step.name)


def _checked_steps(connection: sqlite3.Connection, path: str) -> list[str]:
    """The names of the steps that a file has. Errors: NotADatabase, NewerVersion."""
    done = applied_steps(connection)
    if done is None:
        raise errors.NotADatabase(
            f"{path} is an SQLite file of another program: choose another file"
        )
    own = {migration.name for migration in SCHEMA_STEPS}
    newer = [name for name in done if name not in own]
    if newer:
        raise errors.NewerVersion(
            f"the database {path} belongs to a newer version of osc-placement"
            f" (it has {newer[0]!r}): update osc-placement, or choose another file"
        )
    return done


def _limit(connection: sqlite3.Connection) -> None:
    """Limit texts, and what a view or a trigger of another program can call."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_TEXT)


def _limit_cache(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_BYTES // 1024}")


class SchemaStep(NamedTuple):
    """One step: a name that never changes, and its statements."""

    name: str
    statements: tuple[str, ...]


SCHEMA_STEPS = (
    SchemaStep(
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
    SchemaStep(
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


def applied_steps(connection: sqlite3.Connection) -> list[str] | None:
    """The names of the steps that a file has; None for a file of another program."""
    schema = dict(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    if not schema:
        return []
    if schema.get("migration") != _LEDGER:
        return None
    return [row[0] for row in connection.execute("SELECT name FROM migration ORDER BY rowid")]


def pending_steps(done: list[str]) -> list[SchemaStep]:
    """The steps that a file lacks, in order."""
    return [migration for migration in SCHEMA_STEPS if migration.name not in done]


def apply_step(connection: sqlite3.Connection, migration: SchemaStep, first: bool) -> None:
    """Execute one step in a transaction."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if first:
            connection.execute(_LEDGER)
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute("INSERT INTO migration (name) VALUES (?)", (migration.name,))
