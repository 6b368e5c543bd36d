"""requests' session for many requests to one server.

requests reads proxies, the certificates to trust and the exceptions of both from the environment at
each request, which takes a fifth of the client's CPU time; and it keeps ten connections, so that
further workers would open a connection for each request.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import keystoneauth1.session
import requests
import requests.adapters

#: Connections to one server that stay open.
CONNECTIONS = 100


class Session(requests.Session):
    """A session with the settings, adapters and cookies of another one."""

    def __init__(self, other: requests.Session) -> None:
        super().__init__()
        for name in self.__attrs__:
            setattr(self, name, getattr(other, name))
        self._settings: dict[object, Mapping[str, Any]] = {}

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
