# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at random moments of real processes: at most one line, no traceback, exit code 130.

A few moments are tried with every test run; ``INTERRUPTS=100`` in the environment tries more.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import threading

import pytest

ROUNDS = int(os.environ.get("INTERRUPTS", "4"))
#: Python ends by SIGINT where it has no handler; a shell reports 130.
INTERRUPTED = {130, -signal.SIGINT}

#: From the moment when our code is loaded: before it, a process is not ours.
PROGRAMS = {
    "openstack": """
import osc_placement.plugin, sys
print("loaded", flush=True)
from openstackclient import shell
sys.exit(shell.main(sys.argv[1:]))
""",
    "server": """
from osc_placement import programs
import sys
print("loaded", flush=True)
sys.exit(programs.serve())
""",
}
COMMANDS = {
    "openstack": [
        *("--os-placement-database", "cloud.sqlite"),
        *("resource", "provider", "inventory", "amend", "--all", "--resource", "VCPU:total+=1"),
    ],
    "server": ["--database", "new.sqlite", "--load", "12-hosts", "--exit"],
}


@pytest.mark.parametrize("seed", range(ROUNDS))
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_an_interrupt_prints_at_most_one_line(
    program: str, seed: int, tmp_path: pathlib.Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name[:3] != "OS_"}
    environment |= {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAMS[program], *COMMANDS[program]],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loaded\n"
    timer = threading.Timer(
        random.Random(seed).uniform(0, 1.5), process.send_signal, [signal.SIGINT]
    )
    timer.start()
    _, stderr = process.communicate(timeout=60)
    timer.cancel()
    assert "Traceback" not in stderr
    lines = [line for line in stderr.splitlines() if "nterrupted" in line]
    assert len(lines) <= 1
    if lines:
        assert process.returncode in INTERRUPTED
