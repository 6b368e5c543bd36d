# SPDX-License-Identifier: Apache-2.0
"""Help on a terminal: width, markup, the order of options."""

from __future__ import annotations

import argparse

import pytest

from osc_placement.v1.common import base
from osc_placement.v1.output import help_text as help_format
from tests.support import commands
from tests.support.commands import COMMANDS, PRESENT


class Probe(base.Command):
    """Probe a ``thing``

    A paragraph that does not fit on one line of a terminal with 80 columns, because it is
    too long.
    """

    required_feature = "traits"
    example = "openstack probe --colour red"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--colour", help="A colour, as in ``red``")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Do nothing."""


def help_of(entry: str) -> str:
    return commands.parser_of(entry).format_help()


@pytest.fixture(autouse=True)
def _columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_fits_80_columns_without_markup_and_begins_with_own_options(name: str) -> None:
    parser = commands.parser_of(name)
    text = parser.format_help()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert [line for line in text.splitlines() if "::" in line or "`" in line] == []
    own = [group.title for group in parser._action_groups if group._group_actions]
    titles = [
        title for title in own if title and not title.lower().endswith(("formatter", "formatters"))
    ]
    positions = [text.index(f"\n{title}:") for title in titles]
    assert positions == sorted(positions)
    assert "formatter:" not in text


def test_help_shows_description_example_version_and_exit_codes() -> None:
    text = commands.parser_for(Probe, "probe").format_help()
    assert "Probe a thing\n\nA paragraph that does not fit" in text
    assert "  --colour COLOUR  A colour, as in red\n" in text
    assert "Example:\n\n    openstack probe --colour red\n" in text
    assert "Needs Placement API 1.6 or later." in text
    assert "Exit codes: 0 success; 1 the request was refused" in text


def test_the_help_of_reshape_names_the_recipes() -> None:
    text = " ".join(help_of("placement_reshape").split())
    for name in COMMANDS:
        _, is_recipe, kind = name.partition("placement_recipe_")
        assert not is_recipe or f"recipe {kind}" in text


def test_a_literal_may_contain_a_line_break() -> None:
    assert help_format.plain("Run ``a\nb``::") == "Run a\nb:"


#: The most lines of the help of any command: three screens of a terminal.
MOST_LINES = 100


@pytest.mark.parametrize(
    "name",
    [name for name, path in PRESENT.items() if issubclass(commands.load(path), base.ReportCommand)],
)
def test_the_help_of_a_command_is_short(name: str) -> None:
    assert len(help_of(name).splitlines()) <= MOST_LINES


def test_the_topic_describes_every_option_that_help_only_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = commands.load(COMMANDS["placement_options_show"])(commands.APP, None, "")
    topic.take_action(argparse.Namespace())
    described = capsys.readouterr().out
    assert "openstack placement options show" not in described
    named: set[str] = set()
    for name in PRESENT:
        text = " ".join(help_of(name).split())
        for part in text.split(f'see "openstack {help_format.TOPIC}"')[:-1]:
            named |= {word.rstrip(",:") for word in part.rpartition(": ")[0].split()[-12:]}
    options = {word for word in named if word.startswith("--")}
    assert {"--undo-out", "--in-tree", "--same-subtree", "--max-width"} <= options
    options |= help_format.LINES.keys()
    assert [option for option in sorted(options) if option not in described] == []


#: The options that make a batch safe have a line in the help of each command that has them.
TITLES = ("options", *help_format.SHARED)
SAFE = ("--dry-run", "--member-of <aggregate>", "--plan-out <file>")


@pytest.mark.parametrize("name", sorted(PRESENT))
def test_help_describes_what_makes_a_batch_safe_and_ends_with_a_short_output(name: str) -> None:
    parser = commands.parser_of(name)
    text = parser.format_help()
    usage, _, rest = text.partition("\n\n")
    own = {action.option_strings[-1] for action in parser._actions if action.option_strings}
    for option in SAFE:
        if option.split()[0] in own and "\nhow to change:\n" in text:
            assert f"[{option}]" in usage
            assert f"\n  {option} " in f"{rest} ".replace(f"\n  {option}\n", f"\n  {option} ")
    if "--format" in own:
        assert rest.index("\noutput:\n") > max(rest.find(f"\n{title}:\n") for title in TITLES)
        assert len(rest.partition("\noutput:\n")[2].partition("\n\n")[0].splitlines()) <= 7


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("placement_host_retire", "no limit"),
        ("placement_aggregate_mirror", "10, or up to 20 objects that are not more than half of"),
    ],
)
def test_help_names_the_default_of_the_removal_limit(name: str, default: str) -> None:
    text = " ".join(help_of(name).split())
    assert f"would be removed (default: {default}" in text
