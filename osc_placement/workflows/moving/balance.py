# SPDX-License-Identifier: Apache-2.0
"""The fewest moves after which hosts are evenly used, and of those the smallest. Pure.

First ranges of shares are tried that need few moves at least (``evenness``): the move that brings
most amounts into the range comes first, until all hosts are in it. Then ``fewest`` tries every set
of fewer moves, from the bound on. In a large cloud it ends early; then the answer is the plan so
far with the bound.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.search import placing
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.moving import evenness, fewest
from osc_placement.workflows.moving.evenness import NEVER, TOLERANCE, HostShare
from osc_placement.workflows.moving.places import Moves, Wanted
from osc_placement.workflows.moving.steps import Amounts, DrainStep, IsKept
from osc_placement.workflows.moving.targets import LastPlaces

#: Ranges of shares that are tried; the mean is in each of them.
_RANGES = 10
#: The sources and the targets among which the best move is looked for.
_CLOSEST = 8
#: The most moves that the exact search tries to find fewer of.
_DEEPEST = 40
#: Numbers of hosts that the exact search adds up before it ends.
EFFORT = 100_000
#: Halvings to find the smallest spread that is reached, if the limit is not.
_HALVINGS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class EvenPart:
    """Hosts that take the same servers: root UUIDs, and the class by which they are even.

    ``movable`` are the servers on them that may move.
    """

    roots: Sequence[str]
    name: str
    movable: Sequence[servers.PlacedServer]


@dataclasses.dataclass(frozen=True, slots=True)
class Balanced:
    """Steps in their order, and the use of the hosts before and after them.

    ``is_reached``: the spread is within the limit then. ``at_least``: fewer moves are not enough
    for the limit, it is proven; None if no moves are. ``least_spread``: none bring the spread below
    it. ``is_smallest``: no plan with as many moves has smaller servers.
    """

    steps: tuple[DrainStep, ...]
    before: Sequence[HostShare]
    after: Sequence[HostShare]
    is_reached: bool
    at_least: int | None
    least_spread: float
    is_smallest: bool = False


def find(
    moves: Moves,
    part: EvenPart,
    within: float,
    most_moves: int,
    flavors: Mapping[str, Wanted],
    scarce_beside: Callable[[servers.PlacedServer, str], Collection[str]] = lambda *_: (),
    is_kept: IsKept | None = None,
    done: Sequence[DrainStep] = (),
    effort: int = EFFORT,
) -> Balanced:
    """The fewest moves after which the spread is at most ``within``, if ``most_moves`` suffice.

    Otherwise those after which it is the smallest that was found. Each server moves at most once,
    to no host with scarce things that it does not request, and none takes the last place of one of
    ``flavors``, which are among the ``more`` of ``moves``. ``is_kept`` holds after each step.
    ``done`` are steps for other hosts, which come first.
    """
    search = _Search(moves, part, flavors, scarce_beside, is_kept, done)
    before = search.hosts()
    bound = evenness.least_moves(before, within)
    least = evenness.least_spread(before) if search.is_conserved else 0.0
    if least > within + TOLERANCE:
        bound = NEVER
    most_moves = min(most_moves, len(part.movable))
    best = search.preferred(within, most_moves) if bound <= most_moves else None
    nearest: tuple[DrainStep, ...] = ()
    if best is None:
        nearest = search.closest(max(within, least), most_moves)
        search.replay(nearest)
        best = nearest if evenness.spread(search.hosts()) <= within + TOLERANCE else None
        search.replay(())
    is_smallest = False
    if bound <= most_moves:
        best, bound, is_smallest = search.deepened(within, best, bound, most_moves, effort)
    steps = nearest if best is None else best
    search.replay(steps)
    at_least = bound if bound < NEVER else None
    after = search.hosts()
    return Balanced(steps, before, after, best is not None, at_least, least, is_smallest)


def after(moves: Moves, left: Amounts, step: DrainStep) -> dict[placing.Slot, int]:
    """What is free after the end of a step."""
    changed = dict(left)
    for slot, amount in step.option.amounts.items():
        changed[slot] -= amount
    for slot, amount in moves.freed_by(step.server).items():
        changed[slot] += amount
    return changed


class _Search:
    """The hosts, their servers and what is free, while steps are put and taken back."""

    def __init__(
        self,
        moves: Moves,
        part: EvenPart,
        flavors: Mapping[str, Wanted],
        scarce_beside: Callable[[servers.PlacedServer, str], Collection[str]],
        is_kept: IsKept | None,
        done: Sequence[DrainStep],
    ) -> None:
        base, self._budget, self._is_kept = moves.base, moves.budget, is_kept
        self._roots = list(part.roots)
        self._capacity = {root: evenness.capacity_of(base, root, part.name) for root in part.roots}
        self._used = {root: evenness.used_of(base, root, part.name) for root in part.roots}
        self._left = functools.reduce(functools.partial(after, moves), done, moves.free((), ()))
        self._places = LastPlaces(moves, flavors, self._left)
        self._freed = {server.key: moves.freed_by(server) for server in part.movable}
        self.steps: list[DrainStep] = []
        self._weight = {
            server.key: sum(
                server.allocations.get(uuid, {}).get(part.name, 0)
                for uuid in base.tree[server.root_uuid]
            )
            for server in part.movable
        }
        #: ``{server key: options on the hosts, with what each takes of the class}``
        self._options: dict[str, list[tuple[placing.Option, int]]] = {}
        by_kind: dict[Hashable, list[tuple[placing.Option, int]]] = {}
        for server in part.movable:
            kind = server.kind
            if kind not in by_kind:
                by_kind[kind] = [
                    (option, _amount(base.tree[option.root_uuid], option, part.name))
                    for option in moves.options_of(kind, ())
                    if option.root_uuid in self._capacity
                    and not scarce_beside(server, option.root_uuid)
                ]
            self._options[server.key] = by_kind[kind]
        self._waiting: dict[str, dict[str, servers.PlacedServer]] = {
            root: {} for root in part.roots
        }
        for server in sorted(part.movable, key=lambda server: server.size):
            self._waiting[server.root_uuid][server.key] = server
        #: Equal for servers on a host of which it does not matter which one moves.
        self._alike: dict[str, Hashable] = {
            server.key: (
                id(self._options[server.key]),
                self._weight[server.key],
                frozenset(self._freed[server.key].items()),
            )
            for server in part.movable
        }
        self.is_conserved = all(
            amount == self._weight[server.key]
            for server in part.movable
            for _, amount in self._options[server.key]
        )

    def hosts(self) -> list[HostShare]:
        """The hosts as they are now, with the servers that did not move."""
        waiting = [key for several in self._waiting.values() for key in several]
        kinds = collections.Counter(id(self._options[key]) for key in waiting)
        coming: dict[str, list[tuple[int, int]]] = {root: [] for root in self._roots}
        for options in {id(self._options[key]): self._options[key] for key in waiting}.values():
            largest: dict[str, int] = {}
            for option, amount in options:
                largest[option.root_uuid] = max(largest.get(option.root_uuid, 0), amount)
            for root, amount in largest.items():
                coming[root].append((amount, kinds[id(options)]))
        return [
            HostShare(
                root,
                self._used[root],
                self._capacity[root],
                evenness.sizes_of(self._weight[key] for key in self._waiting[root]),
                sorted(((size, count) for size, count in coming[root] if size), reverse=True),
            )
            for root in self._roots
        ]

    def put(self, step: DrainStep) -> None:
        self._put(step, 1)

    def take_back(self) -> None:
        self._put(self.steps[-1], -1)

    def _put(self, step: DrainStep, sign: int) -> None:
        server, option = step.server, step.option
        for slot, amount in option.amounts.items():
            self._left[slot] -= sign * amount
        for slot, amount in self._freed[server.key].items():
            self._left[slot] += sign * amount
        self._used[server.root_uuid] -= sign * self._weight[server.key]
        self._used[option.root_uuid] += sign * self._taken(step)
        if sign > 0:
            del self._waiting[server.root_uuid][server.key]
            self.steps.append(step)
        else:
            self._waiting[server.root_uuid][server.key] = server
            self.steps.pop()
        self._places.change((*option.amounts, *self._freed[server.key]), self._left)

    def _taken(self, step: DrainStep) -> int:
        return next(
            amount for option, amount in self._options[step.server.key] if option is step.option
        )

    def _is_possible(self, server: servers.PlacedServer, option: placing.Option) -> bool:
        """Whether there is room while the source is held, and what must stay free does."""
        if option.root_uuid == server.root_uuid or not option.fits(self._left):
            return False
        if self._places.lost(option, self._left):
            return False
        return self._is_kept is None or self._is_kept([*self.steps, DrainStep(server, option)])

    def replay(self, steps: Sequence[DrainStep]) -> None:
        """The state after these steps, and no others."""
        while self.steps:
            self.take_back()
        for step in steps:
            self.put(step)

    def preferred(self, within: float, most_moves: int) -> tuple[DrainStep, ...] | None:
        """The fewest steps that the preferred moves of some ranges need; None if they need more."""
        plans = []
        mean = evenness.mean(self.hosts())
        middle_first = sorted(range(_RANGES + 1), key=lambda at: abs(2 * at - _RANGES))
        try:
            for at in middle_first:
                lowest = mean - within * at / _RANGES
                self.replay(())
                if self._fill(lowest, lowest + within, most_moves):
                    plans.append(tuple(self.steps))
                    most_moves = len(self.steps)
        except SearchTooLong:
            pass
        self.replay(())
        return min(plans, key=lambda steps: (len(steps), fewest.total(steps)), default=None)

    def _fill(self, lowest: float, highest: float, most_moves: int) -> bool:
        """Put the best steps until the shares are in a range; whether at most so many do it."""
        while len(self.steps) <= most_moves:
            self._budget.check()
            outside = {root: self._outside(root, 0, lowest, highest) for root in self._roots}
            if max(outside.values()) <= 0:
                return True
            step = self._best_step(lowest, highest)
            if step is None or len(self.steps) == most_moves:
                return False
            self.put(step)
        return False

    def _outside(self, root: str, more: int, lowest: float, highest: float) -> float:
        """How much the use of a host, and ``more``, is above a range or below it."""
        used, capacity = self._used[root] + more, self._capacity[root]
        above = used - (highest + TOLERANCE) * capacity
        return max(above, (lowest - TOLERANCE) * capacity - used, 0.0)

    def _best_step(self, lowest: float, highest: float) -> DrainStep | None:
        """The step that brings most into the range, and of those the one of the smallest server.

        First between the hosts that are furthest from it, then between more.
        """
        above = {root: self._used[root] - highest * self._capacity[root] for root in self._roots}
        below = {root: lowest * self._capacity[root] - self._used[root] for root in self._roots}
        number = _CLOSEST
        while True:
            sources = heapq.nlargest(number, self._roots, key=lambda root: above[root])
            targets = heapq.nlargest(number, self._roots, key=lambda root: below[root])
            ranked = sorted(self._gains(sources, set(targets), lowest, highest), key=_rank)
            for _, server, option in ranked:
                if self._is_possible(server, option):
                    return DrainStep(server, option)
            if number >= len(self._roots):
                return None
            number *= _CLOSEST

    def _gains(
        self, sources: Sequence[str], targets: Collection[str], lowest: float, highest: float
    ) -> Iterator[tuple[float, servers.PlacedServer, placing.Option]]:
        """The steps that bring something into the range, with the amount."""
        now = {root: self._outside(root, 0, lowest, highest) for root in (*sources, *targets)}
        for source in sources:
            for server in self._different(source):
                weight = self._weight[server.key]
                gone = now[source] - self._outside(source, -weight, lowest, highest)
                for option, amount in self._options[server.key]:
                    target = option.root_uuid
                    if target not in targets or target == source:
                        continue
                    gain = gone + now[target] - self._outside(target, amount, lowest, highest)
                    if gain > TOLERANCE:
                        yield gain, server, option

    def _different(self, root: str) -> list[servers.PlacedServer]:
        """The servers on a host that wait; of equal ones only the first."""
        different: dict[Hashable, servers.PlacedServer] = {}
        for server in self._waiting[root].values():
            different.setdefault(self._alike[server.key], server)
        return list(different.values())

    def closest(self, least: float, most_moves: int) -> tuple[DrainStep, ...]:
        """The steps of the smallest spread that preferred moves reach, not below ``least``."""
        low, high = least, evenness.spread(self.hosts())
        best: tuple[DrainStep, ...] = ()
        middle = low
        for _ in range(_HALVINGS):
            steps = self.preferred(middle, most_moves) if middle < high - TOLERANCE else None
            if steps is None:
                low = middle
            else:
                best, high = steps, middle
            middle = (low + high) / 2
        return best

    def deepened(
        self,
        within: float,
        best: tuple[DrainStep, ...] | None,
        bound: int,
        most_moves: int,
        effort: int,
    ) -> tuple[tuple[DrainStep, ...] | None, int, bool]:
        """``(the fewest and smallest steps, the bound, whether none are smaller)``."""
        self._effort, self._within = effort, within
        limit = most_moves if best is None else len(best)
        if bound > _DEEPEST:
            return best, bound, False
        answer = fewest.find(self, bound, min(limit, _DEEPEST), best)
        if answer.steps is None and limit > _DEEPEST:
            return best, answer.at_least, False
        return answer.steps, answer.at_least, answer.is_smallest

    def spend(self) -> None:
        self._budget.step()
        self._effort -= len(self._roots)
        if self._effort < 0:
            raise SearchTooLong(seconds=0)

    def key(self) -> Hashable:
        return frozenset((step.server.key, id(step.option)) for step in self.steps)

    def is_reached(self) -> bool:
        return evenness.spread(self.hosts()) <= self._within + TOLERANCE

    def bound(self) -> int:
        return evenness.least_moves(self.hosts(), self._within)

    def possible(self, depth: int) -> Iterator[DrainStep]:
        waiting = [server for root in self._roots for server in self._different(root)]
        for server in sorted(waiting, key=lambda server: server.size):
            for option, _ in self._options[server.key]:
                if self._is_possible(server, option):
                    yield DrainStep(server, option)


def _amount(tree: Collection[str], option: placing.Option, name: str) -> int:
    return sum(
        amount for (uuid, of), amount in option.amounts.items() if of == name and uuid in tree
    )


def _rank(
    gain: tuple[float, servers.PlacedServer, placing.Option],
) -> tuple[float, int, str, str]:
    amount, server, option = gain
    return -round(amount, 6), *server.size, option.root_uuid
