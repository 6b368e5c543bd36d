# SPDX-License-Identifier: Apache-2.0
"""Which target of a server is preferred: spread, and scarce things last. Pure.

An experienced operator keeps free what few hosts have. So a server goes to a host without devices
and traits of flavors (a licence) that it does not request, then to one that does not fill the last
place for a flavor, and of these to the emptiest one after the move.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping

from osc_placement.engine import state
from osc_placement.model import candidate
from osc_placement.model.name import counted
from osc_placement.search import placing
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.cloud.hosts import hosts_of
from osc_placement.workflows.moving.places import Moves, Wanted

#: Classes that every host has: they are never scarce.
_ORDINARY = frozenset({"VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "MEM_ENCRYPTION_CONTEXT"})


class Preference:
    """``rank`` sorts the options of a server, see ``steps.Targets``; ``why`` explains the choice.

    ``flavors`` is ``{name: nova's queries}`` for the flavors whose last place is kept; their
    requests are among the ``more`` of ``moves``. ``stopped`` are the root UUIDs of the hosts that
    are emptied.
    """

    def __init__(
        self,
        moves: Moves,
        stopped: Collection[str],
        flavors: Mapping[str, Wanted],
    ) -> None:
        self._base, self._moves = moves.base, moves
        self._flavors, self._stopped = flavors, stopped
        hosts = [root for root in hosts_of(self._base) if root not in stopped]
        traits = {
            name
            for wanted in flavors.values()
            for several in wanted.queries
            for query in several
            for name in _required(query)
        }
        self._scarce = scarce(self._base, hosts, traits)
        self._last: tuple[Mapping[placing.Slot, int], LastPlaces] | None = None

    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: Mapping[placing.Slot, int]
    ) -> tuple[float | int | str, ...]:
        """The lowest is preferred: sure, scarce things, last places, fullness after it, UUID."""
        return (
            not self._moves.is_sure(server, option.root_uuid),
            len(self.scarce_beside(server, option.root_uuid)),
            len(self.last_places(option, left)),
            -self._emptiness(option, left),
            option.root_uuid,
        )

    def why(
        self,
        server: servers.PlacedServer,
        option: placing.Option,
        left: Mapping[placing.Slot, int],
        possible: int,
    ) -> str:
        """One phrase about the chosen target, for people."""
        scarce_things = self.scarce_beside(server, option.root_uuid)
        filled = self.last_places(option, left)
        which = (
            "the only host with room" if possible == 1 else f"best of {counted(possible, 'host')}"
        )
        notes = [f"it has {', '.join(scarce_things)}"] if scarce_things else []
        notes += [f"it is the last place for {', '.join(filled)}"] if filled else []
        return "; ".join([which, *notes])

    def scarce_beside(self, server: servers.PlacedServer, root: str) -> list[str]:
        """The scarce classes and traits of a host that the server does not request."""
        requested = {name for group in server.query.groups for name in group.resources}
        requested |= {
            name for group in server.query.groups for one in group.required for name in one
        }
        requested |= server.query.root_required
        return sorted(self._scarce.get(root, frozenset()) - requested)

    def last_places(self, option: placing.Option, left: Mapping[placing.Slot, int]) -> list[str]:
        """The flavors that fit on this host only, and not any more after the move."""
        if self._last is None or self._last[0] is not left:
            self._last = left, LastPlaces(self._moves, self._flavors, left, self._stopped)
        return self._last[1].lost(option, left)

    def _emptiness(self, option: placing.Option, left: Mapping[placing.Slot, int]) -> float:
        """The free part of the scarcest amount of the option after the move."""
        parts = []
        for (uuid, name), amount in option.amounts.items():
            offered = self._base.providers[uuid].inventories.get(name)
            if offered and self._base.providers[uuid].root_uuid == option.root_uuid:
                parts.append((left[uuid, name] - amount) / max(offered.capacity, 1))
        return min(parts, default=0.0)


class LastPlaces:
    """Where flavors still fit, on hosts that do not stop; ``left`` is what is free there."""

    def __init__(
        self,
        moves: Moves,
        flavors: Mapping[str, Wanted],
        left: Mapping[placing.Slot, int],
        stopped: Collection[str] = (),
    ) -> None:
        #: ``{flavor: {root UUID: its options that fit, by identity}}``
        self._fitting: dict[str, dict[str, dict[int, placing.Option]]] = {}
        self._using: dict[placing.Slot, list[tuple[str, placing.Option]]] = {}
        for name, wanted in flavors.items():
            self._fitting[name] = {}
            for option in moves.options_of(wanted.kind, stopped):
                self._check(name, option, left)
                for slot in option.amounts:
                    self._using.setdefault(slot, []).append((name, option))

    def _check(self, name: str, option: placing.Option, left: Mapping[placing.Slot, int]) -> None:
        roots = self._fitting[name]
        if option.fits(left):
            roots.setdefault(option.root_uuid, {})[id(option)] = option
        elif roots.get(option.root_uuid, {}).pop(id(option), None) and not roots[option.root_uuid]:
            del roots[option.root_uuid]

    def change(self, slots: Iterable[placing.Slot], left: Mapping[placing.Slot, int]) -> None:
        """What is free in these slots has changed."""
        changed = {
            (name, id(option)): option
            for slot in slots
            for name, option in self._using.get(slot, ())
        }
        for (name, _), option in changed.items():
            self._check(name, option, left)

    def lost(self, option: placing.Option, left: Mapping[placing.Slot, int]) -> list[str]:
        """The flavors that fit on the host of an option only, and not any more after it."""
        last = [name for name, roots in self._fitting.items() if [*roots] == [option.root_uuid]]
        if not last:
            return []
        after = {**left, **{slot: left[slot] - amount for slot, amount in option.amounts.items()}}
        return [
            name
            for name in last
            if not any(it.fits(after) for it in self._fitting[name][option.root_uuid].values())
        ]


def _required(query: candidate.CandidateQuery) -> set[str]:
    """The traits that a request requires."""
    of_groups = {name for group in query.groups for any_of in group.required for name in any_of}
    return of_groups | query.root_required


def scarce(
    base: state.CloudState, hosts: Iterable[str], traits: Collection[str] = ()
) -> dict[str, frozenset[str]]:
    """``{root UUID: the classes, and of ``traits`` those, that less than half of the hosts have}``.

    Traits that no flavor requires are not scarce: they may name a rack.
    """
    of_host: dict[str, set[str]] = {}
    for root in hosts:
        names: set[str] = set()
        for uuid in base.tree[root]:
            provider = base.providers[uuid]
            names |= provider.inventories.keys() - _ORDINARY
            names |= provider.traits.intersection(traits)
        of_host[root] = names
    numbers = collections.Counter(name for names in of_host.values() for name in names)
    few = {name for name, number in numbers.items() if 2 * number < len(of_host)}
    return {root: frozenset(names & few) for root, names in of_host.items()}
