# SPDX-License-Identifier: Apache-2.0
"""The SQLite file: errors name it; unusable, damaged, deleted and replaced files."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from osc_placement import server
from osc_placement.server import run
from osc_placement.server.store import database_file, errors, sqlite
from tests.support.in_process import ask


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A database with one provider."""
    file = tmp_path / "placement.sqlite"
    app = server.create_app(str(file))
    create(app, "one")
    app.close()
    return file


def create(app: server.App, name: str) -> int:
    return ask(app, "/resource_providers", "POST", {"name": name}).status_int


def names(file: pathlib.Path) -> set[str]:
    app = server.create_app(str(file))
    found = {provider["name"] for provider in app.export()["providers"].values()}
    app.close()
    return found


def test_a_folder_without_write_access_is_named(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda checked, mode: str(checked) != str(path.parent))
    with pytest.raises(errors.NotWritable, match=f"needs a journal in folder {path.parent}"):
        sqlite.SqliteStore(str(path))


def test_a_file_that_is_not_a_database_is_unchanged(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("shopping: milk, eggs and much more\n" * 20)
    with pytest.raises(errors.NotADatabase, match=r"notes\.txt is not a Placement database"):
        server.create_app(str(file))
    assert file.read_text().startswith("shopping")


def test_the_database_of_another_program_is_unchanged(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "other.sqlite"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE song (title TEXT)")
    other.close()
    with pytest.raises(errors.NotADatabase, match="of another program"):
        server.create_app(str(file))
    other = sqlite3.connect(file)
    assert [row[0] for row in other.execute("SELECT name FROM sqlite_master")] == ["song"]
    other.close()


def test_a_file_of_a_newer_version_is_reported(path: pathlib.Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO migration (name) VALUES ('2031-04 colours')")
    connection.close()
    with pytest.raises(errors.NewerVersion, match="2031-04 colours"):
        server.create_app(str(path))


def test_a_truncated_file_is_reported(path: pathlib.Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2 - 100])
    with pytest.raises(errors.StoreError, match=str(path)):
        server.create_app(str(path))


@pytest.mark.parametrize(
    ("place", "problem"), [("nowhere/placement.sqlite", "does not exist"), (".", "is a folder")]
)
def test_a_folder_is_no_database(place: str, problem: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.StoreError, match=problem):
        server.create_app(str(tmp_path / place))


def test_a_second_process_is_refused_because_the_file_is_in_use(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "BUSY_SECONDS", 0.1)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from osc_placement import server\n"
            "server.create_app(sys.argv[1]); print('open', flush=True); sys.stdin.read()",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(errors.InUse, match="in use by another process"):
            server.create_app(str(path))
    finally:
        holder.communicate()
    assert names(path) == {"one"}


def test_a_full_disk_refuses_the_write_and_keeps_the_records(path: pathlib.Path) -> None:
    app = server.create_app(str(path))
    store = app.repository._store
    assert isinstance(store, sqlite.SqliteStore)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    statuses = {create(app, f"more-{number:04d}" + "x" * 150) for number in range(60)}
    assert 503 in statuses
    kept = {provider["name"] for provider in app.export()["providers"].values()}
    app.close()
    assert names(path) == kept


ONE, TWO, UNKNOWN = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2, 9))


def valid_document() -> dict[str, Any]:
    """A document without problems."""
    provider = {
        "name": "one",
        "parent": None,
        "root": ONE,
        "generation": 1,
        "inventories": {"VCPU": {"total": 4}},
        "traits": [],
        "aggregates": [],
    }
    consumer = {"project": "p", "user": "u", "type": "INSTANCE", "generation": 1}
    return {
        "custom_resource_classes": [],
        "custom_traits": [],
        "providers": {ONE: provider, TWO: {**provider, "name": "two", "parent": ONE}},
        "consumers": {UNKNOWN: {**consumer, "allocations": {ONE: {"VCPU": 1}}}},
    }


def test_an_invalid_document_is_refused_with_all_problems() -> None:
    document = valid_document()
    first, two = document["providers"].values()
    first |= {"parent": UNKNOWN, "inventories": {"CUSTOM_X": {"total": 1}}, "traits": ["CUSTOM_T"]}
    del two["aggregates"]
    with pytest.raises(errors.DocumentInvalid) as caught:
        server.create_app(load=document)
    text = str(caught.value)
    for problem in (
        f"parent {UNKNOWN} does not exist",
        "trait CUSTOM_T does not exist",
        "resource class CUSTOM_X does not exist",
        f"provider {TWO}: 'aggregates' is missing",
    ):
        assert problem in text


@pytest.mark.parametrize(
    ("where", "value", "problem"),
    [
        ("providers", [], "'providers' is missing or not an object"),
        ("custom_traits", [3], "3 is not a name"),
        ("custom_traits", 3, "'custom_traits' is missing or not a list"),
        (f"providers {ONE}", None, f"provider {ONE}"),
        (f"providers {ONE} name", 3, "name 3 is not a text"),
        (f"providers {ONE} name", "two", "also has the name 'two'"),
        (f"providers {ONE} generation", "1", "generation '1' is not a natural number"),
        (f"providers {ONE} generation", -1, "generation -1 is not a natural number"),
        (f"providers {ONE} root", TWO, "its root is another provider"),
        (f"providers {ONE} parent", TWO, "its parents form a cycle"),
        (f"providers {TWO} parent", None, "its root is another provider"),
        (f"providers {TWO} parent", "host", "'host' is not a UUID"),
        (f"providers {TWO} root", TWO, "its root differs from its parent's root"),
        (
            f"providers {ONE} inventories VCPU total",
            True,
            "VCPU: total True is not a natural number",
        ),
        (f"providers {ONE} inventories VCPU", 8, "VCPU: 8 is not an inventory"),
        (f"providers {ONE} inventories VCPU", {"totl": 8}, "an object with a total"),
        (f"providers {ONE} inventories VCPU step_size", 0, "VCPU: step_size is less than 1"),
        (f"providers {ONE} inventories VCPU allocation_ratio", "x", "'x' is not a number"),
        (f"providers {ONE} inventories VCPU allocation_ratio", float("nan"), "nan is not a number"),
        (f"providers {ONE} inventories VCPU allocation_ratio", 10**400, "000 is not a number"),
        (f"providers {ONE} aggregates", ["a"], "'a' is not a UUID"),
        (f"consumers {UNKNOWN} type", None, "type None is not a text"),
        (f"consumers {UNKNOWN} allocations {ONE} VCPU", 1.5, "VCPU 1.5 is not a natural number"),
        (f"consumers {UNKNOWN} allocations {ONE} DISK_GB", 1, "has no inventory of DISK_GB"),
        (f"consumers {UNKNOWN} allocations {UNKNOWN}", {"VCPU": 1}, "has no inventory of VCPU"),
    ],
)
def test_an_impossible_state_is_refused(where: str, value: object, problem: str) -> None:
    document = valid_document()
    server.create_app(load=document).close()
    *path, last = where.split()
    place: Any = document
    for key in path:
        place = place[key]
    place[last] = value
    with pytest.raises(errors.DocumentInvalid) as caught:
        server.create_app(load=document)
    assert problem in str(caught.value)


PROVIDER = f"/resource_providers/{ONE}"
GIVEN = {"resource_provider_generation": 1, "total": 8}
FLOATS = {"total": 8.0, "reserved": 2.0, "min_unit": 1.0, "max_unit": 8.0, "step_size": 1.0}
CLAIM = {"project_id": "p", "user_id": "u", "consumer_type": "I\n", "consumer_generation": 1}


@pytest.mark.parametrize(
    ("request_line", "body", "status"),
    [
        (f"PUT {PROVIDER}", {"name": ""}, 200),
        (f"PUT {PROVIDER}/inventories/VCPU", {**GIVEN, **FLOATS}, 200),
        *(
            (f"PUT {PROVIDER}/inventories/VCPU", {**GIVEN, "allocation_ratio": ratio}, 400)
            for ratio in (-(10**400), float("nan"))
        ),
        (
            f"PUT /allocations/{UNKNOWN}",
            {**CLAIM, "allocations": {ONE: {"resources": {"VCPU": 2.0}}}},
            204,
        ),
        ("POST /resource_classes", {"name": "CUSTOM_A\n"}, 400),
        ("PUT /resource_classes/CUSTOM_A%0A", None, 400),
        ("PUT /traits/CUSTOM_A%0A", None, 400),
    ],
)
def test_every_record_that_is_accepted_can_be_read_again(
    request_line: str, body: object, status: int, tmp_path: pathlib.Path
) -> None:
    file, (method, place) = str(tmp_path / "placement.sqlite"), request_line.split()
    app = server.create_app(file, load=valid_document())
    assert ask(app, place, method, body).status_int == status
    exported = app.export()
    app.close()
    for again in (server.create_app(file), server.create_app(load=exported)):
        assert again.export() == exported
        again.close()


Capture = pytest.CaptureFixture[str]


@pytest.fixture
def sample(tmp_path: pathlib.Path) -> pathlib.Path:
    """A database with the sample cloud of twelve hosts."""
    file = tmp_path / "placement.sqlite"
    assert (
        run.main(
            ["--database", str(file), "--load", "12-hosts", "--export", str(tmp_path / "export")]
        )
        == 0
    )
    return file


def change(path: pathlib.Path, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


#: What a document cannot have, and one value of each column: both are read by the same functions.
DAMAGE = {
    "a missing root": (
        "UPDATE provider SET root_uuid = '00000000-0000-4000-8000-00000000000f' WHERE rowid = 1",
        "root 00000000-0000-4000-8000-00000000000f does not exist",
    ),
    "inventories of another type": ("UPDATE provider SET inventories = '[1]'", "table provider"),
    "no JSON": ("UPDATE provider SET traits = 'x'", "table provider, row '"),
    "allocations of another type": ("UPDATE consumer SET allocations = '7'", "table consumer"),
    "an unknown provider": (
        """UPDATE consumer SET allocations = '{"x": {"VCPU": 1}}'""",
        "provider x has no inventory of VCPU",
    ),
    "a generation of another type": ("UPDATE provider SET generation = 'x'", "generation 'x'"),
    "a date of another type": ("UPDATE consumer SET updated_at = 'x'", "updated_at 'x'"),
    "a date that no header has": (
        "UPDATE provider SET updated_at = 1099511627776",
        "is not a date before the year 10000",
    ),
    "an invalid custom name": ("INSERT INTO trait VALUES ('x', 1.0)", "'x' is not a name"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_with_table_and_row(
    damage: str, sample: pathlib.Path, capsys: Capture
) -> None:
    statement, problem = DAMAGE[damage]
    change(sample, statement)
    with pytest.raises(errors.NotADatabase) as caught:
        server.create_app(str(sample))
    assert problem in str(caught.value)
    assert str(sample) in str(caught.value)
    assert run.main(["--check", str(sample)]) == 1
    assert problem in capsys.readouterr().err


def test_a_check_reports_a_good_file(sample: pathlib.Path, capsys: Capture) -> None:
    assert run.main(["--check", str(sample)]) == 0
    assert capsys.readouterr().out.startswith(f"{sample}: ")


def test_a_check_creates_no_file(tmp_path: pathlib.Path, capsys: Capture) -> None:
    assert run.main(["--check", str(tmp_path / "none.sqlite")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
