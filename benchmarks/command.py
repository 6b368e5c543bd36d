# SPDX-License-Identifier: Apache-2.0
"""Compare the CPU time of single commands with upstream's plugin, and without any plugin."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import client
from tests.support.peer import target as targets

COMMANDS = (
    "resource provider list",
    "resource class list",
    "trait list",
    "resource provider show {uuid}",
    "resource provider inventory list {uuid}",
    "resource provider usage show {uuid}",
)


#: Commands of the client itself: every plugin makes them slower.
WITHOUT_PLUGIN = ("--help", "help server list")


class Figure(NamedTuple):
    """Median seconds of CPU time (user and system) of one command."""

    command: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Above 1, this project needs more time."""
        return self.ours / self.theirs


def compare(
    ours: pathlib.Path, theirs: pathlib.Path, commands: Sequence[str], url: str, repeat: int
) -> Iterator[Figure]:
    """Run both programs alternately, so that changes of the machine's speed affect both.

    The cache of stevedore stays between runs, as on an operator's machine. Stevedore has none for a
    program in the folder of temporary files.
    """
    for command in commands:
        arguments = [*targets.admin_options(url), *command.split()]
        for program in (ours, theirs):
            _seconds(program, arguments)
        times = [(_seconds(ours, arguments), _seconds(theirs, arguments)) for _ in range(repeat)]
        ours_seconds, theirs_seconds = zip(*times, strict=True)
        yield Figure(command, statistics.median(ours_seconds), statistics.median(theirs_seconds))


def _seconds(program: pathlib.Path, arguments: Sequence[str]) -> float:
    cache = program.parents[1] / "cache"
    return client.run(program, arguments, {"XDG_CACHE_HOME": str(cache)}).cpu
