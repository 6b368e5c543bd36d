"""The allocation candidate search: which providers could give what a query asks.

``search`` is pure and lazy: it reads a state, and each candidate costs about what that
one candidate takes to find, however many there are.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Protocol

from osc_placement.engine import state
from osc_placement.model.candidate import Candidate, CandidateQuery


class TooManyCandidates(Exception):  # noqa: N818 - it says what there is
    """The answer has more candidates than the caller is ready to take."""

    def __init__(self, max_candidates: int) -> None:
        super().__init__(f"more than {max_candidates} allocation candidates")
        self.max_candidates = max_candidates


def search(
    base: state.State,
    query: CandidateQuery,
    reporter: Reporter | None = None,
    max_candidates: int | None = None,
) -> Iterator[Candidate]:
    """Every candidate once, at most ``query.limit``; trees in the order of creation.

    Without a limit, more than ``max_candidates`` raise TooManyCandidates: after the
    first so many have been handed out.
    """
    raise NotImplementedError


class Reporter(Protocol):
    """Is told why something is no candidate, or no part of one."""
