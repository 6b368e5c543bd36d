# SPDX-License-Identifier: Apache-2.0
"""The shapes of queries, and the times of their answers."""

from __future__ import annotations

import random
import statistics

import pytest

from osc_placement.workflows.cloud import logs
from osc_placement.workflows.snapshot import compare_services, replay
from osc_placement.workflows.snapshot.compare_services import ShapeComparison


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("resources=VCPU:1&limit=10", "resources=VCPU"),
        ("resources=MEMORY_MB%3A1%2CVCPU%3A1", "resources=MEMORY_MB,VCPU"),
        ("resources=VCPU:2,MEMORY_MB:64", "resources=MEMORY_MB,VCPU"),
        ("resources_a=X:1&resources_b=X:2&group_policy=none", "group_policy resources=X x2"),
        ("resources1=X:1&required1=A&root_required=B", "required resources=X root_required"),
    ],
)
def test_queries_with_other_amounts_and_names_have_one_shape(text: str, shape: str) -> None:
    assert compare_services.shape_of(text) == shape


def compared(seconds: list[tuple[float | None, int]]) -> ShapeComparison:
    return ShapeComparison(
        "x",
        [
            replay.QueryComparison(
                logs.Query("resources=X:1", count=count),
                replay.QueryAnswer(seconds=value),
                replay.QueryAnswer(error="no"),
            )
            for value, count in seconds
        ],
    )


@pytest.mark.seeds(50, long=1000)
def test_times_count_as_often_as_the_log_has_the_query(seed: int) -> None:
    draw = random.Random(seed)
    seconds = [(draw.random(), draw.randint(1, 9)) for _ in range(draw.randint(1, 8))]
    every = sorted(1000 * value for value, count in seconds for _ in range(count))
    times = compared([*seconds, (None, 5)]).before
    assert times.median == round(statistics.median_low(every), 1)
    assert times.worst == round(every[-1], 1)
    assert times.percentile == round(every[max(0, -(-95 * len(every) // 100) - 1)], 1)


def test_a_shape_without_any_answer_has_no_times() -> None:
    shape = compared([(0.1, 1)])
    assert shape.after == compare_services.Times()
    assert shape.slower_percent == 0


def test_answers_are_compared_unless_both_end_at_the_limit() -> None:
    for limit, before, after, expected in (
        (2, "ab", "ac", (True, False, False)),
        (2, "ab", "a", (False, True, False)),
        (3, "ab", "ac", (False, True, False)),
        (3, "a", "ac", (False, False, True)),
    ):
        sides = (replay.QueryAnswer(frozenset(names)) for names in (before, after))
        item = compare_services.compared(logs.Query(f"resources=X:1&limit={limit}"), *sides)
        assert (item.is_cut, item.is_lost, item.is_changed) == expected
