# SPDX-License-Identifier: Apache-2.0
"""A forwarding proxy in front of Placement that records allocation candidates queries.

It forwards every request with the credentials of the sender.
"""

from __future__ import annotations

import json
import logging
import pathlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

from osc_placement import errors
from osc_placement.client import api
from osc_placement.plan.file import explained, is_of_another_kind, private
from osc_placement.workflows.snapshot import replay

LOG = logging.getLogger(__name__)

_THREADS = 16
_CANDIDATES = "/allocation_candidates"

#: Headers that describe one connection, and those that the next hop sets itself.
_NOT_FORWARDED = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Proxy:
    """A listening proxy for 127.0.0.1; ``recorded`` counts the queries in the file."""

    def __init__(self, client: api.Client, path: pathlib.Path, port: int) -> None:
        """Listen; a port of 0 is chosen. Errors: PlacementError."""
        self.recorded = 0
        self._client = client
        self._writing = threading.Lock()
        with errors.needs_extra("server", "a proxy on a port"):
            import waitress.server
        if is_of_another_kind(path, b'{"query": '):
            raise errors.PlacementError(
                f"{path} exists and is not a recording of queries: give another file"
            )
        with explained(path):
            self._file = open(  # noqa: SIM115 - ``run`` closes it
                path, "a", encoding="utf-8", opener=private
            )
        try:
            self._server = waitress.server.create_server(
                self._handle, host="127.0.0.1", port=port, threads=_THREADS, ident=None
            )
        except OSError as error:
            self._file.close()
            raise errors.PlacementError(
                f"port {port} of 127.0.0.1 cannot be used: {error.strerror}; give another port"
            ) from error
        self.url = f"http://127.0.0.1:{self._server.effective_port}"

    def run(self) -> None:
        """Forward requests until Ctrl-C, or ``stop``."""
        try:
            self._server.run()
        finally:
            self._file.close()

    def stop(self) -> None:
        """End ``run``, from another thread: the thread of ``run`` closes the sockets."""
        self._server.trigger.pull_trigger(self._server.close)

    def _handle(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
        method = environ["REQUEST_METHOD"]
        try:
            response = self._client.transport.request(
                method,
                f"{path}?{query}" if query else path,
                headers=_headers(environ),
                data=environ["wsgi.input"].read(),
                authenticated=False,
            )
        except errors.PlacementError as error:
            LOG.warning("%s %s: %s", method, path, error)
            start_response("502 Bad Gateway", [("content-type", "text/plain")])
            return [f"{error}\n".encode()]
        if method == "GET" and path == _CANDIDATES and response.status_code == 200:
            self._record(query, environ.get("HTTP_OPENSTACK_API_VERSION", ""), response.content)
        kept = [
            (name, value)
            for name, value in response.headers.items()
            if name.lower() not in _NOT_FORWARDED
        ]
        start_response(f"{response.status_code} {response.reason}", kept)
        return [response.content]

    def _record(self, query: str, header: str, content: bytes) -> None:
        version = header.rpartition(" ")[2] or "1.0"
        line = replay.record(query, version, json.loads(content))
        with self._writing:
            self._file.write(line)
            self._file.flush()
            self.recorded += 1


def _headers(environ: dict[str, Any]) -> dict[str, str]:
    """The headers of a WSGI request that the proxy forwards."""
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        headers["content-type"] = environ["CONTENT_TYPE"]
    return {name: value for name, value in headers.items() if name not in _NOT_FORWARDED}
