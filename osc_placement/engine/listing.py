# SPDX-License-Identifier: Apache-2.0
"""The providers that match the filters of a list request."""

from __future__ import annotations

from collections.abc import Collection

from osc_placement.engine import (
    inventories,
    record,
    state,
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
        state.check_traits(base, alternatives)
    if not base.with_trait.has_common_member(request_group.required):
        return []
    state.check_traits(base, request_group.forbidden)
    if not base.with_aggregate.has_common_member(request_group.member_of):
        return []
    state.check_classes(base, request_group.resources)
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
    candidate_sets += [base.with_aggregate.any_of(names) for names in request_group.member_of]
    candidate_sets += [base.with_trait.any_of(names) for names in request_group.required]
    return candidate_sets


def _excluded_sets(base: state.CloudState, request_group: candidate.RequestGroup) -> list[Members]:
    """Sets of providers that do not match."""
    aggregates = [base.with_aggregate[name] for name in request_group.forbidden_aggregates]
    return [*aggregates, *(base.with_trait[name] for name in request_group.forbidden)]
