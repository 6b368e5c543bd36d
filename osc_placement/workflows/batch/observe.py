"""Reading providers for batch operations, in bulk where the API has a bulk request.

A provider that cannot be read is skipped and does not stop the others.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from osc_placement import microversion
from osc_placement.client import api, api_errors, lookup, retry
from osc_placement.model import provider
from osc_placement.plan import change
from osc_placement.plan.kinds import inventories, memberships
from osc_placement.plan.reasons import Code
from osc_placement.workflows import selector
from osc_placement.workflows.batch import inventory, membership
from osc_placement.workflows.context import ReadContext

T = TypeVar("T")


def observe_inventories(
    client: api.Client,
    providers: Sequence[provider.Provider],
    context: ReadContext,
) -> list[inventory.Observed | change.Skipped]:
    """The inventories of each provider, or the reason why they could not be read.

    Requests: one GET per provider.
    """

    def observed(item: provider.Provider) -> inventory.Observed:
        answer = client.list_inventories(item.uuid)
        return inventory.Observed(item, answer.generation, answer.inventories)

    return _read_each(observed, inventories.TYPE.name, providers, context)


def observe_usages(
    client: api.Client,
    observed: Sequence[inventory.Observed],
    filters: Mapping[str, Any] | None,
    context: ReadContext,
) -> list[inventory.Observed]:
    """``observed`` with usages.

    Requests: with ``filters`` (of the listing that found the providers), one GET of
    allocation candidates for all; then one GET per provider that is not in its summaries,
    because it is full.
    """
    summaries: Mapping[str, Mapping[str, int]] = {}
    if filters is not None and len(observed) > 1:
        summaries = _usages_in_bulk(client, observed, filters)

    def filled(item: inventory.Observed) -> inventory.Observed:
        uuid = item.provider.uuid
        usages = summaries.get(uuid, {})
        if not item.inventories.keys() <= usages.keys():
            usages = retry.read(lambda: client.list_usages(uuid))
        return dataclasses.replace(item, usages=usages)

    return list(context.each(filled, observed))


def observe_one_time_use(
    client: api.Client, observed: Sequence[inventory.Observed]
) -> list[inventory.Observed]:
    """``observed`` with the knowledge which are one-time-use devices. Requests: one listing."""
    # A classic command with an older version in use must not release a device either.
    version = max(client.microversion, microversion.FEATURES["provider required traits"])
    uuids = lookup.providers_with_trait(client.at(version), inventories.ONE_TIME_USE)
    return [
        dataclasses.replace(item, one_time_use=item.provider.uuid in uuids) for item in observed
    ]


def observe_traits(
    client: api.Client,
    chosen: selector.Selection,
    names: Sequence[str],
    context: ReadContext,
) -> list[membership.Observed | change.Skipped]:
    """Which providers have which of the traits ``names``.

    Requests: one listing per trait; without ``filters``, one GET per provider.
    """
    if chosen.filters is None:

        def traits(item: provider.Provider) -> membership.Observed:
            answer = client.list_provider_traits(item.uuid)
            return membership.Observed(item, answer.generation, dict.fromkeys(answer.traits, True))

        return _read_each(traits, memberships.TRAITS.name, chosen.providers, context)
    return _read_by_listing(client, chosen, "required", names)


def observe_aggregates(
    client: api.Client,
    chosen: selector.Selection,
    uuids: Sequence[str],
    context: ReadContext,
) -> list[membership.Observed | change.Skipped]:
    """Which providers are in which of the aggregates ``uuids``.

    Requests: one listing per aggregate; without ``filters``, one GET per provider.
    """
    client.require_feature("aggregate generation", "changing aggregates safely")
    if chosen.filters is None:

        def aggregates(item: provider.Provider) -> membership.Observed:
            answer = client.list_aggregates(item.uuid)
            return membership.Observed(
                item, answer.generation or 0, dict.fromkeys(answer.aggregates, True)
            )

        return _read_each(aggregates, memberships.AGGREGATES.name, chosen.providers, context)
    return _read_by_listing(client, chosen, "member_of", uuids)


def _read_by_listing(
    client: api.Client, chosen: selector.Selection, parameter: str, names: Iterable[str]
) -> list[membership.Observed | change.Skipped]:
    """Repeat the listing of the selection with one more condition for each name."""
    filters = dict(chosen.filters or {})
    having: dict[str, set[str]] = {}
    for name in names:
        narrower = {**filters, parameter: [*filters.get(parameter, ()), name]}
        listing = functools.partial(client.list_providers, **narrower)
        having[name] = {item.uuid for item in retry.read(listing)}
    return [
        membership.Observed(
            item, item.generation, {name: item.uuid in uuids for name, uuids in having.items()}
        )
        for item in chosen.providers
    ]


def _usages_in_bulk(
    client: api.Client,
    observed: Sequence[inventory.Observed],
    filters: Mapping[str, Any],
) -> dict[str, dict[str, int]]:
    """``{provider uuid: {resource class: used}}`` from the summaries of a candidates query.

    Full providers are missing. The result is empty if the server refuses the query.
    """
    counted: dict[str, int] = {}
    for item in observed:
        for resource_class in item.inventories:
            counted[resource_class] = counted.get(resource_class, 0) + 1
    if not counted or not microversion.supports(client.microversion, "nested candidates"):
        return {}
    pairs = [("resources", f"{max(counted, key=lambda name: counted[name])}:1")]
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
    read: Callable[[provider.Provider], T],
    kind: str,
    providers: Sequence[provider.Provider],
    context: ReadContext,
) -> list[T | change.Skipped]:
    """``read`` of each provider; a provider that cannot be read is skipped."""
    results = context.try_each(read, providers, f"reading {kind}")
    return [
        _unreadable(kind, item, found) if isinstance(found, api_errors.ApiError) else found
        for item, found in zip(providers, results, strict=True)
    ]


def _unreadable(kind: str, item: provider.Provider, error: api_errors.ApiError) -> change.Skipped:
    subject = change.Subject(item.name, item.uuid)
    return change.Skipped(kind, subject, reason=str(error), code=Code.UNREADABLE, refused=True)
