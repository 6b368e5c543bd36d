# SPDX-License-Identifier: Apache-2.0
"""The allocation candidate search: the providers that can supply what a query requests.

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
from osc_placement.engine.candidates import budget as budgets, forest as forests, plans
from osc_placement.model.candidate import Candidate, CandidateQuery

Strategy = forests.Strategy
SearchBudget = budgets.SearchBudget
SearchStopped = budgets.SearchStopped
SearchTooLong = budgets.SearchTooLong
TooManyCandidates = budgets.TooManyCandidates


def search(
    base: state.CloudState,
    query: CandidateQuery,
    max_candidates: int | None = None,
    budget: SearchBudget | None = None,
    strategy: Strategy = Strategy.DEPTH_FIRST,
) -> Iterator[Candidate]:
    """Every candidate once, at most ``query.limit`` of them.

    Candidates may share values: treat them as read-only. The state must not change during the
    search. A query without resources has no candidates. Raises TooManyCandidates if there are more
    than ``max_candidates``, and the errors of ``budget``.
    """
    plan = plans.prepare(base, query)
    limit = query.limit
    for count, candidate in enumerate(forests.Forest(base, plan, budget).candidates(strategy)):
        if max_candidates is not None and count >= max_candidates:
            raise TooManyCandidates(max_candidates=max_candidates)
        yield candidate
        # Do not search for one more candidate than the limit: finding it may take long.
        if limit is not None and count + 1 >= limit:
            return
