"""A live cloud without its allocations, as far as few requests show it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from osc_placement.client import api, responses, retry
from osc_placement.engine import record, standard, state
from osc_placement.model import inventory
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.context import ReadContext


@dataclasses.dataclass(frozen=True, slots=True)
class EmptyCloud:
    """The capacities and traits of a cloud, and no allocations.

    ``unseen`` is the number of provider trees without anything free: their capacities are unknown.
    Without ``has_units``, min_unit, max_unit and step_size are unknown.
    """

    state: state.State
    unseen: int = 0
    has_units: bool = True


def of_state(base: state.State) -> EmptyCloud:
    """A database file with nothing allocated."""
    return EmptyCloud(base.without_allocations())


def read(client: api.Client, classes: Iterable[str], context: ReadContext) -> EmptyCloud:
    """Read capacities from the summaries of candidates for one unit of each class.

    Requests: one listing of all providers, one for each class, two for each sharing provider.
    """
    providers = retry.read(client.list_providers)
    summaries: dict[str, responses.ProviderSummary] = {}
    for name in classes:
        pairs = [("resources", f"{name}:1")]
        summaries |= retry.read(
            functools.partial(client.list_allocation_candidates, pairs)
        ).summaries
    shared: dict[str, list[str]] = {}
    reader = observe.LiveReader(client, context)
    for uuid, summary in summaries.items():
        if standard.SHARING_TRAIT in (summary.traits or ()):
            for member in reader.members(uuid):
                shared.setdefault(member.uuid, []).append(f"shares:{uuid}")
    records: dict[str, record.ProviderRecord | None] = {
        each.uuid: record.ProviderRecord(
            each.uuid,
            each.name,
            each.root_uuid or each.uuid,
            each.parent_uuid,
            inventories=_inventories(summaries.get(each.uuid)),
            traits=frozenset(_traits(summaries.get(each.uuid))),
            aggregates=tuple(shared.get(each.uuid, ())),
        )
        for each in providers
    }
    found = state.State()
    found.apply(record.Changes(records))
    unseen = sum(found.tree[root].isdisjoint(summaries) for root in found.tree)
    return EmptyCloud(found, unseen, has_units=False)


def _inventories(summary: responses.ProviderSummary | None) -> inventory.Inventories:
    known = summary.resources if summary else {}
    return {name: inventory.Inventory(amount.capacity) for name, amount in known.items()}


def _traits(summary: responses.ProviderSummary | None) -> Iterable[str]:
    return (summary.traits if summary else None) or ()
