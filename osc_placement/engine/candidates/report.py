# SPDX-License-Identifier: Apache-2.0
"""Why a provider, or a tree, gives no candidate."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from osc_placement.engine import record, state
from osc_placement.engine.candidates.forest import Forest
from osc_placement.engine.candidates.plans import QueryPlan, Slot


class RefusalReason(enum.StrEnum):
    """The condition that a provider or a tree fails."""

    NO_INVENTORY = "no_inventory"
    MIN_UNIT = "min_unit"
    MAX_UNIT = "max_unit"
    STEP_SIZE = "step_size"
    CAPACITY = "capacity"
    REQUIRED = "required"
    FORBIDDEN = "forbidden"
    MEMBER_OF = "member_of"
    FORBIDDEN_AGGREGATE = "forbidden_aggregate"
    IN_TREE = "in_tree"
    ROOT_REQUIRED = "root_required"
    ROOT_FORBIDDEN = "root_forbidden"
    NO_PROVIDER = "no_provider"
    GROUP_REQUIRED = "group_required"
    COMBINED_CAPACITY = "combined_capacity"
    ISOLATE = "isolate"
    SAME_SUBTREE = "same_subtree"
    NOT_NESTED = "not_nested"
    COMBINATION = "combination"


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """One condition that is not met.

    ``names`` are its resource class, traits, aggregates or group suffixes. ``requested`` is the
    amount in units of the class, for conditions on amounts.
    """

    reason: RefusalReason
    names: tuple[str, ...] = ()
    requested: int | None = None


def provider_refusals(
    base: state.CloudState, slot: Slot, provider: record.ProviderRecord
) -> list[Refusal]:
    """Every condition of a slot that a provider fails; empty if it fits."""
    group = slot.group
    refusals = [
        refusal
        for resource_class, amount in slot.resources.items()
        for refusal in _amount_refusals(base, provider, resource_class, amount)
    ]
    refusals += [
        Refusal(RefusalReason.REQUIRED, tuple(sorted(any_of)))
        for any_of in group.required
        if provider.traits.isdisjoint(any_of)
    ]
    if group.forbidden & provider.traits:
        refusals.append(
            Refusal(RefusalReason.FORBIDDEN, tuple(sorted(group.forbidden & provider.traits)))
        )
    if not group.admits_member(base, provider):
        refusals += [
            Refusal(RefusalReason.MEMBER_OF, tuple(sorted(any_of)))
            for any_of in group.member_of
            if any_of.isdisjoint(provider.aggregates)
        ]
    excluded = group.forbidden_aggregates & group.aggregates_of(base, provider)
    if excluded:
        refusals.append(Refusal(RefusalReason.FORBIDDEN_AGGREGATE, tuple(sorted(excluded))))
    if group.root_uuid is not None and provider.root_uuid != group.root_uuid:
        refusals.append(Refusal(RefusalReason.IN_TREE, (group.root_uuid,)))
    if group.impossible:
        refusals.append(Refusal(RefusalReason.NO_PROVIDER, (group.suffix,)))
    return refusals


def _amount_refusals(
    base: state.CloudState, provider: record.ProviderRecord, resource_class: str, amount: int
) -> list[Refusal]:
    inventory = provider.inventories.get(resource_class)
    if inventory is None:
        failed = [RefusalReason.NO_INVENTORY]
    else:
        free = inventory.capacity - base.used(provider.uuid).get(resource_class, 0)
        conditions = {
            RefusalReason.MIN_UNIT: amount >= inventory.min_unit,
            RefusalReason.MAX_UNIT: amount <= inventory.max_unit,
            RefusalReason.STEP_SIZE: amount % inventory.step_size == 0,
            RefusalReason.CAPACITY: amount <= free,
        }
        failed = [reason for reason, is_met in conditions.items() if not is_met]
    return [Refusal(reason, (resource_class,), amount) for reason in failed]


def tree_refusals(forest: Forest, root_uuid: str) -> list[Refusal]:
    """Why a tree gives no candidate; empty if it gives one.

    The failed conditions on its root, else the groups without a provider, else each condition
    between groups without which there is a candidate.
    """
    plan = forest.plan
    root = forest.base.providers[root_uuid]
    refusals = [
        Refusal(RefusalReason.ROOT_REQUIRED, (t,)) for t in sorted(plan.root_required - root.traits)
    ]
    refusals += [
        Refusal(RefusalReason.ROOT_FORBIDDEN, (t,))
        for t in sorted(plan.root_forbidden & root.traits)
    ]
    options = forest.options(forest.base.tree[root_uuid], forest.sharing_with(root_uuid))
    refusals += [
        Refusal(RefusalReason.NO_PROVIDER, (slot.group.suffix, *slot.resources))
        for slot, fitting in options.items()
        if not fitting
    ]
    if refusals or _gives_any(forest, root_uuid):
        return refusals
    return [
        Refusal(reason)
        for reason, relaxed in _relaxed(plan)
        if _gives_any(Forest(forest.base, relaxed), root_uuid)
    ] or [Refusal(RefusalReason.COMBINATION)]


def _gives_any(forest: Forest, root_uuid: str) -> bool:
    return next(forest.candidates_in(root_uuid), None) is not None


def _relaxed(plan: QueryPlan) -> Iterator[tuple[RefusalReason, QueryPlan]]:
    """The plan without one of its conditions between groups."""
    if plan.isolate:
        yield RefusalReason.ISOLATE, dataclasses.replace(plan, isolate=False)
    if plan.subtrees:
        yield RefusalReason.SAME_SUBTREE, dataclasses.replace(plan, subtrees=())
    if not plan.nested:
        yield RefusalReason.NOT_NESTED, dataclasses.replace(plan, nested=True)
    if plan.repeated:
        yield RefusalReason.COMBINED_CAPACITY, dataclasses.replace(plan, repeated=frozenset())
    if any(group.group_required for group in plan.groups):
        yield RefusalReason.GROUP_REQUIRED, plan.without_group_required()
