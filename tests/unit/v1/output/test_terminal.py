# SPDX-License-Identifier: Apache-2.0
"""Text on a terminal: folding that a shell can read, widths and colours."""

from __future__ import annotations

import argparse
import io
import random
import re
import shlex

import pytest

from osc_placement.model import command_line
from osc_placement.v1.output import tables, terminal

WORDS = ("a host", "it's", 'say "x"', "a;b", "\\", "--", "x" * 30, "$HOME", "é", "line\nbreak")
PROSE = ("missing", "3", "servers;", "(cmp-0001)", "without")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("seed", range(300))
def test_a_folded_message_fits_and_its_command_pasted_is_the_same_command(seed: int) -> None:
    draw = random.Random(seed)
    command = command_line.line(
        "placement plan undo", *draw.choices(WORDS, k=draw.randrange(8)), options=[("--max", "3")]
    )
    before = draw.choices(PROSE, k=draw.randrange(12))
    line = " ".join([*before, command])
    width = draw.choice((60, 80, 100))
    folded = terminal.fold(line, width)
    longest = max(len(word) for word in shlex.split(command)) * 5
    assert all(terminal.cells(part) <= max(width, longest) for part in folded)
    # A shell removes a backslash with the newline after it.
    pasted = "\n".join(folded).replace("\\\n", "")
    assert shlex.split(pasted) == [*before, *shlex.split(command)]


def test_a_command_that_fits_a_line_is_not_divided() -> None:
    line = f"Not checked: {'x ' * 20}: openstack placement allocation heal --host=cmp-0004"
    assert terminal.fold(line, 80)[-1] == "openstack placement allocation heal --host=cmp-0004"


def test_prose_after_a_command_follows_it() -> None:
    line = "missing: openstack placement allocation audit; repair: openstack placement allocation x"
    assert terminal.fold(line, 50) == [
        "missing: openstack placement allocation audit;",
        "repair: openstack placement allocation x",
    ]


@pytest.mark.parametrize(
    ("stream", "variables", "colours"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_a_terminal_without_no_color(
    stream: io.StringIO,
    variables: dict[str, str],
    colours: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal.has_colours(stream) == colours
    assert ("\x1b[33mWarning\x1b[0m:" in terminal.message("Warning: x", stream)) == colours
    assert ("\x1b[31mx" in terminal.message("x", stream, terminal.RED)) == colours
    table = tables.Table("", ("severity", "status", "name"), [("error", "stale", "error")])
    arguments = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)
    tables.Formatter().write([table], stream, arguments)
    row = stream.getvalue().splitlines()[-2]
    assert row.count("\x1b[") == (4 if colours else 0)
    assert re.sub(r"\x1b\[\d+m", "", row) == "| error    | stale  | error |"


def test_a_message_outside_of_a_terminal_stays_as_it_is() -> None:
    assert terminal.message("x " * 100, io.StringIO()) == "x " * 100


def test_commands_are_printed_as_lines_that_can_be_copied() -> None:
    stream = io.StringIO()
    command = f"openstack placement plan undo {'x' * 70}"
    arguments = argparse.Namespace(max_width=80, fit_width=False, print_empty=False)
    tables.Formatter().write([tables.Table("Do", ("command",), [(command,)])], stream, arguments)
    text = f"Do\nopenstack placement plan undo \\\n    {'x' * 70}\n"
    assert stream.getvalue() == text
