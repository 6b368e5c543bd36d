# SPDX-License-Identifier: Apache-2.0
"""The providers that match the filters of a list request."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from osc_placement.engine import (
    inventories,
    record,
    state,
    trait,
)
from osc_placement.model import candidate

Members = Collection[str]


def matching(
    base: state.CloudState,
    request_group: candidate.RequestGroup,
    name: str | None = None,
    uuid: str | None = None,
) -> list[record.ProviderRecord]:
    """The providers that match all filters by themselves, in order of creation.

    Raises TraitNotFound and ResourceClassNotFound. As in Placement, classes are checked last: an
    unknown class is not reported when the tree, the traits or the aggregates leave no provider.
    Takes time linear in the smallest set that one filter leaves.
    """
    if request_group.in_tree is not None and request_group.in_tree not in base.providers:
        return []
    for alternatives in request_group.required:
        trait.check_exist(base, sorted(alternatives))
    if not has_common_member(base.with_trait, request_group.required):
        return []
    trait.check_exist(base, sorted(request_group.forbidden))
    if not has_common_member(base.with_aggregate, request_group.member_of):
        return []
    inventories.check_classes(base, request_group.resources)
    candidate_sets = _candidate_sets(base, request_group, name, uuid)
    excluded_sets = _excluded_sets(base, request_group)
    if not (candidate_sets or excluded_sets or request_group.resources):
        return list(base.providers.values())
    by_class = (base.with_class[resource_class] for resource_class in request_group.resources)
    smallest: Members = min((*candidate_sets, *by_class), key=len, default=base.providers.keys())
    matches = list(smallest)
    for candidate_set in candidate_sets:
        if candidate_set is not smallest:
            matches = [member for member in matches if member in candidate_set]
    for excluded in excluded_sets:
        matches = [member for member in matches if member not in excluded]
    for resource_class, amount in request_group.resources.items():
        matches = inventories.suppliers(base, matches, resource_class, amount)
    if candidate_sets or request_group.resources:
        # An index orders its members by their last change.
        matches = base.in_order(matches)
    return list(map(base.providers.__getitem__, matches))


def _candidate_sets(
    base: state.CloudState,
    request_group: candidate.RequestGroup,
    name: str | None,
    uuid: str | None,
) -> list[Members]:
    """One set of providers per filter but resources; each match is in all of them."""
    candidate_sets: list[Members] = []
    if uuid is not None:
        candidate_sets.append({uuid} & base.providers.keys())
    if name:
        candidate_sets.append({base.named[name]} if name in base.named else ())
    if request_group.in_tree is not None:
        candidate_sets.append(base.tree[base.providers[request_group.in_tree].root_uuid])
    candidate_sets += [_any_of(base.with_aggregate, names) for names in request_group.member_of]
    candidate_sets += [_any_of(base.with_trait, names) for names in request_group.required]
    return candidate_sets


def _excluded_sets(base: state.CloudState, request_group: candidate.RequestGroup) -> list[Members]:
    """Sets of providers that do not match."""
    aggregates = [base.with_aggregate[name] for name in request_group.forbidden_aggregates]
    return [*aggregates, *(base.with_trait[name] for name in request_group.forbidden)]


def _any_of(index: state.Index, keys: Collection[str]) -> Members:
    if len(keys) == 1:
        return index[next(iter(keys))]
    return _union(index[key] for key in keys).keys()


def has_common_member(index: state.Index, conditions: Iterable[Collection[str]]) -> bool:
    """Whether one provider has any of the names of each condition; True without conditions."""
    by_condition = sorted((_any_of(index, names) for names in conditions), key=len)
    if len(by_condition) < 2:
        return all(by_condition)
    smallest, *others = by_condition
    return any(all(member in other for other in others) for member in smallest)


def _union(parts: Iterable[Iterable[str]]) -> dict[str, None]:
    return dict.fromkeys(member for part in parts for member in part)
