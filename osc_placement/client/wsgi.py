# SPDX-License-Identifier: Apache-2.0
"""Requests to a WSGI callable in this process, without a socket."""

from __future__ import annotations

import io
import sys
import threading
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import keystoneauth1.adapter
import keystoneauth1.session
import keystoneauth1.token_endpoint
import requests
import requests.adapters

from osc_placement.client.local import LocalPlacement
from osc_placement.client.transport import EMBEDDED_URL, Transport

#: The identity of requests to the embedded server: access to the file grants every right.
_EMBEDDED_TOKEN = "admin"  # noqa: S105
_EMBEDDED_HEADERS = {"x-roles": "admin,service"}


class WsgiApp(Protocol):
    """A WSGI callable with resources that ``close`` releases."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any: ...

    def close(self) -> None: ...


def in_process(open_app: Callable[[], WsgiApp], place: str) -> Transport:
    """A transport to a WSGI callable in this process, opened at the first request."""
    http = requests.Session()
    http.trust_env = False
    mounted = WsgiAdapter(open_app)
    http.mount(EMBEDDED_URL, mounted)
    session = keystoneauth1.session.Session(
        session=http,
        auth=keystoneauth1.token_endpoint.Token(EMBEDDED_URL, _EMBEDDED_TOKEN),
        additional_headers=dict(_EMBEDDED_HEADERS),
    )
    adapter = keystoneauth1.adapter.Adapter(session, endpoint_override=EMBEDDED_URL)
    return Transport(adapter, place, local=mounted.local)


class WsgiAdapter(requests.adapters.BaseAdapter):
    """A requests adapter that calls a WSGI application without a socket."""

    def __init__(self, open_app: Callable[[], WsgiApp]) -> None:
        super().__init__()
        self._open_app = open_app
        self._app: WsgiApp | None = None
        self._lock = threading.Lock()

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Call the application and return its response."""
        head: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            head.update(status=status, headers=headers)

        parts = self.application()(_environ(request), start_response)
        try:
            content = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
        return _response(request, head["status"], head["headers"], content)

    def close(self) -> None:
        """Close the application, if one was opened."""
        with self._lock:
            app, self._app = self._app, None
        if app is not None:
            app.close()

    def local(self) -> LocalPlacement | None:
        """The application, if it is a Placement with more than its API."""
        app = self.application()
        return app if isinstance(app, LocalPlacement) else None

    def application(self) -> WsgiApp:
        """The application, opened if necessary."""
        with self._lock:
            if self._app is None:
                self._app = self._open_app()
            return self._app


def _environ(request: requests.PreparedRequest) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(request.url or "")
    body = request.body or b""
    content = body.encode() if isinstance(body, str) else bytes(body)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": urllib.parse.unquote_to_bytes(parts.path or "/").decode("latin-1"),
        "QUERY_STRING": parts.query,
        "SERVER_NAME": parts.hostname,
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": io.BytesIO(content),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    environ.update(_header_variables(request.headers.items()))
    return environ


def _header_variables(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    variables = {}
    for name, value in headers:
        variable = name.upper().replace("-", "_")
        prefix = "" if variable in {"CONTENT_TYPE", "CONTENT_LENGTH"} else "HTTP_"
        variables[prefix + variable] = value
    return variables


def _response(
    request: requests.PreparedRequest,
    status: str,
    headers: list[tuple[str, str]],
    content: bytes,
) -> requests.Response:
    response = requests.Response()
    code, _, response.reason = status.partition(" ")
    response.status_code = int(code)
    response.headers.update(headers)
    response.url = request.url or ""
    response.request = request
    response.raw = io.BytesIO(content)
    return response
