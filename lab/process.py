# SPDX-License-Identifier: Apache-2.0
"""Start and stop the services; identify them by process id and start time."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

from lab import place

START_LIMIT = 120.0
END_LIMIT = 15.0

#: Paths that each service serves without a token.
_TAILS = {"keystone": "/v3", "placement": "/", "nova": "/", "neutron": "/"}


def command(lab: place.Place, service: str, workers: int) -> list[str]:
    """The command line of a service. ``-P`` keeps this folder out of ``sys.path``."""
    port, log = str(lab.port(service)), str(lab.path("log", f"{service}.access.log"))
    if service == "neutron":
        program = str(place.HERE / "neutron.py")
        return [sys.executable, "-P", program, port, str(lab.path("neutron.json")), log]
    program = str(place.HERE / "serve.py")
    return [lab.program("python"), "-P", program, service, port, str(workers), log]


def start(lab: place.Place, services: Sequence[str], workers: int = 1) -> list[str]:
    """Start the services that do not run, wait for all, and return the names of those started."""
    started = [name for name in services if pid(lab, name) is None]
    for name in started:
        _start(lab, name, workers)
    for name in services:
        _wait(lab, name)
    return started


def _start(lab: place.Place, name: str, workers: int) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", lab.port(name))) == 0:
            raise place.LabError(
                f"port {lab.port(name)} is in use by another process: set {place.PORT_VARIABLE}"
                " before the lab is created"
            )
    for folder in ("log", "run"):
        lab.path(folder).mkdir(parents=True, exist_ok=True)
    with lab.path("log", f"{name}.out").open("ab") as log:
        process = subprocess.Popen(
            command(lab, name, workers),
            env=lab.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=lab.path("run"),
            start_new_session=True,
        )
    lab.write(f"run/{name}.pid", f"{process.pid} {_start_time(process.pid)}")


def _wait(lab: place.Place, name: str) -> None:
    until = time.monotonic() + START_LIMIT
    while not answers(lab, name):
        if pid(lab, name) is None or time.monotonic() > until:
            raise place.LabError(f"{name} did not start; see {lab.path('log', f'{name}.out')}")
        time.sleep(0.1)


def stop(lab: place.Place, services: Sequence[str]) -> None:
    """Stop the services that this lab started, and no other process."""
    for name in services:
        number = pid(lab, name)
        if number is not None:
            os.kill(number, signal.SIGTERM)
    for name in services:
        _end(lab, name)


def _end(lab: place.Place, name: str) -> None:
    until = time.monotonic() + END_LIMIT
    while (number := pid(lab, name)) is not None and time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(number, os.WNOHANG)
        time.sleep(0.05)
    if number is not None:
        os.killpg(number, signal.SIGKILL)
    lab.path("run", f"{name}.pid").unlink(missing_ok=True)


def pid(lab: place.Place, name: str) -> int | None:
    """The process id of a service; None if the process has ended or the id was reused."""
    try:
        number, started = lab.path("run", f"{name}.pid").read_text().split()
    except (OSError, ValueError):
        return None
    return int(number) if _start_time(int(number)) == started else None


def _start_time(number: int) -> str | None:
    """The start time of a process in ticks since boot; None for no process or a zombie."""
    try:
        fields = pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def answers(lab: place.Place, name: str) -> bool:
    """Whether a server responds on a service's port, with any status."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(lab.url(name, _TAILS[name]), timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
