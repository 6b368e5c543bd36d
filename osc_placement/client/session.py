"""requests' session for many requests to one server.

requests reads proxies, netrc and the certificates to trust from the environment at each request,
and merges settings, cookies and hooks of the session into it: half of the client's CPU time per
request. It also keeps ten connections, so that further workers would open a connection for each
request.
"""

from __future__ import annotations

import datetime
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any

import keystoneauth1.session
import requests
import requests.adapters
import requests.utils

#: Connections to one server that stay open.
CONNECTIONS = 100

#: The options of keystoneauth that need no preparation by requests.
_PLAIN = frozenset({"headers", "data", "timeout", "verify", "cert", "allow_redirects"})


class Session(requests.Session):
    """A session with the settings, adapters and cookies of another one."""

    def __init__(self, other: requests.Session) -> None:
        super().__init__()
        for name in self.__attrs__:
            setattr(self, name, getattr(other, name))
        self._settings: dict[object, Mapping[str, Any]] = {}
        self._credentials: dict[str, bool] = {}

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request; with requests' own preparation only where that has an effect.

        Without cookies, credentials and hooks, the preparation is nothing but headers and body.
        """
        if args or not self._is_plain(url, options):
            return super().request(method, url, *args, **options)
        request = requests.PreparedRequest()
        request.prepare_method(method)
        request.url = url
        request.prepare_headers({**self.headers, **options.get("headers", {})})
        request.prepare_body(options.get("data"), None)
        settings = self.merge_environment_settings(
            url, {}, False, options.get("verify"), options.get("cert")
        )
        start = time.perf_counter()
        response = self.get_adapter(url).send(request, timeout=options.get("timeout"), **settings)
        response.elapsed = datetime.timedelta(seconds=time.perf_counter() - start)
        self.cookies.update(response.cookies)
        _ = response.content  # Reads the body, so that the connection can be used again.
        return response

    def _is_plain(self, url: str, options: Mapping[str, Any]) -> bool:
        """Whether requests would add nothing to the request, and return its response as it is."""
        return (
            options.keys() <= _PLAIN
            and options.get("allow_redirects") is False
            and url.isascii()
            and not (self.auth or self.params or self.cookies or self.hooks["response"])
            and not self._has_credentials(url)
        )

    def _has_credentials(self, url: str) -> bool:
        """Whether the URL or netrc has a user and a password; netrc is read once per server."""
        server = urllib.parse.urlsplit(url).netloc
        if server not in self._credentials:
            netrc = requests.utils.get_netrc_auth(url) if self.trust_env else None
            self._credentials[server] = "@" in server or netrc is not None
        return self._credentials[server]

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
    """Prepare keystoneauth's own session for many requests; others stay as they are."""
    if type(session.session) is not requests.Session:
        return
    for adapter in set(session.session.adapters.values()):
        if isinstance(adapter, requests.adapters.HTTPAdapter):
            adapter.init_poolmanager(requests.adapters.DEFAULT_POOLSIZE, CONNECTIONS)
    session.session = Session(session.session)
