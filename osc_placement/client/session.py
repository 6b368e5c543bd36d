"""The session of all requests over HTTP, to Placement and to the services that it is compared with.

keystoneauth's own session follows every redirect with the token, waits for ever for a response that
arrives byte by byte, and reads a response of any size. requests reads proxies, netrc and the
certificates to trust from the environment at each request, and keeps ten connections, so that
further workers would open a connection for each request.
"""

from __future__ import annotations

import functools
import http.client
import io
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

import keystoneauth1.session
import requests
import requests.adapters
import urllib3
import urllib3.connection
import urllib3.connectionpool
import urllib3.exceptions

from osc_placement.client import api_errors

#: Connections to one server that stay open.
CONNECTIONS = 100

#: A whole response may take this many times the timeout of its parts; without a timeout, seconds.
WHOLE_RESPONSE = 5
WITHOUT_TIMEOUT = 300.0

#: The largest response, in bytes after decompression.
LARGEST_RESPONSE = 256 * 1024 * 1024

READS = frozenset({"GET", "HEAD", "OPTIONS"})

_REDIRECTS = frozenset({301, 302, 303, 305, 307, 308})
_CHUNK = 256 * 1024


class TooSlow(TimeoutError):
    """A response was not complete in time."""


class TooLarge(requests.exceptions.RequestException):
    """A response is larger than LARGEST_RESPONSE."""


class Session(requests.Session):
    """A session with the settings, adapters and cookies of another one."""

    def __init__(self, other: requests.Session) -> None:
        super().__init__()
        for name in self.__attrs__:
            setattr(self, name, getattr(other, name))
        self._settings: dict[object, Mapping[str, Any]] = {}

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request; read its response, within the limits of time and size.

        Errors: those of requests; TooLarge; Redirected, for a redirect that would send the token
        or a change elsewhere.
        """
        streams = options.get("stream")
        response = super().send(request, **{**options, "stream": True})
        if not streams:
            _read(response)
        _check_redirect(request, response)
        return response

    def get_redirect_target(self, resp: requests.Response) -> None:
        """None: keystoneauth follows the redirects that ``send`` accepts."""

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        """The settings of a request as a dictionary; they do not change within a process."""
        parts = urllib.parse.urlsplit(url)
        key = parts.scheme, parts.netloc, tuple((proxies or {}).items()), stream, verify, cert
        if key not in self._settings:
            self._settings[key] = super().merge_environment_settings(
                url, proxies, stream, verify, cert
            )
        return dict(self._settings[key])


def prepare(session: keystoneauth1.session.Session) -> None:
    """Prepare keystoneauth's own session; sessions and adapters of other classes stay."""
    if type(session.session) is not requests.Session:
        return
    for prefix, adapter in list(session.session.adapters.items()):
        if type(adapter) is keystoneauth1.session.TCPKeepAliveAdapter:
            session.session.mount(prefix, _Adapter(pool_maxsize=CONNECTIONS))
    session.session = Session(session.session)


def is_prepared(session: Any) -> bool:
    """Whether the redirects and responses of keystoneauth's session are checked."""
    return isinstance(getattr(session, "session", None), Session)


def _read(response: requests.Response) -> None:
    """Read the body as requests does, but not more than the limit."""
    parts, size = [], 0
    try:
        for part in response.iter_content(_CHUNK):
            size += len(part)
            if size > LARGEST_RESPONSE:
                response.close()
                raise TooLarge(
                    f"the response is larger than {LARGEST_RESPONSE // 1024**2} MiB", response=None
                )
            parts.append(part)
    except requests.exceptions.ConnectionError as error:
        if error.args and isinstance(error.args[0], urllib3.exceptions.ReadTimeoutError):
            raise requests.exceptions.ReadTimeout(error.args[0], request=error.request) from error
        raise
    # requests has no other way to keep a body that was read in parts.
    response._content = b"".join(parts)


def _check_redirect(request: requests.PreparedRequest, response: requests.Response) -> None:
    """Make the target of a redirect absolute. Errors: Redirected, if it must not be followed."""
    location = response.headers.get("location")
    if response.status_code not in _REDIRECTS or location is None:
        return
    url, method = str(request.url), str(request.method)
    try:
        target = urllib.parse.urljoin(url, location)
        is_same = _origin(target) == _origin(url)
    except ValueError:
        target, is_same = location, False
    # A login at keystone has no token yet; where keystone sends it is keystone's decision.
    has_token = "X-Auth-Token" in request.headers or "Authorization" in request.headers
    is_login = not has_token and urllib.parse.urlsplit(url).path.endswith("/tokens")
    is_harmless = is_same or not has_token
    if not is_login and (method not in READS or not is_harmless):
        raise api_errors.Redirected(response.status_code, target, method=method, url=url)
    response.headers["location"] = target


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port. Errors: ValueError for an invalid host or port."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


class _LimitedReader(io.RawIOBase):
    """The bytes of a response until ``end``, a time of the monotonic clock."""

    def __init__(self, raw: io.RawIOBase, sock: Any, end: float) -> None:
        self._raw, self._sock, self._end = raw, sock, end
        self._each: float | None = sock.gettimeout()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TooSlow("the response is not complete")
        self._sock.settimeout(left if self._each is None else min(left, self._each))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError as error:
            if time.monotonic() < self._end:
                raise
            raise TooSlow("the response is not complete") from error

    def close(self) -> None:
        super().close()
        self._raw.close()


class _LimitedResponse(http.client.HTTPResponse):
    """A response that has to be complete at a time."""

    def __init__(self, sock: Any, *args: Any, end: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        raw: Any = self.fp.detach()
        self.fp = io.BufferedReader(_LimitedReader(raw, sock, end))


class _Connection(urllib3.connection.HTTPConnection):
    """A connection whose requests have a limit from the first byte to the last."""

    _begin = 0.0

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request; its time begins."""
        self._begin = time.monotonic()
        super().request(*args, **options)

    def getresponse(self) -> Any:
        """Read the head of the response."""
        each = self.timeout
        limit = WHOLE_RESPONSE * each if isinstance(each, int | float) else WITHOUT_TIMEOUT
        reader: Any = functools.partial(_LimitedResponse, end=self._begin + limit)
        self.response_class = reader
        return super().getresponse()


class _TlsConnection(_Connection, urllib3.connection.HTTPSConnection):
    """The same with TLS."""


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.connectionpool.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(keystoneauth1.session.TCPKeepAliveAdapter):
    """keystoneauth's adapter with these connections, through a proxy too."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        _use_limited_connections(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager: Any = super().proxy_manager_for(*args, **options)
        _use_limited_connections(manager)
        return manager


def _use_limited_connections(manager: urllib3.PoolManager) -> None:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
