# SPDX-License-Identifier: Apache-2.0
"""Starts a server process, waits until it is ready, and stops it."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Iterator, Mapping, Sequence

#: Below the kernel's range for outgoing connections, so that no client takes the port between this
#: check and the server's bind.
PORTS = range(23000, 24000)

PLACEMENT = (sys.executable, "-m", "tests.support.peer.placement")

START_LIMIT = 300.0
END_LIMIT = 5.0

ROOT = pathlib.Path(__file__).parents[3]


@contextlib.contextmanager
def _own_port() -> Iterator[int]:
    """A port without a listener, which no other test takes before the server has it.

    The kernel has one socket of each name, and forgets it with its process.
    """
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket(socket.AF_UNIX) as name, socket.socket() as probe:
            try:
                name.bind(f"\0osc-placement-test-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            probe.close()
            yield port
            return
    raise RuntimeError(f"no free port from {PORTS.start} to {PORTS.stop - 1}")


def free_port() -> int:
    """A port without a listener."""
    with _own_port() as port:
        return port


@contextlib.contextmanager
def running(
    command: Sequence[str],
    state: pathlib.Path,
    fixture: str = "default",
    environment: Mapping[str, str] = types.MappingProxyType({}),
) -> Iterator[str]:
    """The URL of a server process that runs during the block.

    ``command`` is called with a port as its last argument, with PLACEMENT_FIXTURE and
    PLACEMENT_STATE_DIR (the folder ``state``) in its environment. It is ready when it answers GET
    /. Raises RuntimeError with the end of its log if it does not.
    """
    with _own_port() as port:
        env = {**os.environ, **environment}
        env |= {"PLACEMENT_FIXTURE": fixture, "PLACEMENT_STATE_DIR": str(state)}
        folders = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")])
        env["PYTHONPATH"] = folders.rstrip(os.pathsep)
        log = state / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, str(port)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait(port, process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            _end(process)


def _wait(port: int, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    deadline = time.monotonic() + START_LIMIT
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-1500:]
            raise RuntimeError(f"the server did not start (status {process.poll()}):\n{tail}")
        time.sleep(0.02)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, then SIGKILL, to the process group of the server."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        try:
            process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            continue
        return
