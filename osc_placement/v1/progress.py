"""Progress on a terminal's stderr, by rich, which is imported only when it is shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

    from osc_placement.plan import progress as plan_progress


@contextlib.contextmanager
def shown(*, quiet: bool) -> Iterator[plan_progress.Progress]:
    """A watch for long tasks: a bar while the block runs, nothing off a terminal or with -q."""
    if quiet or not sys.stderr.isatty():
        from osc_placement.plan import progress as plan_progress

        yield plan_progress.NullProgress()
        return
    import rich.console
    import rich.progress

    console = rich.console.Console(stderr=True)
    columns = (
        *rich.progress.Progress.get_default_columns(),
        rich.progress.MofNCompleteColumn(),
    )
    with rich.progress.Progress(*columns, console=console, transient=True) as progress:
        yield _Bars(progress)


class _Bars:
    """One bar for each part of the task."""

    def __init__(self, progress: rich.progress.Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("selecting", total=None)

    def expect(self, what: str, total: int) -> None:
        """Begin a part; one of nothing is not shown."""
        if not total:
            return
        self._progress.update(self._task, visible=False)
        self._task = self._progress.add_task(what, total=total)

    def advance(self) -> None:
        """One step of the part at hand is done."""
        self._progress.advance(self._task)
