"""Repeating requests: bounded attempts with growing, jittered pauses."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from osc_placement.client import api_errors

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Attempts at one write: if every second one meets a conflict, one change in a million stays
#: undone after twenty. They take half a minute at most.
WRITES = 20

#: Attempts at one read: about five seconds, enough for a restart of the server.
READS = 8

#: Attempts of a command that reads, decides and writes one resource, and the seconds between.
_CONFLICTS = 5
_CONFLICT_PAUSE = 0.1

_FIRST = 0.05
_LONGEST = 2.0

#: The longest pause, in seconds, that a server can request with Retry-After.
MAX_RETRY_AFTER = 30.0

#: No attempt begins more seconds than this after the first: a server that requests long pauses
#: must not keep one change for minutes.
LIMIT = 60.0


def backoff(attempts: int) -> Iterator[float]:
    """The seconds to wait before each further attempt, with jitter against lockstep."""
    for attempt in range(attempts - 1):
        yield min(_LONGEST, _FIRST * 2**attempt) * random.uniform(0.5, 1.0)


def pause_after(error: Exception | None, pause: float) -> float:
    """The seconds to wait after an error: ``pause``, or longer if the server requests it."""
    requested = error.retry_after if isinstance(error, api_errors.ApiError) else 0.0
    return max(pause, min(requested, MAX_RETRY_AFTER))


def call(
    function: Callable[[], T], is_transient: Callable[[Exception], bool], pauses: Iterable[float]
) -> T:
    """The result of ``function``; a transient error is retried after each of ``pauses``.

    Raises the first other error, or the error of the last attempt. No attempt begins more than
    LIMIT seconds after the first.
    """
    end = time.monotonic() + LIMIT
    for pause in pauses:
        try:
            return function()
        except Exception as error:
            if not is_transient(error):
                raise
            wait = pause_after(error, pause)
            if time.monotonic() + wait > end:
                raise
            LOG.debug("retry in %.2f seconds: %s", wait, error)
        time.sleep(wait)
    return function()


def read(function: Callable[[], T]) -> T:
    """The result of a read, retried while the server is unreachable or fails.

    Raises the error of the last of eight attempts.
    """
    return call(function, _is_server_failure, backoff(READS))


def on_conflict(function: Callable[[], T]) -> T:
    """The result of ``function``, which reads, decides and writes; retried on a conflict.

    Raises the last GenerationConflict after five attempts.
    """
    pauses = (_CONFLICT_PAUSE * count for count in range(1, _CONFLICTS))
    return call(function, lambda error: isinstance(error, api_errors.GenerationConflict), pauses)


def _is_server_failure(error: Exception) -> bool:
    """Whether a read may succeed soon: no connection, a status of 5xx, or no JSON."""
    if isinstance(error, api_errors.ApiError):
        return error.status >= 500 or isinstance(error, api_errors.UnexpectedResponse)
    return isinstance(error, api_errors.ConnectionFailed) and not isinstance(
        error, api_errors.TimedOut
    )
