# SPDX-License-Identifier: Apache-2.0
"""Whether the classes and traits that a query names exist, checked in Placement's order.

Placement looks a name up only when the conditions before it leave any provider. So an
unknown name after a condition that no provider meets is an empty answer, not an error.
"""

from __future__ import annotations

from osc_placement.engine import (
    inventories,
    listing,
    state,
    trait,
)
from osc_placement.engine.candidates import search
from osc_placement.engine.candidates.budget import SearchBudget
from osc_placement.model import candidate


def may_match(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    budget: SearchBudget | None = None,
) -> bool:
    """Whether a search can find anything, as far as names and single groups show.

    Raises ResourceClassNotFound, TraitNotFound, and the errors of ``budget``.
    """
    trait.check_exist(base, sorted(query.root_required))
    trait.check_exist(base, sorted(query.root_forbidden))
    if not _has_root(base, query.root_required, query.root_forbidden):
        return False
    for number, group in enumerate(query.groups):
        if _names_exist(base, group):
            continue
        for earlier in query.groups[:number]:
            if not _has_candidates(base, earlier, budget):
                return False
        inventories.check_classes(base, group.resources)
        if not listing.has_common_member(base.with_aggregate, group.member_of):
            return False
        for alternatives in group.required:
            trait.check_exist(base, sorted(alternatives))
        trait.check_exist(base, sorted(group.forbidden))
    return True


def _names_exist(base: state.CloudState, group: candidate.RequestGroup) -> bool:
    traits = (name for names in (*group.required, group.forbidden) for name in names)
    return all(map(base.knows_resource_class, group.resources)) and all(
        map(base.knows_trait, traits)
    )


def _has_candidates(
    base: state.CloudState, group: candidate.RequestGroup, budget: SearchBudget | None
) -> bool:
    """Whether a group alone has candidates, of nested providers at every microversion too."""
    alone = candidate.CandidateQuery((group,), limit=1)
    return any(True for _ in search.search(base, alone, budget=budget))


def _has_root(base: state.CloudState, required: frozenset[str], forbidden: frozenset[str]) -> bool:
    """Whether any root provider has the traits; True without such traits."""
    if not required and not forbidden:
        return True
    rarest = min((base.with_trait[name] for name in required), key=len, default=base.tree)
    roots = (base.providers[uuid] for uuid in rarest)
    return any(
        root.parent_uuid is None
        and root.traits.issuperset(required)
        and root.traits.isdisjoint(forbidden)
        for root in roots
    )
