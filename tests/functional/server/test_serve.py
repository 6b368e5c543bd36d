# SPDX-License-Identifier: Apache-2.0
"""The socket: input is limited, malformed input is refused, the end is hard."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import server
from osc_placement.server import run
from tests.support.peer.embedded import serving
from tests.support.peer.raw import port_of

GET = b"GET /traits HTTP/1.1\r\nHost: a\r\nX-Auth-Token: admin\r\n"
GET += b"OpenStack-API-Version: placement 1.39\r\n"
POST = b"POST /resource_providers HTTP/1.1\r\nHost: a\r\nX-Auth-Token: admin\r\n"
ADMIN = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
JSON = b"Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(server.create_app()) as service:
        yield port_of(service.url)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=120)


def exchange(port: int, *parts: bytes) -> bytes:
    """The response up to the end of the connection; the client closes its side first."""
    with connect(port) as client:
        for part in parts:
            client.sendall(part)
        # The server may have answered and closed the connection already.
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        return read_all(client)


def read_all(client: socket.socket) -> bytes:
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            answer += part
    return answer


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    assert found, answer[:200]
    return int(found[1])


def assert_served(port: int) -> None:
    """A well-behaved client gets its response, whatever the others do."""
    assert status(exchange(port, GET + b"Connection: close\r\n\r\n")) == 200


#: One for each way in which waitress refuses a request, and all that it passes on.
MALFORMED = {
    "no request at all": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "an invalid target": b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "a length of five thousand digits": POST + b"Content-Length: " + b"1" * 5000 + b"\r\n\r\n",
    "a length with a sign": POST + JSON + b"Content-Length: +13\r\n\r\n" + b'{"name": "ab"}',
    "a length with an underscore": POST + JSON + b"Content-Length: 1_3\r\n\r\n" + b"{}" * 20,
    "an unknown transfer coding": POST + JSON + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "a path that is not UTF-8": b"GET /%ff HTTP/1.1\r\nX-Auth-Token: admin\r\n\r\n",
    "a query that is not UTF-8": GET.replace(b"/traits", b"/traits?name=%ff") + b"\r\n",
    "too many headers": GET + b"a: b\r\n" * 20_000 + b"\r\n",
    "an invalid host": GET.replace(b"Host: a", b"Host: [").replace(b"/traits", b"/nothing")
    + b"\r\n",
}


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_refused_without_internal_details(port: int, raw: bytes) -> None:
    answer = exchange(port, raw)
    # waitress closes the connection for some errors, without a response.
    assert not answer or 400 <= status(answer) < 500 or status(answer) == 501
    assert b"Traceback" not in answer
    assert b".py" not in answer


def test_a_write_with_an_invalid_host_header_gets_a_response(port: int) -> None:
    raw = POST.replace(b"Host: a", b"Host: [") + JSON
    answer = exchange(port, raw + b"Content-Length: 14\r\n\r\n" + b'{"name": "one"')
    assert status(answer) == 400
    answer = exchange(port, raw + b"Content-Length: 15\r\n\r\n" + b'{"name": "one"}')
    assert status(answer) in (201, 400)


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(port: int) -> None:
    length = run.MAX_BODY + 1
    answer = exchange(port, POST + JSON + f"Content-Length: {length}\r\n\r\n".encode())
    assert status(answer) == 413


@pytest.mark.parametrize("filler", [b"?name=", b"?resources=", b"?required=", b"?member_of="])
def test_a_query_that_is_too_long_is_refused(port: int, filler: bytes) -> None:
    target = b"/resource_providers" + filler + b"A," * (run.MAX_HEADERS // 2)
    answer = exchange(port, GET.replace(b"/traits", target) + b"\r\n")
    assert status(answer) == 431


def test_hundreds_of_idle_connections_delay_no_other_client(port: int) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(run.MAX_CONNECTIONS - 50):
            stack.enter_context(connect(port))
        assert_served(port)


def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(run, "_SWEEP_SECONDS", 0)
    with serving(server.create_app()) as service, connect(port_of(service.url)) as client:
        assert client.recv(1) == b""


def test_as_many_requests_as_threads_are_handled_at_the_same_time() -> None:
    together = threading.Barrier(run.THREADS + 1)

    def wait(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        together.wait(120)
        start_response("204 No Content", [])
        return []

    with serving(wait, run.THREADS) as service, contextlib.ExitStack() as stack:
        for _ in range(run.THREADS):
            stack.enter_context(connect(port_of(service.url))).sendall(GET + b"\r\n")
        together.wait(120)


def test_a_stop_closes_every_connection_and_accepts_no_more() -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        begun.set()
        ended.wait(120)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"{}"]

    with serving(slow) as service:
        port = port_of(service.url)
        busy, idle, half = connect(port), connect(port), connect(port)
        busy.sendall(GET + b"\r\n")
        half.sendall(GET)
        assert begun.wait(120)
        service.stop()
        assert [read_all(client) for client in (busy, idle, half)] == [b"", b"", b""]
        with pytest.raises(ConnectionRefusedError):
            connect(port)
        ended.set()


@contextlib.contextmanager
def process(*options: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "osc_placement.server", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def test_the_command_prints_its_url_and_stops_on_a_signal() -> None:
    with process("--port", "0") as started:
        assert started.stdout is not None
        url = started.stdout.readline().strip()
        port = port_of(url)
        assert_served(port)
        with process("--port", str(port)) as second:
            _, message = second.communicate(timeout=120)
            assert second.returncode == 1
        assert message.startswith(f"osc-placement-server: cannot listen on 127.0.0.1:{port}")
        assert "Traceback" not in message
        with connect(port):
            started.send_signal(signal.SIGTERM)
            out, message = started.communicate(timeout=120)
        assert (started.returncode, out, message) == (0, "", "")
