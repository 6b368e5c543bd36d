# SPDX-License-Identifier: Apache-2.0
"""The progress of a command on stderr, with rate and estimate.

A terminal shows bars, drawn by rich, which is imported only then. Without one a line per minute is
written, for logs and job runners. ``--log-json`` keeps the changes.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from osc_placement import errors
from osc_placement.v1.output import streams

if TYPE_CHECKING:
    from osc_placement.plan.progress import ChangeEvent

LOG = logging.getLogger(__name__)

#: Seconds between two lines without a terminal.
LINE_SECONDS = 60.0

#: Seconds between two drawings of the bars: drawing ten times a second takes a quarter of the CPU
#: time of a command that sends requests.
BAR_SECONDS = 0.5


@contextlib.contextmanager
def shown(
    *, quiet: bool, log: pathlib.Path | None = None, command: str = ""
) -> Iterator[RunProgress]:
    """Show the progress of the block: bars on a terminal, else a line per minute; none with -q.

    Each part is also logged, for -v. ``log``: changes of ``command`` are added to this file.
    Errors: PlacementError for a file that cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        run = RunProgress()
        if log is not None:
            run.log = stack.enter_context(contextlib.closing(EventLog(log, command)))
        if not quiet:
            run.display = ProgressBars(stack) if sys.stderr.isatty() else ProgressLines()
        yield run


class RunProgress:
    """How far the present part of a run is; its display and its log, if it has them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.display: ProgressLines | ProgressBars | None = None
        self.log: EventLog | None = None
        self.what, self.total, self.done = "", 0, 0
        self._clock, self._started, self._updated = clock, clock(), clock()

    def start(self, what: str, total: int) -> None:
        """Begin a part."""
        LOG.info("%s: %d", what, total)
        self.what, self.total, self.done = what, total, 0
        self._started = self._clock()
        if self.display is not None:
            self.display.start(self)
            self._update(self.display)

    def advance(self) -> None:
        """Count a step; update the display when it is time."""
        self.done += 1
        if self.display is not None:
            self._update(self.display)

    def _update(self, display: ProgressLines | ProgressBars) -> None:
        """Update the display after the last step, and when it is time in whichever part."""
        now = self._clock()
        if 0 < self.done == self.total:
            display.update(self)
        elif now - self._updated >= display.seconds:
            self._updated = now
            display.update(self)

    def note(self, event: ChangeEvent) -> None:
        """Log a change."""
        if self.log is not None:
            self.log.write(event)

    @property
    def rate(self) -> float:
        """Steps per second since the start of the part."""
        return self.done / max(self._clock() - self._started, 0.001)


class ProgressLines:
    """A line on stderr for each minute."""

    seconds = LINE_SECONDS

    def start(self, run: RunProgress) -> None:
        """Nothing is written before the first minute has passed."""

    def update(self, run: RunProgress) -> None:
        """``reading providers: 1200 of 10000, 20/s, about 7 min left``, not after the last step."""
        if run.done == run.total:
            return
        if not run.done:
            streams.write_message(f"{run.what}: 0 of {run.total}")
            return
        left = (run.total - run.done) / run.rate
        duration = f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min"
        streams.write_message(
            f"{run.what}: {run.done} of {run.total}, {_per_second(run.rate)}, about {duration} left"
        )


def _per_second(rate: float) -> str:
    """``20/s``, or ``0.4/s`` for less than ten steps per second."""
    return f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


class ProgressBars:
    """One bar on a terminal for each part."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        """Draw until the end of ``stack``."""
        import rich.console
        import rich.progress

        self.seconds = BAR_SECONDS
        columns = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(bar_width=20),
            rich.progress.TaskProgressColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn("{task.fields[rate]}"),
            rich.progress.TimeRemainingColumn(),
        )
        console = rich.console.Console(file=getattr(sys.stderr, "raw", sys.stderr))
        self._progress = stack.enter_context(
            rich.progress.Progress(
                *columns, console=console, transient=True, refresh_per_second=1 / BAR_SECONDS
            )
        )
        self._task = self._progress.add_task("selecting", total=None, rate="")

    def start(self, run: RunProgress) -> None:
        """Start the bar of a part; a part without steps has none."""
        if run.total:
            self._progress.update(self._task, visible=False)
            self._task = self._progress.add_task(run.what, total=run.total, rate="")

    def update(self, run: RunProgress) -> None:
        """Advance the bar when it is drawn next."""
        rate = _per_second(run.rate)
        self._progress.update(self._task, completed=run.done, rate=rate)


class EventLog:
    """A file to which one JSON object per change and retry is added; it never stops a run.

    What cannot be written is lost, with one warning. Errors: PlacementError, at the beginning, for
    a file that cannot be opened.
    """

    def __init__(self, path: pathlib.Path, command: str) -> None:
        self._path, self._command = path, command
        self._lock, self._has_warned = threading.Lock(), False
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            size = os.stat(path).st_size
            #: Whether the last line has no end, because the disk was full.
            self._is_cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        except OSError as error:
            raise errors.PlacementError(
                f"--log-json {path} cannot be written: {error.strerror}; nothing was changed"
            ) from error
        self._file = os.fdopen(descriptor, "ab", 0)

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
        with self._lock:
            line = b"\n" * self._is_cut + json.dumps(document).encode() + b"\n"
            try:
                self._is_cut = self._file.write(line) != len(line)
                reason = "the last line is not complete" if self._is_cut else ""
            except OSError as error:
                reason = str(error.strerror)
            if reason and not self._has_warned:
                self._has_warned = True
                streams.write_message(
                    f"Warning: --log-json {self._path}: {reason}; the run continues, and its"
                    " changes are in its journal"
                )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
