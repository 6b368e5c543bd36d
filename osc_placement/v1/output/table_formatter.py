"""cliff's table of rows or fields, which never divides a word; ``layout`` says how it fits.

Imported only when a table is printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from cliff.formatters import table as cliff_table

from osc_placement.v1.output import cells, layout, tables


class Formatter(cliff_table.TableFormatter):
    """The formatter of one command."""

    def __init__(self, *, may_drop: bool, quiet: bool = False) -> None:
        """``may_drop``: columns may be dropped. ``quiet``: without a note about them."""
        self._may_drop, self._quiet = may_drop, quiet

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the rows, and on stderr which columns are missing."""
        rows = [cells.format_row("table", row) for row in data]
        width = tables.width_limit(parsed_args)
        found = layout.fit(column_names, rows, width, may_drop=self._may_drop)
        super().emit_list(found.columns, found.rows, stdout, _unlimited(parsed_args))
        if not self._quiet:
            tables.note_dropped([found], width, stdout)

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the fields of one object."""
        pairs = list(zip(column_names, cells.format_row("table", data), strict=True))
        found = layout.fit(("Field", "Value"), pairs, tables.width_limit(parsed_args))
        names = [name for name, _ in found.rows]
        values = [value for _, value in found.rows]
        super().emit_one(names, values, stdout, _unlimited(parsed_args))


def _unlimited(parsed_args: argparse.Namespace) -> argparse.Namespace:
    """The arguments without cliff's own way to fit a table, which divides words."""
    return argparse.Namespace(**{**vars(parsed_args), "max_width": sys.maxsize})
