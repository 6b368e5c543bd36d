"""Limits of one request, and the end of searches when the server stops."""

from __future__ import annotations

import dataclasses
import threading

from osc_placement.engine.candidates import search

Strategy = search.Strategy


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of an allocation candidates request.

    ``search_seconds`` is the time of its search, ``response_bytes`` the size of its response,
    ``candidates`` the number of candidates of a query without ``limit``. The search ends after
    ``max_candidates`` candidates, None for all, and finds them in the order of ``strategy``.
    """

    search_seconds: float = 5.0
    response_bytes: int = 64 * 1024 * 1024
    candidates: int = 200_000
    max_candidates: int | None = None
    strategy: Strategy = Strategy.DEPTH_FIRST
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)

    def lowered(self, limit: int | None) -> int | None:
        """The ``limit`` of a query, lowered to ``max_candidates``."""
        given = [each for each in (limit, self.max_candidates) if each is not None]
        return min(given, default=None)

    def budget(self) -> search.SearchBudget:
        """The budget of one search, which starts now."""
        return search.SearchBudget(self.search_seconds, self.stopping.is_set)
