"""requests' session that reads the environment once per server.

requests reads proxies, the certificates to trust and the exceptions of both from the environment at
each request, which takes a fifth of the client's CPU time.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import keystoneauth1.session
import requests


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


def read_once(session: keystoneauth1.session.Session) -> None:
    """Make a session of keystoneauth, with all its adapters, read the environment once."""
    if type(session.session) is requests.Session:
        session.session = Session(session.session)
