# SPDX-License-Identifier: Apache-2.0
"""Repeats requests with growing, jittered pauses, and limits how many run in parallel."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from osc_placement import errors
from osc_placement.client import api_errors

LOG = logging.getLogger(__name__)

T = TypeVar("T")

#: Attempts at one write: if every second one meets a conflict, one change in a million stays
#: undone after twenty. They take half a minute at most.
WRITES = 20

#: Attempts at one read: about five seconds, enough for a restart of the server.
READS = 8

#: Reads in a row that fail, each after all its attempts, before a command stops reading.
MOST_FAILURES = 20

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
    LIMIT seconds after the first. A ``read`` within ``function`` is one attempt.
    """
    end = time.monotonic() + LIMIT
    with single_attempts():
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


#: Whether a thread is within ``call``.
_within = threading.local()


@contextlib.contextmanager
def single_attempts() -> Iterator[None]:
    """Within the block, a read is one attempt: it may be refused for as long as a cell is down."""
    outer, _within.call = getattr(_within, "call", False), True
    try:
        yield
    finally:
        _within.call = outer


class Patience:
    """How many reads in a row have failed, each after all its attempts. Safe to use from threads.

    A service that fails is not asked again and again, for hours in a large cloud, when it needs
    rest most.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._last = ""

    def check(self) -> None:
        """Errors: StoppedReading after MOST_FAILURES failed reads in a row."""
        if self._failures >= MOST_FAILURES:
            raise api_errors.StoppedReading(
                f"{MOST_FAILURES} reads in a row failed, and nothing more is read; the last error:"
                f" {self._last}"
            )

    def answered(self) -> None:
        """A read succeeded, or was refused by a service that works."""
        self._failures = 0

    def failed(self, error: errors.PlacementError) -> None:
        """A read failed after all its attempts; one that a limit of the rate refuses is enough."""
        self._failures += 1
        if self._failures <= MOST_FAILURES:
            self._last = str(error)
        if _is_limited(error):
            self._failures = max(self._failures, MOST_FAILURES)


#: Of the command that runs; None outside of one: a program decides itself when it stops.
_patience: Patience | None = None


@contextlib.contextmanager
def stop_reading_after_failures() -> Iterator[None]:
    """Within the outermost block, ``read`` stops after MOST_FAILURES failed reads in a row."""
    global _patience
    outer = _patience
    _patience = outer or Patience()
    try:
        yield
    finally:
        _patience = outer


def read(function: Callable[[], T]) -> T:
    """The result of a read of a service, retried while it is unreachable or fails.

    Raises the error of the last of eight attempts, which is final; StoppedReading, without a
    request, after too many reads that failed.
    """
    if getattr(_within, "call", False):
        return function()
    patience = _patience or Patience()
    patience.check()
    try:
        result = read_for_change(function)
    except errors.PlacementError as error:
        error.is_final = True
        is_timeout = isinstance(error, api_errors.TimedOut)
        if is_timeout or is_server_failure(error) or _is_limited(error):
            patience.failed(error)
        else:
            patience.answered()
        raise
    patience.answered()
    return result


def on_conflict(function: Callable[[], T]) -> T:
    """The result of ``function``, which reads, decides and writes; retried on a conflict.

    Raises the last GenerationConflict after five attempts.
    """
    pauses = (_CONFLICT_PAUSE * count for count in range(1, _CONFLICTS))
    return call(function, lambda error: isinstance(error, api_errors.GenerationConflict), pauses)


def read_for_change(function: Callable[[], T]) -> T:
    """As ``read``, whatever failed before: a run of a plan has its own reaction to failures."""
    return call(function, is_server_failure, backoff(READS))


def is_server_failure(error: Exception) -> bool:
    """Whether a read may succeed soon: no connection, a status of 5xx or 429, or no JSON."""
    if isinstance(error, api_errors.ApiError):
        if _is_limited(error):
            return not error.is_final
        # A success that cannot be read was cut, or comes from something in between.
        return error.status >= 500 or 200 <= error.status < 300
    return isinstance(error, api_errors.ConnectionFailed) and not isinstance(
        error, api_errors.TimedOut
    )


def _is_limited(error: Exception) -> bool:
    """Whether the service refuses a request because of the rate of requests."""
    return isinstance(error, api_errors.ApiError) and error.status == TOO_MANY


#: Requests at the same time, at most.
MOST = 16

#: Statuses of a service that has too much load; the first one is a limit of the rate.
TOO_MANY = 429
OVERLOADED = frozenset({TOO_MANY, 503})

#: Seconds between two falls of the limit: requests that were under way do not count again.
_FALL_SECONDS = 0.25


class Pace:
    """Requests pass through ``turn``, which waits until the service can take another one.

    ``most``: requests at the same time at most. ``rate``: requests per second at most, None for
    any number. ``limit`` is halved when the service refuses a request, and rises with each answer
    to ``most`` again. Safe to use from several threads.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.most = MOST
        self.rate: float | None = None
        self.limit = float(MOST)
        self._clock, self._sleep = clock, sleep
        self._free = threading.Condition()
        self._running = 0
        #: No request starts before this time, and the limit does not fall again before it.
        self._next_start = self._next_fall = 0.0

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Run the block as one of the requests that run at the same time."""
        with self._free:
            self._free.wait_for(lambda: self._running < max(1, int(min(self.limit, self.most))))
            self._running += 1
            start = max(self._clock(), self._next_start)
            if self.rate:
                self._next_start = start + 1 / self.rate
        try:
            wait = start - self._clock()
            if wait > 0:
                self._sleep(wait)
            yield
        finally:
            with self._free:
                self._running -= 1
                self._free.notify_all()

    def answered(self) -> None:
        """Raise the limit after an answer: by one after as many answers as it is large."""
        with self._free:
            self.limit = min(self.limit + 1 / self.limit, float(self.most))

    def refused(self, seconds: float) -> None:
        """Halve the limit, and start no request for ``seconds``: the service has too much load."""
        with self._free:
            now = self._clock()
            self._next_start = max(self._next_start, now + seconds)
            if now >= self._next_fall:
                self._next_fall = now + max(seconds, _FALL_SECONDS)
                self.limit = max(1.0, min(self.limit, self.most) / 2)
                text = "the service has too much load: %d requests at the same time, next in %.1f s"
                LOG.info(text, self.limit, seconds)
