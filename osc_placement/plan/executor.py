# SPDX-License-Identifier: Apache-2.0
"""Applies the changes of a plan in threads, one stage after the other.

``attempt`` applies one change. For kinds with a bulk write, all changes go into one request; after
a refusal the halves do, then each change alone: one bad change delays the others, but never blocks
them.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import itertools
import logging
import queue
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.plan import attempt, journal, result, workers as plan_workers
from osc_placement.plan.change import Change, Observed
from osc_placement.plan.kinds import base, registry
from osc_placement.plan.reasons import Code, Reason

LOG = logging.getLogger(__name__)

Future = concurrent.futures.Future[list[result.ChangeResult]]
OnResult = Callable[[result.ChangeResult], None]
Known = Mapping[str, Observed[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class RunLimits:
    """How far a run may go.

    At most ``max_count`` changes are applied, and exactly that many if the plan has them.
    ``stop_on_error``: nothing more begins after a change that was not applied.
    """

    workers: int = plan_workers.DEFAULT
    max_count: int | None = None
    stop_on_error: bool = False


@dataclasses.dataclass(slots=True)
class Run:
    """The results of the changes, in the order in which they ended."""

    results: list[result.ChangeResult] = dataclasses.field(default_factory=list)
    limited: bool = False
    interrupted: bool = False
    halted: str = ""


def execute(
    changes: Sequence[Change[Any]],
    context: attempt.RunContext,
    limits: RunLimits,
    known: Known | None = None,
    on_result: OnResult = lambda _: None,
) -> Run:
    """Apply ``changes`` stage by stage; every change has a result in the Run.

    ``known`` is ``{change key: the state that planning read}``. ``on_result`` receives each
    result, in the calling thread. Ctrl-C begins nothing more: requests under way end and the
    rest is reported as planned; a second one raises KeyboardInterrupt.
    Requests: those of ``Attempt.run`` per change, one read for a change that the journal lists as
    done and that still is; those of ``apply_bulk`` where one request can write many.
    """
    run = _Run(context, limits, known or {}, on_result, {item.key: item.group for item in changes})
    with plan_workers.interruptible(run.interrupted, context.stop):
        for stage in _stages(changes):
            run.stage(stage)
    return run.result


def _stages(changes: Sequence[Change[Any]]) -> list[list[Change[Any]]]:
    ordered = sorted(changes, key=Change.sort_key)
    return [list(stage) for _, stage in itertools.groupby(ordered, lambda item: item.stage)]


class _Run:
    """The counters of one run; only the calling thread touches them."""

    def __init__(
        self,
        context: attempt.RunContext,
        limits: RunLimits,
        known: Known,
        on_result: OnResult,
        groups: Mapping[str, str],
    ) -> None:
        self.result = Run()
        self.interrupted = threading.Event()
        self._context, self._limits, self._known = context, limits, known
        self._on_result, self._groups = on_result, groups
        self._failed_groups: set[str] = set()
        self._applied = 0

    def stage(self, changes: Sequence[Change[Any]]) -> None:
        """Apply the changes of one stage, or record why they were not begun."""
        failed = frozenset(self._failed_groups)
        for item in changes:
            if item.group in failed:
                self._end(result.of_change(item, result.Status.PLANNED, _DEPENDS))
        waiting = _Queue([item for item in changes if item.group not in failed])
        if self._may_begin():
            with plan_workers.pool(self._limits.workers) as pool:
                self._feed(pool, waiting)
        self.result.interrupted = self.interrupted.is_set()
        for item in waiting.rest():
            self._end(result.of_change(item, result.Status.PLANNED, self._why_not_begun()))

    def _may_begin(self) -> bool:
        """False once the run has stopped, or after a failure that stops it."""
        for ended in self.result.results:
            stops = registry.CHANGE_TYPES[ended.kind].stops_run
            if stops and not ended.succeeded and not self.result.halted:
                self.result.halted = stops
        return not self.result.halted and not self.interrupted.is_set()

    def _feed(self, pool: concurrent.futures.ThreadPoolExecutor, waiting: _Queue) -> None:
        """Keep every worker busy until nothing is left or nothing more may begin."""
        running: dict[Future, int] = {}
        # concurrent.futures.wait takes a lock of every future for each one that ends.
        ended: queue.SimpleQueue[Future] = queue.SimpleQueue()
        while True:
            while len(running) < self._limits.workers:
                changes = waiting.take(self._remaining(sum(running.values())))
                if not changes:
                    break
                future = pool.submit(self._apply, changes)
                running[future] = len(changes)
                future.add_done_callback(ended.put)
            if not running:
                return
            future = ended.get()
            del running[future]
            self._collect(future)

    def _apply(self, changes: Sequence[Change[Any]]) -> list[result.ChangeResult]:
        if len(changes) > 1:
            return apply_bulk(changes, self._context, self._known)
        return [
            attempt.Attempt(item, self._context, self._known.get(item.key)).run()
            for item in changes
        ]

    def _remaining(self, running: int) -> int:
        """How many more changes may begin now."""
        if self.result.halted or self.interrupted.is_set():
            return 0
        if self._limits.max_count is None:
            return sys.maxsize
        return max(self._limits.max_count - self._applied - running, 0)

    def _collect(self, future: Future) -> None:
        try:
            results = future.result()
        except attempt.RunHalted as halted:
            LOG.info("the run stops: %s", halted)
            results = list(halted.results)
            self.result.halted = self.result.halted or str(halted)
            self._context.stop.set()
        for ended in results:
            self._count(ended)
            self._end(ended)

    def _count(self, ended: result.ChangeResult) -> None:
        counted = registry.CHANGE_TYPES[ended.kind].counted
        is_new = ended.code is not Code.EARLIER_RUN
        if counted and is_new and ended.status is result.Status.APPLIED:
            self._applied += 1
        if self._limits.stop_on_error and not (ended.succeeded or self.result.halted):
            self.result.halted = f"{ended.subject.name}: {ended.reason}"

    def _end(self, ended: result.ChangeResult) -> None:
        group = self._groups.get(ended.key)
        if group and not ended.succeeded:
            self._failed_groups.add(group)
        LOG.info("%s %s: %s %s", ended.kind, ended.subject.name, ended.status, ended.reason)
        self.result.results.append(ended)
        self._on_result(ended)

    def _why_not_begun(self) -> Reason:
        if self.interrupted.is_set():
            return Reason(Code.INTERRUPTED, "not begun: the run was interrupted")
        if self.result.halted:
            text = f"not begun: the run stopped at an error ({self.result.halted})"
            return Reason(Code.RUN_STOPPED, text)
        self.result.limited = True
        return Reason(Code.MAX_COUNT, "not begun: --max-count was reached")


class _Queue:
    """The changes of a stage that have not begun, grouped by the requests that can carry them."""

    def __init__(self, changes: Sequence[Change[Any]]) -> None:
        groups: dict[object, list[Change[Any]]] = {}
        for item in changes:
            kind = registry.CHANGE_TYPES[item.kind]
            group = item.key if kind.bulk_size == 1 else kind.bulk_key(item.before, item.after)
            groups.setdefault((item.kind, group), []).append(item)
        self._groups = collections.deque(collections.deque(group) for group in groups.values())

    def take(self, limit: int) -> list[Change[Any]]:
        """The next changes that one request can carry, at most ``limit``."""
        if not self._groups or not limit:
            return []
        group = self._groups[0]
        size = registry.CHANGE_TYPES[group[0].kind].bulk_size
        taken = [group.popleft() for _ in range(min(len(group), limit, size))]
        if not group:
            self._groups.popleft()
        return taken

    def rest(self) -> list[Change[Any]]:
        """The changes that were never taken."""
        return list(itertools.chain.from_iterable(self._groups))


_DEPENDS = Reason(Code.DEPENDENCY, "not begun: a change that it depends on was not applied")


def apply_bulk(
    changes: Sequence[Change[Any]],
    context: attempt.RunContext,
    known: Mapping[str, Observed[Any]],
) -> list[result.ChangeResult]:
    """Apply changes of one kind; ``known`` is ``{change key: the state that planning read}``.

    Requests: one read for each that is not known, and one write for all; for each bad change
    among n about 2 log2(n) more writes, and then those of ``Attempt.run``.
    Errors: RunHalted, with every result, when every other change would fail too.
    """
    attempts = [attempt.Attempt(item, context, known.get(item.key)) for item in changes]
    try:
        _write(
            [one for one in attempts if one.prepare()],
            context,
            registry.CHANGE_TYPES[changes[0].kind],
        )
    except attempt.RunHalted as halted:
        reason = f"not begun: {halted}"
        raise attempt.RunHalted(
            halted, [one.result or one.not_begun(reason) for one in attempts]
        ) from halted
    return [one.result or one.not_begun("the run was stopped") for one in attempts]


def _write(
    prepared: Sequence[attempt.Attempt], context: attempt.RunContext, kind: base.ChangeType[Any]
) -> None:
    """One request for all, or for fewer at a time until each has its result."""
    if context.stop.is_set():
        return
    if len(prepared) < 2:
        for item in prepared:
            item.run()
        return
    _note(context, [item.begin_note() for item in prepared])
    writes = [item.pending_write() for item in prepared]
    try:
        kind.write_bulk(context.services, writes)
    except errors.PlacementError as error:
        _divide(error, prepared, context, kind)
    else:
        for item, write in zip(prepared, writes, strict=True):
            item.applied(write.after)
        _note(context, [item.end_note() for item in prepared])


def _divide(
    error: errors.PlacementError,
    prepared: Sequence[attempt.Attempt],
    context: attempt.RunContext,
    kind: base.ChangeType[Any],
) -> None:
    """Find the bad changes by halves, or apply each alone where halves would fail too."""
    in_doubt = isinstance(error, api_errors.OutcomeUnknown | api_errors.UnexpectedResponse)
    status = error.status if isinstance(error, api_errors.ApiError) else None
    if in_doubt or status is None or status in api_errors.ACCESS_DENIED:
        for started in prepared:
            if not isinstance(error, api_errors.UnsupportedVersion):
                started.read_again(in_doubt=in_doubt)
            started.run()
        return
    half = len(prepared) // 2
    for part in (prepared[:half], prepared[half:]):
        if len(part) == 1:
            part[0].read_again()
        _write(part, context, kind)


def _note(context: attempt.RunContext, notes: Sequence[journal.Note]) -> None:
    """Write to the journal; without a journal no other change begins."""
    try:
        context.journal.note(*notes)
    except journal.Unwritable as error:
        raise attempt.RunHalted(error, []) from error
