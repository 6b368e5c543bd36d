# SPDX-License-Identifier: Apache-2.0
"""Applies and undoes plans: check, prepare the files, run, finish.

The plan file, the undo file and the journal are on disk before the first write. An undo plan has
the applied changes in reverse order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from osc_placement import errors
from osc_placement.client import api, transport
from osc_placement.neutron.api import CopyOfNeutron, Neutron
from osc_placement.plan import (
    attempt,
    executor,
    file,
    journal,
    plan as plan_module,
    reasons,
    removal_limit,
    result,
)
from osc_placement.plan.change import Change, Observed, Skipped
from osc_placement.plan.kinds import base, registry
from osc_placement.plan.progress import NullProgress, Progress

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The options of a run; ``allow`` adds to the guards that the plan overrides.

    ``check_precondition`` is None where nova is not available, and ``neutron`` where neutron
    is not. ``journal``: keep nothing on disk, for a run that can simply be repeated. ``copy``
    makes a client of a copy of what a plan concerns, which the dry run of a plan file and of an
    undo changes.
    """

    dry_run: bool = False
    allow: tuple[str, ...] = ()
    plan_out: pathlib.Path | None = None
    undo_out: pathlib.Path | None = None
    limits: executor.RunLimits = dataclasses.field(default_factory=executor.RunLimits)
    progress: Progress = dataclasses.field(default_factory=NullProgress)
    check_precondition: attempt.PreconditionCheck | None = None
    neutron: Neutron | None = None
    journal: journal.JournalWriter | None = None
    copy: Callable[[plan_module.Plan], contextlib.AbstractContextManager[api.Client]] | None = None


def apply_plan(
    client: api.Client,
    planned: plan_module.ObservedPlan,
    options: Options,
    *,
    path: pathlib.Path | None = None,
) -> result.RunReport:
    """Apply a new plan, or the plan of the file ``path``; continue where an earlier run stopped.

    An undo plan is undone. A new plan with
    relative amounts is always kept in a file: to repeat the command would change them twice,
    to apply the file continues.
    Requests: one write per change, and one read where planning has not read it.
    Errors: PlanRefused, before any request.
    """
    plan = planned.plan
    _check(plan, client, options)
    if plan.undoes:
        return undo_plan(client, plan, options, path)
    strict = path is not None or plan.relative
    return _Job(client, plan, options, path, strict=strict, known=planned.known).run()


def undo_plan(
    client: api.Client,
    plan: plan_module.Plan,
    options: Options,
    path: pathlib.Path | None = None,
) -> result.RunReport:
    """Undo what was applied of a plan, or what an undo plan names.

    A subject that has changed since is stale and stays.
    Requests: one read and one write per change that was applied.
    Errors: PlanRefused, before any request.
    """
    contents = journal.read(journal.path_of(plan, client.target))
    entries = contents.entries
    inverse = restricted(plan, entries) if plan.undoes else inverse_of(plan, entries)
    if contents.is_cut and any(item.code == _NOT_APPLIED.code for item in inverse.skipped):
        inverse = dataclasses.replace(inverse, notes=(_CUT,))
    _check(inverse, client, options)
    return _Job(client, inverse, options, path, direction=attempt.Direction.UNDO).run()


def _check(plan: plan_module.Plan, client: api.Client, options: Options) -> None:
    """Refuse a plan that cannot be applied here. Sends nothing. Errors: PlanRefused."""
    plan_module.check_target(plan, client.target, client.origin)
    if options.check_precondition is None and plan.has_preconditions:
        raise plan_module.PlanRefused(
            "the plan depends on nova's servers, hosts or aggregates, and nova is not available"
        )
    if options.neutron is None and plan.needs_neutron:
        raise plan_module.PlanRefused("the plan changes ports, and neutron is not available")


@dataclasses.dataclass(frozen=True, slots=True)
class _Job:
    """One plan that is applied or undone; ``path`` is the file that it was read from."""

    client: api.Client
    plan: plan_module.Plan
    options: Options
    path: pathlib.Path | None
    strict: bool = True
    direction: attempt.Direction = attempt.Direction.APPLY
    known: Mapping[str, Observed[Any]] = dataclasses.field(default_factory=dict)

    def run(self) -> result.RunReport:
        """All steps, from the plan file to the report."""
        path = self._write_plan()
        refusal = removal_limit.refusal(self.plan, self.options.allow)
        if refusal:
            LOG.info("nothing was changed: %s", refusal)
            return self._report(self._unwritten(result.Status.REFUSED, refusal), path)
        if not self.plan.changes or (self.options.dry_run and not self._is_old):
            return self._report(self._unwritten(result.Status.PLANNED), path)
        registry.check_rights(self.client, self.plan.changes)
        if self.options.dry_run:
            return self._report(self._rehearse(), path)
        undo_path = self._write_undo()
        with self._journal() as writer:
            _describe(writer, self._described(path, undo_path))
            run = self._execute(writer)
            _describe(writer, {"unfinished": _is_unfinished(run)})
            has_changed = any(state in _APPLIED for state in writer.entries.values())
        report = self._report(run, path)
        if undo_path is None:
            return report
        if not has_changed:
            undo_path.unlink(missing_ok=True)
            return report
        return self._narrow_undo(report, undo_path)

    def _write_plan(self) -> pathlib.Path | None:
        """Write the plan file if one is requested or needed; return the path for the report."""
        path, plan = self.options.plan_out, self.plan
        needed = plan.relative and plan.changes and not self.options.dry_run
        if path is None and self.path is None and needed:
            path = file.default_path(plan, "plan")
        if path is not None:
            journal.check_replaceable(path, plan)
            file.write(path, plan)
        return self.path or (None if path == file.STANDARD_OUTPUT else path)

    def _write_undo(self) -> pathlib.Path | None:
        """Write the undo file; None for an undo, and for a run that keeps nothing."""
        if self.direction is attempt.Direction.UNDO or self.options.journal is not None:
            return None
        plan, here = self.plan, transport.identity_of(self.client.target)
        path = self.options.undo_out or file.default_path(plan, "undo", here)
        file.write(path, self._here(inverse_of(plan)))
        return path

    def _here(self, plan: plan_module.Plan) -> plan_module.Plan:
        """An undo plan for the target of this run: a plan can be rehearsed on a snapshot."""
        target = self.client.target
        return dataclasses.replace(
            plan,
            target=str(target),
            identity=transport.identity_of(target),
            origin=self.client.origin,
        )

    @contextlib.contextmanager
    def _journal(self) -> Iterator[journal.JournalWriter]:
        if self.options.journal is not None:
            yield self.options.journal
            return
        path = journal.path_of(self.plan, self.client.target)
        with contextlib.closing(journal.Journal(path)) as writer:
            yield writer

    def _described(
        self, path: pathlib.Path | None, undo_path: pathlib.Path | None
    ) -> dict[str, Any]:
        """The fields of the run for its journal; an undo keeps those of the applied plan."""
        plan, is_undo = self.plan, self.direction is attempt.Direction.UNDO
        files = {"undo": path} if is_undo else {"plan": path, "undo": undo_path}
        return {
            "target": str(self.client.target),
            "command": plan.command.removeprefix(COMMAND),
            "created": plan.created,
            **({} if is_undo else {"changes": len(plan.changes)}),
            **{role: str(file.absolute()) for role, file in files.items() if file is not None},
            "is_undo": is_undo,
            "unfinished": True,
        }

    def _execute(self, writer: journal.JournalWriter) -> executor.Run:
        options, changes = self.options, self.plan.changes
        LOG.info("%s %d changes on %s", self.direction.name, len(changes), self.client.target)
        options.progress.start("applying", len(changes))
        return executor.execute(
            changes,
            self._context(writer, self.client, options.neutron),
            options.limits,
            self.known,
            self._count,
        )

    def _count(self, ended: result.ChangeResult) -> None:
        self.options.progress.note(ended.event)
        self.options.progress.advance()

    def _context(
        self, writer: journal.JournalWriter, client: api.Client, neutron: Neutron | None
    ) -> attempt.RunContext:
        options = self.options
        return attempt.RunContext(
            base.Services(client, neutron),
            writer,
            threading.Event(),
            direction=self.direction,
            strict=self.strict,
            relative=self.plan.relative,
            allow=frozenset({*self.plan.allow, *options.allow}),
            check_precondition=options.check_precondition or (lambda _: ""),
            on_retry=options.progress.note,
        )

    @property
    def _is_old(self) -> bool:
        """Whether the cloud may have changed since the plan was made."""
        return self.path is not None or self.direction is attempt.Direction.UNDO

    def _rehearse(self) -> executor.Run:
        """What a run would do: the run itself, on a copy of what the plan concerns.

        Requests: those of ``Options.copy``, and those of preconditions and ports.
        """
        options = self.options
        if options.copy is None:
            raise plan_module.PlanRefused("the dry run of a plan file needs a copy of the cloud")
        entries = journal.read(journal.path_of(self.plan, self.client.target)).entries
        neutron = None if options.neutron is None else CopyOfNeutron(options.neutron)
        with options.copy(self.plan) as client:
            options.progress.start("checking", len(self.plan.changes))
            run = executor.execute(
                self.plan.changes,
                self._context(journal.MemoryJournal(entries), client, neutron),
                dataclasses.replace(options.limits, max_count=None, workers=1),
                on_result=lambda _: options.progress.advance(),
            )
        run.results = [item.as_planned() for item in run.results]
        run.halted = result.without_request_id(run.halted)
        return run

    def _unwritten(
        self, status: result.Status, reason: reasons.Reason = reasons.NONE
    ) -> executor.Run:
        """The results of a plan of which nothing is written. Sends nothing."""
        results = [result.of_change(item, status, reason) for item in self.plan.changes]
        return executor.Run(results, halted=reason.text)

    def _report(self, run: executor.Run, path: pathlib.Path | None) -> result.RunReport:
        plan, dry_run = self.plan, self.options.dry_run
        planned = plan.effects()
        achieved = plan.achieved_effects(
            {item.key for item in run.results if item.succeeds(dry_run=dry_run)}
        )
        return result.RunReport(
            result.ordered([*run.results, *map(result.of_skipped, plan.skipped)]),
            self.client.target,
            dry_run=dry_run,
            limited=run.limited,
            interrupted=run.interrupted,
            halted=run.halted,
            notes=plan.notes,
            effects=achieved,
            planned_effects=() if planned == achieved else planned,
            names=plan.names,
            plan_path=path,
            command=plan.command,
            undoes=self.direction is attempt.Direction.UNDO,
            reads_again=self._is_old,
        )

    def _narrow_undo(self, report: result.RunReport, path: pathlib.Path) -> result.RunReport:
        """Narrow the undo file to what was applied; remove it if nothing was.

        After an interruption, or with a failed change, it stays complete: the journal lists what
        was applied.
        """
        report = dataclasses.replace(report, undo_path=path)
        if report.interrupted or report.count(result.Status.FAILED):
            return report
        applied = of_results(self.plan, report.results)
        if not applied.changes:
            path.unlink(missing_ok=True)
            return dataclasses.replace(report, undo_path=None)
        if applied != inverse_of(self.plan):
            # A complete undo file is safe too: the journal lists what was applied.
            with contextlib.suppress(errors.PlacementError):
                file.write(path, self._here(applied))
        return report


def _describe(writer: journal.JournalWriter, fields: Mapping[str, Any]) -> None:
    """Record fields of the run; without them the run is not listed, or as unfinished."""
    with contextlib.suppress(journal.Unwritable):
        writer.describe(fields)


def _is_unfinished(run: executor.Run) -> bool:
    """Whether running the plan again may make more changes."""
    failed = any(item.status is result.Status.FAILED for item in run.results)
    return run.limited or run.interrupted or bool(run.halted) or failed


#: The start of the command of an undo plan.
COMMAND = "undo of: "

_IRREVERSIBLE = "it cannot be undone: {}"
_NOT_APPLIED = reasons.Reason(reasons.Code.NOT_APPLIED, "it was never applied here")
_CUT = (
    "The journal ends within a run: the run was killed, or the end of the file is lost. A change"
    " that the journal does not have was left as it is."
)

#: States of a change that undo may have to restore.
_APPLIED = frozenset({journal.StepState.APPLIED, *journal.IN_DOUBT, journal.StepState.UNDONE})


def inverse_of(plan: plan_module.Plan, entries: journal.Entries | None = None) -> plan_module.Plan:
    """The plan that undoes ``plan``.

    With the entries of its journal, only what was applied; without, all of it. What cannot be
    undone, or was not applied, is skipped.
    """
    return _plan_of(plan, [_inverse_change(item, entries) for item in plan.changes])


def _plan_of(plan: plan_module.Plan, items: Sequence[Change[Any] | Skipped]) -> plan_module.Plan:
    """The plan of these items that undoes ``plan``, or a part of it."""
    return plan_module.make(
        items,
        command=f"{COMMAND}{plan.command}",
        target=plan.target,
        identity=plan.identity,
        origin=plan.origin,
        microversion=plan.microversion,
        created=plan.created,
        allow=plan.allow,
        undoes=plan.digest,
        names=plan.names,
    )


def restricted(plan: plan_module.Plan, entries: journal.Entries) -> plan_module.Plan:
    """An undo plan without the changes that the journal of its original lists as not applied.

    Without a journal (on another machine) the plan is returned unchanged.
    """
    if not entries:
        return plan
    items = [
        item if entries.get(item.key) in _APPLIED else _skipped(item, _NOT_APPLIED)
        for item in plan.changes
    ]
    made = plan_module.make([*items, *plan.skipped])
    return dataclasses.replace(
        plan, changes=made.changes, skipped=made.skipped, relative=False, notes=(), capacities={}
    )


def of_results(
    plan: plan_module.Plan, results: tuple[result.ChangeResult, ...]
) -> plan_module.Plan:
    """The plan that undoes what a run applied, and nothing else."""
    applied = {item.key for item in results if item.status is result.Status.APPLIED}
    changes = [item for item in plan.changes if item.key in applied]
    return _plan_of(plan, [_inverse_change(item, None) for item in changes])


def _inverse_change(change: Change[Any], entries: journal.Entries | None) -> Change[Any] | Skipped:
    undo = change.inverse()
    if change.irreversible:
        text = _IRREVERSIBLE.format(change.irreversible)
        return _skipped(undo, reasons.Reason(reasons.Code.IRREVERSIBLE, text))
    if entries is None or entries.get(change.key) in _APPLIED:
        return undo
    return _skipped(undo, _NOT_APPLIED)


def _skipped(change: Change[Any], reason: reasons.Reason) -> Skipped:
    return Skipped(
        change.kind, change.subject, change.before, change.after, reason.text, reason.code
    )
