"""Reading a cloud for planning: in bulk wherever the API has a bulk form.

Called by ``batch``; what it returns goes to the pure ``plan_*`` functions. One provider
that cannot be read does not stop the others.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from osc_placement import microversion
from osc_placement.client import api, api_errors, retry
from osc_placement.model import provider
from osc_placement.plan import change, progress, workers as plan_workers
from osc_placement.plan.kinds import inventories, memberships
from osc_placement.workflows import selector
from osc_placement.workflows.batch import inventory, membership

T = TypeVar("T")


def observe_inventories(
    client: api.Client,
    providers: Sequence[provider.Provider],
    workers: int,
    watch: progress.Progress,
) -> list[inventory.Observed | change.Skipped]:
    """Every provider's inventories, or why they could not be read.

    Cost: one request per provider.
    """

    def observed(item: provider.Provider) -> inventory.Observed:
        answer = client.list_inventories(item.uuid)
        return inventory.Observed(item, answer.generation, answer.inventories)

    return _read_each(observed, inventories.TYPE.name, providers, workers, watch)


def observe_usages(
    client: api.Client,
    observed: Sequence[inventory.Observed],
    filters: Mapping[str, Any] | None,
    workers: int,
) -> list[inventory.Observed]:
    """``observed`` with usages filled in.

    Cost: one allocation candidates request for all where ``filters`` (of the listing that
    found them) tell that they are many; then a request for each provider that it did not
    tell of, because it is full.
    """
    told: Mapping[str, Mapping[str, int]] = {}
    if filters is not None and len(observed) > 1:
        told = _usages_in_bulk(client, observed, filters)

    def filled(item: inventory.Observed) -> inventory.Observed:
        uuid = item.provider.uuid
        usages = told.get(uuid, {})
        if not item.inventories.keys() <= usages.keys():
            usages = retry.read(lambda: client.list_usages(uuid))
        return dataclasses.replace(item, usages=usages)

    return list(plan_workers.each(filled, observed, workers))


def observe_traits(
    client: api.Client,
    chosen: selector.Selection,
    names: Sequence[str],
    workers: int,
    watch: progress.Progress,
) -> list[membership.Observed | change.Skipped]:
    """Which providers have which of ``names``.

    Cost: one listing per trait; for providers looked up one by one, a request each.
    """
    if chosen.filters is None:

        def traits(item: provider.Provider) -> membership.Observed:
            answer = client.list_provider_traits(item.uuid)
            return membership.Observed(item, answer.generation, dict.fromkeys(answer.traits, True))

        return _read_each(traits, memberships.TRAITS.name, chosen.providers, workers, watch)
    return _listed(client, chosen, "required", names)


def observe_aggregates(
    client: api.Client,
    chosen: selector.Selection,
    uuids: Sequence[str],
    workers: int,
    watch: progress.Progress,
) -> list[membership.Observed | change.Skipped]:
    """Which providers are in which of the aggregates ``uuids``.

    Cost: one listing per aggregate; for providers looked up one by one, a request each.
    """
    client.require_feature("aggregate generation", "changing aggregates safely")
    if chosen.filters is None:

        def aggregates(item: provider.Provider) -> membership.Observed:
            answer = client.list_aggregates(item.uuid)
            return membership.Observed(
                item, answer.generation or 0, dict.fromkeys(answer.aggregates, True)
            )

        return _read_each(aggregates, memberships.AGGREGATES.name, chosen.providers, workers, watch)
    return _listed(client, chosen, "member_of", uuids)


def _listed(
    client: api.Client, chosen: selector.Selection, parameter: str, names: Iterable[str]
) -> list[membership.Observed | change.Skipped]:
    """Ask the selection's own listing again, with one more condition for each name."""
    filters = dict(chosen.filters or {})
    having: dict[str, set[str]] = {}
    for name in names:
        narrowed = {**filters, parameter: [*filters.get(parameter, ()), name]}
        ask = functools.partial(client.list_providers, **narrowed)
        having[name] = {item.uuid for item in retry.read(ask)}
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

    Those that have no room for one more are not told of; a server that cannot answer
    the query tells of none.
    """
    counted: dict[str, int] = {}
    for item in observed:
        for resource_class in item.inventories:
            counted[resource_class] = counted.get(resource_class, 0) + 1
    if not counted or not microversion.supports(client.microversion, "nested candidates"):
        return {}
    asked = [("resources", f"{max(counted, key=lambda name: counted[name])}:1")]
    asked += [("member_of", value) for value in filters.get("member_of", ())]
    asked += [("in_tree", filters["in_tree"])] if "in_tree" in filters else []
    try:
        summaries = client.list_allocation_candidates(asked).summaries
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
    workers: int,
    watch: progress.Progress,
) -> list[T | change.Skipped]:
    """``read`` of each provider; one that is gone or cannot be read becomes a remark."""

    def tried(item: provider.Provider) -> T | change.Skipped:
        try:
            return retry.read(lambda: read(item))
        except api_errors.ApiError as error:
            if error.status in (401, 403):
                raise
            subject = change.Subject(item.name, item.uuid)
            return change.Skipped(kind, subject, reason=str(error), refused=True)

    watch.start(f"reading {kind}", len(providers))
    found: list[T | change.Skipped] = []
    for result in plan_workers.each(tried, providers, workers):
        found.append(result)
        watch.advance()
    return found
