# SPDX-License-Identifier: Apache-2.0
"""Runs ``openstack`` as a later release with ``placement`` in its own tree.

``python -m tests.support.next_client`` reads command lines and pages from stdin, runs them with
the base module ``tests.support.base_module``, and prints what they do.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

from cliff import commandmanager

from tests.support import base_module, guide
from tests.support.peer import process, shell


class Call(NamedTuple):
    """A command line, and variables of its environment."""

    line: str
    environment: Mapping[str, str] = {}


class Run(NamedTuple):
    """What the calls did, how pages differ, all commands of the client, and cliff's warnings."""

    outcomes: Sequence[shell.Outcome]
    differences: Sequence[str]
    #: ``{name: entry point}``
    commands: Mapping[str, str]
    warnings: Sequence[str]


def run(
    folder: pathlib.Path,
    ignored: Sequence[str],
    calls: Sequence[Call],
    pages: Sequence[pathlib.Path] = (),
) -> Run:
    """Run the calls, and the commands of the pages, in a process with ``folder`` as its home.

    The client ignores the entry points of the modules ``ignored``.
    """
    information = folder / "base_module-1.dist-info"
    information.mkdir(exist_ok=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: base-module\nVersion: 1\n")
    (information / "entry_points.txt").write_text(base_module.ENTRY_POINTS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
    paths = os.pathsep.join(map(str, (folder, process.ROOT)))
    completed = subprocess.run(
        [sys.executable, "-m", __name__],
        cwd=folder,
        env={**kept, "HOME": str(folder), "PYTHONPATH": paths},
        input=json.dumps([ignored, calls, [str(page) for page in pages]]),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert completed.returncode == 0, completed.stderr
    outcomes, *others = json.loads(completed.stdout)
    return Run([shell.Outcome(*outcome) for outcome in outcomes], *others)


def main() -> None:
    ignored, calls, pages = json.load(sys.stdin)
    warnings: list[str] = []
    commands: dict[str, str] = {}
    read_commands = commandmanager.CommandManager.load_commands

    def load_commands(manager: Any, group: str) -> None:
        manager.ignored_modules = {*manager.ignored_modules, *ignored}
        read_commands(manager, group)
        commands.update({name: point.value for name, point in manager.commands.items()})

    def keep(record: logging.LogRecord) -> bool:
        warnings.append(record.getMessage())
        return False

    # The shell hides the warnings of cliff.
    log = logging.getLogger(commandmanager.__name__)
    log.setLevel(logging.WARNING)
    log.addFilter(keep)
    folder = pathlib.Path.cwd()
    # Each call reads the entry points again: the shell of the tests would miss duplicates.
    with mock.patch.object(shell, "_load_commands", load_commands):
        outcomes = [_outcome(Call(*call)) for call in calls]
        differences = [
            text
            for page in pages
            for text in guide.differences_in_folder(pathlib.Path(page), folder)
        ]
    print(json.dumps([outcomes, differences, commands, warnings]))


def _outcome(call: Call) -> shell.Outcome:
    with mock.patch.dict(os.environ, call.environment):
        return shell.run(call.line.split())


if __name__ == "__main__":
    main()
