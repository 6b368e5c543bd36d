# SPDX-License-Identifier: Apache-2.0
"""``openstack`` commands in separate processes, which start without imports."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import multiprocessing.context
import os
import pathlib
import signal
from multiprocessing import forkserver

from osc_placement.client import retry
from osc_placement.plan import journal
from tests.support.peer import shell

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.peer.preload"])

_ROOT = pathlib.Path(__file__).parents[3]


def context() -> multiprocessing.context.ForkServerContext:
    """Processes of the fork server, which starts where it finds the modules to import first."""
    with contextlib.chdir(_ROOT):
        forkserver.ensure_running()
    return _CONTEXT


def child(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    out: str,
    kill_at_journal: int = 0,
) -> None:
    """One ``openstack`` command as a separate process, with short pauses before retries.

    ``kill_at_journal``: the process kills itself at this step of its journal, from 1.
    """
    # Python leaves SIGINT ignored if it is, as in a background job of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    retry._FIRST = retry._LONGEST = 0.02
    os.environ.update(environment)
    if kill_at_journal:
        _kill_at(kill_at_journal)
    os.chdir(folder)
    pathlib.Path(out).write_text(json.dumps(shell.run(arguments)))


def _kill_at(position: int) -> None:
    """kill -9 of this process at a step of its journal.

    A write has three steps: half of its bytes are in the file, all are, and they are on disk.
    """
    steps = itertools.count(1)
    write, sync = journal.Journal._write, journal.Journal._sync

    def step() -> None:
        if next(steps) == position:
            os.kill(os.getpid(), signal.SIGKILL)

    def killed_write(opened: journal.Journal, lines: bytes) -> None:
        if next(steps) == position:
            write(opened, lines[: len(lines) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(opened, lines)
        step()

    def killed_sync(opened: journal.Journal, mine: int) -> None:
        sync(opened, mine)
        step()

    journal.Journal._write = killed_write  # type: ignore[method-assign]
    journal.Journal._sync = killed_sync  # type: ignore[method-assign]


def run(arguments: list[str], folder: pathlib.Path) -> shell.Outcome:
    """The outcome of one ``openstack`` command in a process of its own."""
    out = folder / "outcome.json"
    process = context().Process(target=child, args=(arguments, {}, str(folder), str(out)))
    process.start()
    process.join()
    return shell.Outcome(*json.loads(out.read_text()))
