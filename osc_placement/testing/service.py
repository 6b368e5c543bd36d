# SPDX-License-Identifier: Apache-2.0
"""Placement, nova and neutron for tests.

``InProcessPlacement`` has no socket and starts in milliseconds; ``LoopbackPlacement`` listens
on 127.0.0.1, for software with its own HTTP client. Both are context managers, and fixtures for
``useFixture`` of testtools and fixtures::

    with LoopbackPlacement(load="12-hosts") as placement:
        requests.get(placement.url, headers={"x-auth-token": "admin"})

``RecordedServices`` answers as nova and neutron did when a sample cloud was recorded.
"""

from __future__ import annotations

import abc
import collections
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import keystoneauth1.adapter
import keystoneauth1.session
import keystoneauth1.token_endpoint
import requests

from osc_placement import errors, microversion, server
from osc_placement.client import api, transport, wsgi
from osc_placement.neutron.api import RecordedNeutron
from osc_placement.nova.api import RecordedNova
from osc_placement.samples import sample
from osc_placement.server import run
from osc_placement.testing import cloud, traffic

#: The headers of an identity with the roles admin and service.
ADMIN_HEADERS: Mapping[str, str] = {"x-auth-token": "admin", "x-roles": "admin,service"}


class Fixture(abc.ABC):
    """Something that starts and stops: by hand, as a context manager, or by ``useFixture``."""

    @abc.abstractmethod
    def start(self) -> Self:
        """Start; it is ready on return. Raises RuntimeError if it is running."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop; a second call has no effect."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def setUp(self) -> None:
        """``start``, for ``useFixture``."""
        self.start()

    def cleanUp(self, raise_first: bool = True) -> None:  # noqa: N802
        """``stop``, for ``useFixture``."""
        self.stop()

    def getDetails(self) -> dict[str, Any]:  # noqa: N802
        """Nothing to add to the report of a failed test."""
        return {}


class EmbeddedPlacement(Fixture):
    """The base class of both servers.

    ``load``: the name of a sample cloud, a ``Cloud``, or a document (``testing.cloud``), of which
    missing keys are empty. ``max_version``: the last microversion that the server has, as an older
    release. ``options`` are passed to ``create_app``; its docstring lists the errors.
    """

    def __init__(
        self,
        *,
        load: str | Mapping[str, Any] | cloud.Cloud | None = None,
        max_version: str | None = None,
        **options: Any,
    ) -> None:
        self._document = _document(load)
        self._options = options
        self._app: server.App | None = None
        self._traffic = traffic.Traffic(None, _pinned(max_version))

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The URL of the service root. Raises RuntimeError before ``start``."""

    @abc.abstractmethod
    def session(self) -> requests.Session:
        """A session for the server that sends ADMIN_HEADERS with each request."""

    def adapter(
        self,
        version: str | None = None,
        *,
        token: str = "admin",  # noqa: S107
        roles: Sequence[str] = ("admin", "service"),
    ) -> keystoneauth1.adapter.Adapter:
        """A keystoneauth adapter that sends this microversion and these roles with each request.

        ``version``: "1.39", "latest", or None for none, which is 1.0. ``token``: ``USER`` or
        ``USER:PROJECT``.
        """
        session = keystoneauth1.session.Session(
            session=self.session(),
            auth=keystoneauth1.token_endpoint.Token(self.url, token),
            additional_headers={"x-roles": ",".join(roles)},
        )
        return keystoneauth1.adapter.Adapter(
            session,
            service_type=transport.SERVICE_TYPE,
            endpoint_override=self.url,
            default_microversion=version,
        )

    @abc.abstractmethod
    def client(self, version: str | microversion.Microversion | None = None) -> api.Client:
        """This package's client of the server; ``version`` ("1.39") pins the microversion."""

    def rival(self) -> api.Client:
        """Another client, for actions: its requests are not recorded, and meet no action."""
        unrecorded = _SharedApp(self, lambda *arguments: self.app(*arguments))
        in_process = wsgi.in_process(lambda: unrecorded, "the reference server")
        return api.Client(in_process, microversion.MAXIMUM)

    def start(self) -> Self:
        """Start the server; it is ready on return. Raises RuntimeError if it is running."""
        if self._app is not None:
            raise RuntimeError("this Placement is running already")
        self._app = server.create_app(load=self._document, **self._options)
        self._traffic.app = self._app
        return self

    def stop(self) -> None:
        """Stop the server and close its database; a second call has no effect."""
        app, self._app = self._app, None
        if app is not None:
            app.close()

    def reset(self, load: str | Mapping[str, Any] | cloud.Cloud | None = None) -> None:
        """Return to the content of the start, or to ``load``; forget requests and actions.

        The URL and all clients stay valid. Raises RuntimeError for a server with ``database``.
        """
        if self._options.get("database") is not None:
            raise RuntimeError("a Placement with a database file cannot be reset")
        document = self._document if load is None else _document(load)
        former, self._app = self.app, server.create_app(load=document, **self._options)
        self._traffic.app = self._app
        self._traffic.reset()
        former.close()

    @property
    def app(self) -> server.App:
        """The WSGI callable. Raises RuntimeError before ``start``."""
        if self._app is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return self._app

    @property
    def requests(self) -> list[traffic.Request]:
        """The requests received, in their order; a test may clear the list."""
        return self._traffic.sent

    def count(self) -> collections.Counter[str]:
        """The number of requests received: ``{"PUT /resource_providers/{}/traits": 1}``."""
        return self._traffic.count()

    def before(self, action: traffic.Action) -> None:
        """Run ``action`` before each request is handled; it replaces the last one."""
        self._traffic.before = _checked(action)

    def after(self, action: traffic.Action) -> None:
        """Run ``action`` after a request was handled, before its response is sent."""
        self._traffic.after = _checked(action)

    def before_write(self, action: traffic.Action) -> None:
        """Run ``action`` before each write is handled."""
        self.before(traffic.writes(action))

    def after_write(self, action: traffic.Action) -> None:
        """Run ``action`` after each write was handled."""
        self.after(traffic.writes(action))

    def export(self) -> dict[str, Any]:
        """The whole state, as a document that ``load`` accepts."""
        return self.app.export()


class InProcessPlacement(EmbeddedPlacement):
    """A server without a socket: only its own sessions, adapters and clients can reach ``url``."""

    @property
    def url(self) -> str:
        return transport.EMBEDDED_URL

    def session(self) -> requests.Session:
        session = _admin_session()
        session.mount(self.url, wsgi.WsgiAdapter(self._shared()))
        return session

    def client(self, version: str | microversion.Microversion | None = None) -> api.Client:
        return api.Client(wsgi.in_process(self._shared(), "the reference server"), _pinned(version))

    def _shared(self) -> Callable[[], wsgi.WsgiApp]:
        if self._app is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return lambda: _SharedApp(self, self._traffic)


class LoopbackPlacement(EmbeddedPlacement):
    """A server on a free port of 127.0.0.1, in a thread of this process. Needs waitress."""

    _listener: _Listener | None = None

    @property
    def url(self) -> str:
        if self._listener is None:
            raise RuntimeError("this Placement is not running: call start() first")
        return self._listener.url

    def start(self) -> Self:
        super().start()
        self._listener = _Listener(self._traffic, run.THREADS)
        return self

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
        super().stop()

    def session(self) -> requests.Session:
        return _admin_session()

    def client(self, version: str | microversion.Microversion | None = None) -> api.Client:
        adapter = self.adapter()
        over_session = transport.over_session(adapter.session, endpoint=self.url)
        return api.Client(over_session, _pinned(version))


class RecordedServices(Fixture):
    """Nova and neutron on a free port of 127.0.0.1, with recorded responses.

    ``recording`` is the name of a sample cloud with responses, a ``Cloud``, or
    ``{"GET /v2.1/servers/detail": body}``; another key is a ValueError. A request that was not
    recorded gets 404, and a write 405. ``requests`` has the method and the path with the query of
    each request. Needs waitress.
    """

    def __init__(self, recording: str | Mapping[str, Any] | cloud.Cloud = "12-hosts") -> None:
        recording = recording.nova() if isinstance(recording, cloud.Cloud) else recording
        self.recorded = sample.sample_nova(recording) if isinstance(recording, str) else recording
        wrong = [repr(key) for key in self.recorded if not str(key).startswith("GET /")]
        if wrong:
            raise ValueError(
                f"the recording has {', '.join(wrong)}: its keys are like 'GET /v2.1/os-aggregates'"
            )
        self.requests: list[str] = []
        self._listener: _Listener | None = None

    @property
    def nova_url(self) -> str:
        """The endpoint of nova, as in a catalog. Raises RuntimeError before ``start``."""
        return f"{self._url}/v2.1"

    @property
    def neutron_url(self) -> str:
        """The endpoint of neutron, as in a catalog. Raises RuntimeError before ``start``."""
        return self._url

    @property
    def _url(self) -> str:
        if self._listener is None:
            raise RuntimeError("these services are not running: call start() first")
        return self._listener.url

    def start(self) -> Self:
        if self._listener is not None:
            raise RuntimeError("these services are running already")
        self._listener = _Listener(self._call, 4)
        return self

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()

    def answer(self, path: str, query: Mapping[str, str], version: str) -> tuple[str, Any]:
        """``(status line, body)`` of a GET; ``version`` is the header of the microversion."""
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        if f"GET {target}" in self.recorded:
            return "200 OK", self.recorded[f"GET {target}"]
        try:
            if path.startswith("/v2.0/"):
                neutron = RecordedNeutron(self.recorded, "the recording")
                return "200 OK", neutron.ask(target.removeprefix("/v2.0"))
            nova = RecordedNova(self.recorded, "the recording")
            return "200 OK", nova.ask(target.removeprefix("/v2.1"), "")
        except errors.PlacementError as error:
            return "404 Not Found", {"itemNotFound": {"code": 404, "message": str(error)}}

    def _call(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        self.requests.append(f"{environ['REQUEST_METHOD']} {path}{query and '?'}{query}")
        status, body = "405 Method Not Allowed", {"badMethod": {"code": 405, "message": ""}}
        if path.rstrip("/") in ("", "/v2.1", "/v2.0"):
            status, body = "200 OK", self._versions(path.rstrip("/"))
        elif environ["REQUEST_METHOD"] == "GET":
            version = environ.get("HTTP_OPENSTACK_API_VERSION", "")
            status, body = self.answer(path, dict(urllib.parse.parse_qsl(query)), version)
        start_response(status, [("content-type", "application/json")])
        return [json.dumps(body).encode()]

    def _versions(self, path: str) -> dict[str, Any]:
        def document(name: str, **versions: str) -> dict[str, Any]:
            links = [{"rel": "self", "href": f"{self._url}/{name}"}]
            return {"id": name, "status": "CURRENT", "links": links, **versions}

        if path == "/v2.1":
            return {"version": document("v2.1", version="2.104", min_version="2.1")}
        return {"versions": [document("v2.0")]}


class _Listener:
    """An application on a free port, in a thread."""

    def __init__(self, app: Any, threads: int) -> None:
        self._app = app
        self._http = run.HttpServer(self._call, "127.0.0.1", 0, threads)
        self.url = self._http.url
        self._thread = threading.Thread(target=self._http.run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close every connection, and the port."""
        self._http.stop()
        self._thread.join()

    def _call(self, environ: dict[str, Any], start_response: Any) -> Any:
        from waitress import channel

        try:
            return self._app(environ, start_response)
        except requests.ConnectionError as error:
            # waitress closes the connection without a response.
            raise channel.ClientDisconnected from error


class _SharedApp:
    """An application whose ``close`` has no effect, because its owner closes it."""

    def __init__(self, placement: EmbeddedPlacement, call: Callable[..., Any]) -> None:
        self._placement, self._call = placement, call

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self._call(environ, start_response)

    # What ``client.local.LocalPlacement`` has, also after a reset. Properties, because since
    # Python 3.12 a protocol is not satisfied by ``__getattr__``.
    repository = property(lambda self: self._placement.app.repository)
    saved_cloud = property(lambda self: self._placement.app.saved_cloud)
    database = property(lambda self: self._placement.app.database)
    tables = property(lambda self: self._placement.app.tables)
    users = property(lambda self: self._placement.app.users)
    load_for_writing = property(lambda self: self._placement.app.load_for_writing)

    def close(self) -> None:
        """Do nothing."""


def _checked(action: traffic.Action) -> traffic.Action:
    if not callable(action):
        raise TypeError(f"{action!r} is not an action: see osc_placement.testing.traffic")
    return action


def _pinned(version: str | microversion.Microversion | None) -> microversion.Microversion | None:
    return None if version is None else microversion.supported(version)


def _document(load: str | Mapping[str, Any] | cloud.Cloud | None) -> dict[str, Any] | None:
    if isinstance(load, str):
        return sample.sample_cloud(load)
    if isinstance(load, cloud.Cloud):
        return load.document()
    if load is None or isinstance(load, Mapping):
        return None if load is None else cloud.complete(load)
    raise TypeError(f"load is {load!r}, not a sample cloud's name, a Cloud or a document")


def _admin_session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.headers.update(ADMIN_HEADERS)
    return session
