# SPDX-License-Identifier: Apache-2.0
"""Snapshot files: the records as a sorted stream, their hash, and what was saved with them.

A snapshot is a database file of the server with metadata: where it comes from, when and how it was
saved. It may also hold recorded responses of nova and neutron.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import orjson

from osc_placement.engine import record
from osc_placement.model.recording import CompressedResponses
from osc_placement.plan import file as plan_file
from osc_placement.server.store import database_file, sqlite
from osc_placement.server.store.errors import NotWritable

SnapshotMetadata = sqlite.SnapshotMetadata


class SavedProvider(NamedTuple):
    """A provider of a snapshot, in plain values that compare and serialize."""

    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None
    inventories: dict[str, dict[str, int | float]]
    traits: list[str]
    aggregates: list[str]


class SavedConsumer(NamedTuple):
    """A consumer of a snapshot; ``type`` is None if it was never set."""

    uuid: str
    generation: int
    project_id: str
    user_id: str
    type: str | None
    allocations: dict[str, dict[str, int]]


class SaveNote(NamedTuple):
    """What the save reports about one provider or consumer."""

    uuid: str
    text: str


class SnapshotFile:
    """A finished snapshot, or any database file, opened for reading only."""

    def __init__(self, path: pathlib.Path) -> None:
        """Open the file. Errors: StoreError, which names it."""
        self.path = str(path)
        self._connection = database_file.open_to_read(self.path)
        try:
            with database_file.explained(self.path):
                self.metadata = sqlite.read_metadata(self._connection, self.path)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def providers(self) -> Iterator[SavedProvider]:
        """All providers in the order of their UUIDs."""
        with database_file.explained(self.path):
            yield from read_providers(self._connection)

    def consumers(self) -> Iterator[SavedConsumer]:
        """All consumers in the order of their UUIDs."""
        with database_file.explained(self.path):
            yield from read_consumers(self._connection)

    def traits(self) -> list[str]:
        """The custom traits, sorted."""
        return self._column("SELECT name FROM trait ORDER BY name")

    def resource_classes(self) -> list[str]:
        """The custom resource classes, sorted."""
        return self._column("SELECT name FROM resource_class ORDER BY name")

    def notes(self) -> list[SaveNote]:
        """What the save reports, in the order of UUIDs."""
        with database_file.explained(self.path):
            sqlite.check_additions(self._connection, self.path)
            rows = self._connection.execute("SELECT uuid, note FROM snapshot_note ORDER BY 1, 2")
            return [SaveNote(*row) for row in rows]

    def recording(self) -> CompressedResponses:
        """The recorded responses of nova and neutron, ``{"GET /path": body}``."""
        with database_file.explained(self.path):
            return sqlite.read_recording(self._connection, self.path)

    def recorded_requests(self) -> list[str]:
        """The keys of ``recording``, sorted."""
        return self._column("SELECT request FROM recording ORDER BY 1")

    def counts(self) -> dict[str, int]:
        """``{kind of records: their number}``; allocations are pairs of consumer and provider."""
        return {name: self._column(query)[0] for name, query in _COUNTS.items()}

    def _column(self, query: str) -> list[Any]:
        with database_file.explained(self.path):
            return [row[0] for row in self._connection.execute(query)]

    def state_hash(self, *, generations: bool = False) -> str:
        """SHA-256 of the state; without generations, equal states of two clouds have one hash."""
        with database_file.explained(self.path):
            return state_hash(self._connection, generations=generations)


_COUNTS = {
    "resource_providers": "SELECT COUNT(*) FROM provider",
    "trees": "SELECT COUNT(DISTINCT root_uuid) FROM provider",
    "consumers": "SELECT COUNT(*) FROM consumer",
    "allocations": "SELECT COUNT(*) FROM consumer, json_each(consumer.allocations)",
    "aggregates": "SELECT COUNT(DISTINCT item.value)"
    " FROM provider, json_each(provider.aggregates) AS item",
    "custom_traits": "SELECT COUNT(*) FROM trait",
    "custom_resource_classes": "SELECT COUNT(*) FROM resource_class",
}


@contextlib.contextmanager
def created(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """A new database, mode 0600, which is written in one transaction, the block.

    It has another name until it is complete; after an error nothing is left. Errors: StoreError.
    """
    partial = f"{path}.{secrets.token_hex(4)}.partial"
    try:
        with contextlib.closing(database_file.open_own(partial)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = DELETE")
        plan_file.check_new(path)
        with plan_file.explained(path):
            os.replace(partial, path)
            plan_file.sync_directory(path.resolve().parent)
    except sqlite3.Error as error:
        raise NotWritable(f"the snapshot {path} cannot be written: {error}") from error
    finally:
        for temporary in (partial, f"{partial}-wal", f"{partial}-journal"):
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write(
    connection: sqlite3.Connection,
    metadata: SnapshotMetadata,
    changes: record.Changes,
    notes: Iterable[SaveNote],
) -> SnapshotMetadata:
    """Write a state, with its notes and its metadata; the metadata with the digest."""
    sqlite.write_records(connection, changes)
    connection.executemany("INSERT OR IGNORE INTO snapshot_note VALUES (?, ?)", notes)
    digest = state_hash(connection, generations=True)
    metadata = dataclasses.replace(metadata, digest=digest)
    rows = [
        (key, orjson.dumps(value).decode()) for key, value in dataclasses.asdict(metadata).items()
    ]
    connection.executemany("INSERT INTO snapshot (key, value) VALUES (?, ?)", rows)
    return metadata


def keep_response(connection: sqlite3.Connection, request: str, body: Any) -> None:
    """Write a response of nova or neutron: ``GET /path``."""
    text = orjson.dumps(body).decode()
    connection.execute("INSERT OR REPLACE INTO recording VALUES (?, ?)", (request, text))


def read_providers(connection: sqlite3.Connection) -> Iterator[SavedProvider]:
    """All providers in the order of their UUIDs."""
    query = (
        "SELECT uuid, name, generation, root_uuid, parent_uuid, inventories, traits, aggregates"
        " FROM provider ORDER BY uuid"
    )
    for row in connection.execute(query):
        inventories, traits, aggregates = map(orjson.loads, row[5:])
        yield SavedProvider._make([*row[:5], inventories, sorted(traits), sorted(aggregates)])


def read_consumers(connection: sqlite3.Connection) -> Iterator[SavedConsumer]:
    """All consumers in the order of their UUIDs."""
    query = (
        "SELECT uuid, generation, project_id, user_id, consumer_type, allocations"
        " FROM consumer ORDER BY uuid"
    )
    for row in connection.execute(query):
        yield SavedConsumer._make([*row[:5], orjson.loads(row[5])])


def state_hash(connection: sqlite3.Connection, *, generations: bool) -> str:
    """SHA-256 of all records in the order of their keys; timestamps are left out."""
    digest = hashlib.sha256()

    def add(records: Iterable[SavedProvider | SavedConsumer]) -> None:
        for saved in records:
            fields = saved._asdict()
            if not generations:
                del fields["generation"]
            digest.update(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))

    add(read_providers(connection))
    add(read_consumers(connection))
    names = [_names(connection, table) for table in ("trait", "resource_class")]
    digest.update(orjson.dumps(names))
    return f"sha256:{digest.hexdigest()}"


def _names(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in connection.execute(f"SELECT name FROM {table} ORDER BY name")]  # noqa: S608


def has_owners(side: SnapshotFile) -> bool:
    """Whether projects, users and types of consumers were saved."""
    return side.metadata is None or side.metadata.owners


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotSummary:
    """``metadata`` is None for a database that was not saved from a cloud.

    ``state_hash`` is equal for equal states, regardless of generations. ``is_unchanged``: the
    file has the state that was saved. ``recorded`` are the requests to nova and neutron whose
    responses the file holds.
    """

    metadata: SnapshotMetadata | None
    counts: Mapping[str, int]
    state_hash: str
    is_unchanged: bool
    notes: Sequence[SaveNote]
    recorded: Sequence[str]


def summarize(path: pathlib.Path) -> SnapshotSummary:
    """Read the whole file once. Errors: StoreError, which names it."""
    with SnapshotFile(path) as saved:
        metadata = saved.metadata
        digest = saved.state_hash(generations=True)
        return SnapshotSummary(
            metadata,
            saved.counts(),
            saved.state_hash(),
            metadata is None or metadata.digest == digest,
            saved.notes(),
            saved.recorded_requests(),
        )
