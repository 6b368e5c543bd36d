# SPDX-License-Identifier: Apache-2.0
"""Helpers of the audit's tests: findings and repairs in small snapshots."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from osc_placement.nova.flavor import Flavor
from osc_placement.workflows.cloud.cloud import Cloud, Owner
from osc_placement.workflows.repair.allocations import audit
from osc_placement.workflows.repair.allocations.repair import AllocationFinding, AuditContext
from tests.support import plans
from tests.support.clouds.small import SMALL, server

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
JUST_NOW = "2025-12-31T23:59:50Z"
CPUS = {"VCPU": 1, "MEMORY_MB": 512}
DISK = {"DISK_GB": 10}
LARGE = Flavor(vcpus=2, ram=1024, disk=20)
PINNED = dataclasses.replace(SMALL, extra_specs={"hw:cpu_policy": "dedicated"})
CUSTOM = dataclasses.replace(SMALL, extra_specs={"resources:CUSTOM_X": "1"})
GONE = server("a", vm_state="deleted", status="DELETED")
NO_TYPE = Owner("p", "u", "unknown")


def context(**fields: Any) -> AuditContext:
    return AuditContext(**{"now": NOW, "min_age": 60.0, **fields})


def find(snapshot: Cloud, **fields: Any) -> list[AllocationFinding]:
    """All findings, except about the provider that is always stale."""
    findings = audit.find(snapshot, context(**fields))
    return [item for item in findings if item.subject.uuid != "n-gone."]


def codes(findings: list[AllocationFinding]) -> list[str]:
    return [str(item.code) for item in findings]


def repaired(snapshot: Cloud, findings: list[AllocationFinding]) -> dict[str, Any]:
    """``{consumer: its allocations after the repair}``, of consumers that change."""
    planned = audit.plan_repair(snapshot, findings)
    repaired = {}
    for item in planned.changes:
        after: dict[str, dict[str, Any]] = {}
        for key, value in plans.after(item).items():
            if ":" in key and value is not None:
                provider, _, name = key.rpartition(":")
                after.setdefault(provider, {})[name] = value
        repaired[item.subject.uuid] = after
    return repaired


def on(**parts: Any) -> dict[str, Any]:
    """``on(a=…, nfs=…)``: parts of an allocation by short names."""
    names = {"nfs": "u-nfs", "nic": "u-nic"}
    return {names.get(short, f"n-{short}."): part for short, part in parts.items()}
