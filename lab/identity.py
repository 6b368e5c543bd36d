# SPDX-License-Identifier: Apache-2.0
"""The part of keystone's API that the lab and its tests use: users, roles, catalog, tokens."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

from lab import place

DOMAIN = {"id": "default"}

#: (user, project, roles); ``robot`` is a service without the role admin.
USERS = (
    ("nova", "service", ("admin", "service")),
    ("placement", "service", ("admin", "service")),
    ("neutron", "service", ("admin", "service")),
    ("robot", "service", ("service",)),
    ("alice", "acme", ("member", "reader")),
    ("bob", "globex", ("member", "reader")),
    ("rita", "acme", ("reader",)),
)

PROJECT = {"project": {"name": "admin", "domain": DOMAIN}}


class Keystone:
    """A session of one user. ``scope`` has the form of keystone's API."""

    def __init__(
        self, lab: place.Place, user: str = "admin", scope: Mapping[str, Any] | str = PROJECT
    ) -> None:
        self._lab = lab
        self.token = ""
        who = {"name": user, "domain": DOMAIN, "password": place.PASSWORD}
        self._enter({"methods": ["password"], "password": {"user": who}}, scope)

    @classmethod
    def by_credential(cls, lab: place.Place, number: str, secret: str) -> Keystone:
        """A session with an application credential."""
        made = cls.__new__(cls)
        made._lab, made.token = lab, ""
        credential = {"id": number, "secret": secret}
        made._enter({"methods": ["application_credential"], "application_credential": credential})
        return made

    def _enter(self, identity: Mapping[str, Any], scope: Mapping[str, Any] | str = "") -> None:
        body: dict[str, Any] = {"identity": identity}
        if scope:
            body["scope"] = scope
        headers, answer = self._send("POST", "/auth/tokens", {"auth": body})
        self.token = headers["X-Subject-Token"]
        self.user_id: str = answer["token"]["user"]["id"]
        self.expires_at: str = answer["token"]["expires_at"]

    def get(self, tail: str) -> Any:
        """Send a GET request and return the body."""
        return self._send("GET", tail)[1]

    def post(self, tail: str, kind: str, **facts: Any) -> Any:
        """Create an object and return it."""
        return self._send("POST", tail, {kind: facts})[1][kind]

    def put(self, tail: str) -> None:
        """Send a PUT request without a body."""
        self._send("PUT", tail)

    def delete(self, tail: str, **headers: str) -> None:
        """Delete an object."""
        self._send("DELETE", tail, None, headers)

    def _send(
        self,
        method: str,
        tail: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[Mapping[str, str], Any]:
        sent = {"Content-Type": "application/json", **(headers or {})}
        if self.token:
            sent["X-Auth-Token"] = self.token
        request = urllib.request.Request(
            self._lab.url("keystone", f"/v3{tail}"),
            method=method,
            headers=sent,
            data=None if body is None else json.dumps(body).encode(),
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            text = answer.read()
            return answer.headers, json.loads(text) if text else None


def fill(lab: place.Place) -> None:
    """Create users, projects and the catalog after keystone's bootstrap."""
    keystone = Keystone(lab)
    roles = {role["name"]: role["id"] for role in keystone.get("/roles")["roles"]}
    if "service" not in roles:
        roles["service"] = keystone.post("/roles", "role", name="service")["id"]
    projects = {
        name: keystone.post("/projects", "project", name=name, domain_id="default")["id"]
        for name in ("service", "acme", "globex")
    }
    keystone.put(f"/domains/default/users/{keystone.user_id}/roles/{roles['admin']}")
    for name, project, granted in USERS:
        user = keystone.post(
            "/users", "user", name=name, domain_id="default", password=place.PASSWORD
        )
        for role in granted:
            keystone.put(f"/projects/{projects[project]}/users/{user['id']}/roles/{roles[role]}")
    _fill_catalog(lab, keystone)


def _fill_catalog(lab: place.Place, keystone: Keystone) -> None:
    for region in (place.EMBEDDED_REGION, place.EMPTY_REGION):
        keystone.post("/regions", "region", id=region)
    for name, kind, tail in (
        ("placement", "placement", ""),
        ("nova", "compute", "/v2.1"),
        ("neutron", "network", ""),
        ("glance", "image", "/image"),
    ):
        service = keystone.post("/services", "service", name=name, type=kind)["id"]
        where = lab.url("neutron" if name == "glance" else name, tail)
        _name_endpoint(keystone, service, where, place.REGION)
        if name == "placement":
            _name_endpoint(keystone, service, lab.url("embedded"), place.EMBEDDED_REGION)


def _name_endpoint(keystone: Keystone, service: str, url: str, region: str) -> None:
    for interface in ("public", "internal", "admin"):
        keystone.post(
            "/endpoints",
            "endpoint",
            service_id=service,
            interface=interface,
            url=url,
            region_id=region,
        )
