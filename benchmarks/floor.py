# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of the reference server without any work: ``python -m benchmarks.floor PORT``.

It has the same waitress set-up and the same WSGI entry point. ``POST /`` sets the body of all
further responses; what a client measures then is the least that any server in Python can take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from osc_placement.server import run

_HEADERS = [("content-type", "application/json"), ("openstack-api-version", "placement 1.39")]


class Floor:
    """A WSGI application that answers every request with the bytes of the last ``POST /``."""

    def __init__(self) -> None:
        self._body = b""

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        sent = environ["wsgi.input"].read()
        if environ["REQUEST_METHOD"] == "POST" and environ["PATH_INFO"] == "/":
            self._body = sent
        start_response("200 OK", [*_HEADERS, ("content-length", str(len(self._body)))])
        return [self._body]


def main() -> None:
    server = run.HttpServer(Floor(), "127.0.0.1", int(sys.argv[1]), run.THREADS)
    server.stop_on_signals()
    server.run()


if __name__ == "__main__":
    main()
