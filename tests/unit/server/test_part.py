# SPDX-License-Identifier: Apache-2.0
"""Reading only a part of a database file."""

from __future__ import annotations

import contextlib
import pathlib
import random
import sqlite3
from collections.abc import Iterator

import pytest

from osc_placement import microversion, server
from osc_placement.engine.candidates import search
from osc_placement.server.store import document, errors
from osc_placement.workflows.cloud import observe
from tests.support.candidates import cloud_builder, oracle
from tests.support.in_process import ask

CLASSES = frozenset({"VCPU"})


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[server.App]:
    with contextlib.closing(server.create_app(str(path), lazily=True)) as app:
        yield app


@pytest.mark.parametrize("seed", range(6))
def test_a_part_has_the_candidates_of_the_whole_file(seed: int, tmp_path: pathlib.Path) -> None:
    draw = random.Random(f"part {seed}")
    base, path = cloud_builder.draw_state(draw), tmp_path / "cloud.sqlite"
    server.create_app(str(path), load=document.dump_document(base)).close()
    for _ in range(8):
        query = cloud_builder.draw_query(draw, base, microversion.MAXIMUM)
        with opened(path) as app:
            app.repository.open_part(
                frozenset(observe.resource_classes([query])), frozenset(observe.traits([query]))
            )
            with app.repository.read() as part:
                found = set(map(oracle.freeze, search.search(part, query)))
                assert [each.name for each in part.providers.values()] == [
                    each.name for each in base.providers.values()
                ]
        assert found == set(map(oracle.freeze, search.search(base, query)))


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    found = tmp_path / "cloud.sqlite"
    with contextlib.closing(server.create_app(str(found))) as app:
        ask(app, "/resource_providers", "POST", {"name": "host"})
    return found


def test_a_part_cannot_be_changed(path: pathlib.Path) -> None:
    with opened(path) as app:
        app.repository.open_part(CLASSES, frozenset())
        response = ask(app, "/resource_providers", "POST", {"name": "other"})
    assert response.status_int == 503
    assert "only a part of the database was read" in response.text


def test_a_file_that_is_read_stays_whole(path: pathlib.Path) -> None:
    with opened(path) as app:
        ask(app, "/resource_providers")
        app.repository.open_part(CLASSES, frozenset())
        response = ask(app, "/resource_providers", "POST", {"name": "other"})
    assert response.status_int == 200


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE provider SET traits = 'x'", "table provider, row '"),
        ("UPDATE provider SET inventories = '[1]'", "table provider, row '"),
        (
            """UPDATE provider SET inventories = '{"VCPU": {"total": 1, "step_size": 0}}'""",
            "VCPU: step_size is less than 1",
        ),
        (
            "UPDATE provider SET root_uuid = '00000000-0000-4000-8000-00000000000f'",
            "root 00000000-0000-4000-8000-00000000000f does not exist",
        ),
        (
            "INSERT INTO consumer VALUES ('c', 0, 'p', 'u', NULL, '7', 1.0)",
            "table consumer, row 'c'",
        ),
        (
            "INSERT INTO consumer VALUES ('c', 0, 'p', 'u', NULL, '{\"x\": {\"VCPU\": 1}}', 1.0)",
            "provider x has no inventory of VCPU",
        ),
    ],
)
def test_a_damaged_part_is_refused(path: pathlib.Path, statement: str, problem: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()
    with opened(path) as app, pytest.raises(errors.NotADatabase, match=problem):
        app.repository.open_part(CLASSES, frozenset())
