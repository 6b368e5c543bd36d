# SPDX-License-Identifier: Apache-2.0
"""A server that sends given bytes, for the tests of the transport."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads a request, sends these bytes and closes; its URL and the requests."""
    server = socket.create_server(("127.0.0.1", 0))
    received: list[bytes] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    received.append(_request(connection))
                    if answer:
                        connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", received
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(120)


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
