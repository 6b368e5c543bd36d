# SPDX-License-Identifier: Apache-2.0
"""``openstack`` commands in separate processes, which start without imports."""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import signal

from osc_placement.client import retry
from tests.support.peer import shell

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.support.peer.preload"])


def child(arguments: list[str], environment: dict[str, str], folder: str, out: str) -> None:
    """One ``openstack`` command as a separate process, with short pauses before retries."""
    # Python leaves SIGINT ignored if it is, as in a background job of a shell.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    retry._FIRST = retry._LONGEST = 0.02
    os.environ.update(environment)
    os.chdir(folder)
    pathlib.Path(out).write_text(json.dumps(shell.run(arguments)))


def run(arguments: list[str], folder: pathlib.Path) -> shell.Outcome:
    """The outcome of one ``openstack`` command in a process of its own."""
    out = folder / "outcome.json"
    process = CONTEXT.Process(target=child, args=(arguments, {}, str(folder), str(out)))
    process.start()
    process.join()
    return shell.Outcome(*json.loads(out.read_text()))
