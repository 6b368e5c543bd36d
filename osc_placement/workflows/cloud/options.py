# SPDX-License-Identifier: Apache-2.0
"""The options of a query in a state of the engine: its different candidate allocations. Pure."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Mapping

from osc_placement.engine import state
from osc_placement.engine.candidates import plans
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.engine.candidates.forest import Forest
from osc_placement.model import candidate
from osc_placement.search import placing

#: Candidates of one tree that are checked.
PER_TREE = 2_000


@dataclasses.dataclass(frozen=True, slots=True)
class QueryOptions:
    """The options of a query. ``is_complete``: no tree has more than ``PER_TREE`` candidates.

    ``roots`` are the roots of the trees that have each of the options. ``not_counted`` are the
    roots of the hosts that would have options if they were not refused.
    """

    options: tuple[placing.Option, ...]
    roots: tuple[tuple[str, ...], ...]
    is_complete: bool = True
    not_counted: tuple[str, ...] = ()


def find(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    budget: SearchBudget | None = None,
    refused: Collection[str] = (),
    among: Collection[str] | None = None,
) -> QueryOptions:
    """The options of a query, tree by tree. Raises the errors of ``budget``.

    ``refused`` are the roots of hosts that have no options; others may use what their trees share.
    ``among`` are the roots of the only trees to look at; None for all.

    Equal allocations of several trees are one option, of the tree with the lowest UUID. Those of
    sharing providers alone belong to the tree of one of these providers.
    """
    plan = plans.prepare(base, dataclasses.replace(query, limit=None))
    forest = Forest(base, plan, budget)
    distinct: dict[frozenset[tuple[placing.Slot, int]], placing.Option] = {}
    roots: dict[frozenset[tuple[placing.Slot, int]], dict[str, None]] = {}
    is_complete = True
    not_counted = []
    for root_uuid in forest.roots():
        if among is not None and root_uuid not in among:
            continue
        if not plan.admits_root(base.providers[root_uuid]):
            continue
        candidates = forest.candidates_in(root_uuid)
        if root_uuid in refused:
            tree = base.tree[root_uuid]
            if any(not tree.isdisjoint(offered.allocations) for offered in candidates):
                not_counted.append(root_uuid)
            continue
        for offered in itertools.islice(candidates, PER_TREE):
            option = _option(base, root_uuid, offered)
            key = frozenset(option.amounts.items())
            distinct[key] = min(option, distinct.get(key, option), key=_rank)
            roots.setdefault(key, {})[option.root_uuid] = None
        is_complete = is_complete and next(candidates, None) is None
    usable = {key: option for key, option in distinct.items() if option.root_uuid not in refused}
    return QueryOptions(
        tuple(usable.values()),
        tuple(tuple(roots[key]) for key in usable),
        is_complete,
        tuple(not_counted),
    )


def _option(base: state.CloudState, root_uuid: str, offered: candidate.Candidate) -> placing.Option:
    amounts = {
        (uuid, name): amount
        for uuid, resources in offered.allocations.items()
        for name, amount in resources.items()
    }
    if not base.tree[root_uuid].isdisjoint(offered.allocations):
        return placing.Option(root_uuid, amounts)
    first = base.providers[next(iter(offered.allocations))]
    return placing.Option(first.root_uuid, amounts, is_of_host=False)


def _rank(option: placing.Option) -> tuple[bool, str]:
    return not option.is_of_host, option.root_uuid


def uses_trees(base: state.CloudState, option: placing.Option, roots: Collection[str]) -> bool:
    """Whether an option takes something from one of these trees."""
    return bool(roots) and any(
        base.providers[uuid].root_uuid in roots for uuid, _ in option.amounts
    )


def free_amounts(
    base: state.CloudState, options: Iterable[placing.Option]
) -> Mapping[placing.Slot, int]:
    """What is free in the slots of the options."""
    return {
        (uuid, name): base.providers[uuid].inventories[name].capacity - base.used(uuid).get(name, 0)
        for uuid, name in placing.slots_of(options)
    }
