# SPDX-License-Identifier: Apache-2.0
"""The ``openstack`` shell in this process: one process per command would take an hour."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from cliff import commandmanager
from openstack.config import loader
from openstackclient import shell
from osc_lib import clientmanager

if TYPE_CHECKING:
    from tests.support.peer import target as targets


class Outcome(NamedTuple):
    """What a command left: exit code, stdout, stderr."""

    code: int
    stdout: str
    stderr: str

    @property
    def messages(self) -> str:
        """``stderr`` without the line that names the database."""
        return without_database(self.stderr)


def without_database(stderr: str) -> str:
    """Drop the lines that name the database."""
    lines = stderr.splitlines(keepends=True)
    names = ("Database file: ", "Using the database of ")
    return "".join(line for line in lines if not line.startswith(names))


class OpenStack:
    """``openstack`` with the global options of one target.

    The first argument of every method has the words of the command; the others are passed on:
    ``openstack("resource provider show", uuid)``.
    """

    def __init__(self, target: targets.Target) -> None:
        self.target = target

    def generation(self, changes: int = 0) -> int:
        """The generation after this number of changes."""
        return self.target.first_generation + changes

    def __call__(self, command: str, *arguments: str, version: str | None = None) -> Any:
        """The JSON output of a successful command: rows of a list, or one object."""
        return json.loads(self.do(command, *arguments, "-f", "json", version=version) or "null")

    def rows(self, command: str, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        """The rows in JSON of a command that ends with this exit code."""
        outcome = self.run(command, *arguments, "-f", "json")
        assert outcome.code == code, outcome
        listed: list[dict[str, Any]] = json.loads(outcome.stdout)
        return listed

    def do(self, command: str, *arguments: str, version: str | None = None) -> str:
        """The stdout of a successful command."""
        outcome = self.run(command, *arguments, version=version)
        assert outcome.code == 0, f"openstack {command} {arguments}: {outcome}"
        return outcome.stdout

    def fails(self, command: str, *arguments: str, version: str | None = None) -> tuple[int, str]:
        """Exit code and messages of a failing command."""
        outcome = self.run(command, *arguments, version=version)
        assert outcome.code != 0, f"openstack {command} {arguments} succeeded: {outcome.stdout}"
        return outcome.code, outcome.messages

    def run(
        self, command: str, *arguments: str, version: str | None = None, stdin: str = ""
    ) -> Outcome:
        """The outcome of a command, whatever it is."""
        pinned = [] if version is None else ["--os-placement-api-version", version]
        return run([*self.target.options, *pinned, *command.split(), *arguments], stdin)


def run(
    arguments: list[str],
    stdin: str = "",
    merge: bool = False,
    stdout: io.StringIO | EllipsisType | None = ...,
) -> Outcome:
    """``openstack ARGUMENTS``, which restores the state of this process afterwards.

    ``merge`` writes stderr into stdout, as a terminal shows them. ``stdout`` is another stream;
    None is a closed one.
    """
    if isinstance(stdout, EllipsisType):
        stdout = io.StringIO()
    stderr = stdout if merge and stdout is not None else io.StringIO()
    with (
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        mock.patch.object(sys, "argv", ["openstack"]),
        mock.patch.object(shell.OpenStackShell, "NAME", "openstack"),
        mock.patch.object(commandmanager.CommandManager, "load_commands", _load_commands),
        _logging_as_it_was(),
        _nothing_kept(),
        warnings.catch_warnings(),
    ):
        try:
            code = shell.OpenStackShell().run(arguments)
        except SystemExit as ended:
            code = ended.code
    text = "" if stdout is None else stdout.getvalue()
    return Outcome(int(code or 0), text, "" if merge else stderr.getvalue())


_READ_COMMANDS = commandmanager.CommandManager.load_commands
_COMMANDS: dict[str, dict[str, Any]] = {}


def _load_commands(manager: commandmanager.CommandManager, namespace: str) -> None:
    """Read the entry points of a group of commands once per process, not in each shell.

    Reading the groups of openstackclient takes more time than most commands.
    """
    if namespace not in _COMMANDS:
        wrappers, manager.commands = manager.commands, {}
        _READ_COMMANDS(manager, namespace)
        _COMMANDS[namespace], manager.commands = manager.commands, wrappers
    manager.commands.update(_COMMANDS[namespace])


@contextlib.contextmanager
def _logging_as_it_was() -> Iterator[None]:
    """Restore logging: each shell adds a handler to the root logger and sets levels.

    The handlers of pytest would format each debug record of each command, a tenth of the time.
    """
    root = logging.getLogger()
    handlers, levels = root.handlers[:], {item: item.level for item in _loggers()}
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for logger in _loggers():
            logger.level = levels.get(logger, logging.NOTSET)
        # Also empties what all loggers remember of their levels, once.
        root.setLevel(levels[root])


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    named = [item for item in root.manager.loggerDict.values() if isinstance(item, logging.Logger)]
    return [root, *named]


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Remove the clients that the shell caches on a class: the next shell would use them.

    Older SDKs also cache the file that OS_CLIENT_CONFIG_FILE names.
    """
    files = loader.CONFIG_FILES[:]
    try:
        yield
    finally:
        loader.CONFIG_FILES[:] = files
        for attribute in vars(clientmanager.ClientManager).values():
            if hasattr(attribute, "_handle"):
                attribute._handle = None
