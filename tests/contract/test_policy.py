# SPDX-License-Identifier: Apache-2.0
"""Roles and scopes on every route: the reference server allows what openstack-placement allows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from osc_placement.server import routes
from tests.support.peer import raw
from tests.support.sequences import compare

UUID = "6d3fd3f8-9a2b-4c3e-8a35-1ce2a8c36c50"
ROLES = (None, "", "reader", "member", "manager", "admin", "Service", "reader,admin,service")
SCOPES: dict[str, raw.Headers] = {
    "the project of the token": (),
    "another project": (("X-Project-Id", "other"),),
    "an empty project": (("X-Project-Id", ""),),
    "the system": (("OpenStack-System-Scope", "all"),),
    "a domain": (("X-Domain-Id", "default"),),
}
#: The scopes in which only the administrators are tested, unless --long: the rules name no other.
RARE_SCOPES = {"an empty project", "the system", "a domain"}
RARE_ROLES = ("", "admin", "reader,admin,service")
QUERIES = ("", "?project_id=mine", "?project_id=other", "?project_id=mine&user_id=bob")


@pytest.fixture(scope="module", params=["secure-rbac", "legacy-rbac"])
def ports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, int]]:
    with raw.both(tmp_path_factory.mktemp("policy"), request.param) as servers:
        yield servers


def requests() -> Iterator[tuple[str, str]]:
    """``(method, path)`` of every route; none of them changes the state of an empty server."""
    for template, methods in routes.ROUTES.items():
        path = template.format(uuid=UUID, resource_class="VCPU", name="VCPU", consumer_uuid=UUID)
        for method in methods:
            for query in QUERIES if path == "/usages" else ("",):
                yield method, path + query


@pytest.mark.parametrize("scope", SCOPES)
def test_every_role_is_allowed_what_the_real_service_allows(
    ports: tuple[int, int], scope: str, pytestconfig: pytest.Config
) -> None:
    differences = []
    is_rare = scope in RARE_SCOPES and not pytestconfig.getoption("--long")
    all_roles = RARE_ROLES if is_rare else ROLES
    for roles, (method, path) in itertools.product(all_roles, requests()):
        headers = [("X-Auth-Token", "bob:mine"), ("OpenStack-API-Version", "placement 1.39")]
        headers += SCOPES[scope]
        headers += [("X-Roles", roles)] if roles is not None else []
        body = b"[]" if method in ("PUT", "POST") else None
        headers += [("Content-Type", "application/json")] if body else []
        message = raw.encode(method, path, headers, body)
        difference = compare.difference(*(raw.send(port, message) for port in ports))
        if difference:
            differences.append(f"{roles}: {method} {path}: {difference}")
    assert differences == []
