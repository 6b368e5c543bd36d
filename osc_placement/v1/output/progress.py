# SPDX-License-Identifier: Apache-2.0
"""The progress of a command on stderr, with rate and estimate.

A terminal shows bars, drawn by rich, which is imported only then. Without one a line per minute is
written, for logs and job runners. SIGUSR1 prints the position, and
``--log-json`` keeps the changes.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import errno
import json
import logging
import os
import pathlib
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.model.name import counted
from osc_placement.plan.progress import RETRY, ChangeEvent, Progress
from osc_placement.v1.output import streams

if TYPE_CHECKING:
    import rich.progress


LOG = logging.getLogger(__name__)

#: Seconds between two lines without a terminal.
LINE_SECONDS = 60.0

#: Seconds between two drawings of the bars: drawing ten times a second takes a quarter of the CPU
#: time of a command that sends requests.
BAR_SECONDS = 0.5


@contextlib.contextmanager
def shown(*, quiet: bool, log: pathlib.Path | None = None, command: str = "") -> Iterator[Progress]:
    """Show the progress of the block: bars on a terminal, else a line per minute; none with -q.

    Each part is also logged, for -v. SIGUSR1 prints the position. ``log``: changes of ``command``
    are added to this file. Errors: PlacementError for a file that cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        events = None
        if log is not None:
            events = stack.enter_context(contextlib.closing(EventLog(log, command)))
        watched = _Watched(stack.enter_context(_shown_parts(quiet=quiet)), events)
        stack.enter_context(_answering(watched.print_position))
        yield watched


@contextlib.contextmanager
def _shown_parts(*, quiet: bool) -> Iterator[Progress]:
    if quiet:
        yield _Logged()
        return
    if not sys.stderr.isatty():
        yield _Lines()
        return
    import rich.console
    import rich.progress

    console = rich.console.Console(file=streams.terminal())
    columns = (
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(bar_width=20),
        rich.progress.TaskProgressColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("{task.fields[rate]}"),
        rich.progress.TimeRemainingColumn(),
    )
    with rich.progress.Progress(
        *columns, console=console, transient=True, refresh_per_second=1 / BAR_SECONDS
    ) as progress:
        yield _Bars(progress)


class _Logged:
    """Logs the parts of the run."""

    def start(self, what: str, total: int) -> None:
        """Log a part."""
        LOG.info("%s: %d", what, total)

    def advance(self) -> None:
        """Do nothing."""

    def note(self, event: ChangeEvent) -> None:
        """Do nothing: the plan engine logs changes."""


@contextlib.contextmanager
def _answering(answer: Callable[[], None]) -> Iterator[None]:
    """Call ``answer`` at SIGUSR1 during the block. Only the main thread of a program can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGUSR1, lambda *_: answer())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, former)


class _Watched:
    """Another progress, with the position of the run and the log of its changes."""

    def __init__(
        self,
        inner: Progress,
        log: EventLog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner, self._log, self._clock = inner, log, clock
        self._what, self._total, self._done, self._started = "", 0, 0, clock()
        self._counts: collections.Counter[str] = collections.Counter()

    def start(self, what: str, total: int) -> None:
        """Begin a part."""
        self._what, self._total, self._done, self._started = what, total, 0, self._clock()
        self._counts.clear()
        self._inner.start(what, total)

    def advance(self) -> None:
        """Count a step."""
        self._done += 1
        self._inner.advance()

    def note(self, event: ChangeEvent) -> None:
        """Count and log a change."""
        self._counts[event.outcome] += 1
        if self._log is not None:
            self._log.write(event)

    @property
    def position(self) -> str:
        """``412 of 10000 changes, 3 retried, 0 failed, 00:01:12``; of a part without changes,
        ``reading providers: 412 of 10000, 00:01:12``.
        """
        minutes, seconds = divmod(int(self._clock() - self._started), 60)
        duration = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
        if self._what != "applying":
            return f"{self._what or 'starting'}: {self._done} of {self._total}, {duration}"
        retried, failed = self._counts[RETRY], self._counts["failed"]
        changes = f"{self._done} of {counted(self._total, 'change')}"
        return f"{changes}, {retried} retried, {failed} failed, {duration}"

    def print_position(self) -> None:
        """Write the position to stderr, past Python's buffer: it may be in use."""
        with contextlib.suppress(OSError):
            os.write(2, f"{self.position}\n".encode())


class EventLog:
    """A file with one JSON object per change and retry, mode 0600; it never stops or delays a run.

    What cannot be written is lost, with one warning. Errors: PlacementError, at the beginning, for
    a file that cannot be opened, and for a symbolic link.
    """

    def __init__(self, path: pathlib.Path, command: str) -> None:
        self._path, self._command = path, command
        self._lock, self._failed = threading.Lock(), False
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._descriptor = os.open(path, flags, 0o600)
            if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                os.fchmod(self._descriptor, 0o600)
        except OSError as error:
            reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
            raise errors.PlacementError(
                f"--log-json {path} cannot be written: {reason}; nothing was changed"
            ) from error

    def write(self, event: ChangeEvent) -> None:
        """Add an event in one write, so that lines of several threads do not mix."""
        document = {
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "command": self._command,
            "change": {"kind": event.kind, "uuid": event.uuid, "name": event.name},
            "outcome": event.outcome,
            "reason": event.reason,
            "request_id": event.request_id,
            "attempt": event.attempt,
        }
        line = json.dumps(document).encode() + b"\n"
        with self._lock:
            try:
                written = os.write(self._descriptor, line)
                reason = "" if written == len(line) else "the last line is not complete"
            except OSError as error:
                reason = error.strerror or str(error)
            if reason and not self._failed:
                self._failed = True
                streams.write_message(
                    f"Warning: --log-json {self._path}: {reason}; the run continues, and its"
                    " changes are in its journal"
                )

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class _Part:
    """The steps of one part of the run, and their rate."""

    def __init__(self, what: str, total: int, clock: Callable[[], float]) -> None:
        self.what, self.total, self.done = what, total, 0
        self._clock, self._started = clock, clock()

    @property
    def rate(self) -> float:
        """Steps per second since the start."""
        return self.done / max(self._clock() - self._started, 0.001)

    def __str__(self) -> str:
        """``reading providers: 1200 of 10000, 20/s, about 7 min left``"""
        left = (self.total - self.done) / self.rate
        duration = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
        rate = _shown(self.rate)
        return f"{self.what}: {self.done} of {self.total}, {rate}, about {duration} left"


def _shown(rate: float) -> str:
    """``20/s``, or ``0.4/s`` for less than ten steps per second."""
    return f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


class _Lines(_Logged):
    """A line on stderr for each minute of a part."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], None] = streams.write_message,
    ) -> None:
        self._clock, self._write = clock, write
        self._part, self._last = _Part("", 0, clock), 0.0

    def start(self, what: str, total: int) -> None:
        """Count the steps of a part."""
        super().start(what, total)
        self._part, self._last = _Part(what, total, self._clock), self._clock()

    def advance(self) -> None:
        """Count a step."""
        self._part.done += 1
        now = self._clock()
        if now - self._last >= LINE_SECONDS:
            self._last = now
            self._write(str(self._part))


class _Bars(_Logged):
    """One bar for each part of the run."""

    def __init__(
        self, progress: rich.progress.Progress, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress, self._clock = progress, clock
        self._task = progress.add_task("selecting", total=None, rate="")
        self._part, self._last = _Part("", 0, clock), 0.0

    def start(self, what: str, total: int) -> None:
        """Start the bar of a part; a part without steps has none."""
        super().start(what, total)
        if not total:
            return
        self._progress.update(self._task, visible=False)
        self._task = self._progress.add_task(what, total=total, rate="")
        self._part, self._last = _Part(what, total, self._clock), self._clock()

    def advance(self) -> None:
        """Advance by one step; the bar, when it is drawn next, and at the last step."""
        part, now = self._part, self._clock()
        part.done += 1
        if now - self._last >= BAR_SECONDS or part.done == part.total:
            self._last = now
            self._progress.update(self._task, completed=part.done, rate=_shown(part.rate))
