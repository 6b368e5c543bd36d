"""A server that sends given bytes, for the tests of the transport."""

from __future__ import annotations

import contextlib
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
                    received.append(connection.recv(65536))
                    if answer:
                        connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}", received
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)
