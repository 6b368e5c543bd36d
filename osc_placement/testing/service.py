"""The embedded Placement as an object that a test starts and stops.

``InProcessPlacement`` has no socket and starts in milliseconds; ``LoopbackPlacement``
listens on 127.0.0.1, for software that brings its own HTTP client. Both take
the options of ``osc_placement.server.create_app`` and are context managers::

    with LoopbackPlacement(load="12-hosts") as placement:
        requests.get(placement.url, headers={"x-auth-token": "admin"})

Without ``database`` the state is in memory and gone after ``stop``.
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
from osc_placement.client import api, transport
from osc_placement.samples import sample
from osc_placement.server import serve

#: Whoever sends these may do everything, as far as the server's policy goes.
ADMIN_HEADERS: Mapping[str, str] = {"x-auth-token": "admin", "x-roles": "admin,service"}


class EmbeddedPlacement(abc.ABC):
    """What both have in common.

    ``load`` is a sample cloud's name or a document of that form; ``options`` go to
    ``create_app``, which also says what it raises when they are wrong.
    """

    def __init__(self, *, load: str | Mapping[str, Any] | None = None, **options: Any) -> None:
        self._document = sample.sample_cloud(load) if isinstance(load, str) else load
        self._options = options
        self._app: server.App | None = None

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Where the service root is; RuntimeError while it is not started."""

    @abc.abstractmethod
    def session(self) -> requests.Session:
        """A session that reaches the server, and sends ADMIN_HEADERS with each request."""

    @abc.abstractmethod
    def client(self, version: microversion.Microversion | None = None) -> api.Client:
        """This package's own client of the server; ``version`` pins the microversion."""

    def start(self) -> Self:
        """Ready to answer when it returns. RuntimeError when it is running already."""
        if self._app is not None:
            raise RuntimeError("this Placement is running already")
        self._app = server.create_app(load=self._document, **self._options)
        return self

    def stop(self) -> None:
        """Let go of everything; a second call does nothing."""
        app, self._app = self._app, None
        if app is not None:
            app.close()

    @property
    def app(self) -> server.App:
        """The WSGI callable; RuntimeError while it is not started."""
        if self._app is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return self._app

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class InProcessPlacement(EmbeddedPlacement):
    """Reached by sessions of its own alone: ``url`` is a name that nobody else resolves."""

    @property
    def url(self) -> str:
        return transport.EMBEDDED_URL

    def session(self) -> requests.Session:
        app = self.app
        session = _admin_session()
        session.mount(self.url, transport.WsgiAdapter(lambda: _Lent(app)))
        return session

    def client(self, version: microversion.Microversion | None = None) -> api.Client:
        app = self.app
        return api.Client(transport.in_process(lambda: _Lent(app), "the embedded server"), version)


class LoopbackPlacement(EmbeddedPlacement):
    """On 127.0.0.1, on a port that the kernel chooses, in a thread of this process."""

    _listener: serve.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        if self._listener is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return self._listener.url

    def start(self) -> Self:
        super().start()
        self._listener = serve.Server(self.app, "127.0.0.1", 0, self.app.threads)
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


class _Lent:
    """An application that outlives its borrower: closing it does nothing."""

    def __init__(self, app: server.App) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self._app(environ, start_response)

    def close(self) -> None:
        """The owner closes it."""


def _admin_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.headers.update(ADMIN_HEADERS)
    return session
