# SPDX-License-Identifier: Apache-2.0
"""The rules for requests to all services: redirects, time and size of a response."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager as ContextManager
from typing import Any

import keystoneauth1.adapter
import keystoneauth1.identity.v3
import keystoneauth1.session
import keystoneauth1.token_endpoint
import pytest
import requests
import urllib3
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions

from osc_placement import address, errors
from osc_placement.client import api_errors, service, transport
from osc_placement.model import recording
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, flavors, servers
from tests.support.raw_server import listening, serving

Call = Callable[[Any], Any]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Proxy(keystoneauth1.adapter.Adapter):
    """The SDK's proxy of a service, without the discovery of versions."""

    def request(self, url: str, method: str, **options: Any) -> requests.Response:
        for name in ("skip_cache", "microversion"):
            options.pop(name, None)
        return super().request(url, method, **{"raise_exc": False, **options})


#: Seconds that a server of these tests is waited for: on a loaded machine it may take long, and one
#: that sends its response in drops has to be given up.
PATIENT, IMPATIENT = 60.0, 0.3


def connection(url: str, timeout: float = PATIENT, auth: Any = None) -> Any:
    """A connection like the SDK's whose services all have this endpoint."""
    auth = auth or keystoneauth1.token_endpoint.Token(url, "secret")
    session = keystoneauth1.session.Session(auth=auth, timeout=timeout)
    transport.prepare(session)
    proxy = Proxy(session, endpoint_override=url)
    return types.SimpleNamespace(session=session, compute=proxy, network=proxy, image=proxy)


def placement(session: keystoneauth1.session.Session) -> transport.Transport:
    return transport.over_session(session, timeout=session.timeout or IMPATIENT)


#: One call per service, and per method: a new service belongs here.
READS: dict[str, Call] = {
    "placement": lambda cloud: placement(cloud.session).send("GET", "/traits"),
    "nova": lambda cloud: nova_api.SessionNova(cloud).ask("/servers", "2.41"),
    "neutron": lambda cloud: neutron_api.SessionNeutron(cloud).ask("/ports"),
    "glance": lambda cloud: flavors.SessionGlance(cloud).ask("/images"),
}
WRITES: dict[str, Call] = {
    "placement": lambda cloud: placement(cloud.session).send("PUT", "/traits/x", body={"a": 1}),
    "neutron": lambda cloud: neutron_api.SessionNeutron(cloud).write("/ports/p", {"port": {}}, 3),
}
CALLS = [*READS.values(), *WRITES.values()]


def redirect(target: str, status: int = 307) -> bytes:
    head = f"HTTP/1.1 {status} Moved\r\nLocation: {target}\r\nConnection: close\r\n"
    return f"{head}Content-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("call", CALLS)
def test_no_service_gets_the_token_of_another_origin(call: Call) -> None:
    with (
        listening(OK) as (other, stolen),
        listening(redirect(f"{other}/v2.1/servers")) as (url, _),
        pytest.raises(api_errors.Redirected, match="redirects to"),
    ):
        call(connection(url))
    assert stolen == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("call", WRITES.values())
def test_no_write_follows_a_redirect_within_the_origin(call: Call, status: int) -> None:
    with (
        listening(redirect("/elsewhere", status)) as (url, received),
        pytest.raises(api_errors.Redirected, match="redirects to /elsewhere"),
    ):
        call(connection(url))
    assert len(received) == 1


@pytest.mark.parametrize("call", READS.values())
def test_a_read_follows_a_redirect_within_the_origin(call: Call) -> None:
    with answering(lambda path: redirect("/other") if path != "/other" else OK) as url:
        call(connection(url))


@pytest.mark.parametrize("target", ["http://other:99999/", "http://[::1", "http://[bad]/x", "//:x"])
@pytest.mark.parametrize("call", CALLS)
def test_a_redirect_to_an_invalid_address_names_it(call: Call, target: str) -> None:
    with listening(redirect(target)) as (url, _), pytest.raises(errors.PlacementError) as caught:
        call(connection(url))
    assert isinstance(caught.value, api_errors.Redirected)
    assert f"redirects to {address.shown(target)}, which" in str(caught.value)


EARLY = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
REFUSED = b'HTTP/1.1 409 Conflict\r\nContent-Length: 27\r\n\r\n{"errors":[{"detail":"x"}]}'


@pytest.mark.parametrize("name", WRITES)
def test_an_interim_response_leaves_the_outcome_of_a_write_unknown(name: str) -> None:
    """And the real response is not that of the next request on the connection."""
    answers = [EARLY + REFUSED, OK]
    with answering(lambda _: answers.pop(0)) as url:
        cloud = connection(url)
        with pytest.raises(api_errors.OutcomeUnknown):
            WRITES[name](cloud)
        READS[name](cloud)
    assert answers == []


@pytest.mark.parametrize("call", READS.values())
def test_an_interim_response_is_not_the_answer_to_a_read(call: Call) -> None:
    with (
        listening(EARLY + REFUSED) as (url, _),
        pytest.raises(api_errors.ConnectionFailed, match="HTTP 102"),
    ):
        call(connection(url))


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DAMAGED = {
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a negative chunk": CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
    "a word as chunk": CHUNKED + b"x\r\n{}\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200,
    "a long header": b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 100_000,
    "a status that is no number": b"HTTP/1.1 twenty OK\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "no gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    "another server": b"SSH-2.0-OpenSSH_9.2\r\n",
    "bytes": b"\xff" * 100,
}


@pytest.mark.parametrize("answer", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("call", CALLS)
def test_a_damaged_response_is_an_error_of_the_request(call: Call, answer: bytes) -> None:
    with listening(answer) as (url, _), pytest.raises(errors.PlacementError) as caught:
        call(connection(url))
    is_write = call in WRITES.values()
    expected = api_errors.OutcomeUnknown if is_write else api_errors.ConnectionFailed
    assert type(caught.value) is expected


def answering(answer: Callable[[str], bytes]) -> ContextManager[str]:
    """A server that answers each request by its path."""

    def send(connection: socket.socket) -> None:
        path = connection.recv(65536).split()[1].decode()
        connection.sendall(answer(path))

    return serving(send)


@contextlib.contextmanager
def dripping(head: bytes) -> Iterator[str]:
    """A server that sends ``head``, and then a byte every twentieth of a second, for ever."""
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)
        while not ended.wait(0.05):
            connection.sendall(b"a")

    with serving(drip) as url:
        try:
            yield url
        finally:
            ended.set()


HEADS = {
    "the body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "a chunk": CHUNKED + b"10000\r\n",
    "a body until the end of the connection": b"HTTP/1.1 200 OK\r\n\r\n",
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("call", CALLS)
def test_a_response_that_drips_ends_in_time(
    call: Call, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "WHOLE_RESPONSE", 0.5)
    with dripping(head) as url, pytest.raises(errors.PlacementError) as caught:
        call(connection(url, IMPATIENT))
    if call in WRITES.values():
        assert isinstance(caught.value, api_errors.OutcomeUnknown)


def test_a_slow_response_of_placement_names_the_option() -> None:
    with (
        dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n") as url,
        pytest.raises(api_errors.TimedOut, match=r"no complete response within 1\.5 s, 5 times"),
    ):
        READS["placement"](connection(url, IMPATIENT))


def test_a_slow_response_of_a_prepared_session_without_a_timeout_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "WITHOUT_TIMEOUT", 0.3)
    with dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n") as url:
        cloud = connection(url)
        cloud.session.timeout = None
        with pytest.raises(errors.PlacementError):
            READS["nova"](cloud)


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_response_that_is_too_large_is_refused(
    call: Call, is_compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LARGEST_RESPONSE", 2 * 1024 * 1024)
    content = json.dumps("a" * 3 * 1024 * 1024).encode()
    encoding = b"Content-Encoding: gzip\r\n" if is_compressed else b""
    content = gzip.compress(content) if is_compressed else content
    head = b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n" % (encoding, len(content))
    with (
        listening(head + content) as (url, received),
        pytest.raises(errors.PlacementError, match="larger than 2 MiB") as caught,
    ):
        call(connection(url))
    expected = api_errors.OutcomeUnknown if call in WRITES.values() else api_errors.TooLarge
    assert type(caught.value) is expected
    assert len(received) == 1


@pytest.mark.parametrize(
    "endpoint",
    [
        *(
            f"http://me:{password}@127.0.0.1:1/x"
            for password in ("s3cret", "s3c:ret", "s3c@ret", "s3c/ret", "s3c?ret", "s3c#ret")
        ),
        "http://me:s3c ret@127.0.0.1:1",
        "http:/me:s3cret@127.0.0.1:1/x",
        "http:///me:s3cret@127.0.0.1:1/x",
        "http:\\\\me:s3cret@127.0.0.1:1",
        "//me:s3cret@127.0.0.1:1",
        "me:s3cret@127.0.0.1:1",
        " me:s3cret@127.0.0.1:1",
        "ftp://me:s3cret@127.0.0.1:1",
        "http://me:s3cret%40127.0.0.1:1",
        "http://me:s3c@ret/x@127.0.0.1:1",
        "http://127.0.0.1:1/x?token=s3cret",
        "http://127.0.0.1:1/x#s3cret",
        "http://me:s3cret@",
    ],
)
@pytest.mark.parametrize("call", CALLS)
def test_no_error_shows_the_secret_of_an_endpoint(call: Call, endpoint: str) -> None:
    with pytest.raises(errors.PlacementError) as caught:
        call(connection(endpoint))
    assert "s3c" not in str(caught.value)
    assert "ret@" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["http://me:s3cret@127.0.0.1:1", "http://me:s3c/ret@127.0.0.1:1"]
)
@pytest.mark.parametrize("call", CALLS)
def test_a_proxy_that_cannot_be_used_gets_no_request(
    call: Call, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(api_errors.ConnectionFailed) as caught:
        call(connection("http://placement.example"))
    assert "s3c" not in str(caught.value)


@pytest.mark.parametrize("call", CALLS)
def test_connections_that_another_program_replaces_are_used(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As wsgi-intercept does for upstream's tests, which put Placement into the process."""
    hosts = []

    class Replaced(urllib3.connection.HTTPConnection):
        def connect(self) -> None:
            hosts.append(self.host)
            raise urllib3.exceptions.NewConnectionError(self, "replaced")

    monkeypatch.setattr(urllib3.connectionpool.HTTPConnectionPool, "ConnectionCls", Replaced)
    with pytest.raises(api_errors.ConnectionFailed, match="the connection broke"):
        call(connection("http://placement.example"))
    assert set(hosts) == {"placement.example"}


def password(url: str) -> keystoneauth1.identity.v3.Password:
    """What logs in at the keystone of this address."""
    return keystoneauth1.identity.v3.Password(
        f"{url}/v3", username="op", password="s3cret", user_domain_id="d", unscoped=True
    )


FAILED = b"HTTP/1.1 %d Failed\r\nX-OpenStack-Request-ID: req-1\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("status", [500, 503, 403, 401])
@pytest.mark.parametrize("call", CALLS)
def test_keystone_is_named_when_it_fails_at_a_login(call: Call, status: int) -> None:
    """A refused password is not sent again: that could lock the account."""
    with listening(FAILED % status) as (url, received):
        with pytest.raises(errors.PlacementError) as caught:
            call(connection(url, auth=password(url)))
        reason = f"at {url} fails at the login: Failed (HTTP {status}) (Request-ID: req-1): check"
        if status == 401:
            assert len(received) == 1
            reason = "refuses the login: Unauthorized (Request-ID: req-1) (HTTP 401)"
        assert f"keystone {reason}" in str(caught.value)
        assert isinstance(caught.value, api_errors.ConnectionFailed) == (status != 401)


@pytest.mark.parametrize("call", CALLS)
def test_a_404_without_json_does_not_say_that_an_object_is_gone(call: Call) -> None:
    """Something before the service answers. Only glance's own errors may be pages."""
    kept: dict[str, Any] = {}
    key = "GET /v2.1/servers/s"
    with listening(FAILED % 404) as (url, _):
        recording.keep_or_reason(kept.setdefault, key, lambda: call(connection(url)))
    nova = nova_api.RecordedNova(kept, "a file")
    if call is READS["glance"]:
        assert servers.server(nova, "s") is None
        return
    with pytest.raises(recording.NotRead):
        servers.server(nova, "s")


@pytest.mark.parametrize("status", [301, 302, 303, 305, 307, 308])
def test_a_login_sends_no_password_to_another_host_or_port(status: int) -> None:
    with (
        listening(OK) as (other, stolen),
        listening(redirect(f"{other}/v3/auth/tokens", status)) as (url, _),
        pytest.raises(api_errors.Redirected) as caught,
    ):
        connection(url, auth=password(url)).session.get_token()
    assert stolen == []
    assert url in str(caught.value)
    assert other in str(caught.value)


@pytest.mark.parametrize(
    ("url", "target", "is_followed"),
    [
        ("http://ks:5000/v3/auth/tokens", "http://ks:5000/identity/v3/auth/tokens", True),
        ("http://ks:5000/v3/auth/tokens", "/identity/v3/auth/tokens", True),
        ("http://ks:5000/v3/auth/tokens", "https://ks:5000/v3/auth/tokens", True),
        ("http://ks/v3/auth/tokens", "https://ks/v3/auth/tokens", True),
        ("https://ks/v3/auth/tokens", "http://ks/v3/auth/tokens", False),
        ("http://ks:5000/v3/auth/tokens", "http://ks:5001/v3/auth/tokens", False),
        ("http://ks/v3/auth/tokens", "https://ks.evil.example/v3/auth/tokens", False),
        ("http://ks/v3/auth/tokens", "ftp://ks/v3/auth/tokens", False),
        ("http://ks/v3/auth/tokens", "//evil.example/v3/auth/tokens", False),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_login_follows_redirects_within_its_host_only(
    url: str, target: str, method: str, is_followed: bool
) -> None:
    request = requests.Request(method, url).prepare()
    response = requests.Response()
    response.status_code = 307
    response.headers["location"] = target
    if is_followed:
        transport._check_redirect(request, response)
        return
    with pytest.raises(api_errors.Redirected):
        transport._check_redirect(request, response)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_listing_whose_pages_repeat_ends_in_an_error(length: int) -> None:
    """Whatever the length of the circle: each page names an item of an earlier page last."""
    paths: list[str] = []

    def ask(marker: Mapping[str, str]) -> tuple[str, Any]:
        paths.append(marker.get("marker", ""))
        page = [{"id": f"{len(paths) % length}"}]
        return "/ports?limit=1", {"ports": page, "ports_links": [{"rel": "next"}]}

    with pytest.raises(errors.PlacementError, match="neutron's listing /ports has no end"):
        list(service.pages("neutron", "ports", ask))
    assert len(paths) == length + 1


def test_every_page_of_a_listing_is_read_once() -> None:
    def ask(marker: Mapping[str, str]) -> tuple[str, Any]:
        start = int(marker.get("marker", "0"))
        links = [{"rel": "next"}] if start < 4 else []
        items = [{"id": number} for number in (start + 1, start + 2)]
        return "/flavors", {"flavors": items, "flavors_links": links}

    pages = [[item["id"] for item in items] for _, items in service.pages("nova", "flavors", ask)]
    assert pages == [[1, 2], [3, 4], [5, 6]]
