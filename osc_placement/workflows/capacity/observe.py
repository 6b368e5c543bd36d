"""Reading what a count depends on: from a database file, or with few requests from a service."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping

from osc_placement.client import api, responses, retry
from osc_placement.engine import state
from osc_placement.model import candidate, inventory
from osc_placement.workflows.cloud import observe, trees
from osc_placement.workflows.cloud.model import CloudModel
from osc_placement.workflows.context import ReadContext


@contextlib.contextmanager
def observed(
    client: api.Client, query: candidate.CandidateQuery, context: ReadContext
) -> Iterator[CloudModel]:
    """A state with the amounts of a query, during the block.

    Requests: none on a database file. On a service those of ``LiveReader.read``, one or two for
    each class, and two for each provider that has room but is missing in the answers.
    """
    with observe.observed(client, query, context) as model:
        if model.is_complete:
            yield model
        else:
            base = with_amounts(client, model.state, [model.query], context)
            yield dataclasses.replace(model, state=base)


def with_amounts(
    client: api.Client,
    base: state.State,
    queries: Iterable[candidate.CandidateQuery],
    context: ReadContext,
    exact: Collection[str] = (),
) -> state.State:
    """The state with capacities and usages of all providers with room for anything requested.

    The units of an inventory are those that the requested amounts show. A provider without room
    for them has no units that suit: it counts as free, and serves nothing. The providers in
    ``exact`` have their real inventories.

    Requests: one or two for each class; two for each provider in ``exact``, and for each that has
    room but is missing in the answers.
    """
    read_summaries = functools.partial(_summaries, client)
    summaries: dict[str, responses.ProviderSummary] = {}
    for found in context.each(read_summaries, _resources(queries)):
        summaries |= found
    exact = [
        uuid
        for uuid, provider in base.providers.items()
        if uuid in exact or (provider.inventories and uuid not in summaries)
    ]
    amounts = {
        uuid: _summarized(summary, base.providers[uuid].inventories)
        for uuid, summary in summaries.items()
        if uuid in base.providers
    }
    read_exact = functools.partial(_read, client)
    amounts |= zip(exact, context.each(read_exact, exact), strict=True)
    return trees.with_amounts(base, amounts)


def _summaries(
    client: api.Client, requested: tuple[str, int]
) -> Mapping[str, responses.ProviderSummary]:
    name, amount = requested
    pairs = [("resources", f"{name}:{amount}")]
    return retry.read(functools.partial(client.list_allocation_candidates, pairs)).summaries


def _resources(queries: Iterable[candidate.CandidateQuery]) -> list[tuple[str, int]]:
    """Each class with the amount 1, and with the smallest amount that a group requests."""
    smallest: dict[str, int] = {}
    for query in queries:
        for group in query.groups:
            for name, amount in group.resources.items():
                smallest[name] = min(amount, smallest.get(name, amount))
    return [
        (name, each) for name, amount in smallest.items() for each in dict.fromkeys((1, amount))
    ]


def _summarized(summary: responses.ProviderSummary, listed: inventory.Inventories) -> trees.Amounts:
    inventories = {}
    for name, held in summary.resources.items():
        units = listed.get(name, inventory.Inventory(0, max_unit=0))
        inventories[name] = dataclasses.replace(units, total=held.capacity)
    return trees.Amounts(inventories, {name: held.used for name, held in summary.resources.items()})


def _read(client: api.Client, uuid: str) -> trees.Amounts:
    inventories = retry.read(lambda: client.list_inventories(uuid)).inventories
    return trees.Amounts(inventories, retry.read(lambda: client.list_usages(uuid)))
