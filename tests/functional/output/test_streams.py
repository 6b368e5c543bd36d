# SPDX-License-Identifier: Apache-2.0
"""A closed, full or broken stdout never hides what a command has done."""

from __future__ import annotations

import errno
import io
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.peer import fixtures, shell, target as targets

RECORDED = "--os-nova-recording 12-hosts --allow recorded-nova"
HOST, UUID = "cmp-0001.lab.example.org", "30098650-69f4-5c44-a585-79de80c723ad"

#: A changing command of each family, and how many undo files it writes.
COMMANDS = {
    "batch": ("resource provider inventory amend --all --resource VCPU:total+=1", 1),
    "heal": (f"placement allocation heal {RECORDED}", 1),
    "audit": (f"placement allocation audit {RECORDED} --repair", 1),
    "mirror": (f"placement aggregate mirror {RECORDED}", 1),
    "migrations": (f"placement migration run {RECORDED}", 3),
    "reshape": ("placement reshape moves.yaml --allow nova-owned", 1),
    "plan": ("placement plan apply plan.json", 1),
    "create": ("resource provider create new", 0),
    "set": (f"resource provider inventory class set {UUID} VCPU --total 90", 0),
    "trait": (f"resource provider trait set {UUID} --trait COMPUTE_NODE", 0),
}
MOVES = f"""\
moves:
- {{from: {HOST}, resources: {{VCPU: all}}, to: {{name: child, parent: {HOST}}}}}
"""


class Broken(io.StringIO):
    """A stream that fails when it is flushed, as a buffered one does."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def flush(self) -> None:
        raise OSError(self._number, errno.errorcode[self._number])


STREAMS = {
    "closed": (None, 8, "stdout is closed"),
    "full": (errno.ENOSPC, 8, "ENOSPC"),
    "pipe": (errno.EPIPE, 141, "EPIPE"),
}


def cases() -> Iterator[Any]:
    """Each family with each stream; without ``--long``, each with one, two with all."""
    for number, family in enumerate(COMMANDS):
        for at, kind in enumerate(STREAMS):
            is_short = number in (0, len(COMMANDS) - 1) or number % len(STREAMS) == at
            yield pytest.param(family, kind, marks=() if is_short else pytest.mark.long)


target = fixtures.only("loopback")


@pytest.fixture(autouse=True)
def cloud(openstack: shell.OpenStack, target: targets.Target) -> None:
    target.load("12-hosts")
    pathlib.Path("moves.yaml").write_text(MOVES)
    amend = "resource provider inventory amend --all --resource MEMORY_MB:reserved+=1"
    openstack.do(amend, "--dry-run", "--plan-out", "plan.json")


def run(target: targets.Target, command: str, kind: str) -> shell.Outcome:
    number = STREAMS[kind][0]
    stream = None if number is None else Broken(number)
    return shell.run([*target.options, *command.split()], stdout=stream)


@pytest.mark.parametrize(("family", "kind"), list(cases()))
def test_the_outcome_and_the_undo_file_are_reported(
    openstack: shell.OpenStack, target: targets.Loopback, family: str, kind: str
) -> None:
    command, undo_files = COMMANDS[family]
    before = target.state()
    outcome = run(target, command, kind)
    _, code, reason = STREAMS[kind]
    assert outcome.code == code, outcome.stderr
    assert target.state() != before
    *first, last = outcome.stderr.splitlines()
    expected = f"The command was carried out, but the output cannot be written: {reason}"
    assert last == expected
    paths = re.findall(r"To undo: openstack placement plan undo (\S+)", "\n".join(first))
    assert len(paths) == undo_files
    # A consumer's type, which a migration sets, cannot be unset.
    if undo_files == 1:
        openstack.do("placement plan undo", *paths)
        assert target.state() == before


@pytest.mark.parametrize("kind", list(STREAMS))
def test_a_reading_command_is_silent_for_a_closed_pipe_only(
    target: targets.Target, kind: str
) -> None:
    outcome = run(target, "resource provider list", kind)
    _, code, reason = STREAMS[kind]
    assert outcome.code == code
    expected = f"Nothing was changed, and the output cannot be written: {reason}\n"
    assert outcome.stderr == ("" if kind == "pipe" else expected)


def test_a_failed_run_is_reported_too(openstack: shell.OpenStack, target: targets.Target) -> None:
    outcome = run(target, f"resource provider create {HOST}", "full")
    assert outcome.code == 1
    assert "Conflicting resource provider name" in outcome.stderr
    assert json.loads(openstack.do("resource provider list", "-f", "json"))
