# SPDX-License-Identifier: Apache-2.0
"""The results of changes and of a whole run: what a command shows, and its exit code."""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import re
from collections.abc import Iterable
from typing import Any

from osc_placement.plan import change as change_module, progress, reasons
from osc_placement.plan.kinds import registry
from osc_placement.plan.plan import Plan

_REQUEST_ID = re.compile(r" \(Request-ID: [^)]*\)")

#: The reason of a change that the journal lists as done.
EARLIER = reasons.Reason(reasons.Code.EARLIER_RUN, "in an earlier run")


class Status(enum.StrEnum):
    """How an item ended: ``skipped`` needs no change, ``refused`` is prevented by a guard."""

    PLANNED = "planned"
    APPLIED = "applied"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    REFUSED = "refused"
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
    """The result of one change: ``after`` replaced ``before``, if it was applied.

    ``code``: the code of ``reason``, or of several reasons, separated by commas.
    ``found`` is the complete state at the last read or write; None without one.
    ``request_id`` is the x-openstack-request-id of the request that failed. ``attempts``: how often
    the change was tried.
    """

    kind: str
    subject: change_module.Subject
    before: change_module.State | None
    after: change_module.State | None
    status: Status
    reason: str = ""
    code: str = reasons.Code.NONE
    found: change_module.State | None = None
    request_id: str = ""
    attempts: int = dataclasses.field(default=1, compare=False)

    @property
    def key(self) -> str:
        """The key of the change within its plan."""
        return change_module.key(self.kind, self.subject)

    @property
    def event(self) -> progress.ChangeEvent:
        """The end of the change, for those who watch the run."""
        return progress.ChangeEvent(
            self.kind,
            self.subject.uuid,
            self.subject.name,
            str(self.status),
            self.reason,
            self.request_id,
            self.attempts,
        )

    @property
    def succeeded(self) -> bool:
        """Whether the subject is in the requested state."""
        return self.status in (Status.APPLIED, Status.UNCHANGED)

    def succeeds(self, *, dry_run: bool) -> bool:
        """As ``succeeded``; of a dry run, whether the subject would be in the requested state."""
        return self.succeeded or (dry_run and self.status is Status.PLANNED and not self.code)

    def as_planned(self) -> ChangeResult:
        """The result on a copy as one of a dry run: what was written there is planned."""
        if self.status is Status.APPLIED and self.code != EARLIER.code:
            return dataclasses.replace(self, status=Status.PLANNED, found=None)
        return dataclasses.replace(self, reason=without_request_id(self.reason), request_id="")

    def sort_key(self) -> tuple[bool, change_module.Subject, str]:
        """By name; changes that others need come first."""
        first = registry.CHANGE_TYPES[self.kind].listed_first
        return (not first, self.subject, self.kind)


@dataclasses.dataclass(frozen=True, slots=True)
class RunReport:
    """The result of a command: one result per change, and how the run ended.

    ``target`` is the cloud or file. ``limited``: --max-count was reached with changes left.
    ``halted`` says why later changes did not begin. ``effects`` are the changes of capacity
    that the run made, of a dry run those of the plan; ``planned_effects`` are those of the
    plan, if they are different. ``names`` are ``{provider uuid: name}``. ``command`` is the
    command that made the plan; ``undoes``: the run undid it. ``reads_again``: the plan is older
    than the run.
    """

    results: tuple[ChangeResult, ...]
    target: str
    dry_run: bool = False
    limited: bool = False
    interrupted: bool = False
    halted: str = ""
    notes: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    planned_effects: tuple[str, ...] = ()
    plan_path: pathlib.Path | None = None
    undo_path: pathlib.Path | None = None
    names: change_module.Names = dataclasses.field(default_factory=dict)
    command: str = ""
    undoes: bool = False
    reads_again: bool = False

    @property
    def is_incomplete(self) -> bool:
        """Whether the run ended before it tried every change."""
        return self.limited or self.interrupted or bool(self.halted)

    @property
    def leaves_changes(self) -> bool:
        """Whether the same run again may make more changes; not if all were refused."""
        left = self.count(Status.PLANNED) + self.count(Status.FAILED)
        return self.is_incomplete and bool(left)

    def count(self, status: Status) -> int:
        """How many changes ended with a status."""
        return sum(item.status is status for item in self.results)

    def summary(self) -> str:
        """One line: ``3 applied, 1 skipped``."""
        counts = [(self.count(status), status) for status in Status]
        return ", ".join(f"{count} {status}" for count, status in counts if count) or "nothing"

    def exit_code(self, *, detailed: bool = False) -> Exit:
        """``detailed``: a dry run exits as the run would, and with CHANGES in place of DONE.

        So does each dry run of a plan that is refused as a whole, and of one that is read again.
        """
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.count(Status.FAILED) or self.halted:
            return Exit.SOME_FAILED
        if self.dry_run and not (detailed or self.reads_again):
            return Exit.DONE
        stale = self.count(Status.STALE)
        # A refused change stays refused: a loop that runs until the limit is not reached must end.
        if self.limited and not stale:
            return Exit.LIMIT
        if self.count(Status.REFUSED):
            return Exit.SOME_FAILED
        if stale:
            return Exit.STALE
        return (
            Exit.CHANGES if self.dry_run and detailed and self.count(Status.PLANNED) else Exit.DONE
        )


def without_request_id(text: str) -> str:
    """An error of a copy of the cloud: no log has its requests."""
    return _REQUEST_ID.sub("", text)


def of_change(
    change: change_module.Change[Any], status: Status, reason: reasons.Reason = reasons.NONE
) -> ChangeResult:
    """The result of a change; without a reason, with the change's own."""
    return ChangeResult(
        change.kind,
        change.subject,
        change.before,
        change.after,
        status,
        reason.text or change.reason,
        reason.code,
    )


def of_skipped(skipped: change_module.Skipped) -> ChangeResult:
    """The result of what a plan does not change."""
    status = Status.REFUSED if skipped.refused else Status.SKIPPED
    status = Status.UNCHANGED if skipped.unchanged else status
    return ChangeResult(
        skipped.kind,
        skipped.subject,
        skipped.before,
        skipped.after,
        status,
        skipped.reason,
        skipped.code,
    )


def of_plan(plan: Plan) -> tuple[ChangeResult, ...]:
    """The results of a dry run: every change is planned."""
    changes = [of_change(item, Status.PLANNED) for item in plan.changes]
    return ordered([*changes, *map(of_skipped, plan.skipped)])


def ordered(results: Iterable[ChangeResult]) -> tuple[ChangeResult, ...]:
    """Results in the order in which they are shown."""
    return tuple(sorted(results, key=ChangeResult.sort_key))
