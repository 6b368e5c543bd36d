# SPDX-License-Identifier: Apache-2.0
"""A cloud for recipes, servers of nova, and the result of a recipe."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import flavor, values
from osc_placement.workflows.reshape import (
    documents,
    recipes,
    reshape_plan,
    snapshot,
)
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder

A, B = "pci_0000_84_00_0", "pci_0000_85_00_0"
NEW = "3f1c6a52-7b0e-4d8e-9a55-0c2f6a7d1e11"
PROVIDERS: cloud_builder.Providers = {
    "cn1": (None, {"VCPU": 16, "VGPU": 8, "SRIOV_NET_VF": 2}),
    "cn1_pci_0000_86_00_0": ("cn1", {"PGPU": 1}),
    "cn1:agent": ("cn1", {}),
    "cn1:agent:ens1": ("cn1:agent", {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}),
    "share": (None, {"DISK_GB": 100}),
    "cn9": (None, {"VCPU": 16}),
    "empty": (None, {}),
}
CONSUMERS: cloud_builder.Consumers = {
    "a": {"cn1": {"VCPU": 4, "VGPU": 1}, "share": {"DISK_GB": 10}},
    "b": {"cn1": {"VCPU": 2, "VGPU": 3, "SRIOV_NET_VF": 1}},
    "c": {"cn1": {"VCPU": 1}, "cn1:agent:ens1": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}},
}
TRAITS = {"cn1": ["COMPUTE_NODE", "CUSTOM_RACK"]}
DEVICES = (
    recipes.Child(A, {"VGPU": 4}, ("CUSTOM_VGPU_A",)),
    recipes.Child(B, {"VGPU": 4, "SRIOV_NET_VF": 2}),
)


def cloud(*roots: str) -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(
        cloud_builder.state(PROVIDERS, CONSUMERS, TRAITS), *(roots or ("cn1",))
    )


def problems(call: Any, *arguments: Any) -> list[str]:
    with pytest.raises(errors.InvalidInput) as caught:
        call(*arguments)
    return list(caught.value.reasons)


def outcome(
    recipe: recipes.Recipe, before: snapshot.TreeSnapshot, *allow: str
) -> snapshot.TreeSnapshot:
    """The snapshot after the document of a recipe."""
    moves = documents.parse(recipes.write(recipe), "recipe.yaml")
    request = reshape_plan.ReshapeRequest(moves, allow=frozenset(allow))
    decided, _ = reshape_plan.decide(request, before)
    return decided.after.without(decided.resolved.deleted)


def held(after: snapshot.TreeSnapshot, consumer: str) -> dict[str, dict[str, int]]:
    allocations = after.consumers[uuid_of(consumer)].allocations
    return {after.name_of(uuid): dict(resources) for uuid, resources in allocations.items()}


def server(name: str, **fields: Any) -> values.Server:
    specs = fields.pop("specs", {})
    return dataclasses.replace(
        values.Server(
            uuid_of(name),
            name,
            host="host1",
            node="cn1",
            vm_state="active",
            flavor=flavor.Flavor(4, 2048, 20, extra_specs=specs),
            image_properties={},
        ),
        **fields,
    )


def servers(*items: values.Server) -> dict[str, values.Server]:
    return {item.uuid: item for item in items}
