# SPDX-License-Identifier: Apache-2.0
"""The state of a Placement: records and indexes of them.

Reads are attribute and index look-ups. Only ``apply`` changes a state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping
from typing import Any, Protocol

from osc_placement.engine import errors, record, standard

_EMPTY: Mapping[str, None] = {}
_NO_USAGE: Mapping[str, int] = {}

#: The amounts of a class that a provider can supply: (least, most, step). A plain tuple of numbers,
#: which the garbage collector ignores.
Room = tuple[int, int, int]
NO_ROOM: Room = (1, 0, 1)


class Index:
    """``key -> members``, in the order in which they were added; a member may have a value."""

    __slots__ = ("_members", "_shared")

    def __init__(self) -> None:
        self._members: dict[str, dict[str, Any]] = {}
        #: The keys whose members a copy has too, until one of them changes.
        self._shared: set[str] = set()

    def copy(self) -> Index:
        copied = Index()
        copied._members = self._members.copy()
        copied._shared, self._shared = set(self._members), set(self._members)
        return copied

    def _separate(self, key: str) -> None:
        self._shared.discard(key)
        self._members[key] = self._members[key].copy()

    def add(self, key: str, member: str, value: Any = None) -> None:
        if key in self._shared:
            self._separate(key)
        self._members.setdefault(key, {})[member] = value

    def discard(self, key: str, member: str) -> None:
        if key in self._shared:
            self._separate(key)
        members = self._members.get(key)
        if members is not None:
            members.pop(member, None)
            if not members:
                del self._members[key]

    def __getitem__(self, key: str) -> KeysView[str]:
        """The members of a key as an ordered set; empty for an unknown key."""
        return self._members.get(key, _EMPTY).keys()

    def values(self, key: str) -> Mapping[str, Any]:
        """The members of a key with their values; empty for an unknown key."""
        return self._members.get(key, _EMPTY)

    def any_of(self, keys: Collection[str]) -> KeysView[str]:
        """The members of any of the keys, as an ordered set."""
        if len(keys) == 1:
            return self[next(iter(keys))]
        return dict.fromkeys(member for key in keys for member in self[key]).keys()

    def has_common_member(self, conditions: Iterable[Collection[str]]) -> bool:
        """Whether one member has any of the keys of each condition; True without conditions."""
        by_condition = sorted(map(self.any_of, conditions), key=len)
        if len(by_condition) < 2:
            return all(by_condition)
        smallest, *others = by_condition
        return any(all(member in other for other in others) for member in smallest)

    def __contains__(self, key: str) -> bool:
        return key in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)


#: What a change of names, of consumers and of providers changes in a state.
_NAMES = frozenset({"traits", "resource_classes"})
_OF_CONSUMERS = frozenset({"consumers", "consumers_of", "consumers_in", "_used", "with_class"})
_OF_PROVIDERS = frozenset(
    {
        *("providers", "named", "children", "tree", "with_trait", "with_aggregate", "with_class"),
        *("_used", "_numbers"),
    }
)


class CloudState:
    """All records of a Placement, indexed.

    Dictionaries keep the order of creation. The indexes hold uuids: ``children`` by parent,
    ``tree`` by root (the root included), ``with_trait``, ``with_aggregate`` and ``with_class`` (has
    inventory of) give providers; ``consumers_of`` by provider and ``consumers_in`` by project give
    consumers.
    """

    def __init__(self) -> None:
        self.providers: dict[str, record.ProviderRecord] = {}
        self.consumers: dict[str, record.ConsumerRecord] = {}
        self.traits: dict[str, float] = {}
        self.resource_classes: dict[str, float] = {}
        self.named: dict[str, str] = {}
        self.children = Index()
        self.tree = Index()
        self.with_trait = Index()
        self.with_aggregate = Index()
        self.with_class = Index()
        self.consumers_of = Index()
        self.consumers_in = Index()
        self._used: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, int] = {}
        self._next_number = 0
        #: The attributes that a copy has too.
        self._shared: set[str] = set()

    def copy(self) -> CloudState:
        """A copy that changes independently; both copy what they share before they change it."""
        copied = CloudState()
        vars(copied).update(vars(self))
        copied._shared, self._shared = {*vars(self)}, {*vars(self)}
        return copied

    def _separate(self, names: frozenset[str]) -> None:
        for name in names & self._shared:
            setattr(self, name, getattr(self, name).copy())
        self._shared -= names

    def without_allocations(self) -> CloudState:
        """The providers, traits and resource classes without any consumer."""
        empty = CloudState()
        empty.apply(
            record.Changes(
                self.providers, traits=self.traits, resource_classes=self.resource_classes
            )
        )
        return empty

    def in_order(self, provider_uuids: Iterable[str]) -> list[str]:
        """The providers in order of creation."""
        return sorted(provider_uuids, key=self._numbers.__getitem__)

    def used(self, provider_uuid: str) -> Mapping[str, int]:
        """``{resource class: amount}`` allocated from a provider; zeros may be missing.

        A write replaces the mapping.
        """
        return self._used.get(provider_uuid, _NO_USAGE)

    def rooms(self, resource_class: str) -> Mapping[str, Room]:
        """``{provider uuid: Room}`` of all providers with inventory of a class."""
        return self.with_class.values(resource_class)

    def knows_trait(self, name: str) -> bool:
        """Whether a trait exists, standard or custom."""
        return name in standard.traits() or name in self.traits

    def knows_resource_class(self, name: str) -> bool:
        """Whether a resource class exists, standard or custom."""
        return name in _STANDARD_CLASSES or name in self.resource_classes

    def is_empty(self) -> bool:
        """Whether the state has no records."""
        return not (self.providers or self.consumers or self.traits or self.resource_classes)

    def apply(self, changes: record.Changes) -> None:
        """Apply the changes of a draft."""
        self._separate(_NAMES)
        if changes.consumers:
            self._separate(_OF_CONSUMERS)
        if changes.providers:
            self._separate(_OF_PROVIDERS)
        used: set[str] = set()
        for uuid, consumer in changes.consumers.items():
            self._replace_consumer(uuid, consumer, used)
        # One draft may move a name from one provider to another: remove all old names first.
        for uuid in changes.providers:
            if uuid in self.providers:
                self._unindex_provider(self.providers[uuid])
        for uuid, provider in changes.providers.items():
            if provider is None:
                self.providers.pop(uuid, None)
                self._used.pop(uuid, None)
                self._numbers.pop(uuid, None)
            else:
                if uuid not in self._numbers:
                    self._numbers[uuid] = self._next_number
                    self._next_number += 1
                self.providers[uuid] = provider
                self._index_provider(provider)
        for uuid in used - changes.providers.keys():
            if uuid in self.providers:
                self._measure(self.providers[uuid])
        _overlay(self.traits, changes.traits)
        _overlay(self.resource_classes, changes.resource_classes)

    def _index_provider(self, provider: record.ProviderRecord) -> None:
        uuid = provider.uuid
        self.named[provider.name] = uuid
        self.tree.add(provider.root_uuid, uuid)
        if provider.parent_uuid is not None:
            self.children.add(provider.parent_uuid, uuid)
        for trait in provider.traits:
            self.with_trait.add(trait, uuid)
        for aggregate in provider.aggregates:
            self.with_aggregate.add(aggregate, uuid)
        self._measure(provider)

    def _measure(self, provider: record.ProviderRecord) -> None:
        """Set what a provider can supply of each class."""
        used = self.used(provider.uuid)
        for name, inventory in provider.inventories.items():
            most = min(inventory.max_unit, inventory.capacity - used.get(name, 0))
            room = inventory.min_unit, most, inventory.step_size
            self.with_class.add(name, provider.uuid, room)

    def _unindex_provider(self, provider: record.ProviderRecord) -> None:
        uuid = provider.uuid
        del self.named[provider.name]
        self.tree.discard(provider.root_uuid, uuid)
        if provider.parent_uuid is not None:
            self.children.discard(provider.parent_uuid, uuid)
        for trait in provider.traits:
            self.with_trait.discard(trait, uuid)
        for aggregate in provider.aggregates:
            self.with_aggregate.discard(aggregate, uuid)
        for resource_class in provider.inventories:
            self.with_class.discard(resource_class, uuid)

    def _replace_consumer(
        self, uuid: str, consumer: record.ConsumerRecord | None, used: set[str]
    ) -> None:
        """Replace or delete a consumer; adds the providers whose usage changes to ``used``."""
        old = self.consumers.get(uuid)
        if old is not None:
            self._add_usage(old, -1, used)
            self.consumers_in.discard(old.project_id, uuid)
            for provider_uuid in old.allocations:
                self.consumers_of.discard(provider_uuid, uuid)
        if consumer is None:
            self.consumers.pop(uuid, None)
            return
        self.consumers[uuid] = consumer
        self._add_usage(consumer, 1, used)
        self.consumers_in.add(consumer.project_id, uuid)
        for provider_uuid in consumer.allocations:
            self.consumers_of.add(provider_uuid, uuid)

    def _add_usage(self, consumer: record.ConsumerRecord, sign: int, changed: set[str]) -> None:
        for provider_uuid, resources in consumer.allocations.items():
            if provider_uuid not in changed:
                changed.add(provider_uuid)
                self._used[provider_uuid] = dict(self.used(provider_uuid))
            used = self._used[provider_uuid]
            for resource_class, amount in resources.items():
                used[resource_class] = used.get(resource_class, 0) + sign * amount


_STANDARD_CLASSES = frozenset(standard.RESOURCE_CLASSES)


class Names(Protocol):
    """A state, or a draft: it decides which resource classes and traits exist."""

    def knows_resource_class(self, name: str) -> bool: ...

    def knows_trait(self, name: str) -> bool: ...


def check_classes(base: Names, names: Iterable[str]) -> None:
    """Raise ResourceClassNotFound for the first unknown resource class."""
    for name in names:
        if not base.knows_resource_class(name):
            raise errors.ResourceClassNotFound(name=name)


def check_traits(base: Names, names: Iterable[str]) -> None:
    """Raise TraitNotFound for the first unknown trait, in the order of the alphabet."""
    for name in sorted(names):
        if not base.knows_trait(name):
            raise errors.TraitNotFound(names=name)


def _overlay(base: dict[str, float], changes: Mapping[str, float | None]) -> None:
    for name, updated_at in changes.items():
        if updated_at is None:
            base.pop(name, None)
        else:
            base[name] = updated_at
