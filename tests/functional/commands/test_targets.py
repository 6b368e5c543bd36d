# SPDX-License-Identifier: Apache-2.0
"""The targets: what functional tests can rely on."""

from __future__ import annotations

from osc_placement import testing
from tests.support.peer import target as targets


def test_a_target_is_empty(target: targets.Target) -> None:
    assert target.ask("GET", "/resource_providers") == {"resource_providers": []}


def test_a_write_is_not_visible_to_the_next_test(target: targets.Target) -> None:
    assert target.request("GET", "/traits/CUSTOM_LEFT_BEHIND").status_code == 404
    target.ask("PUT", "/traits/CUSTOM_LEFT_BEHIND")


def test_a_write_is_not_visible_to_the_next_test_again(target: targets.Target) -> None:
    assert target.request("GET", "/traits/CUSTOM_LEFT_BEHIND").status_code == 404
    target.ask("PUT", "/traits/CUSTOM_LEFT_BEHIND")


def test_a_sample_cloud_is_loaded_with_generations(target: targets.Target) -> None:
    target.load("12-hosts")
    document = testing.sample_cloud("12-hosts")
    providers = target.ask("GET", "/resource_providers")["resource_providers"]
    assert {entry["uuid"]: (entry["name"], entry["generation"]) for entry in providers} == {
        uuid: (entry["name"], entry["generation"]) for uuid, entry in document["providers"].items()
    }
    for uuid, consumer in document["consumers"].items():
        answer = target.ask("GET", f"/allocations/{uuid}")
        assert answer["consumer_generation"] == consumer["generation"]
        assert answer["consumer_type"] == consumer["type"]
        assert {
            provider: allocation["resources"]
            for provider, allocation in answer["allocations"].items()
        } == consumer["allocations"]
