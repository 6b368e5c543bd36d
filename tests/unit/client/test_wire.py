# SPDX-License-Identifier: Apache-2.0
"""Bodies, responses and query strings of every microversion; what is written reads the same."""

from __future__ import annotations

import dataclasses
import random
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from osc_placement import errors, microversion
from osc_placement.client import query, responses, wire
from osc_placement.microversion import Microversion
from osc_placement.model import allocation, constraint, inventory
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from tests.support.candidates import clouds, random_queries

VERSIONS = [Microversion(1, minor) for minor in range(microversion.MAXIMUM.minor + 1)]

amounts = st.integers(1, inventory.MAX_AMOUNT)
# Other characters would take seconds: hypothesis reads the tables of Unicode first.
names = st.text("ab-é", min_size=1)
uuids = st.uuids().map(str)
classes = st.sampled_from(["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_GOLD"])
inventories = st.dictionaries(
    classes,
    st.builds(
        inventory.Inventory,
        total=amounts,
        reserved=st.integers(0, 9),
        min_unit=amounts,
        max_unit=amounts,
        step_size=amounts,
        allocation_ratio=st.floats(0.1, 1000),
    ),
)
consumers = st.builds(
    allocation.Consumer,
    uuid=uuids,
    allocations=st.dictionaries(uuids, st.dictionaries(classes, amounts, min_size=1)),
    project_id=names,
    user_id=names,
    generation=st.none() | st.integers(0),
    consumer_type=st.sampled_from(["INSTANCE", "MIGRATION"]),
)


def response(body: dict[str, Any], version: Microversion) -> dict[str, Any]:
    """The response for a consumer that was written with ``body``."""
    written = body["allocations"]
    if isinstance(written, list):
        written = {item["resource_provider"]["uuid"]: item for item in written}
    shares = {
        key: {"resources": item["resources"], "generation": 3} for key, item in written.items()
    }
    return {**body, "allocations": shares}


@given(consumer=consumers, version=st.sampled_from(VERSIONS))
def test_a_consumer_reads_back_with_the_fields_of_the_version(
    consumer: allocation.Consumer, version: Microversion
) -> None:
    body = wire.consumer_body(consumer, version)
    shown = consumer
    if not microversion.supports(version, "allocation project and user"):
        shown = dataclasses.replace(shown, project_id=None, user_id=None)
    if not microversion.supports(version, "consumer generation"):
        shown = dataclasses.replace(shown, generation=None)
    if not microversion.supports(version, "consumer types"):
        shown = dataclasses.replace(shown, consumer_type=None)
    assert wire.read_consumer(consumer.uuid, response(body, version)) == shown
    full = wire.read_consumer_allocations(consumer.uuid, response(body, version))
    assert full == (shown, dict.fromkeys(consumer.allocations, 3))


@pytest.mark.parametrize(
    ("minor", "count"), [(0, 1), (7, 1), (8, 3), (27, 3), (28, 4), (34, 5), (38, 6)]
)
def test_an_allocation_body_has_exactly_the_keys_of_its_version(minor: int, count: int) -> None:
    keys = ("allocations", "project_id", "user_id", "consumer_generation", "mappings")
    consumer = allocation.Consumer("c", {"p": {"VCPU": 1}}, "project", "user", 4, "INSTANCE")
    body = wire.consumer_body(consumer, Microversion(1, minor), {"": ["p"]})
    assert set(body) == {*(*keys, "consumer_type")[:count]}
    assert isinstance(body["allocations"], list if minor < 12 else dict)


@given(held=inventories, generation=st.integers(0))
def test_inventories_read_back(held: dict[str, inventory.Inventory], generation: int) -> None:
    provider_inventories = wire.read_inventories(wire.inventories_body(generation, held))
    assert provider_inventories == responses.ProviderInventories(generation, held)


def test_missing_fields_of_an_inventory_have_defaults() -> None:
    assert wire.read_inventory({"total": 4, "resource_provider_generation": 3}) == (
        inventory.Inventory(total=4)
    )


@pytest.mark.parametrize("field", inventory.FIELDS)
def test_a_text_in_place_of_a_number_is_refused_before_it_is_multiplied(field: str) -> None:
    with pytest.raises(TypeError, match=f"{field} is not a number"):
        wire.read_inventory({"total": inventory.MAX_AMOUNT, field: "9" * 2**20})


@given(found=st.lists(uuids, unique=True), version=st.sampled_from(VERSIONS))
def test_aggregates_are_a_list_below_1_19(found: list[str], version: Microversion) -> None:
    body = wire.aggregates_body(7, found, version)
    if version < Microversion(1, 19):
        assert body == found
    else:
        assert wire.read_aggregates(body) == (7, tuple(found))


def test_usages_have_one_entry_below_1_38_and_one_per_type_later() -> None:
    assert wire.read_usages({"usages": {"VCPU": 3}}, Microversion(1, 37)) == [
        responses.Usage({"VCPU": 3})
    ]
    body = {
        "usages": {"INSTANCE": {"VCPU": 3, "consumer_count": 2}, "unknown": {"consumer_count": 0}}
    }
    assert wire.read_usages(body, Microversion(1, 38)) == [
        responses.Usage({"VCPU": 3}, "INSTANCE", 2, {"VCPU": 3, "consumer_count": 2}),
        responses.Usage({}, "unknown", 0, {"consumer_count": 0}),
    ]


SUMMARY = {"resources": {"VCPU": {"capacity": 8, "used": 1}}}


@pytest.mark.parametrize(
    "allocations",
    [
        [{"resource_provider": {"uuid": "p"}, "resources": {"VCPU": 2}}],
        {"p": {"resources": {"VCPU": 2}}},
    ],
)
def test_both_forms_of_candidates_give_the_same_values(allocations: Any) -> None:
    body = {
        "allocation_requests": [{"allocations": allocations}],
        "provider_summaries": {"p": SUMMARY},
    }
    answer = wire.read_candidates(body)
    assert answer.requests == (responses.AllocationRequest({"p": {"VCPU": 2}}),)
    assert answer.summaries == {
        "p": responses.ProviderSummary({"VCPU": responses.ResourceSummary(8, 1)})
    }


def test_candidates_of_1_34_have_mappings_traits_and_trees() -> None:
    summary = {**SUMMARY, "traits": ["T"], "root_provider_uuid": "r", "parent_provider_uuid": None}
    request = {"allocations": {}, "mappings": {"_A": ["p", "q"]}}
    answer = wire.read_candidates(
        {"allocation_requests": [request], "provider_summaries": {"p": summary}}
    )
    assert answer.requests[0].mappings == {"_A": ("p", "q")}
    assert (answer.summaries["p"].traits, answer.summaries["p"].root_uuid) == (("T",), "r")


def test_a_reshape_body_has_generations_and_all_allocations() -> None:
    provider, consumer = str(uuid.uuid4()), str(uuid.uuid4())
    offers = {provider: responses.ProviderInventories(5, {"VCPU": inventory.Inventory(total=4)})}
    who = allocation.Consumer(consumer, {provider: {"VCPU": 1}}, "p", "u", 2)
    body = wire.reshape_body(offers, [who], Microversion(1, 37))
    assert body["inventories"][provider]["resource_provider_generation"] == 5
    assert body["allocations"][consumer] == {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 2,
    }


def test_names_and_values_are_quoted() -> None:
    assert query.encode([("name", "a b&c=d/é")]) == "?name=a%20b%26c%3Dd%2F%C3%A9"
    assert query.encode([("member_of", "!in:a,b")]) == "?member_of=!in:a,b"
    assert query.encode([]) == ""
    assert query.quote("../a b?c") == "..%2Fa%20b%3Fc"


def test_traits_share_a_parameter_and_alternatives_have_their_own() -> None:
    assert query.required_values(["A", "in:B,C", "!D", "in:E,F"]) == ["A,!D", "in:B,C", "in:E,F"]
    assert query.required_values([]) == []


def test_a_query_is_formatted_group_by_group() -> None:
    request = CandidateQuery(
        groups=(
            RequestGroup(resources={"VCPU": 1, "MEMORY_MB": 2}, required=(frozenset({"T"}),)),
            RequestGroup(
                suffix="_NET",
                resources={"SRIOV_NET_VF": 1},
                required=(frozenset({"B", "A"}),),
                forbidden=frozenset({"C"}),
                member_of=(frozenset({"x"}), frozenset({"z", "y"})),
                forbidden_aggregates=frozenset({"w"}),
                in_tree="r",
            ),
            RequestGroup(suffix="_HOST", required=(frozenset({"H"}),)),
        ),
        isolate=True,
        same_subtree=(frozenset({"_NET", "_HOST"}),),
        root_required=frozenset({"R"}),
        root_forbidden=frozenset({"S"}),
        limit=5,
    )
    assert query.candidate_pairs(request) == [
        ("resources", "VCPU:1,MEMORY_MB:2"),
        ("required", "T"),
        ("resources_NET", "SRIOV_NET_VF:1"),
        ("required_NET", "!C"),
        ("required_NET", "in:A,B"),
        ("member_of_NET", "x"),
        ("member_of_NET", "in:y,z"),
        ("member_of_NET", "!w"),
        ("in_tree_NET", "r"),
        ("required_HOST", "H"),
        ("group_policy", "isolate"),
        ("same_subtree", "_HOST,_NET"),
        ("root_required", "R,!S"),
        ("limit", "5"),
    ]


def test_more_than_one_group_needs_a_policy() -> None:
    group, two = RequestGroup("1", {"VCPU": 1}), RequestGroup("2", {"VCPU": 1})
    assert ("group_policy", "none") in query.candidate_pairs(CandidateQuery((group, two)))
    assert len(query.candidate_pairs(CandidateQuery((group,)))) == 1


@pytest.mark.parametrize(
    ("pairs", "features"),
    [
        ([("resources", "VCPU:1")], set()),
        ([("resources1", "VCPU:1")], {"granular groups"}),
        ([("resources_A", "VCPU:1")], {"string suffixes"}),
        ([("required", "A,B")], {"candidate required traits"}),
        ([("required", "A,!B")], {"candidate required traits", "forbidden traits"}),
        ([("required", "in:A,B")], {"candidate required traits", "any traits"}),
        ([("required", "A"), ("required", "B")], {"candidate required traits", "any traits"}),
        ([("member_of", "in:a,b")], {"candidate member_of"}),
        ([("member_of", "!a")], {"candidate member_of", "forbidden aggregates"}),
        ([("member_of", "a"), ("member_of", "b")], {"candidate member_of", "member_of repeated"}),
        ([("in_tree", "a")], {"candidate in_tree"}),
        ([("root_required", "A")], {"candidate root_required"}),
        ([("same_subtree", "_A,_B")], {"candidate same_subtree"}),
        ([("limit", "1")], {"candidate limit"}),
        ([("group_policy", "none")], {"granular groups"}),
        ([("nonsense", "1")], set()),
    ],
)
def test_each_parameter_has_its_required_feature(
    pairs: list[tuple[str, str]], features: set[str]
) -> None:
    assert set(query.candidate_features(pairs)) == features | {"allocation candidates"}


@pytest.mark.parametrize(
    "text",
    [
        "resources=VCPU%3A1&limit=5",
        "?resources=VCPU:1&limit=5",
        "/allocation_candidates?resources=VCPU%3A1&limit=5",
        "'http://cloud/placement/allocation_candidates?resources=VCPU:1&limit=5'",
        "GET /allocation_candidates?resources=VCPU:1&limit=5 HTTP/1.1",
        '"GET /placement/allocation_candidates?resources=VCPU%3A1&limit=5 HTTP/1.1"',
    ],
)
def test_a_query_is_parsed_from_each_form_in_a_log(text: str) -> None:
    assert query.parse(text) == [("resources", "VCPU:1"), ("limit", "5")]


@pytest.mark.parametrize("number", range(100))
def test_a_query_is_read_as_it_was_formatted(number: int) -> None:
    draw = random.Random(f"query {number}")
    request = random_queries.draw_query(draw, clouds.draw_state(draw), microversion.MAXIMUM)
    parsed = query.read_candidates(query.candidate_pairs(request))
    assert set(constraint.constraints_of(parsed)) == set(constraint.constraints_of(request))


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("resources=VCPU:1&resources=VCPU:2", "resources=VCPU:2"),
        ("in_tree=a&in_tree=b", "in_tree=b"),
        ("root_required=A&root_required=B,!C", "root_required=B,!C"),
        ("limit=1&limit=2", "limit=1"),
        ("group_policy=none&group_policy=isolate", "group_policy=none"),
        ("required=A&required=B", "required=A,B"),
    ],
)
def test_of_equal_parameters_one_counts_or_all(text: str, counts: str) -> None:
    assert query.read_candidates(query.parse(text)) == query.read_candidates(query.parse(counts))


def test_every_parameter_that_cannot_be_read_is_named() -> None:
    pairs = query.parse("resources=VCPU,MEMORY_MB:x,DISK_GB:0&resource=VCPU:1&limit=many")
    with pytest.raises(errors.InvalidInput) as raised:
        query.read_candidates(pairs)
    assert str(raised.value).splitlines() == [
        "unknown parameter 'resource' in the query",
        "resources: 'VCPU' in the query is not CLASS:amount",
        "resources: 'MEMORY_MB:x' in the query is not CLASS:amount",
        "resources: 'DISK_GB:0' in the query is not CLASS:amount",
        "limit=many in the query is not a number from 1 on",
    ]
