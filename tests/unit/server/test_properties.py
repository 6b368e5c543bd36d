# SPDX-License-Identifier: Apache-2.0
"""Properties that hold after any sequence of requests."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement import server
from osc_placement.engine import state
from tests.support.sequences import generate, in_process

LENGTH = 250


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


@pytest.mark.seeds(6, long=60)
def test_memory_and_file_agree_and_a_refused_request_leaves_the_state_unchanged(
    seed: int, tmp_path: pathlib.Path
) -> None:
    memory = server.create_app()
    path = str(tmp_path / "placement.sqlite")
    durable = server.create_app(path)
    with memory.repository.read() as base:
        generator = generate.Generator(seed, base)
    refused = 0
    before = consumers_with_allocations(memory)
    for _ in range(LENGTH):
        request = generator.next()
        answer = in_process.send(memory, request)
        assert answer == in_process.send(durable, request)
        after = consumers_with_allocations(memory)
        assert answer.status < 500
        if answer.status >= 400:
            refused += 1
            assert after == before
        before = after
    assert refused > LENGTH // 10
    exported = memory.export()
    assert exported["providers"]
    assert durable.export() == exported
    durable.close()
    opened = server.create_app(path)
    assert opened.export() == exported
    opened.close()
    loaded = server.create_app(load=json.loads(json.dumps(exported)))
    assert loaded.export() == exported
    with memory.repository.read() as base, loaded.repository.read() as fresh:
        assert_equal_indexes(base, fresh)


def assert_equal_indexes(base: state.CloudState, fresh: state.CloudState) -> None:
    """The indexes that grew with the requests equal those of a loaded state."""
    for name in ("children", "tree", "with_trait", "with_aggregate", "with_class"):
        mine, theirs = getattr(base, name), getattr(fresh, name)
        assert {key: set(mine[key]) for key in mine} == {key: set(theirs[key]) for key in theirs}
    for name in fresh.with_class:
        assert base.rooms(name) == fresh.rooms(name)
    assert base.named == fresh.named
    for uuid in base.providers:
        assert {name: n for name, n in base.used(uuid).items() if n} == dict(fresh.used(uuid))
