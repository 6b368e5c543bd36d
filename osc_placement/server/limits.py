"""Limits of one request, and the end of searches when the server stops."""

from __future__ import annotations

import dataclasses
import threading

from osc_placement.engine.candidates import search


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of an allocation candidates request.

    ``search_seconds`` is the time of its search, ``response_bytes`` the size of its response,
    ``candidates`` the number of candidates of a query without ``limit``.
    """

    search_seconds: float = 5.0
    response_bytes: int = 64 * 1024 * 1024
    candidates: int = 200_000
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)

    def budget(self) -> search.SearchBudget:
        """The budget of one search, which starts now."""
        return search.SearchBudget(self.search_seconds, self.stopping.is_set)
