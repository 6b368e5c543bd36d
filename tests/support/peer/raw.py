# SPDX-License-Identifier: Apache-2.0
"""Raw requests to a port, for what HTTP clients refuse to send."""

from __future__ import annotations

import contextlib
import http.client
import pathlib
import socket
from collections.abc import Iterable, Iterator

from tests.support.peer import embedded, process
from tests.support.sequences import compare

Headers = Iterable[tuple[str, str]]


@contextlib.contextmanager
def both(folder: pathlib.Path, fixture: str) -> Iterator[tuple[int, int]]:
    """The ports of openstack-placement and of the reference server, both empty."""
    with (
        process.running(process.PLACEMENT, folder, fixture) as real,
        embedded.running(fixture) as ours,
    ):
        yield port_of(real), port_of(ours)


def port_of(url: str) -> int:
    """The port of a URL without a path."""
    return int(url.rpartition(":")[2])


def encode(method: str, path: str, headers: Headers, body: bytes | None = None) -> bytes:
    """A request as bytes, with a content-length if there is a body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def send(port: int, request: bytes) -> compare.Answer:
    """The response to a request; the connection is closed afterwards."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(client, method=request.split(b" ", 1)[0].decode())
        response.begin()
        return compare.read(response.status, response.headers, response.read())
