# SPDX-License-Identifier: Apache-2.0
"""Plans changes of the inventories, traits or aggregates of many providers at once.

The ``plan_`` functions read the selected providers, in bulk where the API has a bulk request, and
decide the changes; a provider that cannot be read is skipped and does not stop the others. They
change nothing: ``plan.apply`` applies the plans. The ``decide_`` functions are pure. Public for
other programs.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors, lookup
from osc_placement.engine import standard
from osc_placement.model import inventory, provider
from osc_placement.model.name import is_custom
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import base, inventories, memberships
from osc_placement.plan.reasons import Code
from osc_placement.workflows.batch import amend
from osc_placement.workflows.cloud import reading
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.named_aggregates import aggregate_uuids
from osc_placement.workflows.cloud.selector import (
    Selection,
    Selector,
    select,
    unknown_trait_message,
    unknown_traits,
)

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_DEFAULT = ReadContext()


def plan_amend(
    client: api.Client,
    selector: Selector,
    expressions: Sequence[str],
    *,
    create: bool = False,
    allow: Iterable[str] = (),
    context: ReadContext = _DEFAULT,
) -> plan.ObservedPlan:
    """Plan expressions such as ``VCPU:allocation_ratio=4`` for each selected provider.

    ``create``: give a provider the class if it does not have it. ``allow`` are the guards to skip.
    Requests: the selection; one GET per custom class and per provider; if capacity shrinks,
    those of ``observe_usages``.
    Errors: InvalidInput with every error of the expressions and the selection.
    """
    input_errors = errors.InputErrors()
    assignments: tuple[amend.Assignment, ...] = ()
    with input_errors.collected():
        assignments = amend.parse(expressions)
    unknown = _unknown_classes(client, amend.resource_classes(expressions))
    input_errors.reasons += unknown
    request = amend.AmendRequest(assignments, create=create, allow=frozenset(allow))
    with input_errors.collected():
        chosen = select(client, selector, context.names)
    input_errors.check()
    return plan_observed(
        client,
        chosen,
        lambda item: amend.amended(item, request),
        lambda observed: amend.plan_inventory(observed, request),
        context,
        request.allow,
    )


def plan_set_inventories(
    client: api.Client,
    members: Sequence[provider.Provider],
    target: amend.Target,
    *,
    exactly: bool,
    allow: Collection[str] = (),
) -> plan.ObservedPlan:
    """Plan ``inventory set AGG --aggregate``: the inventories of ``target`` for every member.

    Only the guard of one-time-use devices applies, unless ``allow`` has it.
    Requests: one GET per provider; where everything of a class was reserved, one listing of the
    one-time-use devices, and one GET of the usages of each.
    """

    def renewed(item: amend.Offered) -> inventory.Inventories:
        try:
            return target(item.inventories)
        except errors.InvalidInput:
            return item.inventories

    allowed = {*guards.ALL_BUT_DEVICES, *allow}
    return plan_observed(
        client,
        Selection(tuple(members)),
        renewed,
        lambda observed: amend.plan_targets(observed, target, allowed, exactly=exactly),
        _DEFAULT,
        allowed,
        lambda item, after: item.one_time_use and inventories.releases(item.inventories, after),
    )


def plan_traits(
    client: api.Client,
    selector: Selector,
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
    Requests: the selection; those of ``observe_members``; with ``create``, and for an unknown
    trait, one GET; with ``count_existing``, those of ``_counted``.
    Errors: InvalidInput with every error.
    """
    client.require_feature("provider required traits", "finding the providers with a trait")
    request = MembershipRequest(tuple(add), tuple(remove), frozenset(allow))
    input_errors = errors.InputErrors(_conflicts(request))
    with input_errors.collected():
        chosen = select(client, selector, context.names)
    missing = unknown_traits(client, request.names) if input_errors or create else []
    created = [item for item in missing if create and item in add and is_custom(item)]
    input_errors.reasons += [
        unknown_trait_message(item, advise_create=item not in remove)
        for item in missing
        if item not in created
    ]
    input_errors.check()
    existing = [item for item in request.names if item not in created]
    observed, unread = _observe_traits(client, chosen, existing, context, remove)
    planned = with_skipped(decide_traits(observed, request, created), unread)
    removed = request.remove if count_existing else None
    return plan.ObservedPlan(_counted(client, planned, memberships.TRAITS, removed))


def plan_set_traits(
    client: api.Client,
    members: Sequence[provider.Provider],
    traits: Sequence[str],
    *,
    count_existing: bool = False,
) -> plan.ObservedPlan:
    """Plan ``trait set AGG --aggregate``: replace the traits of every member.

    No guard applies. Requests: one GET per provider; with ``count_existing``, those of
    ``_counted`` for the removed traits.
    """
    chosen = Selection(tuple(members))
    kind = memberships.TRAITS
    observed, unread = observe_members(client, kind, chosen, traits, _DEFAULT)
    by_key = {
        change.key(kind.name, item.subject): memberships.observed_traits(item.generation, item.has)
        for item in observed
    }
    planned = with_skipped(decide_replacement(observed, traits), unread)
    removed = {name for item in planned.changes for name in item.before.names()} - {*traits}
    planned = _counted(client, planned, kind, sorted(removed) if count_existing else None)
    return plan.ObservedPlan(planned, by_key)


def plan_aggregates(
    client: api.Client,
    selector: Selector,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    context: ReadContext = _DEFAULT,
    count_existing: bool = False,
) -> plan.ObservedPlan:
    """Plan aggregates to add to and remove from each selected provider.

    Requests: the selection; those of ``observe_members``; with ``count_existing``, those of
    ``_counted``.
    Errors: InvalidInput with every error.
    """
    client.require_feature("aggregate generation", "changing aggregates safely")
    input_errors = errors.InputErrors()
    uuids: Mapping[str, str] = {}
    with input_errors.collected():
        uuids = aggregate_uuids([*add, *remove], context.names)
    with input_errors.collected():
        chosen = select(client, selector, context.names)
    request = MembershipRequest(
        tuple(uuids[text] for text in add if text in uuids),
        tuple(uuids[text] for text in remove if text in uuids),
    )
    input_errors.reasons += _conflicts(request) if uuids else []
    input_errors.check()
    kind = memberships.AGGREGATES
    observed, unread = observe_members(client, kind, chosen, request.names, context)
    decided = plan.make(decide(kind, item, request) for item in observed)
    removed = request.remove if count_existing else None
    return plan.ObservedPlan(_counted(client, with_skipped(decided, unread), kind, removed))


def _counted(
    client: api.Client,
    planned: plan.Plan,
    kind: memberships.MembershipType[Any],
    removed: Sequence[str] | None,
) -> plan.Plan:
    """The plan with the number of providers in the whole cloud that have the removed names.

    ``removal_limit`` compares its removals with them. Requests: one listing for each name; none
    if ``removed`` is None.
    """
    if removed is None:
        return planned

    def count(item: str) -> int:
        filters: dict[str, Any] = {_FILTER_PARAMETERS[kind.name]: [item]}
        return len(client.list_providers(**filters))

    return dataclasses.replace(planned, existing={kind.unit: sum(map(count, removed))})


def plan_observed(
    client: api.Client,
    chosen: Selection,
    amended: Callable[[amend.Offered], inventory.Inventories],
    decide: Callable[[Sequence[amend.Offered]], plan.Plan],
    context: ReadContext,
    allow: Collection[str] = (),
    needs_usages: Callable[[amend.Offered, inventory.Inventories], bool] = amend.needs_usages,
) -> plan.ObservedPlan:
    """Read the inventories of the selection, and decide; usages only where a guard needs them.

    ``amended`` returns the inventories of a provider after the change.
    Requests: those of ``observe_inventories``; those of ``observe_usages`` for the providers for
    which ``needs_usages``; one listing of the one-time-use devices, if everything of a class was
    reserved and ``allow`` does not have their guard.
    """
    observed, unread = observe_inventories(client, chosen.providers, context)
    after = {item.provider.uuid: amended(item) for item in observed}
    if guards.ONE_TIME_USE not in allow and any(
        inventories.releases(item.inventories, after[item.provider.uuid]) for item in observed
    ):
        observed = _observe_one_time_use(client, observed)
    losing = [item for item in observed if needs_usages(item, after[item.provider.uuid])]
    filled = observe_usages(client, losing, chosen.filters, context)
    with_usages = {item.provider.uuid: item for item in filled}
    observed = [with_usages.get(item.provider.uuid, item) for item in observed]
    return plan.ObservedPlan(with_skipped(decide(observed), unread), amend.read_states(observed))


def _observe_traits(
    client: api.Client,
    chosen: Selection,
    names: Sequence[str],
    context: ReadContext,
    removed: Sequence[str],
) -> tuple[list[ChosenMembership], list[change.Skipped]]:
    """As ``observe_members``; an unknown trait is an error.

    The server refuses a listing with an unknown trait. Without a listing, one more GET checks
    the traits that no provider has.
    """
    try:
        observed, unread = observe_members(client, memberships.TRAITS, chosen, names, context)
    except api_errors.ApiError as error:
        if error.status == 400:
            _check_traits(client, names, removed)
        raise
    if chosen.filters is None:
        had = {name for item in observed for name in item.has}
        _check_traits(client, [item for item in names if item not in had], removed)
    return observed, unread


def _check_traits(client: api.Client, names: Iterable[str], removed: Sequence[str]) -> None:
    errors.InputErrors(
        unknown_trait_message(item, advise_create=item not in removed)
        for item in unknown_traits(client, names)
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
                if is_custom(resource_class)
                else "'openstack resource class list' shows the classes; names of custom classes"
                " begin with CUSTOM_"
            )
            input_errors.append(f"unknown resource class {resource_class}: {remedy}")
    return input_errors


def _conflicts(request: MembershipRequest) -> list[str]:
    """What contradicts itself in a request, or that it is empty."""
    both = [item for item in request.add if item in request.remove]
    input_errors = [f"{item} cannot be added and removed at once" for item in both]
    return input_errors if request.names else ["nothing to add or to remove"]


def with_skipped(decided: plan.Plan, more: Sequence[change.Skipped]) -> plan.Plan:
    """The plan with more skipped items: providers that could not be read."""
    skipped = sorted([*decided.skipped, *more], key=change.Skipped.sort_key)
    LOG.info("%d changes planned, %d providers skipped", len(decided.changes), len(skipped))
    return dataclasses.replace(decided, skipped=tuple(skipped))


def observe_inventories(
    client: api.Client, providers: Sequence[provider.Provider], context: ReadContext
) -> tuple[list[amend.Offered], list[change.Skipped]]:
    """The inventories of each provider, and the providers that could not be read.

    Requests: one GET per provider.
    """

    def observed(item: provider.Provider) -> amend.Offered:
        answer = client.list_inventories(item.uuid)
        return amend.Offered(item, answer.generation, answer.inventories)

    return _read_each(client, observed, inventories.TYPE.name, providers, context)


def observe_usages(
    client: api.Client,
    observed: Sequence[amend.Offered],
    filters: Mapping[str, Any] | None,
    context: ReadContext,
) -> list[amend.Offered]:
    """``observed`` with usages.

    Requests: with ``filters`` (of the listing that found the providers), one GET of
    allocation candidates for all; then one GET per provider that is not in its summaries,
    because it is full.
    """
    summaries: Mapping[str, Mapping[str, int]] = {}
    if filters is not None and len(observed) > 1:
        summaries = _usages_in_bulk(client, observed, filters)

    def filled(item: amend.Offered) -> amend.Offered:
        uuid = item.provider.uuid
        usages = summaries.get(uuid, {})
        if not item.inventories.keys() <= usages.keys():
            usages = client.list_usages(uuid)
        return dataclasses.replace(item, usages=usages)

    return list(context.each(filled, observed))


def _observe_one_time_use(
    client: api.Client, observed: Sequence[amend.Offered]
) -> list[amend.Offered]:
    """``observed`` with ``one_time_use`` set for such devices. Requests: one listing."""
    # A classic command with an older version in use must not release a device either.
    version = max(client.microversion, microversion.FEATURES["provider required traits"])
    uuids = lookup.providers_with_trait(client.at(version), inventories.ONE_TIME_USE)
    return [
        dataclasses.replace(item, one_time_use=item.provider.uuid in uuids) for item in observed
    ]


#: ``{kind: the query parameter that lists the providers with a trait or in an aggregate}``
_FILTER_PARAMETERS = {memberships.TRAITS.name: "required", memberships.AGGREGATES.name: "member_of"}


def observe_members(
    client: api.Client,
    kind: memberships.MembershipType[Any],
    chosen: Selection,
    names: Sequence[str],
    context: ReadContext,
) -> tuple[list[ChosenMembership], list[change.Skipped]]:
    """Which providers have which of ``names``, traits or aggregates; and those not readable.

    Requests: one listing per name; without ``filters``, one GET per provider.
    """
    if chosen.filters is None:

        def read(item: provider.Provider) -> ChosenMembership:
            subject = change.Subject(item.name, item.uuid)
            present = kind.read(base.Services(client), subject, kind.state({}))
            return ChosenMembership(item, present.generation or 0, present.state.present)

        return _read_each(client, read, kind.name, chosen.providers, context)
    having: dict[str, set[str]] = {}
    filters, parameter = chosen.filters, _FILTER_PARAMETERS[kind.name]
    for name in names:
        narrower = {**filters, parameter: [*filters.get(parameter, ()), name]}
        listing = functools.partial(client.list_providers, **narrower)
        having[name] = {item.uuid for item in listing()}
    return [
        ChosenMembership(
            item, item.generation, {name: item.uuid in uuids for name, uuids in having.items()}
        )
        for item in chosen.providers
    ], []


def _usages_in_bulk(
    client: api.Client,
    observed: Sequence[amend.Offered],
    filters: Mapping[str, Any],
) -> dict[str, dict[str, int]]:
    """``{provider uuid: {resource class: used}}`` from the summaries of a candidates query.

    Full providers are missing. The result is empty if the server refuses the query.
    """
    # A query needs an amount: 1 of the class that most of the providers have.
    classes = collections.Counter(name for item in observed for name in item.inventories)
    if not classes or not microversion.supports(client.microversion, "nested candidates"):
        return {}
    pairs = [("resources", f"{classes.most_common(1)[0][0]}:1")]
    pairs += [("member_of", value) for value in filters.get("member_of", ())]
    pairs += [("in_tree", filters["in_tree"])] if "in_tree" in filters else []
    try:
        summaries = client.list_allocation_candidates(pairs).summaries
    except (api_errors.ApiError, api_errors.UnsupportedVersion):
        return {}
    return {
        uuid: {name: amount.used for name, amount in summary.resources.items()}
        for uuid, summary in summaries.items()
    }


def _read_each(
    client: api.Client,
    read: Callable[[provider.Provider], T],
    kind: str,
    providers: Sequence[provider.Provider],
    context: ReadContext,
) -> tuple[list[T], list[change.Skipped]]:
    """``read`` of each provider, and the providers that cannot be read."""
    reader = reading.PlacementReader(client, context)
    answers, failed = reader.readable(read, providers, f"reading {kind}")
    unread = [
        change.Skipped(
            kind,
            change.Subject(item.name, item.uuid),
            reason=error,
            code=Code.UNREADABLE,
            refused=True,
        )
        for item, error in failed.items()
    ]
    return list(answers.values()), unread


_OWNED_BY_NOVA = (
    "compute drivers and nova own standard traits"
    f" (--allow {guards.STANDARD_TRAITS} to do it anyway)"
)
_WRITTEN_BACK = (
    "nova-compute overwrites changes of the driver's own traits when it reads them again, every 5"
    " minutes by default ([compute]resource_provider_association_refresh)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class ChosenMembership:
    """A provider, and which traits or aggregates it has: ``{name: whether}``."""

    provider: provider.Provider
    generation: int
    has: Mapping[str, bool]

    @property
    def subject(self) -> change.Subject:
        """The provider, as changes name it."""
        return change.Subject(self.provider.name, self.provider.uuid)


@dataclasses.dataclass(frozen=True, slots=True)
class MembershipRequest:
    """Traits or aggregates (UUIDs) to add and to remove; ``allow`` holds disabled guards."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the request, in the order given."""
        return tuple(dict.fromkeys((*self.add, *self.remove)))


def decide_traits(
    observed: Iterable[ChosenMembership], request: MembershipRequest, create: Iterable[str] = ()
) -> plan.Plan:
    """Add and remove traits of each provider.

    The custom traits ``create`` are created first. A provider that would lose a standard trait is
    skipped, unless ``request.allow`` names the guard.
    """
    protected = () if guards.STANDARD_TRAITS in request.allow else standard.traits()
    items = [
        decide(memberships.TRAITS, item, request, protected, _OWNED_BY_NOVA) for item in observed
    ]
    created = [memberships.creation(name, "the cloud does not have it yet") for name in create]
    changed = {
        name
        for item in items
        if isinstance(item, change.Change) and isinstance(item.after, memberships.Traits)
        for name in item.after.present
    }
    notes = (_WRITTEN_BACK,) if changed & standard.traits() else ()
    return plan.make([*created, *items], allow=tuple(sorted(request.allow)), notes=notes)


def decide_replacement(observed: Iterable[ChosenMembership], traits: Iterable[str]) -> plan.Plan:
    """Replace the traits of each provider by ``traits``. No guard applies.

    ``has`` of each item are all traits of the provider, and no others.
    """
    names = tuple(dict.fromkeys(traits))
    items = [
        decide(
            memberships.TRAITS,
            item,
            MembershipRequest(names, tuple(sorted({*item.has} - {*names}))),
        )
        for item in observed
    ]
    return plan.make(items, allow=(guards.STANDARD_TRAITS,))


def decide(
    kind: memberships.MembershipType[memberships.M],
    observed: ChosenMembership,
    request: MembershipRequest,
    protected: Collection[str] = (),
    reason: str = "",
) -> change.Change[Any] | change.Skipped:
    """The change of one provider; skipped for ``reason`` if it removes a ``protected`` name."""
    subject = observed.subject
    requested = dict.fromkeys(request.add, True) | dict.fromkeys(request.remove, False)
    after = {name: requested[name] for name in request.names}
    before = {name: observed.has.get(name, False) for name in after}
    if before == after:
        state = kind.state(after)
        return change.Skipped(kind.name, subject, state, state, unchanged=True)
    differing = [name for name in after if before[name] != after[name]]
    old = kind.state({name: before[name] for name in differing})
    new = kind.state({name: after[name] for name in differing})
    refused = [name for name in differing if not after[name] and name in protected]
    if refused:
        text = f"{', '.join(refused)}: {reason}"
        return change.Skipped(
            kind.name, subject, old, new, text, Code.STANDARD_TRAITS, refused=True
        )
    return change.Change(kind.name, subject, old, new, observed.generation)
