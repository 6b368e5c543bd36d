# SPDX-License-Identifier: Apache-2.0
"""Request bodies and responses of every microversion; a written value reads back the same."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from osc_placement import microversion
from osc_placement.client import responses, wire
from osc_placement.microversion import Microversion
from osc_placement.model import allocation, inventory

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
    known = consumer
    if not microversion.supports(version, "allocation project and user"):
        known = dataclasses.replace(known, project_id=None, user_id=None)
    if not microversion.supports(version, "consumer generation"):
        known = dataclasses.replace(known, generation=None)
    if not microversion.supports(version, "consumer types"):
        known = dataclasses.replace(known, consumer_type=None)
    assert wire.read_consumer(consumer.uuid, response(body, version)) == known
    full = wire.read_consumer_allocations(consumer.uuid, response(body, version))
    assert full == (known, dict.fromkeys(consumer.allocations, 3))


@pytest.mark.parametrize(
    ("minor", "keys"),
    [
        (0, {"allocations"}),
        (7, {"allocations"}),
        (8, {"allocations", "project_id", "user_id"}),
        (27, {"allocations", "project_id", "user_id"}),
        (28, {"allocations", "project_id", "user_id", "consumer_generation"}),
        (34, {"allocations", "project_id", "user_id", "consumer_generation", "mappings"}),
        (
            38,
            {
                "allocations",
                "project_id",
                "user_id",
                "consumer_generation",
                "mappings",
                "consumer_type",
            },
        ),
    ],
)
def test_an_allocation_body_has_exactly_the_keys_of_its_version(minor: int, keys: set[str]) -> None:
    consumer = allocation.Consumer("c", {"p": {"VCPU": 1}}, "project", "user", 4, "INSTANCE")
    body = wire.consumer_body(consumer, Microversion(1, minor), {"": ["p"]})
    assert set(body) == keys
    assert isinstance(body["allocations"], list if minor < 12 else dict)


@given(held=inventories, generation=st.integers(0))
def test_inventories_read_back(held: dict[str, inventory.Inventory], generation: int) -> None:
    found = wire.read_inventories(wire.inventories_body(generation, held))
    assert found == responses.ProviderInventories(generation, held)


def test_missing_fields_of_an_inventory_have_defaults() -> None:
    assert wire.read_inventory({"total": 4, "resource_provider_generation": 3}) == (
        inventory.Inventory(total=4)
    )


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
    found = wire.read_candidates(body)
    assert found.requests == (responses.AllocationRequest({"p": {"VCPU": 2}}),)
    assert found.summaries == {
        "p": responses.ProviderSummary({"VCPU": responses.ResourceSummary(8, 1)})
    }


def test_candidates_of_1_34_have_mappings_traits_and_trees() -> None:
    summary = {**SUMMARY, "traits": ["T"], "root_provider_uuid": "r", "parent_provider_uuid": None}
    request = {"allocations": {}, "mappings": {"_A": ["p", "q"]}}
    found = wire.read_candidates(
        {"allocation_requests": [request], "provider_summaries": {"p": summary}}
    )
    assert found.requests[0].mappings == {"_A": ("p", "q")}
    assert (found.summaries["p"].traits, found.summaries["p"].root_uuid) == (("T",), "r")


def test_a_reshape_body_has_generations_and_all_allocations() -> None:
    provider, consumer = str(uuid.uuid4()), str(uuid.uuid4())
    held = {provider: responses.ProviderInventories(5, {"VCPU": inventory.Inventory(total=4)})}
    who = allocation.Consumer(consumer, {provider: {"VCPU": 1}}, "p", "u", 2)
    body = wire.reshape_body(held, [who], Microversion(1, 37))
    assert body["inventories"][provider]["resource_provider_generation"] == 5
    assert body["allocations"][consumer] == {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 2,
    }
