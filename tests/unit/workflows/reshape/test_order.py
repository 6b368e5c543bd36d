# SPDX-License-Identifier: Apache-2.0
"""Changes that depend on each other are refused, or are made in the right order."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    checks,
    consumers as consumers_module,
    documents,
    reshape_plan,
    resolve,
    snapshot,
)
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder

PROVIDERS: dict[str, Any] = {
    "cn": (None, {"VCPU": 16, "VGPU": {"total": 8, "reserved": 1}}),
    "a": ("cn", {}),
    "b": ("a", {}),
}
MOVE = "moves: [{from: cn, resources: {VGPU: 4}, to: {name: gpu}}]\n"
PLAIN = consumers_module.AssignOptions()


def cloud(providers: Any = PROVIDERS, *roots: str) -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(cloud_builder.state(providers, {}), *(roots or ("cn",)))


def refused(text: str) -> str:
    with pytest.raises(errors.InvalidInput) as caught:
        reshape_plan.decide(documents.parse(text, "m"), cloud(), PLAIN)
    return "\n".join(caught.value.reasons)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rename: {a: b, b: c}", "a cannot take the name 'b' in the same plan"),
        ("rename: {a: b, b: a}", "a cannot take the name 'b' in the same plan"),
        (f"rename: {{a: c, {uuid_of('a')}: d}}", "c is renamed twice"),
        ("providers: [{name: cn, parent: b}]", "cn would be its own ancestor"),
        ("providers: [{name: x}]\ndelete: [x]", "x cannot be deleted: it does not exist"),
        ("providers: [{name: b, parent: cn}]\ndelete: [b]", "b cannot be changed and deleted"),
        ("providers: [{name: b, traits: [CUSTOM_A]}]\ndelete: [b]", "b cannot be changed and"),
        ("rename: {b: c}\ndelete: [c]", "provider 'c' does not exist"),
        ("rename: {b: c}\ndelete: [b]", "c cannot be changed and deleted in the same plan"),
        (
            "providers: [{name: x, parent: a}, {name: x, parent: cn}]",
            "x has two parents, a and cn",
        ),
        (
            "providers: [{name: gpu, inventories: {VGPU: {max_unit: 1}}},"
            " {name: gpu, inventories: {VGPU: {max_unit: 2}}}]",
            "max_unit of VGPU of gpu is given as 1 and 2",
        ),
    ],
)
def test_contradictory_and_dependent_changes_are_refused(line: str, reason: str) -> None:
    assert reason in refused(MOVE + line)


def test_a_given_parent_takes_precedence_over_the_default() -> None:
    before = cloud()
    text = f"{MOVE}providers: [{{name: gpu}}, {{name: gpu, parent: a}}]"
    found = reshape_plan.decide(documents.parse(text, "m"), before, PLAIN)
    assert found.resolved.nodes[resolve.new_uuid("gpu")].provider.parent_uuid == uuid_of("a")


def test_parents_change_from_the_top_down() -> None:
    before = cloud()
    text = f"{MOVE}providers: [{{name: a, parent: b}}, {{name: b, parent: cn}}]"
    found = reshape_plan.decide(documents.parse(text, "m"), before, PLAIN)
    stages = {
        item.subject.name: item.stage
        for item in reshape_changes.list_changes(found)
        if item.kind == "provider"
    }
    assert stages["b"] < stages["a"]


def test_a_new_provider_cannot_take_the_uuid_of_another() -> None:
    before = cloud()
    node = before.nodes[uuid_of("b")]
    taken = resolve.new_uuid("gpu")
    nodes = {uuid: item for uuid, item in before.nodes.items() if uuid != uuid_of("b")}
    other = cloud_builder.provider.Provider(taken, "b", 1, uuid_of("cn"))
    renamed = dataclasses.replace(node, provider=other)
    before = dataclasses.replace(before, nodes={**nodes, taken: renamed})
    with pytest.raises(errors.InvalidInput, match="'b' has the UUID that 'gpu' would get"):
        reshape_plan.decide(documents.parse(MOVE, "m"), before, PLAIN)


@pytest.mark.parametrize(
    "more",
    [
        "providers: [{name: x, parent: $root}]",
        f"providers: [{{uuid: {uuid_of('x')}, name: $root-x}}]",
    ],
)
def test_a_name_or_uuid_without_root_is_created_in_one_tree_only(more: str) -> None:
    before = cloud({"n1": (None, {"VGPU": 1}), "n2": (None, {"VGPU": 1})}, "n1", "n2")
    text = f"moves: [{{from: $root, resources: {{VGPU: 1}}, to: {{name: $root-g}}}}]\n{more}"
    roots = [before.nodes[uuid_of(name)].provider for name in ("n1", "n2")]
    request = reshape_plan.ReshapeRequest(
        documents.parse(text, "m"), roots=tuple(roots), options=PLAIN
    )
    found, skipped = reshape_plan.decide_request(request, before)
    assert {move.source for move in found.resolved.moves} == {uuid_of("n1")}
    assert [(item.subject.name, item.refused) for item in skipped] == [("n2", True)]
    assert "put $root into its name" in skipped[0].reason


def test_changes_without_a_move_are_detected() -> None:
    before = cloud_builder.snapshot_of(
        cloud_builder.state(PROVIDERS, {"c": {"cn": {"VCPU": 1}}}), "cn"
    )
    moves = (resolve.InventoryMove(uuid_of("cn"), "VGPU", 4, uuid_of("a"), "VGPU"),)
    cn, a = before.nodes[uuid_of("cn")], before.nodes[uuid_of("a")]
    vcpu, half = cn.inventories["VCPU"], inventory.Inventory(4)
    good = {uuid_of("cn"): {"VCPU": vcpu, "VGPU": half}, uuid_of("a"): {"VGPU": half}}
    bad = {
        uuid_of("cn"): {"VCPU": dataclasses.replace(vcpu, reserved=1), "VGPU": half},
        uuid_of("a"): {},
    }

    def violations(offered: Any, *given: resolve.Place, **has: Any) -> list[str]:
        nodes = {
            node.provider.uuid: dataclasses.replace(node, inventories=offered[node.provider.uuid])
            for node in (cn, a)
        }
        resolved = resolve.Resolved(documents.Document(), nodes, moves, {key: {} for key in given})
        decision = consumers_module.decided(resolved, [], before)
        changed = {key: dataclasses.replace(item, **has) for key, item in before.consumers.items()}
        after = dataclasses.replace(decision.after, consumers=changed)
        return checks.violations(dataclasses.replace(decision, after=after))

    assert violations(good) == []
    assert sorted(violations(bad)) == [
        "VCPU of cn would change without a move",
        "VGPU of a would change without a move",
    ]
    assert violations(bad, (uuid_of("cn"), "VCPU")) == ["VGPU of a would change without a move"]
    (reason,) = violations(good, allocations={uuid_of("a"): {"VCPU": 1}})
    assert reason.startswith(f"consumer {uuid_of('c')} would have another amount of VCPU of ")
    assert reason.endswith(", without a move")
