"""Reading the real amounts of a few trees, or of all hosts that can serve a query."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

from osc_placement.client import api, responses, retry
from osc_placement.engine import record, state
from osc_placement.model import inventory
from osc_placement.workflows.cloud.model import CloudModel
from osc_placement.workflows.context import ReadContext

#: The most requests for one tree, and the providers of which two requests each are sent.
PER_TREE = 5
_FEW = PER_TREE // 2

#: The consumer of everything that is used.
_USAGE = "usage"


@dataclasses.dataclass(frozen=True, slots=True)
class Amounts:
    """The inventories and the usage of one provider."""

    inventories: inventory.Inventories
    used: Mapping[str, int]


class TreeReader:
    """Adds real amounts to the model of a live cloud."""

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self._client, self._context = client, context

    def with_trees(self, model: CloudModel, roots: list[str]) -> CloudModel:
        """The model with the real amounts of some trees.

        Requests: none on a database file. Otherwise two per provider of a tree with one or two
        providers; for a larger tree one for capacities and usages, and one for the inventories of
        each of up to four providers; those of its other providers stay as they are.
        """
        needed = [root for root in roots if not model.has_amounts(root)]
        if not needed:
            return model
        read = functools.partial(self._read_tree, model)
        found: dict[str, Amounts] = {}
        for amounts in self._context.each(read, needed):
            found |= amounts
        changed = with_amounts(model.state, found)
        return dataclasses.replace(model, state=changed, read=model.read | set(needed))

    def _read_tree(self, model: CloudModel, root: str) -> dict[str, Amounts]:
        tree = list(model.state.tree[root])
        if len(tree) <= _FEW:
            return {uuid: self._read_provider(uuid) for uuid in tree}
        summaries = self._summaries(model, root)
        if not summaries:
            return {uuid: self._read_provider(uuid) for uuid in tree[:_FEW]}
        requested = {name for group in model.query.groups for name in group.resources}
        named = [uuid for uuid in tree if not requested.isdisjoint(_classes(summaries, uuid))]
        found = {uuid: _summarized(summaries[uuid]) for uuid in tree if uuid in summaries}
        for uuid in named[: PER_TREE - 1]:
            read = retry.read(functools.partial(self._client.list_inventories, uuid))
            found[uuid] = Amounts(read.inventories, found[uuid].used)
        return found

    def _read_provider(self, uuid: str) -> Amounts:
        client = self._client
        inventories = retry.read(lambda: client.list_inventories(uuid)).inventories
        return Amounts(inventories, retry.read(lambda: client.list_usages(uuid)))

    def _summaries(self, model: CloudModel, root: str) -> Mapping[str, responses.ProviderSummary]:
        """Capacities and usages of a whole tree, if any of its providers has room."""
        amounts = _fitting(model, root)
        if amounts is None:
            return {}
        pairs = [("resources", amounts), ("in_tree", root), ("limit", "1")]
        return retry.read(lambda: self._client.list_allocation_candidates(pairs)).summaries

    def with_capacities(self, model: CloudModel, pairs: list[tuple[str, str]]) -> CloudModel:
        """The model with the capacities and usages of the trees that can serve a query.

        Their units (min_unit, max_unit, step_size) stay unknown. Requests: one; none on a file.
        """
        if model.is_complete:
            return model
        found = retry.read(lambda: self._client.list_allocation_candidates(pairs)).summaries
        amounts = {
            uuid: _summarized(summary)
            for uuid, summary in found.items()
            if uuid in model.state.providers
            and not model.has_amounts(model.state.providers[uuid].root_uuid)
        }
        return dataclasses.replace(model, state=with_amounts(model.state, amounts))


def _fitting(model: CloudModel, root: str) -> str | None:
    """``CLASS:amount`` for an amount that some provider of the tree has room for."""
    for uuid in model.state.tree[root]:
        for name, held in model.state.providers[uuid].inventories.items():
            return f"{name}:{held.min_unit}"
    return None


def _classes(summaries: Mapping[str, responses.ProviderSummary], uuid: str) -> Iterator[str]:
    if uuid in summaries:
        yield from summaries[uuid].resources


def _summarized(summary: responses.ProviderSummary) -> Amounts:
    return Amounts(
        {name: inventory.Inventory(held.capacity) for name, held in summary.resources.items()},
        {name: held.used for name, held in summary.resources.items()},
    )


def with_amounts(base: state.State, found: Mapping[str, Amounts]) -> state.State:
    """A copy of a state with other inventories and usages for some providers."""
    changed = base.copy()
    used = {
        uuid: {name: amount for name, amount in base.used(uuid).items() if amount}
        for uuid in base.providers
        if base.used(uuid)
    }
    used |= {uuid: dict(amounts.used) for uuid, amounts in found.items()}
    providers: dict[str, record.ProviderRecord | None] = {
        uuid: dataclasses.replace(base.providers[uuid], inventories=amounts.inventories)
        for uuid, amounts in found.items()
    }
    usage = record.ConsumerRecord(_USAGE, 0, "", "", used)
    changed.apply(record.Changes(providers, {_USAGE: usage}))
    return changed


def tree_alone(
    base: state.State, uuids: list[str], changed: Mapping[str, inventory.Inventories] | None = None
) -> state.State:
    """A state of some providers of another state, with other inventories for some of them."""
    changed = changed or {}
    providers: dict[str, record.ProviderRecord | None] = {
        uuid: dataclasses.replace(
            base.providers[uuid],
            inventories={**base.providers[uuid].inventories, **changed.get(uuid, {})},
        )
        for uuid in uuids
    }
    usage = record.ConsumerRecord(
        _USAGE, 0, "", "", {uuid: dict(base.used(uuid)) for uuid in uuids}
    )
    found = state.State()
    found.apply(record.Changes(providers, {_USAGE: usage}))
    return found
