"""Cells of the output: JSON in CSV and value output, no control characters in text."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from cliff import columns

_TEXT_FORMATS = {"csv", "table", "value"}


class Script(columns.FormattableColumn[Any]):
    """Lines for a shell: ``-f value`` prints them as they are."""

    def human_readable(self) -> str:
        return "\n".join(self._value)


class PythonText(columns.FormattableColumn[Any]):
    """A structure of upstream's commands: Python's text of it, but data in JSON and YAML."""

    def human_readable(self) -> str:
        return str(self._value)


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
    """One row."""
    if formatter not in _TEXT_FORMATS:
        # YAML cannot represent a subclass of str.
        return tuple(str(cell) if isinstance(cell, str) else cell for cell in row)
    return tuple(_format(formatter, cell) for cell in row)


def _format(formatter: str, cell: Any) -> Any:
    if isinstance(cell, PythonText):
        return cell.human_readable()
    if formatter == "table":
        if not isinstance(cell, columns.FormattableColumn):
            return printable(cell) if isinstance(cell, str) else cell
        return printable_lines(str(cell.human_readable()))
    if isinstance(cell, Script) and formatter == "value":
        return printable_lines(cell.human_readable())
    if isinstance(cell, columns.FormattableColumn):
        cell = cell.machine_readable()
    if isinstance(cell, dict | list | tuple | bool):
        return json.dumps(cell)
    return printable(cell) if isinstance(cell, str) and formatter == "value" else cell
