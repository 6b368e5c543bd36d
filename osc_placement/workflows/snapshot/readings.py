# SPDX-License-Identifier: Apache-2.0
"""What a save has read of a cloud, in memory, and the records that it gives. Sends nothing.

Every provider has one reading. While others write, readings of several moments disagree: this
module says which ones must be read again, and at the end what is left out, with a note for each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement.client import local, responses
from osc_placement.engine import record, standard
from osc_placement.model import allocation, inventory
from osc_placement.model.name import is_symbol
from osc_placement.model.provider import Provider
from osc_placement.workflows.snapshot.file import SaveNote

#: Project and user of a consumer whose owner was not read.
UNKNOWN_OWNER = "unknown"

#: The note about a consumer of which only a part may be in the file.
TORN_NOTE = "its allocations on several providers were read at different times"


class Reading(NamedTuple):
    """Everything of one provider, as read.

    ``modified`` is when its inventories were modified, or the provider itself if it has none, in
    seconds since the epoch; None if the service does not say it.
    """

    uuid: str
    generation: int
    inventories: inventory.Inventories
    traits: Sequence[str]
    aggregates: Sequence[str]
    allocations: Mapping[str, responses.ProviderAllocation]
    modified: float | None

    @property
    def stamp(self) -> Stamp:
        """What changes with the provider."""
        return Stamp(self.generation, self.modified)


class Stamp(NamedTuple):
    """What shows that a provider has changed, also if it was deleted and created again."""

    generation: int
    modified: float | None


@dataclasses.dataclass(slots=True)
class Readings:
    """The readings of a save: of providers, and of consumers by themselves, by UUID.

    ``listed``: the providers of the latest listing. ``outdated``: those to read again, whatever
    their generation is.
    """

    providers: dict[str, Reading] = dataclasses.field(default_factory=dict)
    consumers: dict[str, allocation.Consumer] = dataclasses.field(default_factory=dict)
    listed: dict[str, Provider] = dataclasses.field(default_factory=dict)
    outdated: set[str] = dataclasses.field(default_factory=set)

    def replace_listing(self, listing: Iterable[Provider]) -> list[str]:
        """Take a new listing; the UUIDs of the readings that are dropped with their providers.

        A provider with another name or another place in a tree is outdated: it may have been
        created again.
        """
        before, self.listed = self.listed, {item.uuid: item for item in listing}
        self.outdated.update(
            uuid
            for uuid, item in self.listed.items()
            if uuid in before and _place(before[uuid]) != _place(item)
        )
        gone = [uuid for uuid in self.providers if uuid not in self.listed]
        for uuid in gone:
            del self.providers[uuid]
        return gone

    def holders(self) -> set[str]:
        """The consumers (UUIDs) with allocations."""
        return {uuid for reading in self.providers.values() for uuid in reading.allocations}

    def to_read(self) -> list[str]:
        """The listed providers without a reading of their state, in their order."""
        return [
            uuid
            for uuid, item in self.listed.items()
            if uuid in self.outdated
            or uuid not in self.providers
            or self.providers[uuid].generation != item.generation
        ]

    def add(self, reading: Reading) -> set[str]:
        """Take the reading of a whole provider; the consumers that are no longer as before.

        Its consumers must be read again: one that was created again has its old generation, but
        changes that of its providers.
        """
        changed = self.replace_allocations(reading.uuid, reading.allocations)
        self.providers[reading.uuid] = reading
        self.outdated.discard(reading.uuid)
        for uuid in reading.allocations:
            self.consumers.pop(uuid, None)
        return changed

    def replace_allocations(
        self, uuid: str, allocations: Mapping[str, responses.ProviderAllocation]
    ) -> set[str]:
        """Replace the allocations of a provider; the consumers that are no longer as before."""
        if uuid not in self.providers:
            return set()
        before = self.providers[uuid]
        self.providers[uuid] = before._replace(allocations=allocations)
        return {
            consumer
            for consumer, share in before.allocations.items()
            if allocations.get(consumer) != share
        }

    def by_consumer(self) -> dict[str, dict[str, responses.ProviderAllocation]]:
        """``{consumer: {provider: allocation}}``, as the providers show it, in their order."""
        holding: dict[str, dict[str, responses.ProviderAllocation]] = {}
        for provider_uuid in self.listed:
            reading = self.providers.get(provider_uuid)
            for uuid, share in reading.allocations.items() if reading else ():
                holding.setdefault(uuid, {})[provider_uuid] = share
        return holding

    def consumers_to_read(self) -> list[str]:
        """The consumers that were not read at the generation of their allocations."""
        return [
            uuid
            for uuid, shares in self.by_consumer().items()
            if uuid not in self.consumers
            or any(
                share.consumer_generation != self.consumers[uuid].generation
                for share in shares.values()
            )
        ]

    def torn(self, *, owners: bool) -> list[str]:
        """The consumers whose allocations were not read in one state.

        ``owners``: consumers were read by themselves too.
        """
        holding = self.by_consumer()
        if not owners:
            return [
                uuid
                for uuid, shares in holding.items()
                if len({share.consumer_generation for share in shares.values()}) > 1
            ]
        return [
            uuid
            for uuid in dict.fromkeys([*holding, *self.consumers])
            if holding.get(uuid, {}) != _own(self.consumers.get(uuid))
        ]

    def providers_of(self, consumers: Iterable[str]) -> list[str]:
        """The listed providers of these consumers, without those of consumers that are gone."""
        holding = self.by_consumer()
        uuids: set[str] = set()
        for uuid in consumers:
            if uuid in holding:
                uuids.update(holding[uuid], _own(self.consumers.get(uuid)))
        return [uuid for uuid in self.listed if uuid in uuids]


def _place(provider: Provider) -> tuple[str | None, ...]:
    return provider.name, provider.root_uuid, provider.parent_uuid


def _own(consumer: allocation.Consumer | None) -> dict[str, responses.ProviderAllocation]:
    """The allocations of a consumer as its providers show them."""
    if consumer is None:
        return {}
    return {
        uuid: responses.ProviderAllocation(resources, consumer.generation)
        for uuid, resources in consumer.allocations.items()
    }


def of_tables(tables: local.TableReading, *, owners: bool) -> Readings:
    """The readings of one moment, from Placement's own tables."""
    readings = Readings()
    shares: dict[str, dict[str, responses.ProviderAllocation]] = {}
    for item in tables.providers():
        uuid = item["uuid"]
        readings.listed[uuid] = Provider(
            uuid, item["name"], item["generation"], item["root_uuid"], item["parent_uuid"]
        )
        readings.providers[uuid] = Reading(
            uuid,
            item["generation"],
            {
                name: inventory.Inventory.from_dict(fields)
                for name, fields in item["inventories"].items()
            },
            item["traits"],
            item["aggregates"],
            shares.setdefault(uuid, {}),
            item["modified"],
        )
    for provider_uuid, consumer_uuid, generation, amounts in tables.allocations():
        shares[provider_uuid][consumer_uuid] = responses.ProviderAllocation(amounts, generation)
    if owners:
        holding = readings.by_consumer()
        for uuid, generation, project, user, kind in tables.consumers():
            allocations = {place: share.resources for place, share in holding.get(uuid, {}).items()}
            readings.consumers[uuid] = allocation.Consumer(
                uuid, allocations, project, user, generation, kind
            )
    return readings


def records(
    readings: Readings,
    traits: Iterable[str],
    resource_classes: Iterable[str],
    *,
    owners: bool,
    now: float,
) -> tuple[record.Changes, list[SaveNote]]:
    """The records of the file, and a note for each one that is not whole.

    Traits and resource classes that this program does not know are kept as custom ones. ``now``,
    in seconds since the epoch, is the date of what has none.
    """
    notes = _drop_incomplete(readings)
    notes += [SaveNote(uuid, TORN_NOTE) for uuid in readings.torn(owners=owners)]
    notes += _drop_impossible(readings)
    providers = {
        uuid: _provider_record(listed, readings.providers[uuid], now)
        for uuid, listed in readings.listed.items()
    }
    consumers = {
        uuid: _consumer_record(uuid, shares, readings.consumers.get(uuid), providers)
        for uuid, shares in readings.by_consumer().items()
    }
    used_traits = [name for provider in readings.providers.values() for name in provider.traits]
    used_classes = [
        name for provider in readings.providers.values() for name in provider.inventories
    ]
    changes = record.Changes(
        providers,
        consumers,
        _custom([*traits, *used_traits], standard.traits(), now),
        _custom([*resource_classes, *used_classes], standard.RESOURCE_CLASSES, now),
    )
    return changes, notes


def _drop_incomplete(readings: Readings) -> list[SaveNote]:
    """Drop providers that appeared or disappeared at the end of the save."""
    notes = []
    listed = readings.listed
    while incomplete := [
        uuid
        for uuid, item in listed.items()
        if uuid not in readings.providers
        or (item.root_uuid or uuid) not in listed
        or (item.parent_uuid is not None and item.parent_uuid not in listed)
    ]:
        for uuid in incomplete:
            del listed[uuid]
            notes.append(SaveNote(uuid, "left out: it was created or deleted during the save"))
    for uuid in readings.providers.keys() - listed.keys():
        notes += [
            SaveNote(consumer, TORN_NOTE) for consumer in readings.providers.pop(uuid).allocations
        ]
    return notes


def _drop_impossible(readings: Readings) -> list[SaveNote]:
    """Drop allocations without an inventory, which a provider that changes can show."""
    notes = []
    for uuid, reading in readings.providers.items():
        possible: dict[str, responses.ProviderAllocation] = {}
        for consumer, share in reading.allocations.items():
            resources = {
                name: amount
                for name, amount in share.resources.items()
                if name in reading.inventories
            }
            notes += [
                SaveNote(
                    consumer,
                    f"allocation of {name} left out: provider {uuid} had no inventory of it when"
                    " it was read",
                )
                for name in share.resources
                if name not in resources
            ]
            if resources:
                possible[consumer] = share._replace(resources=resources)
        readings.providers[uuid] = reading._replace(allocations=possible)
    return notes


def _provider_record(provider: Provider, reading: Reading, now: float) -> record.ProviderRecord:
    return record.ProviderRecord(
        provider.uuid,
        provider.name,
        provider.root_uuid or provider.uuid,
        provider.parent_uuid,
        reading.generation,
        reading.inventories,
        frozenset(reading.traits),
        tuple(reading.aggregates),
        now if reading.modified is None else reading.modified,
    )


def _consumer_record(
    uuid: str,
    shares: Mapping[str, responses.ProviderAllocation],
    own: allocation.Consumer | None,
    providers: Mapping[str, record.ProviderRecord],
) -> record.ConsumerRecord:
    """A consumer as its providers show it; ``own`` has its owner."""
    own = own or allocation.Consumer(uuid, {})
    generation = own.generation
    if generation is None:
        generation = max(share.consumer_generation or 0 for share in shares.values())
    kind = own.consumer_type
    return record.ConsumerRecord(
        uuid,
        generation,
        own.project_id or UNKNOWN_OWNER,
        own.user_id or UNKNOWN_OWNER,
        {place: dict(share.resources) for place, share in shares.items()},
        None if kind == allocation.UNKNOWN_TYPE else kind,
        max(providers[place].updated_at for place in shares),
    )


def _custom(names: Iterable[str], is_standard: Container[str], now: float) -> dict[str, float]:
    return {
        name: now for name in dict.fromkeys(names) if name not in is_standard and is_symbol(name)
    }
