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

    def scalar(self, query: str, **parameters: Any) -> Any:
        """The only value of a query."""
        with self.engine.connect() as connection:
            return connection.execute(sa.text(query), parameters).scalar()

    def ids(self, name: str) -> dict[str, int]:
        """``{name: id}`` of a table with names."""
        with self.engine.connect() as connection:
            found = connection.execute(sa.select(self[name].c.name, self[name].c.id))
            return dict(found.tuples().all())

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
    providers, consumers = document["providers"], document["consumers"]
    ids = _numbered(providers)
    classes, traits = tables.ids("resource_classes"), tables.ids("traits")
    aggregates = _numbered(uuid for each in providers.values() for uuid in each["aggregates"])
    projects = _numbered(each["project"] for each in consumers.values())
    users = _numbered(each["user"] for each in consumers.values())
    types = _numbered(each["type"] for each in consumers.values())
    content: dict[str, Iterable[Row]] = {
        "resource_providers": (_provider(uuid, each, ids) for uuid, each in providers.items()),
        "placement_aggregates": ({"id": n, "uuid": uuid} for uuid, n in aggregates.items()),
        "projects": ({"id": n, "external_id": name} for name, n in projects.items()),
        "users": ({"id": n, "external_id": name} for name, n in users.items()),
        "consumer_types": ({"id": n, "name": name} for name, n in types.items()),
        "inventories": (
            {"resource_provider_id": ids[uuid], "resource_class_id": classes[name], **_full(fields)}
            for uuid, each in providers.items()
            for name, fields in each["inventories"].items()
        ),
        "resource_provider_traits": (
            {"resource_provider_id": ids[uuid], "trait_id": traits[name]}
            for uuid, each in providers.items()
            for name in each["traits"]
        ),
        "resource_provider_aggregates": (
            {"resource_provider_id": ids[uuid], "aggregate_id": aggregates[name]}
            for uuid, each in providers.items()
            for name in each["aggregates"]
        ),
        "consumers": (
            {
                "uuid": uuid,
                "project_id": projects[each["project"]],
                "user_id": users[each["user"]],
                "generation": each["generation"],
                "consumer_type_id": types[each["type"]],
            }
            for uuid, each in consumers.items()
        ),
        "allocations": (
            {
                "consumer_id": uuid,
                "resource_provider_id": ids[provider],
                "resource_class_id": classes[name],
                "used": amount,
            }
            for uuid, each in consumers.items()
            for provider, held in each["allocations"].items()
            for name, amount in held.items()
        ),
    }
    with tables.engine.begin() as connection:
        for name, rows in content.items():
            tables.insert(connection, name, rows)
        numbered = ("resource_providers", "placement_aggregates", "projects", "users")
        tables.advance_sequences(connection, (*numbered, "consumer_types"))


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
