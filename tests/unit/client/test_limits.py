# SPDX-License-Identifier: Apache-2.0
"""Time limits and redirects of the client."""

from __future__ import annotations

import contextlib
import socket

import keystoneauth1.session
import keystoneauth1.token_endpoint
import pytest

from osc_placement.client import api_errors, retry, transport
from tests.support.raw_server import listening


def over_http(url: str, timeout: float = 0.2) -> transport.Transport:
    auth = keystoneauth1.token_endpoint.Token(url, "admin")
    return transport.over_session(keystoneauth1.session.Session(auth=auth), timeout=timeout)


def redirect(status: int, target: str) -> bytes:
    head = f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nConnection: close\r\n"
    return f"{head}Content-Length: 0\r\n\r\n".encode()


def test_a_silent_service_ends_a_read_with_the_limit_and_no_retry() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = over_http(f"http://127.0.0.1:{silent.getsockname()[1]}")
        expected = r"GET /traits: no response within 0\.2 s \(--os-placement-timeout\)"
        with pytest.raises(api_errors.TimedOut, match=expected):
            retry.read(lambda: slow.send("GET", "/traits"))


def test_a_silent_service_leaves_the_outcome_of_a_write_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = over_http(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(api_errors.OutcomeUnknown, match=r"no response within 0\.2 s"):
            slow.send("PUT", "/traits/x")


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_the_token_never_follows_a_redirect_to_another_origin(method: str) -> None:
    with (
        listening(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (other, stolen),
        listening(redirect(307, f"{other}/traits")) as (url, _),
    ):
        with pytest.raises(api_errors.Redirected, match=f"redirects to {other}/traits"):
            over_http(url, 5).send(method, "/traits/x")
        assert stolen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_write_is_not_redirected_within_the_origin(status: int) -> None:
    with listening(redirect(status, "/elsewhere")) as (url, received):
        with pytest.raises(api_errors.Redirected, match=f"redirects to {url}/elsewhere"):
            over_http(url, 5).send("PUT", "/traits/x")
        assert len(received) == 1


def test_a_read_that_is_redirected_forever_ends() -> None:
    with listening(redirect(302, "/again")) as (url, received):
        with pytest.raises(api_errors.Redirected):
            over_http(url, 5).send("GET", "/traits")
        assert len(received) == 6


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("soon", 0.0), ("-1", 0.0)])
def test_the_seconds_of_retry_after_are_read(value: str, seconds: float) -> None:
    busy = f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n"
    with listening(busy.encode()) as (url, _):
        with pytest.raises(api_errors.OutcomeUnknown) as caught:
            over_http(url, 5).send("PUT", "/traits/x")
        assert caught.value.retry_after == seconds


def test_a_server_that_accepts_no_connection_ends_a_request_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as stack:
        address = full.getsockname()
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        with pytest.raises(api_errors.TimedOut, match=r"no connection within 0\.2 s"):
            over_http(f"http://127.0.0.1:{address[1]}").send("PUT", "/traits/x")
