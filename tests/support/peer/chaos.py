# SPDX-License-Identifier: Apache-2.0
"""A proxy between a client and a Placement that injects network errors and concurrent writes.

It uses real sockets; ``faults`` decides which requests fail, and how. It counts effective writes,
so that a test can compare the client's report with them. With ``identity`` it is also the identity
service of the client, with a catalog and tokens that expire.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import http.server
import json
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.peer import faults, identity

HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
FORWARDED = ("content-type", "openstack-api-version", "x-auth-token", "x-roles", "accept")
UNAUTHORIZED = b'{"error": {"code": 401, "title": "Unauthorized", "message": "Token expired"}}'
PLAIN, PAGE, DOCUMENT = (
    {"content-type": f"{kind}; charset=utf-8"}
    for kind in ("text/plain", "text/html", "application/json")
)
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "busy": (503, {**PLAIN, "retry-after": "1"}, b"busy"),
    "gateway": (502, PAGE, HTML),
    "html": (200, PAGE, b"<html><title>Sign in</title><body>Sign in</body></html>"),
    "forbidden": (403, DOCUMENT, b'{"errors": [{"status": 403, "detail": "not allowed"}]}'),
    "expired": (401, DOCUMENT, UNAUTHORIZED),
}
ANSWERED = {"content-type", "openstack-api-version", "last-modified", "x-openstack-request-id"}


class Proxy:
    """A listening proxy; ``effective_writes`` counts effective writes per path.

    ``rivals`` counts the concurrent writes per provider or consumer, ``fates`` the results of
    writes, and ``faults`` those of all requests.
    ``on_request`` is called with the method and path of every request first, ``on_answer`` when
    Placement has answered it.
    """

    def __init__(
        self, upstream: str, policy: faults.Faults, service: identity.Identity | None = None
    ) -> None:
        self.upstream = urllib.parse.urlsplit(upstream)
        self.policy = policy
        self.identity = service
        self.effective_writes: collections.Counter[str] = collections.Counter()
        self.requests: collections.Counter[str] = collections.Counter()
        self.rivals: collections.Counter[str] = collections.Counter()
        self.fates: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()
        self.on_request: Callable[[str, str], None] = lambda method, path: None
        self.on_answer: Callable[[str, str], None] = lambda method, path: None
        self.lock = threading.Lock()
        self._under_way = 0
        self._ended = threading.Condition(self.lock)
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextlib.contextmanager
    def handling(self) -> Iterator[None]:
        """A request is under way during the block."""
        with self.lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._ended:
                self._under_way -= 1
                self._ended.notify_all()

    def wait_until_idle(self) -> None:
        """Wait until Placement has the requests of a client that is gone."""
        with self._ended:
            assert self._ended.wait_for(lambda: not self._under_way, 60)

    def forward(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(
            str(self.upstream.hostname), self.upstream.port, timeout=60
        )
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def rival(self, request: faults.Request, headers: dict[str, str]) -> None:
        """A concurrent write, which increases the generation of a provider or a consumer."""
        headers = {**headers, "content-type": "application/json"}
        if "/allocations" in request.path:
            self._rewrite_allocations(request, headers)
        else:
            self._take_disk(request, headers)

    def _take_disk(self, request: faults.Request, headers: dict[str, str]) -> None:
        """Reduce the disk of the provider; one without disk is written unchanged."""
        if request.path == "/reshaper":
            provider = next(iter(json.loads(request.body or b"{}")["inventories"]))
        elif request.path.startswith("/resource_providers/"):
            provider = request.path.split("/")[2]
        else:
            return
        base = f"/resource_providers/{provider}/inventories"
        status, _, text = self.forward("GET", base, None, headers)
        body: dict[str, Any] = json.loads(text)
        if status != 200 or not body["inventories"]:
            return
        if "DISK_GB" in body["inventories"]:
            body["inventories"]["DISK_GB"]["total"] -= self.policy.disk
        self._count_rival(provider, self.forward("PUT", base, json.dumps(body).encode(), headers))

    def _rewrite_allocations(self, request: faults.Request, headers: dict[str, str]) -> None:
        """Write the allocations of the first consumer of a request again, unchanged."""
        sent = json.loads(request.body or b"{}")
        consumer = request.path.split("/")[2] if request.method != "POST" else next(iter(sent))
        path = f"/allocations/{consumer}"
        _, _, text = self.forward("GET", path, None, headers)
        body: dict[str, Any] = json.loads(text)
        if body["allocations"]:
            self._count_rival(
                consumer, self.forward("PUT", path, json.dumps(body).encode(), headers)
            )

    def _count_rival(self, subject: str, answer: tuple[int, dict[str, str], bytes]) -> None:
        with self.lock:
            self.rivals[subject] += answer[0] < 300


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without it the body of each answer waits 40 ms for the acknowledgement of the headers.
    disable_nagle_algorithm = True
    owner: Proxy

    def do_GET(self) -> None:
        with self.owner.handling():
            self._serve(writing=False)

    def do_PUT(self) -> None:
        with self.owner.handling():
            self._serve(writing=True)

    do_POST = do_PUT  # noqa: N815
    do_DELETE = do_PUT  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def _serve(self, *, writing: bool) -> None:
        proxy, policy = self.owner, self.owner.policy
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        headers = {name: self.headers[name] for name in FORWARDED if name in self.headers}
        if proxy.identity is not None and self.path.startswith(identity.PATH):
            self._answer(*proxy.identity.answer(self.command, self.path, body))
            return
        request = faults.Request(self.command, self.path, body)
        with proxy.lock:
            proxy.requests[f"{self.command} {self.path.partition('?')[0]}"] += 1
            fate = policy.fate(request)
            proxy.fates[fate] += writing
            proxy.faults[fate] += 1
        proxy.on_request(self.command, self.path)
        time.sleep(policy.delay)
        if proxy.identity is not None:
            fate = self._authenticate(proxy.identity, fate, headers)
        if fate in faults.BEFORE:
            self._fail(fate)
        else:
            self._pass_on(fate, request, headers)

    def _authenticate(self, service: identity.Identity, fate: str, headers: dict[str, str]) -> str:
        """``expired`` for a token that is not valid; Placement receives its own token."""
        if fate == "expired":
            service.tokens.expire()
        is_valid = service.tokens.is_valid(headers.get("x-auth-token"))
        headers["x-auth-token"] = "admin"
        return fate if is_valid else "expired"

    def _pass_on(self, fate: str, request: faults.Request, headers: dict[str, str]) -> None:
        proxy = self.owner
        if fate == "conflict":
            proxy.rival(request, headers)
        status, answered, text = proxy.forward(self.command, self.path, request.body, headers)
        if self.command != "GET" and status < 300:
            with proxy.lock:
                proxy.effective_writes[self.path] += 1
        proxy.on_answer(self.command, self.path)
        kept = {name: value for name, value in answered.items() if name.lower() in ANSWERED}
        if fate == "cut after":
            self._cut()
        elif fate == "lose after":
            self._fail("refuse")
        elif fate == "truncate":
            self._truncate(status, kept, text)
        else:
            time.sleep(faults.SLOW if fate == "slow" else 0)
            self._answer(status, kept, text)

    def _fail(self, fate: str) -> None:
        """The answer to a request that did not reach Placement."""
        if fate == "refuse":
            fate = "busy" if self.owner.policy.chance.random() < 0.5 else "gateway"
        if fate == "cut before":
            self._cut()
        else:
            self._answer(*ANSWERS[fate])

    def _truncate(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Half of an answer, and the end of the connection."""
        lines = [f"HTTP/1.1 {status} OK", *(f"{name}: {value}" for name, value in headers.items())]
        lines.append(f"content-length: {len(body)}")
        whole = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        self.wfile.write(whole[: len(whole) // 2])
        self.close_connection = True

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _cut(self) -> None:
        """Reset the connection, as a crashing proxy does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


@contextlib.contextmanager
def between(upstream: str, **rates: Any) -> Iterator[Proxy]:
    """A proxy in front of ``upstream`` during the block, with random faults."""
    with Proxy(upstream, faults.Rates(**rates)) as proxy:
        yield proxy
