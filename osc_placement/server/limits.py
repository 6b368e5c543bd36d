"""Limits of searches for allocation candidates, and their end when the server stops."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Iterator

from osc_placement.engine.candidates import search
from osc_placement.server import http_errors

Strategy = search.Strategy


@dataclasses.dataclass
class Limits:
    """Limits of an allocation candidates request.

    ``search_seconds`` is the time of its search, ``response_bytes`` the size of its response,
    ``candidates`` the number of candidates of a query without ``limit``. The search ends after
    ``max_candidates`` candidates, None for all, and finds them in the order of ``strategy``.

    ``searches`` run at the same time, and ``waiting`` more wait, each ``wait_seconds`` at most.
    """

    search_seconds: float = 5.0
    response_bytes: int = 64 * 1024 * 1024
    candidates: int = 200_000
    max_candidates: int | None = None
    strategy: Strategy = Strategy.DEPTH_FIRST
    searches: int = 4
    waiting: int = 32
    wait_seconds: float = 10.0
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._admitted = threading.Semaphore(self.searches + self.waiting)
        self._running = threading.Semaphore(self.searches)

    @contextlib.contextmanager
    def search_slot(self) -> Iterator[None]:
        """Wait for one of the slots for searches; raises Busy."""
        if not self._admitted.acquire(blocking=False):
            raise self._busy(f"{self.searches + self.waiting} searches run or wait")
        try:
            if not self._running.acquire(timeout=self.wait_seconds):
                raise self._busy(f"the search waited for {self.wait_seconds:g} seconds")
            try:
                yield
            finally:
                self._running.release()
        finally:
            self._admitted.release()

    def _busy(self, reason: str) -> http_errors.Busy:
        seconds = math.ceil(self.search_seconds)
        return http_errors.Busy(f"The server is busy: {reason}. Try again later.", seconds)

    def lowered(self, limit: int | None) -> int | None:
        """The ``limit`` of a query, lowered to ``max_candidates``."""
        given = [each for each in (limit, self.max_candidates) if each is not None]
        return min(given, default=None)

    def budget(self) -> search.SearchBudget:
        """The budget of one search, which starts now."""
        return search.SearchBudget(self.search_seconds, self.stopping.is_set)
