# SPDX-License-Identifier: Apache-2.0
"""The smallest explanations of a difference of sums, against brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings, strategies as st

from osc_placement.workflows.repair.allocations import owners
from osc_placement.workflows.repair.allocations.owners import Vector

SMALL, MEDIUM, LARGE = (1, 2), (2, 4), (4, 5)
VECTORS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), unique=True, max_size=4)


@pytest.mark.parametrize(
    ("difference", "count", "expected"),
    [
        ((-2, -4), -1, {MEDIUM}),
        ((-2, -4), -2, {SMALL}),
        # Without the number of consumers the smallest explanation counts.
        ((-2, -4), None, {MEDIUM}),
        # A missing large consumer and an extra small one.
        ((-3, -3), 0, {LARGE}),
        # Extra consumers alone: they are missing in another owner's sum.
        ((4, 5), 1, set()),
        ((-7, -1), -1, None),
    ],
)
def test_the_smallest_explanation_is_found(
    difference: Vector, count: int | None, expected: set[Vector] | None
) -> None:
    sizes = {SMALL, MEDIUM, LARGE}
    assert owners.explanations(difference, count, sizes, sizes) == expected


@settings(max_examples=150)
@given(VECTORS, VECTORS, st.tuples(st.integers(-5, 5), st.integers(-5, 5)), st.booleans())
def test_explanations_equal_brute_force(
    own: list[Vector], others: list[Vector], difference: Vector, with_count: bool
) -> None:
    for count in range(-3, 4) if with_count else (None,):
        found = owners.explanations(difference, count, own, others)
        assert found == brute_force(difference, count, own, others)


def brute_force(
    difference: Vector, count: int | None, own: list[Vector], others: list[Vector]
) -> set[Vector] | None:
    """Try every choice of one, two and three consumers."""
    for size in (1, 2, 3):
        found = [
            lost
            for number in range(size + 1)
            for lost in itertools.combinations_with_replacement(own, number)
            for extra in itertools.combinations_with_replacement(others, size - number)
            if count in {None, len(extra) - len(lost)}
            and all(
                sum(each[index] for each in extra) - sum(each[index] for each in lost)
                == difference[index]
                for index in range(2)
            )
        ]
        if found:
            return {vector for lost in found for vector in lost}
    return None
