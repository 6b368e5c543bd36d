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

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> shell.Outcome:
        """The outcome of ``openstack ARGUMENTS``."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(json.dumps([list(arguments), dict(environment or {})]) + "\n")
        self._program.stdin.flush()
        return shell.Outcome(*json.loads(self._program.stdout.readline()))


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
    for line in sys.stdin:
        arguments, environment = json.loads(line)
        before = dict(os.environ)
        os.environ.update(environment)
        outcome = shell.run(arguments)
        os.environ.clear()
        os.environ.update(before)
        output.write(json.dumps(outcome) + "\n")
        output.flush()


if __name__ == "__main__":
    serve()
