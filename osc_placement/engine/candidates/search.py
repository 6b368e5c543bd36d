"""The allocation candidate search: which providers could give what a query asks.

``search`` is pure and lazy: it reads a state, and each candidate costs about what that
one candidate takes to find, however many there are.

What a candidate is, exactly:

* All its providers belong to one tree, or share resources with it: a provider with the
  trait MISC_SHARES_VIA_AGGREGATE shares with every tree that has an aggregate in common
  with it, on any of the tree's providers.
* A suffixed group is served by one provider, which is all that the group asks for. Of
  the unsuffixed group each class comes from one provider; each of these must respect its
  forbidden traits, aggregates and tree; the required traits need only be there in sum.
* For the unsuffixed group the aggregates of a root count for its whole tree: a provider
  or its root must be in one aggregate of every member_of, and neither in a forbidden one.
  For a suffixed group only a provider's own aggregates count.
* Each amount keeps to min_unit, max_unit and step_size on its own. What several groups
  take from one provider must, in sum, keep to max_unit and fit into the capacity.
* group_policy=isolate keeps all suffixed groups apart, those without resources too.
* A group without resources is placed by the traits and aggregates that it requires; its
  in_tree is not looked at (as OpenStack Placement does not), unless it names an unknown
  provider. One that only rules out, or only names a tree, is served by nobody.
* Below microversion 1.29 a candidate has at most one provider of each tree.

Where OpenStack Placement (16.0.0) answers otherwise, and is wrong:

* With group_policy=isolate, or none given, it adds up in place what the unsuffixed group
  and a suffixed group ask of the same class, so that amounts grow from candidate to
  candidate (2 and 2 became 14). Here they are the sum that was asked.
* Where sharing providers alone serve the unsuffixed group, it keeps one tree of those
  that they share with, by order of its row ids, and loses the candidates of the other
  trees. Here every tree is kept.
* A provider below a root that shares makes it fail with a server error. Here such a
  provider shares itself, not its tree.
* It finds all candidates before it applies the limit. Here the limit ends the search.

The order of the candidates follows the indexes of the state, and is the same for the
same sequence of writes. A sharing provider's own tree comes before those that it
serves.
"""

from __future__ import annotations

from collections.abc import Iterator

from osc_placement.engine import state
from osc_placement.engine.candidates import (
    forest as forests,
    plan as plans,
    report as reports,
    tree as trees,
)
from osc_placement.model.candidate import Candidate, CandidateQuery

TooManyCandidates = trees.TooManyCandidates
SearchTooLong = trees.SearchTooLong


def search(
    base: state.State,
    query: CandidateQuery,
    reporter: reports.Reporter | None = None,
    max_candidates: int | None = None,
) -> Iterator[Candidate]:
    """Every candidate once, at most ``query.limit`` of them.

    The values inside a candidate may be shared with other candidates: read only. The
    state must not change while the search goes on. A query that asks for no resources
    has no candidates. Raises TooManyCandidates after
    ``max_candidates`` were handed out and there is one more, and SearchTooLong, which is
    one of that kind, where groups hinder each other beyond reason.
    With a ``reporter`` every provider and every tree is looked at.
    """
    plan = plans.prepare(base, query)
    if reporter is None:
        found = forests.Forest(base, plan).candidates()
    else:
        found = reports.search_reporting(base, plan, reporter)
    limit = query.limit
    for count, each in enumerate(found):
        if max_candidates is not None and count >= max_candidates:
            raise TooManyCandidates(max_candidates=max_candidates)
        yield each
        # Not to look for one more than was asked for: it may be far.
        if limit is not None and count + 1 >= limit:
            return
