# SPDX-License-Identifier: Apache-2.0
"""Run ``openstack`` as a process and measure its time and memory."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

UPSTREAM = "osc-placement==4.9.*"

#: Seconds between two looks at the memory of a process.
_INTERVAL = 0.02


class Run(NamedTuple):
    """The measurement of one command.

    ``memory`` is the peak resident size in MiB, ``cpu`` the seconds of user and system time,
    ``output`` the text on the terminal, ``code`` the exit code.
    """

    seconds: float
    memory: int
    output: str
    cpu: float
    code: int = 0


def ours() -> pathlib.Path:
    """This project's ``openstack``, in the folder of the running Python."""
    return pathlib.Path(sys.executable).with_name("openstack")


def upstream(folder: pathlib.Path) -> pathlib.Path:
    """An ``openstack`` with upstream's plugin; installs it if necessary."""
    program = folder / "bin" / "openstack"
    return program if program.exists() else installed(folder, UPSTREAM)


def installed(folder: pathlib.Path, *plugins: str) -> pathlib.Path:
    """Install ``openstack`` with only ``plugins`` in a virtual environment."""
    if not (folder / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
    subprocess.run([*pip, *plugins, "python-openstackclient"], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "compileall", "-q", folder], check=True)
    return folder / "bin" / "openstack"


def run(
    program: pathlib.Path,
    arguments: Sequence[str],
    variables: Mapping[str, str] | None = None,
    *,
    output: pathlib.Path = pathlib.Path(os.devnull),
    codes: Collection[int] | None = (0,),
    limit: float | None = None,
) -> Run:
    """Run a command; stderr is a terminal, and stdout the file ``output``.

    It is killed after ``limit`` seconds. Raises RuntimeError if the exit code is not one of
    ``codes``; None accepts every code.
    """
    with tempfile.TemporaryDirectory() as home, output.open("wb") as stdout:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)
        environment = {**inherited, "HOME": home, "XDG_STATE_HOME": home, **(variables or {})}
        terminal, process_end = pty.openpty()
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(program), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=process_end,
        )
        os.close(process_end)
        peak = _Peak(process.pid)
        timer = threading.Timer(limit or threading.TIMEOUT_MAX, process.kill)
        timer.daemon = True
        timer.start()
        text = _read_all(terminal)
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        seconds = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    if codes is not None and code not in codes:
        raise RuntimeError(f"{program} {' '.join(arguments)}: exit code {code}: {text[-2000:]}")
    cpu = usage.ru_utime + usage.ru_stime
    return Run(seconds, peak.memory, text, cpu, code)


class _Peak:
    """Reads the peak resident size of a process until it ends; ``memory`` is in MiB.

    The ``ru_maxrss`` of a child contains the size of its parent before the start of the program.
    """

    def __init__(self, process_id: int) -> None:
        self.memory = 0
        self._status = pathlib.Path(f"/proc/{process_id}/status")
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with contextlib.suppress(OSError):
            while "VmHWM" in (text := self._status.read_text()):
                line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
                self.memory = int(line.split()[1]) // 1024
                time.sleep(_INTERVAL)


def _read_all(descriptor: int) -> str:
    """Read until the other end is closed."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 65536):
            parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode(errors="replace")
