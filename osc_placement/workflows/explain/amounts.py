"""The largest amounts with which a host can serve a query. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from osc_placement.engine import state
from osc_placement.model import candidate, constraint
from osc_placement.model.constraint import Constraint, Kind
from osc_placement.workflows.cloud.hosts import HostSearch

Amounts = Mapping[Constraint, int]


def reduced(query: candidate.CandidateQuery, amounts: Amounts) -> candidate.CandidateQuery:
    """The query with other amounts; an amount of 0 removes the class."""
    kept = {each: amount for each, amount in amounts.items() if amount}
    for each, amount in kept.items():
        query = constraint.with_amount(query, each, amount)
    return constraint.without(query, amounts.keys() - kept.keys())


def least(query: candidate.CandidateQuery, lowered: Collection[Constraint]) -> Amounts:
    """The smallest amounts: 0, or 1 if no other resources are left to request."""
    groups = constraint.without(query, lowered).groups
    return dict.fromkeys(lowered, 0 if any(group.resources for group in groups) else 1)


def largest(
    base: state.State,
    query: candidate.CandidateQuery,
    root_uuid: str,
    lowered: Sequence[Constraint],
) -> dict[Constraint, int] | None:
    """The largest smaller amounts with which a host can serve the query; None without any.

    ``lowered`` are the constraints to lower. The first ones keep as much as possible: no amount of
    the result can be larger while the others stay. An amount is 0 only if the class must go.
    """
    amounts = dict(least(query, lowered))
    if not _serves(base, reduced(query, amounts), root_uuid):
        return None
    for each in lowered:
        others = reduced(query, {one: amounts[one] for one in lowered if one != each})
        for amount in _promising(base, others, root_uuid, each):
            changed = reduced(query, {**amounts, each: amount})
            if _serves(base, changed, root_uuid):
                amounts[each] = amount
                break
    return amounts


def _serves(base: state.State, query: candidate.CandidateQuery, root_uuid: str) -> bool:
    return root_uuid in HostSearch(base, query).serving([root_uuid])


def _promising(
    base: state.State, query: candidate.CandidateQuery, root_uuid: str, lowered: Constraint
) -> Iterator[int]:
    """Amounts below the requested one that may be the largest possible, in descending order.

    The largest amount fills a provider up to a limit, beside what other groups take from it.
    """
    resource_class = lowered.names[0]
    requested = lowered.amount or 0
    beside = _sums(
        each.amount or 0
        for each in constraint.constraints_of(query)
        if each.kind is Kind.RESOURCES and each.names[0] == resource_class and each != lowered
    )
    sharing = HostSearch(base, query).forest.sharing_with(root_uuid)
    found = set()
    for uuid in (*base.tree[root_uuid], *sharing):
        inventory = base.providers[uuid].inventories.get(resource_class)
        if inventory is None:
            continue
        free = inventory.capacity - base.used(uuid).get(resource_class, 0)
        for taken in beside:
            most = min(free - taken, inventory.max_unit - taken, requested - 1)
            amount = most - most % inventory.step_size
            if amount >= max(inventory.min_unit, 1):
                found.add(amount)
    yield from sorted(found, reverse=True)


def _sums(amounts: Iterator[int]) -> set[int]:
    """The sums of any of the amounts."""
    chosen = list(itertools.islice(amounts, 8))
    sums = {0}
    for amount in chosen:
        sums |= {each + amount for each in sums}
    return sums
