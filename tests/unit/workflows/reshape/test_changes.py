# SPDX-License-Identifier: Apache-2.0
"""Documents of moves on a small cloud: literal changes, or reasons against them."""

from __future__ import annotations

import dataclasses

import pytest

from osc_placement import microversion
from osc_placement.model import inventory
from osc_placement.plan import change, guards
from osc_placement.plan.kinds import registry
from osc_placement.workflows.reshape import documents, reshape_plan
from osc_placement.workflows.reshape.changes import make_plan
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
    new,
    refused,
)


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


def test_the_inverse_of_the_inverse_is_the_change() -> None:
    for item in changes(MOVES):
        again = item.inverse().inverse()
        again = dataclasses.replace(again, generation=item.generation, reason=item.reason)
        assert again == item
        assert change.Change.from_dict(registry.with_states(item.to_dict())) == item


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
    providers = {
        "cn1": (None, {"VGPU": {"total": 8, "reserved": 2}}),
        B: ("cn1", {}),
    }
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
    classes = {item.demand.consumer: item.option.classes for item in found.placed}
    assert classes == {uuid_of("pinned"): ("PCPU",), uuid_of("shared"): ("VCPU",)}


def test_a_tree_of_nova_compute_is_refused() -> None:
    before = cloud(consumers={}, cn1=["COMPUTE_NODE"])
    wrong = f"moves: [{{from: cn1, resources: {{VCPU: 4}}, to: {B}}}]"
    (reason,) = refused(wrong, before)
    assert "writes VCPU on cn1 at its next periodic run" in reason
    assert "--allow nova-owned" in reason
    assert (
        reshape_plan.decide(documents.parse(wrong, "m"), before, PACK, [guards.NOVA_OWNED]).placed
        == []
    )
    own_shape = f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]"
    assert decided(own_shape, before).placed == []


def test_memory_encryption_moves_to_the_children_that_nova_compute_reports() -> None:
    providers = {"cn1": (None, {"VCPU": 8, "MEM_ENCRYPTION_CONTEXT": 15})}
    traits = {"cn1": ["COMPUTE_NODE"]}
    before = cloud_builder.snapshot_of(cloud_builder.state(providers, {}, traits), "cn1")
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
    before = cloud_builder.snapshot_of(cloud_builder.state(providers, {}, traits), "cn1", "pool")
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
    before = cloud_builder.snapshot_of(
        cloud_builder.state(providers, consumers, {"cn1": ["CUSTOM_A"]}), "cn1", "new"
    )
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
    before = cloud_builder.snapshot_of(cloud_builder.state(providers, {}), "cn1", "new")
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
    ] == [
        ("provider", uuid_of("cn1"), "cn1-old"),
        ("provider", fresh, "cn1"),
    ]
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
    before = cloud_builder.snapshot_of(
        cloud_builder.state(providers, consumers), "cn1", "cn2", "cn3"
    )
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
    planned = make_plan(decision, (), ())
    assert [item.kind for item in planned.changes] == ["provider", "traits", "reshape"]
    assert decision.after.nodes[uuid_of("cn1")].traits == {"HW_OF_ANOTHER_RELEASE"}
    assert decision.after.nodes[new(A)].traits == {"HW_OF_A_NEWER_RELEASE"}
    reshape_plan.rehearse(decision.before, decision.after, planned, microversion.MAXIMUM)


def test_a_rehearsal_that_does_not_reach_the_planned_state_is_an_error() -> None:
    decision = decided(MOVES, options=PACK)
    planned = make_plan(decision, (), ())
    one, cn1 = uuid_of("one"), uuid_of("cn1")
    nodes = {key: node for key, node in decision.after.nodes.items() if key != new(A)}
    nodes[cn1] = dataclasses.replace(nodes[cn1], traits=frozenset({"CUSTOM_X"}))
    consumers = dict(decision.after.consumers)
    consumers[one] = dataclasses.replace(consumers[one], project_id="another")
    wrong = dataclasses.replace(decision.after, nodes=nodes, consumers=consumers)
    with pytest.raises(reshape_plan.RehearsalFailed) as caught:
        reshape_plan.rehearse(decision.before, wrong, planned, microversion.MAXIMUM)
    text = str(caught.value)
    assert f"{A}: it still exists" in text
    assert "cn1: traits frozenset() instead of frozenset({'CUSTOM_X'})" in text
    assert f"consumer {one}: project_id" in text


def test_a_change_that_fails_in_the_rehearsal_is_an_error() -> None:
    decision = decided(MOVES, options=PACK)
    planned = make_plan(decision, (), ())
    nodes = dict(decision.before.nodes)
    cn1 = nodes[uuid_of("cn1")]
    grown = {**cn1.inventories, "VGPU": inventory.Inventory(9)}
    nodes[uuid_of("cn1")] = dataclasses.replace(cn1, inventories=grown)
    before = dataclasses.replace(decision.before, nodes=nodes)
    with pytest.raises(reshape_plan.RehearsalFailed, match=r"reshape cn1: stale: .*VGPU:total=9"):
        reshape_plan.rehearse(before, decision.after, planned, microversion.MAXIMUM)
