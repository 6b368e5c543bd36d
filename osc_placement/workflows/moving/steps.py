# SPDX-License-Identifier: Apache-2.0
"""An order of moves that empties hosts, each possible on the state after the former ones. Pure.

While a server moves, nova holds its allocations twice: those of the target belong to the server,
those of the source to the migration until it ends. So a step needs what it takes from the target
before it frees anything; only a shared pool can be both. The servers of other hosts stay::

    a shared pool with 10 GB free; a and b have 8 GB each in it, and are on the host that stops
    a moves: 8 of 10 are taken, then its old 8 are free again; b moves: the same
    with a and b in one wave 16 would be needed: so they move in two waves

``schedule`` finds an order if there is one: first with the targets that are preferred, then with
those of an exact search. A server moves once, from a host that stops to one that does not.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from osc_placement.engine import record, state
from osc_placement.engine.candidates.budget import SearchTooLong
from osc_placement.model import allocation
from osc_placement.search import placing
from osc_placement.workflows.cloud import servers
from osc_placement.workflows.moving.places import Moves

Amounts = Mapping[placing.Slot, int]


class Targets(Protocol):
    """Which option of a server is preferred, at a moment with ``left`` free."""

    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: Amounts
    ) -> tuple[float | int | str, ...]:
        """The lowest is preferred."""

    def why(
        self, server: servers.PlacedServer, option: placing.Option, left: Amounts, possible: int
    ) -> str:
        """A phrase about the option; so many hosts had room: ``possible``."""


@dataclasses.dataclass(frozen=True, slots=True)
class DrainStep:
    """A server and its target. Steps of one ``wave`` may run at the same time.

    ``why`` says why this target.
    """

    server: servers.PlacedServer
    option: placing.Option
    wave: int = 0
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """Steps in their order; ``left`` are servers without a step.

    ``is_proven``: no order of moves has a step for every server of ``left`` too. Without servers
    in ``left`` it is always true. ``kept_back`` are the keys of servers of ``left`` that have room,
    but only what must stay free.
    """

    steps: tuple[DrainStep, ...]
    left: tuple[servers.PlacedServer, ...] = ()
    is_proven: bool = True
    kept_back: frozenset[str] = frozenset()


#: Whether enough stays free after steps.
IsKept = Callable[[Sequence[DrainStep]], bool]


def schedule(
    moves: Moves,
    stopped: Sequence[str],
    moving: Sequence[servers.PlacedServer],
    targets: Targets,
    parallel: int = 1,
    is_kept: IsKept | None = None,
    *,
    per_source: int = 0,
) -> Schedule:
    """Steps for all servers, or for as many as one attempt finds if not all can move.

    ``stopped`` are the root UUIDs of the hosts, ``moving`` their servers that nova moves. Up to
    ``parallel`` steps are in a wave, of these up to ``per_source`` from one host. With
    ``is_kept``, servers stay whose steps it refuses; another attempt could move more of them.
    Raises the errors of ``is_kept``.
    """
    problem = _Problem(moves, stopped, _in_turn(moving, per_source), targets)
    steps = problem.preferred()
    is_proven = True
    if len(steps) < len(moving):
        try:
            exact = problem.exact()
        except SearchTooLong:
            exact, is_proven = None, False
        is_proven = exact is not None or (is_proven and moves.is_complete)
        steps = steps if exact is None else exact
    kept = steps if is_kept is None else problem.kept(steps, is_kept)
    placed = {step.server.key for step in kept}
    return Schedule(
        in_waves(kept, problem.free, problem.after, problem.why, parallel, per_source),
        tuple(server for server in problem.moving if server.key not in placed),
        is_proven,
        frozenset(step.server.key for step in steps) - placed,
    )


def waves_of(
    moves: Moves,
    stopped: Sequence[str],
    done: Sequence[DrainStep],
    targets: Targets,
    parallel: int = 1,
    per_source: int = 0,
) -> tuple[DrainStep, ...]:
    """The same steps in waves, each with the reason for its target."""
    problem = _Problem(moves, stopped, [step.server for step in done], targets)
    return in_waves(done, problem.free, problem.after, problem.why, parallel, per_source)


def moves_all(moves: Moves, stopped: Sequence[str], moving: Sequence[servers.PlacedServer]) -> bool:
    """Whether some order of moves has a step for every server. Raises SearchTooLong."""
    problem = _Problem(moves, stopped, _in_turn(moving, 0), _AnyTarget())
    return len(problem.preferred()) == len(moving) or problem.exact() is not None


def ends(
    moves: Moves,
    stopped: Sequence[str],
    moving: Sequence[servers.PlacedServer],
    spend: Callable[[], None],
) -> Iterator[tuple[DrainStep, ...]]:
    """Steps for all servers, in an order, for each distribution that an order leads to.

    ``spend`` is called for each state and may raise SearchTooLong.
    """
    return _Problem(moves, stopped, moving, _AnyTarget()).ends(spend)


def after(base: state.CloudState, done: Iterable[DrainStep]) -> state.CloudState:
    """The state after the end of steps."""
    changed: dict[str, record.ConsumerRecord] = {}
    for step in done:
        server, option = step.server, step.option
        consumer = changed.get(server.uuid, base.consumers[server.uuid])
        own = {
            uuid: dict(resources)
            for uuid, resources in consumer.allocations.items()
            if uuid not in server.allocations
        }
        for uuid, resources in allocations_of(base, option).items():
            own.setdefault(uuid, {}).update(resources)
        changed[server.uuid] = dataclasses.replace(consumer, allocations=own)
    left = base.copy()
    left.apply(record.Changes(consumers=changed))
    return left


def moves_after(
    moves: Moves,
    done: Sequence[DrainStep],
    there: Callable[[servers.PlacedServer], servers.PlacedServer] = lambda server: server,
) -> Moves:
    """The moves after the end of steps; ``there`` is what nova says of a server on its target."""
    base = moves.base
    arrivals = []
    for step in done:
        own = allocations_of(base, step.option)
        after_step = dataclasses.replace(
            step.server, root_uuid=step.option.root_uuid, allocations=own
        )
        arrivals.append((step.server, step.option, there(after_step)))
    return moves.arrived(after(base, done), arrivals)


def allocations_of(base: state.CloudState, option: placing.Option) -> allocation.Allocations:
    """The allocations of an option, without places of server groups."""
    taken: dict[str, dict[str, int]] = {}
    for (uuid, name), amount in option.amounts.items():
        if name in base.providers[uuid].inventories:
            taken.setdefault(uuid, {})[name] = amount
    return taken


#: Steps, the servers without one, and what is free after the steps.
_State = tuple[tuple[DrainStep, ...], tuple[servers.PlacedServer, ...], Amounts]


class _AnyTarget:
    def rank(
        self, server: servers.PlacedServer, option: placing.Option, left: Amounts
    ) -> tuple[float | int | str, ...]:
        return (option.repeats(left), option.root_uuid)

    def why(
        self, server: servers.PlacedServer, option: placing.Option, left: Amounts, possible: int
    ) -> str:
        return ""


class _Problem:
    def __init__(
        self,
        moves: Moves,
        stopped: Sequence[str],
        moving: Sequence[servers.PlacedServer],
        targets: Targets,
    ) -> None:
        self.moving, self._targets = list(moving), targets
        self._moves, self._stopped = moves, tuple(stopped)
        self._options = {server.key: moves.options_for(server, stopped) for server in moving}
        self.free = dict(moves.free(stopped, ()))
        self._freed = {server.key: self._freed_by(server) for server in moving}

    def _freed_by(self, server: servers.PlacedServer) -> dict[placing.Slot, int]:
        """What the end of its move frees for others: its part of shared pools."""
        after = self._moves.free(self._stopped, [server])
        return {
            slot: amount - self.free[slot]
            for slot, amount in after.items()
            if amount > self.free[slot]
        }

    def after(self, left: Amounts, step: DrainStep) -> dict[placing.Slot, int]:
        freed = {slot: -amount for slot, amount in self._freed[step.server.key].items()}
        return _minus(_minus(left, step.option.amounts), freed)

    def preferred(self) -> list[DrainStep]:
        """Steps with the preferred targets, in the order of the servers; servers may be left."""
        return self._possible(self._options)

    def _possible(self, options: Mapping[str, Sequence[placing.Option]]) -> list[DrainStep]:
        """Step after step for whatever server has room by its options, until none has."""
        left: dict[placing.Slot, int] = dict(self.free)
        waiting = list(self.moving)
        steps: list[DrainStep] = []
        progress = True
        while waiting and progress:
            progress = False
            for server in list(waiting):
                fitting = [option for option in options[server.key] if option.fits(left)]
                if not fitting:
                    continue
                free = left
                best = min(fitting, key=lambda it: self._targets.rank(server, it, free))
                steps.append(DrainStep(server, best))
                left = self.after(left, steps[-1])
                waiting.remove(server)
                progress = True
        return steps

    def exact(self) -> list[DrainStep] | None:
        """Steps for all servers; None if there is no such order. Raises SearchTooLong."""
        placement = self._moves.place(self._stopped, self.moving)
        if placement is None:
            return None
        steps = self._possible({key: [option] for key, option in placement.items()})
        if len(steps) == len(self.moving):
            return steps
        end = next(self.ends(self._moves.budget.step), None)
        return None if end is None else list(end)

    def kept(self, steps: Sequence[DrainStep], is_kept: IsKept) -> list[DrainStep]:
        """The steps, or others for their servers, after which ``is_kept`` holds."""
        if is_kept(steps):
            return list(steps)
        if not is_kept(()):
            return []
        number = bisect.bisect_left(
            range(1, len(steps)), True, key=lambda count: not is_kept(steps[:count])
        )
        kept = list(steps[:number])
        left: dict[placing.Slot, int] = dict(self.free)
        for step in kept:
            left = self.after(left, step)
        for step in steps[number:]:
            free, server = left, step.server
            fitting = [each for each in self._options[server.key] if each.fits(free)]
            for option in sorted(fitting, key=lambda it: self._targets.rank(server, it, free)):
                other = DrainStep(server, option)
                if is_kept([*kept, other]):
                    kept.append(other)
                    left = self.after(left, other)
                    break
        return kept

    def ends(self, spend: Callable[[], None]) -> Iterator[tuple[DrainStep, ...]]:
        """As the function ``ends``."""
        alike: dict[str, Hashable] = {
            server.key: (
                server.kind,
                server.together,
                frozenset(self._freed[server.key].items()),
            )
            for server in self.moving
        }
        seen: set[Hashable] = set()
        start: _State = (), tuple(self.moving), self.free
        stack = [iter([start])]
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
                continue
            spend()
            placed = collections.Counter(
                (alike[step.server.key], id(step.option)) for step in state[0]
            )
            key = frozenset(placed.items())
            if key in seen:
                continue
            seen.add(key)
            if state[1]:
                stack.append(self._next(state, alike))
            else:
                yield state[0]

    def _next(self, state: _State, alike: Mapping[str, Hashable]) -> Iterator[_State]:
        """The states after one more step, of servers that are alike only of the first."""
        done, waiting, left = state
        tried: set[Hashable] = set()
        # Where no move frees anything for others, every order is as good as the first.
        for at, server in enumerate(waiting if any(self._freed.values()) else waiting[:1]):
            if alike[server.key] in tried:
                continue
            tried.add(alike[server.key])
            rest = waiting[:at] + waiting[at + 1 :]
            for option in self._options[server.key]:
                if option.fits(left):
                    step = DrainStep(server, option)
                    yield (*done, step), rest, self.after(left, step)

    def why(self, step: DrainStep, left: Amounts) -> str:
        options = self._options[step.server.key]
        possible = len({option.root_uuid for option in options if option.fits(left)})
        return self._targets.why(step.server, step.option, left, possible)


def in_waves(
    steps: Iterable[DrainStep],
    free: Amounts,
    after: Callable[[Amounts, DrainStep], Amounts],
    why: Callable[[DrainStep, Amounts], str],
    parallel: int,
    per_source: int = 0,
) -> tuple[DrainStep, ...]:
    """The steps in their order, in waves in which no step needs what another one frees.

    ``after`` is what is free after the end of a step.
    """
    waves: list[list[DrainStep]] = []
    before = left = free
    for step in steps:
        beside = [it.server.root_uuid for it in waves[-1]] if waves else []
        is_full = per_source and beside.count(step.server.root_uuid) >= per_source
        if not 0 < len(beside) < parallel or is_full or not step.option.fits(left):
            for ended in waves[-1] if waves else ():
                before = after(before, ended)
            waves.append([])
            left = before
        waves[-1].append(dataclasses.replace(step, wave=len(waves), why=why(step, left)))
        left = _minus(left, step.option.amounts)
    return tuple(step for wave in waves for step in wave)


def _in_turn(moving: Iterable[servers.PlacedServer], per_source: int) -> list[servers.PlacedServer]:
    """Large servers first; with a limit so many of each host, then the next of each."""
    ordered = sorted(moving, key=lambda server: server.size, reverse=True)
    if not per_source:
        return ordered
    before: collections.Counter[str] = collections.Counter()
    turns: dict[int, list[servers.PlacedServer]] = {}
    for server in ordered:
        turns.setdefault(before[server.root_uuid] // per_source, []).append(server)
        before[server.root_uuid] += 1
    return [server for turn in sorted(turns) for server in turns[turn]]


def _minus(left: Amounts, amounts: Amounts) -> dict[placing.Slot, int]:
    return {**left, **{slot: left[slot] - amount for slot, amount in amounts.items()}}
