"""A snapshot of a cloud: the tables besides the state, and the state as a sorted stream.

A snapshot is a database file with metadata: where it comes from, when and how it was saved. The
file may also hold recorded responses of nova and neutron.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import reprlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import orjson

from osc_placement.model.recording import CompressedResponses
from osc_placement.server.store import database_file, errors

#: In seconds since 1970; the header Last-Modified has no later dates.
YEAR_10000 = 253_402_300_800

#: Characters of the longest text of the metadata.
_LONGEST_VALUE = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Metadata:
    """How a snapshot was saved.

    ``origin`` identifies the cloud (the endpoint of Placement, or a file), ``target`` also names
    cloud and region. ``started`` and ``finished`` are seconds since the epoch; ``finished`` is
    None until the save has ended. ``owners``: projects, users and types of consumers were read.
    ``requests`` were sent to Placement by the last save. ``digest`` covers everything in the
    state, generations included. ``refreshes``: how often the file was refreshed since it was saved
    whole. ``anonymized``: names and UUIDs are pseudonyms, and ``origin``
    identifies the key that has the real ones.
    """

    origin: str
    target: str
    started: float
    finished: float | None = None
    microversion: str = ""
    server_versions: str = ""
    program: str = ""
    owners: bool = True
    nova_saved: float | None = None
    requests: int = 0
    digest: str = ""
    anonymized: bool = False
    refreshes: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the save has ended."""
        return self.finished is not None


class Provider(NamedTuple):
    """A provider of a snapshot, in plain values that compare and serialize."""

    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None
    inventories: dict[str, dict[str, int | float]]
    traits: list[str]
    aggregates: list[str]


class Consumer(NamedTuple):
    """A consumer of a snapshot; ``type`` is None if it was never set."""

    uuid: str
    generation: int
    project_id: str
    user_id: str
    type: str | None
    allocations: dict[str, dict[str, int]]


class Counts(NamedTuple):
    """How many records a snapshot has; ``allocations`` counts pairs of consumer and provider."""

    providers: int
    trees: int
    consumers: int
    allocations: int
    aggregates: int
    custom_traits: int
    custom_resource_classes: int


class Note(NamedTuple):
    """What the save reports about one provider or consumer."""

    uuid: str
    text: str


class Snapshot:
    """A finished snapshot, or any database file, opened for reading only."""

    def __init__(self, path: str) -> None:
        """Open the file. Errors: StoreError, which names it."""
        self.path = path
        self._connection = database_file.open_to_read(path)
        try:
            with database_file.explained(path):
                self.metadata = read_metadata(self._connection, path)
        except BaseException:
            self.close()
            raise
        if self.metadata is not None and not self.metadata.is_finished:
            self.close()
            raise errors.Unfinished(unfinished(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def providers(self) -> Iterator[Provider]:
        """All providers in the order of their UUIDs."""
        with database_file.explained(self.path):
            yield from read_providers(self._connection)

    def consumers(self) -> Iterator[Consumer]:
        """All consumers in the order of their UUIDs."""
        with database_file.explained(self.path):
            yield from read_consumers(self._connection)

    def traits(self) -> list[str]:
        """The custom traits, sorted."""
        with database_file.explained(self.path):
            return _names(self._connection, "trait")

    def resource_classes(self) -> list[str]:
        """The custom resource classes, sorted."""
        with database_file.explained(self.path):
            return _names(self._connection, "resource_class")

    def notes(self) -> list[Note]:
        """What the save reports, in the order of UUIDs."""
        with database_file.explained(self.path):
            check(self._connection, self.path)
            rows = self._connection.execute("SELECT uuid, note FROM snapshot_note ORDER BY 1, 2")
            return [Note(*row) for row in rows]

    def recording(self) -> CompressedResponses:
        """The recorded responses of nova and neutron, ``{"GET /path": body}``."""
        with database_file.explained(self.path):
            return read_recording(self._connection, self.path)

    def recorded_requests(self) -> list[str]:
        """The keys of ``recording``, sorted."""
        with database_file.explained(self.path):
            rows = self._connection.execute("SELECT request FROM recording ORDER BY 1")
            return [row[0] for row in rows]

    def counts(self) -> Counts:
        """The numbers of records."""
        with database_file.explained(self.path):
            return Counts(*(self._connection.execute(query).fetchone()[0] for query in _COUNTS))

    def copy_to(self, path: str) -> None:
        """Write a compact copy, which exists completely or not at all, mode 0600."""
        temporary = f"{path}.copy"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        with database_file.explained(path):
            database_file.create(temporary)
            self._connection.execute("VACUUM INTO ?", (temporary,))
            os.replace(temporary, path)

    def state_hash(self, *, generations: bool = False) -> str:
        """SHA-256 of the state; without generations, equal states of two clouds have one hash."""
        with database_file.explained(self.path):
            return state_hash(self._connection, generations=generations)


def unfinished(path: str) -> str:
    """The message about a snapshot that was not saved to its end."""
    return f"the snapshot {path} is not complete: run the command that saves it again"


_COUNTS = (
    "SELECT COUNT(*) FROM provider",
    "SELECT COUNT(DISTINCT root_uuid) FROM provider",
    "SELECT COUNT(*) FROM consumer",
    "SELECT COUNT(*) FROM consumer, json_each(consumer.allocations)",
    "SELECT COUNT(DISTINCT item.value) FROM provider, json_each(provider.aggregates) AS item",
    "SELECT COUNT(*) FROM trait",
    "SELECT COUNT(*) FROM resource_class",
)


def read_metadata(connection: sqlite3.Connection, path: str) -> Metadata | None:
    """The metadata of a snapshot; None for a database that was not saved from a cloud.

    Errors: NotADatabase, with every value that is missing or wrong.
    """
    rows = dict(connection.execute("SELECT key, value FROM snapshot").fetchall())
    if not rows:
        return None
    values: dict[str, Any] = {}
    problems = []
    for field in dataclasses.fields(Metadata):
        if field.name not in rows:
            if field.default is dataclasses.MISSING:
                problems.append(f"{field.name} is missing")
            continue
        try:
            values[field.name] = orjson.loads(rows[field.name])
        except (TypeError, ValueError):
            problems.append(f"{field.name} is not JSON")
        else:
            if not _VALID[str(field.type)](values[field.name]):
                problems.append(f"{field.name} {reprlib.repr(values[field.name])} is wrong")
    if problems:
        raise errors.NotADatabase(
            f"the metadata of the snapshot {path} is damaged ({errors.listed(problems)}): restore"
            " the file from a copy, or save a new one"
        )
    return Metadata(**values)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_VALUE


def _is_date(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < YEAR_10000


#: Whether a value is one of a type of a field of Metadata.
_VALID: dict[str, Callable[[Any], bool]] = {
    "str": _is_text,
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and value >= 0,
    "float": _is_date,
    "float | None": lambda value: value is None or _is_date(value),
}


def write_metadata(connection: sqlite3.Connection, metadata: Metadata) -> None:
    """Replace the metadata."""
    rows = [
        (key, orjson.dumps(value).decode()) for key, value in dataclasses.asdict(metadata).items()
    ]
    connection.executemany("INSERT OR REPLACE INTO snapshot (key, value) VALUES (?, ?)", rows)


def has_recording(connection: sqlite3.Connection) -> bool:
    """Whether responses of nova and neutron were recorded."""
    return connection.execute("SELECT 1 FROM recording LIMIT 1").fetchone() is not None


def check(connection: sqlite3.Connection, path: str) -> None:
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
    check(connection, path)
    rows = connection.execute("SELECT request, body FROM recording ORDER BY request")
    return CompressedResponses((request, body.encode()) for request, body in rows)


def read_providers(connection: sqlite3.Connection) -> Iterator[Provider]:
    """All providers in the order of their UUIDs."""
    query = (
        "SELECT uuid, name, generation, root_uuid, parent_uuid, inventories, traits, aggregates"
        " FROM provider ORDER BY uuid"
    )
    for row in connection.execute(query):
        inventories, traits, aggregates = map(orjson.loads, row[5:])
        yield Provider._make([*row[:5], inventories, sorted(traits), sorted(aggregates)])


def read_consumers(connection: sqlite3.Connection) -> Iterator[Consumer]:
    """All consumers in the order of their UUIDs."""
    query = (
        "SELECT uuid, generation, project_id, user_id, consumer_type, allocations"
        " FROM consumer ORDER BY uuid"
    )
    for row in connection.execute(query):
        yield Consumer._make([*row[:5], orjson.loads(row[5])])


def state_hash(connection: sqlite3.Connection, *, generations: bool) -> str:
    """SHA-256 of all records in the order of their keys; timestamps are left out."""
    found = hashlib.sha256()

    def add(records: Iterable[Provider | Consumer]) -> None:
        for record in records:
            fields = record._asdict()
            if not generations:
                del fields["generation"]
            found.update(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))

    add(read_providers(connection))
    add(read_consumers(connection))
    names = [_names(connection, table) for table in ("trait", "resource_class")]
    found.update(orjson.dumps(names))
    return f"sha256:{found.hexdigest()}"


def _names(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in connection.execute(f"SELECT name FROM {table} ORDER BY name")]  # noqa: S608
