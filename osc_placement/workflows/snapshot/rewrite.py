"""Copies a snapshot into a new file, and replaces every record on the way.

The new file has no byte of the old one: it is not a copy of its pages. One record is in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import orjson

from osc_placement.server.store import database_file
from osc_placement.workflows.snapshot import file


class ProviderRow(NamedTuple):
    """A provider as it is stored; the names of fields are those of the columns."""

    uuid: str
    name: str
    generation: int
    root_uuid: str
    parent_uuid: str | None
    inventories: dict[str, dict[str, int | float]]
    traits: list[str]
    aggregates: list[str]
    updated_at: float


class ConsumerRow(NamedTuple):
    """A consumer as it is stored."""

    uuid: str
    generation: int
    project_id: str
    user_id: str
    consumer_type: str | None
    allocations: dict[str, dict[str, int]]
    updated_at: float


class Rewriter(Protocol):
    """Returns the new form of each record; None drops a recorded response."""

    def provider(self, row: ProviderRow) -> ProviderRow: ...

    def consumer(self, row: ConsumerRow) -> ConsumerRow: ...

    def trait(self, name: str) -> str: ...

    def resource_class(self, name: str) -> str: ...

    def note(self, note: file.Note) -> file.Note: ...

    def response(self, request: str, body: Any) -> tuple[str, Any] | None: ...


def visit(path: str, rewriter: Rewriter) -> None:
    """Pass every record to ``rewriter`` and drop the results. Errors: StoreError."""
    with database_file.reading(path) as connection:
        for _ in _inserts(connection, rewriter):
            pass


def write(path: str, target: str, rewriter: Rewriter, metadata: file.Metadata) -> None:
    """Write the new form of all records to ``target``, completely or not at all, mode 0600.

    ``metadata`` is that of the new file; its digest is computed. Errors: StoreError.
    """
    temporary = f"{target}.copy"
    _remove(temporary)
    try:
        with (
            database_file.reading(path) as source,
            contextlib.closing(database_file.open_private(temporary)) as connection,
            database_file.explained(target),
        ):
            connection.execute("BEGIN IMMEDIATE")
            for table, row in _inserts(source, rewriter):
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)  # noqa: S608
            digest = file.state_hash(connection, generations=True)
            file.write_metadata(connection, dataclasses.replace(metadata, digest=digest))
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = DELETE")
        os.replace(temporary, target)
    finally:
        _remove(temporary)


def _inserts(
    connection: sqlite3.Connection, rewriter: Rewriter
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """``(table, row)`` of the new file, in the order of the old one."""
    for row in _rows(connection, "provider", ProviderRow._fields):
        provider = rewriter.provider(ProviderRow._make(_parsed(row, 5, 8)))
        yield "provider", (*provider[:5], *map(_json, provider[5:8]), provider.updated_at)
    for row in _rows(connection, "consumer", ConsumerRow._fields):
        consumer = rewriter.consumer(ConsumerRow._make(_parsed(row, 5, 6)))
        yield "consumer", (*consumer[:5], _json(consumer.allocations), consumer.updated_at)
    for name, updated_at in _rows(connection, "trait", ("name", "updated_at")):
        yield "trait", (rewriter.trait(name), updated_at)
    for name, updated_at in _rows(connection, "resource_class", ("name", "updated_at")):
        yield "resource_class", (rewriter.resource_class(name), updated_at)
    for row in _rows(connection, "snapshot_note", ("uuid", "note")):
        yield "snapshot_note", tuple(rewriter.note(file.Note(*row)))
    for request, body in _rows(connection, "recording", ("request", "body")):
        response = rewriter.response(request, orjson.loads(body))
        if response is not None:
            yield "recording", (response[0], _json(response[1]))


def _rows(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY rowid")  # noqa: S608


def _parsed(row: tuple[Any, ...], first: int, end: int) -> list[Any]:
    """The row with the columns from ``first`` to ``end`` parsed as JSON."""
    return [*row[:first], *map(orjson.loads, row[first:end]), *row[end:]]


def _remove(path: str) -> None:
    for name in (path, f"{path}-wal", f"{path}-journal"):
        with contextlib.suppress(OSError):
            os.unlink(name)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
