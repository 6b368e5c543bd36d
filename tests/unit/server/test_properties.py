# SPDX-License-Identifier: Apache-2.0
"""Properties that hold after any sequence of requests."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement import server
from tests.support.sequences import generate, in_process

SEEDS = range(6)
LENGTH = 250


@pytest.mark.parametrize("seed", SEEDS)
def test_memory_and_sqlite_agree(seed: int, tmp_path: pathlib.Path) -> None:
    memory = server.create_app()
    path = str(tmp_path / "placement.sqlite")
    durable = server.create_app(path)
    with memory.repository.read() as base:
        generator = generate.Generator(seed, base)
    for _ in range(LENGTH):
        request = generator.next()
        assert in_process.send(memory, request) == in_process.send(durable, request)
    assert memory.export() == durable.export()
    durable.close()
    opened = server.create_app(path)
    assert opened.export() == memory.export()
    opened.close()


def consumers_with_allocations(app: server.App) -> dict[str, Any]:
    """The state without consumers that have no allocations.

    A refused write that names an unknown provider leaves such a consumer, as in Placement.
    """
    document = app.export()
    document["consumers"] = {
        uuid: consumer
        for uuid, consumer in document["consumers"].items()
        if consumer["allocations"]
    }
    return document


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refused_request_leaves_the_state_unchanged(seed: int) -> None:
    app = server.create_app()
    with app.repository.read() as base:
        generator = generate.Generator(seed, base)
    refused = 0
    before = consumers_with_allocations(app)
    for _ in range(LENGTH):
        answer = in_process.send(app, generator.next())
        after = consumers_with_allocations(app)
        assert answer.status < 500
        if answer.status >= 400:
            refused += 1
            assert after == before
        before = after
    assert refused > LENGTH // 10


@pytest.mark.parametrize("seed", SEEDS)
def test_an_exported_state_is_loaded_unchanged(seed: int) -> None:
    app = server.create_app()
    with app.repository.read() as base:
        generator = generate.Generator(seed, base)
    for _ in range(LENGTH):
        in_process.send(app, generator.next())
    document = json.loads(json.dumps(app.export()))
    assert document["providers"]
    assert server.create_app(load=document).export() == document


@pytest.mark.parametrize("seed", SEEDS)
def test_the_indexes_equal_those_of_a_loaded_state(seed: int) -> None:
    app = server.create_app()
    with app.repository.read() as base:
        generator = generate.Generator(seed, base)
        for _ in range(LENGTH):
            in_process.send(app, generator.next())
        with server.create_app(load=app.export()).repository.read() as fresh:
            for name in ("children", "tree", "with_trait", "with_aggregate", "with_class"):
                mine, theirs = getattr(base, name), getattr(fresh, name)
                assert {key: set(mine[key]) for key in mine} == {
                    key: set(theirs[key]) for key in theirs
                }
            for name in fresh.with_class:
                assert base.rooms(name) == fresh.rooms(name)
            assert base.named == fresh.named
            for uuid in base.providers:
                used = {name: n for name, n in base.used(uuid).items() if n}
                assert used == dict(fresh.used(uuid))
