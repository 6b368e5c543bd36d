# SPDX-License-Identifier: Apache-2.0
"""Totals that a document changes in the same reshape."""

from __future__ import annotations

import dataclasses

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.plan import change
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    checks,
    consumers,
    reshape_plan,
    snapshot,
    target_tree,
)
from tests.support.embedded import uuid_of
from tests.support.reshape.documents import MOVES, PACK, A, B, cloud, decided, new, refused

SMALL = cloud(
    {"cn1": (None, {"VCPU": 4, "VGPU": {"total": 4, "max_unit": 4}}), "gpu": ("cn1", {"VGPU": 2})},
    {"one": {"cn1": {"VGPU": 2}}},
)
#: One move with fields of the target's inventory.
MOVE = "moves: [{from: cn1, resources: {VGPU: %s}, to: {name: gpu, inventories: {VGPU: {%s}}}}]\n"
KEEP = "providers: [{name: cn1, inventories: {%s: {%s}}}]\n"


def to_tree(text: str, before: snapshot.TreeSnapshot) -> consumers.ReshapeDecision:
    request = reshape_plan.ReshapeRequest(tree=target_tree.parse(text, "t"), options=PACK)
    return reshape_plan.decide_request(request, before)[0]


def offered(found: consumers.ReshapeDecision, name: str) -> dict[str, int]:
    inventories = found.after.nodes[uuid_of(name)].inventories
    return {resource_class: held.total for resource_class, held in inventories.items()}


def test_a_given_total_is_set_after_the_moves() -> None:
    found = decided(MOVE % ("all", "total: 8"), SMALL)
    assert (offered(found, "cn1"), offered(found, "gpu")) == ({"VCPU": 4}, {"VGPU": 8})
    assert found.resolved.growth == {(uuid_of("gpu"), "VGPU"): 2}
    assert "the document changes the totals: VGPU +2 in sum" in checks.notes(found)
    assert checks.violations(found) == []
    unexplained = dataclasses.replace(found.resolved, growth={})
    assert checks.violations(dataclasses.replace(found, resolved=unexplained)) == [
        "VGPU of gpu would change without a move"
    ]


def test_a_source_may_keep_or_lose_more_than_its_moves_take() -> None:
    more = decided(MOVE % (2, "max_unit: 2") + KEEP % ("VGPU", "total: 9"), SMALL, PACK)
    assert (offered(more, "cn1")["VGPU"], offered(more, "gpu")["VGPU"]) == (9, 4)
    assert more.after.nodes[uuid_of("cn1")].inventories["VGPU"].max_unit == 9
    none = decided(MOVE % (2, "max_unit: 2") + KEEP % ("VGPU", "total: 0"), SMALL)
    assert (offered(none, "cn1"), offered(none, "gpu")) == ({"VCPU": 4}, {"VGPU": 4})
    again = decided(MOVE % ("all", "max_unit: 2") + KEEP % ("VGPU", "total: 3"), SMALL, PACK)
    assert (offered(again, "cn1")["VGPU"], offered(again, "gpu")["VGPU"]) == (3, 6)


def test_a_total_of_a_new_class_adds_an_inventory() -> None:
    found = decided(MOVE % (2, "max_unit: 2") + KEEP % ("CUSTOM_FPGA", "total: 3"), SMALL, PACK)
    added = found.after.nodes[uuid_of("cn1")].inventories["CUSTOM_FPGA"]
    assert added == inventory.Inventory(3, max_unit=3)
    assert found.resolved.document.classes == {"CUSTOM_FPGA"}


def test_reserved_stays_on_a_source_that_keeps_a_total() -> None:
    before = cloud({"cn1": (None, {"VGPU": {"total": 4, "reserved": 1}}), "gpu": ("cn1", {})}, {})
    found = decided(MOVE % ("all", "max_unit: 1") + KEEP % ("VGPU", "total: 2"), before)
    assert found.after.nodes[uuid_of("cn1")].inventories["VGPU"].reserved == 1
    assert found.after.nodes[uuid_of("gpu")].inventories["VGPU"].reserved == 0


def test_a_total_below_the_usage_is_refused() -> None:
    (reason,) = refused(MOVE % ("all", "total: 1"), SMALL)
    assert "VGPU" in reason
    (reason,) = refused(MOVE % (2, "max_unit: 2") + KEEP % ("VCPU", "total: 0"), _with_vcpu())
    assert reason == "cn1 would be over capacity: 1 VCPU used of 0"


def _with_vcpu() -> snapshot.TreeSnapshot:
    providers = {"cn1": (None, {"VCPU": 4, "VGPU": 4}), "gpu": ("cn1", {"VGPU": 2})}
    return cloud(providers, {"one": {"cn1": {"VCPU": 1}}})


def test_two_totals_of_one_inventory_are_refused() -> None:
    (reason,) = refused(
        "moves:\n"
        "- {from: cn1, resources: {VGPU: 1}, to: {name: gpu, inventories: {VGPU: {total: 5}}}}\n"
        "- {from: cn1, resources: {VGPU: 1}, to: {name: gpu, inventories: {VGPU: {total: 6}}}}\n",
        SMALL,
    )
    assert "total of VGPU of gpu is given as 5 and 6" in reason


def test_totals_that_nova_compute_writes_need_the_guard() -> None:
    owned = cloud(cn1=["COMPUTE_NODE"])
    text = MOVES + KEEP % ("VCPU", "total: 20")
    assert decided(MOVES.replace(", SRIOV_NET_VF: 2", ""), owned, PACK)
    (reason,) = refused(text.replace(", SRIOV_NET_VF: 2", ""), owned, PACK)
    assert "writes the total of VCPU on cn1 at its next periodic run" in reason
    assert "--allow nova-owned" in reason


def test_a_target_tree_changes_sums_only_of_the_listed_classes() -> None:
    tree = "tree: {name: cn1, inventories: {VCPU: 4}, children: [{name: gpu, inventories: {%s}}]}\n"
    with pytest.raises(errors.InvalidInput, match=r"without change_totals: \[VGPU\]"):
        to_tree(tree % "VGPU: 9", SMALL)
    for total in (9, 3):
        found = to_tree(tree % f"VGPU: {total}" + "change_totals: [VGPU]", SMALL)
        assert (offered(found, "cn1"), offered(found, "gpu")) == ({"VCPU": 4}, {"VGPU": total})
        again = to_tree(tree % f"VGPU: {total}" + "change_totals: [VGPU]", found.after)
        assert reshape_changes.list_changes(again) == []
    with pytest.raises(errors.InvalidInput, match="2 VGPU used of 0"):
        to_tree(tree % "" + "change_totals: [VGPU]", SMALL)


def test_a_target_tree_may_remove_a_provider_with_its_inventory() -> None:
    found = to_tree("tree: {name: cn1}\nchange_totals: [VGPU]", SMALL)
    assert [item.kind for item in reshape_changes.list_changes(found)] == ["reshape", "provider"]
    assert found.resolved.growth == {(uuid_of("gpu"), "VGPU"): -2}


def test_one_reshape_has_the_moves_and_the_new_totals() -> None:
    text = MOVES.replace(f"to: {B}", f"to: {{name: {B}, inventories: {{VGPU: {{total: 6}}}}}}")
    found = decided(text, options=PACK)
    reshapes: list[change.Change] = [
        item for item in reshape_changes.list_changes(found) if item.kind == "reshape"
    ]
    (only,) = reshapes
    totals = {
        key: held["VGPU"].total for key, held in only.after.inventories.items() if held.get("VGPU")
    }
    assert totals == {new(A): 4, uuid_of(B): 6}
