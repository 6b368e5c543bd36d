"""Which amounts may have a wrong owner, from the sums of one owner. Pure arithmetic.

A consumer with a wrong owner is missing in the sum of the owner that it should have, and it is
extra in the sum of another one. Few consumers explain a difference: those that are missing must
have amounts of this owner's consumers, and those that are extra amounts of any consumer.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

#: The amounts of a consumer, or a difference of sums, in a fixed order of resource classes.
Vector = tuple[int, ...]

#: The most combinations of amounts that are tried for one owner.
_MOST_COMBINATIONS = 10_000


def explanations(
    difference: Vector, count: int | None, own: Collection[Vector], others: Collection[Vector]
) -> set[Vector] | None:
    """The amounts of missing consumers in the smallest explanations of a difference.

    ``difference`` is what Placement reports, minus what is expected; ``count`` is the same for
    the number of consumers, None if Placement does not report it. ``own`` are the amounts that
    may be missing, ``others`` those that may be extra. Empty if extra consumers alone explain
    the difference; None if more than three consumers, or more combinations than are tried, are
    needed.
    """
    missing, extra = frozenset(own), frozenset(others)
    for size in (1, 2, 3):
        found = [
            lost
            for lost, gained in _combinations(difference, size, missing, extra)
            if count is None or count == gained - len(lost)
        ]
        if found:
            # Missing consumers first: each of them is extra in another owner's sum.
            return {vector for lost in found for vector in lost}
    return None


def _combinations(
    difference: Vector, size: int, own: frozenset[Vector], others: frozenset[Vector]
) -> Iterator[tuple[tuple[Vector, ...], int]]:
    """``(missing amounts, number of extra consumers)`` that explain the difference together."""
    for gained in range(size + 1):
        lost = size - gained
        if len(own) ** max(lost - (not gained), 0) * len(others) ** max(gained - 1, 0) > (
            _MOST_COMBINATIONS
        ):
            continue
        for extra in itertools.combinations_with_replacement(sorted(others), max(gained - 1, 0)):
            rest = _minus(difference, *extra)
            yield from _completed(rest, lost, gained, own, others)


def _completed(
    rest: Vector, lost: int, gained: int, own: frozenset[Vector], others: frozenset[Vector]
) -> Iterator[tuple[tuple[Vector, ...], int]]:
    """Choose the missing amounts; the last amount follows from the others."""
    chosen = lost if gained else lost - 1
    for missing in itertools.combinations_with_replacement(sorted(own), chosen):
        left = _plus(rest, *missing)
        if gained:
            if left in others:
                yield missing, gained
        else:
            last = tuple(-amount for amount in left)
            if last in own:
                yield (*missing, last), gained


def _plus(vector: Vector, *more: Vector) -> Vector:
    return tuple(map(sum, zip(vector, *more, strict=True)))


def _minus(vector: Vector, *less: Vector) -> Vector:
    return _plus(vector, *(tuple(-amount for amount in each) for each in less))
