# SPDX-License-Identifier: Apache-2.0
"""Online data migrations: changes that update a cloud's data while it runs.

A migration yields *slices*: parts of the cloud in a fixed order, each planned just before it
is applied. ``run`` applies them in passes. A cursor file keeps the position of a pass, so that the
next run continues there. To add a migration, write a function that yields slices and add an entry
to ``MIGRATIONS``.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import hashlib
import json
import logging
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

from osc_placement import errors
from osc_placement.client import api, api_errors, transport
from osc_placement.model import json_text
from osc_placement.neutron.api import Neutron
from osc_placement.nova.api import Nova
from osc_placement.plan import apply, attempt, executor, file, plan, reasons, removal_limit
from osc_placement.plan.result import ChangeResult, RunReport, Status, of_plan
from osc_placement.workflows.batch import mirror
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.allocations import heal, preconditions
from osc_placement.workflows.repair.allocations.heal_request import HealRequest
from osc_placement.workflows.repair.migrations import consumers, display_heads

LOG = logging.getLogger(__name__)


class MigratedCloud(Protocol):
    """Nova and neutron, which are opened when a migration first uses them."""

    @property
    def nova(self) -> Nova: ...

    @property
    def neutron(self) -> Neutron: ...


@dataclasses.dataclass(frozen=True, slots=True)
class CloudServices:
    """The services of a run, and the context for reading them."""

    client: api.Client
    cloud: MigratedCloud
    context: ReadContext = dataclasses.field(default_factory=ReadContext)


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """The changes of one part of the cloud; the next slice follows after ``position``.

    ``check_precondition`` checks the preconditions of its changes, ``neutron`` writes its ports.
    """

    position: str
    planned: plan.ObservedPlan
    check_precondition: attempt.PreconditionCheck | None = None
    neutron: Neutron | None = None


#: The statuses of items that a run did not change, although there may be something to do.
_NOT_MADE = (Status.SKIPPED, Status.REFUSED, Status.STALE)

#: Yields the slices after a position; a pass begins with "".
Slices = Callable[[CloudServices, str], Iterator[Slice]]


@dataclasses.dataclass(frozen=True, slots=True)
class DataMigration:
    """``slices`` reads and plans; ``remedy`` says how the operator can see skipped changes.

    ``needs`` is the feature that Placement must support. ``by_default``: it runs when the
    operator names no migration. ``reads_nova``: it cannot run without nova.
    """

    name: str
    description: str
    slices: Slices
    remedy: str
    needs: str
    by_default: bool = True
    reads_nova: bool = True


def _needs_attention(ended: ChangeResult) -> bool:
    """False for items that need no change; true for a server that nova changed since."""
    is_skipped = ended.status is Status.SKIPPED
    return not is_skipped or ended.code == reasons.Code.CHANGED_IN_NOVA


class RunEnd(enum.IntEnum):
    """The exit codes of nova-manage's online data migrations."""

    DONE = 0
    MORE = 1
    ERRORS = 2
    BAD_VALUE = 127


@dataclasses.dataclass(slots=True)
class Counts:
    """The applied changes of a run, and the remaining changes of its last pass."""

    done: int = 0
    left: int = 0

    @property
    def found(self) -> int:
        """All changes that the run has planned."""
        return self.done + self.left


@dataclasses.dataclass(slots=True)
class Result:
    """``counts`` by migration; ``undo`` files in the order of their creation.

    ``failures`` are the errors of the last pass, ``notes`` the numbers of the items that it did
    not change. ``incomplete``: the run ended before it tried every change.
    """

    counts: dict[str, Counts]
    failures: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    undo: list[str] = dataclasses.field(default_factory=list)
    exit_code: RunEnd = RunEnd.MORE
    interrupted: bool = False
    incomplete: bool = False

    @property
    def done(self) -> int:
        """The number of applied changes."""
        return sum(count.done for count in self.counts.values())


class Cursor:
    """The position of each migration in the current pass, in a file for each cloud.

    Losing the file costs time only, so a file that cannot be used does not stop the run: ``error``
    says why.
    """

    #: The position of a migration without further slices; not a valid host name.
    END = "(end)"

    def __init__(
        self, target: str, path: pathlib.Path | None = None, *, from_start: bool = False
    ) -> None:
        name = hashlib.sha256(transport.identity_of(target).place.encode()).hexdigest()[:32]
        self._path = path or file.state_directory() / "migrations" / f"{name}.json"
        self._target, self._in_memory = target, from_start
        self.positions: dict[str, str] = {}
        self.error = ""
        if not from_start:
            self._load()

    def _load(self) -> None:
        try:
            positions = json_text.read(self._path)["positions"]
            self.positions = {str(name): str(position) for name, position in positions.items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            self.error = f"{self._path} cannot be read: {error}"

    def move(self, migration: str, position: str) -> None:
        """Save the position of a migration."""
        self.positions[migration] = position
        self._save()

    def is_at_start(self, migrations: Collection[str]) -> bool:
        """Whether none of these migrations has a position."""
        return self.positions.keys().isdisjoint(migrations)

    def restart(self, migrations: Collection[str]) -> None:
        """Clear the positions of these migrations at the end of a pass."""
        if not self.is_at_start(migrations):
            self.positions = {
                name: position
                for name, position in self.positions.items()
                if name not in migrations
            }
            self._save()

    def _save(self) -> None:
        if self._in_memory:
            return
        document = {"target": self._target, "positions": self.positions}
        try:
            file.replace(self._path, [json.dumps(document, indent=1), "\n"])
        except errors.PlacementError as error:
            self.error = str(error)


def run(
    services: CloudServices,
    command: str,
    migrations: Sequence[DataMigration],
    *,
    max_count: int | None = None,
    cursor: pathlib.Path | None = None,
    dry_run: bool = False,
    allow: Iterable[str] = (),
    max_percent: int | None = None,
) -> Result:
    """Run all migrations in passes, until a pass from the start applies nothing.

    The first pass continues at the position in ``cursor``, a file; by default one per cloud.
    The exit code is DONE if the last pass had no errors, otherwise ERRORS. With ``max_count``
    the run ends with MORE after that many changes, and after every pass with a change, even
    if no change is left. A dry run makes one pass from the start, counts the changes and
    saves no position. A slice that removes more than ``max_percent`` of what exists stops its
    migration before the first write, if ``allow`` does not contain the guard.
    Requests: those of planning and applying in each pass; the last pass only plans.
    """
    position = Cursor(services.client.target, cursor, from_start=dry_run)
    return _Run(
        services, command, migrations, position, max_count, dry_run, tuple(allow), max_percent
    ).run()


@dataclasses.dataclass
class _Run:
    """The arguments of ``run``, and the result so far."""

    services: CloudServices
    command: str
    migrations: Sequence[DataMigration]
    cursor: Cursor
    max_count: int | None
    dry_run: bool
    allow: Sequence[str]
    max_percent: int | None

    def __post_init__(self) -> None:
        self._result = Result({item.name: Counts() for item in self.migrations})

    def run(self) -> Result:
        result = self._result
        while True:
            from_the_start, before = self.cursor.is_at_start(result.counts), result.done
            self._pass()
            progress = result.done > before
            if self.dry_run:
                result.exit_code = RunEnd.ERRORS if result.failures else RunEnd.DONE
                break
            if self._is_finished() or (progress and self.max_count is not None):
                break
            if from_the_start and not progress:
                result.exit_code = RunEnd.ERRORS if result.failures else RunEnd.DONE
                break
        if self.cursor.error:
            result.notes.append(self.cursor.error)
        return result

    def _is_finished(self) -> bool:
        limited = self.max_count is not None and self._result.done >= self.max_count
        return limited or self._result.interrupted

    def _pass(self) -> None:
        """Run each migration from its position to its end, then reset the cursor."""
        result = self._result
        result.failures, result.notes, result.incomplete = [], [], False
        for item in self.migrations:
            result.counts[item.name].left = 0
            if not self._is_finished():
                self._migrate(item)
        if not self._is_finished():
            self.cursor.restart(result.counts)

    def _migrate(self, item: DataMigration) -> None:
        """Run one migration to its end or to the limit of the run."""
        after = self.cursor.positions.get(item.name, "")
        if after == Cursor.END:
            return
        not_made: collections.Counter[Status] = collections.Counter()
        legalized, unread = 0, dict[str, None]()
        try:
            self.services.client.require_feature(item.needs)
            for part in item.slices(self.services, after):
                legalized += heal.legalized(part.planned.plan)
                unread |= dict.fromkeys(heal.unread_notes(part.planned.plan))
                if not self._slice(item, part, not_made):
                    return
        except api_errors.UnsupportedVersion as error:
            self._result.notes.append(f"{item.name}: not supported by this Placement: {error}")
        except errors.PlacementError as error:
            self._result.failures.append(f"{item.name}: {error}")
            self._result.incomplete = not self.dry_run
            return
        finally:
            counts = [f"{not_made[status]} {status}" for status in _NOT_MADE if not_made[status]]
            warnings = (*heal.legalized_note(legalized), *unread)
            self._result.notes += [f"{item.name}: {text}" for text in warnings]
            if counts:
                self._result.notes.append(f"{item.name}: {', '.join(counts)}; {item.remedy}")
        self.cursor.move(item.name, Cursor.END)

    def _slice(
        self, item: DataMigration, part: Slice, not_made: collections.Counter[Status]
    ) -> bool:
        """Apply a slice and count what was not changed; whether to continue with the next one."""
        count = self._result.counts[item.name]
        planned = self._stamped(item, part)
        count_planned = len(planned.plan.changes)
        results = of_plan(planned.plan)
        count.left += count_planned
        refusal = removal_limit.refusal(planned.plan)
        if refusal:
            self._result.failures.append(f"{item.name}: {refusal}")
            return False
        if count_planned and not self.dry_run:
            report = self._apply(part, planned)
            self._result.incomplete = self._result.incomplete or report.is_incomplete
            applied = report.count(Status.APPLIED)
            count.done, count.left = count.done + applied, count.left - applied
            results = report.results
            self._record(item, report)
            if report.is_incomplete:
                return False
        not_made.update(ended.status for ended in results if _needs_attention(ended))
        LOG.info("%s: %d planned, position %s", item.name, count_planned, part.position)
        self.cursor.move(item.name, part.position)
        return True

    def _stamped(self, item: DataMigration, part: Slice) -> plan.ObservedPlan:
        return part.planned.stamped(
            self.services.client,
            f"{self.command} --migration {item.name}",
            allow=self.allow,
            max_percent=self.max_percent,
        )

    def _apply(self, part: Slice, planned: plan.ObservedPlan) -> RunReport:
        context = self.services.context
        left = None if self.max_count is None else self.max_count - self._result.done
        options = apply.Options(
            limits=executor.RunLimits(workers=context.workers, max_count=left),
            progress=context.progress,
            check_precondition=part.check_precondition,
            neutron=part.neutron,
        )
        return apply.apply_plan(self.services.client, planned, options)

    def _record(self, item: DataMigration, report: RunReport) -> None:
        self._result.interrupted = report.interrupted
        self._result.failures += [
            f"{item.name}: {ended.subject.name}: {ended.reason}"
            for ended in report.results
            if ended.status is Status.FAILED
        ]
        self._result.undo += [str(report.undo_path)] if report.undo_path else []


def _whole(planned: Callable[[CloudServices], plan.ObservedPlan]) -> Slices:
    """One slice: what decides about one change may be anywhere in the cloud."""

    def slices(services: CloudServices, _: str) -> Iterator[Slice]:
        yield Slice(Cursor.END, planned(services))

    return slices


def _mirror(services: CloudServices, _: str) -> Iterator[Slice]:
    nova = services.cloud.nova
    planned = mirror.plan_mirror(services.client, nova, mirror.MirrorRequest(), services.context)
    yield Slice(Cursor.END, planned, preconditions.NovaPreconditions(nova))


def _heal(services: CloudServices, after: str) -> Iterator[Slice]:
    check = preconditions.NovaPreconditions(services.cloud.nova)
    parts = heal.plan_missing(
        services.client,
        services.cloud.nova,
        HealRequest(),
        services.context,
        neutron=services.cloud.neutron,
        after=after,
    )
    for position, planned in parts:
        yield Slice(position, planned, check, services.cloud.neutron)


def _complete_consumers(services: CloudServices, after: str) -> Iterator[Slice]:
    parts = consumers.plan_owners(
        services.client, services.cloud.nova, after=after, workers=services.context.workers
    )
    for position, planned in parts:
        yield Slice(position, planned)


MIGRATIONS: Sequence[DataMigration] = (
    DataMigration(
        "mirror_host_aggregates",
        "Adds compute nodes to the placement aggregates that mirror their nova host aggregates",
        _mirror,
        "'openstack placement aggregate mirror --dry-run' shows them",
        needs="aggregate generation",
    ),
    DataMigration(
        "heal_allocations",
        "Creates missing allocations of servers, as nova would have created them",
        _heal,
        "'openstack placement allocation heal --dry-run' shows them",
        needs="consumer generation",
    ),
    DataMigration(
        "complete_consumers",
        "Sets project and user of nova's consumers that were written below API 1.8",
        _complete_consumers,
        "'openstack placement allocation audit' shows them",
        needs="consumer types",
    ),
    DataMigration(
        "add_display_head_traits",
        "Adds HW_GPU_MAX_DISPLAY_HEADS_* traits to providers with inventory of VGPU_DISPLAY_HEAD",
        _whole(lambda run: display_heads.plan_traits(run.client, run.context)),
        "'openstack resource provider trait list' shows the traits of each",
        needs="provider required traits",
        by_default=False,
        reads_nova=False,
    ),
    DataMigration(
        "remove_display_head_inventories",
        "Removes inventories of VGPU_DISPLAY_HEAD with such a trait and without allocations",
        _whole(lambda run: display_heads.plan_removal(run.client, run.context)),
        "run add_display_head_traits before; 'openstack resource provider usage show' shows what"
        " is in use",
        needs="provider required traits",
        by_default=False,
        reads_nova=False,
    ),
)


def selected(names: Sequence[str]) -> list[DataMigration]:
    """The migrations with these names, or those that run by default, in their order."""
    return [item for item in MIGRATIONS if (item.name in names if names else item.by_default)]
