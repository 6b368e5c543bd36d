# SPDX-License-Identifier: Apache-2.0
"""Target trees, and templates for many trees."""

from __future__ import annotations

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.plan import change
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    documents,
    reshape_plan,
    snapshot,
    target_tree,
)
from tests.support import plans
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.documents import (
    MOVES,
    PACK,
    A,
    B,
    changes,
    cloud,
    decided,
    refused,
)


def to_tree(text: str, before: snapshot.TreeSnapshot) -> list[change.Change]:
    request = reshape_plan.ReshapeRequest(tree=target_tree.parse(text, "t"), options=PACK)
    return reshape_changes.list_changes(reshape_plan.decide_request(request, before)[0])


def test_the_moves_to_a_target_tree_follow_from_it() -> None:
    text = f"""\
tree:
  name: cn1
  inventories: {{VCPU: 16}}
  children:
  - {{name: {A}, traits: [CUSTOM_VGPU_A], inventories: {{VGPU: 4}}}}
  - {{name: {B}, inventories: {{VGPU: 4, SRIOV_NET_VF: 2}}}}
"""
    kinds = {item.kind for item in to_tree(text, cloud())}
    assert kinds == {"trait", "provider", "traits", "reshape"}
    with_amounts = [plans.after(item) for item in to_tree(text, cloud()) if "resh" in item.kind]
    assert with_amounts == [plans.after(item) for item in changes(MOVES) if "resh" in item.kind]


def test_a_tree_equal_to_the_target_has_no_changes() -> None:
    text = f"tree: {{name: cn1, children: [{{name: {B}, inventories: {{}}}}]}}"
    assert to_tree(text, cloud()) == []


REACHED = """\
tree:
  name: cn1
  children: [{name: gpu0, inventories: {VGPU: 2}}, {name: gpu1, inventories: {VGPU: 2}}]
assign: {%s: %s}
"""


@pytest.mark.parametrize("consumer", ["one", "deleted"])
@pytest.mark.parametrize(
    "target", ["gpu0", uuid_of("gpu0").upper(), "{VGPU: gpu0}", "{VGPU: {gpu0: 1}}"]
)
def test_a_target_tree_that_is_reached_needs_no_evidence(consumer: str, target: str) -> None:
    assert to_tree(REACHED % (uuid_of(consumer), target), _reached()) == []


@pytest.mark.parametrize("target", ["gpu1", "{VGPU: gpu1}", "{VGPU: {gpu0: 2}}", "{VCPU: gpu0}"])
def test_evidence_that_a_reached_tree_contradicts_is_an_error(target: str) -> None:
    with pytest.raises(errors.InvalidInput, match="has no allocation that moves"):
        to_tree(REACHED % (uuid_of("one"), target), _reached())


def _reached() -> snapshot.TreeSnapshot:
    providers = {name: ("cn1", {"VGPU": 2}) for name in ("gpu0", "gpu1")}
    return cloud({"cn1": (None, {"VCPU": 4}), **providers}, {"one": {"gpu0": {"VGPU": 1}}})


def test_a_provider_outside_the_target_tree_is_deleted() -> None:
    providers = {"cn1": (None, {"VCPU": 4}), "gpu": ("cn1", {"VGPU": 2})}
    before = cloud(providers, {"c": {"gpu": {"VGPU": 1}}})
    found = to_tree("tree: {name: cn1, inventories: {VCPU: 4, VGPU: 2}}", before)
    assert [item.kind for item in found] == ["reshape", "provider"]


def test_a_target_tree_keeps_the_sums() -> None:
    for tree_text, reason in (
        ("{name: cn1, inventories: {VCPU: 17, VGPU: 8, SRIOV_NET_VF: 2}}", "1 VCPU more"),
        ("{name: cn1, inventories: {VCPU: 16, SRIOV_NET_VF: 2}}", "8 VGPU less"),
        ("{name: " + B + "}", "not a root provider"),
        ("{name: unknown}", "the root provider is missing"),
    ):
        with pytest.raises(errors.InvalidInput, match=reason):
            to_tree(f"tree: {tree_text}", cloud())


def test_a_surplus_names_the_provider_whose_inventories_are_not_given() -> None:
    text = "tree: {name: cn1, children: [{name: gpu, inventories: {VGPU: 8}}]}"
    with pytest.raises(errors.InvalidInput, match=r"8 VGPU more.*cn1 keeps its 8 VGPU") as caught:
        to_tree(text, cloud({"cn1": (None, {"VGPU": 8})}, {}))
    assert "inventories: {} for none" in str(caught.value)


MERGED = """\
moves:
- {from: a, resources: {VGPU: all}, to: cn1}
- {from: b, resources: {VGPU: all}, to: {name: cn1%s}}
"""


def test_merged_sources_with_different_fields_are_refused() -> None:
    offered = {"a": {"total": 2, "max_unit": 2}, "b": {"total": 4, "max_unit": 1, "step_size": 2}}
    children = {name: ("cn1", {"VGPU": given}) for name, given in offered.items()}
    before = cloud({"cn1": (None, {"VCPU": 4}), **children}, {})
    first, second = refused(MERGED % "", before)
    assert "cn1 gets VGPU from a, b, whose max_unit differ (1, the total): give it" in first
    assert "whose step_size differ (1, 2)" in second
    given = ", inventories: {VGPU: {max_unit: 1, step_size: 1}}"
    assert decided(MERGED % given, before).after.nodes[uuid_of("cn1")].inventories[
        "VGPU"
    ] == inventory.Inventory(6, max_unit=1)


def test_merged_sources_with_equal_fields_are_accepted() -> None:
    given = {"total": 2, "max_unit": 2}
    children = {name: ("cn1", {"VGPU": given}) for name in ("a", "b")}
    after = decided(MERGED % "", cloud({"cn1": (None, {"VCPU": 4}), **children}, {})).after
    assert after.nodes[uuid_of("cn1")].inventories["VGPU"] == inventory.Inventory(4, max_unit=4)


def test_a_template_skips_trees_that_cannot_be_reshaped() -> None:
    providers = {
        "a": (None, {"VGPU": 2}),
        "b": (None, {"VGPU": 2}),
        "c": (None, {"VCPU": 2}),
        "d": (None, {"VGPU": 2}),
    }
    consumers = {"both": {"a": {"VGPU": 1}, "d": {"VGPU": 1}}, "wide": {"b": {"VGPU": 2}}}
    before = cloud_builder.snapshot_of(cloud_builder.state(providers, consumers), *providers)
    text = """\
moves:
- {from: $root, resources: {VGPU: 1}, to: {name: "${root}-0"}}
- {from: $root, resources: {VGPU: 1}, to: {name: "${root}-1"}}
"""
    roots = [before.nodes[uuid_of(name)].provider for name in providers]
    request = reshape_plan.ReshapeRequest(
        documents.parse(text, "m"), roots=tuple(roots), options=PACK
    )
    found, skipped = reshape_plan.decide_request(request, before)
    assert {move.source for move in found.resolved.moves} == {uuid_of("a"), uuid_of("d")}
    assert {(item.subject.name, item.refused, item.code) for item in skipped} == {
        ("b", True, "reshape-refused"),
        ("c", False, "nothing-to-move"),
    }
    assert found.before.consumers.keys() == {uuid_of("both")}
    listed = reshape_changes.list_changes(found)
    assert [item.subject.name for item in listed if item.kind == "reshape"] == ["a, d"]


def test_evidence_on_a_consumer_outside_the_trees_is_an_error() -> None:
    text = 'moves: [{from: $root, resources: {VGPU: 1}, to: {name: "${root}-0"}}]\n'
    moves = documents.parse(f"{text}assign: {{{uuid_of('unknown')}: x}}\n", "m")
    root = cloud().nodes[uuid_of("cn1")].provider
    request = reshape_plan.ReshapeRequest(moves, roots=(root,), options=PACK)
    with pytest.raises(errors.InvalidInput, match="has no allocation in the selected trees"):
        reshape_plan.decide_request(request, cloud())


def test_a_described_child_of_another_tree_is_an_error() -> None:
    providers = {"cn1": (None, {"VGPU": 4}), "cn2": (None, {}), "gpu": ("cn2", {"VGPU": 1})}
    before = cloud_builder.snapshot_of(cloud_builder.state(providers, {}), "cn1", "cn2")
    (reason,) = refused("moves: [{from: cn1, resources: {VGPU: 4}, to: {name: gpu}}]", before)
    assert "'gpu' exists in another tree" in reason
    assert decided("moves: [{from: cn1, resources: {VGPU: 4}, to: gpu}]", before).placed == []
