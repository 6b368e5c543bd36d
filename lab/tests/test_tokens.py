# SPDX-License-Identifier: Apache-2.0
"""The reference server and the real placement give the same responses for every token."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests

from lab import database, identity, place
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

RESHAPE = {"inventories": {}, "allocations": {}}
#: Headers that only the middleware may set; a client gains nothing by sending them.
SMUGGLED = {
    "x-identity-status": "Confirmed",
    "x-user-id": "mallory",
    "x-roles": "admin,service",
    "x-role": "admin",
    "openstack-system-scope": "all",
    "x-is-admin-project": "True",
    "x-domain-id": "default",
}
HEADERS = ("www-authenticate", "content-type", "openstack-api-version", "vary")
SHORT = datetime.timedelta(seconds=2)

Tokens = Mapping[str, str | None]


def in_project(projects: Mapping[str, str], name: str) -> dict[str, Any]:
    return {"project": {"id": projects[name]}}


def expired(lab: place.Place, admin: identity.Keystone) -> str:
    """A token that has expired after two seconds."""
    until = datetime.datetime.now(datetime.UTC) + SHORT
    made = admin.post(
        f"/users/{admin.user_id}/application_credentials",
        "application_credential",
        name=f"short-{uuid.uuid4()}",
        expires_at=until.strftime("%Y-%m-%dT%H:%M:%S.000000"),
    )
    token = identity.Keystone.by_credential(lab, made["id"], made["secret"]).token
    time.sleep(SHORT.total_seconds())
    return token


def revoked(lab: place.Place) -> str:
    session = identity.Keystone(lab)
    session.delete("/auth/tokens", **{"X-Subject-Token": session.token})
    return session.token


@pytest.fixture(scope="module")
def projects(lab: place.Place) -> dict[str, str]:
    """``{name: id}``"""
    known = identity.Keystone(lab).get("/projects")["projects"]
    return {project["name"]: project["id"] for project in known}


@pytest.fixture(scope="module")
def tokens(lab: place.Place, projects: dict[str, str]) -> Tokens:
    """One token of each kind."""
    admin = identity.Keystone(lab)
    scopes = {
        "system": ("admin", {"system": {"all": True}}),
        "domain": ("admin", {"domain": identity.DOMAIN}),
        "unscoped": ("admin", "unscoped"),
        "member": ("alice", in_project(projects, "acme")),
        "reader": ("rita", in_project(projects, "acme")),
        "service": ("robot", in_project(projects, "service")),
        "admin of services": ("nova", in_project(projects, "service")),
    }
    made = {name: identity.Keystone(lab, *scope).token for name, scope in scopes.items()}
    return {
        "none": None,
        "empty": "",
        "garbage": "garbage",
        "long": "x" * 3000,
        "expired": expired(lab, admin),
        "revoked": revoked(lab),
        "admin": admin.token,
        **made,
    }


@pytest.fixture(scope="module")
def servers(lab: place.Place) -> Iterator[tuple[str, str]]:
    """The real placement and the reference server, both empty."""
    database.reset(lab, database.EMPTY, "placement")
    with conftest.embedded_server(lab) as url:
        yield lab.url("placement"), url


def request(
    url: str, method: str, path: str, headers: Mapping[str, str], body: Any
) -> tuple[int, dict[str, str | None], Any]:
    """Status, compared headers and body, without request ids."""
    session = requests.Session()
    session.trust_env = False
    response = session.request(method, url + path, headers=headers, json=body, timeout=60)
    content = response.json() if response.content else None
    if path == "/traits" and response.ok:
        content = sorted(content["traits"])
    for error in (content or {}).get("errors", []) if isinstance(content, dict) else []:
        del error["request_id"]
    return response.status_code, {name: response.headers.get(name) for name in HEADERS}, content


KINDS = (
    "none",
    "empty",
    "garbage",
    "long",
    "expired",
    "revoked",
    "admin",
    "system",
    "domain",
    "unscoped",
    "member",
    "reader",
    "service",
    "admin of services",
)


@pytest.mark.parametrize("extra", ["", "smuggled", "member", "service", "garbage"])
@pytest.mark.parametrize("kind", KINDS)
def test_token_gets_the_response_of_the_real_placement(
    servers: tuple[str, str], tokens: Tokens, projects: dict[str, str], kind: str, extra: str
) -> None:
    """``extra``: headers that a client must not set, or a token as x-service-token."""
    headers = {"openstack-api-version": "placement 1.39"}
    if (token := tokens[kind]) is not None:
        headers["x-auth-token"] = token
    if extra == "smuggled":
        headers.update(SMUGGLED, **{"x-project-id": projects["acme"]})
    elif extra:
        headers["x-service-token"] = tokens[extra] or ""
    for method, path, body in (
        ("GET", "/", None),
        ("GET", "/resource_providers", None),
        ("GET", "/traits", None),
        ("PUT", "/traits/CUSTOM_A", None),
        ("POST", "/reshaper", RESHAPE),
        ("GET", f"/usages?project_id={projects['acme']}", None),
        ("GET", f"/usages?project_id={projects['admin']}", None),
        ("GET", "/nothing", None),
    ):
        real, ours = (request(url, method, path, headers, body) for url in servers)
        assert ours == real, f"{method} {path}"
