"""The CPU time of one command as a whole process, beside upstream's same command."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import client

COMMANDS = (
    "resource provider list",
    "resource class list",
    "trait list",
    "resource provider show {uuid}",
    "resource provider inventory list {uuid}",
    "resource provider usage show {uuid}",
)


class Figure(NamedTuple):
    """Median seconds of CPU time, user and system, of one command."""

    command: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Above 1 we take more."""
        return self.ours / self.theirs


def compare(
    ours: pathlib.Path, theirs: pathlib.Path, url: str, uuid: str, repeat: int
) -> Iterator[Figure]:
    """Both by turns, so that a drift of the machine's speed falls on both.

    What stevedore keeps of the installed plugins is kept, as on an operator's machine.
    """
    reach = ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]
    for command in COMMANDS:
        words = [*reach, *command.format(uuid=uuid).split()]
        times = [(_seconds(ours, words), _seconds(theirs, words)) for _ in range(repeat)]
        mine, other = zip(*times, strict=True)
        yield Figure(command, statistics.median(mine), statistics.median(other))


def _seconds(program: pathlib.Path, words: Sequence[str]) -> float:
    cache = program.parents[1] / "cache"
    return client.run(program, words, {"XDG_CACHE_HOME": str(cache)}).cpu
