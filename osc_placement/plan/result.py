"""What became of each item, and of the whole: what a command shows and exits with."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Iterable

from osc_placement.plan import change, plan


class Status(enum.StrEnum):
    """The last column but one of every outcome."""

    PLANNED = "planned"
    APPLIED = "applied"
    UNCHANGED = "unchanged"
    LEFT_ALONE = "left alone"
    STALE = "stale"
    FAILED = "failed"


class Exit(enum.IntEnum):
    """The exit codes of commands that change something."""

    DONE = 0
    ERROR = 1
    CHANGES = 3
    LIMIT = 5
    SOME_FAILED = 6
    STALE = 7
    INTERRUPTED = 130


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeResult:
    """One item's: ``before`` and ``after`` are what was really replaced by what.

    ``open`` tells that the operator's wish about it was refused by a guard or a limit.
    ``found`` is every fact of it as it was last seen, also those that the change is not
    about; None when a run never looked.
    """

    kind: str
    subject: change.Subject
    before: change.Facts
    after: change.Facts
    status: Status
    reason: str = ""
    open: bool = False
    found: change.Facts | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the item is in the requested state."""
        return self.status in {Status.APPLIED, Status.UNCHANGED}

    def sort_key(self) -> tuple[bool, change.Subject, str]:
        """By name; what is made for all comes first."""
        return (self.kind != change.TRAIT, self.subject, self.kind)


@dataclasses.dataclass(frozen=True, slots=True)
class RunReport:
    """The outcome of a command: one entry per item, and how the whole ended.

    ``target`` is the cloud or file that it happened on. ``limited``: --max-count was
    reached with changes left. ``halted`` says why later items were not begun. ``effects``
    tell what becomes of capacity when all of the plan is done. ``names`` are the providers'
    that facts speak of by UUID.
    """

    outcomes: tuple[ChangeResult, ...]
    target: str
    dry_run: bool = False
    limited: bool = False
    interrupted: bool = False
    halted: str = ""
    notes: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    plan_path: pathlib.Path | None = None
    undo_path: pathlib.Path | None = None
    names: change.Names = dataclasses.field(default_factory=dict)

    def count(self, status: Status) -> int:
        """How many items ended so."""
        return sum(item.status is status for item in self.outcomes)

    def summary(self) -> str:
        """One line: ``3 applied, 1 left alone``."""
        counts = [(self.count(status), status) for status in Status]
        return ", ".join(f"{count} {status}" for count, status in counts if count) or "nothing"

    def exit_code(self, *, detailed: bool = False) -> Exit:
        """``detailed``: a dry run that would change something exits with CHANGES."""
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.dry_run:
            return Exit.CHANGES if detailed and self.count(Status.PLANNED) else Exit.DONE
        if self.count(Status.FAILED) or self.halted:
            return Exit.SOME_FAILED
        stale = self.count(Status.STALE)
        # What is refused stays so: whoever runs it again while the limit is reached must end.
        if self.limited and not stale:
            return Exit.LIMIT
        if any(item.open for item in self.outcomes):
            return Exit.SOME_FAILED
        return Exit.STALE if stale else Exit.DONE


def of_change(item: change.Change, status: Status, reason: str = "") -> ChangeResult:
    """A change's outcome; its own reason stands where there is no better one."""
    return ChangeResult(
        item.kind, item.subject, item.before, item.after, status, reason or item.reason
    )


def of_remark(item: change.Skipped) -> ChangeResult:
    """What a plan leaves as it is."""
    status = Status.UNCHANGED if item.unchanged else Status.LEFT_ALONE
    return ChangeResult(
        item.kind, item.subject, item.before, item.after, status, item.reason, item.refused
    )


def of_plan(made: plan.Plan) -> tuple[ChangeResult, ...]:
    """What a dry run shows: every change planned, every remark as it is."""
    return ordered(
        of_change(item, Status.PLANNED) if isinstance(item, change.Change) else of_remark(item)
        for item in made.items()
    )


def ordered(outcomes: Iterable[ChangeResult]) -> tuple[ChangeResult, ...]:
    """In the order in which they are shown."""
    return tuple(sorted(outcomes, key=ChangeResult.sort_key))
