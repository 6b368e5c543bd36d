"""The batch operations: observe, plan, and then a dry run or applying, in one call each.

``plan_…`` functions read and decide and change nothing; ``carry_out`` applies what they
return. Commands call this, and whoever writes a program of their own may.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from osc_placement import errors
from osc_placement.client import api, api_errors
from osc_placement.engine import standard
from osc_placement.model import name, provider
from osc_placement.plan import change, plan
from osc_placement.plan.kinds import inventories, memberships
from osc_placement.workflows import context, selector as batch_selector
from osc_placement.workflows.batch import (
    aggregate,
    expression,
    inventory,
    membership,
    observe,
    trait,
)

T = TypeVar("T")


_PLAIN = context.ReadContext()


#: Called with a client, a selector and ``reading=``.
Planner = Callable[..., plan.ObservedPlan]


def plan_amend(
    client: api.Client,
    selector: batch_selector.Selector,
    expressions: Sequence[str],
    *,
    create: bool = False,
    allow: Iterable[str] = (),
    reading: context.ReadContext = _PLAIN,
) -> plan.ObservedPlan:
    """What ``VCPU:allocation_ratio=4`` and the like mean for each selected provider.

    Cost: the selection, one look-up per custom class, one read per provider; where
    capacity shrinks, one request more for all usages, and one per provider that is full.
    Errors: InvalidInput with every fault of the expressions and the selection.
    """
    faults = errors.InputErrors()
    assignments: tuple[expression.Assignment, ...] = ()
    with faults.collected():
        assignments = expression.parse(expressions)
    unknown = _unknown_classes(client, expression.resource_classes(expressions))
    faults.reasons += unknown
    request = inventory.Request(assignments, create=create, allow=frozenset(allow))
    with faults.collected():
        chosen = batch_selector.select(client, selector, reading.host_aggregates)
    faults.check()
    return _plan_inventories(client, chosen, request, reading)


def plan_set_inventories(
    client: api.Client,
    members: Sequence[provider.Provider],
    target: inventory.Target,
    *,
    exactly: bool,
    reading: context.ReadContext = _PLAIN,
) -> plan.ObservedPlan:
    """``inventory set AGG --aggregate``: what ``target`` says, for every member of an aggregate.

    No guard is asked: the server alone refuses. Cost: one read per provider.
    """
    seen = observe.observe_inventories(client, members, reading.workers, reading.watch)
    observed, unread = _sorted_out(seen)
    made = inventory.plan_targets(observed, target, exactly=exactly)
    known = {
        _key(inventories.TYPE.name, item.provider): inventories.observed(
            item.generation, item.inventories
        )
        for item in observed
    }
    return plan.ObservedPlan(_with_remarks(made, unread), known)


def plan_traits(
    client: api.Client,
    selector: batch_selector.Selector,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    create: bool = False,
    allow: Iterable[str] = (),
    reading: context.ReadContext = _PLAIN,
) -> plan.ObservedPlan:
    """Traits added to and removed from each selected provider; ``create`` makes custom ones.

    Cost: the selection and one listing per trait (a read per provider where these were
    looked up one by one); with ``create``, and for an unknown trait, one request more.
    Errors: InvalidInput with every fault.
    """
    client.require_feature("provider required traits", "finding out who has a trait")
    request = membership.Request(tuple(add), tuple(remove), frozenset(allow))
    faults = errors.InputErrors(_contradictions(request))
    with faults.collected():
        chosen = batch_selector.select(client, selector, reading.host_aggregates)
    missing = batch_selector.unknown_traits(client, request.names) if faults or create else []
    made = [item for item in missing if create and item in add and name.is_custom(item)]
    faults.reasons += [
        batch_selector.unknown_trait_message(item) for item in missing if item not in made
    ]
    faults.check()
    asked = [item for item in request.names if item not in made]
    seen = _observed_traits(client, chosen, asked, reading)
    observed, unread = _sorted_out(seen)
    return plan.ObservedPlan(_with_remarks(trait.plan_traits(observed, request, made), unread))


def plan_set_traits(
    client: api.Client,
    members: Sequence[provider.Provider],
    traits: Sequence[str],
    reading: context.ReadContext = _PLAIN,
) -> plan.ObservedPlan:
    """``trait set AGG --aggregate``: exactly these traits on every member of an aggregate.

    No guard is asked: the server alone refuses. Cost: one read per provider.
    """
    chosen = batch_selector.Selection(tuple(members))
    seen = observe.observe_traits(client, chosen, traits, reading.workers, reading.watch)
    observed, unread = _sorted_out(seen)
    known = {
        _key(memberships.TRAITS.name, item.provider): memberships.observed_traits(
            item.generation, (name for name, has in item.has.items() if has)
        )
        for item in observed
    }
    return plan.ObservedPlan(_with_remarks(trait.plan_replacement(observed, traits), unread), known)


def plan_aggregates(
    client: api.Client,
    selector: batch_selector.Selector,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    reading: context.ReadContext = _PLAIN,
) -> plan.ObservedPlan:
    """Aggregates added to and removed from each selected provider.

    Cost: the selection and one listing per aggregate (a read per provider where these
    were looked up one by one). Errors: InvalidInput with every fault.
    """
    faults = errors.InputErrors()
    uuids: Mapping[str, str] = {}
    with faults.collected():
        uuids = batch_selector.aggregate_uuids([*add, *remove], reading.host_aggregates)
    with faults.collected():
        chosen = batch_selector.select(client, selector, reading.host_aggregates)
    request = membership.Request(
        tuple(uuids[text] for text in add if text in uuids),
        tuple(uuids[text] for text in remove if text in uuids),
    )
    faults.reasons += _contradictions(request) if uuids else []
    faults.check()
    seen = observe.observe_aggregates(client, chosen, request.names, reading.workers, reading.watch)
    observed, unread = _sorted_out(seen)
    return plan.ObservedPlan(_with_remarks(aggregate.plan_aggregates(observed, request), unread))


def _plan_inventories(
    client: api.Client,
    chosen: batch_selector.Selection,
    request: inventory.Request,
    reading: context.ReadContext,
) -> plan.ObservedPlan:
    seen = observe.observe_inventories(client, chosen.providers, reading.workers, reading.watch)
    observed, unread = _sorted_out(seen)
    losing = [item for item in observed if inventory.needs_usages(item, request)]
    filled = observe.observe_usages(client, losing, chosen.filters, reading.workers)
    with_usages = {item.provider.uuid: item for item in filled}
    observed = [with_usages.get(item.provider.uuid, item) for item in observed]
    made = _with_remarks(inventory.plan_inventory(observed, request), unread)
    by_uuid = {item.provider.uuid: item for item in observed}
    known = {
        item.key: inventories.observed(
            by_uuid[item.subject.uuid].generation, by_uuid[item.subject.uuid].inventories
        )
        for item in made.changes
    }
    return plan.ObservedPlan(made, known)


def _observed_traits(
    client: api.Client,
    chosen: batch_selector.Selection,
    names: Sequence[str],
    reading: context.ReadContext,
) -> list[membership.Observed | change.Skipped]:
    """As ``observe_traits``; a trait that the cloud does not have is a fault.

    A listing is refused by the server for it; where providers are read one by one, a
    trait that none of them has costs one request more.
    """
    try:
        seen = observe.observe_traits(client, chosen, names, reading.workers, reading.watch)
    except api_errors.ApiError as error:
        if error.status != 400:
            raise
        _check_traits(client, names)
        raise
    if chosen.filters is None:
        had = {name for item in _sorted_out(seen)[0] for name in item.has}
        _check_traits(client, [item for item in names if item not in had])
    return seen


def _check_traits(client: api.Client, names: Iterable[str]) -> None:
    unknown = batch_selector.unknown_traits(client, names)
    errors.InputErrors(map(batch_selector.unknown_trait_message, unknown)).check()


def _unknown_classes(client: api.Client, classes: Iterable[str]) -> list[str]:
    """What is wrong with each class that the cloud does not have. One request per custom class."""
    faults = []
    for resource_class in classes:
        if resource_class in standard.RESOURCE_CLASSES:
            continue
        if not client.resource_class_exists(resource_class):
            remedy = (
                f"'openstack resource class create {resource_class}' makes it"
                if name.is_custom(resource_class)
                else "'openstack resource class list' shows those that there are,"
                " your own begin with CUSTOM_"
            )
            faults.append(f"unknown resource class {resource_class}: {remedy}")
    return faults


def _contradictions(request: membership.Request) -> list[str]:
    both = [item for item in request.add if item in request.remove]
    faults = [f"{item} cannot be added and removed at once" for item in both]
    return faults if request.names else ["nothing to add or to remove"]


def _key(which: str, about: provider.Provider) -> str:
    return change.key(which, change.Subject(about.name, about.uuid))


def _sorted_out(seen: Iterable[T | change.Skipped]) -> tuple[list[T], list[change.Skipped]]:
    """What was read, and why the rest was not."""
    observed: list[T] = []
    unread: list[change.Skipped] = []
    for item in seen:
        if isinstance(item, change.Skipped):
            unread.append(item)
        else:
            observed.append(item)
    return observed, unread


def _with_remarks(made: plan.Plan, remarks: Sequence[change.Skipped]) -> plan.Plan:
    """A plan with what could not be read put in."""
    merged = sorted([*made.skipped, *remarks], key=change.Skipped.sort_key)
    return dataclasses.replace(made, skipped=tuple(merged))
