# SPDX-License-Identifier: Apache-2.0
"""Documents of moves, target trees and templates: literal changes, or reasons against them."""

from __future__ import annotations

import dataclasses

import pytest

from osc_placement import errors, microversion
from osc_placement.model import inventory
from osc_placement.plan import change, guards, plan
from osc_placement.workflows.cloud import on_a_copy
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    documents,
    reshape_plan,
    snapshot,
)
from osc_placement.workflows.reshape.changes import make_plan
from osc_placement.workflows.reshape.decision import ReshapeDecision
from tests.support import plans
from tests.support.embedded import uuid_of
from tests.support.reshape.documents import MOVES, PACK, A, B, changes, cloud, decided, new, refused


def test_vgpus_and_functions_move_to_children_with_their_allocations() -> None:
    found = changes(MOVES)
    assert [(item.kind, item.subject.name) for item in found] == [
        ("trait", "CUSTOM_VGPU_A"),
        ("provider", A),
        ("traits", A),
        ("reshape", "cn1"),
    ]
    assert [item.stage for item in found] == sorted({item.stage for item in found})
    assert {item.group for item in found[1:]} == {uuid_of("cn1")}
    assert plans.after(found[1]) == {"name": A, "parent": uuid_of("cn1")}
    facts = plans.after(found[3])
    assert facts[f"allocation {uuid_of('one')} {new(A)} VGPU"] == 4
    assert facts[f"allocation {uuid_of('one')} {uuid_of('cn1')} VGPU"] is None
    assert facts[f"allocation {uuid_of('moving')} {uuid_of(B)} VGPU"] == 2
    assert facts[f"allocation {uuid_of('moving')} {uuid_of(B)} SRIOV_NET_VF"] == 1
    assert facts[f"inventory {new(A)} VGPU:max_unit"] == 4
    assert not any("cn2" in key or uuid_of("plain") in key for key in facts)


def test_a_plan_is_the_same_every_time() -> None:
    assert changes(MOVES) == changes(MOVES)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "{from: unknown, resources: {VGPU: 1}, to: cn1}",
            "m:2: provider 'unknown' does not exist",
        ),
        ("{from: cn1, resources: {VGPU: 1}, to: unknown}", "describe it: {name: unknown}"),
        ("{from: cn1, resources: {PGPU: 1}, to: " + B + "}", "m:2: cn1 has no PGPU"),
        (
            "{from: cn1, resources: {VGPU: 9}, to: " + B + "}",
            "has 8 VGPU, and the moves need 1 more",
        ),
        ("{from: cn1, resources: {VGPU: 1}, to: cn1}", "from cn1 to itself"),
        (
            "{from: cn1, resources: {VGPU: 1}, to: {name: x, parent: unknown}}",
            "provider 'unknown' does not exist",
        ),
        (
            "{from: cn1, resources: {VGPU: 1}, to: {name: x, inventories: {VCPU: {reserved: 1}}}}",
            "x gets no VCPU",
        ),
        (
            "{from: cn1, resources: {VGPU: 1}, to: {name: cn1, parent: " + B + "}}",
            "would be its own ancestor",
        ),
        (
            f"{{from: cn1, resources: {{VGPU: 1}}, to: {{uuid: {uuid_of(B)}, name: other}}}}",
            f"has the name '{B}'",
        ),
    ],
)
def test_contradictions_to_the_cloud_are_reported_with_their_lines(line: str, reason: str) -> None:
    assert reason in "\n".join(refused(f"moves:\n- {line}\n"))


def test_no_two_providers_may_have_one_name() -> None:
    text = f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]\nrename: {{{B}: cn1}}\n"
    assert refused(text, cloud(consumers={})) == ["m: two providers would have the name 'cn1'"]


def test_several_moves_share_a_total_and_one_takes_the_rest() -> None:
    text = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 3}}, to: {{name: {A}}}}}
- {{from: cn1, resources: {{VGPU: all}}, to: {B}}}
"""
    before = cloud(consumers={})
    after = decided(text, before).after
    assert after.nodes[new(A)].inventories["VGPU"].total == 3
    assert after.nodes[uuid_of(B)].inventories["VGPU"] == inventory.Inventory(5, max_unit=5)
    assert "VGPU" not in after.nodes[uuid_of("cn1")].inventories


def test_a_reserved_amount_moves_along_or_must_be_given() -> None:
    providers = {"cn1": (None, {"VGPU": {"total": 8, "reserved": 2}}), B: ("cn1", {})}
    before = cloud(providers, {})
    one = decided(f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]", before)
    assert one.after.nodes[uuid_of(B)].inventories["VGPU"].reserved == 2
    two = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 4}}, to: {{name: {A}}}}}
- {{from: cn1, resources: {{VGPU: 4}}, to: {B}}}
"""
    assert "say where that moves" in refused(two, before)[0]
    reserved = two.replace(f"name: {A}", f"name: {A}, inventories: {{VGPU: {{reserved: 2}}}}")
    assert decided(reserved, before).after.nodes[new(A)].inventories["VGPU"].reserved == 2


def test_a_class_changes_only_where_that_is_declared() -> None:
    providers = {"cn1": (None, {"VCPU": {"total": 8, "allocation_ratio": 16.0}})}
    consumers = {"pinned": {"cn1": {"VCPU": 4}}, "shared": {"cn1": {"VCPU": 16}}}
    text = f"""\
moves: [{{from: cn1, resources: {{VCPU: 4}}, to: cn1, as: {{VCPU: PCPU}}}}]
assign: {{{uuid_of("pinned")}: PCPU}}
"""
    found = decided(text, cloud(providers, consumers))
    assert found.after.nodes[uuid_of("cn1")].inventories == {
        "VCPU": inventory.Inventory(4, allocation_ratio=16.0),
        "PCPU": inventory.Inventory(4, max_unit=4),
    }
    amounts = {item.request.consumer: item.option.amounts for item in found.placed}
    cn1 = uuid_of("cn1")
    assert amounts == {
        uuid_of("pinned"): {(cn1, "PCPU"): 4},
        uuid_of("shared"): {(cn1, "VCPU"): 16},
    }


def test_a_tree_of_nova_compute_is_refused() -> None:
    before = cloud(consumers={}, cn1=["COMPUTE_NODE"])
    wrong = f"moves: [{{from: cn1, resources: {{VCPU: 4}}, to: {B}}}]"
    (reason,) = refused(wrong, before)
    assert "writes VCPU on cn1 at its next periodic run" in reason
    assert "--allow nova-owned" in reason
    assert (
        reshape_plan.decide(
            reshape_plan.ReshapeRequest(
                documents.parse(wrong, "m"), allow=frozenset({guards.NOVA_OWNED})
            ),
            before,
        )[0].placed
        == []
    )
    own_shape = f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]"
    assert decided(own_shape, before).placed == []


def test_memory_encryption_moves_to_the_children_that_nova_compute_reports() -> None:
    providers = {"cn1": (None, {"VCPU": 8, "MEM_ENCRYPTION_CONTEXT": 15})}
    traits = {"cn1": ["COMPUTE_NODE"]}
    before = cloud(providers, {}, **traits)
    move = (
        "moves: [{{from: cn1, resources: {{MEM_ENCRYPTION_CONTEXT: all}}, to: {{name: cn1_{}}}}}]"
    )
    for model in ("amd_sev", "amd_sev_es", "amd_sev_snp", "intel_tdx"):
        assert decided(move.format(model), before).placed == []
    (reason,) = refused(move.format("sev"), before)
    assert "writes MEM_ENCRYPTION_CONTEXT on cn1 at its next periodic run" in reason


def test_names_and_devices_of_nova_compute_are_refused() -> None:
    providers = {
        "cn1": (None, {"VCPU": 8, "VGPU": 2}),
        "cn1_pci_0": ("cn1", {"VGPU": 1}),
        "cn1_dev": ("cn1", {"CUSTOM_PCI": 1}),
        "pool": (None, {"VCPU": 4, "CUSTOM_X": 1}),
    }
    traits = {"cn1": ["COMPUTE_NODE"], "cn1_dev": ["COMPUTE_MANAGED_PCI_DEVICE"]}
    before = cloud(providers, {}, ("cn1", "pool"), **traits)
    (reason,) = refused("moves: [{from: cn1_dev, resources: {CUSTOM_PCI: 1}, to: cn1}]", before)
    assert "writes CUSTOM_PCI on cn1_dev" in reason
    (reason,) = refused("moves: [{from: pool, resources: {VCPU: 4}, to: cn1}]", before)
    assert "owns the tree of cn1 and writes VCPU on cn1" in reason
    mine = "moves: [{from: pool, resources: {CUSTOM_X: 1}, to: cn1}]\n"
    (reason,) = refused(f"{mine}rename: {{cn1_pci_0: other}}", before)
    assert "finds cn1_pci_0 by its name" in reason
    assert decided(mine, before).placed == []


def test_a_deleted_provider_must_be_empty() -> None:
    text = f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]\ndelete: [cn1]\n"
    assert [reason.partition(": ")[2] for reason in refused(text, cloud(consumers={}))] == [
        "cn1 cannot be deleted: it keeps SRIOV_NET_VF, VCPU; move that too",
        f"cn1 cannot be deleted: it has the children {B}",
    ]


def test_a_host_is_replaced_by_another() -> None:
    providers = {"cn1": (None, {"VCPU": 8}), "new": (None, {})}
    consumers = {"c": {"cn1": {"VCPU": 2}}}
    before = cloud(providers, consumers, ("cn1", "new"), cn1=["CUSTOM_A"])
    text = """\
moves: [{from: cn1, resources: {VCPU: all}, to: {name: new, traits: [CUSTOM_A]}}]
delete: [cn1]
"""
    found = changes(text, before)
    assert [(item.kind, item.subject.name) for item in found] == [
        ("traits", "new"),
        ("reshape", "cn1, new"),
        ("traits", "cn1"),
        ("provider", "cn1"),
    ]
    assert len({item.group for item in found}) == 1
    assert plans.after(found[3]) == {"name": None, "parent": None}


def test_resources_without_consumers_move_in_one_request_too() -> None:
    providers = {"cn1": (None, {"VCPU": 8}), "new": (None, {})}
    before = cloud(providers, {}, ("cn1", "new"))
    found = changes("moves: [{from: cn1, resources: {VCPU: all}, to: new}]", before)
    assert [(item.kind, item.subject.name) for item in found] == [("reshape", "cn1, new")]


def test_a_new_provider_takes_the_name_of_a_renamed_one() -> None:
    providers = {"cn1": (None, {"VCPU": 8})}
    fresh = uuid_of("fresh")
    text = f"""\
moves: [{{from: cn1, resources: {{VCPU: all}}, to: {{name: cn1, uuid: {fresh}, parent: null}}}}]
rename: {{cn1: cn1-old}}
"""
    found = changes(text, cloud(providers, {"c": {"cn1": {"VCPU": 2}}}))
    assert [
        (item.kind, item.subject.uuid, plans.after(item).get("name")) for item in found[:2]
    ] == [("provider", uuid_of("cn1"), "cn1-old"), ("provider", fresh, "cn1")]
    assert found[0].stage < found[1].stage < found[2].stage
    assert found[2].subject.name == "cn1, cn1-old"


def test_trees_that_share_a_consumer_change_in_one_request() -> None:
    providers = {
        "cn1": (None, {"VGPU": 2}),
        "gpu1": ("cn1", {}),
        "cn2": (None, {"VGPU": 2}),
        "gpu2": ("cn2", {}),
        "cn3": (None, {"VGPU": 2}),
        "gpu3": ("cn3", {}),
    }
    consumers = {"evacuating": {"cn1": {"VGPU": 1}, "cn2": {"VGPU": 1}}, "c": {"cn3": {"VGPU": 1}}}
    before = cloud(providers, consumers, ("cn1", "cn2", "cn3"))
    text = "moves:\n" + "".join(
        f"- {{from: cn{n}, resources: {{VGPU: all}}, to: gpu{n}}}\n" for n in (1, 2, 3)
    )
    found = changes(text, before)
    assert [(item.kind, item.subject.name) for item in found] == [
        ("reshape", "cn1, cn2"),
        ("reshape", "cn3"),
    ]


def test_standard_traits_of_a_release_newer_than_the_program_are_rehearsed() -> None:
    text = MOVES.replace("CUSTOM_VGPU_A", "HW_OF_A_NEWER_RELEASE")
    decision = decided(text, cloud(cn1=["HW_OF_ANOTHER_RELEASE"]), PACK)
    planned = make_plan(decision, ())
    assert [item.kind for item in planned.changes] == ["provider", "traits", "reshape"]
    assert decision.after.nodes[uuid_of("cn1")].traits == {"HW_OF_ANOTHER_RELEASE"}
    assert decision.after.nodes[new(A)].traits == {"HW_OF_A_NEWER_RELEASE"}
    rehearse(decision, planned)


def rehearse(decision: ReshapeDecision, planned: plan.Plan) -> None:
    before, after = decision.before, decision.after
    on_a_copy.rehearse(before.records(after), planned, microversion.MAXIMUM, after.records())


def test_a_rehearsal_that_does_not_reach_the_planned_state_is_an_error() -> None:
    decision = decided(MOVES, options=PACK)
    planned = make_plan(decision, ())
    one, cn1 = uuid_of("one"), uuid_of("cn1")
    nodes = {key: node for key, node in decision.after.nodes.items() if key != new(A)}
    nodes[cn1] = dataclasses.replace(nodes[cn1], traits=frozenset({"CUSTOM_X"}))
    consumers = dict(decision.after.consumers)
    consumers[one] = dataclasses.replace(consumers[one], project_id="another")
    wrong = dataclasses.replace(decision.after, nodes=nodes, consumers=consumers)
    with pytest.raises(on_a_copy.RehearsalFailed) as caught:
        rehearse(dataclasses.replace(decision, after=wrong), planned)
    text = str(caught.value)
    assert f"{A}: it still exists" in text
    assert "cn1: traits frozenset() instead of frozenset({'CUSTOM_X'})" in text
    assert f"consumer {one}: project_id" in text


def test_a_change_that_fails_in_the_rehearsal_is_an_error() -> None:
    decision = decided(MOVES, options=PACK)
    planned = make_plan(decision, ())
    nodes = dict(decision.before.nodes)
    cn1 = nodes[uuid_of("cn1")]
    grown = {**cn1.inventories, "VGPU": inventory.Inventory(9)}
    nodes[uuid_of("cn1")] = dataclasses.replace(cn1, inventories=grown)
    before = dataclasses.replace(decision.before, nodes=nodes)
    with pytest.raises(on_a_copy.RehearsalFailed, match=r"reshape cn1: stale: .*VGPU:total=9"):
        rehearse(dataclasses.replace(decision, before=before), planned)


def to_tree(text: str, before: snapshot.TreeSnapshot) -> list[change.Change]:
    request = reshape_plan.ReshapeRequest(documents.parse_tree(text, "t"), options=PACK)
    return reshape_changes.list_changes(reshape_plan.decide(request, before)[0])


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
    before = cloud(providers, consumers, providers)
    text = """\
moves:
- {from: $root, resources: {VGPU: 1}, to: {name: "${root}-0"}}
- {from: $root, resources: {VGPU: 1}, to: {name: "${root}-1"}}
"""
    roots = [before.nodes[uuid_of(name)].provider for name in providers]
    request = reshape_plan.ReshapeRequest(
        documents.parse(text, "m"), roots=tuple(roots), options=PACK
    )
    found, skipped = reshape_plan.decide(request, before)
    assert {move.source[0] for move in found.resolved.moves} == {uuid_of("a"), uuid_of("d")}
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
        reshape_plan.decide(request, cloud())


def test_a_described_child_of_another_tree_is_an_error() -> None:
    providers = {"cn1": (None, {"VGPU": 4}), "cn2": (None, {}), "gpu": ("cn2", {"VGPU": 1})}
    before = cloud(providers, {}, ("cn1", "cn2"))
    (reason,) = refused("moves: [{from: cn1, resources: {VGPU: 4}, to: {name: gpu}}]", before)
    assert "'gpu' exists in another tree" in reason
    assert decided("moves: [{from: cn1, resources: {VGPU: 4}, to: gpu}]", before).placed == []
