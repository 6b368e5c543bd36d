# SPDX-License-Identifier: Apache-2.0
"""Every command is registered, has a complete help text, and is in the documentation."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import importlib.metadata
import pathlib
import pkgutil
import re
import shlex
from collections.abc import Iterator

import pytest

from osc_placement import microversion, plugin, v1
from osc_placement.server import options
from osc_placement.v1.common import base, services
from tests.support import guide
from tests.support.commands import (
    CLASSIC,
    CLASSIC_GROUP,
    COMMANDS,
    OWN,
    OWN_GROUP,
    PRESENT,
    command_name,
    entry_points,
    load,
    parser_of,
)
from tests.support.peer import process

DOCS = process.ROOT / "doc" / "source"
PAGES = [page.read_text() for page in sorted((DOCS / "cli").glob("*.rst"))]
DIRECTIVE = re.compile(r"^\.\. autoprogram-cliff:: (\S+)\n\s+:command: (.+)$", re.MULTILINE)
GROUPS = {CLASSIC_GROUP: CLASSIC, OWN_GROUP: OWN}


def command_classes() -> Iterator[type[base.PlacementCommand]]:
    """Every command class in v1, without base classes."""
    for info in pkgutil.walk_packages(v1.__path__, f"{v1.__name__}."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, base.PlacementCommand)
                and value.__module__ == module.__name__
                and not value.__name__.startswith("_")
                and value.example
            ):
                yield value


def documented(page: str) -> list[list[str]]:
    """The commands of each autoprogram-cliff directive, such as ``resource provider *``."""
    return [
        fnmatch.filter(map(command_name, GROUPS[group]), pattern)
        for group, pattern in DIRECTIVE.findall(page)
    ]


def example_lines(entry: str) -> list[str]:
    text = load(COMMANDS[entry]).example
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("entry", sorted(COMMANDS))
def test_a_command_has_a_description_an_example_and_its_exit_codes(entry: str) -> None:
    text = parser_of(entry).format_help()
    command = load(COMMANDS[entry])
    assert command.__doc__, "a docstring is the description"
    assert command.__doc__.strip().splitlines()[0] in text
    assert "Example:\n" in text
    assert "Exit codes: 0 " in text


@pytest.mark.parametrize("entry", sorted(COMMANDS))
def test_every_argument_has_a_help_text(entry: str) -> None:
    missing = [action.dest for action in parser_of(entry)._actions if not action.help]
    assert missing == []


@pytest.mark.parametrize("entry", sorted(COMMANDS))
def test_the_command_accepts_its_examples(entry: str) -> None:
    lines = [line.strip() for line in example_lines(entry)]
    examples = [line for line in lines if f" {command_name(entry)} " in f" {line} "]
    assert examples, f"no line of the example has {command_name(entry)}"
    for line in examples:
        arguments = shlex.split(line.partition(f" {command_name(entry)}")[2].partition(" |")[0])
        parser_of(entry).parse_args(arguments)


@pytest.mark.parametrize("entry", sorted(PRESENT))
def test_a_command_is_in_the_documentation_once(entry: str) -> None:
    shown = [name for page in PAGES for names in documented(page) for name in names]
    assert shown.count(command_name(entry)) == 1


@pytest.mark.parametrize("entry", sorted(PRESENT))
def test_the_page_of_a_command_has_an_executed_example(entry: str) -> None:
    """``tests/functional/test_guide.py`` runs the examples of all pages."""
    name = command_name(entry)
    examples = [
        " ".join(word for word in step.command.split()[1:] if not word.startswith("--os-"))
        for text in PAGES
        if any(name in names for names in documented(text))
        for step in guide.steps(text)
    ]
    assert any(f" {name} " in f" {line} " for line in examples)


def test_every_documented_pattern_is_a_command() -> None:
    assert all(names for page in PAGES for names in documented(page))


def test_the_page_about_the_commands_of_the_client_lists_those_of_osc_placement_4() -> None:
    page = (DOCS / "about" / "upstream.rst").read_text()
    rows = re.findall(r"^``(.+?)`` {3,}(\w.*)$", page, re.MULTILINE)
    names = {f"{noun} {verb}" for noun, verbs in rows for verb in verbs.split(", ")}
    assert names == {command_name(entry) for entry in CLASSIC}
    assert f"These {len(CLASSIC)} commands" in page


def test_every_command_class_is_registered() -> None:
    registered = {load(path) for path in COMMANDS.values()}
    assert {command for command in command_classes() if command not in registered} == set()


def test_every_exit_code_of_a_command_is_documented() -> None:
    page = (DOCS / "user" / "reference" / "exit-codes.rst").read_text()
    codes = {code for path in COMMANDS.values() for code in load(path).exit_codes}
    assert [code for code in sorted(codes) if not re.search(rf"^{code} +\S", page, re.M)] == []


def test_the_exit_code_4_means_unknown_or_not_checked_in_every_command() -> None:
    meanings = [load(path).exit_codes.get(services.NOT_CHECKED, "") for path in COMMANDS.values()]
    judging = [text for text in meanings if text]
    assert judging
    assert [text for text in judging if not re.search("unknown|not checked", text)] == []


@pytest.mark.parametrize("group", GROUPS)
def test_the_installed_package_has_all_commands(group: str) -> None:
    installed = {point.name: point.value for point in importlib.metadata.entry_points(group=group)}
    assert installed == GROUPS[group], "setup.cfg has changed: reinstall the project"


def test_the_programs_of_the_package_exist() -> None:
    for path in entry_points("console_scripts").values():
        assert callable(load(path))


def test_the_readme_names_its_two_commands_and_fits_a_screen() -> None:
    lines = (process.ROOT / "README.rst").read_text().splitlines()
    assert lines[1] == "osc-placement"
    assert len(lines) <= 120
    for name in ("demo", "test"):
        assert any(line.startswith(f"    tools/{name} ") for line in lines)
        assert (process.ROOT / "tools" / name).stat().st_mode & 0o111


def test_every_command_of_the_readme_exists() -> None:
    text = (process.ROOT / "README.rst").read_text()
    table = text.partition("\nNo valid host was found")[2].partition("\nWhat stays")[0]
    named = {text.partition(" --")[0] for text in re.findall("``(.+?)``", table)}
    assert len(named) >= 13
    commands = {name.replace("_", " ") for name in COMMANDS} | {"placement recipe", "snapshot diff"}
    assert {name for name in named if name not in commands} == set()


def _notes() -> str:
    notes = sorted((process.ROOT / "releasenotes" / "notes").glob("*.yaml"))
    return "\n".join(path.read_text() for path in notes)


def test_every_command_in_the_release_notes_exists() -> None:
    """What came and went before the release is in no note."""
    names = {command_name(entry) for entry in COMMANDS}
    words = r"``(?:openstack )?((?:placement|resource|allocation candidate) [a-z][a-z -]*[a-z])"
    named = {re.split(" -| FILE", text)[0] for text in re.findall(words, _notes())}
    assert len(named) > 20
    assert {
        text for text in named if not any(f"{n} ".startswith(f"{text} ") for n in names)
    } == set()


def test_every_option_in_the_release_notes_exists() -> None:
    parsers = [parser_of(entry) for entry in COMMANDS]
    parsers += [options.parser(), plugin.build_option_parser(argparse.ArgumentParser())]
    present = {option for parser in parsers for option in parser._option_string_actions}
    # Options of pytest, and of the conformance kit.
    present |= {"--pyargs", "--placement-url"}
    named = set(re.findall(r"``[^`]*?(--[a-z][a-z-]+)", _notes()))
    assert len(named) > 30
    assert named - present == set()


def test_the_documentation_names_the_newest_microversion() -> None:
    for page in (DOCS / "user" / "reference" / "microversions.rst", process.ROOT / "README.rst"):
        assert f"1.0 to {microversion.MAXIMUM}" in page.read_text().replace(
            "|microversions|", f"{microversion.MINIMUM} to {microversion.MAXIMUM}"
        )


def test_the_counts_of_comparisons_are_those_of_the_tests() -> None:
    page = (DOCS / "about" / "checked.rst").read_text()
    rows = re.findall(r"``(?:\.\.\./)?([\w/]*test_\w+)`` +([\d,]+) \w+ +([\d,]+)$", page, re.M)
    assert len(rows) == sum("test_" in line and line[-1:].isdigit() for line in page.splitlines())
    assert rows
    tests = process.ROOT / "tests"
    for name, usual, long in rows:
        texts = [path.read_text() for path in tests.rglob(f"{pathlib.Path(name).name}.py")]
        mark = f"seeds({usual.replace(',', '')}, long={long.replace(',', '')})"
        assert any(mark in text for text in texts), (name, mark)
    for path in re.findall(r"\b(?:lab/)?tests/[\w/]+(?:\.py)?", page):
        assert (process.ROOT / path).exists(), path
