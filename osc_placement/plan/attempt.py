"""One change, from the first look to its end: write, look again, decide again.

A stale body is never sent again under a new generation: after a conflict or a lost
answer the thing is read anew and judged. Called by ``execute``, in its threads.
"""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors, retry
from osc_placement.plan import change, journal, result
from osc_placement.plan.kinds import base, registry


class RunHalted(errors.PlacementError):
    """Trying further items is pointless: nobody answers, or lets us in, or the disk is full.

    ``outcomes`` are what became of the items at hand.
    """

    def __init__(self, cause: errors.PlacementError, ended: Sequence[result.ChangeResult]) -> None:
        self.outcomes = ended
        super().__init__(str(cause))


class Direction(enum.Enum):
    """Whether a plan is applied or taken back: what its journal is told."""

    APPLY = (journal.State.PENDING, journal.State.APPLYING, journal.State.APPLIED)
    UNDO = (journal.State.APPLIED, journal.State.UNDOING, journal.State.UNDONE)

    @property
    def untouched(self) -> journal.State:
        """Before anything was sent, or when it was refused."""
        return self.value[0]

    @property
    def begun(self) -> journal.State:
        """A request may be under way."""
        return self.value[1]

    @property
    def done(self) -> journal.State:
        """It was carried out."""
        return self.value[2]


#: Why the premise of a change no longer holds; empty when it does. Called from many threads.
PreconditionCheck = Callable[[change.Change], str]


@dataclasses.dataclass(frozen=True, slots=True)
class RunContext:
    """What all changes of a run have in common.

    ``strict``: what somebody else has changed since the plan is left alone. ``allow``: the
    guards that are overridden. ``broken`` judges the premises of changes. ``kinds`` are those
    that can be carried out: some need more services than Placement.
    """

    client: api.Client
    journal: journal.JournalWriter
    stop: threading.Event
    direction: Direction = Direction.APPLY
    strict: bool = True
    allow: Collection[str] = ()
    broken: PreconditionCheck = lambda _: ""
    kinds: Mapping[str, base.ChangeType] = dataclasses.field(
        default_factory=lambda: registry.CHANGE_TYPES
    )


def settle(
    wanted: change.Change, around: RunContext, known: change.Observed | None = None
) -> result.ChangeResult:
    """Bring one change to its end; ``known`` is what planning has read already.

    Cost: one read (none with ``known``) and one write; after each conflict or lost answer
    one of each more, and a read of usages where capacity shrinks.
    Errors: RunHalted, when no other change would fare better.
    """
    return Attempt(wanted, around, known).run()


class Attempt:
    """One change on its way; ``ended`` is its outcome when it is there."""

    def __init__(
        self, wanted: change.Change, around: RunContext, known: change.Observed | None
    ) -> None:
        self.ended: result.ChangeResult | None = None
        self._change = wanted
        self._planned_on = wanted.generation
        self._around = around
        self._kind = around.kinds[wanted.kind]
        entry = around.journal.entries.get(wanted.key)
        self._in_doubt = entry is not None and entry.state in journal.IN_DOUBT
        self._known = known
        if known is None and self._kind.assumed and not self._in_doubt:
            self._known = self._kind.assumed(wanted)
        self._observed = change.Observed(None, {})
        self._last: errors.PlacementError | None = None
        self._unwritable: journal.Unwritable | None = None

    def run(self) -> result.ChangeResult:
        """All the way to the end."""
        self.ended = self._run()
        if self._unwritable is not None:
            raise RunHalted(self._unwritable, [self.ended])
        return self.ended

    def ready(self) -> base.Intent | None:
        """Only look and judge: what is to be written, or None when that was the end."""
        self.ended = self._explained(self._look_and_judge)
        if self.ended is not None:
            return None
        # Whoever writes it with others may have to leave it to ``run`` in the end.
        self._known = self._observed
        return self._change, self._observed

    def beginning(self) -> journal.Note:
        """What the journal is told before the request."""
        direction = self._around.direction
        # What undo gives back is what applying replaced: undoing does not change that.
        replaced = self._change.before if direction is Direction.APPLY else None
        return journal.Note(self._change.key, direction.begun, replaced)

    def ending(self) -> journal.Note:
        """What the journal is told when it was carried out."""
        return journal.Note(self._change.key, self._around.direction.done)

    def written(self, seen: change.Facts) -> result.ChangeResult:
        """It was carried out."""
        ended = result.of_change(self._change, result.Status.APPLIED)
        self.ended = dataclasses.replace(ended, found=seen)
        return self.ended

    def refused(self, *, in_doubt: bool = False) -> None:
        """What was known of it may be of yesterday: look again."""
        self._known = None
        self._in_doubt = self._in_doubt or in_doubt

    def not_begun(self, reason: str) -> result.ChangeResult:
        """Its outcome when it was never tried."""
        return result.of_change(self._change, result.Status.PLANNED, reason)

    def _run(self) -> result.ChangeResult:
        for pause in retry.backoff(retry.WRITES):
            ended = self._attempt()
            if ended is not None:
                return ended
            if self._around.stop.wait(pause):
                break
        return self._give_up()

    def _attempt(self) -> result.ChangeResult | None:
        """Look and, if it is right, write; None when it must be tried again."""
        return self._explained(lambda: self._look_and_judge() or self._write())

    def _explained(
        self, step: Callable[[], result.ChangeResult | None]
    ) -> result.ChangeResult | None:
        """What a step comes to, errors included."""
        try:
            return step()
        except api_errors.NotFound as error:
            return self._ended(result.Status.FAILED, f"it is gone: {error}")
        except errors.PlacementError as error:
            self.ended = self._ended(result.Status.FAILED, str(error))
            if _concerns_all(error):
                raise RunHalted(error, [self.ended]) from error
            return self.ended

    def _look_and_judge(self) -> result.ChangeResult | None:
        self._observed = self._look()
        return self._judge(self._observed)

    def _look(self) -> change.Observed:
        if self._known is not None:
            known, self._known = self._known, None
            return known
        return retry.read(lambda: self._kind.read(self._around.client, self._change))

    def _judge(self, observed: change.Observed) -> result.ChangeResult | None:
        """The end of the matter when nothing is to be written; None when it is."""
        wanted = self._change
        now = change.current(wanted.kind, wanted.after, observed.facts)
        if change.agree(now, wanted.after):
            return self._as_wanted(observed)
        if self._is_stale(now):
            told = change.departure(wanted.kind, now, self._change.before)
            return self._ended(result.Status.STALE, f"somebody else made it {told}")
        broken = self._around.broken(wanted) if wanted.premise else ""
        if broken:
            status = result.Status.STALE if self._around.strict else result.Status.LEFT_ALONE
            return self._ended(status, broken)
        self._change = wanted.replace(before=now, generation=observed.generation)
        refused = self._refusals(observed)
        if not refused:
            return None
        ended = self._ended(result.Status.LEFT_ALONE, "; ".join(refused))
        return dataclasses.replace(ended, open=True)

    def _is_stale(self, now: change.Facts) -> bool:
        """Whether what was to be changed is no longer what it was.

        Outside a reviewed plan that stops us only if it went altogether, or if all that
        there is would be replaced.
        """
        before = self._change.before
        if self._around.strict or self._change.kind in change.WHOLE:
            return not self._is_known(now)
        return any(now[key] is None and value is not None for key, value in before.items())

    def _is_known(self, now: change.Facts) -> bool:
        """Whether all that there is was there before, or is of our own doing."""
        before, after = self._change.before, self._change.after
        if self._in_doubt and self._kind.in_parts:
            return all(
                change.same(now.get(key), before.get(key))
                or change.same(now.get(key), after.get(key))
                for key in {*now, *before}
            )
        return change.agree(now, before)

    def _refusals(self, observed: change.Observed) -> list[str]:
        """What the guards say of a thing that changed since they were last asked."""
        guard = self._kind.refusals
        if guard is None or observed.generation == self._planned_on:
            return []
        around, item = self._around, self._change
        refused = retry.read(lambda: guard(around.client, item, observed, around.allow))
        self._planned_on = observed.generation
        return refused

    def _write(self) -> result.ChangeResult | None:
        self._note(self.beginning())
        if self._unwritable is not None:
            return self._ended(result.Status.FAILED, f"not begun: {self._unwritable}")
        try:
            written = self._kind.write(self._around.client, self._change, self._observed)
        except (api_errors.GenerationConflict, api_errors.ConnectionFailed) as error:
            self._last = error
            return None
        except (api_errors.OutcomeUnknown, api_errors.UnexpectedResponse) as error:
            self._last = error
            self._in_doubt = True
            return None
        return self._carried_out(written)

    def _carried_out(self, seen: change.Observed) -> result.ChangeResult:
        self._note(self.ending())
        return self.written(seen.facts)

    def _as_wanted(self, seen: change.Observed) -> result.ChangeResult:
        if self._in_doubt:
            return self._carried_out(seen)
        if self._around.direction is Direction.UNDO:
            self._note(self.ending())
        ended = self._ended(result.Status.UNCHANGED, "it is so already")
        return dataclasses.replace(ended, found=seen.facts)

    def _ended(self, status: result.Status, reason: str) -> result.ChangeResult:
        """An end without having changed anything; in the journal, doubt stays doubt."""
        around, key = self._around, self._change.key
        entry = around.journal.entries.get(key)
        if entry is not None and entry.state is around.direction.begun and not self._in_doubt:
            self._note(journal.Note(key, around.direction.untouched))
        if self._in_doubt and status is result.Status.FAILED:
            reason = f"whether it was carried out is unknown: {reason}"
        return result.of_change(self._change, status, reason)

    def _note(self, told: journal.Note) -> None:
        """Tell the journal; when it cannot be told, this change is the last one."""
        try:
            self._around.journal.note(told)
        except journal.Unwritable as error:
            self._unwritable = error

    def _give_up(self) -> result.ChangeResult:
        if self._in_doubt:
            ended = self._last_look()
            if ended is not None:
                return ended
        if self._around.stop.is_set():
            return self._ended(result.Status.PLANNED, "not done: the run was stopped")
        return self._ended(result.Status.FAILED, f"given up: {self._last}")

    def _last_look(self) -> result.ChangeResult | None:
        """What a lost answer came to, without trying again."""
        try:
            seen = self._look()
        except errors.PlacementError as error:
            return self._ended(result.Status.FAILED, str(error))
        now = change.current(self._change.kind, self._change.after, seen.facts)
        return self._carried_out(seen) if change.agree(now, self._change.after) else None


def _concerns_all(error: errors.PlacementError) -> bool:
    """Whether other changes would fare as this one: nobody answers, lets us in, makes sense."""
    if isinstance(error, api_errors.ApiError):
        return error.status in (401, 403)
    return not isinstance(error, api_errors.UnsupportedVersion)
