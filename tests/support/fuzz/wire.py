# SPDX-License-Identifier: Apache-2.0
"""A server to fuzz, and a client that sends it any bytes."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
from collections.abc import Iterator

from osc_placement.testing import service
from tests.support.peer.raw import port_of


class Target(service.LoopbackPlacement):
    """A listening server whose state can be reset."""

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port_of(self.url)), timeout=120)

    def send(self, raw: bytes) -> list[int]:
        """The statuses of all responses to these bytes; every response is checked."""
        with self.connect() as client:
            with contextlib.suppress(OSError):
                client.sendall(raw)
                client.shutdown(socket.SHUT_WR)
            return list(_answers(client))


#: waitress sends this and waits for a body, even if a request with ``Expect`` announces none.
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


def _answers(client: socket.socket) -> Iterator[int]:
    while start := client.recv(len(_INTERIM), socket.MSG_PEEK):
        if start == _INTERIM:
            client.recv(len(_INTERIM))
            continue
        answer = http.client.HTTPResponse(client)
        answer.begin()
        status = answer.status
        if status in (204, 304):
            yield status
            return
        body = answer.read()
        check(status, answer.getheader("content-type") or "", body)
        yield status
        if answer.will_close:
            return


def check(status: int, media_type: str, body: bytes) -> None:
    """Raise AssertionError for content that no response may have."""
    # waitress itself answers 501 to every transfer encoding but chunked.
    assert status < 500 or b"Transfer-Encoding requested is not supported" in body, (
        f"{status}: {body[:500]!r}"
    )
    assert b"Traceback" not in body
    assert not re.search(rb'File "/|line \d+, in ', body)
    if media_type.startswith("application/json") and body:
        document = json.loads(body)
        # webob builds the 401 responses.
        if status >= 400 and status != 401:
            assert document["errors"][0]["status"] == status
