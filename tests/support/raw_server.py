# SPDX-License-Identifier: Apache-2.0
"""A server that sends given bytes, for the tests of the transport."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keystoneauth1.session
import keystoneauth1.token_endpoint

from osc_placement.client import transport


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads a request, sends these bytes and closes; its URL and the requests."""
    received: list[bytes] = []

    def send(connection: socket.socket) -> None:
        received.append(_request(connection))
        connection.sendall(answer or b"")

    with serving(send) as url:
        yield url, received


@contextlib.contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that calls ``answer`` with one connection after the other; its URL."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection, contextlib.suppress(OSError):
                    answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(120)


def over_http(url: str, **options: Any) -> transport.Transport:
    """A transport to Placement at a URL, with these options."""
    auth = keystoneauth1.token_endpoint.Token(url, "admin")
    return transport.over_session(keystoneauth1.session.Session(auth=auth), **options)


def closed_port() -> str:
    """The URL of a port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def _request(connection: socket.socket) -> bytes:
    """A whole request: a connection that is closed before is reset."""
    received = b""
    while data := connection.recv(65536):
        received += data
        head, end, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", head.lower())
        if end and len(body) >= (int(length[1]) if length else 0):
            break
    return received
