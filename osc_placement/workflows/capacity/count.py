# SPDX-License-Identifier: Apache-2.0
"""How often a request fits, in all hosts or in some of them, and what remains. Pure."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from osc_placement.engine import record, state
from osc_placement.engine.candidates import plans
from osc_placement.engine.candidates.forest import Forest
from osc_placement.search import placing
from osc_placement.workflows.cloud import options, servers


class ClassCapacity(NamedTuple):
    """One class on the providers that the request may use, in units of the class.

    ``fits``: how often the request would fit if it needed this class alone. ``left`` is free after
    the last request that fits; ``fragmented`` is the part of it on providers with less than one
    request needs.
    """

    name: str
    requested: int
    capacity: int
    used: int
    free: int
    fits: int
    left: int
    fragmented: int


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """How often a request fits.

    ``hosts`` is the number of hosts that can serve it once, not only by sharing providers.
    ``classes`` are those of the request; the scarcest one comes first. ``refused`` are the root
    UUIDs of hosts that Placement would use, but that take no server.
    """

    count: placing.FitCount
    hosts: int
    classes: tuple[ClassCapacity, ...]
    refused: tuple[str, ...] = ()

    @property
    def scarcest(self) -> str:
        """The class of which the fewest requests find enough; empty without classes."""
        return self.classes[0].name if self.classes else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Fits:
    """How often a request fits, and on how many hosts.

    ``is_complete``: no tree has more allocation candidates than were looked at; otherwise
    ``number.most`` is no upper bound.
    """

    number: placing.FitCount
    hosts: int
    is_complete: bool


class Counter:
    """Counts one request on a state of a cloud; the counts of several parts are independent.

    ``queries`` are those of the request: what fits a query of each release fits.

    ``without`` are the root UUIDs of trees that are left out; ``refused`` those of hosts that take
    no server, though other hosts may use what their trees share. ``among`` are the root UUIDs of
    the only trees to look at; None for all.
    """

    def __init__(
        self,
        base: state.CloudState,
        queries: servers.Queries,
        without: Collection[str] = (),
        refused: Collection[str] = (),
        among: Collection[str] | None = None,
    ) -> None:
        self._base, self._without, self._refused = base, without, frozenset(refused)
        self._plan = plans.prepare(base, queries[0][0])
        self._forest = Forest(base, self._plan)
        self._by_root: dict[str, list[placing.Option]] = collections.defaultdict(list)
        self._free: dict[placing.Slot, int] = {}
        self._is_complete, self._not_counted = True, dict[str, None]()
        for query in queries[0]:
            options_found = options.find(base, query, refused=self._refused, among=among)
            for option, roots in zip(options_found.options, options_found.roots, strict=True):
                if not options.uses_trees(base, option, without):
                    for root in roots:
                        self._by_root[root].append(option)
            self._free |= options.free_amounts(base, options_found.options)
            self._is_complete = self._is_complete and options_found.is_complete
            self._not_counted |= dict.fromkeys(options_found.not_counted)

    def shared_with(self, roots: Iterable[str]) -> set[str]:
        """The providers of other trees that the request may use on these hosts."""
        options = ((root, option) for root in roots for option in self._by_root.get(root, ()))
        used = ((root, uuid) for root, option in options for uuid, _ in option.amounts)
        return {uuid for root, uuid in used if self._base.providers[uuid].root_uuid != root}

    def fits(self, roots: Iterable[str]) -> Fits:
        """How often the request fits on the hosts with these roots, and on how many of them."""
        by_root = {root: self._by_root.get(root, []) for root in roots if root not in self._refused}
        # Several trees may have the same option, with what they share.
        chosen = {id(option): option for some in by_root.values() for option in some}
        hosts = sum(any(option.is_of_host for option in some) for some in by_root.values())
        number = placing.most(list(chosen.values()), self._free)
        return Fits(number, hosts, self._is_complete)

    @property
    def not_counted(self) -> tuple[str, ...]:
        """The root UUIDs of hosts that Placement would use, but that take no server."""
        return tuple(self._not_counted)

    def serving(self, roots: Iterable[str]) -> list[str]:
        """Those of some hosts on which the request fits."""
        return [
            root
            for root in roots
            if any(option.fits(self._free) for option in self._by_root.get(root, ()))
        ]

    def count(self, roots: Iterable[str]) -> Capacity:
        """How often the request fits on the hosts with these roots, and what remains."""
        requested = list(roots)
        roots = [root for root in requested if root not in self._refused]
        fits = self.fits(roots)
        found = fits.number
        taken: collections.Counter[placing.Slot] = collections.Counter()
        for option, number in found.chosen:
            for slot, amount in option.amounts.items():
                taken[slot] += number * amount
        providers = self._providers(roots)
        classes = [self._class(name, providers, taken) for name in self._plan.totals]
        if not fits.is_complete:
            upper = min(group.fits for group in classes)
            found = dataclasses.replace(found, most=max(upper, found.least))
        return Capacity(
            found,
            fits.hosts,
            tuple(sorted(classes, key=lambda group: group.fits)),
            tuple(root for root in self.not_counted if root in requested),
        )

    def _providers(self, roots: Sequence[str]) -> list[record.ProviderRecord]:
        """The providers of the trees that the request may use, and those that share with them."""
        uuids: dict[str, None] = {}
        for root in roots:
            there = [*self._base.tree[root], *self._forest.sharing_with(root)]
            if self._admits(root, there):
                uuids.update(dict.fromkeys(there))
        providers = (self._base.providers[uuid] for uuid in uuids)
        return [provider for provider in providers if provider.root_uuid not in self._without]

    def _admits(self, root: str, uuids: Sequence[str]) -> bool:
        """Whether a tree and its sharing providers meet all conditions but those on amounts."""
        providers = [self._base.providers[uuid] for uuid in uuids]
        classes: dict[str, set[str]] = collections.defaultdict(set)
        for slot in self._plan.slots:
            classes[slot.group.suffix].update(slot.resources)
        for group in self._plan.groups:
            names = classes[group.suffix]
            admitted = [
                provider
                for provider in providers
                if group.admits(self._base, provider)
                and not (names and names.isdisjoint(provider.inventories))
            ]
            there = frozenset[str]().union(*(host.traits for host in admitted))
            if not admitted or any(any_of.isdisjoint(there) for any_of in group.group_required):
                return False
        return self._plan.admits_root(self._base.providers[root])

    def _class(
        self,
        name: str,
        providers: Iterable[record.ProviderRecord],
        taken: Mapping[placing.Slot, int],
    ) -> ClassCapacity:
        slots = [slot for slot in self._plan.slots if name in slot.resources]
        amounts = [slot.resources[name] for slot in slots]
        unit = math.gcd(*amounts)
        capacity = used = free = usable = left = fragmented = 0
        for provider in providers:
            offered = provider.inventories.get(name)
            fitting = [slot for slot in slots if slot.group.admits(self._base, provider)]
            if offered is None or not fitting:
                continue
            used_here = self._base.used(provider.uuid).get(name, 0)
            free_here = max(offered.capacity - used_here, 0)
            left_here = free_here - taken.get((provider.uuid, name), 0)
            capacity, used = capacity + offered.capacity, used + used_here
            free, left = free + free_here, left + left_here
            if any(offered.suits_units(slot.resources[name]) for slot in fitting):
                usable += free_here // unit * unit
            if left_here < min(amounts):
                fragmented += left_here
        requested = sum(amounts)
        fits = usable // requested
        return ClassCapacity(name, requested, capacity, used, free, fits, left, fragmented)
