# SPDX-License-Identifier: Apache-2.0
"""A Placement with prepared responses, for tests of the client."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from osc_placement.client import api, wsgi
from osc_placement.microversion import Microversion


class Request(NamedTuple):
    """A request that an application received; ``body`` is the JSON, None without a body."""

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
            environ["PATH_INFO"].encode("latin-1").decode(),
            environ["QUERY_STRING"],
            version and version.removeprefix("placement "),
            json.loads(body) if body else None,
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


class App:
    """A WSGI callable that records requests and returns its replies one by one."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self.requests: list[Request] = []
        self.closed = 0
        self._replies = list(replies)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.requests.append(Request.read(environ))
        return self._replies.pop(0).send(start_response)

    def close(self) -> None:
        self.closed += 1


def client(
    *replies: Reply, version: str | None = "1.39", latest: bool = False
) -> tuple[api.Client, App]:
    """A client, and its application."""
    app = App(replies)
    pinned = None if version is None else Microversion.parse(version)
    return api.Client(wsgi.in_process(lambda: app, "a script"), pinned, latest=latest), app


def versions(lowest: str, highest: str) -> Reply:
    """The version document."""
    return Reply(body={"versions": [{"min_version": lowest, "max_version": highest}]})


def fault(status: int, detail: str, code: str | None = None) -> Reply:
    """Placement's error body."""
    error: dict[str, Any] = {"status": status, "detail": detail, "request_id": "req-1"}
    return Reply(status, {"errors": [error | ({"code": code} if code else {})]})
