"""Reading what a count depends on: from a database file, or with few requests from a service."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator

from osc_placement.client import api, responses, retry
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
        yield model if model.is_complete else with_amounts(client, model)


def with_amounts(client: api.Client, model: CloudModel) -> CloudModel:
    """The model with capacities and usages of all providers with room for anything requested.

    The units of an inventory are those that the requested amounts show. A provider without room
    for them has no units that suit: it counts as free, and serves nothing.
    """
    summaries: dict[str, responses.ProviderSummary] = {}
    for name, amount in _resources(model.query):
        pairs = [("resources", f"{name}:{amount}")]
        read = functools.partial(client.list_allocation_candidates, pairs)
        summaries |= retry.read(read).summaries
    found: dict[str, trees.Amounts] = {}
    for uuid, provider in model.state.providers.items():
        if uuid in summaries:
            found[uuid] = _summarized(summaries[uuid], provider.inventories)
        elif provider.inventories:
            found[uuid] = _read(client, uuid)
    return dataclasses.replace(model, state=trees.with_amounts(model.state, found))


def _resources(query: candidate.CandidateQuery) -> list[tuple[str, int]]:
    """Each class with the amount 1, and with the smallest amount that a group requests."""
    smallest: dict[str, int] = {}
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
