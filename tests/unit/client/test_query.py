# SPDX-License-Identifier: Apache-2.0
"""Query strings, and the features that they need."""

from __future__ import annotations

import random

import pytest

from osc_placement import errors, microversion
from osc_placement.client import query
from osc_placement.model import constraint
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from tests.support.candidates import cloud_builder


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
    one, two = RequestGroup("1", {"VCPU": 1}), RequestGroup("2", {"VCPU": 1})
    assert ("group_policy", "none") in query.candidate_pairs(CandidateQuery((one, two)))
    assert len(query.candidate_pairs(CandidateQuery((one,)))) == 1


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
    request = cloud_builder.draw_query(draw, cloud_builder.draw_state(draw), microversion.MAXIMUM)
    found = query.read_candidates(query.candidate_pairs(request))
    assert set(constraint.constraints_of(found)) == set(constraint.constraints_of(request))


def test_every_parameter_that_cannot_be_read_is_named() -> None:
    pairs = query.parse("resources=VCPU,MEMORY_MB:x,DISK_GB:0&resource=VCPU:1&limit=many")
    with pytest.raises(errors.InvalidInput) as raised:
        query.read_candidates(pairs)
    assert str(raised.value).splitlines() == [
        "unknown parameter 'resource' in the query",
        "resources: 'VCPU' in the query is not CLASS:amount",
        "resources: 'MEMORY_MB:x' in the query is not CLASS:amount",
        "resources: 'DISK_GB:0' in the query is not CLASS:amount",
        "limit=many in the query is not a number",
    ]
