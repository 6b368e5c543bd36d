# SPDX-License-Identifier: Apache-2.0
"""The time that a search may take."""

from __future__ import annotations

import time
from collections.abc import Callable

from osc_placement.engine import errors

#: Steps between two readings of the clock.
_STEPS = 64


class TooManyCandidates(errors.EngineError):
    """The query has more candidates than the caller accepts."""

    text = "There are more than {max_candidates} allocation candidates."


class SearchTooLong(errors.EngineError):
    """The search took more time than the caller accepts."""

    text = "The search took more than {seconds:g} seconds."


class SearchBudget:
    """The time of one search, over all trees; ``seconds`` None means no limit."""

    def __init__(
        self,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds
        self._steps = 0

    def step(self) -> None:
        """Count a step; raises SearchTooLong."""
        self._steps += 1
        if self._steps % _STEPS == 0:
            self.check()

    def check(self) -> None:
        """Read the clock; raises SearchTooLong."""
        if self._end is not None and self._clock() > self._end:
            raise SearchTooLong(seconds=self._seconds)
