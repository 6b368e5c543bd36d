"""The plans that were applied or undone here, from the journals of the state directory."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import pathlib
from collections.abc import Iterable

from osc_placement import errors
from osc_placement.plan import file, journal, plan as plan_module


class Status(enum.StrEnum):
    """The state of a plan."""

    RUNNING = "running"
    UNFINISHED = "unfinished"
    APPLIED = "applied"
    UNDONE = "undone"
    NOTHING = "nothing applied"


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One plan; ``plan`` and ``undo`` are its files, None where there is none any more.

    ``changes``, ``applied``, ``undone``, ``in_doubt`` are numbers of changes.
    """

    journal: pathlib.Path
    status: Status
    created: str
    target: str
    command: str
    changes: int
    applied: int
    undone: int
    in_doubt: int
    plan: pathlib.Path | None
    undo: pathlib.Path | None
    is_undo: bool

    @property
    def is_finished(self) -> bool:
        """Whether the last run ended and left no change that another run may make."""
        return self.status not in (Status.RUNNING, Status.UNFINISHED)

    @property
    def undo_file(self) -> pathlib.Path | None:
        """The file that undoes the plan; None if nothing is applied or no file is left."""
        return (self.undo or self.plan) if self.applied or self.in_doubt else None

    @property
    def files(self) -> list[pathlib.Path]:
        """The files in the state directory; those that the operator named elsewhere stay."""
        own = file.state_directory().absolute()
        found = [item for item in (self.plan, self.undo) if item and item.parent == own]
        return [*found, self.journal]


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """The plans, the newest first, and an error for each journal that cannot be read."""

    found: list[Record]
    errors: list[str]


def read_all() -> Records:
    """Read the journals of all clouds. Sends nothing."""
    records = Records([], [])
    for path in journal.directory().glob("*.jsonl"):
        try:
            fields = journal.read_run(path)
            if fields:
                records.found.append(_record(path, fields))
        except (OSError, LookupError, plan_module.PlanRefused) as error:
            records.errors.append(f"{path} cannot be read: {error}")
    records.found.sort(key=lambda item: item.created, reverse=True)
    return records


def older_than(records: Iterable[Record], days: int) -> list[Record]:
    """The records of plans that were made at least ``days`` days ago."""
    limit = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days)
    return [item for item in records if datetime.datetime.fromisoformat(item.created) <= limit]


def delete(record: Record) -> None:
    """Delete the files of a plan in the state directory, the journal last.

    Errors: PlanRefused if a run has begun since the record was read.
    """
    if journal.is_running(record.journal):
        raise plan_module.PlanRefused("another process is working on this plan")
    for path in record.files:
        path.unlink(missing_ok=True)


def _record(path: pathlib.Path, fields: dict[str, object]) -> Record:
    entries = journal.read_entries(path).values()
    counts = collections.Counter(item.state for item in entries)
    in_doubt = sum(counts[state] for state in journal.IN_DOUBT)
    applied = counts[journal.State.APPLIED]
    status = Status.APPLIED if applied else Status.NOTHING
    if counts[journal.State.UNDONE] and not applied:
        status = Status.UNDONE
    if fields["unfinished"] or in_doubt:
        status = Status.RUNNING if journal.is_running(path) else Status.UNFINISHED
    return Record(
        journal=path,
        status=status,
        created=str(fields["created"]),
        target=errors.without_credentials(str(fields["target"])),
        command=str(fields["command"]),
        changes=int(str(fields.get("changes", len(entries)))),
        applied=applied,
        undone=counts[journal.State.UNDONE],
        in_doubt=in_doubt,
        plan=_existing(fields.get("plan")),
        undo=_existing(fields.get("undo")),
        is_undo=bool(fields["is_undo"]),
    )


def _existing(path: object) -> pathlib.Path | None:
    found = pathlib.Path(str(path)) if path else None
    return found if found and found.is_file() else None
