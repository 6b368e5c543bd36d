# SPDX-License-Identifier: Apache-2.0
"""The embedded Placement server for tests.

``InProcessPlacement`` has no socket and starts in milliseconds; ``LoopbackPlacement`` listens
on 127.0.0.1, for software with its own HTTP client. Both accept the options of
``osc_placement.server.create_app`` and are context managers::

    with LoopbackPlacement(load="12-hosts") as placement:
        requests.get(placement.url, headers={"x-auth-token": "admin"})

Without ``database`` the state is in memory, and lost after ``stop``.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Mapping
from typing import Any, Self

import keystoneauth1.session
import keystoneauth1.token_endpoint
import requests

from osc_placement import microversion, server
from osc_placement.client import api, transport, wsgi
from osc_placement.samples import sample
from osc_placement.server import run

#: The headers of an identity with the roles admin and service.
ADMIN_HEADERS: Mapping[str, str] = {"x-auth-token": "admin", "x-roles": "admin,service"}


class EmbeddedPlacement(abc.ABC):
    """The base class of both servers.

    ``load`` is the name of a sample cloud or a document of that format. ``options`` are
    passed to ``create_app``; its docstring lists the errors.
    """

    def __init__(self, *, load: str | Mapping[str, Any] | None = None, **options: Any) -> None:
        self._document = sample.sample_cloud(load) if isinstance(load, str) else load
        self._options = options
        self._app: server.App | None = None

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The URL of the service root. Raises RuntimeError before ``start``."""

    @abc.abstractmethod
    def session(self) -> requests.Session:
        """A session for the server that sends ADMIN_HEADERS with each request."""

    @abc.abstractmethod
    def client(self, version: microversion.Microversion | None = None) -> api.Client:
        """This package's client of the server; ``version`` pins the microversion."""

    def start(self) -> Self:
        """Start the server; it is ready on return. Raises RuntimeError if it is running."""
        if self._app is not None:
            raise RuntimeError("this Placement is running already")
        self._app = server.create_app(load=self._document, **self._options)
        return self

    def stop(self) -> None:
        """Stop the server and close its database; a second call has no effect."""
        app, self._app = self._app, None
        if app is not None:
            app.close()

    @property
    def app(self) -> server.App:
        """The WSGI callable. Raises RuntimeError before ``start``."""
        if self._app is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return self._app

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class InProcessPlacement(EmbeddedPlacement):
    """A server without a socket: only its own sessions and clients can resolve ``url``."""

    @property
    def url(self) -> str:
        return transport.EMBEDDED_URL

    def session(self) -> requests.Session:
        app = self.app
        session = _admin_session()
        session.mount(self.url, wsgi.WsgiAdapter(lambda: _SharedApp(app)))
        return session

    def client(self, version: microversion.Microversion | None = None) -> api.Client:
        app = self.app
        return api.Client(wsgi.in_process(lambda: _SharedApp(app), "the embedded server"), version)


class LoopbackPlacement(EmbeddedPlacement):
    """A server on a free port of 127.0.0.1, in a thread of this process."""

    _listener: run.HttpServer | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        if self._listener is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return self._listener.url

    def start(self) -> Self:
        super().start()
        self._listener = run.HttpServer(self.app, "127.0.0.1", 0, self.app.threads, self.app.stop)
        self._thread = threading.Thread(target=self._listener.run, daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None and self._thread is not None:
            listener.stop()
            self._thread.join()
        super().stop()

    def session(self) -> requests.Session:
        return _admin_session()

    def client(self, version: microversion.Microversion | None = None) -> api.Client:
        session = keystoneauth1.session.Session(
            auth=keystoneauth1.token_endpoint.Token(self.url, ADMIN_HEADERS["x-auth-token"]),
            additional_headers={"x-roles": ADMIN_HEADERS["x-roles"]},
        )
        return api.Client(transport.over_session(session, endpoint=self.url), version)


class _SharedApp:
    """An application whose ``close`` has no effect, because its owner closes it."""

    def __init__(self, app: server.App) -> None:
        self._app = app
        self.repository, self.saved_cloud = app.repository, app.saved_cloud
        self.database, self.users = app.database, app.users

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self._app(environ, start_response)

    def close(self) -> None:
        """Do nothing."""


def _admin_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.headers.update(ADMIN_HEADERS)
    return session
