# SPDX-License-Identifier: Apache-2.0
"""One change from its first read to its result: read, check, write, and again after a conflict.

A stale body is never sent again under a new generation: after a conflict or a lost answer
the subject is read and checked again. Called by ``executor``, in its threads.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api_errors, retry
from osc_placement.plan import journal, progress, reasons, result
from osc_placement.plan.change import Change, Observed, State
from osc_placement.plan.kinds import base, registry
from osc_placement.plan.reasons import Code, Reason

LOG = logging.getLogger(__name__)


class RunHalted(errors.PlacementError):
    """Every other change would fail too: no connection, no permission, or a full disk.

    ``results`` are those of the changes under way.
    """

    def __init__(
        self, cause: errors.PlacementError, results: Sequence[result.ChangeResult]
    ) -> None:
        self.results = results
        super().__init__(str(cause))


class Direction(enum.Enum):
    """Whether a plan is applied or undone: the states in its journal.

    ``untouched``: before a request is sent, or after the server refuses it. ``begun``: a request
    may be under way. ``done``: the change is written.
    """

    APPLY = (journal.StepState.PENDING, journal.StepState.APPLYING, journal.StepState.APPLIED)
    UNDO = (journal.StepState.APPLIED, journal.StepState.UNDOING, journal.StepState.UNDONE)

    def __init__(
        self, untouched: journal.StepState, begun: journal.StepState, done: journal.StepState
    ) -> None:
        self.untouched, self.begun, self.done = untouched, begun, done


#: The reason why the precondition of a change fails; empty if it holds. Called in many threads.
PreconditionCheck = Callable[[Change[Any]], str]


@dataclasses.dataclass(frozen=True, slots=True)
class RunContext:
    """What all changes of a run share.

    ``strict``: a server that changed in nova after planning is stale, not skipped. ``relative``: a
    subject is stale also if another client changed it to the planned state, because its change and
    this one are two additions.
    ``allow``: the guards that the operator overrides. ``check_precondition`` checks the
    preconditions of changes. ``on_retry`` receives attempts that another one follows. ``clock``
    returns seconds.
    """

    services: base.Services
    journal: journal.JournalWriter
    stop: threading.Event
    direction: Direction = Direction.APPLY
    strict: bool = True
    relative: bool = False
    allow: Collection[str] = ()
    check_precondition: PreconditionCheck = lambda _: ""
    on_retry: Callable[[progress.ChangeEvent], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic


class Attempt:
    """One change under way; ``result`` is None until it ends.

    ``known`` is the state that planning has read.
    """

    def __init__(
        self,
        change: Change[Any],
        context: RunContext,
        known: Observed[Any] | None,
    ) -> None:
        self.result: result.ChangeResult | None = None
        self._change = change
        self._planned_generation = change.generation
        self._context = context
        self._kind = registry.CHANGE_TYPES[change.kind]
        state = context.journal.entries.get(change.key)
        self._in_doubt = state in journal.IN_DOUBT
        # A database may have been restored since: its journal alone does not prove anything.
        self._was_done = state is context.direction.done
        self._attempts = 0
        self._known = None if self._was_done else known
        if known is None and not (self._in_doubt or self._was_done):
            self._known = self._kind.assumed(change.before)
        self._observed: Observed[Any] = Observed(None, change.before)
        self._last_error: errors.PlacementError | None = None
        self._unwritable: journal.Unwritable | None = None

    def run(self) -> result.ChangeResult:
        """Read, check and write until the change ends.

        Requests: one read (none with ``known``) and one write; one of each more after a
        conflict or a lost answer, and a read of usages where capacity shrinks.
        Errors: RunHalted, when every other change would fail too.
        """
        self.result = dataclasses.replace(self._run(), attempts=max(self._attempts, 1))
        if self._unwritable is not None:
            raise RunHalted(self._unwritable, [self.result])
        return self.result

    def prepare(self) -> bool:
        """Only read and check; whether ``pending_write`` remains."""
        self.result = self._with_errors(self._read_and_check)
        # ``run`` may have to write it alone after a refused bulk request.
        self._known = None if self.result else self._observed
        return self.result is None

    def pending_write(self) -> base.Write[Any]:
        """The change, under the state that it was last checked on."""
        return base.Write(self._change.subject, self._change.after, self._observed)

    def begin_note(self) -> journal.Note:
        """The journal entry before the request."""
        return journal.Note(self._change.key, self._context.direction.begun)

    def end_note(self) -> journal.Note:
        """The journal entry after the write."""
        return journal.Note(self._change.key, self._context.direction.done)

    def applied(self, renewed: State) -> result.ChangeResult:
        """End the change as applied."""
        ended = result.of_change(self._change, result.Status.APPLIED)
        self.result = dataclasses.replace(ended, found=renewed)
        return self.result

    def read_again(self, *, in_doubt: bool = False) -> None:
        """Drop the known state after a refused request; it may be outdated."""
        self._known = None
        self._in_doubt = self._in_doubt or in_doubt

    def not_begun(self, reason: str) -> result.ChangeResult:
        """The result of a change that was never tried."""
        return result.of_change(
            self._change, result.Status.PLANNED, Reason(Code.RUN_STOPPED, reason)
        )

    def _run(self) -> result.ChangeResult:
        start = self._context.clock()
        for pause in retry.backoff(retry.WRITES):
            self._attempts += 1
            ended = self._with_errors(lambda: self._read_and_check() or self._write())
            if ended is not None:
                return ended
            LOG.info(
                "%s %s: try again after: %s",
                self._change.kind,
                self._change.subject.name,
                self._last_error,
            )
            wait = retry.pause_after(self._last_error, pause)
            is_late = self._context.clock() + wait > start + retry.LIMIT
            if is_late:
                break
            self._context.on_retry(self._retry_event())
            if self._context.stop.wait(wait):
                break
        return self._give_up(self._context.clock() - start)

    def _retry_event(self) -> progress.ChangeEvent:
        subject, error = self._change.subject, self._last_error
        request_id = getattr(error, "request_id", None) or ""
        return progress.ChangeEvent(
            *(self._change.kind, subject.uuid, subject.name, progress.RETRY),
            *(str(error), request_id, self._attempts),
        )

    def _with_errors(
        self, step: Callable[[], result.ChangeResult | None]
    ) -> result.ChangeResult | None:
        """The result of a step, errors included."""
        try:
            return step()
        except api_errors.NotFound as error:
            reason = Reason(Code.NOT_FOUND, f"it no longer exists: {error}")
            return self._end(result.Status.FAILED, reason, error)
        except errors.PlacementError as error:
            self.result = self._end(result.Status.FAILED, _failed(error), error)
            if _concerns_all(error):
                raise RunHalted(error, [self.result]) from error
            return self.result

    def _read_and_check(self) -> result.ChangeResult | None:
        self._observed = self._read()
        return self._check()

    def _read(self) -> Observed[Any]:
        if self._known is not None:
            known, self._known = self._known, None
            return known
        services, change = self._context.services, self._change
        undoes = self._context.direction is Direction.UNDO
        read = self._kind.read_to_undo if undoes else self._kind.read
        return retry.read_for_change(lambda: read(services, change.subject, change.after))

    def _check(self) -> result.ChangeResult | None:
        """The result if no write remains; None if the change must be written."""
        change, observed = self._change, self._observed
        now = self._kind.select(observed.state, change.after)
        is_done = self._kind.equal(now, change.after)
        if self._was_done:
            if is_done:
                ended = result.of_change(change, result.Status.APPLIED, result.EARLIER)
                return dataclasses.replace(ended, found=observed.state)
            if not self._kind.equal(now, change.before):
                drift = self._kind.describe_drift(change.after, now)
                reason = Reason(Code.CHANGED, f"changed after an earlier run, to {drift}")
                return self._end(result.Status.STALE, reason)
            LOG.info("%s %s: made again, it was restored", change.kind, change.subject.name)
            self._was_done = False
        if is_done and (self._in_doubt or not self._context.relative):
            return self._already_done()
        if is_done or self._is_stale(now):
            drift = self._kind.describe_drift(change.before, now)
            reason = Reason(Code.CHANGED, f"changed concurrently to {drift}")
            return self._end(result.Status.STALE, reason)
        broken = self._context.check_precondition(change) if change.precondition else ""
        if broken:
            status = result.Status.STALE if self._context.strict else result.Status.SKIPPED
            return self._end(status, Reason(Code.CHANGED_IN_NOVA, broken))
        self._change = dataclasses.replace(change, generation=observed.generation)
        refused = self._refusals()
        if not refused:
            return None
        ended = self._end(result.Status.REFUSED, Reason(text=reasons.joined_texts(refused)))
        return dataclasses.replace(ended, code=reasons.joined_codes(refused))

    def _is_stale(self, now: Any) -> bool:
        """Whether the subject differs from its planned state: undo restores that, and no other."""
        kind, before = self._kind, self._change.before
        if self._in_doubt and kind.in_parts:
            return not kind.is_mix(now, before, self._change.after)
        return not kind.equal(now, before)

    def _refusals(self) -> list[Reason]:
        """The reasons of guards, if the subject has changed since they were last checked."""
        if self._observed.generation == self._planned_generation:
            return []
        services, allow = self._context.services, self._context.allow
        pending = self.pending_write()
        refused = retry.read_for_change(lambda: self._kind.refusals(services, pending, allow))
        self._planned_generation = self._observed.generation
        return refused

    def _write(self) -> result.ChangeResult | None:
        self._note(self.begin_note())
        if self._unwritable is not None:
            reason = Reason(Code.RUN_STOPPED, f"not begun: {self._unwritable}")
            return self._end(result.Status.FAILED, reason)
        try:
            written = self._kind.write(self._context.services, self.pending_write())
        except (api_errors.GenerationConflict, api_errors.ConnectionFailed) as error:
            self._last_error = error
            return None
        except (api_errors.OutcomeUnknown, api_errors.UnexpectedResponse) as error:
            self._last_error = error
            self._in_doubt = True
            return None
        return self._end_applied(written.state)

    def _end_applied(self, renewed: Any) -> result.ChangeResult:
        self._note(self.end_note())
        return self.applied(renewed)

    def _already_done(self) -> result.ChangeResult:
        if self._in_doubt:
            return self._end_applied(self._observed.state)
        if self._context.direction is Direction.UNDO:
            self._note(self.end_note())
        ended = self._end(result.Status.UNCHANGED, Reason(text="already in the requested state"))
        return dataclasses.replace(ended, found=self._observed.state)

    def _end(
        self,
        status: result.Status,
        reason: Reason,
        error: errors.PlacementError | None = None,
    ) -> result.ChangeResult:
        """End without a change; a change in doubt stays in doubt in the journal."""
        context, key = self._context, self._change.key
        if context.journal.entries.get(key) is context.direction.begun and not self._in_doubt:
            self._note(journal.Note(key, context.direction.untouched))
        if self._in_doubt and status is result.Status.FAILED:
            text = f"whether it was applied is unknown: {reason}"
            reason = Reason(Code.OUTCOME_UNKNOWN, text)
        ended = result.of_change(self._change, status, reason)
        return dataclasses.replace(ended, request_id=getattr(error, "request_id", None) or "")

    def _note(self, note: journal.Note) -> None:
        """Write to the journal; without a journal no other change begins."""
        try:
            self._context.journal.note(note)
        except journal.Unwritable as error:
            self._unwritable = error

    def _give_up(self, seconds: float) -> result.ChangeResult:
        if self._in_doubt:
            ended = self._last_read()
            if ended is not None:
                return ended
        if self._context.stop.is_set():
            reason = Reason(Code.RUN_STOPPED, "not applied: the run was stopped")
            return self._end(result.Status.PLANNED, reason)
        error = self._last_error
        text = f"given up after {self._attempts} attempts in {seconds:.0f} s: {error}"
        reason = Reason(Code.REQUEST_FAILED, text)
        self.result = self._end(result.Status.FAILED, reason, error)
        if error is not None and _concerns_all(error):
            raise RunHalted(error, [self.result]) from error
        return self.result

    def _last_read(self) -> result.ChangeResult | None:
        """Whether a write without an answer was applied, without another try."""
        try:
            observed = self._read().state
        except errors.PlacementError as error:
            return self._end(result.Status.FAILED, _failed(error), error)
        now = self._kind.select(observed, self._change.after)
        return self._end_applied(observed) if self._kind.equal(now, self._change.after) else None


def _failed(error: errors.PlacementError) -> Reason:
    return Reason(Code.REQUEST_FAILED, str(error))


def _concerns_all(error: errors.PlacementError) -> bool:
    """Whether other changes would fail too: no permission, no service, a wrong URL, no answer."""
    if isinstance(error, api_errors.UnexpectedResponse):
        return True
    if isinstance(error, api_errors.ApiError):
        # 0: no response, because the connection broke.
        return error.status in (0, 503) or api_errors.concerns_all(error)
    return not isinstance(error, api_errors.UnsupportedVersion)
