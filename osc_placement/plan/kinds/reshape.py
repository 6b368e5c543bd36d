# SPDX-License-Identifier: Apache-2.0
"""Changes of inventories and allocations of whole trees, in one POST /reshaper."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from osc_placement import microversion
from osc_placement.client import api, api_errors, responses, retry
from osc_placement.model import allocation, inventory
from osc_placement.model.name import and_more
from osc_placement.plan import change, forms, workers
from osc_placement.plan.kinds import base

#: ``{resource class: inventory}`` of the classes that change; None for no inventory.
Classes = Mapping[str, inventory.Inventory | None]


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeState(forms.JsonObject):
    """What a reshape changes.

    ``inventories`` is ``{provider: {class: inventory}}``. ``allocations`` is ``{consumer:
    {provider: {class: amount}}}`` of the amounts that change, 0 for none. ``others`` is
    ``{provider: {class: amount}}``: the usage of consumers that do not change, where the
    inventory changes; it is the same before and after. Everything else stays.
    """

    inventories: Mapping[str, Classes] = dataclasses.field(default_factory=dict)
    allocations: Mapping[str, forms.Allocations] = dataclasses.field(default_factory=dict)
    others: forms.Allocations = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class PresentTrees:
    """What a reshape was read from, with the generations that it is written under.

    ``inventories`` and ``shares`` (``{provider: {consumer: its allocation}}``) are of every
    provider whose inventory changes, ``consumers`` are those that change.
    """

    inventories: Mapping[str, responses.ProviderInventories]
    shares: Mapping[str, Mapping[str, responses.ProviderAllocation]]
    consumers: Mapping[str, allocation.Consumer]

    def state(self, after: ReshapeState) -> ReshapeState:
        """The part that a change to ``after`` concerns."""
        return ReshapeState(
            {
                uuid: {name: self.inventories[uuid].inventories.get(name) for name in classes}
                for uuid, classes in after.inventories.items()
            },
            {
                consumer: self._amounts(consumer, allocations)
                for consumer, allocations in after.allocations.items()
            },
            {
                uuid: {name: self._others(uuid, name, after) for name in classes}
                for uuid, classes in after.others.items()
            },
        )

    def renewed_inventories(self, after: ReshapeState) -> dict[str, responses.ProviderInventories]:
        """All inventories of every provider concerned, after the change."""
        renewed = {}
        for uuid, classes in after.inventories.items():
            inventories = self.inventories[uuid]
            merged = {**inventories.inventories, **classes}
            kept = {name: item for name, item in merged.items() if item is not None}
            renewed[uuid] = responses.ProviderInventories(inventories.generation, kept)
        return renewed

    def renewed_consumers(self, after: ReshapeState) -> list[allocation.Consumer]:
        """Every consumer that changes, with all of its allocations."""
        return [
            dataclasses.replace(
                consumer, allocations=_merged(consumer.allocations, after.allocations[uuid])
            )
            for uuid, consumer in self.consumers.items()
        ]

    def _amounts(self, consumer: str, like: allocation.Allocations) -> allocation.Allocations:
        amounts = self.consumers[consumer].allocations
        return {
            uuid: {name: amounts.get(uuid, {}).get(name, 0) for name in resources}
            for uuid, resources in like.items()
        }

    def _others(self, uuid: str, name: str, after: ReshapeState) -> int:
        return sum(
            share.resources.get(name, 0)
            for consumer, share in self.shares.get(uuid, {}).items()
            if consumer not in after.allocations
        )


class ReshapeType(base.ChangeType[ReshapeState]):
    """Written under the generations of all providers and consumers concerned."""

    name = "reshape"
    state = ReshapeState

    def consumers(self, subject: change.Subject, state: ReshapeState) -> Iterable[str]:
        return state.allocations

    def read(
        self, services: base.Services, subject: change.Subject, after: ReshapeState
    ) -> change.Observed[ReshapeState]:
        """A provider that keeps no inventory may be deleted by a later change of the plan.

        Requests: two GETs per provider and one per consumer.
        """
        client = services.client
        client.require_feature("reshaper", "reading what is to be reshaped")

        def provider(
            uuid: str,
        ) -> tuple[responses.ProviderInventories, responses.ProviderAllocations]:
            try:
                # In this order: a write in between raises the generation of the reshape's write.
                return client.list_inventories(uuid), client.list_provider_allocations(uuid)
            except api_errors.NotFound:
                if any(after.inventories[uuid].values()):
                    raise
                return responses.ProviderInventories(0, {}), responses.ProviderAllocations(0, {})

        # Providers last: on a busy host their generations change most often.
        consumers = list(workers.each(client.show_allocations, after.allocations))
        providers = list(workers.each(provider, after.inventories))
        answers = dict(zip(after.inventories, providers, strict=True))
        present = PresentTrees(
            {uuid: inventories for uuid, (inventories, _) in answers.items()},
            {uuid: shares.allocations for uuid, (_, shares) in answers.items()},
            {item.uuid: item for item in consumers},
        )
        return change.Observed(None, present.state(after), present)

    def write(
        self, services: base.Services, write: base.Write[ReshapeState]
    ) -> change.Observed[ReshapeState]:
        """Requests: one POST."""
        client, present, after = services.client, write.observed.source, write.after
        client.require_feature("reshaper", "reshaping")
        sender = client.at(min(client.microversion, microversion.TYPE_STAYS))
        sender.reshape(present.renewed_inventories(after), present.renewed_consumers(after))
        return change.Observed(None, after)

    def providers(self, state: ReshapeState) -> Iterable[str]:
        """The providers whose inventories or allocations change."""
        moved = [uuid for has in state.allocations.values() for uuid in has]
        return dict.fromkeys([*state.inventories, *moved])

    def facts(
        self, before: ReshapeState, after: ReshapeState, names: change.Names = base.NO_NAMES
    ) -> list[base.Fact]:
        return [
            *_inventory_facts(before, after, names),
            *_allocation_facts(before, after, names),
            *_usage_facts(before, after),
        ]

    def check_rights(
        self, client: api.Client, changes: Sequence[tuple[ReshapeState, ReshapeState]]
    ) -> None:
        """Requests: one."""
        retry.read_for_change(client.check_reshape)

    def describe_drift(self, before: ReshapeState, present: ReshapeState) -> str:
        facts = [fact for fact in self.facts(before, present) if not fact.is_equal]
        # Where the total differs, the other fields of the class add nothing.
        totals = {fact.thing for fact in facts if fact.shown}
        texts = [
            f"{fact.key}={fact.after} instead of {fact.before}"
            for fact in facts
            if fact.shown or fact.thing not in totals
        ]
        return and_more(texts, 5)


def _inventory_facts(
    before: ReshapeState, after: ReshapeState, names: change.Names
) -> Iterable[base.Fact]:
    for uuid, classes in after.inventories.items():
        for name, becomes in classes.items():
            was = before.inventories.get(uuid, {}).get(name)
            thing = f"{names.get(uuid, uuid)} {name}"
            for field in inventory.FIELDS:
                old, new = (
                    None if side is None else side.as_dict()[field] for side in (was, becomes)
                )
                key = f"inventory {uuid} {name}:{field}"
                yield base.Fact(key, old, new, f"{thing}:{field}", thing, shown=field == "total")


def _allocation_facts(
    before: ReshapeState, after: ReshapeState, names: change.Names
) -> Iterable[base.Fact]:
    for consumer, allocations in after.allocations.items():
        was = before.allocations.get(consumer, {})
        for uuid, resources in allocations.items():
            for name, amount in resources.items():
                label = f"{consumer} {names.get(uuid, uuid)} {name}"
                key = f"allocation {consumer} {uuid} {name}"
                old = was.get(uuid, {}).get(name)
                yield base.Fact(key, old or None, amount or None, label, label)


def _usage_facts(before: ReshapeState, after: ReshapeState) -> Iterable[base.Fact]:
    for uuid, resources in after.others.items():
        for name, amount in resources.items():
            key = f"others {uuid} {name}"
            old = before.others.get(uuid, {}).get(name)
            yield base.Fact(key, old, amount, key, key, shown=False)


def _merged(
    present: allocation.Allocations, after: allocation.Allocations
) -> dict[str, dict[str, int]]:
    """Allocations with the amounts of ``after`` replaced; 0 removes one."""
    merged = {
        uuid: {**present.get(uuid, {}), **after.get(uuid, {})} for uuid in {**present, **after}
    }
    kept = {
        uuid: {name: amount for name, amount in resources.items() if amount}
        for uuid, resources in merged.items()
    }
    return {uuid: resources for uuid, resources in kept.items() if resources}


def capacities(inventories: Mapping[str, Classes]) -> collections.Counter[str]:
    """``{resource class: the capacity of all providers}``."""
    total: collections.Counter[str] = collections.Counter()
    for classes in inventories.values():
        total.update({name: item.capacity for name, item in classes.items() if item is not None})
    return total


TYPE = ReshapeType()
