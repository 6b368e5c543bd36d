# SPDX-License-Identifier: Apache-2.0
"""The largest amounts with which a host can serve a query. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from osc_placement.engine import record, state
from osc_placement.engine.candidates import plans
from osc_placement.model import candidate, constraint
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.model.inventory import subset_sums
from osc_placement.workflows.cloud.hosts import HostSearch

#: Different hosts at which amounts are tried.
MOST_HOSTS = 1000

#: Amounts of other groups that are added up.
_MOST_OTHERS = 8

#: Combinations of amounts that are tried on one host, and of which these are the best.
_MOST_CHOICES = 64
_MOST_AMOUNTS = 4096

Amounts = Mapping[Constraint, int]


def reduced(query: candidate.CandidateQuery, amounts: Amounts) -> candidate.CandidateQuery:
    """The query with other amounts; an amount of 0 removes the class."""
    kept = {part: amount for part, amount in amounts.items() if amount}
    for part, amount in kept.items():
        query = constraint.with_amount(query, part, amount)
    return constraint.without(query, amounts.keys() - kept.keys())


def least(query: candidate.CandidateQuery, lowered: Collection[Constraint]) -> Amounts:
    """The smallest amounts: 0, or 1 if no other resources are left to request."""
    groups = constraint.without(query, lowered).groups
    return dict.fromkeys(lowered, 0 if any(group.resources for group in groups) else 1)


def brings_more(plan: plans.QueryPlan) -> bool:
    """Whether the provider of some resources may meet a condition that the others do not meet.

    Then a host may serve a query with 1 of a class, and not without the class.
    """
    return bool(plan.subtrees) or any(group.group_required for group in plan.groups)


def sufficient(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    root_uuid: str,
    lowered: Sequence[Constraint],
) -> dict[Constraint, int] | None:
    """Smaller amounts with which a host can serve the query; None without any.

    An amount is 0, or the smallest that one of the providers accepts.
    """
    uuids = _providers(base, query, root_uuid)
    choices = [(0, *_smallest(base, uuids, part)) for part in lowered]
    for chosen in itertools.islice(itertools.product(*choices), _MOST_CHOICES):
        amounts = dict(zip(lowered, chosen, strict=True))
        if _serves(base, reduced(query, amounts), root_uuid):
            return amounts
    return None


def largest(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    root_uuid: str,
    lowered: Sequence[Constraint],
) -> dict[Constraint, int] | None:
    """The smaller amounts with which a host can serve the query, and gives up least.

    None without any. ``lowered`` are the constraints to lower; of equal shares the first ones keep
    as much as possible. No amount of the result can be larger while the others stay; an amount is 0
    only if the class must go.
    """
    choices = [(0, *_promising(base, query, root_uuid, part, lowered)) for part in lowered]
    combinations = (
        dict(zip(lowered, chosen, strict=True)) for chosen in itertools.product(*choices)
    )
    best = sorted(itertools.islice(combinations, _MOST_AMOUNTS), key=_rank)[:_MOST_CHOICES]
    amounts = next(
        (chosen for chosen in best if _serves(base, reduced(query, chosen), root_uuid)), None
    )
    amounts = amounts or sufficient(base, query, root_uuid, lowered)
    if amounts is None:
        return None
    while any(_raise(base, query, root_uuid, amounts, part) for part in lowered):
        pass
    return amounts


def _raise(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    root_uuid: str,
    amounts: dict[Constraint, int],
    raised: Constraint,
) -> bool:
    """Set the largest amount that the host can serve beside the others; whether it is larger."""
    others = reduced(query, {part: amount for part, amount in amounts.items() if part != raised})
    for amount in _promising(base, others, root_uuid, raised, ()):
        if amount <= amounts[raised]:
            return False
        if _serves(base, reduced(query, {**amounts, raised: amount}), root_uuid):
            amounts[raised] = amount
            return True
    return False


class Lowering:
    """Lowers amounts of a query for the host that keeps most of them.

    Hosts of one ``kind`` fail the same constraints. Of those that also have equal amounts, only one
    is searched. ``refused`` are the root UUIDs of hosts that are left out.
    """

    def __init__(
        self,
        base: state.CloudState,
        query: candidate.CandidateQuery,
        lowered: Sequence[Constraint],
        kind: Callable[[str], object],
        refused: Collection[str] = (),
    ) -> None:
        self._base, self._query, self._lowered, self._kind = base, query, lowered, kind
        self._refused = refused
        self._without = HostSearch(base, constraint.without(query, lowered))
        plan = plans.prepare(base, query)
        self._brings_more = brings_more(plan)
        self._limits = {part.names[0]: plan.totals[part.names[0]] for part in lowered}

    def best(self) -> dict[Constraint, int] | None:
        """The amounts that give up the smallest share in sum; None if no host can serve any.

        Hosts with the largest free amounts are tried first, until no other host can be better.
        """
        roots = [root for root in self._base.tree if self._may_serve(root)]
        limits = {root: self._bounds(root) for root in roots}
        bounds = {root: _given_up(limits[root]) for root in roots}
        best: dict[Constraint, int] | None = None
        least: tuple[float, tuple[int, ...]] = (math.inf, ())
        tried: set[object] = set()
        for root in sorted(roots, key=bounds.__getitem__):
            if bounds[root] > least[0] or len(tried) == MOST_HOSTS:
                break
            key = self._alike(root)
            if key in tried:
                continue
            tried.add(key)
            amounts = largest(self._base, self._query, root, self._lowered)
            if amounts is not None and _rank(amounts) < least:
                best, least = amounts, _rank(amounts)
        if best is not None:
            while any(
                any(limits[root][part] > best[part] for part in self._lowered)
                and any(_raise(self._base, self._query, root, best, part) for part in self._lowered)
                for root in roots
            ):
                pass
        return best

    def _may_serve(self, root_uuid: str) -> bool:
        """Whether a host can serve the rest of the query, or only providers that share with it."""
        if root_uuid in self._refused:
            return False
        is_open = self._brings_more or not self._without.plan.totals
        return is_open or self._without.shared_can_serve(root_uuid)

    def _offering(self, root_uuid: str) -> Iterator[record.ProviderRecord]:
        forest = self._without.forest
        for uuid in (*self._base.tree[root_uuid], *forest.sharing_with(root_uuid)):
            yield self._base.providers[uuid]

    def _bounds(self, root_uuid: str) -> Amounts:
        """At least as much as ``largest``: the most that one provider of the host can supply."""
        limits = dict.fromkeys(self._lowered, 0)
        for provider in self._offering(root_uuid):
            for part in self._lowered:
                limits[part] = max(limits[part], _most(self._base, provider, part, 0) or 0)
        return limits

    def _alike(self, root_uuid: str) -> object:
        """Equal for hosts that can supply the same amounts, up to the requested ones."""
        facts: list[object] = [self._kind(root_uuid)]
        for provider in self._offering(root_uuid):
            for name, limit in self._limits.items():
                inventory = provider.inventories.get(name)
                if inventory is None:
                    facts.append(None)
                    continue
                free = inventory.capacity - self._base.used(provider.uuid).get(name, 0)
                most = min(free, limit), min(inventory.max_unit, limit)
                facts.append((*most, inventory.min_unit, inventory.step_size))
        return tuple(facts)


def _rank(amounts: Amounts) -> tuple[float, tuple[int, ...]]:
    """The share that is given up; of equal ones, the most of the first amounts."""
    return _given_up(amounts), tuple(-amount for amount in amounts.values())


def _given_up(amounts: Amounts) -> float:
    return sum(1 - amount / (part.amount or 1) for part, amount in amounts.items())


def _serves(base: state.CloudState, query: candidate.CandidateQuery, root_uuid: str) -> bool:
    return HostSearch(base, query).can_serve(root_uuid)


def _promising(
    base: state.CloudState,
    query: candidate.CandidateQuery,
    root_uuid: str,
    lowered: Constraint,
    also: Collection[Constraint],
) -> Iterator[int]:
    """Amounts below the requested one that may be the largest possible, in descending order.

    The largest amount fills a provider up to a limit, beside what other groups take from it; of the
    constraints ``also``, which are lowered too, they take at most 1 less.
    """
    resource_class = lowered.names[0]
    others = (
        (part.amount or 0) - (part in also)
        for part in constraint.constraints_of(query)
        if part.kind is Kind.RESOURCES and part.names[0] == resource_class and part != lowered
    )
    beside = subset_sums(itertools.islice(others, _MOST_OTHERS), 1 << _MOST_OTHERS)
    amounts = set()
    for uuid in _providers(base, query, root_uuid):
        for taken in beside:
            amount = _most(base, base.providers[uuid], lowered, taken)
            if amount is not None:
                amounts.add(amount)
    yield from sorted(amounts, reverse=True)


def _providers(
    base: state.CloudState, query: candidate.CandidateQuery, root_uuid: str
) -> list[str]:
    """The providers of a tree and those that share with it."""
    return [*base.tree[root_uuid], *HostSearch(base, query).forest.sharing_with(root_uuid)]


def _smallest(base: state.CloudState, uuids: Iterable[str], lowered: Constraint) -> list[int]:
    """The smallest amounts below the requested one that the providers accept."""
    rooms = base.rooms(lowered.names[0])
    amounts = set()
    for uuid in uuids:
        smallest, most, step = rooms.get(uuid, state.NO_ROOM)
        amount = max(-(-smallest // step), 1) * step
        if amount <= min(most, (lowered.amount or 0) - 1):
            amounts.add(amount)
    return sorted(amounts)


def _most(
    base: state.CloudState, provider: record.ProviderRecord, lowered: Constraint, taken: int
) -> int | None:
    """The most below the requested amount that a provider can supply beside what is taken."""
    resource_class = lowered.names[0]
    inventory = provider.inventories.get(resource_class)
    if inventory is None:
        return None
    free = inventory.capacity - base.used(provider.uuid).get(resource_class, 0)
    most = min(free - taken, inventory.max_unit - taken, (lowered.amount or 0) - 1)
    amount = most - most % inventory.step_size
    return amount if amount >= max(inventory.min_unit, 1) else None
