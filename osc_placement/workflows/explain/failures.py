# SPDX-License-Identifier: Apache-2.0
"""Every condition that a host fails, with amounts, from the reasons of the engine. Pure."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from osc_placement.engine import record, state
from osc_placement.engine.candidates import report
from osc_placement.engine.candidates.forest import Forest
from osc_placement.engine.candidates.plans import Group, Slot
from osc_placement.engine.candidates.report import RefusalReason
from osc_placement.model import candidate
from osc_placement.model.constraint import Constraint
from osc_placement.model.inventory import Inventory
from osc_placement.model.name import and_more
from osc_placement.workflows.cloud.hosts import HostSearch


@dataclasses.dataclass(frozen=True, slots=True)
class FunnelStep:
    """A constraint, and the number of hosts that meet it and all constraints before it."""

    constraint: Constraint
    hosts: int


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A condition that a host fails.

    ``provider`` is the provider that fails it, None if it is the whole tree that does. ``suffix``
    is the request group, None for conditions on the root and between groups. ``names`` are the
    class, traits, aggregates or suffixes. ``free`` may be negative. ``inventory`` is None for
    conditions other than amounts. ``detail`` has the amounts of a condition between groups.
    """

    host: str
    reason: RefusalReason
    suffix: str | None = None
    provider: str | None = None
    names: tuple[str, ...] = ()
    requested: int | None = None
    free: int | None = None
    used: int | None = None
    inventory: Inventory | None = None
    detail: str = ""

    @property
    def text(self) -> str:
        """Why the host fails: ``VCPU: 2 free, 8 requested (total 64, ...)``."""
        is_any = self.reason in {RefusalReason.REQUIRED, RefusalReason.MEMBER_OF}
        text = _TEXTS[self.reason].format(
            names=(" or " if is_any else " and ").join(self.names),
            free=self.free,
            available=getattr(self.inventory, self.reason, None),
        )
        if self.requested is not None:
            text += f", {self.requested} requested"
        if self.inventory is not None:
            text += f" ({_amounts(self.inventory, self.used or 0)})"
        return f"{text}: {self.detail}" if self.detail else text


#: What a failure says; ``{names}`` are its class, traits, aggregates or suffixes.
_TEXTS = {
    RefusalReason.NO_INVENTORY: "no inventory of {names}",
    RefusalReason.MIN_UNIT: "{names}: min_unit is {available}",
    RefusalReason.MAX_UNIT: "{names}: max_unit is {available}",
    RefusalReason.STEP_SIZE: "{names}: step_size is {available}",
    RefusalReason.CAPACITY: "{names}: {free} free",
    RefusalReason.REQUIRED: "lacks {names}",
    RefusalReason.FORBIDDEN: "has {names}",
    RefusalReason.MEMBER_OF: "not in aggregate {names}",
    RefusalReason.FORBIDDEN_AGGREGATE: "in aggregate {names}",
    RefusalReason.IN_TREE: "not in the tree of {names}",
    RefusalReason.ROOT_REQUIRED: "the root lacks {names}",
    RefusalReason.ROOT_FORBIDDEN: "the root has {names}",
    RefusalReason.NO_PROVIDER: "no provider of its tree takes part",
    RefusalReason.GROUP_REQUIRED: "no combination of providers has all traits",
    RefusalReason.COMBINED_CAPACITY: "not enough capacity for all groups together",
    RefusalReason.ISOLATE: "too few providers for group_policy=isolate",
    RefusalReason.SAME_SUBTREE: "no providers of one subtree (same_subtree)",
    RefusalReason.NOT_NESTED: "several providers of one tree are needed",
    RefusalReason.COMBINATION: "no combination of providers fits",
}


def _amounts(inventory: Inventory, used: int) -> str:
    fields = [f"total {inventory.total}"]
    if inventory.reserved:
        fields.append(f"reserved {inventory.reserved}")
    return ", ".join([*fields, f"ratio {inventory.allocation_ratio:.15g}", f"used {used}"])


#: The reasons that are about several groups.
_BETWEEN = {
    RefusalReason.COMBINED_CAPACITY,
    RefusalReason.ISOLATE,
    RefusalReason.SAME_SUBTREE,
    RefusalReason.COMBINATION,
}

#: Providers whose free amounts are listed.
_MOST_PLACES = 4

#: The reasons that are about an inventory.
_AMOUNTS = {
    RefusalReason.MIN_UNIT,
    RefusalReason.MAX_UNIT,
    RefusalReason.STEP_SIZE,
    RefusalReason.CAPACITY,
}


def explained(
    base: state.CloudState, query: candidate.CandidateQuery, roots: Iterable[str]
) -> list[Failure]:
    """The conditions that hosts fail; none for a host that can serve the query."""
    search = HostSearch(base, query)
    failures: list[Failure] = []
    for root in roots:
        if not search.can_serve(root):
            # Without any failure, only providers of other trees would take part.
            failures += dict.fromkeys(_Explained(search.forest, root).failures()) or [
                Failure(base.providers[root].name, RefusalReason.NO_PROVIDER)
            ]
    return failures


class ShortProvider(NamedTuple):
    """A provider that has too little left of some classes for an explained host.

    Of a sharing provider, ``host`` is the first of these hosts.
    """

    uuid: str
    name: str
    root_uuid: str
    host: str
    classes: frozenset[str]


def short_providers(
    base: state.CloudState, query: candidate.CandidateQuery, failures: Iterable[Failure]
) -> Iterator[ShortProvider]:
    """The providers whose used amounts make a host fail; each once."""
    requested = {name for group in query.groups for name in group.resources}
    forest = HostSearch(base, query).forest
    lacking: dict[str, str] = {}
    for failure in failures:
        root = base.named[failure.host]
        uuids: Iterable[str] = ()
        if failure.reason is RefusalReason.CAPACITY and failure.provider is not None:
            uuids = (base.named[failure.provider],)
        elif failure.reason in _BETWEEN:
            uuids = sorted({*base.tree[root], *forest.sharing_with(root)})
        for uuid in uuids:
            lacking.setdefault(uuid, failure.host)
    for uuid, host in lacking.items():
        provider = base.providers[uuid]
        used = frozenset(name for name in requested if base.used(uuid).get(name))
        if used:
            yield ShortProvider(uuid, provider.name, provider.root_uuid, host, used)


class _Explained:
    """One host, and the plan of the query."""

    def __init__(self, forest: Forest, root_uuid: str) -> None:
        self._forest, self._base, self._plan = forest, forest.base, forest.plan
        self._root_uuid = root_uuid
        self._host = self._base.providers[root_uuid].name
        # A service lists providers in any order: the root comes first, then its tree by name.
        tree, names = self._base.tree[root_uuid], self._base.providers
        uuids = sorted(
            {*tree, *self._sharing()},
            key=lambda uuid: (uuid not in tree, uuid != root_uuid, names[uuid].name),
        )
        self._providers = [self._base.providers[uuid] for uuid in uuids]

    def _sharing(self) -> Iterator[str]:
        """The sharing providers that can take part: with a requested class, or a bare group."""
        has_bare = any(not slot.resources for slot in self._plan.slots)
        for uuid in self._forest.sharing_with(self._root_uuid):
            if has_bare or not self._plan.totals.keys().isdisjoint(
                self._base.providers[uuid].inventories
            ):
                yield uuid

    def failures(self) -> Iterator[Failure]:
        for group in self._plan.groups:
            yield from self._missing_traits(group)
        for refusal in report.tree_refusals(self._forest, self._root_uuid):
            if refusal.reason is RefusalReason.NO_PROVIDER:
                suffix, *classes = refusal.names
                yield from self._no_provider(suffix, classes)
            elif refusal.reason is not RefusalReason.GROUP_REQUIRED:
                detail = self._numbers() if refusal.reason in _BETWEEN else ""
                yield Failure(self._host, refusal.reason, names=refusal.names, detail=detail)

    def _missing_traits(self, group: Group) -> Iterator[Failure]:
        """The traits of a group that no provider has, where all its providers may have them."""
        for any_of in group.group_required:
            if all(any_of.isdisjoint(provider.traits) for provider in self._providers):
                names = tuple(sorted(any_of))
                yield Failure(self._host, RefusalReason.REQUIRED, group.suffix, names=names)

    def _no_provider(self, suffix: str, classes: Sequence[str]) -> Iterator[Failure]:
        """Why no provider of the tree fits a slot: the reasons of those that come into question."""
        slot = next(
            item
            for item in self._plan.slots
            if item.group.suffix == suffix and set(item.resources) == set(classes)
        )
        suitable = [item for item in self._providers if item.inventories.keys() >= set(classes)]
        if not suitable:
            yield from self._no_inventory(slot)
        elif all(item.root_uuid != self._root_uuid for item in suitable):
            # Only sharing providers have the class: the conditions on the host are not theirs.
            yield from self._conditions_on_root(slot)
        for provider in suitable:
            for refusal in report.provider_refusals(self._base, slot, provider):
                yield self._failure(slot, provider, refusal)

    def _no_inventory(self, slot: Slot) -> Iterator[Failure]:
        suffix, requested = slot.group.suffix, slot.resources
        absent = [
            name
            for name in requested
            if all(name not in provider.inventories for provider in self._providers)
        ]
        for name in absent:
            amount = requested[name]
            yield Failure(self._host, RefusalReason.NO_INVENTORY, suffix, None, (name,), amount)
        if requested and not absent:
            # Each class exists, but no provider has all classes of the group.
            yield Failure(self._host, RefusalReason.NO_INVENTORY, suffix, names=tuple(requested))
        yield from self._conditions_on_root(slot)

    def _numbers(self) -> str:
        """What several groups request of a class, and where it is free."""
        parts = []
        for name, (_, requested) in self._plan.demands.items():
            if len(requested) == 1:
                continue
            free = {
                provider.name: provider.inventories[name].capacity
                - self._base.used(provider.uuid).get(name, 0)
                for provider in self._providers
                if name in provider.inventories
            }
            counts = collections.Counter(requested)
            wanted = " + ".join(f"{times} x {name}:{each}" for each, times in counts.items())
            places = [f"{each}: {amount}" for each, amount in free.items()]
            listed = and_more(places, _MOST_PLACES)
            isolated = " on separate providers" if self._plan.isolate else ""
            parts.append(f"{wanted}{isolated}, {sum(free.values())} free ({listed})")
        return "; ".join(parts)

    def _conditions_on_root(self, slot: Slot) -> Iterator[Failure]:
        root = self._base.providers[self._root_uuid]
        for refusal in report.provider_refusals(self._base, slot, root):
            if refusal.reason not in {*_AMOUNTS, RefusalReason.NO_INVENTORY}:
                yield self._failure(slot, root, refusal)

    def _failure(
        self, slot: Slot, provider: record.ProviderRecord, refusal: report.Refusal
    ) -> Failure:
        free = used = inventory = None
        providers = self._base.providers
        if refusal.reason in _AMOUNTS:
            inventory = provider.inventories[refusal.names[0]]
            used = self._base.used(provider.uuid).get(refusal.names[0], 0)
            free = inventory.capacity - used
        return Failure(
            self._host,
            refusal.reason,
            slot.group.suffix,
            provider.name,
            tuple(providers[name].name if name in providers else name for name in refusal.names),
            refusal.requested,
            free,
            used,
            inventory,
        )
