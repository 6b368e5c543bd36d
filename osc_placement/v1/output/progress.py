"""Progress bars on stderr, drawn by rich, which is imported only if they are shown."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from osc_placement.plan import guards
from osc_placement.v1.output import streams

if TYPE_CHECKING:
    import rich.progress

    from osc_placement.plan import progress as plan_progress

LOG = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


@contextlib.contextmanager
def shown(*, quiet: bool) -> Iterator[plan_progress.Progress]:
    """Progress bars while the block runs; none with -q, or if stderr is not a terminal.

    Each part is also logged, for -v.
    """
    if quiet or not sys.stderr.isatty():
        yield _Logged()
        return
    import rich.console
    import rich.progress

    console = rich.console.Console(file=streams.terminal())
    columns = (
        *rich.progress.Progress.get_default_columns(),
        rich.progress.MofNCompleteColumn(),
    )
    with rich.progress.Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress)


def read_each(title: str, read: Callable[[T], R], items: Sequence[T], *, quiet: bool) -> list[R]:
    """``read(item)`` of each item, several at a time, with a progress bar of this title.

    A read is repeated while the server fails. Errors: those of ``read``.
    """
    from osc_placement.client import retry
    from osc_placement.plan import workers

    found = []
    with shown(quiet=quiet or len(items) == 1) as progress:
        progress.start(title, len(items))
        for result in workers.each(
            lambda item: retry.read(lambda: read(item)), items, guards.WORKERS
        ):
            found.append(result)
            progress.advance()
    return found


class _Logged:
    """Logs the parts of the run."""

    def start(self, what: str, total: int) -> None:
        """Log a part."""
        LOG.info("%s: %d", what, total)

    def advance(self) -> None:
        """Do nothing."""


class _Bars(_Logged):
    """One bar for each part of the run."""

    def __init__(self, progress: rich.progress.Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("selecting", total=None)

    def start(self, what: str, total: int) -> None:
        """Start the bar of a part; a part without steps has none."""
        super().start(what, total)
        if not total:
            return
        self._progress.update(self._task, visible=False)
        self._task = self._progress.add_task(what, total=total)

    def advance(self) -> None:
        """Advance the bar by one step."""
        self._progress.advance(self._task)
