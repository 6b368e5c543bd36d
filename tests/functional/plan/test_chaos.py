# SPDX-License-Identifier: Apache-2.0
"""Batches through a proxy that fails requests, cuts connections and writes concurrently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import chaos, fixtures, target as targets

AMEND = "resource provider inventory amend"
MOODS = {"conflict": 0.3, "refuse": 0.1, "cut_before": 0.07, "cut_after": 0.07, "lose_after": 0.07}

pytestmark = [
    pytest.mark.usefixtures("openstack"),
    pytest.mark.timeout(300),
]


def fifty_hosts() -> dict[str, Any]:
    """The first hosts of a sample, with their children and without servers."""
    document = testing.sample_cloud("200-hosts")
    providers = document["providers"].items()
    hosts = {uuid: host for uuid, host in providers if "cmp-000" <= host["name"] < "cmp-005"}
    return {**document, "providers": hosts, "consumers": {}}


@fixtures.usually_on("placement", "loopback")
def test_the_final_state_equals_the_plan(target: targets.OverHttp) -> None:
    target.load(fifty_hosts())
    before = target.inventories()
    with chaos.between(target.url, **MOODS, reads=0.1) as proxy:
        outcome = targets.run_at(
            proxy.url,
            f"{AMEND} --all --resource VCPU:allocation_ratio+=1"
            " --resource MEMORY_MB:reserved+=7 -f json",
        )
    rows = json.loads(outcome.stdout)
    after = target.inventories()
    changed = {row["name"] for row in rows if row["status"] == "applied"}
    assert {row["status"] for row in rows} == {"applied", "skipped"}, outcome.stderr
    assert outcome.code == 0
    assert len(changed) > 40
    assert sum(proxy.requests.values()) > sum(proxy.effective_writes.values()) * 2
    assert_trouble(proxy)
    for row in rows:
        name, path = row["name"], f"/resource_providers/{row['uuid']}/inventories"
        ours = 1 if name in changed else 0
        assert proxy.effective_writes[path] == ours, (
            f"{name} was written {proxy.effective_writes[path]} times"
        )
        for resource_class, fields in before[name].items():
            expected = dict(fields)
            if resource_class == "VCPU":
                expected["allocation_ratio"] += 1
            if resource_class == "MEMORY_MB":
                expected["reserved"] += 7
            if resource_class == "DISK_GB":
                expected["total"] -= proxy.rivals[row["uuid"]]
            assert after[name][resource_class] == expected
        for shown, real in ((row["before"], before), (row["after"], after)):
            for fact, value in shown.items():
                resource_class, _, field = fact.partition(":")
                assert real[name][resource_class][field] == value


def assert_trouble(proxy: chaos.Proxy) -> None:
    """Check that every kind of fault occurred, and the number of conflicts."""
    writes = sum(proxy.fates.values())
    assert proxy.fates["conflict"] > 0.15 * writes
    assert sum(proxy.rivals.values()) > 0.1 * writes
    assert {"refuse", "cut before", "cut after", "lose after"} <= proxy.fates.keys()


@fixtures.usually_on("loopback", "placement")
@pytest.mark.parametrize("verb", ["add", "remove"])
def test_traits_and_aggregates_are_added_and_none_is_lost(
    target: targets.OverHttp, verb: str
) -> None:
    target.load("12-hosts")
    name, aggregate = "CUSTOM_NEW", "5f6c1c8e-5a80-4a4c-9b8e-0f2c9ad3a001"
    before = memberships(target)
    kinds = {"trait": name, "aggregate": aggregate}
    targets.run_at(target.url, "trait create", name)
    if verb == "remove":
        for kind, value in kinds.items():
            command = f"resource provider {kind} add --all --{kind} {value}"
            assert targets.run_at(target.url, command).code == 0
    with chaos.between(target.url, **MOODS, reads=0.1, seed=5) as proxy:
        for kind, value in kinds.items():
            command = f"resource provider {kind} {verb} --all --{kind} {value} -f json"
            outcome = targets.run_at(proxy.url, command)
            assert outcome.code == 0, outcome.stderr
            assert {row["status"] for row in json.loads(outcome.stdout)} == {"applied"}
    assert proxy.fates["conflict"] > 0
    assert len(proxy.fates) > 3
    assert set(proxy.effective_writes.values()) == {1}
    assert len(proxy.effective_writes) == 2 * len(before)
    more = {name, aggregate} if verb == "add" else set()
    assert memberships(target) == {key: names | more for key, names in before.items()}


def memberships(target: targets.OverHttp) -> dict[str, set[str]]:
    """The traits and aggregates of every provider."""
    return {
        provider["uuid"]: {
            name
            for part in ("traits", "aggregates")
            for name in target.ask("GET", f"/resource_providers/{provider['uuid']}/{part}")[part]
        }
        for provider in target.ask("GET", "/resource_providers")["resource_providers"]
    }


@fixtures.usually_on("loopback", "placement")
def test_upstreams_batch_form_has_the_same_result(target: targets.OverHttp) -> None:
    target.load("12-hosts")
    hosts = target.ask("GET", "/resource_providers?required=COMPUTE_NODE")["resource_providers"]
    aggregate = "5f6c1c8e-5a80-4a4c-9b8e-0f2c9ad3a001"
    join = f"resource provider aggregate add --required COMPUTE_NODE --aggregate {aggregate}"
    assert targets.run_at(target.url, join).code == 0
    before = target.inventories()
    with chaos.between(target.url, **MOODS, reads=0.1, seed=9) as proxy:
        command = f"resource provider inventory set {aggregate} --aggregate --amend"
        outcome = targets.run_at(
            proxy.url, command, *["--resource", "VCPU:max_unit=7", "-f", "json"]
        )
    assert (outcome.code, outcome.messages) == (0, "")
    assert set(proxy.effective_writes.values()) == {1}
    assert len(proxy.effective_writes) == len(hosts) > 8
    after = target.inventories()
    names = {host["uuid"]: host["name"] for host in hosts}
    shown: dict[str, dict[str, dict[str, float]]] = {}
    for row in json.loads(outcome.stdout):
        classes = shown.setdefault(row.pop("resource_provider"), {})
        classes[row.pop("resource_class")] = row
    assert shown.keys() == names.keys()
    for uuid, name in names.items():
        assert shown[uuid] == after[name]
        assert after[name]["VCPU"] == before[name]["VCPU"] | {"max_unit": 7}
        assert after[name]["MEMORY_MB"] == before[name]["MEMORY_MB"]
