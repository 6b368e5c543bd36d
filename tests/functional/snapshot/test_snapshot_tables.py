# SPDX-License-Identifier: Apache-2.0
"""``placement snapshot save`` on the tables of openstack-placement: one state, or a clear error.

``--peer`` chooses the database.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy

from osc_placement import errors, microversion, plugin
from osc_placement.client import api
from osc_placement.offline import tables
from osc_placement.workflows.snapshot import save
from tests.support.peer import shell, target as targets

pytestmark = pytest.mark.parametrize("target", ["offline"], indirect=True)

CLOUD = "cloud.sqlite"

#: The columns of a record that no two saves share, and those that have no order.
TIMES = ("started", "finished", "requests")
UNORDERED = ("traits", "aggregates")


@contextlib.contextmanager
def written(target: targets.OfflinePlacement) -> Iterator[sqlalchemy.Connection]:
    """A transaction of another program, which waits for locks."""
    url = target.database_url
    waits = {"timeout": 60} if url.get_backend_name() == "sqlite" else {}
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, connect_args=waits)
    with engine.begin() as connection:
        yield connection


def client_of(target: targets.OfflinePlacement) -> api.Client:
    return api.Client(plugin._offline(target.options[1]), microversion.MAXIMUM)


def saved(target: targets.OfflinePlacement, path: str, *, owners: bool = True) -> save.SaveReport:
    client = client_of(target)
    try:
        return save.save(client, save.SaveRequest(pathlib.Path(path), owners=owners))
    finally:
        client.close()


def lines(path: str) -> list[str]:
    """Every row of a file, sorted; lists of names too."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [
            (name, dict(row))
            for (name,) in names
            for row in connection.execute(f"SELECT * FROM {name}")
        ]
    result = []
    for name, row in rows:
        if name == "snapshot" and row["key"] in TIMES:
            continue
        if name in ("trait", "resource_class"):
            del row["updated_at"]
        for key, value in row.items():
            if isinstance(value, str) and value[:1] in "[{":
                content = json.loads(value)
                row[key] = sorted(content) if key in UNORDERED else content
        result.append(json.dumps([name, row], sort_keys=True))
    return sorted(result)


@pytest.mark.parametrize("owners", [True, False])
def test_the_file_is_the_same_as_over_the_api(
    openstack: shell.OpenStack,
    target: targets.OfflinePlacement,
    monkeypatch: pytest.MonkeyPatch,
    *,
    owners: bool,
) -> None:
    target.load("12-hosts")
    for name in ("CUSTOM_RED", "CUSTOM_BLUE"):
        target.ask("PUT", f"/traits/{name}")
    target.ask("POST", "/resource_providers", {"name": 'empty "ünïcode" 🙂'})
    target.ask("PUT", "/resource_classes/CUSTOM_UNUSED")
    with written(target) as other:
        other.execute(
            sqlalchemy.text(
                "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id,"
                " used) SELECT resource_provider_id, 'f6c7a1de-0000-4000-8000-000000000000',"
                " resource_class_id, 1 FROM inventories WHERE total > 1 ORDER BY id LIMIT 1"
            )
        )
    report = saved(target, CLOUD, owners=owners)
    assert report.counts["resource_providers"] == 23
    assert (report.metadata.requests, report.notes) == (0, [])
    monkeypatch.setattr(api.Client, "tables", None)
    saved(target, "api.sqlite", owners=owners)
    assert lines(CLOUD) == lines("api.sqlite")


def test_the_command_reads_nine_selects_and_no_request(
    openstack: shell.OpenStack, target: targets.OfflinePlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.load("12-hosts")
    report = openstack("placement snapshot save", CLOUD)
    assert (report["requests"], report["resource_providers"], report["consumers"]) == (0, 22, 39)
    again = openstack.run("placement snapshot save", CLOUD)
    assert (again.code, "exists: give another file" in again.stderr) == (1, True)
    statements = []
    run = tables.OfflineReading._rows

    def count(reading: tables.OfflineReading, query: Any) -> Any:
        statements.append(query)
        return run(reading, query)

    # What somebody wrote into a table by hand may have no date.
    with written(target) as other:
        other.execute(sqlalchemy.text("UPDATE inventories SET created_at = NULL"))
        other.execute(sqlalchemy.text("UPDATE resource_providers SET created_at = NULL"))
    monkeypatch.setattr(tables.OfflineReading, "_rows", count)
    saved(target, "counted.sqlite")
    assert len(statements) == 9


def test_the_use_by_a_service_is_no_reason_to_warn(
    openstack: shell.OpenStack, target: targets.OfflinePlacement
) -> None:
    with written(target) as other:
        other.execute(sqlalchemy.text("SELECT 1 FROM traits"))
        ended = openstack.run("placement snapshot save", CLOUD)
    assert (ended.code, "in use" in ended.stderr) == (0, False)


def between(monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Act after the providers were read, before their allocations are."""
    read = tables.OfflineReading.allocations

    def wait(reading: tables.OfflineReading) -> Any:
        action()
        return read(reading)

    monkeypatch.setattr(tables.OfflineReading, "allocations", wait)


def write(target: targets.OfflinePlacement, generation: str, used: str) -> None:
    """A commit that a reading has as a whole: all generations and all amounts."""
    with written(target) as connection:
        for table in ("resource_providers", "consumers"):
            connection.execute(sqlalchemy.text(f"UPDATE {table} SET generation = {generation}"))
        connection.execute(sqlalchemy.text(f"UPDATE allocations SET used = {used}"))


def steps_of(path: str) -> set[tuple[str, int]]:
    """The generations and amounts of a file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        generations = connection.execute(
            "SELECT 'p', generation FROM provider UNION SELECT 'c', generation FROM consumer"
        ).fetchall()
        rows = connection.execute("SELECT allocations FROM consumer").fetchall()
    amounts = {
        ("a", amount)
        for (text,) in rows
        for resources in json.loads(text).values()
        for amount in resources.values()
    }
    return {*generations, *amounts}


def test_a_commit_during_the_save_is_not_in_the_file(
    openstack: shell.OpenStack, target: targets.OfflinePlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.load("12-hosts")
    write(target, "1", "1")
    writer = threading.Thread(target=write, args=(target, "generation + 1", "used + 1"))

    def commit() -> None:
        writer.start()
        # SQLite lets it wait for the end of the reading.
        writer.join(0.5 if target.database_url.get_backend_name() == "sqlite" else 60)

    with monkeypatch.context() as patched:
        between(patched, commit)
        saved(target, CLOUD)
    writer.join(60)
    assert steps_of(CLOUD) == {("p", 1), ("c", 1), ("a", 1)}
    saved(target, "later.sqlite")
    assert steps_of("later.sqlite") == {("p", 2), ("c", 2), ("a", 2)}


def refused(target: targets.OfflinePlacement) -> str:
    """The error of a save, which leaves nothing."""
    with pytest.raises(errors.PlacementError) as caught:
        saved(target, CLOUD)
    assert not list(pathlib.Path().glob("*.sqlite*"))
    return str(caught.value)


def test_a_table_of_an_unknown_release_is_named(
    openstack: shell.OpenStack, target: targets.OfflinePlacement
) -> None:
    rename = "ALTER TABLE allocations RENAME COLUMN {} TO {}"
    with written(target) as connection:
        connection.execute(sqlalchemy.text(rename.format("used", "amount")))
    try:
        text = refused(target)
    finally:
        with written(target) as connection:
            connection.execute(sqlalchemy.text(rename.format("amount", "used")))
    assert "it has no allocations.used" in text
    assert "it is not a database of openstack-placement, or one of an unknown release" in text
    assert "Save the snapshot over the API, or grant SELECT" in text


def test_a_lost_connection_ends_the_save(
    openstack: shell.OpenStack, target: targets.OfflinePlacement, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.load("12-hosts")
    url = target.database_url
    name = url.get_backend_name()
    file = pathlib.Path(str(url.database))
    content = file.read_bytes() if name == "sqlite" else b""

    def cut() -> None:
        if name == "sqlite":
            file.write_bytes(b"no database" * 100_000)
            return
        with written(target) as connection:
            others, kill = {
                "postgresql": (
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid()",
                    "SELECT pg_terminate_backend({})",
                ),
                "mysql": (
                    "SELECT id FROM information_schema.processlist WHERE db = database()"
                    " AND id <> connection_id()",
                    "KILL {}",
                ),
            }[name]
            for (key,) in connection.execute(sqlalchemy.text(others)).all():
                connection.execute(sqlalchemy.text(kill.format(key)))

    between(monkeypatch, cut)
    try:
        text = refused(target)
    finally:
        if content:
            file.write_bytes(content)
    assert f"the database of {target.options[1]}" in text
    assert "Traceback" not in text
