# SPDX-License-Identifier: Apache-2.0
"""The format of help on a terminal.

Help texts are reStructuredText, because the documentation is built from the same texts. A
terminal shows them without markup.
"""

from __future__ import annotations

import argparse
import copy
import re
import textwrap
import weakref
from collections.abc import Iterable
from typing import Any

from cliff import _argparse

#: One item of a usage line, which no line break divides: "[--host <host>]", "<provider>".
_USAGE_ITEM = re.compile(r"\(.*?\)+(?=\s|$)|\[.*?\]+(?=\s|$)|\S+")

#: The command that describes the options of shared groups.
TOPIC = "placement options show"

#: The arguments of groups that many commands have: help names them without their descriptions.
_SHARED: weakref.WeakSet[argparse.Action] = weakref.WeakSet()


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

#: The group that help shows last, in place of one for each formatter of cliff.
_OUTPUT = "output"


def share(group: argparse._ArgumentGroup) -> None:
    """Declare that many commands have this group; TOPIC describes its arguments."""
    _SHARED.update(group._group_actions)


def is_shared(action: argparse.Action) -> bool:
    """Whether many commands have this argument."""
    return action in _SHARED


def merge_formatters(parser: argparse.ArgumentParser) -> None:
    """Make one shared group of cliff's groups of formatters."""
    groups = [item for item in parser._action_groups if "ormatter" in (item.title or "")]
    for group in groups[1:]:
        groups[0]._group_actions.extend(group._group_actions)
        parser._action_groups.remove(group)
    for group in groups[:1]:
        group.title, group.description = _OUTPUT, None
        share(group)


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


class HelpFormatter(FullHelpFormatter):
    """The help of a command: of most options of shared groups only the names."""

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        """Add the arguments of a group; of a shared one a line for a few, and the other names."""
        actions = list(actions)
        shown = [action for action in actions if action.help != argparse.SUPPRESS]
        if not shown or any(action not in _SHARED for action in shown):
            super().add_arguments(actions)
            return
        super().add_arguments([_with_line(action) for action in shown if _name(action) in LINES])
        names = [_name(action) for action in shown if _name(action) not in LINES]
        self.add_text(f'{", ".join(names)}: see "openstack {TOPIC}"')

    def _format_usage(
        self, usage: str | None, actions: Iterable[Any], groups: Iterable[Any], prefix: str | None
    ) -> str:
        """Begin a new line after the command: no item fits beside a long command name.

        Leaves out most options of shared groups.
        """
        actions = [
            item
            for item in actions
            if item not in _SHARED or not item.option_strings or _name(item) in _IN_USAGE
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


def own_options_first(parser: argparse.ArgumentParser, inherited: Iterable[Any]) -> None:
    """List the arguments and groups of ``inherited`` (cliff's) after the command's own."""
    inherited = set(inherited)
    for items in (parser._actions, parser._action_groups):
        items.sort(key=lambda item: item in inherited)


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
