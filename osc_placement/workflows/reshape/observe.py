# SPDX-License-Identifier: Apache-2.0
"""Reading the trees of a reshape, their consumers, and everything that these use.

Placement has no transaction over several reads. So the generations are compared before and after,
and what changed in between is read again.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from osc_placement import errors
from osc_placement.client import api, api_errors, responses, retry
from osc_placement.engine import standard
from osc_placement.model import allocation, provider
from osc_placement.model.name import canonical_uuid, is_custom
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.reading import PlacementReader
from osc_placement.workflows.reshape import documents, snapshot

LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: The attempts to read the trees while other clients write.
_ATTEMPTS = 10


class ChangedDuringRead(errors.PlacementError):
    """The trees changed during each attempt to read them."""


class _Changed(Exception):
    """The trees changed while they were read."""


def observe(
    client: api.Client,
    document: documents.Document | documents.Tree,
    providers: Iterable[provider.Provider],
    context: ReadContext,
) -> snapshot.TreeSnapshot:
    """The trees of providers, for a document.

    Requests: those of ``read_trees``, one for traits, one per class that neither the trees nor the
    standard classes contain.
    Errors: ChangedDuringRead; InvalidInput for unknown traits and classes.
    """
    trees = read_trees(client, {item.root_uuid or item.uuid for item in providers}, context)
    return dataclasses.replace(trees, traits=_check_names(client, document, trees))


def _check_names(
    client: api.Client, document: documents.Document | documents.Tree, trees: snapshot.TreeSnapshot
) -> frozenset[str]:
    """Check that the traits and classes of a document exist; the existing custom traits.

    Custom traits are created.
    """
    traits = sorted({trait for item in document.descriptions for trait in item.traits})
    offered = {name for node in trees.nodes.values() for name in node.inventories}
    classes = sorted(document.classes - offered - set(standard.RESOURCE_CLASSES))
    existing = frozenset(client.list_traits(f"in:{','.join(traits)}") if traits else ())
    errors.InputErrors(
        [
            f"the cloud does not know the trait {trait}"
            for trait in traits
            if trait not in existing and not is_custom(trait)
        ]
        + [
            f"unknown resource class {name}: 'openstack resource class create' creates it"
            for name in classes
            if not client.resource_class_exists(name)
        ]
    ).check()
    return frozenset(filter(is_custom, existing))


def read_trees(
    client: api.Client, roots: Collection[str], context: ReadContext
) -> snapshot.TreeSnapshot:
    """The trees of these roots, their consumers, and everything that these use.

    Requests: per named tree two, and four per provider; one per consumer; per other tree that a
    consumer uses two, and two per used provider. After a concurrent write, the listings again, and
    the providers and consumers with another generation.
    Errors: ChangedDuringRead; InvalidInput when a root does not exist.
    """
    client.require_feature("reshaper", "reading what is to be reshaped")
    reader = _Reader(client, context)
    for pause in (*retry.backoff(_ATTEMPTS), 0.0):
        try:
            return reader.read(sorted(roots))
        except _Changed as change:
            LOG.info("%s changed while it was read; reading it again", change)
            changed = change
            time.sleep(pause)
    raise ChangedDuringRead(
        f"{changed} changed each time while it was read, {_ATTEMPTS} times: nothing was changed;"
        " run the command again when fewer servers are created there"
    ) from changed


class _Reader:
    """Reads the trees; every contradiction raises _Changed.

    A provider or consumer is read again only if its generation changed.
    """

    def __init__(self, client: api.Client, context: ReadContext) -> None:
        self._client, self._context = client, context
        self._reader = PlacementReader(client, context)
        self._nodes: dict[str, snapshot.Node] = {}
        #: ``{provider of a named tree: {consumer: its allocation}}``
        self._shares: dict[str, Mapping[str, responses.ProviderAllocation]] = {}
        self._consumers: dict[str, allocation.Consumer] = {}

    def read(self, roots: Sequence[str]) -> snapshot.TreeSnapshot:
        inner = self._trees(roots)
        inner_nodes = self._context.each(self._inner_node, inner, "reading providers")
        nodes = {node.provider.uuid: node for node in inner_nodes}
        consumers = self._read_consumers(set(nodes))
        used = {uuid for consumer in consumers.values() for uuid in consumer.allocations}
        outer = {item.uuid: item for item in self._trees(sorted(used - nodes.keys()))}
        nodes |= {uuid: snapshot.Node(item) for uuid, item in outer.items()}
        touched = [item for uuid, item in outer.items() if uuid in used]
        outer_nodes = self._context.each(self._outer_node, touched)
        nodes |= {node.provider.uuid: node for node in outer_nodes}
        tops = sorted({item.root_uuid or item.uuid for item in outer.values()})
        _check_unchanged([*inner, *outer.values()], self._trees([*roots, *tops]))
        return snapshot.TreeSnapshot(nodes, frozenset(roots), consumers)

    def _ask(self, item: provider.Provider, call: Callable[[], T]) -> T:
        """The result of a read about a provider, which another client may have deleted."""
        try:
            return call()
        except api_errors.NotFound as error:
            raise _Changed(item.name) from error

    def _trees(self, roots: Collection[str]) -> list[provider.Provider]:
        """The providers of the trees that contain these providers, as they are listed."""

        listed = self._reader.trees(roots)
        gone = [root for root, providers in listed.items() if not providers]
        errors.InputErrors(f"provider {root} does not exist any more" for root in gone).check()
        return [item for providers in listed.values() for item in providers]

    def _inner_node(self, item: provider.Provider) -> snapshot.Node:
        """A provider of a named tree; it is read unless it was, in this state."""
        node = self._nodes.get(item.uuid)
        if node is not None and node.provider == item:
            return node
        client, uuid = self._client, item.uuid
        inventories = self._ask(item, lambda: client.list_inventories(uuid))
        allocations = self._ask(item, lambda: client.list_provider_allocations(uuid))
        traits = self._ask(item, lambda: client.list_provider_traits(uuid))
        aggregates = self._ask(item, lambda: client.list_aggregates(uuid))
        generations = {inventories.generation, allocations.generation, traits.generation}
        if generations | {aggregates.generation} != {item.generation}:
            raise _Changed(item.name)
        self._shares[uuid] = allocations.allocations
        self._nodes[uuid] = node = snapshot.Node(
            item,
            inventories.inventories,
            allocation.add_resources(
                *(share.resources for share in allocations.allocations.values())
            ),
            frozenset(traits.traits),
            frozenset(canonical_uuid(text) for text in aggregates.aggregates),
        )
        return node

    def _outer_node(self, item: provider.Provider) -> snapshot.Node:
        """A provider outside the named trees that a consumer uses."""
        inventories = self._ask(item, lambda: self._client.list_inventories(item.uuid))
        usages = self._ask(item, lambda: self._client.list_usages(item.uuid))
        if inventories.generation != item.generation:
            raise _Changed(item.name)
        return snapshot.Node(item, inventories.inventories, usages)

    def _read_consumers(self, providers: Collection[str]) -> dict[str, allocation.Consumer]:
        """All consumers of the trees, if they agree with the allocations of the providers."""
        shares: dict[str, dict[str, responses.ProviderAllocation]] = {}
        for provider_uuid in providers:
            for uuid, share in self._shares[provider_uuid].items():
                shares.setdefault(uuid, {})[provider_uuid] = share
        read_again = [uuid for uuid in sorted(shares) if not self._is_current(uuid, shares[uuid])]
        self._consumers |= self._reader.consumers(read_again)
        for uuid in sorted(shares):
            used = self._consumers[uuid].allocations
            inside = {key: used[key] for key in used if key in providers}
            agrees = inside == {key: share.resources for key, share in shares[uuid].items()}
            if not (agrees and self._is_current(uuid, shares[uuid])):
                # Deleting a consumer does not increase the generation of its providers.
                self._forget(uuid, shares[uuid])
                raise _Changed(f"the tree of consumer {uuid}")
        return {uuid: self._consumers[uuid] for uuid in sorted(shares)}

    def _is_current(self, uuid: str, shares: Mapping[str, responses.ProviderAllocation]) -> bool:
        consumer = self._consumers.get(uuid)
        generations = {share.consumer_generation for share in shares.values()}
        return consumer is not None and {consumer.generation} == generations

    def _forget(self, consumer: str, providers: Iterable[str]) -> None:
        self._consumers.pop(consumer, None)
        for uuid in providers:
            self._nodes.pop(uuid, None)


def _check_unchanged(
    before: Iterable[provider.Provider], after: Iterable[provider.Provider]
) -> None:
    was = {item.uuid: (item.generation, item.name, item.parent_uuid) for item in before}
    now = {item.uuid: (item.generation, item.name, item.parent_uuid) for item in after}
    for item in after:
        if was.get(item.uuid) != now[item.uuid]:
            raise _Changed(item.name)
    if was.keys() != now.keys():
        raise _Changed("a tree")
