# SPDX-License-Identifier: Apache-2.0
"""Snapshots of trees: their providers, their consumers, and everything that these use. Pure.

``observe`` reads a snapshot. ``after`` and ``without`` compute the snapshots of a reshape.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from uuid import NAMESPACE_URL, uuid5

from osc_placement.engine import record, standard
from osc_placement.model import allocation, inventory, provider
from osc_placement.model.name import is_custom
from osc_placement.search.placing import Slot

#: The owner of the usage by consumers that are not in the snapshot.
_OTHERS = "others"


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A provider with its inventories, and ``used`` (``{class: amount}``) by all consumers.

    ``traits`` and ``aggregates`` are set for providers of the named trees only.
    """

    provider: provider.Provider
    inventories: inventory.Inventories = dataclasses.field(default_factory=dict)
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()

    @property
    def over_capacity(self) -> list[tuple[str, int, int]]:
        """``(class, used, capacity)`` of the classes with more usage than capacity."""
        exceeded = []
        for name, used in sorted(self.used.items()):
            item = self.inventories.get(name)
            capacity = item.capacity if item is not None else 0
            if used > capacity:
                exceeded.append((name, used, capacity))
        return exceeded


@dataclasses.dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """``roots`` are the roots of the named trees, which are complete with their consumers.

    ``nodes`` (by UUID) also has all other providers that these consumers use, and their ancestors.
    ``consumers`` (by UUID) have all their allocations. ``traits`` are those custom traits of the
    cloud that the document names.
    """

    nodes: Mapping[str, Node]
    roots: frozenset[str]
    consumers: Mapping[str, allocation.Consumer] = dataclasses.field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    def root_of(self, uuid: str) -> str:
        """The root of the tree of a provider."""
        return self.nodes[uuid].provider.root_uuid or uuid

    def name_of(self, uuid: str) -> str:
        """The name of a provider, or its UUID if it is unknown."""
        return self.nodes[uuid].provider.name if uuid in self.nodes else uuid

    def names(self) -> dict[str, str]:
        """``{provider uuid: name}``"""
        return {uuid: node.provider.name for uuid, node in self.nodes.items()}

    def offers(self, uuid: str) -> inventory.Inventories:
        """The inventories of a provider; empty if it does not exist."""
        return self.nodes[uuid].inventories if uuid in self.nodes else {}

    @property
    def inside(self) -> dict[str, Node]:
        """The providers of the named trees by UUID: only those change."""
        return {uuid: node for uuid, node in self.nodes.items() if self.root_of(uuid) in self.roots}

    def other_usage(self) -> collections.Counter[Slot]:
        """``{slot: amount}`` of consumers that are not in the snapshot."""
        used = collections.Counter(
            {
                (uuid, name): used
                for uuid, node in self.nodes.items()
                for name, used in node.used.items()
            }
        )
        return used - _usage(self.consumers.values())

    def consumers_of(self, uuid: str, resource_class: str) -> dict[str, int]:
        """``{consumer uuid: amount}`` of a class on a provider, consumers sorted."""
        return {
            consumer: amount
            for consumer, item in sorted(self.consumers.items())
            if (amount := item.allocations.get(uuid, {}).get(resource_class))
        }

    def changed_allocations(self, after: TreeSnapshot) -> dict[str, dict[str, list[str]]]:
        """``{consumer: {provider: the classes of which it has another amount afterwards}}``.

        Consumers and providers without a change are left out; all are sorted.
        """
        changed: dict[str, dict[str, list[str]]] = {}
        for uuid, consumer in sorted(self.consumers.items()):
            was, now = consumer.allocations, after.consumers[uuid].allocations
            for key in sorted({*was, *now}):
                had, has = was.get(key, {}), now.get(key, {})
                if names := sorted(name for name in {*had, *has} if had.get(name) != has.get(name)):
                    changed.setdefault(uuid, {})[key] = names
        return changed

    def after(
        self, nodes: Mapping[str, Node], moved: Mapping[str, Mapping[Slot, int]]
    ) -> TreeSnapshot:
        """The snapshot with these providers in the named trees, and with moved amounts.

        ``moved`` is ``{consumer: {slot: how much more it has}}``; a negative amount is less.
        """
        consumers = {
            uuid: _with_amounts(consumer, moved.get(uuid, {}))
            for uuid, consumer in self.consumers.items()
        }
        placed = _with_roots(nodes)
        outside = {uuid: node for uuid, node in self.nodes.items() if uuid not in nodes}
        roots = frozenset(node.provider.root_uuid or uuid for uuid, node in placed.items())
        used: dict[str, dict[str, int]] = {}
        for (uuid, name), amount in (_usage(consumers.values()) + self.other_usage()).items():
            used.setdefault(uuid, {})[name] = amount
        return dataclasses.replace(
            self,
            nodes={
                uuid: dataclasses.replace(node, used=used.get(uuid, {}))
                for uuid, node in {**placed, **outside}.items()
            },
            roots=roots | self.roots,
            consumers=consumers,
        )

    def without(self, deleted: Collection[str]) -> TreeSnapshot:
        """The snapshot without deleted providers."""
        kept = {uuid: node for uuid, node in self.nodes.items() if uuid not in deleted}
        return dataclasses.replace(self, nodes=kept, roots=self.roots - frozenset(deleted))

    def split(self) -> dict[str, TreeSnapshot]:
        """``{root uuid: the snapshot of that tree}``, with everything that its consumers use."""
        consumers: dict[str, dict[str, allocation.Consumer]] = {root: {} for root in self.roots}
        nodes: dict[str, dict[str, Node]] = {root: {} for root in self.roots}
        for uuid, node in self.inside.items():
            nodes[self.root_of(uuid)][uuid] = node
        for uuid, consumer in self.consumers.items():
            used = {key: self.nodes[key] for key in consumer.allocations}
            for root in {self.root_of(key) for key in used} & self.roots:
                consumers[root][uuid] = consumer
                nodes[root] |= used
        return {
            root: dataclasses.replace(
                self, nodes=nodes[root], roots=frozenset({root}), consumers=consumers[root]
            )
            for root in self.roots
        }

    def restricted_to(self, changing: Collection[str]) -> TreeSnapshot:
        """The snapshot of the named trees whose root is among the changing providers.

        The usage by consumers of the other trees alone counts as that of others.
        """
        roots = frozenset(root for root in self.roots if root in changing)
        inside = {uuid for uuid in self.nodes if self.root_of(uuid) in roots}
        consumers = {
            uuid: consumer
            for uuid, consumer in self.consumers.items()
            if inside & consumer.allocations.keys()
        }
        return dataclasses.replace(self, roots=roots, consumers=consumers)

    def records(self, after: TreeSnapshot | None = None) -> record.Changes:
        """The providers and consumers as records of the engine; all other usage is one consumer's.

        With all classes and traits of both snapshots. ``observe`` has checked that the cloud has
        those of the second one; its release may be newer than the traits of this program.
        """
        nodes = [*self.nodes.values(), *(after.nodes.values() if after is not None else ())]
        traits = self.traits.union(*(node.traits for node in self.nodes.values()))
        traits |= {name for node in nodes for name in node.traits if not is_custom(name)}
        classes = {name for node in nodes for name in node.inventories if is_custom(name)}
        others: dict[str, dict[str, int]] = {}
        for (uuid, name), amount in self.other_usage().items():
            others.setdefault(uuid, {})[name] = amount
        consumers = {
            uuid: record.ConsumerRecord(
                uuid,
                item.generation or 0,
                item.project_id or _OTHERS,
                item.user_id or _OTHERS,
                item.allocations,
                None if item.consumer_type == allocation.UNKNOWN_TYPE else item.consumer_type,
            )
            for uuid, item in self.consumers.items()
        }
        for uuid, resources in others.items():
            consumer = new_uuid(f"others:{uuid}")
            consumers[consumer] = record.ConsumerRecord(
                consumer, 0, _OTHERS, _OTHERS, {uuid: resources}, None
            )
        return record.Changes(
            {
                uuid: record.ProviderRecord(
                    uuid,
                    node.provider.name,
                    self.root_of(uuid),
                    node.provider.parent_uuid,
                    node.provider.generation,
                    node.inventories,
                    node.traits,
                    tuple(sorted(node.aggregates)),
                )
                for uuid, node in self.nodes.items()
            },
            consumers,
            dict.fromkeys(traits - standard.traits(), 0.0),
            dict.fromkeys(classes, 0.0),
        )


def new_uuid(name: str) -> str:
    """The UUID of a provider to create: the same in every plan."""
    return str(uuid5(NAMESPACE_URL, f"osc-placement:{name}"))


def _usage(consumers: Iterable[allocation.Consumer]) -> collections.Counter[Slot]:
    """``{slot: amount}`` of these consumers."""
    total: collections.Counter[Slot] = collections.Counter()
    for consumer in consumers:
        total.update(_amounts(consumer))
    return total


def _amounts(consumer: allocation.Consumer) -> collections.Counter[Slot]:
    return collections.Counter(
        {
            (uuid, name): amount
            for uuid, resources in consumer.allocations.items()
            for name, amount in resources.items()
        }
    )


def _with_amounts(consumer: allocation.Consumer, moved: Mapping[Slot, int]) -> allocation.Consumer:
    """The consumer after a move. Providers and classes without an amount are left out."""
    if not moved:
        return consumer
    amounts = _amounts(consumer)
    amounts.update(moved)
    allocations: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in (+amounts).items():
        allocations.setdefault(uuid, {})[name] = amount
    return dataclasses.replace(consumer, allocations=allocations)


def _with_roots(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes of whole trees, each with the root that follows from its parents."""

    def root(uuid: str) -> str:
        parent = nodes[uuid].provider.parent_uuid
        return uuid if parent is None else root(parent)

    return {
        uuid: dataclasses.replace(
            node, provider=dataclasses.replace(node.provider, root_uuid=root(uuid))
        )
        for uuid, node in nodes.items()
    }
