"""A server process that is measured: requests, and the memory that it has taken."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.peer import process

HEADERS = {
    "x-auth-token": "admin",
    "openstack-api-version": "placement latest",
    "content-type": "application/json",
    "accept": "application/json",
}


class Served:
    """One connection to a server that is on this machine."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.port = port

    def ask(self, method: str, path: str, body: Any = None) -> bytes:
        """The answer's body; RuntimeError for an error."""
        status, raw = self.answer(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {raw[:300].decode()}")
        return raw

    def answer(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body, whatever the status; a connection that has ended is made anew."""
        data = None if body is None else json.dumps(body)
        try:
            return self._once(method, path, data)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._http.close()
            return self._once(method, path, data)

    def _once(self, method: str, path: str, data: str | None) -> tuple[int, bytes]:
        self._http.request(method, path, data, HEADERS)
        found = self._http.getresponse()
        return found.status, found.read()

    def memory(self, peak: bool = True) -> int:
        """MiB resident of the process: the most so far, or now."""
        wanted = "VmHWM" if peak else "VmRSS"
        with open(f"/proc/{self._process_id()}/status", encoding="ascii") as status:
            (line,) = (line for line in status if line.startswith(wanted))
        return int(line.split()[1]) // 1024

    def _process_id(self) -> int:
        """The process whose command line ends with our port."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(self.port).encode() in words and entry.name != str(os.getpid()):
                    return int(entry.name)
        raise RuntimeError(f"no process serves port {self.port}")

    def close(self) -> None:
        """End the connection."""
        self._http.close()


@contextlib.contextmanager
def serving(command: Sequence[str], state: pathlib.Path) -> Iterator[Served]:
    """A server while the block runs; ``state`` is a folder of its own."""
    state.mkdir()
    # Both are to have on disk what they have acknowledged.
    environment = {"PLACEMENT_DURABLE": "yes"}
    with process.running(command, state, "legacy-rbac", environment) as url:
        served = Served(int(url.rpartition(":")[2]))
        try:
            yield served
        finally:
            served.close()


def ours(*options: str) -> list[str]:
    """The command of the reference server."""
    return [sys.executable, "-m", "osc_placement.server", "--legacy-rbac", *options, "--port"]
