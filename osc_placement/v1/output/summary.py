"""The summary of a long table: equal rows become one row with their number and names. Pure.

If there are too many different rows, rows count as equal that differ in their reasons only by
names, then also by numbers, and then the same in all columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from osc_placement.v1.output import cells, rows, tables

#: A summary replaces a table with more rows than this, and has at most as many itself.
MOST_ROWS = 20

#: The columns that identify a row; a table has one of them, or none.
_IDENTITY = ("name", "tree")

#: A row shows all names if it has few, and otherwise the first names.
_ALL_NAMES, _FIRST_NAMES = 10, 3

#: A word with a digit that is not a number, such as the name of a host or a UUID.
_NAME = re.compile(r"(?<![\w.-])(?!\d+(?:\.\d+)?(?![\w-]|\.\w))[\w.-]*\d[\w.-]*")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w|\.\w)")
_BRANCHES = re.compile(r"^[│├└─\s]+")

#: Columns that explain a change; the others say what changes to what.
_PROSE = frozenset({"reason", "evidence", "proposed"})

#: These rows come after those that need attention: failed, stale and refused ones.
_EXPECTED = frozenset({"planned", "applied", "unchanged", "skipped"})

#: The name of a row, and its other cells.
_Row = tuple[str, tuple[str, ...]]


def of_table(table: tables.Table) -> tables.Table:
    """The table itself if it has few rows, else its summary.

    Rows that need attention come first, then the most frequent ones.
    """
    if len(table.rows) <= MOST_ROWS:
        return table
    at = next((table.columns.index(name) for name in _IDENTITY if name in table.columns), None)
    columns = [name for index, name in enumerate(table.columns) if index != at]
    found = []
    for row in table.rows:
        texts = ["" if cell is None else str(cell) for cell in cells.format_row("table", row)]
        name = "" if at is None else _BRANCHES.sub("", texts.pop(at))
        found.append((name, tuple(texts)))
    groups = sorted(_grouped(columns, found), key=lambda group: _urgency(columns, group))
    data = [_row(group) for group in groups[:MOST_ROWS]]
    if len(groups) > MOST_ROWS:
        others = [row for group in groups[MOST_ROWS - 1 :] for row in group]
        data[-1] = (len(others), "(other rows)", *[""] * (len(columns) - 1), _names(others))
    if at is None:
        data = [row[:-1] for row in data]
    names = [] if at is None else ["names"]
    return tables.Table(f"{table.title}: {len(found)} rows", ("rows", *columns, *names), data)


def _grouped(columns: Sequence[str], found: Sequence[_Row]) -> list[list[_Row]]:
    """The groups of rows that count as equal, with as many details as possible."""
    groups: dict[tuple[str, ...], list[_Row]] = {}
    for in_prose, elsewhere in _LEVELS:
        levels = [in_prose if name in _PROSE else elsewhere for name in columns]
        groups = {}
        for row in found:
            key = tuple(level(text) for level, text in zip(levels, row[1], strict=True))
            groups.setdefault(key, []).append(row)
        if len(groups) <= MOST_ROWS:
            break
    return list(groups.values())


def _urgency(columns: Sequence[str], group: Sequence[_Row]) -> tuple[bool, int]:
    values = dict(zip(columns, group[0][1], strict=True))
    return (values.get("status", "planned") in _EXPECTED, -len(group))


def _row(group: Sequence[_Row]) -> rows.Row:
    """The number of rows, their cells, and their names; "*" is what differs."""
    cells_of = zip(*(texts for _, texts in group), strict=True)
    shared = [texts[0] if len(set(texts)) == 1 else _most_detailed(texts) for texts in cells_of]
    return (len(group), *(rows.Lines(text.split("\n")) for text in shared), _names(group))


def _most_detailed(texts: Sequence[str]) -> str:
    without_names = {_without_names(text) for text in texts}
    return without_names.pop() if len(without_names) == 1 else _without_numbers(texts[0])


def _names(group: Sequence[_Row]) -> str:
    names = [name for name, _ in group]
    if len(names) <= _ALL_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:_FIRST_NAMES])} and {len(names) - _FIRST_NAMES} more"


def _without_names(text: str) -> str:
    return _NAME.sub("*", text)


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("*", _without_names(text))


#: How to simplify the cells of _PROSE, and other cells, until there are few different rows.
_LEVELS: Sequence[tuple[Callable[[str], str], Callable[[str], str]]] = (
    (str, str),
    (_without_names, str),
    (_without_numbers, str),
    (_without_numbers, _without_names),
    (_without_numbers, _without_numbers),
)
