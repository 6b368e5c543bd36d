# SPDX-License-Identifier: Apache-2.0
"""Text on a terminal: lines that fit it, and colours for severities."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: A word for a shell, with the quotes of ``shlex.quote`` and ``$'...'``.
_WORD = r"""(?:\$'(?:\\.|[^'\\])*'|'[^']*'|"[^"]*"|[^\s'";])+"""
#: A command line in a message: between quotes, or up to the end of the line or a semicolon.
_COMMAND = re.compile(rf"'openstack [^']*'|(?<!\S)openstack(?: {_WORD})+")

#: The lines after the first one of a command.
_INDENT = "    "
#: What a shell reads as the continuation of a command.
_CONTINUED = " \\"

RED, YELLOW = "31", "33"

#: What begins a line that needs attention.
_WARNING = re.compile(r"^(?:Warning|Not checked|Stopped|Changes are left)(?=[:.])")

#: ``{cell: colour}`` of the columns in which a severity or an outcome stands.
_COLOURS: Mapping[str, str] = {
    **dict.fromkeys(("error", "failed", "failure", "refused", "no"), RED),
    **dict.fromkeys(("warning", "stale", "not checked", "unknown"), YELLOW),
}
_SEVERITIES = frozenset({"severity", "status", "ok to stop"})


def fold(line: str, width: int) -> list[str]:
    """The lines of at most ``width`` characters that show a line; one word may be longer.

    A command is divided only if it fits no line, and then stays one for a shell that it is pasted
    into.
    """
    if cells(line) <= width:
        return [line]
    folded = [line[: len(line) - len(line.lstrip())]]
    for words in _parts(line.strip()):
        text = " ".join(words)
        if len(words) == 1 or cells(text) <= width:
            _add(folded, text, width)
            continue
        # The beginning of a command that fits no line; with most of a line before it on a new one.
        _add(folded, words[0], width // 2)
        for word in words[1:]:
            if cells(f"{folded[-1]} {word}") <= width - len(_CONTINUED):
                folded[-1] += f" {word}"
            else:
                folded[-1] += _CONTINUED
                folded.append(f"{_INDENT}{word}")
    return folded


def _add(folded: list[str], text: str, width: int) -> None:
    """Add a text to the last line, or as a new line."""
    last = folded[-1]
    if not last.strip():
        folded[-1] += text
    elif cells(f"{last} {text}") <= width:
        folded[-1] += f" {text}"
    else:
        folded.append(text)


def _parts(line: str) -> Iterator[list[str]]:
    """The words of a line, each alone, and those of a command together."""
    end = 0
    for match in _COMMAND.finditer(line):
        yield from ([word] for word in line[end : match.start()].split())
        command = match[0]
        words = command.split(" ") if command[0] == "'" else re.findall(_WORD, command)
        # What is written without a space after the command, such as its semicolon.
        after = re.match(r"\S*", line[match.end() :])
        ending = after[0] if after else ""
        words[-1] += ending
        end = match.end() + len(ending)
        yield words
    yield from ([word] for word in line[end:].split())


def message(text: str, stream: Any, colour: str = "") -> str:
    """A text for stderr: on a terminal in lines that fit, with warnings or all of it coloured."""
    width = width_of(stream)
    if width is None:
        return text
    lines = [part for line in text.split("\n") for part in fold(line, width)]
    if not has_colours(stream):
        return "\n".join(lines)
    if colour:
        return "\n".join(coloured(line, colour) if line else line for line in lines)
    return "\n".join(_WARNING.sub(lambda found: coloured(found[0], YELLOW), line) for line in lines)


def cells(text: str) -> int:
    """How many characters of a terminal the text fills, without spaces at its end."""
    import wcwidth

    return max(0, wcwidth.wcswidth(text.rstrip()))


def width_of(stream: Any) -> int | None:
    """The width of the terminal that a stream writes to; None for another stream."""
    if not is_terminal(stream):
        return None
    try:
        measured = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        measured = 0
    return shutil.get_terminal_size((measured, 0)).columns or None


def is_terminal(stream: Any) -> bool:
    """Whether a stream writes to a terminal."""
    return bool(getattr(stream, "isatty", bool)())


def has_colours(stream: Any) -> bool:
    """Whether to write colours: to a terminal, without NO_COLOR (no-color.org)."""
    terminal = os.environ.get("TERM", "") not in {"", "dumb"}
    return terminal and not os.environ.get("NO_COLOR") and is_terminal(stream)


def coloured(text: str, colour: str) -> str:
    """A text in a colour."""
    return f"\x1b[{colour}m{text}\x1b[0m"


def coloured_cells(columns: Sequence[str], row: Sequence[Any]) -> Sequence[Any]:
    """The cells of a row, those with a severity or an outcome in its colour."""
    return [
        coloured(cell, _COLOURS[cell]) if name in _SEVERITIES and cell in _COLOURS else cell
        for name, cell in zip(columns, row, strict=True)
    ]
