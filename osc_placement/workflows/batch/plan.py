"""Planning batch operations: read the selected providers, and decide the changes.

No function changes anything; ``plan.apply`` applies the plans. Public for other programs.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from osc_placement import errors
from osc_placement.client import api, api_errors, retry
from osc_placement.engine import standard
from osc_placement.model import name, provider
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import inventories, memberships
from osc_placement.workflows import selector as batch_selector
from osc_placement.workflows.batch import (
    expression,
    inventory,
    membership,
    observe,
)
from osc_placement.workflows.context import ReadContext

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_DEFAULT = ReadContext()


def plan_amend(
    client: api.Client,
    selector: batch_selector.Selector,
    expressions: Sequence[str],
    *,
    create: bool = False,
    allow: Iterable[str] = (),
    context: ReadContext = _DEFAULT,
) -> plan.ObservedPlan:
    """Plan expressions such as ``VCPU:allocation_ratio=4`` for each selected provider.

    Requests: the selection; one GET per custom class and per provider; if capacity shrinks,
    those of ``observe_usages``.
    Errors: InvalidInput with every error of the expressions and the selection.
    """
    input_errors = errors.InputErrors()
    assignments: tuple[expression.Assignment, ...] = ()
    with input_errors.collected():
        assignments = expression.parse(expressions)
    unknown = _unknown_classes(client, expression.resource_classes(expressions))
    input_errors.reasons += unknown
    request = inventory.Request(assignments, create=create, allow=frozenset(allow))
    with input_errors.collected():
        chosen = batch_selector.select(client, selector, context.host_aggregates)
    input_errors.check()
    return plan_observed(
        client,
        chosen,
        lambda _: request,
        lambda observed: inventory.plan_inventory(observed, request),
        context,
    )


def plan_set_inventories(
    client: api.Client,
    members: Sequence[provider.Provider],
    target: inventory.Target,
    *,
    exactly: bool,
    allow: Collection[str] = (),
    context: ReadContext = _DEFAULT,
) -> plan.ObservedPlan:
    """Plan ``inventory set AGG --aggregate``: the inventories of ``target`` for every member.

    Only the guard of one-time-use devices applies, unless ``allow`` has it.
    Requests: one GET per provider; where everything of a class was reserved, one listing of the
    one-time-use devices, and one GET of the usages of each.
    """
    found = observe.observe_inventories(client, members, context)
    observed, unread = _without_skipped(found)
    released = [item for item in observed if inventory.releases_to(item, target)]
    if released and guards.ONE_TIME_USE not in allow:
        released = observe.observe_one_time_use(client, released)
        devices = [item for item in released if item.one_time_use]
        filled = observe.observe_usages(client, devices, None, context)
        by_uuid = {item.provider.uuid: item for item in filled}
        observed = [by_uuid.get(item.provider.uuid, item) for item in observed]
    allowed = {*guards.ALL_BUT_DEVICES, *allow}
    planned = inventory.plan_targets(observed, target, allowed, exactly=exactly)
    known = {
        _key(inventories.TYPE.name, item.provider): inventories.observed(
            item.generation, item.inventories
        )
        for item in observed
    }
    return plan.ObservedPlan(with_skipped(planned, unread), known)


def plan_traits(
    client: api.Client,
    selector: batch_selector.Selector,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    create: bool = False,
    allow: Iterable[str] = (),
    context: ReadContext = _DEFAULT,
    count_existing: bool = False,
) -> plan.ObservedPlan:
    """Plan traits to add to and remove from each selected provider.

    ``create`` creates missing custom traits.
    Requests: the selection; those of ``observe_traits``; with ``create``, and for an unknown
    trait, one GET; with ``count_existing``, those of ``_counted``.
    Errors: InvalidInput with every error.
    """
    client.require_feature("provider required traits", "finding the providers with a trait")
    request = membership.Request(tuple(add), tuple(remove), frozenset(allow))
    input_errors = errors.InputErrors(_conflicts(request))
    with input_errors.collected():
        chosen = batch_selector.select(client, selector, context.host_aggregates)
    missing = batch_selector.unknown_traits(client, request.names) if input_errors or create else []
    created = [item for item in missing if create and item in add and name.is_custom(item)]
    input_errors.reasons += [
        batch_selector.unknown_trait_message(item, advise_create=item not in remove)
        for item in missing
        if item not in created
    ]
    input_errors.check()
    existing = [item for item in request.names if item not in created]
    found = _observed_traits(client, chosen, existing, context, remove)
    observed, unread = _without_skipped(found)
    planned = with_skipped(membership.plan_traits(observed, request, created), unread)
    if count_existing:
        planned = _counted(client, planned, memberships.TRAITS.unit, "required", request.remove)
    return plan.ObservedPlan(planned)


def plan_set_traits(
    client: api.Client,
    members: Sequence[provider.Provider],
    traits: Sequence[str],
    context: ReadContext = _DEFAULT,
) -> plan.ObservedPlan:
    """Plan ``trait set AGG --aggregate``: replace the traits of every member.

    No guard applies. Requests: one GET per provider.
    """
    chosen = batch_selector.Selection(tuple(members))
    found = observe.observe_traits(client, chosen, traits, context)
    observed, unread = _without_skipped(found)
    known = {
        _key(memberships.TRAITS.name, item.provider): memberships.observed_traits(
            item.generation, (name for name, has in item.has.items() if has)
        )
        for item in observed
    }
    return plan.ObservedPlan(
        with_skipped(membership.plan_replacement(observed, traits), unread), known
    )


def plan_aggregates(
    client: api.Client,
    selector: batch_selector.Selector,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    context: ReadContext = _DEFAULT,
    count_existing: bool = False,
) -> plan.ObservedPlan:
    """Plan aggregates to add to and remove from each selected provider.

    Requests: the selection; those of ``observe_aggregates``; with ``count_existing``, those of
    ``_counted``.
    Errors: InvalidInput with every error.
    """
    input_errors = errors.InputErrors()
    uuids: Mapping[str, str] = {}
    with input_errors.collected():
        uuids = batch_selector.aggregate_uuids([*add, *remove], context.host_aggregates)
    with input_errors.collected():
        chosen = batch_selector.select(client, selector, context.host_aggregates)
    request = membership.Request(
        tuple(uuids[text] for text in add if text in uuids),
        tuple(uuids[text] for text in remove if text in uuids),
    )
    input_errors.reasons += _conflicts(request) if uuids else []
    input_errors.check()
    found = observe.observe_aggregates(client, chosen, request.names, context)
    observed, unread = _without_skipped(found)
    planned = with_skipped(membership.plan_aggregates(observed, request), unread)
    if count_existing:
        unit = memberships.AGGREGATES.unit
        planned = _counted(client, planned, unit, "member_of", request.remove)
    return plan.ObservedPlan(planned)


def _counted(
    client: api.Client, planned: plan.Plan, unit: str, parameter: str, names: Sequence[str]
) -> plan.Plan:
    """The plan with the number of providers in the whole cloud that have the removed names.

    ``brake`` compares its removals with them. Requests: one listing for each name.
    """

    def count(item: str) -> int:
        filters: dict[str, Any] = {parameter: [item]}
        return len(retry.read(functools.partial(client.list_providers, **filters)))

    return dataclasses.replace(planned, existing={unit: sum(map(count, names))})


def plan_observed(
    client: api.Client,
    chosen: batch_selector.Selection,
    request_of: Callable[[inventory.Observed], inventory.Request],
    decide: Callable[[Sequence[inventory.Observed]], plan.Plan],
    context: ReadContext,
) -> plan.ObservedPlan:
    """Read the inventories of the selection, and decide; usages only where a guard needs them.

    ``request_of`` returns the request for one provider.
    Requests: those of ``observe_inventories`` and ``observe_usages``; one listing of the
    one-time-use devices, if everything of a class was reserved.
    """
    found = observe.observe_inventories(client, chosen.providers, context)
    observed, unread = _without_skipped(found)
    if any(inventory.releases(item, request_of(item)) for item in observed):
        observed = observe.observe_one_time_use(client, observed)
    losing = [item for item in observed if inventory.needs_usages(item, request_of(item))]
    filled = observe.observe_usages(client, losing, chosen.filters, context)
    with_usages = {item.provider.uuid: item for item in filled}
    observed = [with_usages.get(item.provider.uuid, item) for item in observed]
    planned = with_skipped(decide(observed), unread)
    by_uuid = {item.provider.uuid: item for item in observed}
    known = {
        item.key: inventories.observed(
            by_uuid[item.subject.uuid].generation, by_uuid[item.subject.uuid].inventories
        )
        for item in planned.changes
    }
    return plan.ObservedPlan(planned, known)


def _observed_traits(
    client: api.Client,
    chosen: batch_selector.Selection,
    names: Sequence[str],
    context: ReadContext,
    removed: Sequence[str],
) -> list[membership.Observed | change.Skipped]:
    """As ``observe_traits``; an unknown trait is an error.

    The server refuses a listing with an unknown trait. Without a listing, one more GET checks
    the traits that no provider has.
    """
    try:
        found = observe.observe_traits(client, chosen, names, context)
    except api_errors.ApiError as error:
        if error.status != 400:
            raise
        _check_traits(client, names, removed)
        raise
    if chosen.filters is None:
        had = {name for item in _without_skipped(found)[0] for name in item.has}
        _check_traits(client, [item for item in names if item not in had], removed)
    return found


def _check_traits(client: api.Client, names: Iterable[str], removed: Sequence[str]) -> None:
    errors.InputErrors(
        batch_selector.unknown_trait_message(item, advise_create=item not in removed)
        for item in batch_selector.unknown_traits(client, names)
    ).check()


def _unknown_classes(client: api.Client, classes: Iterable[str]) -> list[str]:
    """An error per class that the cloud does not have. Requests: one GET per custom class."""
    input_errors = []
    for resource_class in classes:
        if resource_class in standard.RESOURCE_CLASSES:
            continue
        if not client.resource_class_exists(resource_class):
            remedy = (
                f"'openstack resource class create {resource_class}' creates it"
                if name.is_custom(resource_class)
                else "'openstack resource class list' shows the classes; names of custom classes"
                " begin with CUSTOM_"
            )
            input_errors.append(f"unknown resource class {resource_class}: {remedy}")
    return input_errors


def _conflicts(request: membership.Request) -> list[str]:
    both = [item for item in request.add if item in request.remove]
    input_errors = [f"{item} cannot be added and removed at once" for item in both]
    return input_errors if request.names else ["nothing to add or to remove"]


def _key(which: str, about: provider.Provider) -> str:
    return change.key(which, change.Subject(about.name, about.uuid))


def _without_skipped(found: Iterable[T | change.Skipped]) -> tuple[list[T], list[change.Skipped]]:
    """The providers that were read, and the skipped ones."""
    observed: list[T] = []
    unread: list[change.Skipped] = []
    for item in found:
        if isinstance(item, change.Skipped):
            unread.append(item)
        else:
            observed.append(item)
    return observed, unread


def with_skipped(decided: plan.Plan, more: Sequence[change.Skipped]) -> plan.Plan:
    """The plan with more skipped items: providers that could not be read."""
    skipped = sorted([*decided.skipped, *more], key=change.Skipped.sort_key)
    LOG.info("%d changes planned, %d providers skipped", len(decided.changes), len(skipped))
    return dataclasses.replace(decided, skipped=tuple(skipped))
