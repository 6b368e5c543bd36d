# SPDX-License-Identifier: Apache-2.0
"""Decisions and changes of documents of moves on a small cloud."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.plan import change
from osc_placement.workflows.reshape import (
    assignment,
    changes as reshape_changes,
    decision,
    documents,
    reshape_plan,
    snapshot,
)
from tests.support.reshape import cloud_builder

PACK = assignment.AssignOptions("pack")
PLAIN = assignment.AssignOptions()
A, B = "cn1_pci_0000_84_00_0", "cn1_pci_0000_85_00_0"

#: A compute node that has all inventories itself, and one child.
PROVIDERS: dict[str, Any] = {
    "cn1": (None, {"VCPU": 16, "VGPU": {"total": 8, "max_unit": 8}, "SRIOV_NET_VF": 2}),
    B: ("cn1", {}),
    "cn2": (None, {"VCPU": 16}),
    "share": (None, {"DISK_GB": 100}),
}
CONSUMERS: dict[str, Any] = {
    "one": {"cn1": {"VCPU": 1, "VGPU": 4}, "share": {"DISK_GB": 10}},
    "moving": {"cn1": {"VCPU": 1, "VGPU": 2, "SRIOV_NET_VF": 1}, "cn2": {"VCPU": 1}},
    "plain": {"cn1": {"VCPU": 2}},
    "far": {"cn2": {"VCPU": 3}},
}
MOVES = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 4}}, to: {{name: {A}, traits: [CUSTOM_VGPU_A]}}}}
- {{from: cn1, resources: {{VGPU: 4, SRIOV_NET_VF: 2}}, to: {B}}}
"""


def cloud(
    providers: Any = PROVIDERS,
    consumers: Any = CONSUMERS,
    roots: Iterable[str] = ("cn1",),
    **traits: list[str],
) -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(cloud_builder.state(providers, consumers, traits), *roots)


def decided(
    text: str,
    before: snapshot.TreeSnapshot | None = None,
    options: assignment.AssignOptions = PLAIN,
    *allow: str,
) -> decision.ReshapeDecision:
    """The decision about a document of moves, or about a target tree."""
    parse = documents.parse_tree if text.startswith("tree:") else documents.parse
    request = reshape_plan.ReshapeRequest(parse(text, "m"), (), options, frozenset(allow))
    return reshape_plan.decide(request, before or cloud())[0]


def refused(
    text: str,
    before: snapshot.TreeSnapshot | None = None,
    options: assignment.AssignOptions = PLAIN,
) -> list[str]:
    with pytest.raises(errors.InvalidInput) as caught:
        decided(text, before, options)
    return list(caught.value.reasons)


def changes(
    text: str,
    before: snapshot.TreeSnapshot | None = None,
    options: assignment.AssignOptions = PACK,
) -> list[change.Change]:
    return list(reshape_changes.make_plan(decided(text, before, options), ()).changes)


def new(name: str) -> str:
    return snapshot.new_uuid(name)
