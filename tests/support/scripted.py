# SPDX-License-Identifier: Apache-2.0
"""A Placement with prepared responses, for tests of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from osc_placement.client import api, wsgi
from osc_placement.microversion import Microversion
from osc_placement.testing.traffic import Reply, Request, error_reply as fault

__all__ = ["App", "Reply", "Request", "client", "fault", "versions"]


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
