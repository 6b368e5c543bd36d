"""Several tables in one answer, which cliff cannot print, and the width of all tables."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from osc_placement.v1.output import cells, layout


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A titled table. Cells are values, or cliff's FormattableColumn."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def write(tables: Iterable[Table], stdout: TextIO, parsed_args: argparse.Namespace) -> None:
    """Write the tables that have rows."""
    import prettytable

    width = width_limit(parsed_args)
    texts, fitted = [], []
    for table in tables:
        if table.rows:
            rows = [cells.format_row("table", row) for row in table.rows]
            found = layout.fit(table.columns, rows, width)
            drawn = prettytable.PrettyTable(list(found.columns))
            drawn.align = "l"
            drawn.add_rows([list(row) for row in found.rows])
            texts.append(f"{table.title}\n{drawn}\n")
            fitted.append(found)
    stdout.write("\n".join(texts))
    note_dropped(fitted, width, stdout)


def width_limit(parsed_args: argparse.Namespace) -> int | None:
    """How many characters wide a table may be; None without a limit.

    --max-width, --fit-width and a terminal (or COLUMNS) limit it.
    """
    if parsed_args.max_width > 0:
        limit: int = parsed_args.max_width
        return limit
    if not (parsed_args.fit_width or is_terminal()):
        return None
    # Without a terminal and without COLUMNS the width is unknown.
    return shutil.get_terminal_size((0, 0)).columns or None


def is_terminal() -> bool:
    """Whether the tables are printed on a terminal."""
    return sys.stdout.isatty()


def note_dropped(fitted: Sequence[layout.Layout], width: int | None, stdout: TextIO) -> None:
    """Write on stderr which columns are missing, and how to see them."""
    dropped = list(dict.fromkeys(name for item in fitted for name in item.dropped))
    if not dropped:
        return
    stdout.flush()
    needed = max(item.width for item in fitted)
    sys.stderr.write(
        f"Columns not shown in {width} characters: {', '.join(dropped)}. To see them, add"
        f" --max-width {needed}, -c <column> or -f json\n"
    )
