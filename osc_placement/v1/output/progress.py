# SPDX-License-Identifier: Apache-2.0
"""The progress of a command on stderr, with rate and estimate.

A terminal shows bars, drawn by rich, which is imported only then. Without one a line per minute is
written, for logs and job runners.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from osc_placement.v1.output import streams

if TYPE_CHECKING:
    import rich.progress

    from osc_placement.plan.progress import Progress

LOG = logging.getLogger(__name__)

#: Seconds between two lines without a terminal.
LINE_SECONDS = 60.0

#: Seconds between two drawings of the bars: drawing ten times a second takes a quarter of the CPU
#: time of a command that sends requests.
BAR_SECONDS = 0.5


@contextlib.contextmanager
def shown(*, quiet: bool) -> Iterator[Progress]:
    """Show the progress of the block: bars on a terminal, else a line per minute; none with -q.

    Each part is also logged, for -v.
    """
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
