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


class SearchStopped(errors.EngineError):
    """The caller stopped the search."""

    text = "The search was stopped."


class SearchBudget:
    """The time of one search, over all trees.

    ``seconds`` None means no limit. ``is_stopped`` is called regularly.
    """

    def __init__(
        self,
        seconds: float | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._is_stopped = is_stopped
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds
        self._steps = 0

    def step(self) -> None:
        """Count a step; raises SearchTooLong or SearchStopped."""
        self._steps += 1
        if self._steps % _STEPS == 0:
            self.check()

    def check(self) -> None:
        """Read the clock; raises SearchTooLong or SearchStopped."""
        if self._end is not None and self._clock() > self._end:
            raise SearchTooLong(seconds=self._seconds)
        if self._is_stopped():
            raise SearchStopped()
