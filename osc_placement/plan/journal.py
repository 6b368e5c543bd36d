# SPDX-License-Identifier: Apache-2.0
"""The journal of a plan: what was applied, in doubt or undone, also after a kill.

One JSON line per event, flushed to disk before the request is sent and after the response
arrives, so that a kill at any moment leaves at most some changes *in doubt*. Apply and undo
write the same journal. It is kept in the state directory, named after the plan's digest and
the target. A line with the key "run" describes the latest run; ``read_all`` lists the plans that
were applied or undone here.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple, Protocol

from osc_placement import errors
from osc_placement.client import transport
from osc_placement.model import command_line, json_text
from osc_placement.plan import file as plan_file, plan as plan_module


class StepState(enum.StrEnum):
    """The progress of a change; APPLYING and UNDOING are in doubt when no run is active."""

    PENDING = "pending"
    APPLYING = "applying"
    APPLIED = "applied"
    UNDOING = "undoing"
    UNDONE = "undone"


#: The field of a line with its check value.
_CHECK = "check"

IN_DOUBT = frozenset({StepState.APPLYING, StepState.UNDOING})


class Unwritable(errors.PlacementError):
    """The journal cannot be written: nothing more may begin."""


class Note(NamedTuple):
    """The state of a change. What it replaced is in the plan, and nowhere else."""

    key: str
    state: StepState


#: ``{change key: its latest state}``
Entries = dict[str, StepState]


class JournalWriter(Protocol):
    """Reads and records the progress of changes."""

    entries: Entries

    def note(self, *notes: Note) -> None:
        """Record events. Errors: Unwritable."""

    def describe(self, fields: Mapping[str, Any]) -> None:
        """Record fields of the run. Errors: Unwritable."""


class MemoryJournal:
    """A journal that is not kept: for runs that can simply be repeated."""

    def __init__(self, entries: Entries | None = None) -> None:
        self.entries = entries or {}

    def note(self, *notes: Note) -> None:
        """Record events in memory."""
        self.entries.update(notes)

    def describe(self, fields: Mapping[str, Any]) -> None:
        """Do nothing: the run is not listed."""


class Journal:
    """An open journal, locked against other processes; usable from many threads."""

    def __init__(self, path: pathlib.Path) -> None:
        """Open or create it.

        Errors: PlanRefused when another process has it open, PlacementError when it
        cannot be written.
        """
        self.path = path
        self._file = _open_locked(path)
        with plan_file.explained(path):
            contents = _load(self._file, path)
        self.entries, self._check = contents.entries, contents.check
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._written = self._synced = 0

    def note(self, *notes: Note) -> None:
        """Record events; they are on disk when this returns. Errors: Unwritable."""
        self._append([item._asdict() for item in notes], notes)

    def describe(self, fields: Mapping[str, Any]) -> None:
        """Record fields of the run, in addition to those of earlier calls."""
        self._append([{plan_module.RUN_KEY: dict(fields)}])

    def _append(self, lines: Sequence[Mapping[str, Any]], notes: Sequence[Note] = ()) -> None:
        try:
            with self._writing:
                texts, check = [], self._check
                for line in lines:
                    check = _check_value(line, check)
                    texts.append(json.dumps({**line, _CHECK: check}).encode() + b"\n")
                self._write(b"".join(texts))
                self._check = check
                self._written += 1
                mine = self._written
                self.entries.update(notes)
            self._sync(mine)
        except OSError as error:
            raise Unwritable(
                f"the journal {self.path} cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def _write(self, lines: bytes) -> None:
        """Write unbuffered: closing must not write again what a full disk has refused.

        A partly written line is truncated, so that the next one is complete.
        """
        written = os.write(self._file.fileno(), lines)
        if written < len(lines):
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _sync(self, mine: int) -> None:
        """Wait until write number ``mine`` is on disk; one flush serves all waiting threads."""
        with self._syncing:
            if self._synced >= mine:
                return
            reached = self._written
            os.fdatasync(self._file.fileno())
            self._synced = reached


def path_of(plan: plan_module.Plan, target: str) -> pathlib.Path:
    """The path of a plan's journal for a target; an undo plan shares the journal of its plan."""
    digest = (plan.undoes or plan.digest).removeprefix("sha256:")
    place = hashlib.sha256(transport.identity_of(target).place.encode()).hexdigest()
    return directory() / f"{digest[:32]}-{place[:32]}.jsonl"


def directory() -> pathlib.Path:
    """The directory of all journals."""
    return plan_file.state_directory() / "journal"


def check_replaceable(path: pathlib.Path, plan: plan_module.Plan) -> None:
    """Refuse to replace the file of another plan that is partly applied. Errors: PlanRefused."""
    try:
        existing = plan_file.read(path) if path.is_file() else plan
    except (plan_module.PlanRefused, OSError):
        return
    if existing.digest == plan.digest:
        return
    where = transport.Target(existing.target)
    where.identity = existing.identity
    entries = read(path_of(existing, where)).entries
    states = {entries.get(item.key, StepState.PENDING) for item in existing.changes}
    if states - {StepState.APPLIED} and states - {StepState.PENDING, StepState.UNDONE}:
        raise plan_module.PlanRefused(
            f"{path} has a plan that is partly applied. Nothing was changed. Give another path, or"
            f" continue that plan: {command_line.line('placement plan apply', str(path))}"
        )


class Contents(NamedTuple):
    """What a journal has: the states of changes, and the fields of the latest run.

    ``check`` is the check value of its last line. ``is_cut``: it ends within a run.
    """

    entries: Entries
    run: dict[str, Any]
    check: str = ""
    is_cut: bool = False


def read(path: pathlib.Path) -> Contents:
    """Read a journal without opening it for writing; empty without one. Errors: PlanRefused."""
    try:
        with _open(path, os.O_RDONLY, "rb") as file:
            return _load(file, path)
    except FileNotFoundError:
        return Contents({}, {})
    except OSError as error:
        raise plan_module.PlanRefused(
            f"the journal {path} cannot be read: {error.strerror}"
        ) from error


def _open(path: pathlib.Path, flags: int, mode: str) -> IO[bytes]:
    """Open a journal, for its owner only. Errors: OSError."""
    return os.fdopen(os.open(path, flags, 0o600), mode)


def is_running(path: pathlib.Path) -> bool:
    """Whether another process has the journal open. Errors: OSError."""
    with _open(path, os.O_RDONLY, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _open_locked(path: pathlib.Path) -> IO[bytes]:
    with plan_file.explained(path):
        plan_file.make_directory(path.parent)
        file = _open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, "r+b")
        plan_file.sync_directory(path.parent)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise plan_module.PlanRefused(
            f"another process is working on this plan (it holds {path}): wait for it to end"
        ) from error
    return file


def _load(file: IO[bytes], path: pathlib.Path) -> Contents:
    """Read every complete line; an incomplete last line is truncated if the file is writable.

    Errors: PlanRefused.
    """
    file.seek(0)
    content = file.read()
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content) and file.writable():
        file.truncate(len(complete))
    check, is_cut = path.stem, False
    contents = Contents({}, {})
    for number, text in enumerate(complete.splitlines(), 1):
        try:
            line = json_text.parse(text)
            value = line.pop(_CHECK, "") if isinstance(line, dict) else ""
            plan_module.check_line(line)
            check = _check_value(line, check)
            if value != check:
                raise ValueError("its check value does not match this line and those before it")
            # A run begins with all its fields, and ends with one.
            is_cut = len(line.get(plan_module.RUN_KEY, line)) > 1
            if plan_module.RUN_KEY in line:
                contents.run.update(line[plan_module.RUN_KEY])
            else:
                contents.entries[line["key"]] = StepState(line["state"])
        except ValueError as error:
            raise plan_module.PlanRefused(
                f"the journal {path} is damaged in line {number}: {error}. Nothing was changed."
                " Restore it from a backup, or remove it to begin the plan again"
            ) from error
    return contents._replace(check=check, is_cut=is_cut)


def _check_value(line: Mapping[str, Any], before: str) -> str:
    """The check value of a line: ``before`` is that of the line before it.

    Before the first line it is the name of the journal, which the plan's digest and the target
    give. So a line that is changed, moved, removed or of another plan does not pass. The value
    has no secret: it finds damage, and an edit by hand.
    """
    return hashlib.sha256(f"{before} {json.dumps(line)}".encode()).hexdigest()[:16]


class PlanStatus(enum.StrEnum):
    """The state of a plan."""

    RUNNING = "running"
    UNFINISHED = "unfinished"
    CONTINUED = "continued"
    APPLIED = "applied"
    UNDONE = "undone"
    NOTHING = "nothing applied"


#: How many characters of a plan's digest are its id, also in the names of its files.
_ID_LENGTH = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One plan; ``plan`` and ``undo`` are its files, None where there is none any more.

    ``changes``, ``applied``, ``undone``, ``in_doubt`` are numbers of changes.
    """

    journal: pathlib.Path
    status: PlanStatus
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
    def id(self) -> str:
        """What names the plan on a command line: the first characters of its digest."""
        return self.journal.stem[:_ID_LENGTH]

    @property
    def undo_file(self) -> pathlib.Path | None:
        """The file that undoes the plan; None if nothing is applied or no file is left."""
        return (self.undo or self.plan) if self.applied or self.in_doubt else None


@dataclasses.dataclass(frozen=True, slots=True)
class Records:
    """The plans, the newest first, and an error for each journal that cannot be read."""

    found: list[Record]
    errors: list[str]


def read_all() -> Records:
    """Read the journals of all clouds. Sends nothing."""
    records = Records([], [])
    for path in directory().glob("*.jsonl"):
        try:
            contents = read(path)
            if contents.run:
                records.found.append(_record(path, contents.entries, contents.run))
        except plan_module.PlanRefused as error:
            records.errors.append(str(error))
        except LookupError as error:
            records.errors.append(f"the journal {path} cannot be read: it lacks {error}")
    records.found.sort(key=lambda item: item.created, reverse=True)
    applied = set()
    for at, item in enumerate(records.found):
        what = (item.target, item.command)
        # A plan of absolute values without a file continues by a repetition of its command.
        if item.status is PlanStatus.UNFINISHED and item.plan is None and what in applied:
            records.found[at] = dataclasses.replace(item, status=PlanStatus.CONTINUED)
        if item.status is PlanStatus.APPLIED:
            applied.add(what)
    return records


def undo_file_of(plan_id: str, target: str) -> pathlib.Path:
    """The file that undoes the plan with this id, on ``target`` if it ran on several.

    Errors: PlanRefused.
    """
    matches = [item for item in read_all().found if item.journal.stem.startswith(plan_id)]
    if len(matches) > 1:
        matches = [item for item in matches if item.target == target] or matches
    if len(matches) != 1:
        what = "no file, and no plan of this user on this machine has this id"
        if matches:
            what = f"{len(matches)} plans have an id that begins so"
        raise plan_module.PlanRefused(
            f"{plan_id}: {what}. 'openstack placement plan list' shows the ids of the plans in"
            f" {plan_file.state_directory()}"
        )
    (record,) = matches
    if record.undo_file is None:
        raise plan_module.PlanRefused(
            f"{plan_id}: nothing to undo. The plan is {record.status}, with {record.applied} of its"
            " changes applied"
            + (", and its files are gone" if record.applied or record.in_doubt else "")
        )
    return record.undo_file


def _record(path: pathlib.Path, entries: Entries, fields: dict[str, Any]) -> Record:
    counts = collections.Counter(entries.values())
    in_doubt = sum(counts[state] for state in IN_DOUBT)
    applied = counts[StepState.APPLIED]
    status = PlanStatus.APPLIED if applied else PlanStatus.NOTHING
    if counts[StepState.UNDONE] and not applied:
        status = PlanStatus.UNDONE
    if fields["unfinished"] or in_doubt:
        status = PlanStatus.RUNNING if is_running(path) else PlanStatus.UNFINISHED
    return Record(
        journal=path,
        status=status,
        created=fields["created"],
        target=fields["target"],
        command=fields["command"],
        changes=fields.get("changes", len(entries)),
        applied=applied,
        undone=counts[StepState.UNDONE],
        in_doubt=in_doubt,
        plan=_existing(fields.get("plan")),
        undo=_existing(fields.get("undo")),
        is_undo=fields["is_undo"],
    )


def _existing(path: str | None) -> pathlib.Path | None:
    return pathlib.Path(path) if path and pathlib.Path(path).is_file() else None
