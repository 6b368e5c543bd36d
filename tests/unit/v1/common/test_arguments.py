# SPDX-License-Identifier: Apache-2.0
"""Parsing of arguments; all errors are reported."""

from __future__ import annotations

import pytest

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.v1.common import arguments
from osc_placement.v1.resources import provider as provider_module


def test_member_of_accepts_the_forms_of_upstream_and_of_the_api() -> None:
    assert arguments.member_of(["a", "a,b", "in:a,b", "!a", "!in:a,b", "!a,b"], ["c", "c,d"]) == [
        "a",
        "in:a,b",
        "in:a,b",
        "!a",
        "!in:a,b",
        "!in:a,b",
        "!c",
        "!in:c,d",
    ]


def test_traits_with_commas_are_alternatives() -> None:
    assert arguments.required(["A", "B,C", "in:D,E"], ["F"]) == ["A", "in:B,C", "in:D,E", "!F"]


def test_options_list_the_features_that_they_require() -> None:
    needed = dict(arguments.trait_features(["A,B"], ["C"], "provider required traits"))
    assert set(needed) == {"provider required traits", "any traits", "forbidden traits"}
    needed = dict(arguments.aggregate_features(["!a"], ["b"], "provider member_of"))
    assert set(needed) == {"provider member_of", "forbidden aggregates", "member_of repeated"}
    assert list(arguments.aggregate_features([], [], "provider member_of")) == []


def test_all_errors_of_resources_are_reported() -> None:
    problems = errors.InputErrors()
    read = arguments.resources(["VCPU=1", "VCPU=2", "X", "Y=", "Z=a", "W=0"], problems)
    assert read["VCPU"] == 1
    with pytest.raises(errors.InvalidInput) as caught:
        problems.check()
    assert len(caught.value.reasons) == 5


def test_allocations_are_parsed_for_each_consumer() -> None:
    problems = errors.InputErrors()
    texts = ["rp=a,VCPU=1", "consumer=c2,MEMORY_MB=2,rp=a", "rp=b,VCPU=3"]
    parts = arguments.parse_allocations(texts, ["c1", "c2"], problems)
    problems.check()
    assert parts == {
        "c1": {"a": {"VCPU": 1}, "b": {"VCPU": 3}},
        "c2": {"a": {"VCPU": 1, "MEMORY_MB": 2}, "b": {"VCPU": 3}},
    }


def test_a_consumer_without_allocations_is_an_error() -> None:
    problems = errors.InputErrors()
    arguments.parse_allocations(["consumer=c1,rp=a,VCPU=1"], ["c1", "c2"], problems)
    assert problems.reasons == ["At least one resource allocation must be specified"]


def test_a_tree_is_drawn_with_its_branches() -> None:
    parents = {"root": None, "a": "root", "b": "root", "a1": "a", "a2": "a", "b1": "b"}
    tree = provider.ProviderTree(
        provider.Provider(name, name, 0, "root", parent) for name, parent in parents.items()
    )
    assert [mark + item.name for mark, item in provider_module.draw(tree)] == [
        "root",
        "├─ a",
        "│  ├─ a1",
        "│  └─ a2",
        "└─ b",
        "   └─ b1",
    ]
