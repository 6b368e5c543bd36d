"""Starts and ends the services, and knows them again by pid and birth."""

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

from tests.support.lab import place

START_LIMIT = 120.0
END_LIMIT = 15.0

#: What every service answers without a token.
_TAILS = {"keystone": "/v3", "placement": "/", "nova": "/", "neutron": "/"}


def command(lab: place.Place, service: str, workers: int) -> list[str]:
    """The command line of a service. ``-P`` keeps our modules from hiding those of others."""
    port, log = str(lab.port(service)), str(lab.path("log", f"{service}.access.log"))
    if service == "neutron":
        program = str(place.HERE / "neutron.py")
        return [sys.executable, "-P", program, port, str(lab.path("neutron.json")), log]
    program = str(place.HERE / "serve.py")
    return [lab.program("python"), "-P", program, service, port, str(workers), log]


def start(lab: place.Place, services: Sequence[str], workers: int = 1) -> list[str]:
    """Start those that do not run, and wait until all answer; the names of the started."""
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
                f"port {lab.port(name)} is taken by something else: set {place.PORT_VARIABLE}"
                " for a lab that is not made yet"
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
    lab.write(f"run/{name}.pid", f"{process.pid} {_born(process.pid)}")


def _wait(lab: place.Place, name: str) -> None:
    until = time.monotonic() + START_LIMIT
    while not answers(lab, name):
        if pid(lab, name) is None or time.monotonic() > until:
            raise place.LabError(f"{name} did not start; see {lab.path('log', f'{name}.out')}")
        time.sleep(0.1)


def stop(lab: place.Place, services: Sequence[str]) -> None:
    """End the services that this lab has started, and nothing else."""
    for name in services:
        found = pid(lab, name)
        if found is not None:
            os.kill(found, signal.SIGTERM)
    for name in services:
        _end(lab, name)


def _end(lab: place.Place, name: str) -> None:
    until = time.monotonic() + END_LIMIT
    while (found := pid(lab, name)) is not None and time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found, os.WNOHANG)
        time.sleep(0.05)
    if found is not None:
        os.killpg(found, signal.SIGKILL)
    lab.path("run", f"{name}.pid").unlink(missing_ok=True)


def pid(lab: place.Place, name: str) -> int | None:
    """The process that this lab started as a service, if it still is that one."""
    try:
        number, born = lab.path("run", f"{name}.pid").read_text().split()
    except (OSError, ValueError):
        return None
    return int(number) if _born(int(number)) == born else None


def _born(number: int) -> str | None:
    """When a process started, in ticks since boot; None when there is none, or its corpse."""
    try:
        fields = pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def answers(lab: place.Place, name: str) -> bool:
    """Whether somebody answers on a service's port, whatever the answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(lab.url(name, _TAILS[name]), timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
