"""Reading what is to be reshaped: trees whole, their consumers whole, and all that these touch.

Placement has no transaction over several reads, so a picture is held against the
generations before and after it, and taken again when somebody wrote in between.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from osc_placement import errors
from osc_placement.client import api, api_errors, responses, retry
from osc_placement.model import allocation, name as names, provider
from osc_placement.plan import workers
from osc_placement.workflows import context
from osc_placement.workflows.reshape import snapshot

T = TypeVar("T")

#: How often a picture is taken before it is given up that the cloud holds still.
_TRIES = 10


class Restless(errors.PlacementError):
    """The trees changed each time while they were read."""


class _Moved(Exception):
    """Somebody wrote while a picture was taken."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Detail:
    """One provider of a named tree."""

    node: snapshot.Node
    shares: Mapping[str, responses.ProviderAllocation]


def known_traits(client: api.Client, traits: Iterable[str]) -> frozenset[str]:
    """Those of ``traits`` that the cloud has. One request, none for none."""
    wanted = sorted(set(traits))
    if not wanted:
        return frozenset()
    return frozenset(retry.read(lambda: client.list_traits(f"in:{','.join(wanted)}")))


def observe_picture(
    client: api.Client, roots: Collection[str], reading: context.ReadContext
) -> snapshot.TreeSnapshot:
    """The trees of these roots, with their closure.

    Cost: per named tree two requests and four per provider, one per consumer; per other
    tree that a consumer uses two, and two per provider that is used; when somebody wrote
    meanwhile, the listings again and what has another generation.
    Errors: Restless; InvalidInput when a root is gone.
    """
    client.require_feature("reshaper", "reading what is to be reshaped")
    look = _Look(client, reading)
    try:
        return retry.call(
            lambda: look.taken(roots),
            lambda error: isinstance(error, _Moved),
            retry.backoff(_TRIES),
        )
    except _Moved as moved:
        raise Restless(
            f"{moved} changed each time while it was read, {_TRIES} times: nothing was changed."
            " Try again when fewer servers are built there"
        ) from moved


class _Look:
    """Attempts at a picture; everything that contradicts itself is a ``_Moved``.

    What was read stands as long as its generation does.
    """

    def __init__(self, client: api.Client, reading: context.ReadContext) -> None:
        self._client, self._reading = client, reading
        self._known: dict[str, _Detail] = {}
        self._met: dict[str, responses.ConsumerAllocations] = {}

    def taken(self, roots: Collection[str]) -> snapshot.TreeSnapshot:
        inner = self._trees(sorted(roots))
        details = self._details(inner)
        consumers = self._consumers(details)
        outer = self._outer(consumers, {item.uuid for item in inner})
        nodes = {uuid: item.node for uuid, item in details.items()}
        found = snapshot.TreeSnapshot(
            {**nodes, **self._touched(outer, consumers)}, frozenset(roots), consumers
        )
        tops = sorted({item.root_uuid or item.uuid for item in outer})
        self._check_still([*inner, *outer], self._trees([*sorted(roots), *tops]))
        return found

    def _trees(self, roots: Collection[str]) -> list[provider.Provider]:
        """The providers of some trees, as they are listed."""

        def tree(root: str) -> list[provider.Provider]:
            ask = functools.partial(self._client.list_providers, in_tree=root)
            return retry.read(ask)

        listed = list(workers.each(tree, roots, self._reading.workers))
        gone = [root for root, tree in zip(roots, listed, strict=True) if not tree]
        errors.InputErrors(f"provider {root} is gone" for root in gone).check()
        return [item for tree in listed for item in tree]

    def _details(self, listed: Collection[provider.Provider]) -> dict[str, _Detail]:
        watch = self._reading.watch
        watch.expect("reading providers", len(listed))
        found = {}
        for item in workers.each(self._detail, listed, self._reading.workers):
            found[item.node.provider.uuid] = item
            watch.advance()
        return found

    def _detail(self, item: provider.Provider) -> _Detail:
        known = self._known.get(item.uuid)
        if known is None or known.node.provider != item:
            known = self._known[item.uuid] = self._read(item)
        return known

    def _read(self, item: provider.Provider) -> _Detail:
        client, uuid = self._client, item.uuid
        inventories = self._asked(item, lambda: client.list_inventories(uuid))
        shares = self._asked(item, lambda: client.list_provider_allocations(uuid))
        traits = self._asked(item, lambda: client.list_provider_traits(uuid))
        aggregates = self._asked(item, lambda: client.list_aggregates(uuid))
        for generation in (
            inventories.generation,
            shares.generation,
            traits.generation,
            aggregates.generation,
        ):
            if generation != item.generation:
                raise _Moved(item.name)
        node = snapshot.Node(
            item,
            inventories.inventories,
            allocation.add_resources(*(share.resources for share in shares.allocations.values())),
            frozenset(traits.traits),
            frozenset(names.canonical_uuid(text) for text in aggregates.aggregates),
        )
        return _Detail(node, shares.allocations)

    def _consumers(self, details: Mapping[str, _Detail]) -> dict[str, allocation.Consumer]:
        """Every consumer of the trees, whole, if it agrees with what the providers told."""
        shares: dict[str, dict[str, responses.ProviderAllocation]] = {}
        for provider_uuid, item in details.items():
            for uuid, share in item.shares.items():
                shares.setdefault(uuid, {})[provider_uuid] = share
        watch = self._reading.watch
        watch.expect("reading consumers", len(shares))
        found = {}

        def told_of(uuid: str) -> responses.ConsumerAllocations:
            return self._consumer(uuid, shares[uuid])

        for told in workers.each(told_of, sorted(shares), self._reading.workers):
            consumer = told.consumer
            if not _agree(consumer, shares[consumer.uuid], details):
                # A consumer that goes raises no provider's generation.
                self._forget(consumer.uuid, shares[consumer.uuid])
                raise _Moved(f"the tree that consumer {consumer.uuid} is in")
            found[consumer.uuid] = consumer
            watch.advance()
        return found

    def _consumer(
        self, uuid: str, shares: Mapping[str, responses.ProviderAllocation]
    ) -> responses.ConsumerAllocations:
        known = self._met.get(uuid)
        generations = {share.consumer_generation for share in shares.values()}
        if known is None or {known.consumer.generation} != generations:
            known = retry.read(lambda: self._client.show_consumer_allocations(uuid))
            self._met[uuid] = known
        return known

    def _forget(self, consumer: str, providers: Iterable[str]) -> None:
        self._met.pop(consumer, None)
        for uuid in providers:
            self._known.pop(uuid, None)

    def _outer(
        self, consumers: Mapping[str, allocation.Consumer], inner: Collection[str]
    ) -> list[provider.Provider]:
        """The other trees that the consumers use, as they are listed."""
        used = {uuid for item in consumers.values() for uuid in item.allocations}
        listed = self._trees(sorted(used - set(inner)))
        return list({item.uuid: item for item in listed}.values())

    def _touched(
        self,
        outer: Collection[provider.Provider],
        consumers: Mapping[str, allocation.Consumer],
    ) -> dict[str, snapshot.Node]:
        used = {uuid for item in consumers.values() for uuid in item.allocations}

        def node(item: provider.Provider) -> snapshot.Node:
            if item.uuid not in used:
                return snapshot.Node(item)
            inventories = self._asked(item, lambda: self._client.list_inventories(item.uuid))
            usages = self._asked(item, lambda: self._client.list_usages(item.uuid))
            if inventories.generation != item.generation:
                raise _Moved(item.name)
            return snapshot.Node(item, inventories.inventories, usages)

        found = workers.each(node, outer, self._reading.workers)
        return {item.provider.uuid: item for item in found}

    def _asked(self, item: provider.Provider, call: Callable[[], T]) -> T:
        """The answer to a read; a provider that is gone has moved."""
        try:
            return retry.read(call)
        except api_errors.NotFound as error:
            raise _Moved(item.name) from error

    def _check_still(
        self, before: Iterable[provider.Provider], after: Iterable[provider.Provider]
    ) -> None:
        was = {item.uuid: (item.generation, item.name, item.parent_uuid) for item in before}
        now = {item.uuid: (item.generation, item.name, item.parent_uuid) for item in after}
        for item in after:
            if was.get(item.uuid) != now[item.uuid]:
                raise _Moved(item.name)
        if was.keys() != now.keys():
            raise _Moved("a tree")


def _agree(
    consumer: allocation.Consumer,
    shares: Mapping[str, responses.ProviderAllocation],
    details: Mapping[str, _Detail],
) -> bool:
    """Whether a consumer tells of the named trees what their providers tell of it."""
    inside = {uuid: has for uuid, has in consumer.allocations.items() if uuid in details}
    return inside == {uuid: share.resources for uuid, share in shares.items()} and all(
        share.consumer_generation == consumer.generation for share in shares.values()
    )
