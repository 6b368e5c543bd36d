# SPDX-License-Identifier: Apache-2.0
"""The commands of setup.cfg: their classes and parsers."""

from __future__ import annotations

import argparse
import configparser
import importlib
import re
import types
from typing import Any

from tests.support.peer import process

#: The group of the commands of osc-placement 4, and that of all other commands.
CLASSIC_GROUP = "openstack.placement.v1"
OWN_GROUP = "openstack.osc_placement.v1"


def entry_points(group: str) -> dict[str, str]:
    """The entry points of a group in setup.cfg: ``{name: "module:object"}``."""
    config = configparser.ConfigParser(delimiters=("=",))
    # The documented way to keep upper case; the type stubs describe a method.
    config.optionxform = str  # type: ignore[assignment, method-assign]
    config.read(process.ROOT / "setup.cfg")
    lines = config["options.entry_points"][group].strip().splitlines()
    return dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines)


CLASSIC, OWN = entry_points(CLASSIC_GROUP), entry_points(OWN_GROUP)
COMMANDS = CLASSIC | OWN

#: The part of a shell that a parser needs.
APP = types.SimpleNamespace(command_manager=types.SimpleNamespace(namespace="openstack.cli"))


def load(path: str) -> Any:
    """The object of an entry point: ``module:object``."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


#: The commands without those under a former name.
PRESENT = {entry: path for entry, path in COMMANDS.items() if not load(path).deprecated}


def parser_of(entry: str) -> argparse.ArgumentParser:
    """The parser of the command of an entry point."""
    return parser_for(load(COMMANDS[entry]), command_name(entry))


def parser_for(command: Any, name: str) -> argparse.ArgumentParser:
    """The parser of a command class that has this name."""
    parser: argparse.ArgumentParser = command(APP, None, name).get_parser(f"openstack {name}")
    return parser


def command_name(entry: str) -> str:
    """``resource provider list`` for ``resource_provider_list``."""
    return entry.replace("_", " ")
