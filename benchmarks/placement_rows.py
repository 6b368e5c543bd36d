"""Fills the database of openstack-placement directly: large clouds take hours over its API."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy

_CHUNK = 10_000


class _Database:
    """The tables of an empty openstack-placement, in one transaction."""

    def __init__(self, connection: sqlalchemy.Connection) -> None:
        self._connection = connection
        self._metadata = sqlalchemy.MetaData()
        self._metadata.reflect(connection)

    def insert(self, table: str, rows: Iterable[dict[str, Any]]) -> None:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        found = ({"created_at": now, **row} for row in rows)
        while chunk := list(itertools.islice(found, _CHUNK)):
            self._connection.execute(sqlalchemy.insert(self._metadata.tables[table]), chunk)

    def ids(self, table: str, key: str) -> Callable[[str], int]:
        columns = self._metadata.tables[table].c
        rows = self._connection.execute(sqlalchemy.select(columns[key], columns.id))
        return {row[0]: row[1] for row in rows}.__getitem__

    def insert_with_ids(
        self, table: str, key: str, rows: Iterable[dict[str, Any]]
    ) -> Callable[[str], int]:
        self.insert(table, rows)
        return self.ids(table, key)

    def make_roots(self) -> None:
        self._connection.execute(
            sqlalchemy.text("UPDATE resource_providers SET root_provider_id = id")
        )


def fill(url: str, state: Mapping[str, Any]) -> None:
    """Write a document without custom names and trees to an empty database."""
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        database = _Database(connection)
        class_id = database.ids("resource_classes", "name")
        provider_id = _fill_providers(database, state["providers"], class_id)
        _fill_consumers(database, state["consumers"], provider_id, class_id)
    engine.dispose()


def _fill_providers(
    database: _Database, providers: Mapping[str, Any], class_id: Callable[[str], int]
) -> Callable[[str], int]:
    provider_id = database.insert_with_ids(
        "resource_providers",
        "uuid",
        (
            {"uuid": uuid, "name": one["name"], "generation": one["generation"]}
            for uuid, one in providers.items()
        ),
    )
    database.make_roots()
    aggregates = {uuid for one in providers.values() for uuid in one["aggregates"]}
    aggregate_id = database.insert_with_ids(
        "placement_aggregates", "uuid", ({"uuid": uuid} for uuid in sorted(aggregates))
    )
    trait_id = database.ids("traits", "name")
    of = [(provider_id(uuid), one) for uuid, one in providers.items()]
    database.insert(
        "resource_provider_aggregates",
        (
            {"resource_provider_id": key, "aggregate_id": aggregate_id(uuid)}
            for key, one in of
            for uuid in one["aggregates"]
        ),
    )
    database.insert(
        "resource_provider_traits",
        (
            {"resource_provider_id": key, "trait_id": trait_id(name)}
            for key, one in of
            for name in one["traits"]
        ),
    )
    database.insert(
        "inventories",
        (
            {
                "resource_provider_id": key,
                "resource_class_id": class_id(name),
                "reserved": 0,
                "min_unit": 1,
                "step_size": 1,
                **fields,
            }
            for key, one in of
            for name, fields in one["inventories"].items()
        ),
    )
    return provider_id


def _fill_consumers(
    database: _Database,
    consumers: Mapping[str, Any],
    provider_id: Callable[[str], int],
    class_id: Callable[[str], int],
) -> None:
    ids = {
        field: database.insert_with_ids(
            table, key, ({key: text} for text in sorted({one[field] for one in consumers.values()}))
        )
        for field, table, key in (
            ("project", "projects", "external_id"),
            ("user", "users", "external_id"),
            ("type", "consumer_types", "name"),
        )
    }
    database.insert(
        "consumers",
        (
            {
                "uuid": uuid,
                "generation": one["generation"],
                "project_id": ids["project"](one["project"]),
                "user_id": ids["user"](one["user"]),
                "consumer_type_id": ids["type"](one["type"]),
            }
            for uuid, one in consumers.items()
        ),
    )
    database.insert(
        "allocations",
        (
            {
                "consumer_id": uuid,
                "resource_provider_id": provider_id(provider_uuid),
                "resource_class_id": class_id(name),
                "used": amount,
            }
            for uuid, one in consumers.items()
            for provider_uuid, resources in one["allocations"].items()
            for name, amount in resources.items()
        ),
    )
