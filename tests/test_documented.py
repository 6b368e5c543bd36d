"""Every command is registered, has a whole help, and stands in the documentation."""

from __future__ import annotations

import argparse
import configparser
import fnmatch
import importlib
import importlib.metadata
import pathlib
import pkgutil
import re
import shlex
import types
from collections.abc import Iterator

import pytest

from osc_placement import microversion, v1
from osc_placement.v1 import base

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "doc" / "source"
GROUP = "openstack.placement.v1"


def entry_points(group: str) -> dict[str, str]:
    """``{name: "module:object"}`` as setup.cfg registers them."""
    config = configparser.ConfigParser(delimiters=("=",))
    config.optionxform = str  # type: ignore[assignment, method-assign]
    config.read(ROOT / "setup.cfg")
    lines = config["options.entry_points"][group].strip().splitlines()
    return dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines)


COMMANDS = entry_points(GROUP)

#: As much of a shell as it takes to make a parser: help needs no cloud.
APP = types.SimpleNamespace(command_manager=types.SimpleNamespace(namespace="openstack.cli"))


def load(path: str) -> object:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def parser_of(entry: str) -> argparse.ArgumentParser:
    command = load(COMMANDS[entry])(APP, None, words(entry))
    return command.get_parser(f"openstack {words(entry)}")


def words(entry: str) -> str:
    """``resource provider list`` for ``resource_provider_list``."""
    return entry.replace("_", " ")


def registrable() -> Iterator[type[base.PlacementCommand]]:
    """Every class under v1 that is a whole command: it acts by itself and is no base class."""
    for info in pkgutil.iter_modules(v1.__path__):
        module = importlib.import_module(f"{v1.__name__}.{info.name}")
        for thing in vars(module).values():
            if (
                isinstance(thing, type)
                and issubclass(thing, base.PlacementCommand)
                and thing.__module__ == module.__name__
                and not thing.__name__.startswith("_")
                and thing.example
            ):
                yield thing


def documented() -> list[str]:
    """The patterns of all autoprogram-cliff directives, as ``resource provider *``."""
    directive = re.compile(
        rf"^\.\. autoprogram-cliff:: {re.escape(GROUP)}\n\s+:command: (.+)$", re.MULTILINE
    )
    return [
        pattern.strip()
        for page in sorted((DOCS / "cli").glob("*.rst"))
        for pattern in directive.findall(page.read_text())
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
def test_every_argument_says_what_it_is(entry: str) -> None:
    silent = [action.dest for action in parser_of(entry)._actions if not action.help]
    assert silent == []


@pytest.mark.parametrize("entry", sorted(COMMANDS))
def test_an_example_is_a_command_line_that_the_command_takes(entry: str) -> None:
    lines = [line.strip() for line in example_lines(entry)]
    own = [line for line in lines if f" {words(entry)} " in f" {line} "]
    assert own, f"no line of the example shows {words(entry)}"
    for line in own:
        arguments = shlex.split(line.partition(f" {words(entry)}")[2].partition(" |")[0])
        parser_of(entry).parse_args(arguments)


@pytest.mark.parametrize("entry", sorted(COMMANDS))
def test_a_command_stands_in_the_documentation_once(entry: str) -> None:
    patterns = [name for name in documented() if fnmatch.fnmatch(words(entry), name)]
    assert len(patterns) == 1, f"{words(entry)}: {patterns}"


def test_every_documented_pattern_is_a_command() -> None:
    names = [words(entry) for entry in COMMANDS]
    assert [name for name in documented() if not fnmatch.filter(names, name)] == []


def test_every_command_class_is_registered() -> None:
    registered = {load(path) for path in COMMANDS.values()}
    assert {command for command in registrable() if command not in registered} == set()


def test_every_exit_code_that_a_command_tells_is_explained() -> None:
    page = (DOCS / "user" / "exit-codes.rst").read_text()
    codes = {code for path in COMMANDS.values() for code in load(path).exit_codes}
    assert [code for code in sorted(codes) if not re.search(rf"^{code} +\S", page, re.M)] == []


def test_the_installed_package_has_these_commands() -> None:
    installed = {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}
    assert installed == COMMANDS, "setup.cfg has changed: install the project again"


def test_the_programs_of_the_package_exist() -> None:
    for path in entry_points("console_scripts").values():
        assert callable(load(path))


def test_the_readme_begins_with_its_two_commands() -> None:
    lines = [line.split() for line in (ROOT / "README.rst").read_text().splitlines()]
    assert [line[0] for line in lines if line][1:3] == ["tools/demo", "tools/test"]
    for name in ("demo", "test"):
        assert (ROOT / "tools" / name).stat().st_mode & 0o111


def test_the_documentation_names_the_newest_microversion() -> None:
    assert str(microversion.MAXIMUM) in (DOCS / "user" / "microversions.rst").read_text()
