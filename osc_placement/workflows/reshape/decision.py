# SPDX-License-Identifier: Apache-2.0
"""What a reshape changes: the moves, the option of each request, and the trees before and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from osc_placement.workflows.reshape import assignment, documents, resolve, snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeDecision:
    """All requests with their options, and the snapshots before and after the reshape.

    ``after`` still has the providers that are deleted once they are empty.
    """

    resolved: resolve.Resolved
    placed: Sequence[assignment.Placed]
    before: snapshot.TreeSnapshot
    after: snapshot.TreeSnapshot


def merged(decisions: Sequence[ReshapeDecision], before: snapshot.TreeSnapshot) -> ReshapeDecision:
    """The decisions on several trees as one; trees without one are left out."""
    parts = [item.resolved for item in decisions]
    resolved = resolve.Resolved(
        parts[0].document if len(parts) == 1 else documents.Document(),
        {uuid: node for part in parts for uuid, node in part.nodes.items()},
        tuple(move for part in parts for move in part.moves),
        growth={slot: amount for part in parts for slot, amount in part.growth.items()},
        deleted=frozenset().union(*(part.deleted for part in parts)),
    )
    placed = [one for item in decisions for one in item.placed]
    trees = before.restricted_to(resolved.nodes)
    after = trees.after(resolved.nodes, assignment.moved_amounts(placed))
    return ReshapeDecision(resolved, placed, trees, after)
