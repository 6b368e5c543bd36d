# SPDX-License-Identifier: Apache-2.0
"""``placement aggregate mirror --ratios`` on every target, with recorded answers of nova."""

from __future__ import annotations

import uuid

import pytest

from osc_placement import testing
from tests.support.peer import shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

RATIOS = "placement aggregate mirror --ratios"
RECORDED = ("--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
NOVA = testing.sample_nova("12-hosts")
NODES = {
    item["hypervisor_hostname"]: item["service"]["host"]
    for item in NOVA["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
}


def use(target: targets.Target, name: str, **resources: int) -> None:
    """Allocate resources of a host for a new consumer."""
    (provider,) = target.ask("GET", f"/resource_providers?name={name}")["resource_providers"]
    body = {
        "allocations": {provider["uuid"]: {"resources": resources}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "TEST",
    }
    target.ask("PUT", f"/allocations/{uuid.uuid4()}", body)


def old_filter(target: targets.Target, vcpus: int) -> set[str]:
    """The hosts in which nova's filter of CPU leaves room for a number of VCPU.

    The ratio of a host is the smallest of its aggregates, else its own.
    """
    fitting = set()
    listed = target.ask("GET", "/resource_providers")["resource_providers"]
    for provider in listed:
        host = NODES.get(provider["name"])
        ratios = [
            float(item["metadata"]["cpu_allocation_ratio"])
            for item in NOVA["GET /v2.1/os-aggregates"]["aggregates"]
            if host in item["hosts"] and "cpu_allocation_ratio" in item["metadata"]
        ]
        if host is None:
            continue
        path = f"/resource_providers/{provider['uuid']}"
        inventory = target.ask("GET", f"{path}/inventories")["inventories"].get("VCPU")
        if inventory is None:
            continue
        used = target.ask("GET", f"{path}/usages")["usages"]["VCPU"]
        ratio = min(ratios, default=inventory["allocation_ratio"])
        total = inventory["total"] - inventory["reserved"]
        if used + vcpus <= int(total * ratio) and vcpus <= inventory["max_unit"]:
            fitting.add(provider["name"])
    return fitting


def candidates(target: targets.Target, vcpus: int) -> set[str]:
    """The hosts that Placement returns."""
    found = target.ask("GET", f"/allocation_candidates?resources=VCPU:{vcpus}")
    used = {key for request in found["allocation_requests"] for key in request["allocations"]}
    return {
        target.ask("GET", f"/resource_providers/{key}")["name"]
        for key in used
        if found["provider_summaries"][key]["parent_provider_uuid"] is None
    }


def test_placement_returns_the_hosts_of_novas_old_filter(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    amounts = (1, 3, 4, 24, 60)
    use(target, "cmp-0001.lab.example.org", VCPU=60)
    before = [candidates(target, vcpus) for vcpus in amounts]
    refused = [
        row for row in openstack.rows(RATIOS, *RECORDED, code=6) if row["status"] == "refused"
    ]
    assert sorted(row["code"] for row in refused) == [
        "invalid-value",
        "no-compute-node",
        "no-compute-node",
    ]
    after = [candidates(target, vcpus) for vcpus in amounts]
    assert [answer & NODES.keys() for answer in after] == [
        old_filter(target, vcpus) for vcpus in amounts
    ]
    assert after != before
