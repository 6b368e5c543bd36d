# SPDX-License-Identifier: Apache-2.0
"""Saved states of openstack-placement's database, so that each test starts from a known one."""

from __future__ import annotations

import abc
import contextlib
import fcntl
import pathlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy

EMPTY = "empty"


class DatabaseState(abc.ABC):
    """The database of a running openstack-placement: its states are saved and restored by name."""

    @abc.abstractmethod
    def save(self, name: str) -> None:
        """Save the present state."""

    @abc.abstractmethod
    def restore(self, name: str) -> None:
        """Replace the present state by a saved one, in milliseconds."""

    @abc.abstractmethod
    def restore_or(self, name: str, fill: Callable[[], None]) -> None:
        """Restore a state; the first time, ``fill`` the database and save the result."""

    @abc.abstractmethod
    def set_generations(self, document: Mapping[str, Any]) -> None:
        """Write the generations of a sample cloud, which the API cannot set."""

    @abc.abstractmethod
    def rows(self, table: str) -> Iterable[Mapping[str, Any]]:
        """The rows of a table."""

    def document(self) -> dict[str, Any]:
        """What ``plain_reading.read`` finds, from the tables: hundreds of requests take seconds."""
        names = {
            table: {row["id"]: row[column] for row in self.rows(table)}
            for table, column in _NAMES.items()
        }
        uuids, classes = names["resource_providers"], names["resource_classes"]
        providers = {
            row["uuid"]: {
                "name": row["name"],
                "parent": uuids.get(row["parent_provider_id"]),
                "root": uuids[row["root_provider_id"]],
                "generation": row["generation"],
                "inventories": {},
                "traits": [],
                "aggregates": [],
            }
            for row in self.rows("resource_providers")
        }
        for row in self.rows("inventories"):
            fields = {name: row[name] for name in _FIELDS}
            held = providers[uuids[row["resource_provider_id"]]]["inventories"]
            held[classes[row["resource_class_id"]]] = fields
        for key, table, part in _MEMBERS:
            for row in self.rows(f"resource_provider_{part}"):
                held = providers[uuids[row["resource_provider_id"]]][part]
                held.append(names[table][row[key]])
        allocations: dict[str, dict[str, dict[str, int]]] = {}
        for row in self.rows("allocations"):
            held = allocations.setdefault(row["consumer_id"], {})
            amounts = held.setdefault(uuids[row["resource_provider_id"]], {})
            amounts[classes[row["resource_class_id"]]] = row["used"]
        return {
            "custom_resource_classes": _custom(classes),
            "custom_traits": _custom(names["traits"]),
            "providers": providers,
            "consumers": {
                row["uuid"]: {
                    "allocations": allocations[row["uuid"]],
                    "generation": row["generation"],
                    "project": names["projects"][row["project_id"]],
                    "user": names["users"][row["user_id"]],
                    "type": names["consumer_types"].get(row["consumer_type_id"], "unknown"),
                }
                for row in self.rows("consumers")
                if row["uuid"] in allocations
            },
        }


#: ``{table: the column that names a row}``
_NAMES = {
    "resource_providers": "uuid",
    "resource_classes": "name",
    "traits": "name",
    "placement_aggregates": "uuid",
    "projects": "external_id",
    "users": "external_id",
    "consumer_types": "name",
}
_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
_MEMBERS = (
    ("trait_id", "traits", "traits"),
    ("aggregate_id", "placement_aggregates", "aggregates"),
)


def _custom(names: Mapping[int, str]) -> list[str]:
    return [name for name in names.values() if name.startswith("CUSTOM_")]


class SQLiteState(DatabaseState):
    """An SQLite file; saved states are files in ``shared``, for all workers of a test run."""

    def __init__(self, database: pathlib.Path, shared: pathlib.Path) -> None:
        self._database, self._shared = database, shared
        self.save(EMPTY)

    def save(self, name: str) -> None:
        _copy(self._database, self._path(name))

    def restore(self, name: str) -> None:
        _copy(self._path(name), self._database)

    def restore_or(self, name: str, fill: Callable[[], None]) -> None:
        with self._path(name).with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._path(name).exists():
                self.restore(name)
            else:
                fill()
                self.save(name)

    def set_generations(self, document: Mapping[str, Any]) -> None:
        with contextlib.closing(sqlite3.connect(self._database)) as live, live:
            for table, rows in _generations(document).items():
                live.executemany(f"UPDATE {table} SET generation = :g WHERE uuid = :u", rows)

    def rows(self, table: str) -> Iterable[Mapping[str, Any]]:
        with contextlib.closing(sqlite3.connect(self._database)) as live:
            live.row_factory = sqlite3.Row
            return [dict(row) for row in live.execute(f"SELECT * FROM {table}")]

    def _path(self, name: str) -> pathlib.Path:
        folder = self._database.parent if name == EMPTY else self._shared
        return folder / f"{name}.sqlite"


class SQLState(DatabaseState):
    """A database that SQLAlchemy reaches; saved states are rows in memory."""

    def __init__(self, url: str) -> None:
        # Without a pool: between tests no connection of this process uses the database.
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        metadata = sqlalchemy.MetaData()
        metadata.reflect(self._engine)
        self._tables = [
            table for table in metadata.sorted_tables if table.name != "alembic_version"
        ]
        self._saved: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.save(EMPTY)

    def save(self, name: str) -> None:
        self._saved[name] = {table.name: self.rows(table.name) for table in self._tables}

    def rows(self, table: str) -> list[dict[str, Any]]:
        (only,) = [item for item in self._tables if item.name == table]
        with self._engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(sqlalchemy.select(only))]

    def restore(self, name: str) -> None:
        with self._engine.begin() as connection:
            self._keep_zero(connection)
            self._drop_references(connection)
            for table in reversed(self._tables):
                connection.execute(sqlalchemy.delete(table))
            for table in self._tables:
                rows = self._saved[name][table.name]
                if rows:
                    connection.execute(sqlalchemy.insert(table), self._parents_first(rows))
                self._continue_sequence(connection, table)

    def restore_or(self, name: str, fill: Callable[[], None]) -> None:
        if name in self._saved:
            self.restore(name)
        else:
            fill()
            self.save(name)

    def set_generations(self, document: Mapping[str, Any]) -> None:
        with self._engine.begin() as connection:
            for table, rows in _generations(document).items():
                statement = sqlalchemy.text(f"UPDATE {table} SET generation = :g WHERE uuid = :u")
                if rows:
                    connection.execute(statement, rows)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _keep_zero(self, connection: sqlalchemy.Connection) -> None:
        """MariaDB numbers a row with the id 0, which is the class VCPU, as a new one."""
        if self._engine.dialect.name == "mysql":
            mode = "CONCAT(@@SESSION.sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
            connection.execute(sqlalchemy.text(f"SET SESSION sql_mode = {mode}"))

    @staticmethod
    def _drop_references(connection: sqlalchemy.Connection) -> None:
        """Providers refer to their parents in the same table: cut that before deleting rows."""
        connection.execute(
            sqlalchemy.text(
                "UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL"
            )
        )

    @staticmethod
    def _parents_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: row.get("id") or 0)

    def _continue_sequence(
        self, connection: sqlalchemy.Connection, table: sqlalchemy.Table
    ) -> None:
        """PostgreSQL numbers rows from a sequence, which inserted ids do not advance."""
        if self._engine.dialect.name == "postgresql" and "id" in table.columns:
            connection.execute(
                sqlalchemy.text(
                    f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'),"
                    f" (SELECT COALESCE(MAX(id), 0) + 1 FROM {table.name}), false)"
                )
            )


def _generations(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """``{table: [{"u": uuid, "g": generation}]}``."""
    return {
        table: [{"u": uuid, "g": entry["generation"]} for uuid, entry in document[part].items()]
        for table, part in (("resource_providers", "providers"), ("consumers", "consumers"))
    }


def _copy(source: pathlib.Path, goal: pathlib.Path) -> None:
    """Copy through SQLite itself, so that a server with ``goal`` open sees the new state."""
    with (
        contextlib.closing(sqlite3.connect(source)) as read,
        contextlib.closing(sqlite3.connect(goal)) as written,
    ):
        read.backup(written)
