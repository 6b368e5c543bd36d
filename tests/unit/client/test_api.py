# SPDX-License-Identifier: Apache-2.0
"""The client's methods: requests, versions, calls refused without a request, error classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from osc_placement import errors, microversion
from osc_placement.client import api, api_errors, lookup, retry
from osc_placement.microversion import Microversion
from osc_placement.model.allocation import Consumer
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from tests.support.scripted import Reply, client, fault, versions
from tests.support.versions import NEXT, RANGE

PROVIDER = {"uuid": "u", "name": "n", "generation": 3}
U = "11111111-1111-4111-8111-111111111111"


def listing(*names: str) -> Reply:
    providers = [{**PROVIDER, "name": name, "uuid": f"uuid of {name}"} for name in names]
    return Reply(body={"resource_providers": providers})


def test_a_pinned_version_needs_no_negotiation() -> None:
    placement, app = client(listing(), version="1.12")
    placement.list_providers()
    assert [request.version for request in app.requests] == ["1.12"]
    assert (placement.pinned, placement.api_version) == (True, "1.12")


def test_negotiation_sends_one_request_and_selects_the_highest_common_version() -> None:
    placement, app = client(versions("1.0", "1.36"), listing(), listing(), version=None)
    placement.list_providers()
    placement.list_providers()
    assert [request.version for request in app.requests] == [None, "1.36", "1.36"]
    assert (placement.pinned, placement.api_version) == (False, "1.29")


def test_latest_pins_the_highest_common_version() -> None:
    placement, _ = client(versions("1.0", "1.36"), version=None, latest=True)
    assert (placement.pinned, placement.microversion, placement.api_version) == (
        True,
        (1, 36),
        "1.36",
    )


def test_no_common_version_is_an_error_with_both_ranges() -> None:
    placement, _ = client(versions(NEXT, "1.90"), version=None)
    with pytest.raises(errors.PlacementError, match=f"{NEXT} to 1.90.*{RANGE}"):
        _ = placement.microversion


def test_a_client_with_another_version_shares_the_transport() -> None:
    placement, app = client(listing(), version="1.12")
    placement.at(Microversion(1, 37)).list_providers()
    assert app.requests[0].version == "1.37"


QUERY = CandidateQuery((RequestGroup("", {"VCPU": 1}),))
CALLS: list[tuple[str, Callable[[api.Client], Any]]] = [
    ("provider aggregates", lambda c: c.list_aggregates(U)),
    ("provider aggregates", lambda c: c.replace_aggregates(U, 1, [])),
    ("resource classes", lambda c: c.list_resource_classes()),
    ("resource classes", lambda c: c.create_resource_class("CUSTOM_A")),
    ("resource classes", lambda c: c.show_resource_class("CUSTOM_A")),
    ("resource classes", lambda c: c.delete_resource_class("CUSTOM_A")),
    ("provider member_of", lambda c: c.list_providers(member_of=["a"])),
    ("provider resources", lambda c: c.list_providers(resources={"VCPU": 1})),
    ("inventories delete", lambda c: c.delete_inventories(U)),
    ("traits", lambda c: c.list_traits()),
    ("traits", lambda c: c.create_trait("CUSTOM_A")),
    ("traits", lambda c: c.trait_exists("CUSTOM_A")),
    ("traits", lambda c: c.delete_trait("CUSTOM_A")),
    ("traits", lambda c: c.list_provider_traits(U)),
    ("traits", lambda c: c.replace_provider_traits(U, 1, [])),
    ("traits", lambda c: c.delete_provider_traits(U)),
    ("resource class idempotent put", lambda c: c.put_resource_class("CUSTOM_A")),
    ("usages by project", lambda c: c.show_usages("p")),
    ("allocation candidates", lambda c: c.list_allocation_candidates(QUERY)),
    ("allocations of many consumers", lambda c: c.write_allocations([])),
    ("nested providers", lambda c: c.list_providers(in_tree=U)),
    ("nested providers", lambda c: c.create_provider("n", parent_uuid=U)),
    ("nested providers", lambda c: c.update_provider(U, "n", None)),
    ("provider required traits", lambda c: c.list_providers(required=["A"])),
    ("forbidden traits", lambda c: c.list_providers(required=["!A"])),
    ("member_of repeated", lambda c: c.list_providers(member_of=["a", "b"])),
    ("reshaper", lambda c: c.reshape({}, [])),
    ("forbidden aggregates", lambda c: c.list_providers(member_of=["!a"])),
    ("candidate limit", lambda c: c.list_allocation_candidates("resources=VCPU:1&limit=1")),
    ("consumer types", lambda c: c.show_usages("p", consumer_type="INSTANCE")),
    ("any traits", lambda c: c.list_providers(required=["in:A,B"])),
]


@pytest.mark.parametrize(("feature", "call"), CALLS)
def test_a_request_is_sent_only_from_the_version_that_supports_it(
    feature: str, call: Callable[[api.Client], Any]
) -> None:
    needs = microversion.FEATURES[feature]
    placement, app = client(version=f"1.{needs.minor - 1}")
    with pytest.raises(api_errors.UnsupportedVersion) as caught:
        call(placement)
    assert (caught.value.feature, caught.value.needs) == (feature, needs)
    assert not app.requests
    placement, app = client(fault(400, "as far as this"), version=str(needs))
    with pytest.raises(api_errors.ApiError, match="as far as this"):
        call(placement)
    assert app.requests[0].version == str(needs)


def test_a_response_of_another_shape_is_a_placement_error() -> None:
    wrong = (
        {"uuid": 7},
        {"uuid": None},
        {"name": ["node"]},
        {"generation": "x"},
        {"root_provider_uuid": 7},
        {"parent_provider_uuid": {}},
        # Of a tree that is not whole.
        {"root_provider_uuid": "other"},
        {"parent_provider_uuid": "other"},
    )
    usual = {"uuid": "u", "name": "node", "generation": 1, "root_provider_uuid": "u"}
    damaged = [{"resource_providers": [{**usual, **fields}]} for fields in wrong]
    others = ({}, [], {"resource_providers": [1]}, {"resource_providers": None})
    for body in (*others, *damaged):
        placement, _ = client(*[Reply(body=body)] * retry.READS)
        with pytest.raises(api_errors.UnexpectedResponse, match="not a response of Placement"):
            placement.list_providers()
    placement, _ = client(*[Reply(200, b"")] * retry.READS)
    with pytest.raises(api_errors.UnexpectedResponse):
        placement.list_providers()


def test_identifiers_in_paths_are_quoted() -> None:
    placement, app = client(Reply(204), Reply(204))
    placement.delete_trait("a/../b?c")
    assert (app.requests[0].path, app.requests[0].query) == ("/traits/a/../b?c", "")


@pytest.mark.parametrize("name", [".", ".."])
def test_a_path_segment_of_dots_is_refused_without_a_request(name: str) -> None:
    placement, app = client()
    with pytest.raises(errors.InvalidInput, match="cannot be used as a name"):
        placement.delete_inventory(U, name)
    assert not app.requests


def test_below_1_20_a_created_provider_is_read_by_a_second_request() -> None:
    made = Reply(201, headers={"location": "http://h/resource_providers/u"})
    placement, app = client(made, Reply(body=PROVIDER), version="1.19")
    assert placement.create_provider("n", parent_uuid=U).generation == 3
    assert [request.method for request in app.requests] == ["POST", "GET"]
    assert app.requests[0].body == {"name": "n", "parent_provider_uuid": U}
    assert app.requests[1].path == "/resource_providers/u"


def test_a_parent_of_none_is_sent_and_an_unchanged_one_is_not() -> None:
    placement, app = client(Reply(body=PROVIDER), Reply(body=PROVIDER))
    placement.update_provider(U, "n")
    placement.update_provider(U, "n", None)
    assert [request.body for request in app.requests] == [
        {"name": "n"},
        {"name": "n", "parent_provider_uuid": None},
    ]


def test_the_last_modified_header_sets_updated() -> None:
    placement, _ = client(Reply(body=PROVIDER, headers={"last-modified": "a day"}))
    assert placement.show_provider(U).updated == "a day"


def test_an_unknown_consumer_has_no_allocations_and_no_generation() -> None:
    placement, _ = client(Reply(body={"allocations": {}}))
    assert placement.show_allocations(U) == Consumer(U, {})


@pytest.mark.parametrize(("version", "asked"), [("1.37", ""), ("1.38", "&consumer_type=all")])
def test_total_usage_is_never_grouped_by_type(version: str, asked: str) -> None:
    """openstack-placement on PostgreSQL answers 500 to a request that groups."""
    entry = {"VCPU": 3} if version == "1.37" else {"all": {"VCPU": 3, "consumer_count": 2}}
    placement, app = client(Reply(body={"usages": entry}), version=version)
    usage = placement.show_total_usage("p")
    assert dict(usage.resources) == {"VCPU": 3}
    assert [request.query for request in app.requests] == [f"project_id=p{asked}"]


def test_exists_methods_return_a_boolean() -> None:
    placement, _ = client(Reply(204), fault(404, "no"), *[fault(500, "oops")] * retry.READS)
    assert placement.trait_exists("CUSTOM_A")
    assert not placement.trait_exists("CUSTOM_B")
    with pytest.raises(api_errors.ApiError):
        placement.trait_exists("CUSTOM_C")


def test_other_plugins_can_send_any_request() -> None:
    placement, app = client(Reply(body={"a": 1}), fault(404, "no"), version="1.5")
    assert placement.request("GET", "/usages?x=1").json() == {"a": 1}
    assert app.requests[0].version == "1.5"
    with pytest.raises(api_errors.NotFound):
        placement.request("PUT", "/traits/x", version="1.6", json={"b": 2})
    assert (app.requests[1].version, app.requests[1].body) == ("1.6", {"b": 2})


def test_a_uuid_is_normalized_without_a_request() -> None:
    placement, app = client()
    assert lookup.provider_uuid(placement, U.upper().replace("-", "")) == U
    assert not app.requests


def test_a_name_must_match_exactly() -> None:
    placement, app = client(listing("Node", "node"))
    assert lookup.provider_uuid(placement, "node") == "uuid of node"
    assert app.requests[0].query == "name=node"


def test_one_listing_finds_more_than_five_names() -> None:
    names = [f"node{number}" for number in range(9)]
    placement, app = client(listing(*names))
    uuids = lookup.provider_uuids(placement, [*names, names[0], U])
    assert uuids == {**{name: f"uuid of {name}" for name in names}, U: U}
    assert len(app.requests) == 1


def test_all_unknown_and_ambiguous_names_are_reported_with_similar_names() -> None:
    placement, _ = client(listing(), listing("twin", "twin"), listing("compute-1", "twin"))
    with pytest.raises(api_errors.UnknownProvider) as caught:
        lookup.provider_uuids(placement, ["compute", "twin"])
    unknown, ambiguous = caught.value.reasons
    assert unknown == "No resource provider has the name or UUID 'compute'; similar: compute-1"
    assert "More than one" in ambiguous


def test_an_empty_name_is_unknown() -> None:
    placement, _ = client(listing("a"))
    with pytest.raises(api_errors.UnknownProvider):
        lookup.provider_uuid(placement, "")


CONFLICT = "There was a conflict when trying to complete your request.\n\n "


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("placement.concurrent_update", "any text", api_errors.GenerationConflict),
        (None, "resource provider generation conflict", api_errors.GenerationConflict),
        (None, "Resource provider's generation already changed.", api_errors.GenerationConflict),
        (
            None,
            "consumer generation conflict - expected 3 but got 1",
            api_errors.GenerationConflict,
        ),
        ("placement.inventory.inuse", "any text", api_errors.InventoryInUse),
        (None, "Inventory for 'VCPU' on resource provider 'u' in use.", api_errors.InventoryInUse),
        (
            "placement.concurrent_update",
            "Unable to delete inventory of class VCPU: Inventory for 'VCPU' on resource"
            " provider 'u' in use.",
            api_errors.InventoryInUse,
        ),
        (None, "Conflicting resource provider name: x already exists.", api_errors.Conflict),
        ("placement.duplicate_name", "resource provider generation conflict", api_errors.Conflict),
    ],
)
def test_each_conflict_has_its_error_class(
    code: str | None, text: str, kind: type[Exception]
) -> None:
    assert type(api_errors.from_status(409, CONFLICT + text, error_code=code, method="PUT")) is kind


@pytest.mark.parametrize(
    ("status", "method", "kind"),
    [
        (404, "GET", api_errors.NotFound),
        (406, "GET", api_errors.ApiError),
        (400, "PUT", api_errors.BadRequest),
        (401, "GET", api_errors.Unauthorized),
        (403, "GET", api_errors.Forbidden),
        (500, "GET", api_errors.ApiError),
        (500, "PUT", api_errors.OutcomeUnknown),
        (502, "PUT", api_errors.OutcomeUnknown),
        (503, "PUT", api_errors.OutcomeUnknown),
        (504, "PUT", api_errors.OutcomeUnknown),
        (501, "PUT", api_errors.ApiError),
    ],
)
def test_each_status_has_its_error_class(status: int, method: str, kind: type[Exception]) -> None:
    assert type(api_errors.from_status(status, "x", method=method)) is kind


def test_an_unsupported_version_has_the_message_of_upstream() -> None:
    error = api_errors.UnsupportedVersion(
        "traits", Microversion(1, 6), Microversion(1, 5), "--trait"
    )
    assert str(error) == (
        "Operation or argument is not supported with version 1.5;"
        " requires at least version 1.6 (--trait, traits)"
    )


def test_each_reason_has_its_own_line() -> None:
    assert str(errors.InvalidInput(["one", "two"])) == "one\ntwo"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Access was denied to this resource.\n\n"
            " Policy does not allow placement:traits:list to be performed.  ",
            "Policy does not allow placement:traits:list to be performed. (HTTP 403):"
            " by default this needs the role admin or service",
        ),
        (
            "Access was denied to this resource.\n\n"
            " Policy does not allow placement:reshaper:reshape to be performed.  ",
            "Policy does not allow placement:reshaper:reshape to be performed. (HTTP 403):"
            " by default this needs the role service",
        ),
        (
            "Access was denied to this resource.\n\n placement:traits:list  ",
            "placement:traits:list (HTTP 403): this needs a project-scoped token; this token has"
            " the scope of a domain or of the system",
        ),
        ("a proxy says no", "a proxy says no (HTTP 403)"),
    ],
)
def test_a_refusal_names_the_policy_rule_and_the_role(text: str, message: str) -> None:
    assert str(api_errors.from_status(403, text, method="GET")) == message
