# SPDX-License-Identifier: Apache-2.0
"""The requests that a test's Placement received, and what a test does with them.

An *action* is a function of a Request. It runs before or after the server handles the request, and
returns None, returns a Reply in place of the server's, or raises ``requests.ConnectionError``: then
the client sees a broken connection. Functions of this module build actions::

    placement.before_write(nth(2, refuse(409, "changed", "placement.concurrent_update")))
    placement.before(refuse(503, "busy", retry_after=1))
    placement.before(slow(0.2))
    placement.after_write(cut)          # the write was carried out, the response is lost

An action may also send requests itself, as a concurrent client: see ``EmbeddedPlacement.rival``.
"""

from __future__ import annotations

import collections
import io
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import requests
import urllib3.exceptions

from osc_placement import microversion

#: A version that no server has.
_NO_VERSION = "1.999"

_TEMPLATE = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /([a-z_]+(/\{\}/[a-z_]+)*(/\{\})?)?")


class Request(NamedTuple):
    """A request that an application received.

    ``path`` is without the query; ``version`` the microversion ("1.39", "latest") or None; ``body``
    the parsed JSON, None without a body, and bytes if it is no JSON.
    """

    method: str
    path: str
    query: str
    version: str | None
    body: Any

    @classmethod
    def read(cls, environ: dict[str, Any]) -> Request:
        """The request of a WSGI environment, which stays complete."""
        body = environ["wsgi.input"].read()
        environ["wsgi.input"] = io.BytesIO(body)
        version = environ.get("HTTP_OPENSTACK_API_VERSION")
        return cls(
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"].encode("latin-1").decode(errors="replace"),
            environ["QUERY_STRING"],
            version and version.removeprefix("placement "),
            _parsed(body) if body else None,
        )

    @property
    def template(self) -> str:
        """Method and path without names: ``PUT /resource_providers/{}/inventories``."""
        parts = self.path[1:].split("/")
        return f"{self.method} /" + "/".join("{}" if i % 2 else p for i, p in enumerate(parts))

    @property
    def subject(self) -> str:
        """The UUID or the name in the path; empty without one."""
        return self.path[1:].partition("/")[2].partition("/")[0]

    @property
    def is_write(self) -> bool:
        """Whether the request can change the state; an empty reshape only checks the policy."""
        return self.method != "GET" and (self.path, self.body) != ("/reshaper", {})


class Reply(NamedTuple):
    """A response; a ``body`` of bytes is sent unchanged, any other as JSON."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = {}

    def send(self, start_response: Callable[..., Any]) -> list[bytes]:
        """Answer a WSGI request."""
        start_response(f"{self.status} Reason", list(self.headers.items()))
        return [self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()]


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return body


Action = Callable[[Request], Reply | None]


def nothing(_: Request) -> None:
    """Let the server handle the request."""


class Traffic:
    """A WSGI application that records the requests to another one and runs the actions of a test.

    ``maximum`` hides all later microversions.
    """

    def __init__(self, app: Any, maximum: microversion.Microversion | None = None) -> None:
        self.app = app
        self.maximum = maximum
        self.reset()

    def reset(self) -> None:
        """Forget the requests and the actions."""
        self.sent: list[Request] = []
        self.before: Action = nothing
        self.after: Action = nothing

    def count(self) -> collections.Counter[str]:
        """The number of requests by template."""
        return collections.Counter(request.template for request in self.sent)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request.read(environ)
        self.sent.append(request)
        reply = self.before(request)
        if reply is None:
            answer = self._answer(environ, start_response, request)
            reply = self.after(request)
            if reply is None:
                return answer
        return reply.send(start_response)

    def close(self) -> None:
        """The owner of the application closes it."""

    def _answer(self, environ: dict[str, Any], start_response: Any, request: Request) -> Any:
        if self.maximum is None:
            return self.app(environ, start_response)
        highest = str(self.maximum)
        if request.version == "latest":
            environ["HTTP_OPENSTACK_API_VERSION"] = f"placement {highest}"
        elif _is_later(request.version, self.maximum):
            environ["HTTP_OPENSTACK_API_VERSION"] = f"placement {_NO_VERSION}"
        elif request.path != "/":
            return self.app(environ, start_response)
        started: list[Any] = []
        content = b"".join(self.app(environ, lambda *arguments: started.extend(arguments)))
        content = content.replace(_NO_VERSION.encode(), str(request.version).encode())
        content = content.replace(f'"{microversion.MAXIMUM}"'.encode(), f'"{highest}"'.encode())
        length = ("content-length", str(len(content)))
        headers = [pair for pair in started[1] if pair[0].lower() != "content-length"]
        start_response(started[0], [*headers, length])
        return [content]


def _is_later(version: str | None, maximum: microversion.Microversion) -> bool:
    try:
        return version is not None and microversion.Microversion.parse(version) > maximum
    except ValueError:
        return False


def at(template: str, action: Action) -> Action:
    """Run ``action`` at requests of a template, such as ``PUT /allocations/{}``.

    Errors: ValueError for a template that no request can have.
    """
    if not _TEMPLATE.fullmatch(template):
        raise ValueError(f"{template!r} is not a template, such as 'PUT /allocations/{{}}'")
    return lambda request: action(request) if request.template == template else None


def about(subjects: Iterable[str], action: Action) -> Action:
    """Run ``action`` at requests whose path has one of these UUIDs or names.

    Errors: TypeError for a text in place of a list.
    """
    if isinstance(subjects, str):
        raise TypeError(f"{subjects!r} is not a list: write [{subjects!r}]")
    wanted = frozenset(subjects)
    return lambda request: action(request) if request.subject in wanted else None


def nth(number: int, action: Action) -> Action:
    """Run ``action`` at one request, counted from 1. Errors: ValueError for 0."""
    if number < 1:
        raise ValueError(f"no request has the number {number}: the first one is 1")
    numbers = itertools.count(1)
    return lambda request: action(request) if next(numbers) == number else None


def once_each(action: Action) -> Action:
    """Run ``action`` at the first request about each subject."""
    seen: set[str] = set()
    lock = threading.Lock()

    def first(request: Request) -> Reply | None:
        with lock:
            is_first = request.subject not in seen
            seen.add(request.subject)
        return action(request) if is_first else None

    return first


def writes(action: Action) -> Action:
    """Run ``action`` at requests that can change the state."""
    return lambda request: action(request) if request.is_write else None


def error_reply(
    status: int, detail: str, code: str | None = None, headers: dict[str, str] | None = None
) -> Reply:
    """A response with Placement's error body; ``code`` such as placement.concurrent_update."""
    error: dict[str, Any] = {"status": status, "detail": detail, "request_id": "req-1"}
    body = {"errors": [error | ({"code": code} if code else {})]}
    return Reply(status, body, headers or {})


def refuse(
    status: int, detail: str, code: str | None = None, *, retry_after: int | None = None
) -> Action:
    """Respond with an error of Placement; ``retry_after``: seconds, as a header."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return lambda _: error_reply(status, detail, code, headers)


def lose(_: Request) -> Reply:
    """Respond as a proxy that lost the connection to Placement."""
    return Reply(502, b"<html>Bad gateway</html>")


def slow(seconds: float) -> Action:
    """Wait, then let the server handle the request."""
    return lambda _: time.sleep(seconds)


def cut(_: Request) -> None:
    """Break the connection: before the request is handled, or after it, without a response."""
    raise requests.exceptions.ConnectionError("the connection was cut")


def disconnect(request: Request) -> None:
    """Refuse the connection, so that the client knows that nothing was handled; in process only."""
    cause = urllib3.exceptions.NewConnectionError(None, "no connection")  # type: ignore[arg-type]
    pool: Any = None
    raise requests.exceptions.ConnectionError(
        urllib3.exceptions.MaxRetryError(pool, request.path, cause)
    )
