# SPDX-License-Identifier: Apache-2.0
"""What a reshape changes: the moves, the option of each request, and the trees before and after."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from osc_placement import errors
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
    """The decisions on several trees as one; trees without one are left out.

    Errors: InvalidInput for a new provider that several trees would get.
    """
    parts = [item.resolved for item in decisions]
    counts = collections.Counter(uuid for part in parts for uuid in part.nodes)
    errors.InputErrors(
        f"{parts[0].document.source}: more than one tree would get {parts[0].name_of(uuid)!r}: put"
        " $root into its name, and give no uuid"
        for uuid, count in counts.items()
        if count > 1
    ).check()
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
