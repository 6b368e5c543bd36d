"""A proxy between a client and a Placement that injects network errors and concurrent writes.

It uses real sockets. It refuses with 503 and with HTML, cuts connections before and after a write
takes effect, and writes to a provider just before the client does. It counts effective writes, so
that a test can compare the client's report with them.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import http.server
import json
import random
import socket
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
FORWARDED = ("content-type", "openstack-api-version", "x-auth-token", "x-roles", "accept")
ANSWERED = {"content-type", "openstack-api-version", "last-modified", "x-openstack-request-id"}


class FaultRates:
    """The rates of faults per request; reads have none unless requested."""

    def __init__(
        self,
        *,
        conflict: float = 0.0,
        refuse: float = 0.0,
        cut_before: float = 0.0,
        cut_after: float = 0.0,
        lose_after: float = 0.0,
        reads: float = 0.0,
        delay: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.conflict, self.refuse, self.reads, self.delay = conflict, refuse, reads, delay
        self.cut_before, self.cut_after, self.lose_after = cut_before, cut_after, lose_after
        self.chance = random.Random(seed)


class Proxy:
    """A listening proxy; ``effective_writes`` counts effective writes per path.

    ``rivals`` counts the concurrent writes per provider, ``fates`` the results of writes.
    ``on_request`` is called with the method and path of every request first.
    """

    def __init__(self, upstream: str, mood: FaultRates) -> None:
        self.upstream = urllib.parse.urlsplit(upstream)
        self.mood = mood
        self.effective_writes: collections.Counter[str] = collections.Counter()
        self.requests: collections.Counter[str] = collections.Counter()
        self.rivals: collections.Counter[str] = collections.Counter()
        self.fates: collections.Counter[str] = collections.Counter()
        self.on_request: Callable[[str, str], None] = lambda method, path: None
        self.lock = threading.Lock()
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

    def rival(self, path: str, headers: dict[str, str]) -> None:
        """A concurrent write: reserve a GB of disk, which increases the provider's generation."""
        base = "/".join(path.split("/")[:3]) + "/inventories"
        headers = {**headers, "content-type": "application/json"}
        status, _, text = self.forward("GET", base, None, headers)
        body: dict[str, Any] = json.loads(text)
        if status != 200 or "DISK_GB" not in body["inventories"]:
            return
        body["inventories"]["DISK_GB"]["total"] -= 1
        status, _, _ = self.forward("PUT", base, json.dumps(body).encode(), headers)
        with self.lock:
            self.rivals[path.split("/")[2]] += status == 200


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy

    def do_GET(self) -> None:
        self._serve(writing=False)

    def do_PUT(self) -> None:
        self._serve(writing=True)

    do_POST = do_PUT  # noqa: N815
    do_DELETE = do_PUT  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def _serve(self, *, writing: bool) -> None:
        proxy, mood = self.owner, self.owner.mood
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else None
        headers = {name: self.headers[name] for name in FORWARDED if name in self.headers}
        with proxy.lock:
            proxy.requests[f"{self.command} {self.path.partition('?')[0]}"] += 1
            fate = self._fate(writing)
            proxy.fates[fate] += writing
        proxy.on_request(self.command, self.path)
        time.sleep(mood.delay)
        if fate == "refuse":
            self._refuse()
        elif fate == "cut before":
            self._cut()
        else:
            self._pass_on(fate, body, headers)

    def _pass_on(self, fate: str, body: bytes | None, headers: dict[str, str]) -> None:
        proxy = self.owner
        if fate == "conflict":
            proxy.rival(self.path, headers)
        status, given, text = proxy.forward(self.command, self.path, body, headers)
        if self.command != "GET" and status < 300:
            with proxy.lock:
                proxy.effective_writes[self.path] += 1
        if fate == "cut after":
            self._cut()
        elif fate == "lose after":
            self._refuse()
        else:
            kept = {name: value for name, value in given.items() if name.lower() in ANSWERED}
            self._answer(status, kept, text)

    def _fate(self, writing: bool) -> str:
        mood = self.owner.mood
        throw = mood.chance.random()
        if not writing:
            quiet = self.path in ("", "/") or throw >= mood.reads
            return "" if quiet else mood.chance.choice(["refuse", "cut before", "cut after"])
        for fate, share in (
            ("conflict", mood.conflict),
            ("refuse", mood.refuse),
            ("cut before", mood.cut_before),
            ("cut after", mood.cut_after),
            ("lose after", mood.lose_after),
        ):
            if throw < share:
                return fate
            throw -= share
        return ""

    def _refuse(self) -> None:
        if self.owner.mood.chance.random() < 0.5:
            self._answer(503, {"content-type": "text/plain"}, b"busy")
        else:
            self._answer(502, {"content-type": "text/html"}, HTML)

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
def between(upstream: str, **mood: Any) -> Iterator[Proxy]:
    """A proxy in front of ``upstream`` during the block."""
    with Proxy(upstream, FaultRates(**mood)) as proxy:
        yield proxy
