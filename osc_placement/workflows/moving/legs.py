# SPDX-License-Identifier: Apache-2.0
"""Legs in which all hosts are emptied once, each planned on the state after the former ones. Pure.

The hosts of a leg are emptied together, come back empty, and are filled by the next leg. So mostly
only the servers of the first leg move twice::

    hosts a, b and c with one server each, d without any; one host a leg
    d: no move; a: to d; b: to a; c: to b. Four legs with three moves

First each leg takes as many hosts as it can, those with the fewest servers first. If hosts are left
over then, or if more legs are needed than the rules demand, a search tries every set of hosts and
every distribution of their servers. In a large cloud it ends early.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.moving import steps
from osc_placement.workflows.moving.places import Moves
from osc_placement.workflows.moving.reserve_plan import FailureReserve

#: Steps that the exact search tries before it ends.
EFFORT = 20_000
#: Seconds to look for an order of the moves of one leg.
_SECONDS = 5.0
#: Hosts that are tried for a leg if the first ones do not suffice, beside the most of a leg.
_MORE_HOSTS = 50


@dataclasses.dataclass(frozen=True, slots=True)
class LegRules:
    """How many hosts a leg may have, in all and of a zone; 0 without a limit.

    ``zone_of`` is ``{root UUID: zone}``; ``parallel`` and ``per_source`` are those of the moves.
    """

    at_once: int = 0
    per_zone: int = 0
    zone_of: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parallel: int = 1
    per_source: int = 0

    def most(self, roots: Collection[str], legs: int) -> int:
        """How many of these hosts so many legs may have."""
        number = len(roots) if legs else 0
        if self.per_zone:
            zones = collections.Counter(self.zone_of.get(root, "") for root in roots)
            number = sum(min(hosts, self.per_zone * legs) for hosts in zones.values())
        return min(number, self.at_once * legs) if self.at_once else number

    def least_legs(self, roots: Collection[str]) -> int:
        """Fewer legs cannot have all these hosts."""
        return next(legs for legs in itertools.count() if self.most(roots, legs) == len(roots))


@dataclasses.dataclass(frozen=True, slots=True)
class Leg:
    """Hosts (root UUIDs) that are emptied together, and the steps that empty them, in waves."""

    roots: tuple[str, ...]
    steps: tuple[steps.DrainStep, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Legs:
    """Legs in their order. ``left`` are hosts that no leg empties.

    ``is_proven``: no plan empties more hosts, or as many in fewer legs. ``moves`` are those on the
    state after all legs, where ``reserve`` is kept.
    """

    legs: tuple[Leg, ...]
    left: tuple[str, ...]
    is_proven: bool
    moves: Moves
    reserve: FailureReserve | None = None


#: A preference among targets for the state of a leg: its moves, its hosts, and the hosts that wait.
Preference = Callable[[Moves, Collection[str], Collection[str]], steps.Targets]


def find(
    moves: Moves,
    roots: Sequence[str],
    rules: LegRules,
    preference: Preference,
    there: Callable[[servers.PlacedServer], servers.PlacedServer] = lambda server: server,
    reserve: FailureReserve | None = None,
    first: Collection[str] = (),
    effort: int = EFFORT,
) -> Legs:
    """Legs that empty as many of the hosts as can be, and as few legs.

    ``there`` is what nova says of a server on its new host. ``reserve`` is kept at each moment. The
    hosts of ``first`` that can be emptied are in the first leg: they are being emptied.
    """
    planner = _Planner(rules, preference, there)
    possible = tuple(root for root in roots if _has_targets(moves, root))
    first = set(first).intersection(possible)
    start = _Point(moves, reserve, possible)
    legs, end = planner.steady(start, first)
    is_proven = not end.waiting and len(legs) == rules.least_legs(possible)
    if not is_proven:
        (legs, end), is_proven = planner.better(start, first, legs, end, effort)
    emptied = {root for leg in legs for root in leg.roots}
    left = tuple(root for root in roots if root not in emptied)
    return Legs(legs, left, is_proven and moves.is_complete, end.moves, end.reserve)


def _has_targets(moves: Moves, root: str) -> bool:
    """Whether each server of a host could go somewhere if all hosts were empty."""
    on_host = moves.servers_on([root])
    return all(moves.options_of(server.kind, [root]) for server in on_host)


@dataclasses.dataclass(frozen=True, slots=True)
class _Point:
    """The moves on a state between two legs, the reserve then, and the hosts that wait."""

    moves: Moves
    reserve: FailureReserve | None
    waiting: tuple[str, ...]


Reached = tuple[tuple[Leg, ...], _Point]


@dataclasses.dataclass(slots=True)
class _Planner:
    rules: LegRules
    preference: Preference
    there: Callable[[servers.PlacedServer], servers.PlacedServer]
    effort: int = 0
    failed: set[Hashable] = dataclasses.field(default_factory=set)

    def steady(self, start: _Point, first: Collection[str]) -> Reached:
        """Leg after leg, each with as many hosts as it can have."""
        legs: list[Leg] = []
        now = start
        try:
            while leg := self._next(now, first if not legs else ()):
                legs.append(leg)
                now = self._after(now, leg)
        except SearchTooLong:
            pass
        return tuple(legs), now

    def _after(self, now: _Point, leg: Leg) -> _Point:
        return _Point(
            steps.moves_after(now.moves, leg.steps, self.there),
            now.reserve and now.reserve.after(leg.steps),
            tuple(root for root in now.waiting if root not in leg.roots),
        )

    def _next(self, now: _Point, first: Collection[str]) -> Leg | None:
        """The first hosts that a leg may have; if they have no room together, those that do."""
        order = self._order(now, first)
        if not order:
            return None
        most = self.rules.most(order, 1)
        chosen: list[str] = []
        for root in order:
            if self._may_join(chosen, root):
                chosen.append(root)
        leg = self._leg(now, chosen)
        if leg is not None or most == 1 == len(order):
            return leg
        chosen = []
        for root in order[: most + _MORE_HOSTS]:
            if self._may_join(chosen, root):
                larger = self._leg(now, [*chosen, root])
                if larger is not None:
                    leg = larger
                    chosen.append(root)
                if len(chosen) == most:
                    break
        return leg

    def _may_join(self, chosen: Sequence[str], root: str) -> bool:
        return self.rules.most([*chosen, root], 1) > len(chosen)

    def _order(self, now: _Point, first: Collection[str]) -> list[str]:
        """Hosts that are being emptied, those of large zones, those with small servers."""
        zones = collections.Counter(self.rules.zone_of.get(root, "") for root in now.waiting)

        def rank(root: str) -> tuple[bool, int, int, str]:
            zone = zones[self.rules.zone_of.get(root, "")] if self.rules.per_zone else 0
            size = sum(server.size[0] for server in now.moves.servers_on([root]))
            return root not in first, -zone, size, now.moves.base.providers[root].name

        return sorted(now.waiting, key=rank)

    def _leg(self, now: _Point, roots: Sequence[str]) -> Leg | None:
        """A leg with these hosts, if there is one with the preferred targets."""
        moving = now.moves.servers_on(roots)
        reserve = now.reserve
        try:
            schedule = steps.schedule(
                now.moves.limited_to(_SECONDS),
                roots,
                moving,
                self.preference(now.moves, roots, now.waiting),
                self.rules.parallel,
                None if reserve is None else lambda done: reserve.is_kept(roots, done),
                per_source=self.rules.per_source,
            )
        except SearchTooLong:
            now.moves.budget.check()
            return None
        if schedule.left or (reserve is not None and not reserve.is_kept(roots, schedule.steps)):
            return None
        return Leg(tuple(roots), schedule.steps)

    def better(
        self,
        start: _Point,
        first: Collection[str],
        legs: tuple[Leg, ...],
        end: _Point,
        effort: int,
    ) -> tuple[Reached, bool]:
        """The most hosts in the fewest legs, and whether it is proven, with all of ``first``."""
        self.effort = effort
        best = legs, end
        try:
            for number in range(len(start.waiting), 0, -1):
                emptied = len(start.waiting) - len(end.waiting)
                limit = len(legs) - 1 if number == emptied else number
                for depth in range(1, limit + 1):
                    self.failed.clear()
                    if reached := self._grow(start, first, depth, number):
                        return reached, True
                if number == emptied:
                    break
        except SearchTooLong:
            return best, False
        # Without a first leg that all of them may have, the search has tried nothing.
        return best, not first or (bool(legs) and set(first) <= set(legs[0].roots))

    def _grow(self, now: _Point, first: Collection[str], depth: int, number: int) -> Reached | None:
        """So many legs that empty ``number`` of the waiting hosts. Raises SearchTooLong."""
        if number <= 0:
            return (), now
        if self.rules.most(now.waiting, depth) < number:
            return None
        state = depth, number, now.waiting, _places(now)
        if state in self.failed:
            return None
        for size in range(self.rules.most(now.waiting, 1), 0, -1):
            for roots in itertools.combinations(now.waiting, size):
                if self.rules.most(roots, 1) < size or not set(first) <= set(roots):
                    continue
                for leg in self._every_leg(now, roots):
                    after = self._after(now, leg)
                    reached = self._grow(after, (), depth - 1, number - size)
                    if reached is not None:
                        return (leg, *reached[0]), reached[1]
        self.failed.add(state)
        return None

    def _every_leg(self, now: _Point, roots: Sequence[str]) -> Iterator[Leg]:
        """A leg with these hosts for each distribution of their servers. Raises SearchTooLong."""
        targets = self.preference(now.moves, roots, now.waiting)
        moving, spend = now.moves.servers_on(roots), functools.partial(self._spend, now.moves)
        for done in steps.ends(now.moves, roots, moving, spend):
            self.effort -= len(now.moves.base.providers) if now.reserve else 1
            if now.reserve is None or now.reserve.is_kept(roots, done):
                yield Leg(
                    tuple(roots),
                    steps.waves_of(
                        now.moves, roots, done, targets, self.rules.parallel, self.rules.per_source
                    ),
                )

    def _spend(self, moves: Moves) -> None:
        self.effort -= 1
        if self.effort < 0:
            raise SearchTooLong(seconds=0)
        moves.budget.step()


def _alike(moves: Moves, server: servers.PlacedServer) -> tuple[Hashable, ...]:
    """Equal for servers of which it does not matter which one moves."""
    freed = frozenset(moves.freed_by(server).items())
    return server.root_uuid, server.kind, server.together, freed


def _places(now: _Point) -> Hashable:
    """Which servers are where, as far as it matters for the hosts that wait."""
    moves = now.moves
    counting = moves.servers_on(now.waiting if now.reserve is None else moves.base.tree)
    counts = collections.Counter(_alike(moves, server) for server in counting)
    together = {server.together for server in counting if server.together}
    members = frozenset((group, moves.hosts_of_group(group)) for group in together)
    return frozenset(counts.items()), members, tuple(sorted(moves.free((), ()).items()))
