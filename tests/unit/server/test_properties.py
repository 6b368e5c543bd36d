"""What holds after any sequence of requests."""

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


def visible(app: server.App) -> dict[str, Any]:
    """The state without consumers that have nothing.

    Placement knows a new consumer from the moment that its write is looked at; where
    the write then names a provider that does not exist, that is all that is left.
    """
    document = app.export()
    document["consumers"] = {
        uuid: consumer
        for uuid, consumer in document["consumers"].items()
        if consumer["allocations"]
    }
    return document


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refused_request_leaves_the_state_as_it_was(seed: int) -> None:
    app = server.create_app()
    with app.repository.read() as base:
        generator = generate.Generator(seed, base)
    refused = 0
    before = visible(app)
    for _ in range(LENGTH):
        answer = in_process.send(app, generator.next())
        after = visible(app)
        assert answer.status < 500
        if answer.status >= 400:
            refused += 1
            assert after == before
        before = after
    assert refused > LENGTH // 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_goes_out_and_in_again_unchanged(seed: int) -> None:
    app = server.create_app()
    with app.repository.read() as base:
        generator = generate.Generator(seed, base)
    for _ in range(LENGTH):
        in_process.send(app, generator.next())
    document = json.loads(json.dumps(app.export()))
    assert document["providers"]
    assert server.create_app(load=document).export() == document


@pytest.mark.parametrize("seed", SEEDS)
def test_the_indexes_are_those_of_a_state_made_at_once(seed: int) -> None:
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
            assert base.named == fresh.named
            for uuid in base.providers:
                used = {name: n for name, n in base.used(uuid).items() if n}
                assert used == dict(fresh.used(uuid))
