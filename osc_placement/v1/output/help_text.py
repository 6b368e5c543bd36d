# SPDX-License-Identifier: Apache-2.0
"""The format of help on a terminal.

Help texts are reStructuredText, because the documentation is built from the same texts. A
terminal shows them without markup.
"""

from __future__ import annotations

import argparse
import copy
import functools
import re
import textwrap
from collections.abc import Collection, Iterable
from typing import Any

from cliff import _argparse

#: One item of a usage line, which no line break divides: "[--host <host>]", "<provider>".
_USAGE_ITEM = re.compile(r"\(.*?\)+(?=\s|$)|\[.*?\]+(?=\s|$)|\S+")

#: The command that describes the options of shared groups.
TOPIC = "placement options show"

#: The titles of groups that many commands have: help names their arguments without describing them.
SELECTION = "which providers"
CHANGE = "how to change"
QUERY = "a query for candidates, in place of nova's request"
SHARED = frozenset({SELECTION, CHANGE, QUERY})
#: cliff's group of ``-f`` and ``-c``; each formatter has a group of its own.
OUTPUT = "output formatters"
_SAY_NOTHING = ("output formatter options", 'a format a UNIX shell can parse (variable="value")')
FORMATTERS = (OUTPUT, "table formatter", "json formatter", "CSV Formatter", "shell formatter")

#: ``{option of a shared group: its line in the help of each command}``
LINES = {
    "--dry-run": "Show the planned changes; change nothing",
    "--member-of": "Members of an aggregate: UUID, or name or id in nova",
    "--plan-out": "Write the plan to this file, to review and apply it",
    "--format": "The format of the output (default: table)",
    "--column": "A column to show; may be repeated",
}
#: Those that usage names too.
_IN_USAGE = frozenset({"--dry-run", "--member-of", "--plan-out"})
#: Arguments of cliff's group that exclude each other: they have a container of their own.
_SORTING = frozenset({"--sort-ascending", "--sort-descending"})


def is_shared(action: argparse.Action) -> bool:
    """Whether many commands have this argument: its group is shared, or that of a formatter."""
    title = _title(action)
    return title in SHARED or title in FORMATTERS or _name(action) in _SORTING


class FullHelpFormatter(_argparse.SmartHelpFormatter):
    """Wraps text to the width of the terminal and removes markup; indented lines stay."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = [plain(paragraph) for paragraph in text.split("\n\n")]
        return "\n\n".join(
            paragraph if paragraph[:1] == " " else "\n".join(_wrap(paragraph, width, indent))
            for paragraph in paragraphs
        )

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _wrap(plain(text), width)


class GroupFormatter(FullHelpFormatter):
    """The groups of some titles, without anything else."""

    _is_shown = False

    def __init__(self, prog: str, titles: Collection[str]) -> None:
        super().__init__(prog)
        self._titles = titles

    def start_section(self, heading: str | None) -> None:
        """Begin a group."""
        self._is_shown = heading in self._titles
        super().start_section(heading)

    def add_text(self, text: str | None) -> None:
        """Add the description of a group."""
        if self._is_shown:
            super().add_text(text)

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        """Add the arguments of a group."""
        if self._is_shown:
            super().add_arguments(actions)


def groups_of(parser: argparse.ArgumentParser, titles: Collection[str]) -> str:
    """The help of the groups of these titles."""
    parser.usage, parser.description, parser.epilog = argparse.SUPPRESS, None, None
    parser.formatter_class = functools.partial(GroupFormatter, titles=titles)
    return parser.format_help()


class HelpFormatter(FullHelpFormatter):
    """The help of a command: of most options of shared groups only the names."""

    def start_section(self, heading: str | None) -> None:
        """Begin a group."""
        super().start_section("output" if heading == OUTPUT else heading)

    def add_text(self, text: str | None) -> None:
        """Add a text."""
        if text not in _SAY_NOTHING:
            super().add_text(text)

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        """Add the arguments of a group; of a shared one a line for a few, and the other names."""
        shown = [action for action in actions if action.help != argparse.SUPPRESS]
        if not any(map(is_shared, shown)):
            super().add_arguments(shown)
            return
        described = [action for action in shown if _name(action) in LINES]
        names = ", ".join(_name(action) for action in shown if action not in described)
        super().add_arguments(map(_with_line, described))
        if _title(shown[0]) == OUTPUT:
            names += ", --max-width and more"
        if described:
            super().add_text(f'{names.lstrip(", ")}: see "openstack {TOPIC}"')

    def _format_usage(
        self, usage: str | None, actions: Iterable[Any], groups: Iterable[Any], prefix: str | None
    ) -> str:
        """Begin a new line after the command: no item fits beside a long command name.

        Leaves out most options of shared groups.
        """
        actions = [
            item
            for item in actions
            if not is_shared(item) or not item.option_strings or _name(item) in _IN_USAGE
        ]
        text = super()._format_usage(usage, actions, groups, prefix)
        width = self._width - self._current_indent
        if max(map(len, text.splitlines()), default=0) <= width:
            return text
        command = f"usage: {self._prog}"
        lines, line = [command], "   "
        for item in _USAGE_ITEM.findall(" ".join(text.split()).removeprefix(command)):
            if len(line) + 1 + len(item) > width:
                lines.append(line)
                line = "   "
            line += f" {item}"
        return "\n".join([*lines, line, "", ""])


def _title(action: argparse.Action) -> str:
    """The title of the group of an argument."""
    return getattr(getattr(action, "container", None), "title", None) or ""


def _name(action: argparse.Action) -> str:
    return (action.option_strings or [str(action.metavar)])[-1]


def _with_line(action: argparse.Action) -> argparse.Action:
    """An action with one line of help, and with its short option if it has one."""
    short = copy.copy(action)
    short.help, short.option_strings = LINES[_name(action)], action.option_strings[:1]
    return short


def plain(text: str) -> str:
    """Text without reStructuredText's marks of literals."""
    return re.sub(r"``(.+?)``", r"\1", text, flags=re.DOTALL).replace("::", ":")


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
