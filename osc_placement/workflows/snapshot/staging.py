# SPDX-License-Identifier: Apache-2.0
"""An unfinished snapshot: what was read so far, on disk, so that a killed save continues.

Readings are kept per provider and per consumer until ``finish`` builds the state from them. Only
one batch of readings is in memory at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import orjson

from osc_placement.client import local, responses
from osc_placement.engine import standard
from osc_placement.model import allocation, inventory, provider
from osc_placement.model.name import is_symbol
from osc_placement.server.store import database_file, errors, sqlite
from osc_placement.workflows.snapshot import file

#: Project and user of a consumer whose owner was not read.
UNKNOWN_OWNER = "unknown"

TABLES = ("listed", "reading", "held", "owner", "share")

SCHEMA = (
    "CREATE TABLE listed (position INTEGER PRIMARY KEY, uuid TEXT UNIQUE,"
    " name TEXT, generation INTEGER, root_uuid TEXT, parent_uuid TEXT)",
    "CREATE TABLE reading (uuid TEXT PRIMARY KEY, generation INTEGER,"
    " inventories TEXT, traits TEXT, aggregates TEXT, modified REAL, outdated INTEGER)",
    "CREATE TABLE held (provider_uuid TEXT, consumer_uuid TEXT,"
    " generation INTEGER, resources TEXT, PRIMARY KEY (provider_uuid, consumer_uuid))"
    " WITHOUT ROWID",
    "CREATE INDEX held_by ON held (consumer_uuid)",
    "CREATE TABLE owner (uuid TEXT PRIMARY KEY, generation INTEGER,"
    " project_id TEXT, user_id TEXT, consumer_type TEXT)",
    "CREATE TABLE share (provider_uuid TEXT, consumer_uuid TEXT,"
    " generation INTEGER, resources TEXT, PRIMARY KEY (consumer_uuid, provider_uuid))"
    " WITHOUT ROWID",
)

#: The statements of the tables that a file has.
EXISTING = """
    SELECT sql FROM sqlite_master
    WHERE tbl_name IN ('listed', 'reading', 'held', 'owner', 'share') AND sql IS NOT NULL
"""

#: Fill the readings from a finished state: the file is refreshed. What its notes name is read
#: again, and so are all consumers if it has no owners.
RESTAGE = (
    "INSERT INTO reading SELECT uuid, generation, inventories, traits, aggregates, updated_at, 0"
    " FROM provider WHERE uuid NOT IN (SELECT uuid FROM snapshot_note)",
    "INSERT INTO held SELECT item.key, consumer.uuid, consumer.generation, item.value"
    " FROM consumer, json_each(consumer.allocations) AS item"
    " WHERE item.key IN (SELECT uuid FROM reading)",
    "INSERT INTO owner SELECT uuid, generation, project_id, user_id, consumer_type FROM consumer"
    " WHERE :owners AND uuid NOT IN (SELECT uuid FROM snapshot_note)",
    "INSERT INTO share SELECT item.key, consumer.uuid, consumer.generation, item.value"
    " FROM consumer, json_each(consumer.allocations) AS item"
    " WHERE consumer.uuid IN (SELECT uuid FROM owner)",
)

#: Consumers whose owner is missing, or was read at another generation than an allocation.
OWNERS_TO_READ = """
    SELECT DISTINCT held.consumer_uuid FROM held LEFT JOIN owner ON owner.uuid = held.consumer_uuid
    WHERE owner.uuid IS NULL OR held.generation IS NOT owner.generation
"""

#: Consumers whose allocations differ between their providers and their own reading.
TORN = """
    SELECT consumer_uuid FROM (SELECT * FROM held EXCEPT
        SELECT provider_uuid, consumer_uuid, generation, resources FROM share)
    UNION
    SELECT consumer_uuid FROM (SELECT * FROM share EXCEPT
        SELECT provider_uuid, consumer_uuid, generation, resources FROM held)
"""
#: The same without owners: consumers with allocations of several generations.
TORN_WITHOUT_OWNERS = """
    SELECT consumer_uuid FROM held GROUP BY consumer_uuid HAVING COUNT(DISTINCT generation) > 1
"""
#: Of consumers that at least one provider still shows.
PROVIDERS_OF_CONSUMERS = """
    SELECT provider_uuid FROM held WHERE consumer_uuid IN (SELECT value FROM json_each(:uuids))
    UNION
    SELECT provider_uuid FROM share WHERE consumer_uuid IN (SELECT value FROM json_each(:uuids))
        AND consumer_uuid IN (SELECT consumer_uuid FROM held)
"""
FORGET_OWNERS = (
    "DELETE FROM owner WHERE uuid IN (SELECT value FROM json_each(:uuids))",
    "DELETE FROM share WHERE consumer_uuid IN (SELECT value FROM json_each(:uuids))",
)

OUTDATED = """
    SELECT listed.uuid FROM listed LEFT JOIN reading USING (uuid)
    WHERE reading.generation IS NOT listed.generation OR reading.outdated
    ORDER BY listed.position
"""

#: Providers without a reading, and providers whose parent or root is not in the file.
INCOMPLETE = """
    SELECT uuid FROM listed WHERE uuid NOT IN (SELECT uuid FROM reading)
        OR root_uuid NOT IN (SELECT uuid FROM listed)
        OR parent_uuid NOT IN (SELECT uuid FROM listed)
"""

IMPOSSIBLE = """
    SELECT held.provider_uuid, held.consumer_uuid, item.key
    FROM held JOIN reading ON reading.uuid = held.provider_uuid,
        json_each(held.resources) AS item
    WHERE NOT EXISTS (SELECT 1 FROM json_each(reading.inventories) AS known
        WHERE known.key = item.key)
"""

BUILD = (
    "DELETE FROM provider",
    "DELETE FROM consumer",
    "INSERT INTO provider (uuid, name, generation, root_uuid, parent_uuid, inventories, traits,"
    " aggregates, updated_at) SELECT uuid, name, reading.generation, root_uuid, parent_uuid,"
    " inventories, traits, aggregates, COALESCE(modified, :now)"
    " FROM listed JOIN reading USING (uuid)"
    " ORDER BY position",
    "INSERT INTO consumer (uuid, generation, project_id, user_id, consumer_type, allocations,"
    " updated_at)"
    " SELECT consumer_uuid, COALESCE(owner.generation, MAX(held.generation)),"
    " COALESCE(project_id, :unknown), COALESCE(user_id, :unknown),"
    " consumer_type, json_group_object(provider_uuid, json(resources)),"
    " COALESCE(MAX(modified), :now)"
    " FROM held JOIN listed ON listed.uuid = held.provider_uuid"
    " JOIN reading ON reading.uuid = held.provider_uuid"
    " LEFT JOIN owner ON owner.uuid = held.consumer_uuid"
    " GROUP BY consumer_uuid ORDER BY MIN(position), consumer_uuid",
)

_LISTED = (
    "INSERT INTO listed (uuid, name, generation, root_uuid, parent_uuid) VALUES (?, ?, ?, ?, ?)"
)
_READING = "INSERT OR REPLACE INTO reading VALUES (?, ?, ?, ?, ?, ?, 0)"

USAGES = """
    SELECT owner.project_id, item.key, SUM(item.value)
    FROM owner JOIN held ON held.consumer_uuid = owner.uuid, json_each(held.resources) AS item
    WHERE owner.project_id IS NOT NULL GROUP BY 1, 2
"""
CONSUMER_COUNTS = """
    SELECT owner.project_id, COUNT(DISTINCT held.consumer_uuid)
    FROM owner JOIN held ON held.consumer_uuid = owner.uuid
    WHERE owner.project_id IS NOT NULL GROUP BY 1
"""
PROVIDERS_OF_PROJECTS = """
    SELECT DISTINCT held.provider_uuid FROM owner JOIN held ON held.consumer_uuid = owner.uuid
    WHERE owner.project_id IN (SELECT value FROM json_each(:projects)) ORDER BY 1
"""

#: The note about a consumer of which only a part may be in the file.
TORN_NOTE = "its allocations on several providers were read at different times"


class Reading(NamedTuple):
    """Everything of one provider, as read; ``modified``: when it last was, see ``Stamp``."""

    uuid: str
    generation: int
    inventories: inventory.Inventories
    traits: Sequence[str]
    aggregates: Sequence[str]
    allocations: Mapping[str, responses.ProviderAllocation]
    modified: float | None


class Stamp(NamedTuple):
    """What shows that a provider has changed, also if it was deleted and created again.

    ``modified`` is when its inventories were modified, or the provider itself if it has none, in
    seconds since the epoch; None if the service does not say it.
    """

    generation: int
    modified: float | None


class Staging:
    """The file of an unfinished snapshot, locked for this process."""

    def __init__(self, path: str) -> None:
        """Open or create the file, mode 0600. Errors: StoreError, which names it."""
        self.path = path
        self._connection = database_file.open_own(path)
        try:
            with self._errors():
                self.metadata = sqlite.read_metadata(self._connection, path)
                self._stage()
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

    def _stage(self) -> None:
        """Create the tables of the readings; fill them from a state that was finished.

        Readings in tables of another version of this program are dropped.
        """
        with self._transaction():
            if set(self._column(EXISTING)) != set(SCHEMA):
                self._drop_tables()
                for statement in SCHEMA:
                    self._connection.execute(statement)
            metadata = self.metadata
            if metadata is not None and metadata.is_finished and not self._count("reading"):
                for statement in RESTAGE:
                    self._connection.execute(statement, {"owners": metadata.owners})

    def _drop_tables(self) -> None:
        for table in TABLES:
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")

    def begin(self, metadata: file.SnapshotMetadata) -> None:
        """Record what is being saved; notes of an earlier save are removed."""
        with self._transaction():
            self.metadata = metadata
            file.write_metadata(self._connection, metadata)
            self._connection.execute("DELETE FROM snapshot_note")

    @property
    def has_readings(self) -> bool:
        """Whether an earlier run left readings."""
        return self._count("reading") > 0

    def replace_listing(self, listing: Iterable[provider.Provider]) -> list[str]:
        """Replace the listing of providers, and drop readings of those that are gone.

        Readings of providers with another name or another place in a tree become outdated: they may
        have been created again. Returns the UUIDs of the dropped ones.
        """
        places = "SELECT uuid, name, root_uuid, parent_uuid FROM listed"
        with self._transaction():
            before = {row[0]: row for row in self._connection.execute(places)}
            self._connection.execute("DELETE FROM listed")
            self._connection.executemany(
                _LISTED,
                (
                    (one.uuid, one.name, one.generation, one.root_uuid or one.uuid, one.parent_uuid)
                    for one in listing
                ),
            )
            after = self._connection.execute(places).fetchall()
            self._outdate(row[0] for row in after if before.get(row[0], row) != row)
            gone = self._column("SELECT uuid FROM reading EXCEPT SELECT uuid FROM listed")
            rows = [(uuid,) for uuid in gone]
            self._connection.executemany("DELETE FROM reading WHERE uuid = ?", rows)
            self._connection.executemany("DELETE FROM held WHERE provider_uuid = ?", rows)
            return gone

    def outdated(self) -> list[str]:
        """The listed providers without a reading of their state, in their order."""
        return self._column(OUTDATED)

    def with_allocations(self) -> list[str]:
        """The providers whose reading has allocations."""
        return self._column("SELECT DISTINCT provider_uuid FROM held")

    def stamps(self) -> dict[str, Stamp]:
        """``{provider: stamp}`` of all readings that are not outdated."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT uuid, generation, modified FROM reading WHERE NOT outdated"
            )
            return {uuid: Stamp(generation, modified) for uuid, generation, modified in rows}

    def without_inventories(self) -> set[str]:
        """The providers whose reading has no inventories."""
        return set(self._column("SELECT uuid FROM reading WHERE inventories = '{}'"))

    def outdate(self, uuids: Iterable[str]) -> None:
        """Count readings as outdated, whatever their generation is."""
        with self._transaction():
            self._outdate(uuids)

    def _outdate(self, uuids: Iterable[str]) -> None:
        self._connection.executemany(
            "UPDATE reading SET outdated = 1 WHERE uuid = ?", [(uuid,) for uuid in uuids]
        )

    def torn_consumers(self, *, owners: bool) -> list[str]:
        """The consumers whose allocations were not read in one state.

        ``owners``: consumers were read by themselves too.
        """
        return self._column(TORN if owners else TORN_WITHOUT_OWNERS)

    def providers_of_consumers(self, uuids: Iterable[str]) -> list[str]:
        """The listed providers of these consumers, without those of consumers that are gone."""
        listed = set(self._column("SELECT uuid FROM listed"))
        holding = self._column(PROVIDERS_OF_CONSUMERS, {"uuids": _json(list(uuids))})
        return [uuid for uuid in holding if uuid in listed]

    def owners_to_read(self) -> list[str]:
        """The consumers whose owner was not read at the generation of their allocations."""
        return self._column(OWNERS_TO_READ)

    def usages(self) -> dict[str, responses.Usage]:
        """``{project: what its consumers hold}``, as far as owners were read."""
        with self._errors():
            counts = self._connection.execute(CONSUMER_COUNTS).fetchall()
            resources: dict[str, dict[str, int]] = {project: {} for project, _ in counts}
            for project, resource_class, amount in self._connection.execute(USAGES):
                resources[project][resource_class] = amount
        return {
            project: responses.Usage(resources[project], consumer_count=count)
            for project, count in counts
        }

    def providers_of_projects(self, projects: Sequence[str]) -> list[str]:
        """The providers from which consumers of these projects hold resources."""
        return self._column(PROVIDERS_OF_PROJECTS, {"projects": _json(projects)})

    def save_readings(self, readings: Iterable[Reading]) -> set[str]:
        """Keep readings of whole providers; returns the consumers that are no longer as before.

        The owners of the consumers on these providers are dropped, to be read again: a consumer
        that was created again has its old generation, but changes that of its providers.
        """
        changed: set[str] = set()
        with self._transaction():
            for reading in readings:
                self._keep(reading)
                changed |= self._replace_held(reading.uuid, reading.allocations)
                self._forget_owners(reading.allocations)
        return changed

    def _keep(self, reading: Reading) -> None:
        """Keep what is read of a provider besides its allocations."""
        uuid, generation, inventories, traits, aggregates, _, modified = reading
        fields = _json({name: one.as_dict() for name, one in inventories.items()})
        lists = _json(sorted(traits)), _json(list(aggregates))
        self._connection.execute(_READING, (uuid, generation, fields, *lists, modified))

    def replace_all(self, tables: local.TableReading, *, owners: bool) -> tuple[int, int]:
        """Replace everything by the state of one moment; how many providers and consumers."""
        with self._transaction():
            for table in TABLES:
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
            for item in tables.providers():
                place = [item[name] for name in ("uuid", "name", "generation")]
                self._connection.execute(_LISTED, (*place, item["root_uuid"], item["parent_uuid"]))
                inventories = {
                    name: inventory.Inventory.from_dict(fields)
                    for name, fields in item["inventories"].items()
                }
                traits, aggregates = item["traits"], item["aggregates"]
                self._keep(
                    Reading(
                        item["uuid"],
                        item["generation"],
                        inventories,
                        traits,
                        aggregates,
                        {},
                        item["modified"],
                    )
                )
            self._connection.executemany(
                "INSERT INTO held VALUES (?, ?, ?, ?)",
                ((*key, _resources(amounts)) for *key, amounts in tables.allocations()),
            )
            if owners:
                self._connection.executemany(
                    "INSERT INTO owner VALUES (?, ?, ?, ?, ?)", tables.consumers()
                )
                self._connection.execute(
                    "INSERT INTO share SELECT provider_uuid, consumer_uuid, generation, resources"
                    " FROM held"
                )
            return self._count("listed"), self._count("owner")

    def save_allocations(
        self, provider_uuid: str, allocations: Mapping[str, responses.ProviderAllocation]
    ) -> set[str]:
        """Replace only the allocations of a provider; returns the consumers not as before."""
        with self._transaction():
            return self._replace_held(provider_uuid, allocations)

    def _replace_held(
        self, provider_uuid: str, allocations: Mapping[str, responses.ProviderAllocation]
    ) -> set[str]:
        before = self._connection.execute(
            "SELECT * FROM held WHERE provider_uuid = ?", (provider_uuid,)
        ).fetchall()
        after = [
            (provider_uuid, uuid, one.consumer_generation, _resources(one.resources))
            for uuid, one in allocations.items()
        ]
        self._connection.execute("DELETE FROM held WHERE provider_uuid = ?", (provider_uuid,))
        self._connection.executemany("INSERT INTO held VALUES (?, ?, ?, ?)", after)
        return {row[1] for row in set(before).difference(after)}

    def save_owners(self, consumers: Iterable[allocation.Consumer]) -> None:
        """Keep consumers as read by themselves; one without a generation has no allocations."""
        with self._transaction():
            for one in consumers:
                self._forget_owners([one.uuid])
                kind = None if one.consumer_type == allocation.UNKNOWN_TYPE else one.consumer_type
                self._connection.execute(
                    "INSERT INTO owner VALUES (?, ?, ?, ?, ?)",
                    (one.uuid, one.generation, one.project_id, one.user_id, kind),
                )
                self._connection.executemany(
                    "INSERT INTO share VALUES (?, ?, ?, ?)",
                    [
                        (provider_uuid, one.uuid, one.generation, _resources(resources))
                        for provider_uuid, resources in one.allocations.items()
                    ],
                )

    def _forget_owners(self, uuids: Iterable[str]) -> None:
        for statement in FORGET_OWNERS:
            self._connection.execute(statement, {"uuids": _json(list(uuids))})

    def clear_owners(self) -> None:
        """Drop all owners, for a snapshot without owners."""
        with self._transaction():
            self._connection.execute("DELETE FROM owner")
            self._connection.execute("DELETE FROM share")

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

    def add_notes(self, notes: Iterable[file.SaveNote]) -> None:
        """Record what the save reports."""
        with self._transaction():
            self._connection.executemany("INSERT OR IGNORE INTO snapshot_note VALUES (?, ?)", notes)

    def finish(
        self,
        metadata: file.SnapshotMetadata,
        traits: Iterable[str],
        resource_classes: Iterable[str],
    ) -> file.SnapshotMetadata:
        """Build the state from the readings; returns the metadata with the digest.

        Traits and resource classes that this program does not know are kept as custom ones.
        """
        with self._transaction():
            self._drop_incomplete()
            self._note(self.torn_consumers(owners=metadata.owners), TORN_NOTE)
            self._drop_impossible()
            values = {"unknown": UNKNOWN_OWNER, "now": time.time()}
            for statement in BUILD:
                self._connection.execute(statement, values)
            self._replace_names(traits, resource_classes)
            digest = file.state_hash(self._connection, generations=True)
            self.metadata = dataclasses.replace(metadata, digest=digest)
            file.write_metadata(self._connection, self.metadata)
            self._drop_tables()
        with self._errors():
            # Compact and in one file; without the space for that it is only larger.
            with contextlib.suppress(sqlite3.OperationalError):
                self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        return self.metadata

    def _drop_incomplete(self) -> None:
        """Drop providers that appeared or disappeared at the end of the save."""
        while incomplete := self._column(INCOMPLETE):
            rows = [(uuid,) for uuid in incomplete]
            self._connection.executemany("DELETE FROM listed WHERE uuid = ?", rows)
            self._note(incomplete, "left out: it was created or deleted during the save")
        half = "held WHERE provider_uuid NOT IN (SELECT uuid FROM listed)"
        self._note(self._column(f"SELECT DISTINCT consumer_uuid FROM {half}"), TORN_NOTE)  # noqa: S608
        self._connection.execute(f"DELETE FROM {half}")  # noqa: S608

    def _drop_impossible(self) -> None:
        """Drop allocations without an inventory, which a provider that changes can show."""
        for provider_uuid, consumer_uuid, resource_class in self._connection.execute(
            IMPOSSIBLE
        ).fetchall():
            key = (provider_uuid, consumer_uuid)
            self._connection.execute(
                "UPDATE held SET resources = json_remove(resources, ?)"
                " WHERE provider_uuid = ? AND consumer_uuid = ?",
                (f'$."{resource_class}"', *key),
            )
            self._note(
                [consumer_uuid],
                f"allocation of {resource_class} left out: provider {provider_uuid} had no"
                " inventory of it when it was read",
            )

    def _replace_names(self, traits: Iterable[str], resource_classes: Iterable[str]) -> None:
        now = time.time()
        used = "SELECT DISTINCT item.value FROM provider, json_each(provider.traits) AS item"
        classes = "SELECT DISTINCT item.key FROM provider, json_each(provider.inventories) AS item"
        for table, reported, used_names, is_standard in (
            ("trait", traits, self._column(used), standard.traits()),
            ("resource_class", resource_classes, self._column(classes), standard.RESOURCE_CLASSES),
        ):
            wanted = dict.fromkeys([*reported, *used_names])
            rows = [(name, now) for name in wanted if name not in is_standard and is_symbol(name)]
            self._connection.execute(f"DELETE FROM {table}")  # noqa: S608
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)  # noqa: S608

    def _note(self, uuids: Iterable[str], text: str) -> None:
        self._connection.executemany(
            "INSERT OR IGNORE INTO snapshot_note VALUES (?, ?)", [(uuid, text) for uuid in uuids]
        )

    def _column(self, query: str, parameters: Any = ()) -> list[Any]:
        with self._errors():
            return [row[0] for row in self._connection.execute(query, parameters)]

    def _count(self, table: str) -> int:
        return int(self._column(f"SELECT COUNT(*) FROM {table}")[0])  # noqa: S608

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


def _resources(resources: Mapping[str, int]) -> str:
    """Equal resources as equal texts."""
    return orjson.dumps(dict(resources), option=orjson.OPT_SORT_KEYS).decode()


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
