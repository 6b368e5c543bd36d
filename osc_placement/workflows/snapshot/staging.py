# SPDX-License-Identifier: Apache-2.0
"""The file of a save: what was read so far, so that a killed save continues, then the state.

A reading of a provider or a consumer is one row of the table ``staged``, which ``finish`` drops.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Self

import orjson

from osc_placement.client import responses
from osc_placement.engine import record
from osc_placement.model import allocation, inventory
from osc_placement.server.store import database_file, errors, sqlite
from osc_placement.workflows.snapshot import file
from osc_placement.workflows.snapshot.readings import Reading, Readings

_CREATE = (
    "CREATE TABLE IF NOT EXISTS staged"
    " (kind TEXT, uuid TEXT, body TEXT, PRIMARY KEY (kind, uuid)) WITHOUT ROWID"
)
_KEEP = "INSERT OR REPLACE INTO staged VALUES (?, ?, ?)"
_PROVIDER, _CONSUMER = "provider", "consumer"


class Staging:
    """The file of an unfinished snapshot, locked for this process."""

    def __init__(self, path: str) -> None:
        """Open or create the file, mode 0600. Errors: StoreError, which names it."""
        self.path = path
        self._connection = database_file.open_own(path)
        try:
            with self._transaction():
                self.metadata = sqlite.read_metadata(self._connection, path)
                self._connection.execute(_CREATE)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, which keeps everything that was written."""
        self._connection.close()

    def begin(self, metadata: file.SnapshotMetadata) -> Readings:
        """Record what is being saved; the readings of a save that was interrupted.

        Those of another version of this program are dropped, and so are consumers without
        ``owners``.
        """
        with self._transaction():
            if self.metadata is not None and self.metadata.program != metadata.program:
                self._connection.execute("DELETE FROM staged")
            if not metadata.owners:
                self._connection.execute("DELETE FROM staged WHERE kind = ?", (_CONSUMER,))
            self.metadata = metadata
            file.write_metadata(self._connection, metadata)
            return Readings(
                {uuid: _to_reading(uuid, *body) for uuid, body in self._staged(_PROVIDER)},
                {uuid: _to_consumer(uuid, *body) for uuid, body in self._staged(_CONSUMER)},
            )

    def _staged(self, kind: str) -> Iterator[tuple[str, list[Any]]]:
        query = "SELECT uuid, body FROM staged WHERE kind = ?"
        for uuid, body in self._connection.execute(query, (kind,)):
            yield uuid, orjson.loads(body)

    def keep(self, readings: Iterable[Reading]) -> None:
        """Keep readings of whole providers, and none of the consumers on them."""
        with self._transaction():
            for one in readings:
                self._connection.execute(_KEEP, (_PROVIDER, one.uuid, _from_reading(one)))
                self._connection.executemany(
                    "DELETE FROM staged WHERE kind = ? AND uuid = ?",
                    [(_CONSUMER, uuid) for uuid in one.allocations],
                )

    def keep_consumers(self, consumers: Iterable[allocation.Consumer]) -> None:
        """Keep consumers as read by themselves."""
        with self._transaction():
            self._connection.executemany(
                _KEEP, [(_CONSUMER, one.uuid, _from_consumer(one)) for one in consumers]
            )

    def save_recording(self, request: str, body: Any) -> None:
        """Keep a response of nova or neutron: ``GET /path``."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO recording VALUES (?, ?)", (request, _json(body))
            )

    def clear_recording(self) -> None:
        """Drop the responses of nova and neutron."""
        with self._transaction():
            self._connection.execute("DELETE FROM recording")

    def finish(
        self,
        metadata: file.SnapshotMetadata,
        changes: record.Changes,
        notes: Iterable[file.SaveNote],
    ) -> file.SnapshotMetadata:
        """Write the state in place of the readings; returns the metadata with the digest."""
        with self._transaction():
            sqlite.write_records(self._connection, changes)
            self._connection.executemany("INSERT OR IGNORE INTO snapshot_note VALUES (?, ?)", notes)
            digest = file.state_hash(self._connection, generations=True)
            self.metadata = dataclasses.replace(metadata, digest=digest)
            file.write_metadata(self._connection, self.metadata)
            self._connection.execute("DROP TABLE staged")
        with self._errors():
            # Compact and in one file; without the space for that it is only larger.
            with contextlib.suppress(sqlite3.OperationalError):
                self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        return self.metadata

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors(), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise errors.NotWritable(
                f"the snapshot {self.path} could not be written ({error}); what it has is kept"
            ) from error


def _from_reading(reading: Reading) -> str:
    return _json(
        (
            reading.generation,
            {name: one.as_dict() for name, one in reading.inventories.items()},
            reading.traits,
            reading.aggregates,
            reading.allocations,
            reading.modified,
        )
    )


def _to_reading(
    uuid: str,
    generation: int,
    inventories: dict[str, dict[str, int | float]],
    traits: list[str],
    aggregates: list[str],
    allocations: dict[str, list[Any]],
    modified: float | None,
) -> Reading:
    return Reading(
        uuid,
        generation,
        {name: inventory.Inventory.from_dict(one) for name, one in inventories.items()},
        traits,
        aggregates,
        {uuid: responses.ProviderAllocation._make(one) for uuid, one in allocations.items()},
        modified,
    )


def _from_consumer(consumer: allocation.Consumer) -> str:
    return _json(
        (
            consumer.allocations,
            consumer.project_id,
            consumer.user_id,
            consumer.generation,
            consumer.consumer_type,
        )
    )


def _to_consumer(uuid: str, *fields: Any) -> allocation.Consumer:
    return allocation.Consumer(uuid, *fields)


def _json(value: object) -> str:
    return orjson.dumps(value, default=_plain).decode()


def _plain(value: Any) -> Any:
    """A mapping or a named tuple as orjson writes it."""
    return dict(value) if hasattr(value, "keys") else list(value)
