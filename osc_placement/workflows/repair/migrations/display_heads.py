# SPDX-License-Identifier: Apache-2.0
"""Replacing inventories of VGPU_DISPLAY_HEAD by traits.

The number of display heads is a property of a GPU: all virtual GPUs of it have as many, and a
server that allocates one head less does not leave it to another server. os-traits has traits for
it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from osc_placement.client import api
from osc_placement.model.inventory import Inventory
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import inventories, memberships
from osc_placement.plan.reasons import Code
from osc_placement.workflows.batch import amend, batch
from osc_placement.workflows.cloud import selector
from osc_placement.workflows.cloud.context import ReadContext

LOG = logging.getLogger(__name__)

CLASS = "VGPU_DISPLAY_HEAD"

#: ``{number of heads: trait}``, the largest first: all that os-traits has.
TRAITS = {count: f"HW_GPU_MAX_DISPLAY_HEADS_{count}" for count in (8, 6, 4, 2, 1)}

_HAS_OTHER = "it has the trait {} already"
_NO_TRAIT = "it has no trait HW_GPU_MAX_DISPLAY_HEADS_* yet: run add_display_head_traits first"
_IN_USE = f"{CLASS} has {{}} in use"


@dataclasses.dataclass(frozen=True, slots=True)
class HeadSnapshot:
    """The providers with inventory of the class, and what they have.

    ``traits`` are theirs of TRAITS. ``unread``: providers that could not be read.
    ``inventory_count``: of all classes, on all providers.
    """

    observed: Sequence[amend.Offered]
    traits: Sequence[batch.ChosenMembership]
    unread: Sequence[change.Skipped]
    inventory_count: int


def plan_traits(client: api.Client, context: ReadContext) -> plan.ObservedPlan:
    """Plan the traits of all providers with inventory of VGPU_DISPLAY_HEAD.

    Requests: one listing of all providers, and one GET per provider; if any has such inventory,
    one listing per trait.
    """
    snapshot = _observe(client, context)
    return plan.ObservedPlan(decide_traits(snapshot))


def plan_removal(client: api.Client, context: ReadContext) -> plan.ObservedPlan:
    """Plan to delete the inventories of VGPU_DISPLAY_HEAD that have a trait and no allocation.

    Requests: those of ``plan_traits``, and one GET per provider with such inventory.
    """
    snapshot = _observe(client, context)
    observed = batch.observe_usages(client, snapshot.observed, None, context)
    planned = decide_removal(dataclasses.replace(snapshot, observed=observed))
    return plan.ObservedPlan(planned, amend.read_states(observed))


def decide_traits(snapshot: HeadSnapshot) -> plan.Plan:
    """One change per provider that has none of the traits. Pure."""
    offered = {item.provider.uuid: item.inventories[CLASS] for item in snapshot.observed}
    items = [_decide_trait(item, offered[item.provider.uuid]) for item in snapshot.traits]
    return plan.make([*items, *snapshot.unread])


def decide_removal(snapshot: HeadSnapshot) -> plan.Plan:
    """One change per provider with a trait and without allocations of the class. Pure."""
    with_trait = {item.provider.uuid for item in snapshot.traits if _names(item)}
    items = [_decide_removal(item, with_trait) for item in snapshot.observed]
    planned = plan.make([*items, *snapshot.unread])
    existing = {inventories.TYPE.unit: snapshot.inventory_count}
    return dataclasses.replace(planned, existing=existing)


def trait_of(offered: Inventory) -> str:
    """The trait of a GPU with this inventory.

    ``max_unit`` is what one server can have; without it (the API's default), the total. Between
    two traits the smaller one: a server must not get fewer heads than the trait promises.
    """
    most = min(offered.max_unit, offered.total)
    return next(trait for count, trait in TRAITS.items() if count <= most)


def _observe(client: api.Client, context: ReadContext) -> HeadSnapshot:
    providers = client.list_providers()
    read, unread = batch.observe_inventories(client, providers, context)
    having = [item for item in read if CLASS in item.inventories]
    LOG.info("%d of %d providers have inventory of %s", len(having), len(read), CLASS)
    traits: list[batch.ChosenMembership] = []
    if having:
        # The listing of all providers had no filters.
        chosen = selector.Selection(tuple(item.provider for item in having), filters={})
        names = list(TRAITS.values())
        traits, _ = batch.observe_members(client, memberships.TRAITS, chosen, names, context)
    return HeadSnapshot(having, traits, unread, sum(len(item.inventories) for item in read))


def _decide_trait(
    observed: batch.ChosenMembership, offered: Inventory
) -> change.Change[Any] | change.Skipped:
    subject, kind = observed.subject, memberships.TRAITS.name
    trait, present = trait_of(offered), _names(observed)
    if present and trait not in present:
        text = _HAS_OTHER.format(", ".join(present))
        return change.Skipped(kind, subject, reason=text, unchanged=True)
    request = batch.MembershipRequest(add=(trait,))
    return batch.decide(memberships.TRAITS, observed, request)


def _decide_removal(
    observed: amend.Offered, with_trait: Iterable[str]
) -> change.Change[Any] | change.Skipped:
    subject, kind = observed.subject, inventories.TYPE.name
    used = (observed.usages or {}).get(CLASS, 0)
    if observed.provider.uuid not in with_trait:
        return change.Skipped(kind, subject, reason=_NO_TRAIT, code=Code.DEPENDENCY, refused=True)
    if used:
        text = _IN_USE.format(used)
        return change.Skipped(kind, subject, reason=text, code=Code.CLASS_IN_USE, refused=True)
    before = inventories.InventoryState.of({CLASS: observed.inventories[CLASS]})
    after = inventories.InventoryState({CLASS: None})
    return change.Change(kind, subject, before, after, observed.generation)


def _names(observed: batch.ChosenMembership) -> list[str]:
    return [name for name in TRAITS.values() if observed.has.get(name)]
