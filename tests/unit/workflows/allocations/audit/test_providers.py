# SPDX-License-Identifier: Apache-2.0
"""Findings about providers in small snapshots."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement.model import inventory
from osc_placement.nova import values
from osc_placement.workflows.allocations import audit, providers
from tests.support.clouds.audited import GONE, context, find, on, repaired
from tests.support.clouds.small import NODES, USES, cloud, server


def test_provider_over_capacity_is_reported_and_not_repaired() -> None:
    snapshot = cloud([server()], allocations={"s": on(a={**USES, "DISK_GB": 200})})
    over = next(item for item in find(snapshot) if item.code == "over-capacity")
    assert over.evidence.text == "DISK_GB 200 used of 100"
    assert over.evidence.fields == {"resources": {"DISK_GB": {"used": 200, "capacity": 100}}}
    assert (over.subject.name, over.hosts, over.repair) == ("a.", ("a",), None)


def test_a_one_time_use_device_in_use_is_not_over_capacity() -> None:
    reserved = {"n-a.": {"VGPU": inventory.Inventory(total=1, reserved=1)}}
    snapshot = cloud([server()], allocations={"s": on(a={"VGPU": 1})})
    snapshot = dataclasses.replace(snapshot, inventories={**snapshot.inventories, **reserved})
    assert providers.has_use_without_capacity(snapshot)
    assert "over-capacity" in {item.code for item in find(snapshot)}
    found = find(snapshot, one_time_use=frozenset({"n-a."}))
    assert "over-capacity" not in {item.code for item in found}


@pytest.mark.parametrize(
    ("fields", "more", "code"),
    [
        ({}, {"computes": frozenset({"n-gone."})}, "stale-provider"),
        ({}, {}, "unknown"),
        (
            {"deleted_servers": {"s": dataclasses.replace(GONE, node="gone.")}},
            {},
            "stale-provider",
        ),
        (
            {"hosts": values.Hosts(nodes=(*NODES, values.ComputeNode("other", "gone.", "gone")))},
            {},
            "stale-provider",
        ),
        (
            {"hosts": values.Hosts(nodes=NODES, services=frozenset({"gone"}))},
            {"computes": frozenset({"n-gone."})},
            "unknown",
        ),
        (
            {"hosts": values.Hosts(nodes=NODES, unreachable=frozenset({"gone"}))},
            {"computes": frozenset({"n-gone."})},
            "unknown",
        ),
    ],
)
def test_provider_without_compute_node_is_stale_only_with_evidence(
    fields: dict[str, Any], more: dict[str, Any], code: str
) -> None:
    (found,) = audit.find(cloud(**fields), context(**more))
    assert (found.code, found.subject.uuid, found.repair) == (code, "n-gone.", None)
    is_undiscovered = "hosts" in fields and not code.startswith("stale")
    assert ("resource provider delete --tree" in found.proposed.text) is not is_undiscovered


def test_provider_with_read_error_is_reported_and_its_host_not_judged() -> None:
    snapshot = cloud([server()], read_errors={"n-a.": "500"})
    found = find(snapshot)
    assert {item.code for item in found} == {"unknown"}
    assert repaired(snapshot, found) == {}
