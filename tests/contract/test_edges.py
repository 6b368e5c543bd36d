# SPDX-License-Identifier: Apache-2.0
"""Unusual tokens, paths and headers: the reference server answers as openstack-placement does.

Leading slashes are in ``tests/functional/server``, because the web server of the peer removes them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest

from tests.support.peer import raw
from tests.support.sequences import compare

UUID = "6d3fd3f8-9a2b-4c3e-8a35-1ce2a8c36c40"
ADMIN = [("X-Auth-Token", "admin")]
LATEST = [("OpenStack-API-Version", "placement 1.39")]
JSON = [("Content-Type", "application/json")]
TEXT = [("Content-Type", "text/plain")]

PATHS = (
    *("/", "/resource_providers", "/resource_providers/", f"/resource_providers/{UUID}"),
    *("/resource_providers/%FF", f"/resource_providers/{UUID}/inventories/%FF", "/traits/%FF"),
    *(f"/resource_providers/{UUID}/usages", f"/resource_providers/{UUID}/aggregates", "/usages"),
    *("/traits", "/resource_classes/%FF", "/allocations/%FF", "/reshaper", "/nothing", "/%FF"),
    *("/allocation_candidates?resources=VCPU:1", "/resource_providers//inventories", "?x", "*"),
    *("/resource_providers?name=%FF", "/traits?name=a%ED%A0%80", "/allocation_candidates?%FE=1"),
    *("/resource_providers/unknown/allocations", "/resource_providers/unknown/inventories/VCPU"),
)
METHODS = ("GET", "POST", "PUT")
VARIANTS: dict[str, tuple[raw.Headers, bytes | None]] = {
    "latest": ([*ADMIN, *LATEST], None),
    "oldest": (ADMIN, None),
    "no token": (LATEST, None),
    "an empty token": ([("X-Auth-Token", ""), *LATEST], None),
    "a token without a user": ([("X-Auth-Token", ":"), *LATEST], None),
    "no roles": ([*ADMIN, ("X-Roles", ""), *LATEST], None),
    "another user": ([("X-Auth-Token", "bob"), *LATEST], None),
    "another user with a body": ([("X-Auth-Token", "bob"), *LATEST, *JSON], b"{}"),
    "system scope": ([*ADMIN, *LATEST, ("OpenStack-System-Scope", "all")], None),
    "an empty accept header": ([*ADMIN, *LATEST, ("Accept", "")], None),
    "an HTML accept header": ([*ADMIN, *LATEST, ("Accept", "text/html")], None),
    "an invalid accept header": ([*ADMIN, *LATEST, ("Accept", ";")], None),
    "a body without content type": ([*ADMIN, *LATEST], b"{}"),
    "the same at the oldest version": (ADMIN, b"{}"),
    "the same of another user": ([("X-Auth-Token", "bob"), *LATEST], b"{}"),
    "a JSON body": ([*ADMIN, *LATEST, *JSON], b"[]"),
    "a text body": ([*ADMIN, *LATEST, *TEXT], b"{}"),
    "an empty content type": ([*ADMIN, *LATEST, ("Content-Type", "")], b"{}"),
    "an unknown version": ([*ADMIN, ("OpenStack-API-Version", "placement 1.99")], b"{}"),
    "an unknown version without a token": ([("OpenStack-API-Version", "placement 1.99")], None),
}

#: Parameters of allocation candidates with invalid values: the first one is the error, also if a
#: later value replaces it, except for ``required`` below 1.39.
INVALID_QUERIES = (
    *("in_tree=a&resources=!z", "resources=!z&in_tree=a", "member_of=x&resources=!z"),
    *("required=,&in_tree=a&resources=!z", "resources=VCPU:1&in_tree=a&required=!a,,"),
    *("resources=VCPU:1&resources=x:y&resources=!z", "resources=!z&resources=VCPU:1"),
    *("resources=VCPU:1&in_tree=a&in_tree=b", "resources=VCPU:1&in_tree=a&resources=!z"),
    *("resources=VCPU:1&member_of=x&member_of=y", "resources=!z&member_of=x&member_of=y"),
    *("resources=VCPU:1&required=,&required=HW_CPU_X86_MMX", "resources=!z&root_required=,"),
    *("resources=!z&same_subtree=,", "same_subtree=_x&in_tree=a", "resources=!z&limit=0"),
    *("root_required=,&same_subtree=,", "resources1=!z&resources2=VCPU:1", "resources=!z&x=1"),
    # Groups without resources are checked before the suffixes of same_subtree.
    "resources1=VCPU:1&required_B=HW_CPU_X86_VMX&same_subtree=1,_Z",
    "resources1=VCPU:1&required_B=HW_CPU_X86_VMX&same_subtree=1&same_subtree=_Z",
)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    with raw.both(tmp_path_factory.mktemp("edges"), "legacy-rbac") as servers:
        body = json.dumps({"name": "one", "uuid": UUID}).encode()
        request = raw.encode("POST", "/resource_providers", [*ADMIN, *LATEST, *JSON], body)
        assert [raw.send(port, request).status for port in servers] == [200, 200]
        yield servers


@pytest.mark.parametrize("variant", VARIANTS)
def test_unusual_requests_get_the_response_of_the_real_service(
    ports: tuple[int, int], variant: str
) -> None:
    headers, body = VARIANTS[variant]
    differences = []
    for method, path in itertools.product(METHODS, PATHS):
        request = raw.encode(method, path, headers, body)
        difference = compare.difference(*(raw.send(port, request) for port in ports))
        if difference:
            differences.append(f"{method} {path}: {difference}")
    assert differences == []


@pytest.mark.parametrize("minor", [21, 35, 38, 39])
def test_the_error_of_a_query_is_that_of_the_real_service(
    ports: tuple[int, int], minor: int
) -> None:
    version = ("OpenStack-API-Version", f"placement 1.{minor}")
    differences = []
    for query in INVALID_QUERIES:
        request = raw.encode("GET", f"/allocation_candidates?{query}", [*ADMIN, version])
        difference = compare.difference(*(raw.send(port, request) for port in ports))
        if difference:
            differences.append(f"{query}: {difference}")
    assert differences == []


@pytest.mark.parametrize("minor", [25, 26, 39])
@pytest.mark.parametrize("fields", [{"total": 1, "reserved": 5}, {"total": 4, "reserved": 4}, {}])
def test_the_capacity_is_checked_before_a_name_that_no_class_can_have(
    ports: tuple[int, int], minor: int, fields: dict[str, int]
) -> None:
    headers = [*ADMIN, *JSON, ("OpenStack-API-Version", f"placement 1.{minor}")]
    inventories = {"lower": {"total": 1, **fields}}
    body = json.dumps({"resource_provider_generation": 0, "inventories": inventories}).encode()
    request = raw.encode("PUT", f"/resource_providers/{UUID}/inventories", headers, body)
    assert not compare.difference(*(raw.send(port, request) for port in ports))
