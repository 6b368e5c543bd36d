# SPDX-License-Identifier: Apache-2.0
"""A store in an SQLite file: acknowledged changes are on disk.

One row per record, with lists and mappings as JSON, so that a request is a few upserts in one
transaction. The order of rows is the order of creation. One process at a time uses a file.
"""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import sqlite3
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import orjson

from osc_placement.engine import record
from osc_placement.model import allocation, inventory
from osc_placement.model.name import is_symbol
from osc_placement.model.recording import CompressedResponses
from osc_placement.server.store import database_file, document, errors

_PROVIDER = (
    "uuid",
    "name",
    "generation",
    "root_uuid",
    "parent_uuid",
    "inventories",
    "traits",
    "aggregates",
    "updated_at",
)
_CONSUMER = (
    "uuid",
    "generation",
    "project_id",
    "user_id",
    "consumer_type",
    "allocations",
    "updated_at",
)
_NAMED = ("name", "updated_at")


#: Different texts of one column that are kept.
_TEXTS = 65_536

V = TypeVar("V")

#: In seconds since 1970; the header Last-Modified has no later dates.
YEAR_10000 = 253_402_300_800


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotMetadata:
    """How a snapshot was saved.

    ``origin`` identifies the cloud (the endpoint of Placement, or a file), ``target`` also names
    cloud and region. ``started`` and ``finished`` are seconds since the epoch. ``owners``:
    projects, users and types of consumers were read. ``requests`` were sent to Placement.
    ``digest`` covers everything in the state, generations included.
    """

    origin: str
    target: str
    started: float
    finished: float = 0.0
    microversion: str = ""
    server_versions: str = ""
    program: str = ""
    owners: bool = True
    nova_saved: float | None = None
    requests: int = 0
    digest: str = ""


class StoredCloud:
    """What a snapshot file has besides the state.

    ``origin`` identifies the cloud. ``has_owners``: owners of consumers were saved.
    """

    def __init__(
        self, connection: sqlite3.Connection, path: str, metadata: SnapshotMetadata
    ) -> None:
        self._connection, self._path = connection, path
        self.origin = metadata.origin
        self.has_owners = metadata.owners

    @property
    def has_recording(self) -> bool:
        """Whether ``recording`` has responses; their bodies are not read."""
        return has_recording(self._connection)

    def recording(self) -> CompressedResponses:
        """The recorded responses of nova and neutron, ``{"GET /path": body}``; or empty."""
        return read_recording(self._connection, self._path)


class SqliteStore:
    """The records in the file ``path``, which is created if it does not exist.

    Raises StoreError if the file cannot be used.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._connection = database_file.open_file(path)
        try:
            metadata = read_metadata(self._connection, path)
        except BaseException:
            self._connection.close()
            raise
        self.saved_cloud = StoredCloud(self._connection, path, metadata) if metadata else None

    def load(self) -> record.Changes:
        """All records of the file. Raises NotADatabase if it is damaged, with all problems."""
        problems: list[str] = []
        try:
            changes = record.Changes(
                providers=self._read("provider", _PROVIDER, to_provider, problems),
                consumers=self._read("consumer", _CONSUMER, to_consumer, problems),
                traits=self._read("trait", _NAMED, _to_date, problems),
                resource_classes=self._read("resource_class", _NAMED, _to_date, problems),
            )
        except sqlite3.DatabaseError as error:
            problems.append(str(error))
        else:
            problems = problems or document.find_problems(changes)
        if problems:
            raise errors.NotADatabase(
                f"the database {self.path} is damaged ({errors.listed(problems)}):"
                " restore it from a copy"
            )
        return changes

    def check(self) -> None:
        """Raise NotADatabase if the file itself or what a snapshot adds is damaged.

        ``load`` checks the records.
        """
        try:
            problems = [row[0] for row in self._connection.execute("PRAGMA integrity_check")]
        except sqlite3.DatabaseError as error:
            problems = [str(error)]
        if problems != ["ok"]:
            raise errors.NotADatabase(
                f"the database {self.path} is damaged ({errors.listed(problems)}):"
                " restore it from a copy"
            )
        check_additions(self._connection, self.path)

    def _read(
        self,
        table: str,
        columns: tuple[str, ...],
        from_row: Callable[[tuple[Any, ...]], V],
        problems: list[str],
    ) -> dict[str, V]:
        return document.read_records(
            ((row[0], row) for row in _rows(self._connection, table, columns)),
            lambda _, row: from_row(row),
            f"table {table}, row {{!r:.40}}",
            problems,
        )

    def commit(self, changes: record.Changes) -> None:
        """Write the changes in one transaction; they are on disk when it returns."""
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                write_records(self._connection, changes)
        except sqlite3.Error as error:
            raise errors.NotWritable(
                f"the database {self.path} could not be written ({error}); nothing was changed"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def write_records(connection: sqlite3.Connection, changes: record.Changes) -> None:
    """Write the changes, in the caller's transaction."""
    _write(connection, "provider", _PROVIDER, changes.providers, from_provider)
    _write(connection, "consumer", _CONSUMER, changes.consumers, from_consumer)
    _write(connection, "trait", _NAMED, changes.traits, None)
    _write(connection, "resource_class", _NAMED, changes.resource_classes, None)


def _write(
    connection: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    changes: Mapping[str, Any],
    to_row: Any,
) -> None:
    connection.executemany(
        f"DELETE FROM {table} WHERE {columns[0]} = ?",  # noqa: S608
        ((key,) for key, value in changes.items() if value is None),
    )
    connection.executemany(
        _upsert(table, columns),
        (
            to_row(value) if to_row else (key, value)
            for key, value in changes.items()
            if value is not None
        ),
    )


@functools.cache
def _upsert(table: str, columns: tuple[str, ...]) -> str:
    marks = ", ".join("?" * len(columns))
    updates = ", ".join(f"{column} = excluded.{column}" for column in columns[1:])
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        f" ON CONFLICT ({columns[0]}) DO UPDATE SET {updates}"
    )


def providers(connection: sqlite3.Connection) -> Iterator[record.ProviderRecord]:
    """All providers of a file, in order of creation."""
    return map(to_provider, _rows(connection, "provider", _PROVIDER))


def consumers(connection: sqlite3.Connection) -> Iterator[record.ConsumerRecord]:
    """All consumers of a file, in order of creation."""
    return map(to_consumer, _rows(connection, "consumer", _CONSUMER))


def _rows(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> sqlite3.Cursor:
    """The rows of a table in order of creation."""
    return connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")  # noqa: S608


def from_provider(provider: record.ProviderRecord) -> tuple[Any, ...]:
    inventories = {name: item.as_dict() for name, item in provider.inventories.items()}
    return (
        provider.uuid,
        provider.name,
        provider.generation,
        provider.root_uuid,
        provider.parent_uuid,
        _json(inventories),
        _json(sorted(provider.traits)),
        _json(provider.aggregates),
        provider.updated_at,
    )


def to_provider(row: tuple[Any, ...]) -> record.ProviderRecord:
    uuid, name, generation, root_uuid, parent_uuid, inventories, traits, aggregates, at = row
    return document.provider_record(
        uuid,
        name,
        generation,
        root_uuid,
        parent_uuid,
        _inventories(inventories),
        _traits(traits),
        _aggregates(aggregates),
        _date(at),
    )


# Many rows have equal texts, which are parsed once: the file of a large cloud is read in half the
# time.


@functools.lru_cache(_TEXTS)
def _inventories(text: str) -> inventory.Inventories:
    return document.read_inventories(orjson.loads(text))


@functools.lru_cache(_TEXTS)
def _traits(text: str) -> frozenset[str]:
    return document.read_traits(orjson.loads(text))


@functools.lru_cache(_TEXTS)
def _aggregates(text: str) -> tuple[str, ...]:
    return document.read_aggregates(orjson.loads(text))


def from_consumer(consumer: record.ConsumerRecord) -> tuple[Any, ...]:
    return (
        consumer.uuid,
        consumer.generation,
        consumer.project_id,
        consumer.user_id,
        consumer.consumer_type,
        _json(consumer.allocations),
        consumer.updated_at,
    )


def to_consumer(row: tuple[Any, ...]) -> record.ConsumerRecord:
    uuid, generation, project_id, user_id, consumer_type, allocations, at = row
    if consumer_type is None:
        consumer_type = allocation.UNKNOWN_TYPE
    return document.consumer_record(
        uuid,
        generation,
        project_id,
        user_id,
        consumer_type,
        orjson.loads(allocations),
        _date(at),
    )


def _to_date(row: tuple[Any, ...]) -> float:
    name, at = row
    # A snapshot also holds standard names that only its source knows.
    if not is_symbol(name):
        raise ValueError(f"{reprlib.repr(name)} is not a name of a trait or a resource class")
    return _date(at)


def _date(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"updated_at {value!r} is not a number")
    if not 0 <= value < YEAR_10000:
        raise ValueError(f"updated_at {value!r} is not a date before the year 10000")
    return value


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def read_metadata(connection: sqlite3.Connection, path: str) -> SnapshotMetadata | None:
    """The metadata of a snapshot; None for a database that was not saved from a cloud.

    Errors: NotADatabase for a value that is missing, of another type, or no date before 10000.
    """
    rows = dict(connection.execute("SELECT key, value FROM snapshot").fetchall())
    if not rows:
        return None
    values: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(SnapshotMetadata).items():
        try:
            values[name] = value = orjson.loads(rows[name])
            is_date = not isinstance(value, float) or 0 <= value < YEAR_10000
            is_valid = isinstance(value, kind) and is_date
        except (LookupError, TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise errors.NotADatabase(
                f"the metadata of the snapshot {path} is damaged ({name} is wrong or missing):"
                " restore the file from a copy, or save a new one"
            )
    return SnapshotMetadata(**values)


def has_recording(connection: sqlite3.Connection) -> bool:
    """Whether responses of nova and neutron were recorded."""
    return connection.execute("SELECT 1 FROM recording LIMIT 1").fetchone() is not None


def check_additions(connection: sqlite3.Connection, path: str) -> None:
    """Raise NotADatabase if a recorded response or a note is damaged."""
    damaged = [
        f"table {table}, row {reprlib.repr(key)}"
        for table, query in _DAMAGED.items()
        for (key,) in connection.execute(query)
    ]
    if damaged:
        raise errors.NotADatabase(
            f"the snapshot {path} is damaged ({errors.listed(damaged)}): restore it from a copy,"
            " or save a new one"
        )


_DAMAGED = {
    "recording": "SELECT request FROM recording WHERE typeof(request) != 'text'"
    " OR typeof(body) != 'text' OR NOT json_valid(body)",
    "snapshot_note": "SELECT uuid FROM snapshot_note WHERE typeof(uuid) != 'text'"
    " OR typeof(note) != 'text'",
}


def read_recording(connection: sqlite3.Connection, path: str) -> CompressedResponses:
    """The recorded responses of nova and neutron. Errors: NotADatabase."""
    check_additions(connection, path)
    rows = connection.execute("SELECT request, body FROM recording ORDER BY request")
    return CompressedResponses((request, body.encode()) for request, body in rows)
