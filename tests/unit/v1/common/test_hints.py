# SPDX-License-Identifier: Apache-2.0
"""Frequent wrong command lines: the error names the right one."""

from __future__ import annotations

import importlib.metadata
import shlex
from typing import Any

import pytest

from osc_placement.v1.common import base
from tests.support import commands
from tests.support.peer import shell

EXTENSION = "openstack.extension"
NOT_COMMANDS = commands.entry_points(EXTENSION)

AMEND = (
    "use openstack resource provider inventory set <provider> --amend"
    " --resource <resource_class>:<field>=<value>"
)


def refusal(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of the error for a command line of this project."""
    names = [name for name in commands.COMMANDS if line.startswith(commands.command_name(name))]
    entry = max(names, key=len)
    arguments = shlex.split(line.removeprefix(commands.command_name(entry)))
    parser = commands.parser_of(entry)
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("resource provider set node --amend", AMEND),
        ("resource provider set --amend node --resource VCPU=4", AMEND),
        ("resource provider set node --resource=VCPU=4", AMEND),
        (
            "resource provider inventory delete node VGPU",
            "use openstack resource provider inventory delete <provider> --resource-class VGPU",
        ),
        (
            "resource provider trait set node CUSTOM_A CUSTOM_B",
            "use openstack resource provider trait add <provider> --trait CUSTOM_A [--trait ...],"
            " or trait set with the same arguments to replace all traits",
        ),
        (
            "resource provider inventory set node VCPU=4",
            "use openstack resource provider inventory set <provider> --amend --resource VCPU=4"
            " [--resource ...], or without --amend to replace all inventories",
        ),
    ],
)
def test_an_error_names_the_right_command_line(
    line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    last = refusal(line, capsys)
    assert "error: unrecognized arguments: " in last
    assert last.endswith(f": {hint}")


@pytest.mark.parametrize(
    "line",
    [
        "resource provider set node --amnd",
        "resource provider inventory delete node --class VGPU",
        "resource provider trait set --trait",
        "trait show CUSTOM_A CUSTOM_B",
    ],
)
def test_another_error_stays_as_it_is(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ": use openstack" not in refusal(line, capsys)


@pytest.mark.parametrize("entry", sorted(commands.COMMANDS))
def test_a_hint_is_for_an_argument_that_the_command_does_not_have(entry: str) -> None:
    parser = commands.parser_of(entry)
    hints = commands.load(commands.COMMANDS[entry]).hints
    assert not {*hints} & {option for action in parser._actions for option in action.option_strings}
    names = {f"openstack {commands.command_name(name)} " for name in commands.COMMANDS}
    assert all(any(text.startswith(name) for name in names) for text in hints.values())
    assert all(base.WORD in text for key, text in hints.items() if key == base.WORD)


@pytest.mark.parametrize("entry", sorted(NOT_COMMANDS))
def test_a_name_that_is_no_command_names_one(
    entry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = commands.command_name(entry)
    kind: Any = commands.load(NOT_COMMANDS[entry])
    assert (kind.name, kind.deprecated, kind.auth_required) == (name, True, False)
    assert entry not in commands.COMMANDS
    command = kind(commands.APP, None, name)
    parser = command.get_parser(f"openstack {name}")
    for arguments in ([], ["node", "CUSTOM_A"], ["-f", "json", "--help"]):
        assert command.run(parser.parse_args(arguments)) == 2
        output, error = capsys.readouterr()
        assert output == ""
        assert error == f"'{name}' is not an openstack command: use {kind.instead}\n"
    used = [part.strip() for part in kind.instead.split("openstack ")[1:]]
    names = [commands.command_name(known) for known in commands.COMMANDS]
    assert used
    assert all(any(f"{part} ".startswith(f"{known} ") for known in names) for part in used)


def test_the_installed_package_has_the_names_that_are_no_commands() -> None:
    points = importlib.metadata.distribution("osc-placement").entry_points.select(group=EXTENSION)
    installed = {point.name: point.value for point in points}
    assert installed == NOT_COMMANDS, "setup.cfg has changed: reinstall the project"


@pytest.mark.parametrize("line", ["allocation show node -f json", "allocation list", "trait set a"])
def test_openstack_names_the_right_command_line_without_a_cloud(line: str) -> None:
    outcome = shell.run(line.split())
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "is not an openstack command: use openstack resource provider" in outcome.stderr


def test_the_list_of_commands_leaves_them_out() -> None:
    outcome = shell.run(["help"])
    listed = {line.strip().partition("  ")[0] for line in outcome.stdout.splitlines()}
    assert "trait show" in listed
    assert not listed & {commands.command_name(entry) for entry in NOT_COMMANDS}
