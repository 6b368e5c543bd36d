# SPDX-License-Identifier: Apache-2.0
"""A server process, with its requests and its memory."""

from __future__ import annotations

import contextlib
import functools
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
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self.port = port

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        """Return the response body. Raises RuntimeError for an error status."""
        status, raw = self.send(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {raw[:300].decode()}")
        return raw

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return status and body. Opens the connection again if the server has closed it.

        A ``body`` of bytes is sent as it is.
        """
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        try:
            return self._once(method, path, data)
        except (http.client.RemoteDisconnected, ConnectionError):
            self._http.close()
            return self._once(method, path, data)

    def _once(self, method: str, path: str, data: str | bytes | None) -> tuple[int, bytes]:
        self._http.request(method, path, data, HEADERS)
        response = self._http.getresponse()
        return response.status, response.read()

    def memory(self) -> int:
        """The resident size of the process in MiB, at its peak."""
        return self.resident(peak=True) // 1024

    def resident(self, *, peak: bool = False) -> int:
        """The resident size of the process in KiB, now or at its peak."""
        field = "VmHWM" if peak else "VmRSS"
        with open(f"/proc/{self._process_id}/status", encoding="ascii") as status:
            (line,) = (line for line in status if line.startswith(field))
        return int(line.split()[1])

    def cpu(self) -> float:
        """The seconds of CPU that the process has used."""
        stat = pathlib.Path(f"/proc/{self._process_id}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    @functools.cached_property
    def _process_id(self) -> int:
        """The id of the process with this port on its command line."""
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if str(self.port).encode() in words and entry.name != str(os.getpid()):
                    return int(entry.name)
        raise RuntimeError(f"no process serves port {self.port}")

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


@contextlib.contextmanager
def serving(command: Sequence[str], state: pathlib.Path) -> Iterator[Served]:
    """Run a server during the block; ``state`` is a folder for it to create."""
    state.mkdir()
    # Both servers must write to disk before they respond.
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
