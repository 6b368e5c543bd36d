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
    included = _included_sets(base, request_group, name, uuid)
    excluded = [base.with_aggregate[name] for name in request_group.forbidden_aggregates]
    excluded += [base.with_trait[name] for name in request_group.forbidden]
    matches: Members = [
        member
        for member in min(included, key=len, default=base.providers.keys())
        if all(member in members for members in included)
        and not any(member in members for members in excluded)
    ]
    for resource_class, amount in request_group.resources.items():
        matches = inventories.suppliers(base, matches, resource_class, amount)
    # An index orders its members by their last change.
    return [base.providers[member] for member in base.in_order(matches)]


def _included_sets(
    base: state.CloudState,
    request_group: candidate.RequestGroup,
    name: str | None,
    uuid: str | None,
) -> list[Members]:
    """Sets of providers; each match is in all of them."""
    included: list[Members] = []
    if uuid is not None:
        included.append({uuid} & base.providers.keys())
    if name:
        included.append({base.named[name]} if name in base.named else ())
    if request_group.in_tree is not None:
        included.append(base.tree[base.providers[request_group.in_tree].root_uuid])
    included += [base.with_aggregate.any_of(names) for names in request_group.member_of]
    included += [base.with_trait.any_of(names) for names in request_group.required]
    included += [base.with_class[resource_class] for resource_class in request_group.resources]
    return included
