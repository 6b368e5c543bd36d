# SPDX-License-Identifier: Apache-2.0
"""The fewest live moves after which a flavor fits, and of those the smallest. Pure.

``fewest`` tries them. A state is left as soon as the moves that are left cannot make room: a host
lacks so much of a class that its largest servers together do not free it. So with as many moves as
this bound needs, only servers of hosts that are nearly free enough move; with more, a server may
also move to make room for another one::

    hosts a and b, 8 VCPU each; on a servers of 2 and 4, on b one of 5; a flavor of 4 VCPU
    bound: a has 2 free, so one of its servers must go; the server of 2 fits on b: one move
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from osc_placement.search import placing
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.moving import evenness, fewest
from osc_placement.workflows.moving.places import Moves, Wanted
from osc_placement.workflows.moving.steps import Amounts, DrainStep


def find(
    moves: Moves,
    wanted: Wanted,
    count: int,
    movable: Sequence[servers.PlacedServer],
    limit: int,
) -> fewest.Fewest:
    """The fewest of at most ``limit`` moves after which a request fits ``count`` times.

    ``wanted`` is among the ``more`` of ``moves``. ``movable`` are the servers that may move, none
    of a group with affinity; each moves once.
    """
    return fewest.find(_Room(moves, wanted, count, movable), 0, limit)


class _Room:
    """What is free, and the moves that are needed at least.

    The options of the request are in parts that share no provider: mostly one part a host.
    """

    def __init__(
        self,
        moves: Moves,
        wanted: Wanted,
        count: int,
        movable: Sequence[servers.PlacedServer],
    ) -> None:
        self._moves, self._count = moves, count
        self._options = moves.options_of(wanted.kind, ())
        self._movable = sorted(movable, key=lambda server: server.size)
        self._targets = {
            server.key: moves.options_for(server, [server.root_uuid]) for server in self._movable
        }
        self._parts = [
            _Part.of(options, self._movable)
            for options in placing.separate(self._options, lambda option: option.amounts)
        ]
        self._part_at = {slot: at for at, part in enumerate(self._parts) for slot in part.slots}
        #: Whether a move may free something in several parts: then their costs cannot be added.
        self._spans = any(len(self._parts_of(server)) > 1 for server in self._movable)
        self.steps: list[DrainStep] = []
        free = moves.free((), ())
        #: What is free, and the costs of each part, after each of the steps.
        self._states = [(free, [part.costs(free, (), count) for part in self._parts])]

    def spend(self) -> None:
        self._moves.budget.step()

    @property
    def _moved(self) -> frozenset[str]:
        return frozenset(step.server.key for step in self.steps)

    def key(self) -> Hashable:
        return self._moved, frozenset(self._states[-1][0].items())

    def is_reached(self) -> bool:
        left, _ = self._states[-1]
        return not self.bound() and placing.most(self._options, left).least >= self._count

    def bound(self) -> int:
        return self._bound(self._states[-1][1])

    def possible(self, depth: int) -> Iterator[DrainStep]:
        """The moves that may make room with ``depth`` less one more."""
        (left, costs), moved = self._states[-1], self._moved
        for server in self._movable:
            if server.key in moved:
                continue
            parts, freed = self._parts_of(server), _freed(self._moves, left, server)
            gone = self._changed(costs, parts, freed, moved | {server.key})
            # Even if it vanished, the other moves might not be enough.
            if self._bound(gone) < depth:
                for option in self._targets[server.key]:
                    if option.fits(left):
                        yield DrainStep(server, option)

    def put(self, step: DrainStep) -> None:
        left, costs = self._states[-1]
        after = _freed(self._moves, left, step.server)
        for slot, amount in step.option.amounts.items():
            after[slot] -= amount
        parts = {self._part_at[slot] for slot in step.option.amounts if slot in self._part_at}
        parts |= self._parts_of(step.server)
        self.steps.append(step)
        self._states.append((after, self._changed(costs, parts, after, self._moved)))

    def take_back(self) -> None:
        self.steps.pop()
        self._states.pop()

    def _changed(
        self, costs: list[list[int]], parts: set[int], left: Amounts, moved: frozenset[str]
    ) -> list[list[int]]:
        changed = list(costs)
        for at in parts:
            changed[at] = self._parts[at].costs(left, moved, self._count)
        return changed

    def _parts_of(self, server: servers.PlacedServer) -> set[int]:
        return {
            self._part_at[uuid, name]
            for uuid, resources in server.allocations.items()
            for name in resources
            if (uuid, name) in self._part_at
        }

    def _bound(self, costs: list[list[int]]) -> int:
        cheapest = heapq.nsmallest(self._count, itertools.chain.from_iterable(costs))
        if len(cheapest) < self._count:
            return evenness.NEVER
        return max(cheapest, default=0) if self._spans else sum(cheapest)


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """Options that share no provider with other options.

    ``needed`` is ``{class: amount of a request}``, ``gains`` ``{class: [(amount, server key)]}``:
    what single servers free in the part, the largest first.
    """

    slots: Collection[placing.Slot]
    needed: Mapping[str, int]
    gains: Mapping[str, Sequence[tuple[int, str]]]

    @classmethod
    def of(
        cls, options: Sequence[placing.Option], movable: Iterable[servers.PlacedServer]
    ) -> _Part:
        slots = placing.slots_of(options)
        gains: dict[str, list[tuple[int, str]]] = {}
        for server in movable:
            freed: dict[str, int] = {}
            for uuid, resources in server.allocations.items():
                for name, amount in resources.items():
                    if (uuid, name) in slots:
                        freed[name] = freed.get(name, 0) + amount
            for name, amount in freed.items():
                gains.setdefault(name, []).append((amount, server.key))
        for several in gains.values():
            several.sort(reverse=True)
        return cls(slots, placing.least_totals(options), gains)

    def costs(self, left: Amounts, moved: Collection[str], count: int) -> list[int]:
        """For each further request in the part, the moves that it needs at least.

        The list ends before a request that never fits, as if each moved server vanished.
        """
        free: dict[str, int] = {}
        for slot in self.slots:
            free[slot[1]] = free.get(slot[1], 0) + max(left[slot], 0)
        costs: list[int] = []
        for number in range(1, count + 1):
            needed = 0
            for name, amount in self.needed.items():
                lacking = number * amount - free.get(name, 0)
                gains = (gain for gain, key in self.gains.get(name, ()) if key not in moved)
                for at, gain in enumerate(itertools.chain([0], gains)):
                    lacking -= gain
                    if lacking <= 0:
                        needed = max(needed, at)
                        break
                else:
                    return costs
            costs.append(needed - sum(costs))
        return costs


def _freed(moves: Moves, left: Amounts, server: servers.PlacedServer) -> dict[placing.Slot, int]:
    """What is free when a server has left its host."""
    freed = moves.freed_by(server)
    return {**left, **{slot: left[slot] + amount for slot, amount in freed.items()}}
