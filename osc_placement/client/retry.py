"""How long to try again: bounded attempts with growing pauses."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from osc_placement import errors
from osc_placement.client import api_errors

T = TypeVar("T")

#: Attempts to settle one change: with half of all writes refused by conflicts, twenty leave
#: one change in a million undone; they take half a minute at most.
WRITES = 20

#: Attempts to get one answer to a read: five seconds, in which a server restarts.
READS = 8

_FIRST = 0.05
_LONGEST = 2.0


def backoff(attempts: int) -> Iterator[float]:
    """Seconds to wait before each further attempt; with jitter, so that rivals drift apart."""
    for attempt in range(attempts - 1):
        yield min(_LONGEST, _FIRST * 2**attempt) * random.uniform(0.5, 1.0)


def read(call: Callable[[], T]) -> T:
    """The answer to a read, asked again while the server is away or answers 5xx or no JSON.

    Raises the last error when patience ends.
    """
    for pause in backoff(READS):
        try:
            return call()
        except errors.PlacementError as error:
            if not _is_passing(error):
                raise
        time.sleep(pause)
    return call()


def _is_passing(error: errors.PlacementError) -> bool:
    """Whether a read that failed so may well succeed in a moment."""
    if isinstance(error, api_errors.ApiError):
        return error.status >= 500 or isinstance(error, api_errors.UnexpectedAnswer)
    return isinstance(error, api_errors.ConnectionFailed)
