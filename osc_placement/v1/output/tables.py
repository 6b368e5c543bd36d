# SPDX-License-Identifier: Apache-2.0
"""The tables of the commands that upstream does not have, and the width of all tables.

Cells fold at spaces and commas, and at "=" if that is not enough. If a table is still too wide,
columns are dropped in a fixed order; then UUIDs are shortened, and keys and codes fold. Numbers
and the names of rows are never divided: with a long one a table is wider than the terminal.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from osc_placement.v1.output import terminal
from osc_placement.v1.output.rows import format_row

#: The only column of a table that is printed as lines, which can be copied.
COMMANDS = ("command",)


class Table(NamedTuple):
    """A table and its title, if any. Cells are values, or ``rows.Cell``."""

    title: str
    columns: Sequence[str]
    rows: Collection[Sequence[Any]]

    @classmethod
    def of(
        cls,
        title: str,
        shown: Iterable[str],
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
    ) -> Table:
        """The columns ``shown``, as far as there are any, of rows with ``columns``."""
        places = [columns.index(name) for name in shown if name in columns]
        cells = [tuple(row[place] for place in places) for row in rows]
        return cls(title, [columns[place] for place in places], cells)


class Formatter:
    """The writer of one command's tables, in place of cliff's."""

    def __init__(self, *, may_drop: bool = True, quiet: bool = False) -> None:
        """``may_drop``: columns may be dropped. ``quiet``: without a note about them."""
        self._may_drop, self._quiet = may_drop, quiet

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write one table of rows, whose cells are text or plain values."""
        cells = [[_cell(cell) for cell in row] for row in data]
        self._draw([Table("", column_names, cells)], stdout, parsed_args)

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the fields of one object."""
        pairs = zip(column_names, (str(_cell(value)) for value in data), strict=True)
        self._may_drop = False
        self.emit_list(("Field", "Value"), pairs, stdout, parsed_args)

    def write(
        self, tables: Iterable[Table], stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        """Write the tables that have rows; on stderr which columns are missing."""
        formatted = (
            table._replace(rows=[_texts(row) for row in table.rows])
            for table in tables
            if table.rows
        )
        self._draw(formatted, stdout, parsed_args)

    def _draw(
        self, tables: Iterable[Table], stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        width = width_limit(parsed_args)
        fitted: list[Layout] = []
        for table in tables:
            if table.title:
                stdout.write(f"{chr(10) if fitted else ''}{table.title}\n")
            if tuple(table.columns) == COMMANDS:
                _write_commands(table.rows, width, stdout)
                continue
            layout = fit(table.columns, list(table.rows), width, may_drop=self._may_drop)
            rows = layout.rows
            if terminal.has_colours(stdout):
                rows = [terminal.coloured_cells(layout.columns, row) for row in rows]
            text = drawn(layout.columns, rows, print_empty=parsed_args.print_empty)
            stdout.write(f"{text}\n")
            fitted.append(layout)
        if not self._quiet:
            note_dropped(fitted, width, stdout)


def drawn(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, print_empty: bool) -> str:
    """A table as cliff's: numbers in the first row align their column to the right.

    ``print_empty``: the head also of a table without rows.
    """
    # Every start of a program imports this module.
    import prettytable

    table = prettytable.PrettyTable(list(columns), print_empty=print_empty, padding_width=1)
    table.align = "l"
    for name, cell in zip(columns, rows[0] if rows else (), strict=False):
        if type(cell) in (int, float):
            table.align[name] = "r"
    table.add_rows([[_without_returns(cell) for cell in row] for row in rows])
    return table.get_string()


def _without_returns(cell: Any) -> Any:
    """A cell whose lines end with a line feed only."""
    return cell.replace("\r\n", "\n").replace("\r", " ") if isinstance(cell, str) else cell


def _write_commands(rows: Collection[Sequence[Any]], width: int | None, stdout: TextIO) -> None:
    for cell in (str(cell) for row in rows for cell in row):
        lines = (terminal.fold(line, width) if width else [line] for line in cell.split("\n"))
        stdout.writelines(f"{line}\n" for folded in lines for line in folded)


def _texts(row: Sequence[Any]) -> Sequence[str]:
    return [str(_cell(cell)) for cell in format_row("table", row)]


def _cell(value: Any) -> Any:
    """What a table shows of a value: an empty cell where JSON has null."""
    return "" if value is None else value


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
    return terminal.is_terminal(sys.stdout)


def note_dropped(fitted: Sequence[Layout], width: int | None, stdout: TextIO) -> None:
    """Write on stderr which columns are missing, and how to see them."""
    dropped = list(dict.fromkeys(name for item in fitted for name in item.dropped))
    notes = [f"Columns not shown in {width} characters: {', '.join(dropped)}"] if dropped else []
    if any(item.is_shortened for item in fitted):
        notes.append(f"UUIDs are shortened to fit {width} characters")
    if not notes:
        return
    stdout.flush()
    needed = max(item.width for item in fitted)
    sys.stderr.write(
        f"{'. '.join(notes)}. To see them, add --max-width {needed}, -c <column> or -f json\n"
    )


#: Columns that are dropped, the first one first, after columns without any value.
DROP_ORDER = (
    "root_provider_uuid",
    "parent_provider_uuid",
    "uuid",
    "resource_provider",
    "generation",
    "consumer_generation",
    "user_id",
    "project_id",
    "consumer_type",
    "step_size",
    "min_unit",
    "max_unit",
    "updated",
    "mappings",
    "aggregates",
    "inventories",
    "traits",
    "host",
    "before",
    "fits_before",
    "hosts_before",
    "evidence",
    # Of the classes that remain, where amounts have many digits.
    "used",
    "capacity",
    "fragmented",
    # Of the moves of servers.
    "from",
    # Of the list of plans.
    "undoable",
    "target",
)

#: ``{column of UUIDs: columns with the names of the same things}``. Without one of these, the
#: column of UUIDs stays.
_NAMED_BY: Mapping[str, Collection[str]] = {
    "uuid": ("name", "tree"),
    "resource_provider": ("provider_name",),
}

#: Columns whose cells are names: they never fold, not even at a space in the name.
_NAMES = frozenset({"name", "tree", "provider_name", "server_name"})

#: Text is folded to fewer characters only if no column is left to drop.
_READABLE = 20

#: A place to fold: after spaces, or after a comma or semicolon that is not inside a number.
_PLACE = re.compile(r"(?<=\s)(?=\S)|(?<=[,;])(?!\d{3}\b)(?=\S)")
#: A place in a word that is too long, and in a table that is too wide with it: in keys and codes.
_IN_WORD = re.compile(r"(?<==)(?=\S)")
_IN_KEY = re.compile(r"(?<=[=/])(?=\S)|(?<=[a-zA-Z]{2}[:_-])(?=[a-zA-Z])")

#: A UUID, also without hyphens, as projects have them.
_UUID = re.compile(r"\b([0-9a-f]{8})-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b")


class Layout(NamedTuple):
    """The columns and rows to print; ``width`` is that of the table with all columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    dropped: Sequence[str] = ()
    width: int = 0
    is_shortened: bool = False
    fits: bool = True


def fit(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    width: int | None,
    *,
    may_drop: bool = True,
    in_word: re.Pattern[str] = _IN_WORD,
) -> Layout:
    """Fold cells and drop columns until the table has ``width`` characters; None does not limit it.

    Cells are text or plain values; words fold at ``in_word``. If the table does not fit: with short
    UUIDs, then also with folded keys.
    """
    texts = {name: _lines(row[at] for row in rows) for at, name in enumerate(columns)}
    natural = {name: _width([name, *texts[name]]) for name in columns}
    least = {name: _width([name, *_words(name, texts[name], in_word)]) for name in columns}
    readable = {name: max(least[name], min(natural[name], _READABLE)) for name in columns}
    total = _table_width(natural.values())
    if width is None or total <= width:
        return Layout(columns, rows, width=total)
    order = _droppable(columns, texts) if may_drop else []
    shown = list(columns)
    while order and _table_width(readable[name] for name in shown) > width:
        shown.remove(order.pop(0))
    begin = readable if _table_width(readable[name] for name in shown) <= width else least
    widths = _widths({name: begin[name] for name in shown}, natural, width)
    folded = [
        tuple(
            cell if normalized(name) in _NAMES else _fold(cell, widths[name], in_word)
            for name, cell in zip(columns, row, strict=False)
            if name in shown
        )
        for row in rows
    ]
    dropped = [name for name in columns if name not in shown]
    layout = Layout(shown, folded, dropped, total, fits=_table_width(widths.values()) <= width)
    if layout.fits or in_word is _IN_KEY:
        return layout
    short = [[_short(cell) for cell in row] if may_drop else [*row] for row in rows]
    is_shortened = short != [[*row] for row in rows]
    in_word = _IN_WORD if is_shortened else _IN_KEY
    narrower = fit(columns, short, width, may_drop=may_drop, in_word=in_word)
    is_shortened |= narrower.is_shortened
    narrower = narrower._replace(width=total, is_shortened=is_shortened)
    return narrower if narrower.fits else layout


def _lines(cells: Iterable[Any]) -> list[str]:
    return [line for cell in cells if cell is not None for line in str(cell).split("\n")]


def _words(column: str, texts: Iterable[str], in_word: re.Pattern[str]) -> Iterator[str]:
    """What does not fold: the parts of words, or whole lines if they are names."""
    for text in texts:
        if normalized(column) in _NAMES:
            yield text
        else:
            parts = (part for word in _PLACE.split(text) for part in in_word.split(word))
            yield from (part.rstrip() for part in parts)


def _short(cell: Any) -> Any:
    return _UUID.sub(r"\1...", cell) if isinstance(cell, str) else cell


def _width(texts: Iterable[str]) -> int:
    return max(map(terminal.cells, texts))


def _droppable(columns: Sequence[str], texts: Mapping[str, Collection[str]]) -> list[str]:
    """Columns to drop when the table is too wide, first to last; at least one column stays."""
    by_name = {normalized(name): name for name in columns}
    order = [name for name in columns[1:] if not any(texts[name])]
    for name in DROP_ORDER:
        named_by = _NAMED_BY.get(name)
        if name in by_name and (named_by is None or by_name.keys() & named_by):
            order.append(by_name[name])
    return list(dict.fromkeys(order))[: len(columns) - 1]


def _widths(least: Mapping[str, int], natural: Mapping[str, int], width: int) -> dict[str, int]:
    """The widths of the columns; those that need more than ``least`` share what is left."""
    widths = dict(least)
    left = width - _table_width(widths.values())
    while left > 0 and (wanting := [name for name in widths if natural[name] > widths[name]]):
        share = max(1, left // len(wanting))
        for name in wanting:
            more = min(share, left, natural[name] - widths[name])
            widths[name] += more
            left -= more
    return widths


def _fold(cell: Any, width: int, in_word: re.Pattern[str]) -> Any:
    if not isinstance(cell, str):
        return cell
    return "\n".join(part for line in cell.split("\n") for part in _fold_line(line, width, in_word))


def _fold_line(line: str, width: int, in_word: re.Pattern[str]) -> list[str]:
    if terminal.cells(line) <= width:
        return [line]
    folded = [""]
    for word in _PLACE.split(line):
        for part in [word] if terminal.cells(word.rstrip()) <= width else in_word.split(word):
            if folded[-1] and terminal.cells((folded[-1] + part).rstrip()) > width:
                folded.append("")
            folded[-1] += part
    return [text.rstrip() for text in folded]


def _table_width(widths: Iterable[int]) -> int:
    """The width of a table with columns of these widths: borders, and a space on each side."""
    return 1 + sum(width + 3 for width in widths)


def normalized(column: str) -> str:
    """A column name in the form that cliff compares."""
    return column.lower().strip().replace(" ", "_")


#: A terminal shows this many rows of a longer table.
MOST_ROWS = 20

#: ``{status: its place}``: what needs attention, then changes, then what has no change.
_ORDER = {"failed": 0, "stale": 0, "refused": 0, "planned": 1, "applied": 1}

#: What is drawn before the name of a provider below another.
_BRANCHES = ("│", "├", "└", " ")


def first_rows(table: Table) -> Table:
    """The first ``MOST_ROWS`` rows, those that need attention before the others."""
    if len(table.rows) <= MOST_ROWS:
        return table
    rows: Iterable[Sequence[Any]] = table.rows
    if "status" in table.columns:
        at = table.columns.index("status")
        trees = _trees(table)
        trees.sort(key=lambda tree: min(_ORDER.get(str(row[at]), 2) for row in tree))
        rows = itertools.chain.from_iterable(trees)
    return table._replace(rows=list(itertools.islice(rows, MOST_ROWS)))


def _trees(table: Table) -> list[list[Sequence[Any]]]:
    """The rows that stay together: those of a tree, else each row."""
    is_drawn = table.columns[0] == "tree"
    trees: list[list[Sequence[Any]]] = []
    for row in table.rows:
        if is_drawn and trees and row[0].startswith(_BRANCHES):
            trees[-1].append(row)
        else:
            trees.append([row])
    return trees
