# SPDX-License-Identifier: Apache-2.0
"""Columns and rows of several commands.

A column of upstream's commands keeps its name and JSON type. New structured values are
FormattableColumns: text in a table, data in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from cliff import columns

if TYPE_CHECKING:
    from osc_placement.model import inventory
    from osc_placement.plan import result

T = TypeVar("T")

Row = tuple[Any, ...]

#: ``{column: how to read its cell of an item}``
Columns = Mapping[str, Callable[[T], Any]]


def listing(columns: Columns[T], items: Iterable[T]) -> tuple[tuple[str, ...], list[Row]]:
    """The names of the columns, and a row for each item."""
    return tuple(columns), [row(columns, item) for item in items]


def row(columns: Columns[T], item: T) -> Row:
    """The cells of an item."""
    return tuple(read(item) for read in columns.values())


def percent(share: float) -> float:
    """A part of one in percent."""
    return round(100 * share, 2)


class Cell(columns.FormattableColumn[Any]):
    """A value for programs, and the lines that a table shows of it."""

    #: The formats of cliff that show the lines; the others have the value, as JSON.
    shown_in: Collection[str] = ("table",)

    def __init__(self, value: Any, shown: Iterable[str]) -> None:
        super().__init__(value)
        self._shown = shown

    def human_readable(self) -> str:
        return "\n".join(self._shown)


def lines(items: Iterable[Any]) -> Cell:
    """A list; a table shows one item per line."""
    values = list(items)
    return Cell(values, [str(item) for item in values])


def described(fields: Mapping[str, Any], text: str) -> Cell:
    """``{field: value}``; a table shows a text for people, one line per part (``; ``)."""
    return Cell(dict(fields), text.split("; "))


def reasons(text: str, code: str = "") -> Cell:
    """Reasons, separated by semicolons; a table shows one per line, and their code."""
    return Cell(text, [*text.split("; "), *([f"[{code}]"] if code else [])])


def amounts(values: Mapping[str, Any]) -> Cell:
    """``{name: value}``; a table shows ``NAME=VALUE``, one per line."""
    return Cell(dict(values), [f"{name}={value}" for name, value in values.items()])


def usages(values: Mapping[str, Any] | None) -> Cell:
    """``{resource class: amount}``, or a used amount and a capacity instead of an amount.

    A table shows ``VGPU=1`` or ``VGPU=used/capacity``.
    """
    if values is None:
        return Cell(None, "-")
    return Cell(dict(values), [f"{name}={_usage(value)}" for name, value in values.items()])


def _usage(value: Mapping[str, int] | int) -> str:
    return f"{value['used']}/{value['capacity']}" if isinstance(value, Mapping) else str(value)


def totals(inventories: inventory.Inventories) -> Cell:
    """``{resource class: inventory}``; a table shows the totals."""
    return Cell(
        {name: item.as_dict() for name, item in inventories.items()},
        [f"{name}={item.total}" for name, item in inventories.items()],
    )


def mappings(providers: Mapping[str, Iterable[str]]) -> Cell:
    """``{suffix: [provider uuid]}``; a table shows ``suffix=uuid``, and '-' for no suffix."""
    values = {suffix: list(uuids) for suffix, uuids in providers.items()}
    return Cell(values, [f"{suffix or '-'}={','.join(uuids)}" for suffix, uuids in values.items()])


def names(items: Iterable[str]) -> list[Row]:
    """A row with one cell for each item."""
    return [(item,) for item in items]


_TEXT_FORMATS = {"csv", "table", "value"}


class Script(Cell):
    """Lines for a shell: ``-f value`` prints them as they are."""

    shown_in = ("table", "value")

    def __init__(self, commands: Sequence[str]) -> None:
        super().__init__(commands, commands)


class PythonText(Cell):
    """A structure of upstream's commands: Python's text of it, but data in JSON and YAML."""

    shown_in = _TEXT_FORMATS

    def __init__(self, value: Any) -> None:
        super().__init__(value, [str(value)])


def printable(text: str) -> str:
    """Text with escapes instead of control characters, which could change the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def printable_lines(text: str) -> str:
    """Text of several lines with escapes instead of other control characters."""
    return "\n".join(map(printable, text.split("\n")))


def format_rows(formatter: str, rows: Collection[Sequence[Any]]) -> Collection[Sequence[Any]]:
    """The rows for a formatter of cliff; JSON and YAML get the values."""
    return [format_row(formatter, row) for row in rows]


def format_row(formatter: str, row: Sequence[Any]) -> Sequence[Any]:
    """A row, as ``format_rows`` makes it."""
    if formatter not in _TEXT_FORMATS:
        # YAML cannot represent a subclass of str.
        return tuple(str(cell) if isinstance(cell, str) else cell for cell in row)
    return tuple(_format(formatter, cell) for cell in row)


def _format(formatter: str, cell: Any) -> Any:
    if isinstance(cell, Cell):
        if formatter in cell.shown_in:
            return printable_lines(cell.human_readable())
        cell = cell.machine_readable()
    if formatter != "table" and isinstance(cell, dict | list | tuple | bool):
        return json.dumps(cell)
    return printable(cell) if formatter != "csv" and isinstance(cell, str) else cell


COLUMNS = ("name", "uuid", "before", "after", "status", "reason", "code")


class ResultRows(Collection[Row]):
    """The values of COLUMNS for each result. ``names`` is ``{provider uuid: name}``.

    A row exists only while it is printed: those of 100,000 results need 100 MiB.
    """

    def __init__(self, results: Sequence[result.ChangeResult], names: Mapping[str, str]) -> None:
        self._results, self._names = results, names

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Row]:
        return (_result_row(item, self._names) for item in self._results)

    def __contains__(self, row: object) -> bool:
        return any(row == item for item in self)


def _result_row(item: result.ChangeResult, names: Mapping[str, str]) -> Row:
    """The values of COLUMNS. The UUID is None where subjects have only a name, such as traits."""
    from osc_placement.plan.kinds import registry

    return (
        item.subject.name,
        item.subject.uuid if registry.CHANGE_TYPES[item.kind].has_uuid else None,
        *_facts(item, names),
        str(item.status),
        reasons(item.reason, item.code),
        str(item.code),
    )


def _facts(item: result.ChangeResult, names: Mapping[str, str]) -> tuple[Cell, Cell]:
    """The cells of both states; tables show names instead of UUIDs."""
    from osc_placement.plan.kinds import base, registry

    kind = registry.CHANGE_TYPES[item.kind]
    facts = registry.facts(item.kind, item.before, item.after)
    named = registry.facts(item.kind, item.before, item.after, names)
    return (
        Cell({fact.key: fact.before for fact in facts}, kind.describe(base.before_side(named))),
        Cell({fact.key: fact.after for fact in facts}, kind.describe(base.after_side(named))),
    )
