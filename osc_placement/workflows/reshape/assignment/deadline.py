"""When a search ends without an answer."""

from __future__ import annotations

import time
from collections.abc import Callable


class OutOfTime(Exception):
    """The seconds are over."""


class Deadline:
    """So many seconds from now."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """How many seconds are left. Raises OutOfTime when there are none."""
        left = self._end - self._clock()
        if left <= 0:
            raise OutOfTime
        return left
