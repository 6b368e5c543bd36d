"""Applying a plan: bounded workers, a limit, a stop, and one outcome per item.

The threads live here; what happens to one change is ``settle``'s. Called by ``batch``.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from osc_placement.plan import (
    attempt,
    bulk,
    change,
    guards,
    result,
    workers as plan_workers,
)
from osc_placement.plan.kinds import base

Flight = concurrent.futures.Future[list[result.ChangeResult]]
Told = Callable[[result.ChangeResult], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How far a run may go: at most ``max_count`` changes are applied, exactly so many if
    there are; ``stop_on_error`` begins nothing more after a change that was not applied.
    """

    workers: int = guards.WORKERS
    max_count: int | None = None
    stop_on_error: bool = False


@dataclasses.dataclass(slots=True)
class Run:
    """What came of the changes, in the order in which they ended."""

    outcomes: list[result.ChangeResult] = dataclasses.field(default_factory=list)
    limited: bool = False
    interrupted: bool = False
    halted: str = ""


def execute(
    changes: Sequence[change.Change],
    around: attempt.RunContext,
    limits: Limits,
    known: Mapping[str, change.Observed] | None = None,
    told: Told = lambda _: None,
) -> Run:
    """Apply ``changes`` stage by stage; every one of them has an outcome in the Run.

    ``known`` is ``{change key: what planning read}``. ``told`` hears each outcome, in the
    calling thread. Ctrl-C begins nothing more: what is in flight is finished and the rest
    is reported as planned; a second one raises KeyboardInterrupt.
    Cost: what ``settle`` costs, per change that the journal does not know as done; what
    ``settle_together`` costs where one request can write many.
    """
    run = _Run(around, limits, known or {}, told, {item.key: item.group for item in changes})
    pending = [item for item in changes if not run.is_done_already(item)]
    with plan_workers.interruptible(run.interrupted, around.stop):
        for stage in _stages(pending):
            run.stage(stage)
    return run.result


def _stages(changes: Sequence[change.Change]) -> list[list[change.Change]]:
    ordered = sorted(changes, key=change.Change.sort_key)
    return [list(stage) for _, stage in itertools.groupby(ordered, lambda item: item.stage)]


class _Run:
    """One run's counters; all of it is touched by the calling thread only."""

    def __init__(
        self,
        around: attempt.RunContext,
        limits: Limits,
        known: Mapping[str, change.Observed],
        told: Told,
        groups: Mapping[str, str],
    ) -> None:
        self.result = Run()
        self.interrupted = threading.Event()
        self._around, self._limits, self._known, self._told = around, limits, known, told
        self._groups = groups
        self._broken: set[str] = set()
        self._applied = 0

    def is_done_already(self, item: change.Change) -> bool:
        """Whether an earlier run did it; if so it has its outcome now."""
        entry = self._around.journal.entries.get(item.key)
        done = entry is not None and entry.state is self._around.direction.done
        if done:
            self._end(result.of_change(item, result.Status.APPLIED, "in an earlier run"))
        return done

    def stage(self, items: Sequence[change.Change]) -> None:
        """Settle the changes of one stage, or say why they were not begun."""
        broken = frozenset(self._broken)
        for item in items:
            if item.group in broken:
                self._end(result.of_change(item, result.Status.PLANNED, _BUILDS))
        left = [item for item in items if item.group not in broken]
        waiting = _Waiting(left, self._around.kinds)
        if self._may_begin():
            with plan_workers.pool(self._limits.workers) as pool:
                self._feed(pool, waiting)
        self.result.interrupted = self.interrupted.is_set()
        for item in waiting.rest():
            self._end(result.of_change(item, result.Status.PLANNED, self._why_not()))

    def _may_begin(self) -> bool:
        """False once the run was stopped, or something failed that later stages build on."""
        made = [item for item in self.result.outcomes if item.kind == change.TRAIT]
        if any(not item.succeeded for item in made) and not self.result.halted:
            self.result.halted = "a trait that the rest needs could not be made"
        return not self.result.halted and not self.interrupted.is_set()

    def _feed(self, pool: concurrent.futures.ThreadPoolExecutor, waiting: _Waiting) -> None:
        """Keep every worker busy until nothing is left or nothing more may begin."""
        flying: dict[Flight, int] = {}
        while True:
            while len(flying) < self._limits.workers:
                bundle = waiting.take(self._room(sum(flying.values())))
                if not bundle:
                    break
                flying[pool.submit(self._settle, bundle)] = len(bundle)
            if not flying:
                return
            ended, _ = concurrent.futures.wait(
                flying, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in ended:
                del flying[future]
                self._collect(future)

    def _settle(self, bundle: Sequence[change.Change]) -> list[result.ChangeResult]:
        if len(bundle) > 1:
            return bulk.settle_together(bundle, self._around, self._known)
        return [attempt.settle(item, self._around, self._known.get(item.key)) for item in bundle]

    def _room(self, flying: int) -> int:
        """How many more changes may begin now."""
        if self.result.halted or self.interrupted.is_set():
            return 0
        if self._limits.max_count is None:
            return _ANY
        return max(self._limits.max_count - self._applied - flying, 0)

    def _collect(self, future: Flight) -> None:
        try:
            outcomes = future.result()
        except attempt.RunHalted as halted:
            outcomes = list(halted.outcomes)
            self.result.halted = self.result.halted or str(halted)
            self._around.stop.set()
        for ended in outcomes:
            self._count(ended)
            self._end(ended)

    def _count(self, ended: result.ChangeResult) -> None:
        if ended.status is result.Status.APPLIED and ended.kind != change.TRAIT:
            self._applied += 1
        if not ended.succeeded and self._limits.stop_on_error and not self.result.halted:
            self.result.halted = f"{ended.subject.name}: {ended.reason}"

    def _end(self, ended: result.ChangeResult) -> None:
        group = self._groups.get(change.key(ended.kind, ended.subject))
        if group and not ended.succeeded:
            self._broken.add(group)
        self.result.outcomes.append(ended)
        self._told(ended)

    def _why_not(self) -> str:
        if self.interrupted.is_set():
            return "not begun: the run was interrupted"
        if self.result.halted:
            return f"not begun: the run stopped at an error ({self.result.halted})"
        self.result.limited = True
        return "not begun: --max-count was reached"


class _Waiting:
    """The changes of a stage that have not begun, in bundles that one request may carry."""

    def __init__(
        self, items: Sequence[change.Change], kinds: Mapping[str, base.ChangeType]
    ) -> None:
        self._kinds = kinds
        groups: dict[object, list[change.Change]] = {}
        for item in items:
            by = kinds[item.kind].together
            group = (item.kind, by.group(item)) if by else item.key
            groups.setdefault(group, []).append(item)
        self._groups = collections.deque(collections.deque(group) for group in groups.values())

    def take(self, room: int) -> list[change.Change]:
        """The next ones that may go out together, at most ``room``."""
        if not self._groups or not room:
            return []
        group = self._groups[0]
        by = self._kinds[group[0].kind].together
        size = min(len(group), room, by.size if by else 1)
        taken = [group.popleft() for _ in range(size)]
        if not group:
            self._groups.popleft()
        return taken

    def rest(self) -> list[change.Change]:
        """Those that were never taken."""
        return list(itertools.chain.from_iterable(self._groups))


#: More changes than there are in any plan.
_ANY = sys.maxsize

_BUILDS = "not begun: what it builds on was not done"
