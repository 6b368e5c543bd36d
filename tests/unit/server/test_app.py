# SPDX-License-Identifier: Apache-2.0
"""Identity, roles, limits and the order of refusals."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from osc_placement import server
from tests.support.in_process import ask

UUID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def app() -> server.App:
    return server.create_app()


@pytest.fixture
def occupied() -> server.App:
    """A server of its own, with the provider UUID."""
    created = server.create_app()
    assert (
        ask(created, "/resource_providers", "POST", {"name": "a", "uuid": UUID}).status_int == 200
    )
    return created


def test_a_relative_policy_file_is_read_from_the_working_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules.yaml").write_text('"placement:traits:list": "!"')
    monkeypatch.chdir(tmp_path)
    app = server.create_app(policy_file="rules.yaml")
    assert ask(app, "/traits").status_int == 403
    assert ask(app, "/resource_classes").status_int == 200


def test_an_error_has_the_request_id(app: server.App) -> None:
    answer = ask(app, "/nothing")
    (error,) = answer.json["errors"]
    assert error["request_id"] == answer.headers["x-openstack-request-id"]
    assert set(error) == {"status", "title", "detail", "code", "request_id"}


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        b'{"name": "\\ud800"}',
        b"[" * 100_000,
        b'{"name": ' + b"1" * 10_000 + b"}",
        b"\xef\xbb\xbf{}",
        *('{"name": "é"}'.encode(encoding) for encoding in ("utf-16", "utf-32", "latin-1")),
        *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (200, 900, 990, 5000)),
    ],
)
def test_malformed_bodies_are_refused(app: server.App, body: bytes) -> None:
    assert ask(app, "/resource_providers", "POST", body).status_int == 400


def test_a_huge_ratio_is_returned_unchanged(occupied: server.App) -> None:
    body = {"resource_class": "VCPU", "total": 2**31 - 1, "allocation_ratio": 3e38}
    ask(occupied, f"/resource_providers/{UUID}/inventories", "POST", body)
    answer = ask(occupied, "/allocation_candidates?resources=VCPU:1")
    assert answer.json["provider_summaries"][UUID]["resources"]["VCPU"]["capacity"] > 2**64


def test_a_list_is_in_order_of_creation_after_changes() -> None:
    app = server.create_app()
    uuids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
    aggregate = "00000000-0000-4000-8000-0000000000ee"
    for uuid in uuids:
        ask(app, "/resource_providers", "POST", {"name": f"host {uuid}", "uuid": uuid})
    for uuid in (uuids[2], uuids[0], uuids[1], uuids[0]):
        generation = ask(app, f"/resource_providers/{uuid}").json["generation"]
        body = {"aggregates": [aggregate], "resource_provider_generation": generation}
        ask(app, f"/resource_providers/{uuid}/aggregates", "PUT", body)
    for path, expected in (("", uuids), (f"?member_of={aggregate}", uuids[:3])):
        listed = ask(app, f"/resource_providers{path}").json["resource_providers"]
        assert [provider["uuid"] for provider in listed] == expected


@pytest.mark.parametrize(
    ("path", "seconds"),
    [
        ("/resource_providers", 1000),
        ("/resource_providers?name=other", 2000),
        (f"/resource_providers/{UUID}", 1000),
        (f"/resource_providers/{UUID}/inventories", None),
        (f"/allocations/{UUID}", 2000),
    ],
)
def test_a_response_is_as_old_as_its_latest_record(
    monkeypatch: pytest.MonkeyPatch, path: str, seconds: int | None
) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    app = server.create_app()
    ask(app, "/resource_providers", "POST", {"name": "a", "uuid": UUID})
    monkeypatch.setattr("time.time", lambda: 2000.0)
    date = ask(app, path).last_modified
    assert (date and date.timestamp()) == seconds


def test_usages_are_of_the_consumers_with_allocations_of_a_project_or_one_user(
    occupied: server.App,
) -> None:
    added = {"resource_class": "VCPU", "total": 8}
    path = f"/resource_providers/{UUID}/inventories"
    assert ask(occupied, path, "POST", added).status_int == 201
    # A claim on an unknown provider leaves a consumer.
    claims = [("ann", UUID, 204), ("bob", UUID, 204), ("bob", UUID.replace("1", "9"), 400)]
    for number, (user, uuid, status) in enumerate(claims):
        body = {
            "allocations": {uuid: {"resources": {"VCPU": 1}}},
            "project_id": "p",
            "user_id": user,
            "consumer_type": "A",
            "consumer_generation": None,
        }
        path = f"/allocations/{UUID[:-1]}{number}"
        assert ask(occupied, path, "PUT", body).status_int == status
    for query, number in (("", 2), ("&user_id=bob", 1), ("&user_id=eve", 0)):
        usages = ask(occupied, f"/usages?project_id=p{query}").json["usages"]
        assert sum(usage["consumer_count"] for usage in usages.values()) == number


@pytest.mark.parametrize("name", ["vcpu", "VCPU\n", "", "CUSTOM-A"])
@pytest.mark.parametrize("fields", [{}, [], None, "x", {"total": "x"}, {"allocation_ratio": "x"}])
def test_an_inventory_of_an_invalid_class_name_is_refused_for_the_name(
    name: str, fields: Any, occupied: server.App
) -> None:
    body = {"resource_provider_generation": 0, "inventories": {name: fields}}
    answers = [
        ask(occupied, f"/resource_providers/{UUID}/inventories", "PUT", body),
        ask(occupied, "/reshaper", "POST", {"inventories": {UUID: body}, "allocations": {}},
            x_roles="service"),
    ]  # fmt: skip
    for answer in answers:
        assert answer.status_int == 400
        (error,) = answer.json["errors"]
        assert "No such resource class" in error["detail"] or "does not validate" in error["detail"]


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        (f"allocation_candidates?resources=VCPU:1&limit={'9' * 20}", 200, ""),
        (f"allocation_candidates?resources=VCPU:1&limit={'9' * 5000}", 400, "too many digits"),
        ("resource_providers?required=CUSTOM_NONE", 400, "CUSTOM_NONE"),
        ("resource_providers?required=!CUSTOM_NONE", 400, "CUSTOM_NONE"),
        ("resource_providers?required=in:CUSTOM_NONE,HW_NUMA_ROOT", 400, "CUSTOM_NONE"),
        (f"resource_providers?uuid={UUID.replace('-', '')}", 400, "is not a 'uuid'"),
        (f"resource_providers?uuid={UUID.replace('1', 'x')}", 400, "is not a 'uuid'"),
    ],
)
def test_an_invalid_query_is_refused_with_the_reason(
    app: server.App, query: str, status: int, text: str
) -> None:
    answer = ask(app, f"/{query}")
    assert (answer.status_int, text in answer.text) == (status, True)


def test_an_unknown_class_after_unmatched_root_traits_is_not_reported(occupied: server.App) -> None:
    query = "/allocation_candidates?resources=NOPE:1&root_required=!COMPUTE_NODE"
    assert ask(occupied, query).status_int == 400
    body = {"traits": ["COMPUTE_NODE"], "resource_provider_generation": 0}
    assert ask(occupied, f"/resource_providers/{UUID}/traits", "PUT", body).status_int == 200
    assert ask(occupied, query).json == {"allocation_requests": [], "provider_summaries": {}}


def test_a_class_is_renamed_where_it_is_offered_and_used(occupied: server.App) -> None:
    path, old, new = f"/resource_providers/{UUID}", "CUSTOM_OLD", "CUSTOM_NEW"
    offered = {name: {"total": 9} for name in (old, "VCPU")}
    used = [{"resource_provider": {"uuid": UUID}, "resources": {old: 2, "VCPU": 1}}]
    for method, of, body in (
        ("POST", "/resource_classes", {"name": old}),
        ("PUT", f"{path}/inventories", {"resource_provider_generation": 0, "inventories": offered}),
        ("PUT", f"/allocations/{UUID}", {"allocations": used}),
        ("PUT", f"/resource_classes/{old}", {"name": new}),
    ):
        assert (
            ask(occupied, of, method, body, openstack_api_version="placement 1.6").status_int < 300
        )
    assert set(ask(occupied, f"{path}/inventories").json["inventories"]) == {new, "VCPU"}
    assert ask(occupied, f"{path}/usages").json["usages"] == {new: 2, "VCPU": 1}
