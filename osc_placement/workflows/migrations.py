"""Online data migrations: batches of changes that bring a cloud's data up to date while it runs.

Each knows how to plan what is left of it; planning anew is how a run goes on where another
stopped, so nothing is kept between runs. A new migration is a new entry of MIGRATIONS. Called
by ``placement migration list`` and ``run``.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence

from osc_placement.client import api, compute, errors
from osc_placement.workflows import (
    batch,
    carry_out,
    execute,
    mirror,
    outcome,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """What migrations work on."""

    client: api.Client
    nova: compute.Nova
    reading: batch.Reading = dataclasses.field(default_factory=batch.Reading)


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """``plan`` observes the cloud and plans all that is left; ``remedy`` tells where it cannot."""

    name: str
    description: str
    plan: Callable[[Services], batch.Planned]
    remedy: str


def _mirror(services: Services) -> batch.Planned:
    wish = mirror.Wish()
    return mirror.plan_mirror(services.client, services.nova, wish, services.reading).planned


MIGRATIONS: Sequence[Migration] = (
    Migration(
        "mirror_host_aggregates",
        "Adds compute nodes to the placement aggregates that mirror their nova host aggregates",
        _mirror,
        "'openstack placement aggregate mirror --dry-run' shows them",
    ),
)


class Exit(enum.IntEnum):
    """nova-manage's own exit codes of online data migrations."""

    DONE = 0
    MORE = 1
    ERRORS = 2
    BAD_VALUE = 127


@dataclasses.dataclass(slots=True)
class Count:
    """How many changes a migration found to do in the whole run, and how many it has done."""

    found: int = 0
    done: int = 0


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


def run(
    services: Services,
    command: str,
    *,
    max_count: int | None = None,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> Result:
    """Run all migrations, pass after pass, until one finds nothing to do.

    It ends with DONE, or with ERRORS when a pass that found something could do nothing.
    With ``max_count`` there is one pass, which ends when so many changes are made: MORE when
    it made any, though they may have been the last; DONE only when there were none to make.
    Cost: what planning and applying cost, for each pass; the last one only plans.
    """
    return _Run(services, command, max_count, migrations).run()


class _Run:
    def __init__(
        self,
        services: Services,
        command: str,
        max_count: int | None,
        migrations: Sequence[Migration],
    ) -> None:
        self._services, self._command = services, command
        self._max_count, self._migrations = max_count, migrations
        self._result = Result({item.name: Count() for item in migrations})

    def run(self) -> Result:
        result, progress = self._result, True
        while progress:
            before, result.troubles, result.notes = result.done, [], []
            found = sum([self._batch(item) for item in self._migrations])
            progress = result.done > before
            if result.interrupted or (progress and self._max_count is not None):
                result.exit_code = Exit.MORE
                return result
            if not found and not result.troubles:
                result.exit_code = Exit.DONE
                return result
        result.exit_code = Exit.ERRORS
        return result

    def _is_enough(self) -> bool:
        return self._max_count is not None and self._result.done >= self._max_count

    def _batch(self, item: Migration) -> int:
        """One batch of one migration; how many changes it found."""
        if self._is_enough() or self._result.interrupted:
            return 0
        count = self._result.counts[item.name]
        try:
            planned = item.plan(self._services)
            found = len(planned.plan.changes)
            count.found = count.done + found
            self._note(item, planned)
            if found:
                self._apply(item, planned, count)
        except errors.PlacementError as error:
            self._result.troubles.append(f"{item.name}: {error}")
            return 0
        return found

    def _note(self, item: Migration, planned: batch.Planned) -> None:
        left = sum(remark.refused for remark in planned.plan.remarks)
        if left:
            self._result.notes.append(f"{item.name}: {left} left alone; {item.remedy}")

    def _apply(self, item: Migration, planned: batch.Planned, count: Count) -> None:
        left = None if self._max_count is None else self._max_count - self._result.done
        report = carry_out.carry_out(
            self._services.client,
            planned,
            f"{self._command} {item.name}",
            carry_out.Options(
                limits=execute.Limits(workers=self._services.reading.workers, max_count=left),
                watch=self._services.reading.watch,
            ),
        )
        count.done += report.count(outcome.Status.APPLIED)
        self._result.interrupted = report.interrupted
        self._result.troubles += [f"{item.name}: {text}" for text in _failures(report)]
        self._result.undo += [str(report.undo_path)] if report.undo_path else []


def _failures(report: outcome.Report) -> Iterator[str]:
    for ended in report.outcomes:
        if ended.status is outcome.Status.FAILED:
            yield f"{ended.subject.name}: {ended.reason}"
