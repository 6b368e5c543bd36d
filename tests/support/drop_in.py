# SPDX-License-Identifier: Apache-2.0
"""Runs the same command lines with upstream's plugin and with this one.

``python -m tests.support.drop_in`` is the program of one plugin: it reads command lines from
stdin, one JSON list per line, and answers each with its outcome.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openstackclient import shell as openstack_shell

from tests.support.peer import process, shell

REQUIREMENT = "osc-placement==4.9.1"


def install(folder: pathlib.Path) -> None:
    """Put upstream's plugin into a folder. It hides this one in a process with it in PYTHONPATH."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    command = [*pip, "install", "--no-deps", "--target", str(folder), REQUIREMENT]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)


class Plugin:
    """``openstack`` with one of the plugins, in a process of its own."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        #: The names of the classes of the error of the last command; empty without an error.
        self.error_classes: frozenset[str] = frozenset()

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> shell.Outcome:
        """The outcome of ``openstack ARGUMENTS``."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps([list(arguments), dict(environment or {})]) + "\n")
        self._program.stdin.flush()
        outcome, classes = json.loads(self._program.stdout.readline())
        self.error_classes = frozenset(classes)
        return shell.Outcome(*outcome)


@contextlib.contextmanager
def plugin(folder: pathlib.Path, *, upstream: pathlib.Path | None = None) -> Iterator[Plugin]:
    """This plugin, or the one that was installed into ``upstream``; ``folder`` is its home."""
    path = [str(upstream)] if upstream else []
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OS")},
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([*path, str(process.ROOT)]),
    }
    program = subprocess.Popen(
        [sys.executable, "-m", __spec__.name],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        try:
            yield Plugin(program)
        finally:
            program.terminate()


def serve() -> None:
    """Answer command lines until stdin ends."""
    output = sys.stdout
    classes: list[str] = []
    clean_up = openstack_shell.OpenStackShell.clean_up

    def record(program: Any, cmd: Any, result: int, error: BaseException | None) -> None:
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
        classes.extend(names if error else [])
        clean_up(program, cmd, result, error)

    openstack_shell.OpenStackShell.clean_up = record
    for line in sys.stdin:
        arguments, environment = json.loads(line)
        before = dict(os.environ)
        os.environ.update(environment)
        classes.clear()
        outcome = shell.run(arguments)
        os.environ.clear()
        os.environ.update(before)
        output.write(json.dumps([outcome, classes]) + "\n")
        output.flush()


if __name__ == "__main__":
    serve()
