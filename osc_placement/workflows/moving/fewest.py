# SPDX-License-Identifier: Apache-2.0
"""The fewest moves that lead to a goal, and of those the smallest. Pure.

The search deepens: no move, then one, then two. It tries every set of so many moves, in an order in
which each has room, and leaves a state as soon as more moves are needed than are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol

from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.workflows.moving.steps import DrainStep


class GoalState(Protocol):
    """What a goal is decided on, while steps are put and taken back."""

    @property
    def steps(self) -> Sequence[DrainStep]:
        """The steps that were put."""

    def spend(self) -> None:
        """Count a state. Raises SearchTooLong."""

    def key(self) -> Hashable:
        """Equal for states after as many steps from which the same steps lead to the goal."""

    def is_reached(self) -> bool:
        """Whether the steps lead to the goal."""

    def bound(self) -> int:
        """Fewer further steps are not enough."""

    def possible(self, depth: int) -> Iterator[DrainStep]:
        """The next steps, those of small servers first, if ``depth`` are left with the next."""

    def put(self, step: DrainStep) -> None:
        """Let a step end."""

    def take_back(self) -> None:
        """The state before the last step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fewest:
    """``steps`` in their order; None if none were found.

    ``at_least``: it is proven that fewer are not enough. ``is_smallest``: no plan with as many has
    smaller servers.
    """

    steps: tuple[DrainStep, ...] | None
    at_least: int
    is_smallest: bool = True

    @property
    def is_proven(self) -> bool:
        """Whether fewer steps are not enough."""
        return self.steps is not None and len(self.steps) == self.at_least


def find(
    state: GoalState, least: int, most: int, best: tuple[DrainStep, ...] | None = None
) -> Fewest:
    """The fewest steps: fewer than ``least`` are not enough, more than ``most`` not wanted.

    ``best`` lead to the goal.
    """
    for depth in range(least, most + 1):
        search = _Search(state, best if best is not None and len(best) == depth else None)
        try:
            search.grow(depth)
        except SearchTooLong:
            while state.steps:
                state.take_back()
            steps = best if search.smallest is None else search.smallest
            return Fewest(steps, depth, is_smallest=False)
        if search.smallest is not None:
            return Fewest(search.smallest, depth)
    return Fewest(None, most + 1)


@dataclasses.dataclass(slots=True)
class _Search:
    """All sets of steps of one number; of those that lead to the goal, the smallest so far."""

    state: GoalState
    smallest: tuple[DrainStep, ...] | None
    seen: set[Hashable] = dataclasses.field(default_factory=set)

    def grow(self, depth: int) -> None:
        """Try so many further steps. Raises SearchTooLong."""
        state = self.state
        state.spend()
        key = state.key()
        if key in self.seen:
            return
        self.seen.add(key)
        if depth == 0:
            if state.is_reached():
                self.smallest = tuple(state.steps)
            return
        if state.bound() > depth:
            return
        for step in state.possible(depth):
            if self.smallest and total([*state.steps, step]) >= total(self.smallest):
                break
            state.put(step)
            self.grow(depth - 1)
            state.take_back()


def total(steps: Iterable[DrainStep]) -> int:
    """The size of the servers that move."""
    return sum(step.server.size[0] for step in steps)
