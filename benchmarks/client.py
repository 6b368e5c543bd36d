"""``openstack`` as a process that is measured: seconds, and the memory that it has taken."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

UPSTREAM = "osc-placement==4.9.*"


class Run(NamedTuple):
    """One command: ``memory`` is MiB resident at most, ``said`` what a terminal saw,
    ``cpu`` the seconds of user and system time.
    """

    seconds: float
    memory: int
    said: str
    cpu: float


def ours() -> pathlib.Path:
    """This project's ``openstack``: the one beside the Python that runs us."""
    return pathlib.Path(sys.executable).with_name("openstack")


def upstream(folder: pathlib.Path) -> pathlib.Path:
    """An ``openstack`` with upstream's plugin, in a virtual environment that is made if need be."""
    program = folder / "bin" / "openstack"
    return program if program.exists() else installed(folder, UPSTREAM)


def installed(folder: pathlib.Path, plugin: str) -> pathlib.Path:
    """An ``openstack`` with nothing but ``plugin``, as it is now, in an environment of its own."""
    if not (folder / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
    subprocess.run([*pip, plugin, "python-openstackclient"], check=True)
    subprocess.run([str(folder / "bin" / "python"), "-m", "compileall", "-q", folder], check=True)
    return folder / "bin" / "openstack"


def run(program: pathlib.Path, words: Sequence[str], more: Mapping[str, str] | None = None) -> Run:
    """Run a command to its end; stderr is a terminal. Raises RuntimeError when it fails."""
    with tempfile.TemporaryDirectory() as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        environment = {**kept, "HOME": home, "XDG_STATE_HOME": home, **(more or {})}
        ours, theirs = pty.openpty()
        begun = time.perf_counter()
        process = subprocess.Popen(
            [str(program), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
        )
        os.close(theirs)
        said = _heard(ours)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    if status:
        raise RuntimeError(f"{program} {' '.join(words)}: {said[-2000:]}")
    cpu = usage.ru_utime + usage.ru_stime
    return Run(seconds, usage.ru_maxrss // 1024, said, cpu)


def _heard(descriptor: int) -> str:
    """Everything that is said until the other end is closed."""
    parts = []
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 65536):
            parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode(errors="replace")
