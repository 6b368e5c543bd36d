"""Several tables in one answer, which cliff cannot print."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from osc_placement.v1 import cells


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A titled table. Cells are values, or cliff's FormattableColumn."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def draw(tables: Iterable[Table]) -> str:
    """The text of the tables that have rows; on a terminal at most as wide as it."""
    import prettytable

    texts = []
    for table in tables:
        if table.rows:
            drawn = prettytable.PrettyTable(list(table.columns))
            drawn.align = "l"
            if sys.stdout.isatty():
                drawn.max_table_width = shutil.get_terminal_size().columns
            drawn.add_rows([list(cells.format_row("table", row)) for row in table.rows])
            texts.append(f"{table.title}\n{drawn}\n")
    return "\n".join(texts)
