"""What stands in a cloud where it is reshaped: trees, consumers, and all that these touch.

Pure. ``observe`` makes pictures of a cloud, ``wanted`` makes those of what shall be.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from osc_placement.model import allocation, inventory, provider


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A provider with its inventories, and ``used`` (``{class: amount}``) by everybody.

    ``traits`` and ``aggregates`` are told for the providers of named trees.
    """

    provider: provider.Provider
    inventories: inventory.Inventories = dataclasses.field(default_factory=dict)
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    def replace(self, **fields: Any) -> Node:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)


@dataclasses.dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """``roots`` are the roots of the named trees, which are here whole with their consumers.

    ``nodes`` (by UUID) also holds every other provider that these consumers use, and what
    is above it. ``consumers`` (by UUID) have all their allocations. ``traits`` are those of
    the operator's own that the cloud has, as far as somebody asked.
    """

    nodes: Mapping[str, Node]
    roots: frozenset[str]
    consumers: Mapping[str, allocation.Consumer] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    def replace(self, **fields: Any) -> TreeSnapshot:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **fields)

    def root_of(self, uuid: str) -> str:
        """The root of the tree that a provider stands in."""
        return self.nodes[uuid].provider.root_uuid or uuid

    def is_inside(self, uuid: str) -> bool:
        """Whether a provider stands in a named tree: others are never changed."""
        return uuid in self.nodes and self.root_of(uuid) in self.roots

    def name_of(self, uuid: str) -> str:
        """What people call a provider."""
        return self.nodes[uuid].provider.name if uuid in self.nodes else uuid

    def names(self) -> dict[str, str]:
        """``{provider uuid: name}``"""
        return {uuid: node.provider.name for uuid, node in self.nodes.items()}

    def inside(self) -> Iterator[tuple[str, Node]]:
        """The providers of the named trees."""
        for uuid, node in self.nodes.items():
            if self.is_inside(uuid):
                yield uuid, node

    def held(self) -> dict[tuple[str, str], int]:
        """``{(provider uuid, class): amount}`` of the consumers that are here, together."""
        total: dict[tuple[str, str], int] = {}
        for consumer in self.consumers.values():
            for uuid, resources in consumer.allocations.items():
                for resource_class, amount in resources.items():
                    key = uuid, resource_class
                    total[key] = total.get(key, 0) + amount
        return total

    def others(self) -> dict[tuple[str, str], int]:
        """``{(provider uuid, class): amount}`` of consumers that are not here."""
        held = self.held()
        return {
            (uuid, resource_class): used - held.get((uuid, resource_class), 0)
            for uuid, node in self.nodes.items()
            for resource_class, used in node.used.items()
            if used > held.get((uuid, resource_class), 0)
        }

    def holding(self, uuid: str, resource_class: str) -> dict[str, int]:
        """``{consumer uuid: amount}`` of those that have some of a provider, by UUID."""
        return {
            consumer.uuid: amount
            for consumer in sorted(self.consumers.values(), key=lambda item: item.uuid)
            if (amount := consumer.allocations.get(uuid, {}).get(resource_class))
        }

    def with_consumers(self, consumers: Mapping[str, allocation.Consumer]) -> TreeSnapshot:
        """The same with other consumers' allocations, and what is used counted anew."""
        others = self.others()
        changed = self.replace(consumers=consumers)
        used: dict[str, dict[str, int]] = {uuid: {} for uuid in self.nodes}
        for counted in (others, changed.held()):
            for (uuid, resource_class), amount in counted.items():
                of = used.setdefault(uuid, {})
                of[resource_class] = of.get(resource_class, 0) + amount
        return changed.replace(
            nodes={uuid: node.replace(used=used[uuid]) for uuid, node in self.nodes.items()}
        )
