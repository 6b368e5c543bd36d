# SPDX-License-Identifier: Apache-2.0
"""Searches allocation candidates: the sets of providers that can supply what a query requests.

``search`` is pure and lazy: it reads a state, and finds one candidate after the other.

What a candidate is:

* All its providers belong to one tree or share resources with it. A provider with the trait
  MISC_SHARES_VIA_AGGREGATE shares with every tree that has any provider in one of its
  aggregates.
* One provider serves a suffixed group and meets all its conditions. One provider supplies
  each class of the unsuffixed group; each of them meets its forbidden traits, aggregates and
  tree, and all of them have its required traits in sum.
* For the unsuffixed group the aggregates of a root count for its whole tree: a provider or
  its root is in one aggregate of every member_of, and neither is in a forbidden one. For a
  suffixed group only the provider's own aggregates count.
* Each amount respects min_unit, max_unit and step_size. The amounts that several groups take
  from one provider respect max_unit and the free capacity in sum.
* group_policy=isolate separates all suffixed groups, those without resources too.
* The required traits and aggregates select the provider of a group without resources. Its
  in_tree has no effect (as in OpenStack Placement), unless the provider is unknown. No
  provider can serve a group that only forbids something, or only has in_tree.
* Below microversion 1.29 a candidate has at most one provider of each tree.

The section "Differences" of the documentation lists where OpenStack Placement 16.0.0 is wrong.

The order of candidates follows the indexes of the state: the same writes give the same order.
The tree of a sharing provider comes before the trees that it shares with.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.engine import state
from osc_placement.engine.candidates import forest as forests, plans
from osc_placement.engine.candidates.budget import SearchBudget, TooManyCandidates
from osc_placement.model.candidate import Candidate, CandidateQuery, RequestGroup


def search(
    base: state.CloudState,
    query: CandidateQuery,
    max_candidates: int | None = None,
    budget: SearchBudget | None = None,
    strategy: forests.Strategy = forests.Strategy.DEPTH_FIRST,
    most: int | None = None,
) -> Iterator[Candidate]:
    """Every candidate once, at most ``query.limit`` of them, and at most ``most``.

    Candidates may share values: treat them as read-only. The state must not change during the
    search. A query without resources has no candidates. Raises TooManyCandidates if there are more
    than ``max_candidates``, and the errors of ``budget``.
    """
    limit = min((bound for bound in (query.limit, most) if bound is not None), default=None)
    plan = plans.prepare(base, query)
    for count, candidate in enumerate(forests.Forest(base, plan, budget).candidates(strategy)):
        if max_candidates is not None and count >= max_candidates:
            raise TooManyCandidates(max_candidates=max_candidates)
        yield candidate
        # Do not search for one more candidate than the limit: finding it may take long.
        if limit is not None and count + 1 >= limit:
            return


def may_match(
    base: state.CloudState,
    query: CandidateQuery,
    budget: SearchBudget | None = None,
) -> bool:
    """Whether a search can find anything, as far as names and single groups show.

    The classes and traits that a query names are checked in Placement's order, which looks a name
    up only when the conditions before it leave any provider. So an unknown name after a condition
    that no provider meets is an empty answer, not an error.

    Raises ResourceClassNotFound, TraitNotFound, and the errors of ``budget``.
    """
    state.check_traits(base, query.root_required)
    state.check_traits(base, query.root_forbidden)
    if not _has_root(base, query.root_required, query.root_forbidden):
        return False
    for number, group in enumerate(query.groups):
        if _names_exist(base, group):
            continue
        for earlier in query.groups[:number]:
            if not _has_candidates(base, earlier, budget):
                return False
        state.check_classes(base, group.resources)
        if not base.with_aggregate.has_common_member(group.member_of):
            return False
        for alternatives in group.required:
            state.check_traits(base, alternatives)
        state.check_traits(base, group.forbidden)
    return True


def _names_exist(base: state.CloudState, group: RequestGroup) -> bool:
    traits = (name for names in (*group.required, group.forbidden) for name in names)
    return all(map(base.knows_resource_class, group.resources)) and all(
        map(base.knows_trait, traits)
    )


def _has_candidates(
    base: state.CloudState, group: RequestGroup, budget: SearchBudget | None
) -> bool:
    """Whether a group alone has candidates.

    Several providers of one tree may serve it, below 1.29 too, where a candidate may not have them.
    """
    alone = CandidateQuery((group,), limit=1)
    return any(True for _ in search(base, alone, budget=budget))


def _has_root(base: state.CloudState, required: frozenset[str], forbidden: frozenset[str]) -> bool:
    """Whether any root provider has the traits; True without such traits."""
    if not required and not forbidden:
        return True
    # ``base.tree`` has the UUIDs of all roots, as keys.
    rarest = min((base.with_trait[name] for name in required), key=len, default=base.tree)
    roots = (base.providers[uuid] for uuid in rarest)
    return any(
        root.parent_uuid is None
        and root.traits.issuperset(required)
        and root.traits.isdisjoint(forbidden)
        for root in roots
    )
