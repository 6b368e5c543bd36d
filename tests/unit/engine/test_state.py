# SPDX-License-Identifier: Apache-2.0
"""Copies of a state, and its indexes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from osc_placement.engine import record, state
from tests.support.candidates import clouds


def content(base: state.CloudState) -> dict[str, Any]:
    """Everything that a state has; members of an index in the order of a rebuilt one."""
    return {
        name: {key: dict(value.values(key)) for key in value}
        if isinstance(value, state.Index)
        else dict(value)
        for name, value in vars(base).items()
        if isinstance(value, state.Index | dict)
    }


def emptied(base: state.CloudState, uuid: str) -> record.Changes:
    """The deletion of a provider without children, with all consumers of it."""
    consumers = dict.fromkeys(base.consumers_of[uuid])
    return record.Changes({uuid: None}, consumers, {"CUSTOM_NEW": 1.0})


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_and_its_original_change_independently(seed: int) -> None:
    base = clouds.draw_state(random.Random(f"copy {seed}"))
    leaf = next(uuid for uuid in base.providers if not base.children[uuid])
    before = content(base)
    first, second = base.copy(), base.copy()
    assert content(first) == before
    first.apply(emptied(first, leaf))
    after = content(first)
    assert leaf not in first.providers
    assert after != before
    assert content(base) == content(second) == before
    base.apply(emptied(base, leaf))
    assert content(base) == after
    assert content(second) == before


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], True),
        ([["a"]], True),
        ([["none"]], False),
        ([["a", "none"], ["b"]], True),
        ([["a"], ["c"]], False),
        ([["b", "c"], ["a", "c"], ["a", "b"]], True),
        ([["a"], ["b"], ["c"]], False),
    ],
)
def test_one_member_must_meet_each_condition(
    conditions: list[list[str]], *, expected: bool
) -> None:
    index = state.Index()
    for key, members in {"a": ["1", "2"], "b": ["2"], "c": ["3"]}.items():
        for member in members:
            index.add(key, member)
    assert index.has_common_member(conditions) is expected
