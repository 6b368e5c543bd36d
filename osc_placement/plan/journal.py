"""The journal of one plan on one target: what was begun and what came of it, on disk.

One JSON line per event, flushed to disk before the request goes out and after the answer
came, so that a kill at any moment leaves at most some changes *in doubt*. Applying a plan
and taking it back write the same journal. Kept under the state directory, named after
the plan's digest and the target.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import threading
from collections.abc import Mapping
from typing import IO, Any, NamedTuple, Protocol

from osc_placement import errors
from osc_placement.plan import change, file as plan_file, plan


class State(enum.StrEnum):
    """How far a change has come; APPLYING and UNDOING are in doubt when nobody is at work."""

    PENDING = "pending"
    APPLYING = "applying"
    APPLIED = "applied"
    UNDOING = "undoing"
    UNDONE = "undone"


IN_DOUBT = frozenset({State.APPLYING, State.UNDOING})


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """The last word on one change; ``before`` is what the change really replaced."""

    state: State
    before: change.Facts | None = None


class Unwritable(errors.PlacementError):
    """What became of a change cannot be recorded: nothing more may be begun."""


class Note(NamedTuple):
    """Something to record: what became of a change."""

    key: str
    state: State
    before: change.Facts | None = None


class JournalWriter(Protocol):
    """What is known of changes, ``{change key: Entry}``, and a way to know more."""

    entries: dict[str, Entry]

    def note(self, *notes: Note) -> None:
        """Record what became of changes. Errors: Unwritable."""


class MemoryJournal:
    """A journal that nobody reads later: for runs that may simply be run again."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def note(self, *notes: Note) -> None:
        """Record what became of changes, in memory."""
        self.entries.update((item.key, Entry(item.state, item.before)) for item in notes)


class Journal:
    """An open journal, locked against other processes; usable from many threads."""

    def __init__(self, path: pathlib.Path, *, anew: bool = False) -> None:
        """Open or make it; ``anew`` forgets what stands in it.

        Errors: PlanRefused when another process has it open, PlacementError when it
        cannot be written.
        """
        self.path = path
        self._file = _open_locked(path)
        if anew:
            self._file.truncate(0)
        self.entries = _load(self._file)
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._written = self._synced = 0

    def note(self, *notes: Note) -> None:
        """Record what became of changes; on disk when this returns. Errors: Unwritable."""
        lines = [_line(item) for item in notes]
        try:
            with self._writing:
                self._write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
                self._written += 1
                mine = self._written
                for line in lines:
                    self.entries[line["key"]] = _merge(self.entries.get(line["key"]), line)
            self._sync(mine)
        except OSError as error:
            raise Unwritable(
                f"the journal {self.path} cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Let go of the file and its lock."""
        self._file.close()

    def _write(self, lines: bytes) -> None:
        """Straight to the file: what a full disk refused must not be tried again by closing.

        Lines of which only a part was written are taken back, so that the next one is whole.
        """
        written = os.write(self._file.fileno(), lines)
        if written < len(lines):
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _sync(self, mine: int) -> None:
        """Wait until write number ``mine`` is on disk; one flush serves all who wait for it."""
        with self._syncing:
            if self._synced >= mine:
                return
            reached = self._written
            os.fdatasync(self._file.fileno())
            self._synced = reached


def path_of(made: plan.Plan, target: str) -> pathlib.Path:
    """Where the journal of a plan on a target stands; a plan that undoes shares the original's."""
    identity = f"{made.undoes or made.digest} {plan.place(target)}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return plan_file.state_directory() / "journal" / f"{name}.jsonl"


def peek(path: pathlib.Path) -> dict[str, Entry]:
    """What a journal says, without opening it for writing; empty when there is none."""
    try:
        with path.open("rb") as file:
            return _load(file)
    except FileNotFoundError:
        return {}


def _open_locked(path: pathlib.Path) -> IO[bytes]:
    with plan_file.explained(path):
        plan_file.make_directory(path.parent)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b")
        plan_file.sync_directory(path.parent)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise plan.PlanRefused(
            f"another process is at work on this plan (it holds {path}): wait for it"
        ) from error
    return file


def _load(file: IO[bytes]) -> dict[str, Entry]:
    """Every whole line; what a kill left of a last one is cut off where the file is writable."""
    file.seek(0)
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if whole < len(content) and file.writable():
        file.truncate(whole)
    entries: dict[str, Entry] = {}
    for number, text in enumerate(content[:whole].splitlines(), 1):
        try:
            line = json.loads(text)
            entries[line["key"]] = _merge(entries.get(line["key"]), line)
        except (ValueError, LookupError, TypeError) as error:
            raise plan.PlanRefused(
                f"the journal {file.name} is damaged in line {number}"
            ) from error
    return entries


def _line(item: Note) -> dict[str, Any]:
    before = {} if item.before is None else {"before": dict(item.before)}
    return {"key": item.key, "state": item.state, **before}


def _merge(known: Entry | None, line: Mapping[str, Any]) -> Entry:
    before = line.get("before", known.before if known else None)
    return Entry(State(line["state"]), before)
