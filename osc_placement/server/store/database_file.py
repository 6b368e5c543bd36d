"""Connections to the SQLite files of the store and of snapshots."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Iterator

from osc_placement.server.store import errors, migration

#: How long a connection waits for another process that has locked the file.
BUSY_SECONDS = 5.0

#: Bytes of memory for the pages of a snapshot: without a limit the cache grows with the file.
_CACHE_BYTES = 16 * 1024 * 1024


def open_file(path: str) -> sqlite3.Connection:
    """A connection to a file that is created or migrated, and locked for this process.

    Raises StoreError if the file cannot be used.
    """
    connection = _open(path)
    try:
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_private(path: str) -> sqlite3.Connection:
    """As ``open_file``, for a snapshot: with mode 0600 if it is created, and limited memory."""
    create_private(path)
    connection = open_file(path)
    _limit_cache(connection)
    return connection


def create_private(path: str) -> None:
    """Create a file with mode 0600, because a snapshot contains projects and users.

    An error is not reported here: opening the file reports it.
    """
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


@contextlib.contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """A connection that only reads. Errors: StoreError, which names the file."""
    connection = open_to_read(path)
    try:
        with explained(path):
            yield connection
    finally:
        connection.close()


def open_to_read(path: str) -> sqlite3.Connection:
    """A connection that only reads a snapshot. Errors: StoreError, which names the file."""
    if not os.path.isfile(path):
        raise errors.NotASnapshot(f"the snapshot {path} does not exist, or is not a file")
    with explained(path):
        uri = f"{pathlib.Path(path).resolve().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True)
        try:
            _limit_cache(connection)
            done = migration.applied(connection)
        except BaseException:
            connection.close()
            raise
    reason = _unreadable(done)
    if reason:
        connection.close()
        raise errors.NotASnapshot(f"{path} is not a snapshot: {reason}")
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
        raise errors.NotADatabase(f"the file {path} is not a snapshot: {error}") from error


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
    try:
        connection = sqlite3.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise errors.NotWritable(f"the database {path} cannot be opened: {error}") from error
    return connection


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        done = migration.applied(connection)
        if done is None:
            raise errors.NotADatabase(
                f"{path} is an SQLite file of another program: choose another file"
            )
        newer = migration.unknown(done)
        if newer:
            raise errors.NewerVersion(
                f"the database {path} belongs to a newer version of osc-placement"
                f" (it has {newer[0]!r}): update osc-placement, or choose another file"
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        for step in migration.pending(done):
            migration.apply(connection, step, first=not done)
            done.append(step.name)
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise errors.InUse(
                f"the database {path} is in use by another process: end it, or work on a copy"
            ) from error
        raise errors.NotWritable(f"the database {path} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise errors.NotADatabase(
            f"{path} is not a Placement database ({error}): choose another file"
        ) from error


def _unreadable(done: list[str] | None) -> str:
    """Why a file with these migration steps cannot be read; empty if it can."""
    if done is None:
        return "it is an SQLite file of another program"
    newer = migration.unknown(done)
    if newer:
        return f"a newer version of osc-placement wrote it (it has {newer[0]!r})"
    if migration.pending(done):
        return "it has no records, or an older version of osc-placement wrote it"
    return ""


def _limit_cache(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE_BYTES // 1024}")
