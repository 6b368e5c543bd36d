# SPDX-License-Identifier: Apache-2.0
"""Placement's own tables, read in one transaction: everything is of one moment.

The columns are those that the database reports. Each statement is complete before the next one
begins, because MariaDB streams one result at a time.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy

from osc_placement.offline import configuration

#: ``{table: the columns that are read}``
_COLUMNS: Mapping[str, Sequence[str]] = {
    "resource_classes": ("id", "name"),
    "traits": ("id", "name"),
    "resource_providers": (
        *("id", "uuid", "name", "generation", "root_provider_id", "parent_provider_id"),
        *("created_at", "updated_at"),
    ),
    "inventories": (
        *("resource_provider_id", "resource_class_id", "total", "reserved", "min_unit"),
        *("max_unit", "step_size", "allocation_ratio", "created_at", "updated_at"),
    ),
    "resource_provider_traits": ("resource_provider_id", "trait_id"),
    "resource_provider_aggregates": ("resource_provider_id", "aggregate_id"),
    "placement_aggregates": ("id", "uuid"),
    "consumers": ("uuid", "generation", "project_id", "user_id", "consumer_type_id"),
    "projects": ("id", "external_id"),
    "users": ("id", "external_id"),
    "consumer_types": ("id", "name"),
    "allocations": ("id", "resource_provider_id", "consumer_id", "resource_class_id", "used"),
}

#: Columns of an inventory that Placement reports.
_FIELDS = _COLUMNS["inventories"][2:8]

#: Rows that are in memory.
_PART = 5_000


class PlacementTables:
    """The tables of the database of a configuration."""

    def __init__(self, configured: configuration.Configuration) -> None:
        self._configured = configured

    @contextlib.contextmanager
    def reading(self) -> Iterator[OfflineReading]:
        """One transaction that sees one state, whatever others write.

        Errors: PlacementError for a database without these tables or columns, for one that
        refuses to be read, and for a connection that is lost.
        """
        with self._configured.connection() as connection:
            # A transaction of the first look at the database is not the one that reads.
            connection.rollback()
            if self._configured.is_sqlite:
                # Python's driver begins no transaction to read.
                connection.execution_options(isolation_level="AUTOCOMMIT")
                connection.exec_driver_sql("BEGIN")
            elif connection.dialect.name == "postgresql":
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            else:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield OfflineReading(connection, self._tables(connection))

    def _tables(self, connection: sqlalchemy.Connection) -> Mapping[str, sqlalchemy.Table]:
        reflected = sqlalchemy.MetaData()
        reflected.reflect(connection, only=lambda name, _: name in _COLUMNS, resolve_fks=False)
        tables = reflected.tables
        missing = [name for name in _COLUMNS if name not in tables] or [
            f"{name}.{column}"
            for name, columns in _COLUMNS.items()
            for column in columns
            if column not in tables[name].c
        ]
        if missing:
            raise self._configured.failure(
                f"it has no {', '.join(missing)}, or its user may not read that: it is not a"
                " database of openstack-placement, or one of an unknown release. Save the snapshot"
                " over the API, or grant SELECT"
            )
        return tables


class OfflineReading:
    """The state of one moment. Statements: nine, three of them for names.

    Allocations without a row of their consumer are left out, as by the API.
    """

    def __init__(
        self, connection: sqlalchemy.Connection, tables: Mapping[str, sqlalchemy.Table]
    ) -> None:
        self._connection, self._tables = connection, tables
        self._traits = self._names("traits")
        self._classes = self._names("resource_classes")
        self._uuids: dict[int, str] = {}

    @property
    def traits(self) -> list[str]:
        """The names of all traits."""
        return list(self._traits.values())

    @property
    def resource_classes(self) -> list[str]:
        """The names of all resource classes."""
        return list(self._classes.values())

    def providers(self) -> Iterator[dict[str, Any]]:
        """All providers in the order of their creation.

        The keys are ``uuid``, ``name``, ``generation``, ``root_uuid``, ``parent_uuid``;
        ``inventories`` (``{class: {field: value}}``), ``traits``, ``aggregates``; and
        ``modified``: when its inventories, or without any the provider, were changed, in whole
        seconds since the epoch; None if no row says it. Statements: five.
        """
        item = self._tables["resource_providers"]
        rows = self._rows(
            sqlalchemy.select(*self._columns("resource_providers")).order_by(item.c.id)
        )
        providers = list(rows)
        self._uuids = {row.id: row.uuid for row in providers}
        inventories: dict[int, dict[str, dict[str, Any]]] = {}
        changed: dict[int, float] = {}
        for row in self._rows(sqlalchemy.select(*self._columns("inventories"))):
            owner = row.resource_provider_id
            fields = {field: getattr(row, field) for field in _FIELDS}
            inventories.setdefault(owner, {})[self._classes[row.resource_class_id]] = fields
            changed[owner] = max(changed.get(owner, 0.0), _modified(row))
        traits = self._lists("resource_provider_traits", "trait_id", self._traits)
        groups = self._names("placement_aggregates", "uuid")
        aggregates = self._lists("resource_provider_aggregates", "aggregate_id", groups)
        for row in providers:
            yield {
                "uuid": row.uuid,
                "name": row.name,
                "generation": row.generation,
                "root_uuid": self._uuids.get(row.root_provider_id, row.uuid),
                "parent_uuid": self._uuids.get(row.parent_provider_id),
                "inventories": inventories.get(row.id, {}),
                "traits": traits.get(row.id, []),
                "aggregates": aggregates.get(row.id, []),
                "modified": changed.get(row.id) or _modified(row) or None,
            }

    def allocations(self) -> Iterator[tuple[str, str, int, dict[str, int]]]:
        """``(provider, consumer, generation of the consumer, {class: amount})`` of all.

        After ``providers``. Statements: one.
        """
        item, consumer = self._tables["allocations"], self._tables["consumers"]
        key = (item.c.resource_provider_id, item.c.consumer_id, consumer.c.generation)
        query = (
            sqlalchemy.select(*key, item.c.resource_class_id, item.c.used)
            .join(consumer, consumer.c.uuid == item.c.consumer_id)
            .order_by(*key[:2], item.c.id)
        )
        for (owner, uuid, generation), rows in itertools.groupby(
            self._rows(query), operator.itemgetter(0, 1, 2)
        ):
            amounts = {self._classes[row[3]]: row[4] for row in rows}
            yield self._uuids[owner], uuid, generation, amounts

    def consumers(self) -> Iterator[tuple[str, int, str, str, str | None]]:
        """``(uuid, generation, project, user, type)`` of all. Statements: one."""
        item, project = self._tables["consumers"], self._tables["projects"]
        user, kind = self._tables["users"], self._tables["consumer_types"]
        query = (
            sqlalchemy.select(
                *(item.c.uuid, item.c.generation, project.c.external_id),
                *(user.c.external_id.label("user"), kind.c.name),
            )
            .join(project, project.c.id == item.c.project_id)
            .join(user, user.c.id == item.c.user_id)
            .outerjoin(kind, kind.c.id == item.c.consumer_type_id)
        )
        for row in self._rows(query):
            yield row[0], row[1], row[2], row[3], row[4]

    def _lists(self, table: str, column: str, names: Mapping[int, str]) -> dict[int, list[str]]:
        item = self._tables[table]
        lists: dict[int, list[str]] = {}
        for owner, key in self._rows(
            sqlalchemy.select(item.c.resource_provider_id, item.c[column])
        ):
            # No constraint of the tables keeps a membership from outliving its aggregate.
            if key in names:
                lists.setdefault(owner, []).append(names[key])
        return lists

    def _names(self, table: str, column: str = "name") -> dict[int, str]:
        item = self._tables[table]
        query = sqlalchemy.select(item.c.id, item.c[column]).order_by(item.c.id)
        return {row[0]: row[1] for row in self._rows(query)}

    def _columns(self, table: str) -> list[sqlalchemy.Column[Any]]:
        return [self._tables[table].c[name] for name in _COLUMNS[table]]

    def _rows(
        self, query: sqlalchemy.Select[*tuple[Any, ...]]
    ) -> sqlalchemy.Result[*tuple[Any, ...]]:
        return self._connection.execute(query.execution_options(yield_per=_PART))


def _modified(row: Any) -> float:
    """When a row was changed: the service writes UTC, and reports whole seconds.

    0 for a row without a date, which somebody wrote by hand.
    """
    changed: datetime.datetime | None = row.updated_at or row.created_at
    return float(int(changed.replace(tzinfo=datetime.UTC).timestamp())) if changed else 0.0
