# SPDX-License-Identifier: Apache-2.0
"""The most of some hosts that can be emptied together. Pure.

A part of hosts that can be emptied cannot always be emptied itself: a move out of a shared pool
makes room for others in it. So every set is tried, the largest first, unless the time ends.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Sequence

from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.workflows.moving import steps
from osc_placement.workflows.moving.places import Moves


@dataclasses.dataclass(frozen=True, slots=True)
class LargestSet:
    """``hosts`` (root UUIDs) can be emptied together; ``is_proven``: no larger set can."""

    hosts: tuple[str, ...]
    is_proven: bool = True


def find(
    moves: Moves, roots: Iterable[str], stuck: Collection[str], seconds: float = 10.0
) -> LargestSet:
    """The largest set of these hosts of which every server can move to a host outside the set.

    ``moves`` has the servers of the hosts. ``stuck`` are hosts with servers that nova does not
    move.
    """
    limited = moves.limited_to(seconds)
    # Hosts with few servers first: they give a large set early.
    order = sorted(
        (root for root in roots if root not in stuck),
        key=lambda root: len(moves.servers_on([root])),
    )
    best: tuple[str, ...] = ()
    try:
        for root in order:
            if _is_emptied(limited, (*best, root)):
                best = (*best, root)
        for size in range(len(order), len(best), -1):
            for chosen in itertools.combinations(order, size):
                if _is_emptied(limited, chosen):
                    return LargestSet(chosen, limited.is_complete)
    except SearchTooLong:
        return LargestSet(best, is_proven=False)
    return LargestSet(best, limited.is_complete)


def _is_emptied(moves: Moves, roots: Sequence[str]) -> bool:
    moves.budget.check()
    return steps.moves_all(moves, roots, moves.servers_on(roots))
