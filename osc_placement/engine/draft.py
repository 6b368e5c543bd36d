# SPDX-License-Identifier: Apache-2.0
"""Pending changes to a state, which reads see as if they were done.

A request works on a draft. If it fails, the draft is dropped. If it succeeds, ``changes`` goes to
the store, then to the state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from osc_placement.engine import record, state


class Draft:
    """Reads see the base state and the changes of this draft; writes stay in the draft.

    ``now`` (seconds since the epoch) is the update time of each changed record.
    """

    def __init__(self, base: state.CloudState, now: float, first_generation: int = 0) -> None:
        self.base = base
        self.now = now
        self.first_generation = first_generation
        self._providers: dict[str, record.ProviderRecord | None] = {}
        self._consumers: dict[str, record.ConsumerRecord | None] = {}
        self._traits: dict[str, float | None] = {}
        self._resource_classes: dict[str, float | None] = {}
        self._used: dict[str, dict[str, int]] = {}

    def changes(self) -> record.Changes:
        """All changes of this draft."""
        return record.Changes(
            self._providers, self._consumers, self._traits, self._resource_classes
        )

    # Providers

    def provider(self, uuid: str) -> record.ProviderRecord | None:
        """The provider, or None."""
        if uuid in self._providers:
            return self._providers[uuid]
        return self.base.providers.get(uuid)

    def provider_named(self, name: str) -> record.ProviderRecord | None:
        """The provider with this name, or None."""
        for provider in self._providers.values():
            if provider is not None and provider.name == name:
                return provider
        uuid = self.base.named.get(name)
        if uuid is None or uuid in self._providers:
            return None
        return self.base.providers[uuid]

    def put_provider(self, provider: record.ProviderRecord) -> record.ProviderRecord:
        """Create or replace a provider; returns it with its update time."""
        stamped = dataclasses.replace(provider, updated_at=self.now)
        self._providers[provider.uuid] = stamped
        return stamped

    def bump(self, provider: record.ProviderRecord) -> record.ProviderRecord:
        """Create or replace a provider, with its generation increased by one."""
        return self.put_provider(dataclasses.replace(provider, generation=provider.generation + 1))

    def remove_provider(self, uuid: str) -> None:
        """Delete a provider."""
        self._providers[uuid] = None

    def children(self, uuid: str) -> list[record.ProviderRecord]:
        """The direct children of a provider."""
        before = self.base.children[uuid]
        others = (other for key, other in self._providers.items() if key not in before)
        return [
            provider
            for provider in (*map(self.provider, before), *others)
            if provider is not None and provider.parent_uuid == uuid
        ]

    # Consumers

    def consumer(self, uuid: str) -> record.ConsumerRecord | None:
        """The consumer, or None."""
        if uuid in self._consumers:
            return self._consumers[uuid]
        return self.base.consumers.get(uuid)

    def put_consumer(self, consumer: record.ConsumerRecord) -> record.ConsumerRecord:
        """Create or replace a consumer with its allocations; returns it with update time."""
        stamped = dataclasses.replace(consumer, updated_at=self.now)
        self._count(consumer.uuid, stamped)
        self._consumers[consumer.uuid] = stamped
        return stamped

    def remove_consumer(self, uuid: str) -> None:
        """Delete a consumer with its allocations."""
        self._count(uuid, None)
        self._consumers[uuid] = None

    def used(self, provider_uuid: str) -> Mapping[str, int]:
        """``{resource class: amount}`` allocated from a provider; includes this draft."""
        if provider_uuid in self._used:
            return self._used[provider_uuid]
        return self.base.used(provider_uuid)

    def _count(self, uuid: str, after: record.ConsumerRecord | None) -> None:
        for sign, consumer in ((-1, self.consumer(uuid)), (1, after)):
            if consumer is None:
                continue
            for provider_uuid, resources in consumer.allocations.items():
                if provider_uuid not in self._used:
                    self._used[provider_uuid] = dict(self.base.used(provider_uuid))
                used = self._used[provider_uuid]
                for resource_class, amount in resources.items():
                    used[resource_class] = used.get(resource_class, 0) + sign * amount

    # Traits and resource classes

    def knows_trait(self, name: str) -> bool:
        """Whether a trait exists, standard or custom."""
        if name in self._traits:
            return self._traits[name] is not None
        return self.base.knows_trait(name)

    def put_trait(self, name: str) -> None:
        """Create a custom trait."""
        self._traits[name] = self.now

    def remove_trait(self, name: str) -> None:
        """Delete a custom trait."""
        self._traits[name] = None

    def knows_resource_class(self, name: str) -> bool:
        """Whether a resource class exists, standard or custom."""
        if name in self._resource_classes:
            return self._resource_classes[name] is not None
        return self.base.knows_resource_class(name)

    def put_resource_class(self, name: str) -> None:
        """Create a custom resource class."""
        self._resource_classes[name] = self.now

    def remove_resource_class(self, name: str) -> None:
        """Delete a custom resource class."""
        self._resource_classes[name] = None
