"""From a plan to its outcome, with everything that must be on disk on the way.

Order: the plan file (where there is one), the file that takes it back, the journal, and
only then the first write. Called by the commands that change something.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import pathlib
import threading
from collections.abc import Iterator, Mapping

from osc_placement import errors
from osc_placement.client import api, retry
from osc_placement.plan import (
    attempt,
    change,
    executor,
    file,
    journal,
    plan,
    progress,
    result,
    undo,
)
from osc_placement.plan.kinds import base, registry


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What every changing command takes; ``allow`` adds to the guards that the plan overrides.

    ``broken`` judges the premises of changes, for plans that have such; None where nobody can.
    ``kinds`` are those that can be carried out, Placement's own unless more services are at hand.
    """

    dry_run: bool = False
    allow: tuple[str, ...] = ()
    plan_out: pathlib.Path | None = None
    undo_out: pathlib.Path | None = None
    limits: executor.Limits = dataclasses.field(default_factory=executor.Limits)
    watch: progress.Progress = dataclasses.field(default_factory=progress.NullProgress)
    broken: attempt.PreconditionCheck | None = None
    kinds: Mapping[str, base.ChangeType] = dataclasses.field(
        default_factory=lambda: registry.CHANGE_TYPES
    )


def carry_out(
    client: api.Client, planned: plan.ObservedPlan, command: str, options: Options
) -> result.RunReport:
    """Apply a plan that was made just now, or only tell of it.

    A plan of relative values is always kept in a file: running the command again would
    change them twice, applying the file goes on.
    Cost: one write per change; one read more where planning has not read it.
    """
    made = planned.plan.replace(
        command=command,
        target=client.target,
        microversion=str(client.microversion),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
    )
    plan_path = options.plan_out
    if plan_path is None and made.relative and made.changes and not options.dry_run:
        plan_path = file.default_path(made, "plan")
    if plan_path is not None:
        file.write(plan_path, made)
    if options.dry_run or not made.changes:
        return _only_told(made, options, plan_path)
    _check_rights(client, made)
    undo_path = options.undo_out or file.default_path(made, "undo")
    file.write(undo_path, undo.inverse(made))
    with _journal(made, client.target, anew=True) as entries:
        around = _circumstances(client, made, entries, options, strict=made.relative)
        run = _run(made, around, options, planned.known)
    report = _report(made, run, client.target, plan_path)
    return _with_undo(report, made, undo_path)


def at_once(
    client: api.Client, planned: plan.ObservedPlan, limits: executor.Limits | None = None
) -> result.RunReport:
    """Apply a plan of absolute values that was made just now, and keep nothing on disk.

    For upstream's batch forms, which know of no plan and no undo. Cost: one write per
    change; one read more where planning has not read it.
    """
    made = planned.plan.replace(target=client.target)
    around = attempt.RunContext(
        client,
        journal.MemoryJournal(),
        threading.Event(),
        strict=False,
        allow=frozenset(made.allow),
    )
    run = _run(made, around, Options(limits=limits or executor.Limits()), planned.known)
    return _report(made, run, client.target, None)


def apply(
    client: api.Client,
    made: plan.Plan,
    path: pathlib.Path,
    options: Options,
    *,
    restart: bool = False,
) -> result.RunReport:
    """Apply a plan file, or go on with it where an earlier run stopped.

    ``restart`` forgets what earlier runs have done. A plan that undoes another is taken as
    what it is. Cost: one read and one write per change that is left.
    Errors: PlanRefused, before any request, for a plan of another cloud.
    """
    plan.check_target(made, client.target)
    _check_premises(made, options)
    _check_kinds(made, options)
    if made.undoes:
        entries = journal.peek(journal.path_of(made, client.target))
        return _take_back(client, undo.restricted(made, entries), path, options)
    if options.plan_out is not None:
        file.write(options.plan_out, made)
    if options.dry_run:
        entries = journal.peek(journal.path_of(made, client.target))
        return _foretold(made, entries, attempt.Direction.APPLY, options, path)
    _check_rights(client, made)
    undo_path = options.undo_out or file.default_path(made, "undo")
    file.write(undo_path, undo.inverse(made))
    with _journal(made, client.target, anew=restart) as opened:
        around = _circumstances(client, made, opened, options, strict=True)
        run = _run(made, around, options, {})
    return _with_undo(_report(made, run, client.target, path), made, undo_path)


def take_back(
    client: api.Client, made: plan.Plan, path: pathlib.Path, options: Options
) -> result.RunReport:
    """Undo exactly what was applied of a plan file, or apply a file made by --undo-out.

    What somebody else has changed since is stale and left alone.
    Cost: one read and one write per change that was applied.
    Errors: PlanRefused, before any request, for a plan of another cloud.
    """
    plan.check_target(made, client.target)
    _check_kinds(made, options)
    entries = journal.peek(journal.path_of(made, client.target))
    inverse = undo.restricted(made, entries) if made.undoes else undo.inverse(made, entries)
    return _take_back(client, inverse, path, options)


def _take_back(
    client: api.Client, inverse: plan.Plan, path: pathlib.Path, options: Options
) -> result.RunReport:
    if options.plan_out is not None:
        file.write(options.plan_out, inverse)
    if options.dry_run or not inverse.changes:
        entries = journal.peek(journal.path_of(inverse, client.target))
        return _foretold(inverse, entries, attempt.Direction.UNDO, options, path)
    _check_rights(client, inverse)
    with _journal(inverse, client.target) as opened:
        around = _circumstances(client, inverse, opened, options, strict=True)
        around = dataclasses.replace(around, direction=attempt.Direction.UNDO)
        run = _run(inverse, around, options, {})
    return _report(inverse, run, client.target, path)


@contextlib.contextmanager
def _journal(made: plan.Plan, target: str, *, anew: bool = False) -> Iterator[journal.Journal]:
    opened = journal.Journal(journal.path_of(made, target), anew=anew)
    try:
        yield opened
    finally:
        opened.close()


def _circumstances(
    client: api.Client,
    made: plan.Plan,
    opened: journal.JournalWriter,
    options: Options,
    *,
    strict: bool,
) -> attempt.RunContext:
    return attempt.RunContext(
        client,
        opened,
        threading.Event(),
        strict=strict,
        allow=frozenset({*made.allow, *options.allow}),
        broken=options.broken or (lambda _: ""),
        kinds=options.kinds,
    )


def _check_premises(made: plan.Plan, options: Options) -> None:
    if options.broken is None and not options.dry_run and has_premises(made):
        raise plan.PlanRefused(
            "the plan builds on what nova said of its servers, and nova cannot be asked now"
        )


def _check_kinds(made: plan.Plan, options: Options) -> None:
    if not options.dry_run and any(item.kind not in options.kinds for item in made.changes):
        raise plan.PlanRefused("the plan changes ports, and neutron cannot be asked now")


def _check_rights(client: api.Client, made: plan.Plan) -> None:
    """What would be refused in the middle is refused before the first step is begun.

    One request where something is reshaped. Errors: UnsupportedVersion, Forbidden.
    """
    if any(_gives_parent(item) for item in made.changes):
        client.require_feature("re-parenting", "giving a provider another parent")
    if any(item.kind == change.RESHAPE for item in made.changes):
        retry.read(client.check_reshape)


def _gives_parent(item: change.Change) -> bool:
    """Whether a provider that is there and stays gets another parent."""
    sides = (item.before, item.after)
    stays = all(side.get("name", "") is not None for side in sides)
    return item.kind == change.PROVIDER and "parent" in item.after and stays


def needs_network(made: plan.Plan) -> bool:
    """Whether applying the plan or taking it back changes ports too."""
    return any(item.kind == change.BOUND for item in made.changes)


def has_premises(made: plan.Plan) -> bool:
    """Whether applying the plan needs somebody to judge if what it builds on is still so."""
    return any(item.premise for item in made.changes)


def _run(
    made: plan.Plan,
    around: attempt.RunContext,
    options: Options,
    known: Mapping[str, change.Observed],
) -> executor.Run:
    options.watch.expect("applying", len(made.changes))
    return executor.execute(
        made.changes, around, options.limits, known, lambda _: options.watch.advance()
    )


def _report(
    made: plan.Plan, run: executor.Run, target: str, path: pathlib.Path | None
) -> result.RunReport:
    remarks = [result.of_remark(item) for item in made.remarks]
    return result.RunReport(
        result.ordered([*run.outcomes, *remarks]),
        target,
        limited=run.limited,
        interrupted=run.interrupted,
        halted=run.halted,
        notes=made.notes,
        effects=made.effects(),
        names=made.names,
        plan_path=path,
    )


def _with_undo(report: result.RunReport, made: plan.Plan, path: pathlib.Path) -> result.RunReport:
    """Narrow the undo file to what was really changed; nothing changed needs no file.

    After an interruption, or with a change whose outcome is unknown, it stays whole: the
    journal knows what of it was applied.
    """
    taken = undo.of_outcomes(made, report.outcomes)
    if report.interrupted or report.count(result.Status.FAILED):
        return dataclasses.replace(report, undo_path=path)
    if not taken.changes:
        file.remove(path)
        return report
    # It tells more than was done until it is narrowed, and its journal knows what was.
    with contextlib.suppress(errors.PlacementError):
        file.write(path, taken)
    return dataclasses.replace(report, undo_path=path)


def _only_told(made: plan.Plan, options: Options, path: pathlib.Path | None) -> result.RunReport:
    return result.RunReport(
        result.of_plan(made),
        made.target,
        dry_run=options.dry_run,
        notes=made.notes,
        effects=made.effects(),
        names=made.names,
        plan_path=path,
    )


def _foretold(
    made: plan.Plan,
    entries: Mapping[str, journal.Entry],
    direction: attempt.Direction,
    options: Options,
    path: pathlib.Path,
) -> result.RunReport:
    """What applying a plan file would do, from its journal alone. No request."""

    def status(item: change.Change) -> result.ChangeResult:
        entry = entries.get(item.key)
        if entry is not None and entry.state is direction.done:
            return result.of_change(item, result.Status.APPLIED, "in an earlier run")
        return result.of_change(item, result.Status.PLANNED)

    return result.RunReport(
        result.ordered([*map(status, made.changes), *map(result.of_remark, made.remarks)]),
        made.target,
        dry_run=options.dry_run,
        notes=made.notes,
        effects=made.effects(),
        names=made.names,
        plan_path=path,
    )
