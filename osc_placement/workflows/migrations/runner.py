"""Online data migrations: batches of changes that bring a cloud's data up to date while it runs.

A migration yields *slices*: parts of the cloud in a fixed order, each planned when its turn
comes. A cursor remembers how far the pass has come, so that the next run need not observe
again what this one has. ``migrations`` lists the migrations that there are.
"""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Callable, Iterator, Sequence

from osc_placement import errors
from osc_placement.client import api, api_errors
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, attempt, executor, plan, result as plan_result
from osc_placement.workflows import context, state_file


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """What migrations work on."""

    client: api.Client
    nova: nova_api.Nova
    network: neutron_api.Neutron
    reading: context.ReadContext = dataclasses.field(default_factory=context.ReadContext)


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """What is to be done in one part of the cloud; ``position`` is where the next one begins.

    ``check_precondition`` checks the preconditions of its changes, ``neutron`` writes its ports.
    """

    position: str
    planned: plan.ObservedPlan
    check_precondition: attempt.PreconditionCheck | None = None
    neutron: neutron_api.Neutron | None = None


#: Yields what follows a position, of a pass that begins with "".
Slices = Callable[[Services, str], Iterator[Slice]]


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """``slices`` observe and plan; ``remedy`` tells where to look for what is left alone.

    ``needs`` is the feature without which a Placement has nothing to migrate.
    """

    name: str
    description: str
    slices: Slices
    remedy: str
    needs: str


class Exit(enum.IntEnum):
    """nova-manage's own exit codes of online data migrations."""

    DONE = 0
    MORE = 1
    ERRORS = 2
    BAD_VALUE = 127


@dataclasses.dataclass(slots=True)
class Count:
    """How many changes a migration has done in the run, and how many are left of its last pass."""

    done: int = 0
    left: int = 0

    @property
    def found(self) -> int:
        """How many there were to do, as far as the run has looked."""
        return self.done + self.left


@dataclasses.dataclass(slots=True)
class Result:
    """``counts`` by migration; ``undo`` files in the order in which they were made.

    ``troubles`` are what failed in the last pass, ``notes`` what no migration can do.
    """

    counts: dict[str, Count]
    troubles: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    undo: list[str] = dataclasses.field(default_factory=list)
    exit_code: Exit = Exit.MORE
    interrupted: bool = False

    @property
    def done(self) -> int:
        """How many changes were made."""
        return sum(count.done for count in self.counts.values())


class Cursor:
    """How far the present pass has come: ``{migration: position}``, in a file."""

    #: The position of a migration that has come to its end; no host is called so.
    END = "(end)"
    _KEY = "positions"

    def __init__(
        self, target: str, path: pathlib.Path | None = None, *, from_start: bool = False
    ) -> None:
        self._target, self._in_memory = target, from_start
        self._path = path or state_file.path_of("migrations", target)
        kept = state_file.load(self._path, self._KEY)
        self.positions, self.trouble = {} if from_start else dict(kept.values), kept.error

    def move(self, migration: str, position: str) -> None:
        """Remember where the next slice begins."""
        self.positions[migration] = position
        self._save()

    def restart(self) -> None:
        """The pass is over: the next one begins at the start."""
        if self.positions:
            self.positions.clear()
            self._save()

    def _save(self) -> None:
        if self._in_memory:
            return
        try:
            state_file.save(self._path, self._target, self._KEY, self.positions)
        except errors.PlacementError as error:
            self.trouble = str(error)


def run(
    services: Services,
    command: str,
    migrations: Sequence[Migration],
    *,
    max_count: int | None = None,
    cursor: pathlib.Path | None = None,
    dry_run: bool = False,
) -> Result:
    """Run all migrations, pass after pass, until a whole one finds nothing that can be done.

    The first pass begins where ``cursor`` (a file; by default one for each cloud) says that
    the last run stopped. The run ends with DONE after a pass from the start did nothing, with
    ERRORS when something failed in it. With ``max_count`` it ends when so many changes are
    made, and after each pass that made any: MORE, though they may have been the last.
    A dry run makes one pass from the start, counts the changes and records no position.
    Cost: what planning and applying cost, for each pass; the last one only plans.
    """
    position = Cursor(services.client.target, cursor, from_start=dry_run)
    return _Run(services, command, migrations, max_count, position, dry_run=dry_run).run()


class _Run:
    def __init__(
        self,
        services: Services,
        command: str,
        migrations: Sequence[Migration],
        max_count: int | None,
        cursor: Cursor,
        *,
        dry_run: bool,
    ) -> None:
        self._dry_run = dry_run
        self._services, self._command = services, command
        self._migrations, self._max_count, self._cursor = migrations, max_count, cursor
        self._result = Result({item.name: Count() for item in migrations})

    def run(self) -> Result:
        result = self._result
        while True:
            from_the_start, before = not self._cursor.positions, result.done
            self._pass()
            progress = result.done > before
            if self._dry_run:
                result.exit_code = Exit.ERRORS if result.troubles else Exit.DONE
                break
            if self._is_enough() or (progress and self._max_count is not None):
                break
            if from_the_start and not progress:
                result.exit_code = Exit.ERRORS if result.troubles else Exit.DONE
                break
        if self._cursor.trouble:
            result.notes.append(self._cursor.trouble)
        return result

    def _is_enough(self) -> bool:
        limited = self._max_count is not None and self._result.done >= self._max_count
        return limited or self._result.interrupted

    def _pass(self) -> None:
        """Every migration from where the cursor stands; the cursor is at the start after it."""
        result = self._result
        result.troubles, result.notes = [], []
        for item in self._migrations:
            result.counts[item.name].left = 0
            if not self._is_enough():
                self._migrate(item)
        if not self._is_enough():
            self._cursor.restart()

    def _migrate(self, item: Migration) -> None:
        """One migration to its end, or as far as it may go."""
        after = self._cursor.positions.get(item.name, "")
        if after == Cursor.END:
            return
        try:
            self._services.client.require_feature(item.needs)
            for part in item.slices(self._services, after):
                if not self._slice(item, part):
                    return
        except api_errors.UnsupportedVersion as error:
            self._result.notes.append(f"{item.name}: not for this Placement: {error}")
        except errors.PlacementError as error:
            self._result.troubles.append(f"{item.name}: {error}")
            return
        self._cursor.move(item.name, Cursor.END)

    def _slice(self, item: Migration, part: Slice) -> bool:
        """Do what there is to do in a slice; whether the next one may begin."""
        count = self._result.counts[item.name]
        found = len(part.planned.plan.changes)
        alone = sum(remark.refused for remark in part.planned.plan.skipped)
        count.left += found
        if found and not self._dry_run:
            report = self._apply(item, part)
            applied = report.count(plan_result.Status.APPLIED)
            count.done, count.left = count.done + applied, count.left - applied
            alone += report.count(plan_result.Status.SKIPPED) + report.count(
                plan_result.Status.STALE
            )
            self._tell(item, report)
            if report.limited or report.interrupted or report.halted:
                return False
        if alone:
            self._result.notes.append(f"{item.name}: {alone} skipped; {item.remedy}")
        self._cursor.move(item.name, part.position)
        return True

    def _apply(self, item: Migration, part: Slice) -> plan_result.RunReport:
        left = None if self._max_count is None else self._max_count - self._result.done
        reading = self._services.reading
        client = self._services.client
        options = apply.Options(
            limits=executor.Limits(workers=reading.workers, max_count=left),
            progress=reading.watch,
            check_precondition=part.check_precondition,
            neutron=part.neutron,
        )
        planned = part.planned.stamped(client, f"{self._command} {item.name}")
        return apply.apply_plan(client, planned, options)

    def _tell(self, item: Migration, report: plan_result.RunReport) -> None:
        self._result.interrupted = report.interrupted
        self._result.troubles += [
            f"{item.name}: {ended.subject.name}: {ended.reason}"
            for ended in report.results
            if ended.status is plan_result.Status.FAILED
        ]
        self._result.undo += [str(report.undo_path)] if report.undo_path else []
