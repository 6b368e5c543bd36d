# SPDX-License-Identifier: Apache-2.0
"""A small identity service: tokens that expire, and a catalog with one endpoint."""

from __future__ import annotations

import json
from typing import Any

from tests.support.peer import faults

PATH = "/identity/v3"
JSON = {"content-type": "application/json"}
LIFETIME = {"issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2999-01-01T00:00:00.000000Z"}

Answer = tuple[int, dict[str, str], bytes]


class Identity:
    """Gives a new token for each authentication; ``endpoint`` is Placement's in the catalog.

    Without an endpoint the catalog lists only this service. With ``locked``, no authentication
    succeeds after the tokens have expired.
    """

    def __init__(self, endpoint: str | None = "", *, locked: bool = False) -> None:
        self.endpoint, self.locked = endpoint, locked
        self.url = ""
        self.tokens = faults.Tokens()

    def options(self, proxy: str) -> list[str]:
        """The options of ``openstack`` that authenticate here; ``proxy`` is the proxy's URL."""
        self.url = proxy
        if self.endpoint == "":
            self.endpoint = proxy
        values = {"auth-url": proxy + PATH, "username": "op", "password": "secret"}
        values |= {"project-name": "admin", "user-domain-id": "default"}
        values |= {"project-domain-id": "default", "auth-type": "password"}
        return [word for name, value in values.items() for word in (f"--os-{name}", value)]

    def answer(self, method: str, path: str, body: bytes | None) -> Answer:
        """The response to a request: discovery, or authentication."""
        if method == "GET":
            links = [{"rel": "self", "href": PATH}]
            version = {"id": "v3.14", "status": "stable", "links": links, "media-types": []}
            return 200, JSON, json.dumps({"version": version}).encode()
        if self.locked and self.tokens.has_expired:
            return 401, JSON, b'{"error": {"code": 401, "message": "The account is locked"}}'
        token: dict[str, Any] = {
            **LIFETIME,
            "methods": ["password"],
            "user": {"id": "op", "name": "op", "domain": {"id": "default", "name": "Default"}},
            "project": {"id": "p", "name": "admin", "domain": {"id": "default", "name": "Default"}},
            "roles": [{"id": "admin", "name": "admin"}],
            "catalog": self._catalog(),
        }
        headers = {**JSON, "x-subject-token": self.tokens.issue()}
        return 201, headers, json.dumps({"token": token}).encode()

    def _catalog(self) -> list[dict[str, Any]]:
        urls = {"identity": self.url + PATH, "placement": self.endpoint}
        return [
            {
                "id": name,
                "type": name,
                "name": name,
                "endpoints": [
                    {"id": name, "interface": "public", "region": "R", "region_id": "R", "url": url}
                ],
            }
            for name, url in urls.items()
            if url is not None
        ]
