# SPDX-License-Identifier: Apache-2.0
"""The session of many requests to one server: pool, time limits, redirects."""

from __future__ import annotations

import contextlib
import pathlib
import socket
from typing import Any

import keystoneauth1.session
import pytest
import requests

from osc_placement.client import api_errors, retry, transport
from tests.support.raw_server import listening, over_http

AGAIN = b"HTTP/1.1 302 Moved\r\nLocation: /again\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
SESSION_COOKIE = (
    b"HTTP/1.1 200 OK\r\nSet-Cookie: node=a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
)


def proxy(session: keystoneauth1.session.Session, url: str) -> str | None:
    """The proxy of a request."""
    merged = session.session.merge_environment_settings(url, {}, None, True, None)
    return merged["proxies"].get("http")


def test_the_proxies_of_the_environment_are_read_once_per_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "direct.example")
    session = keystoneauth1.session.Session()
    adapters = session.session.adapters
    transport.prepare(session)
    assert session.session.adapters is adapters
    assert proxy(session, "http://placement.example/a") == "http://proxy.example:3128"
    assert proxy(session, "http://direct.example/a") is None
    monkeypatch.setenv("http_proxy", "http://later.example:3128")
    assert proxy(session, "http://placement.example/b") == "http://proxy.example:3128"
    assert proxy(session, "http://other.example/b") == "http://later.example:3128"


def test_a_session_of_another_class_stays() -> None:
    class Own(requests.Session):
        pass

    own = Own()
    session = keystoneauth1.session.Session(session=own)
    transport.prepare(session)
    assert session.session is own


def test_connections_of_many_workers_stay_open() -> None:
    session = keystoneauth1.session.Session()
    transport.prepare(session)
    adapter = session.session.get_adapter("http://placement.example")
    assert isinstance(adapter, keystoneauth1.session.TCPKeepAliveAdapter)
    pool = adapter.poolmanager.connection_from_url("http://placement.example")
    assert pool.pool is not None
    assert pool.pool.maxsize == transport.CONNECTIONS
    # keystoneauth's own options of the sockets stay.
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in pool.conn_kw["socket_options"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("GET", {}),
        ("DELETE", {}),
        ("PUT", {"json": {"name": "\N{LATIN SMALL LETTER E WITH ACUTE}"}}),
        ("POST", {"headers": {"OpenStack-API-Version": "placement 1.39"}, "json": []}),
    ],
)
def test_requests_have_the_headers_of_the_library_requests(
    method: str, options: dict[str, Any]
) -> None:
    with listening(SESSION_COOKIE) as (url, received):
        plain, prepared = keystoneauth1.session.Session(), keystoneauth1.session.Session()
        transport.prepare(prepared)
        for session in (plain, prepared):
            # The second request has the cookie of the first response.
            for _ in range(2):
                response = session.request(f"{url}/traits?name=in:A", method, **options)
                assert response.json() == {}
                assert response.elapsed.total_seconds() > 0
    sent = [request.partition(b"\r\n\r\n")[0] for request in received]
    assert sent[:2] == sent[2:]
    assert b"Cookie: node=a" not in sent[2]
    assert b"Cookie: node=a" in sent[3]


def test_credentials_of_netrc_and_of_the_url_are_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    netrc = tmp_path / "netrc"
    session = keystoneauth1.session.Session()
    transport.prepare(session)
    with listening(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as (url, received):
        monkeypatch.setenv("NETRC", str(netrc))
        netrc.write_text("machine 127.0.0.1 login proxy password secret\n")
        session.get(url)
        session.get(url.replace("127.0.0.1", "user:word@localhost"))
    assert b"Authorization: Basic cHJveHk6c2VjcmV0" in received[0]
    assert b"Authorization: Basic dXNlcjp3b3Jk" in received[1]


def test_a_silent_service_ends_a_read_with_the_limit_and_no_retry() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = over_http(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        expected = r"GET /traits: no response within 0\.2 s \(--os-placement-timeout\)"
        with pytest.raises(api_errors.TimedOut, match=expected):
            retry.read(lambda: slow.send("GET", "/traits"))


def test_a_silent_service_leaves_the_outcome_of_a_write_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = over_http(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)
        with pytest.raises(api_errors.OutcomeUnknown, match=r"no response within 0\.2 s"):
            slow.send("PUT", "/traits/x")


def test_a_read_that_is_redirected_forever_ends() -> None:
    with listening(AGAIN) as (url, received):
        with pytest.raises(api_errors.Redirected):
            over_http(url, timeout=5).send("GET", "/traits")
        assert len(received) == 6


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("soon", 0.0), ("-1", 0.0)])
def test_the_seconds_of_retry_after_are_read(value: str, seconds: float) -> None:
    busy = f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n"
    with listening(busy.encode()) as (url, _):
        with pytest.raises(api_errors.OutcomeUnknown) as caught:
            over_http(url, timeout=5).send("PUT", "/traits/x")
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
            over_http(f"http://127.0.0.1:{address[1]}", timeout=0.2).send("PUT", "/traits/x")
