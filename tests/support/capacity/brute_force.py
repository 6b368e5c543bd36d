# SPDX-License-Identifier: Apache-2.0
"""How often a request fits, and whether servers fit, by trying every sequence of claims.

Each claim is a write of the engine, with its checks.
"""

from __future__ import annotations

import collections
import functools
import itertools
import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from osc_placement.engine import allocation, draft, state
from osc_placement.engine.candidates import forest as forests, plans, search
from osc_placement.microversion import MAXIMUM
from osc_placement.model import allocation as model, candidate
from osc_placement.workflows.cloud.hosts import hosts_of
from tests.support.candidates import clouds, random_queries

Allowed = Callable[[candidate.Candidate], bool]
#: ``{((provider UUID, resource class), amount)}``
Usage = frozenset[tuple[tuple[str, str], int]]


def cloud_with_servers(
    draw: random.Random, count: int, *, small: bool = True
) -> tuple[state.CloudState, list[candidate.CandidateQuery]]:
    """A cloud of hosts with a few claimed requests, and the queries, so many, that they are of."""
    drawn = (clouds.draw_state(draw, small=small) for _ in itertools.count())
    base = next(filter(hosts_of, drawn))
    queries = [random_queries.draw_query(draw, base, MAXIMUM) for _ in range(count)]
    return with_servers(draw, base, queries), queries


def with_servers(
    draw: random.Random, base: state.CloudState, queries: Sequence[candidate.CandidateQuery]
) -> state.CloudState:
    """The cloud with a few claimed requests."""
    for number in range(draw.randint(1, 5)):
        candidates = [
            possible
            for possible in search.search(base, draw.choice(queries))
            if not base.tree[possible.root_uuid].isdisjoint(possible.allocations)
        ]
        if candidates:
            chosen = draw.choice(candidates)
            base = claim(base, str(uuid.UUID(int=number + 1)), chosen.allocations)
    return base


def claims(
    base: state.CloudState, query: candidate.CandidateQuery, allowed: Allowed = lambda _: True
) -> Iterator[model.Allocations]:
    """The different allocations that a request can claim now, tree by tree.

    A search of the whole cloud names only one tree for a candidate of sharing providers alone.
    """
    seen = set()
    plan = plans.prepare(base, query)
    forest = forests.Forest(base, plan)
    admitted = [root for root in forest.roots() if plan.admits_root(base.providers[root])]
    for found in itertools.chain.from_iterable(map(forest.candidates_in, admitted)):
        key = frozenset((u, frozenset(a.items())) for u, a in found.allocations.items())
        if key not in seen and allowed(found):
            seen.add(key)
            yield found.allocations


def claim(base: state.CloudState, name: str, allocations: model.Allocations) -> state.CloudState:
    """A copy of the state with one more consumer. Raises the engine's errors."""
    return written(base, {name: allocations})


def written(base: state.CloudState, claimed: Mapping[str, model.Allocations]) -> state.CloudState:
    """A copy of the state with these allocations of consumers. Raises the engine's errors."""
    changed = draft.Draft(base, now=0.0)
    allocation.write(changed, [allocation.Claim(*pair) for pair in claimed.items()])
    after = base.copy()
    after.apply(changed.changes())
    return after


#: Usages of a cloud after which ``most`` gives up: some seconds.
MOST_STATES = 2_000


class TooManyStates(Exception):
    """Too many sequences of claims to try all of them."""


def most(
    base: state.CloudState, query: candidate.CandidateQuery, allowed: Allowed = lambda _: True
) -> int:
    """The largest number of claims one after the other. Raises TooManyStates."""
    known: dict[Usage, int] = {}

    def largest(current: state.CloudState) -> int:
        used, best = usage(current), 0
        for target in claims(current, query, allowed):
            after = increased(used, target)
            if after not in known:
                if len(known) >= MOST_STATES:
                    raise TooManyStates
                known[after] = largest(claim(current, f"claim {len(current.consumers)}", target))
            best = max(best, 1 + known[after])
        return best

    return largest(base)


def fit(
    base: state.CloudState, queries: Sequence[candidate.CandidateQuery], allowed: Allowed
) -> bool:
    """Whether all requests can be claimed."""

    @functools.cache
    def rest(used: Usage, at: int) -> bool:
        if at == len(queries):
            return True
        current = states[used]
        for allocations in claims(current, queries[at], allowed):
            after = increased(used, allocations)
            if after not in states:
                states[after] = claim(current, f"new {at}", allocations)
            if rest(after, at + 1):
                return True
        return False

    states = {usage(base): base}
    return rest(usage(base), 0)


def usage(base: state.CloudState) -> Usage:
    """The amounts that are used, as a comparable value."""
    return frozenset(
        ((uuid, name), amount)
        for uuid in base.providers
        for name, amount in base.used(uuid).items()
        if amount
    )


def increased(used: Usage, allocations: model.Allocations) -> Usage:
    """The usage after one more claim."""
    after = collections.Counter(dict(used))
    for provider, amounts in allocations.items():
        for name, amount in amounts.items():
            after[provider, name] += amount
    return frozenset(after.items())


def without_trees(base: state.CloudState, roots: Collection[str]) -> Allowed:
    """Whether a candidate takes something from its own tree, and nothing from these trees."""

    def allowed(allocation_candidate: candidate.Candidate) -> bool:
        trees = {base.providers[uuid].root_uuid for uuid in allocation_candidate.allocations}
        return allocation_candidate.root_uuid in trees and trees.isdisjoint(roots)

    return allowed


def subsets(roots: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """All sets of so many hosts."""
    return itertools.combinations(roots, size)
