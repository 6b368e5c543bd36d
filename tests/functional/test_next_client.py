# SPDX-License-Identifier: Apache-2.0
"""The day on which OpenStackClient has ``placement`` in its own tree: 31 commands step back.

``tests/support/base_module.py`` takes the part of such a release.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re

import pytest

from osc_placement import plugin, server
from tests.support import base_module, commands, guide, next_client
from tests.support.next_client import Call
from tests.support.peer import placement, shell

#: What a client ignores when it takes over the commands of osc-placement 4: their module.
IGNORED = "osc_placement.resources"

STATUS = "placement status show -f json"
VERSION_OPTION = "--os-placement-api-version"
ADD_TRAIT = "resource provider trait add --trait CUSTOM_A host"
DATABASE = {"OSC_PLACEMENT_DATABASE": "cloud.sqlite"}
CONFIGURATION = {"OSC_PLACEMENT_CONFIG": "placement.conf"}

CALLS = {
    "help": Call("--help"),
    "trait list": Call("trait list -f value"),
    "database by variable": Call(STATUS, DATABASE),
    "database by option": Call(f"--os-placement-database cloud.sqlite {STATUS}"),
    "configuration by variable": Call(STATUS, CONFIGURATION),
    "configuration by option": Call(f"--os-placement-config placement.conf {STATUS}"),
    "trait list on a database": Call("trait list", DATABASE),
    "trait list on a configuration": Call("--os-placement-config placement.conf trait list"),
    "version by variable": Call(ADD_TRAIT, DATABASE | {"OS_PLACEMENT_API_VERSION": "1.5"}),
    "version by option": Call(f"{VERSION_OPTION} 1.5 {ADD_TRAIT}", DATABASE),
}
TUTORIAL = guide.DOCS / "start" / "tutorial.rst"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> next_client.Run:
    """All calls and the tutorial, in one process."""
    folder = tmp_path_factory.mktemp("home")
    _targets(folder)
    return next_client.run(folder, [IGNORED], [*CALLS.values()], [TUTORIAL])


@pytest.fixture(scope="module")
def outcomes(ended: next_client.Run) -> dict[str, shell.Outcome]:
    return dict(zip(CALLS, ended.outcomes, strict=True))


def _targets(folder: pathlib.Path) -> None:
    """A database of the reference server, and one of openstack-placement, both empty."""
    server.create_app(str(folder / "cloud.sqlite")).close()
    placement.create_tables(placement.configure(folder, "default"))


def _ours(ended: next_client.Run) -> dict[str, str]:
    """The commands of this project that the client has."""
    return {name: path for name, path in ended.commands.items() if path.startswith("osc_placement")}


def _duplicates(ended: next_client.Run) -> set[str]:
    """The commands that two modules have, according to cliff's warnings.

    A client before 10.5, which skips no plugin, reads the commands of the base module twice.
    """
    warnings = re.findall(
        r"'(.+?)' command in .*modules: (\S+), (\S+): ", "\n".join(ended.warnings)
    )
    assert len(warnings) == len(ended.warnings)
    return {name for name, one, other in warnings if one != other}


def test_our_commands_stay_and_the_classic_ones_step_back(ended: next_client.Run) -> None:
    own = {commands.command_name(entry): path for entry, path in commands.OWN.items()}
    assert _ours(ended) == own
    assert ended.commands["trait list"] == f"{base_module.__name__}:ListTrait"


def test_the_client_runs_its_own_command_with_its_own_client(
    outcomes: dict[str, shell.Outcome],
) -> None:
    assert outcomes["trait list"] == (0, "base\n", "")


@pytest.mark.parametrize(
    ("call", "file"),
    [
        ("trait list on a database", "cloud.sqlite"),
        ("trait list on a configuration", "placement.conf"),
    ],
)
def test_a_command_of_the_client_is_refused_while_placement_is_a_file(
    call: str, file: str, outcomes: dict[str, shell.Outcome]
) -> None:
    code, shown, errors = outcomes[call]
    assert (code, shown) == (1, "")
    assert errors.startswith("'trait list' is a command of this OpenStackClient itself")
    assert f"not {file}; nothing was changed" in errors


def test_the_help_shows_every_global_option_once(outcomes: dict[str, shell.Outcome]) -> None:
    options = plugin.build_option_parser(argparse.ArgumentParser(add_help=False))
    names = [name for action in options._actions for name in action.option_strings]
    text = outcomes["help"].stdout
    assert len(names) == 8
    assert {name: len(re.findall(rf"^  {name}\b", text, re.M)) for name in names} == dict.fromkeys(
        names, 1
    )
    assert base_module.OPTION_HELP in text


@pytest.mark.parametrize(
    ("call", "target"),
    [
        ("database by variable", "cloud.sqlite"),
        ("database by option", "cloud.sqlite"),
        ("configuration by variable", "placement.conf"),
        ("configuration by option", "placement.conf"),
    ],
)
def test_the_offline_targets_have_an_effect(
    call: str, target: str, outcomes: dict[str, shell.Outcome]
) -> None:
    assert outcomes[call].code == 0, outcomes[call]
    assert json.loads(outcomes[call].stdout)["target"].endswith(target)


@pytest.mark.parametrize("call", ["version by variable", "version by option"])
def test_the_version_option_of_the_client_is_that_of_our_commands(
    call: str, outcomes: dict[str, shell.Outcome]
) -> None:
    assert outcomes[call].code == 1
    assert "1.5" in outcomes[call].messages


def test_no_command_has_two_implementations(ended: next_client.Run) -> None:
    assert _duplicates(ended) == set()


def test_the_tutorial_shows_the_real_output(ended: next_client.Run) -> None:
    assert ended.differences == []


@pytest.mark.parametrize(
    ("ignored", "own", "duplicates"),
    [
        ([], True, {"trait list"}),
        (["osc_placement"], False, set()),
    ],
)
def test_another_list_of_ignored_modules_has_the_effect_that_the_page_names(
    ignored: list[str], own: bool, duplicates: set[str], tmp_path: pathlib.Path
) -> None:
    ended = next_client.run(tmp_path, ignored, [CALLS["trait list"]])
    assert bool(_ours(ended)) is own
    assert _duplicates(ended) == duplicates
