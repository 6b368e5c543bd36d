# SPDX-License-Identifier: Apache-2.0
"""Requests to a WSGI callable in this process, without a socket."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any, Protocol

import keystoneauth1.adapter
import keystoneauth1.session
import keystoneauth1.token_endpoint
import requests
import requests.adapters

from osc_placement.client.local import LocalPlacement
from osc_placement.client.transport import EMBEDDED_URL, Transport

#: The identity of requests to the reference server: access to the file grants every right.
_EMBEDDED_TOKEN = "admin"  # noqa: S105
_EMBEDDED_HEADERS = {"x-roles": "admin,service"}

_ENVIRONMENT = {"REMOTE_ADDR": "127.0.0.1", "wsgi.multithread": True}


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
        application = self.application()
        # Imported here: commands that talk to a cloud do not need it. A Placement imports it too.
        import webob

        body = request.body or b""
        sent = webob.Request.blank(
            request.url,
            _ENVIRONMENT,
            method=request.method,
            headers=dict(request.headers),
            body=body.encode() if isinstance(body, str) else bytes(body),
        )
        status, headers, parts = sent.call_application(application)
        try:
            content = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
        return _response(request, status, headers, content)

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
