# SPDX-License-Identifier: Apache-2.0
"""Writes a cloud into the database of openstack-placement, as rows.

The tables are those that the service has created and filled with the standard resource classes and
traits; their columns are read from the database.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

Row = dict[str, Any]

#: By the name of SQLAlchemy's dialect.
_PRODUCTS = {"postgresql": "PostgreSQL", "mysql": "MariaDB", "sqlite": "SQLite"}

#: Rows of one statement.
_PART = 10_000


class Tables:
    """The tables of one database."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url)
        self._tables = sa.MetaData()
        self._tables.reflect(self.engine)

    def __getitem__(self, name: str) -> sa.Table:
        return self._tables.tables[name]

    def product(self) -> str:
        """The name and the version of the database server."""
        with self.engine.connect():
            version = self.engine.dialect.server_version_info or ()
        name = _PRODUCTS[self.engine.dialect.name]
        return f"{name} {'.'.join(map(str, version))}"

    def scalar(self, query: str, **parameters: Any) -> Any:
        """The only value of a query."""
        with self.engine.connect() as connection:
            return connection.execute(sa.text(query), parameters).scalar()

    def ids(self, name: str) -> dict[str, int]:
        """``{name: id}`` of a table with names."""
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(self[name].c.name, self[name].c.id))
            return dict(rows.tuples().all())

    def insert(self, connection: sa.Connection, name: str, rows: Iterable[Row]) -> None:
        """Insert rows."""
        now = datetime.datetime(2026, 1, 1)
        table = self[name]
        for part in _batched(rows):
            values = [{"created_at": now, **row} for row in part]
            connection.execute(table.insert(), values)

    def advance_sequences(self, connection: sa.Connection, names: Sequence[str]) -> None:
        """PostgreSQL: continue the ids behind the inserted ones."""
        if self.engine.dialect.name != "postgresql":
            return
        for name in names:
            text = f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) FROM {name}"
            connection.execute(sa.text(text))


def write(tables: Tables, document: Mapping[str, Any]) -> None:
    """Write the state ``document``, which has no custom classes, traits or consumer types.

    The database must have no providers and no consumers.
    """
    ids = _Ids(tables, document)
    content = {
        **ids.rows(),
        **_provider_rows(document["providers"], ids),
        **_consumer_rows(document["consumers"], ids),
    }
    with tables.engine.begin() as connection:
        for name, rows in content.items():
            tables.insert(connection, name, rows)
        numbered = ("resource_providers", "placement_aggregates", "projects", "users")
        tables.advance_sequences(connection, (*numbered, "consumer_types"))


class _Ids:
    """The ids of everything that rows name: those of the database, and new ones."""

    def __init__(self, tables: Tables, document: Mapping[str, Any]) -> None:
        providers, consumers = document["providers"], document["consumers"].values()
        self.classes = tables.ids("resource_classes")
        self.traits = tables.ids("traits")
        self.providers = _numbered(providers)
        self.aggregates = _numbered(
            uuid for provider in providers.values() for uuid in provider["aggregates"]
        )
        self.projects = _numbered(consumer["project"] for consumer in consumers)
        self.users = _numbered(consumer["user"] for consumer in consumers)
        self.types = _numbered(consumer["type"] for consumer in consumers)

    def rows(self) -> dict[str, Iterable[Row]]:
        """``{table: rows}`` of what has only an id and a name."""
        return {
            "placement_aggregates": _named("uuid", self.aggregates),
            "projects": _named("external_id", self.projects),
            "users": _named("external_id", self.users),
            "consumer_types": _named("name", self.types),
        }


def _provider_rows(providers: Mapping[str, Any], ids: _Ids) -> dict[str, Iterable[Row]]:
    """``{table: rows}``, in an order that foreign keys accept."""
    of = ids.providers
    return {
        "resource_providers": (
            _provider(uuid, provider, of) for uuid, provider in providers.items()
        ),
        "inventories": (
            {
                "resource_provider_id": of[uuid],
                "resource_class_id": ids.classes[name],
                **_full(fields),
            }
            for uuid, provider in providers.items()
            for name, fields in provider["inventories"].items()
        ),
        "resource_provider_traits": (
            {"resource_provider_id": of[uuid], "trait_id": ids.traits[name]}
            for uuid, provider in providers.items()
            for name in provider["traits"]
        ),
        "resource_provider_aggregates": (
            {"resource_provider_id": of[uuid], "aggregate_id": ids.aggregates[name]}
            for uuid, provider in providers.items()
            for name in provider["aggregates"]
        ),
    }


def _consumer_rows(consumers: Mapping[str, Any], ids: _Ids) -> dict[str, Iterable[Row]]:
    """``{table: rows}`` of consumers and their allocations."""
    return {
        "consumers": (
            {
                "uuid": uuid,
                "project_id": ids.projects[consumer["project"]],
                "user_id": ids.users[consumer["user"]],
                "generation": consumer["generation"],
                "consumer_type_id": ids.types[consumer["type"]],
            }
            for uuid, consumer in consumers.items()
        ),
        "allocations": (
            {
                "consumer_id": uuid,
                "resource_provider_id": ids.providers[provider],
                "resource_class_id": ids.classes[name],
                "used": amount,
            }
            for uuid, consumer in consumers.items()
            for provider, amounts in consumer["allocations"].items()
            for name, amount in amounts.items()
        ),
    }


def _named(column: str, ids: Mapping[str, int]) -> Iterable[Row]:
    return ({"id": number, column: name} for name, number in ids.items())


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names), start=1)}


def _provider(uuid: str, provider: Mapping[str, Any], ids: Mapping[str, int]) -> Row:
    return {
        "id": ids[uuid],
        "uuid": uuid,
        "name": provider["name"],
        "generation": provider["generation"],
        "root_provider_id": ids[provider["root"]],
        "parent_provider_id": ids[provider["parent"]] if provider["parent"] else None,
    }


def _full(inventory: Mapping[str, Any]) -> Row:
    defaults = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}
    return {**defaults, "max_unit": inventory["total"], **inventory}


def _batched(rows: Iterable[Row]) -> Iterable[list[Row]]:
    iterator = iter(rows)
    while part := list(itertools.islice(iterator, _PART)):
        yield part
