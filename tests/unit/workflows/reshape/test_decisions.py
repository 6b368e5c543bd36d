# SPDX-License-Identifier: Apache-2.0
"""What documents, target trees and templates change: literal changes and inventories."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.model import inventory
from osc_placement.plan import plan
from osc_placement.workflows.cloud import rehearsal
from osc_placement.workflows.reshape import (
    changes as reshape_changes,
    checks,
    documents,
    reshape_plan,
    snapshot,
)
from osc_placement.workflows.reshape.changes import make_plan
from osc_placement.workflows.reshape.decision import ReshapeDecision
from tests.support import plans
from tests.support.embedded import uuid_of
from tests.support.reshape.documents import (
    CONSUMERS,
    MOVES,
    PACK,
    A,
    B,
    changes,
    cloud,
    decided,
    new,
)

CN1, ONE = uuid_of("cn1"), uuid_of("one")


def test_vgpus_and_functions_move_to_children_with_their_allocations() -> None:
    planned = changes(MOVES)
    assert [(item.kind, item.subject.name) for item in planned] == [
        ("trait", "CUSTOM_VGPU_A"),
        ("provider", A),
        ("traits", A),
        ("reshape", "cn1"),
    ]
    assert [item.stage for item in planned] == sorted({item.stage for item in planned})
    assert {item.group for item in planned[1:]} == {CN1}
    assert plans.after(planned[1]) == {"name": A, "parent": CN1}
    facts = plans.after(planned[3])
    assert facts[f"allocation {ONE} {new(A)} VGPU"] == 4
    assert facts[f"allocation {ONE} {CN1} VGPU"] is None
    assert facts[f"allocation {uuid_of('moving')} {uuid_of(B)} VGPU"] == 2
    assert facts[f"allocation {uuid_of('moving')} {uuid_of(B)} SRIOV_NET_VF"] == 1
    assert facts[f"inventory {new(A)} VGPU:max_unit"] == 4
    assert not any("cn2" in key or uuid_of("plain") in key for key in facts)
    assert changes(MOVES) == planned


GPU = cloud(
    {"cn1": (None, {"VCPU": 4, "VGPU": {"total": 4, "max_unit": 4}}), "gpu": ("cn1", {"VGPU": 2})},
    {"one": {"cn1": {"VGPU": 2}}},
)
HOSTS = {"cn1": (None, {"VCPU": 8}), "new": (None, {})}
THREE = cloud(
    {
        **{f"cn{number}": (None, {"VGPU": 2}) for number in (1, 2, 3)},
        **{f"gpu{number}": (f"cn{number}", {}) for number in (1, 2, 3)},
    },
    {"evacuating": {"cn1": {"VGPU": 1}, "cn2": {"VGPU": 1}}, "c": {"cn3": {"VGPU": 1}}},
    ("cn1", "cn2", "cn3"),
)
REACHED = cloud(
    {"cn1": (None, {"VCPU": 4}), **{name: ("cn1", {"VGPU": 2}) for name in ("gpu0", "gpu1")}},
    {"one": {"gpu0": {"VGPU": 1}}},
)
FRESH = uuid_of("fresh")
MOVE_HOST = "moves: [{from: cn1, resources: {VCPU: all}, to: %s}]\n"

CHANGES: dict[str, tuple[str, Any, list[tuple[str, str]]]] = {
    "a host is replaced by another": (
        MOVE_HOST % "{name: new, traits: [CUSTOM_A]}" + "delete: [cn1]",
        cloud(HOSTS, {"c": {"cn1": {"VCPU": 2}}}, ("cn1", "new"), cn1=["CUSTOM_A"]),
        [("traits", "new"), ("reshape", "cn1, new"), ("traits", "cn1"), ("provider", "cn1")],
    ),
    "resources without consumers move in one request too": (
        MOVE_HOST % "new",
        cloud(HOSTS, {}, ("cn1", "new")),
        [("reshape", "cn1, new")],
    ),
    "a new provider takes the name of a renamed one": (
        MOVE_HOST % f"{{name: cn1, uuid: {FRESH}, parent: null}}" + "rename: {cn1: cn1-old}",
        cloud({"cn1": (None, {"VCPU": 8})}, {"c": {"cn1": {"VCPU": 2}}}),
        [("provider", "cn1-old"), ("provider", "cn1"), ("reshape", "cn1, cn1-old")],
    ),
    "trees that share a consumer change in one request": (
        "moves:\n"
        + "".join(f"- {{from: cn{n}, resources: {{VGPU: all}}, to: gpu{n}}}\n" for n in (1, 2, 3)),
        THREE,
        [("reshape", "cn1, cn2"), ("reshape", "cn3")],
    ),
    "parents change from the top down": (
        "moves: [{from: cn1, resources: {VGPU: 4}, to: {name: gpu}}]\n"
        "providers: [{name: a, parent: b}, {name: b, parent: cn1}]",
        cloud({"cn1": (None, {"VGPU": 8}), "a": ("cn1", {}), "b": ("a", {})}, {}),
        [("provider", "b"), ("provider", "gpu"), ("provider", "a"), ("reshape", "cn1")],
    ),
    "a tree equal to the target tree has no changes": (
        f"tree: {{name: cn1, children: [{{name: {B}, inventories: {{}}}}]}}",
        None,
        [],
    ),
    "a target tree that is reached needs no evidence": (
        "tree: {name: cn1, children: [{name: gpu0, inventories: {VGPU: 2}}, {name: gpu1}]}\n"
        f"assign: {{{ONE}: gpu0}}",
        REACHED,
        [],
    ),
    "a provider outside the target tree is deleted": (
        "tree: {name: cn1, inventories: {VCPU: 4, VGPU: 6}}",
        GPU,
        [("reshape", "cn1"), ("provider", "gpu")],
    ),
    "a target tree may remove an inventory": (
        "tree: {name: cn1}\nchange_totals: [VGPU]",
        GPU,
        [("reshape", "cn1"), ("provider", "gpu")],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_changes_of_a_document(name: str) -> None:
    text, before, expected = CHANGES[name]
    planned = changes(text, before)
    assert [(item.kind, item.subject.name) for item in planned] == expected
    assert len({item.group for item in planned}) == len([k for k, _ in expected if k == "reshape"])


def test_the_moves_to_a_target_tree_follow_from_it() -> None:
    text = f"""\
tree:
  name: cn1
  inventories: {{VCPU: 16}}
  children:
  - {{name: {A}, traits: [CUSTOM_VGPU_A], inventories: {{VGPU: 4}}}}
  - {{name: {B}, inventories: {{VGPU: 4, SRIOV_NET_VF: 2}}}}
"""
    assert [*map(plans.after, changes(text))] == [*map(plans.after, changes(MOVES))]


def gpu(amount: str, fields: str, keep: str = "") -> str:
    to = f"{{name: gpu, inventories: {{VGPU: {{{fields}}}}}}}"
    text = f"moves: [{{from: cn1, resources: {{VGPU: {amount}}}, to: {to}}}]\n"
    return text + (f"providers: [{{name: cn1, inventories: {{{keep}}}}}]" if keep else "")


TWO_MOVES = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 3}}, to: {{name: {A}%s}}}}
- {{from: cn1, resources: {{VGPU: all}}, to: {B}}}
"""
MERGE = """\
moves:
- {from: a, resources: {VGPU: all}, to: cn1}
- {from: b, resources: {VGPU: all}, to: {name: cn1%s}}
"""
RESERVED = cloud({"cn1": (None, {"VGPU": {"total": 8, "reserved": 2}}), B: ("cn1", {})}, {})


def to_merge(**other: Any) -> snapshot.TreeSnapshot:
    fields = {"total": 2, "max_unit": 2}
    children = {"a": ("cn1", {"VGPU": fields}), "b": ("cn1", {"VGPU": {**fields, **other}})}
    return cloud({"cn1": (None, {"VCPU": 4}), **children}, {})


Total = inventory.Inventory

INVENTORIES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "several moves share a total and one takes the rest": (
        TWO_MOVES % "",
        cloud(consumers={}),
        {
            A: {"VGPU": Total(3, max_unit=3)},
            B: {"VGPU": Total(5, max_unit=5), "SRIOV_NET_VF": None},
            "cn1": {"VGPU": None},
        },
    ),
    "a reserved amount moves along": (
        f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]",
        RESERVED,
        {B: {"VGPU": Total(8, reserved=2)}},
    ),
    "a reserved amount is given": (
        TWO_MOVES % ", inventories: {VGPU: {reserved: 2}}",
        RESERVED,
        {A: {"VGPU": Total(3, reserved=2)}, B: {"VGPU": Total(5)}},
    ),
    "reserved stays on a source that keeps a total": (
        gpu("all", "max_unit: 1", "VGPU: {total: 2}"),
        cloud({"cn1": (None, {"VGPU": {"total": 4, "reserved": 1}}), "gpu": ("cn1", {})}, {}),
        {"cn1": {"VGPU": Total(2, reserved=1)}, "gpu": {"VGPU": Total(4, max_unit=1)}},
    ),
    "sources with equal fields are merged": (
        MERGE % "",
        to_merge(),
        {"cn1": {"VGPU": Total(4, max_unit=4)}},
    ),
    "fields of different sources are given": (
        MERGE % ", inventories: {VGPU: {max_unit: 1, step_size: 1}}",
        to_merge(max_unit=1, step_size=2),
        {"cn1": {"VGPU": Total(4, max_unit=1)}},
    ),
    "a total is set after the moves": (
        gpu("all", "total: 8"),
        GPU,
        {"cn1": {"VGPU": None}, "gpu": {"VGPU": Total(8)}},
    ),
    "a source keeps more than the moves leave": (
        gpu("2", "max_unit: 2", "VGPU: {total: 9}"),
        GPU,
        {"cn1": {"VGPU": Total(9, max_unit=9)}, "gpu": {"VGPU": Total(4, max_unit=2)}},
    ),
    "a source keeps nothing": (
        gpu("2", "max_unit: 2", "VGPU: {total: 0}"),
        GPU,
        {"cn1": {"VGPU": None}, "gpu": {"VGPU": Total(4, max_unit=2)}},
    ),
    "a source gets a new total": (
        gpu("all", "max_unit: 2", "VGPU: {total: 3}"),
        GPU,
        {"cn1": {"VGPU": Total(3, max_unit=3)}, "gpu": {"VGPU": Total(6, max_unit=2)}},
    ),
    "a total of a new class adds an inventory": (
        gpu("2", "max_unit: 2", "CUSTOM_FPGA: {total: 3}"),
        GPU,
        {"cn1": {"CUSTOM_FPGA": Total(3, max_unit=3)}},
    ),
    **{
        f"a target tree changes the sum of a listed class to {total}": (
            "tree: {name: cn1, inventories: {VCPU: 4}, children:"
            f" [{{name: gpu, inventories: {{VGPU: {total}}}}}]}}\nchange_totals: [VGPU]",
            GPU,
            {"cn1": {"VGPU": None}, "gpu": {"VGPU": Total(total)}},
        )
        for total in (9, 3)
    },
}


@pytest.mark.parametrize("name", INVENTORIES)
def test_the_inventories_after_a_document(name: str) -> None:
    text, before, expected = INVENTORIES[name]
    after = decided(text, before, PACK).after
    by_name = {node.provider.name: node.inventories for node in after.nodes.values()}
    traits = {
        provider: {key: by_name[provider].get(key) for key in classes}
        for provider, classes in expected.items()
    }
    assert traits == expected


def test_one_reshape_has_the_moves_and_the_new_totals() -> None:
    decision = decided(gpu("all", "total: 8"), GPU)
    assert decision.resolved.growth == {(uuid_of("gpu"), "VGPU"): 2}
    assert "the document changes the totals: VGPU +2 in sum" in checks.notes(decision)
    assert decision.resolved.document.classes == {"VGPU"}
    (only,) = reshape_changes.make_plan(decision, ()).changes
    assert plans.after(only)[f"inventory {uuid_of('gpu')} VGPU:total"] == 8


def test_evidence_splits_an_allocation() -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VCPU": 1, "VGPU": 5}, "share": {"DISK_GB": 10}}}
    text = f"{MOVES}assign: {{{ONE}: {{VGPU: {{{A}: 3, {B}: 2}}}}}}\n"
    decision = decided(text, cloud(consumers=large), PACK)
    assert decision.after.consumers[ONE].allocations == {
        CN1: {"VCPU": 1},
        uuid_of("share"): {"DISK_GB": 10},
        new(A): {"VGPU": 3},
        uuid_of(B): {"VGPU": 2},
    }
    assert {item.guess for item in decision.placed if item.request.consumer == ONE} == {""}


def test_a_consumer_with_one_option_is_no_guess() -> None:
    (placed,) = decided(gpu("all", "total: 8"), GPU, PACK).placed
    assert placed.guess == ""


def test_classes_with_the_same_options_stay_together() -> None:
    both = {"VCPU": 4, "MEMORY_MB": 4}
    providers = {"cn1": (None, both), "b": ("cn1", both), "n0": ("cn1", {}), "n1": ("cn1", {})}
    consumers = {"c": {name: {"VCPU": 1, "MEMORY_MB": 1} for name in ("cn1", "b")}}
    text = f"""\
moves:
- {{from: cn1, resources: {{VCPU: 2, MEMORY_MB: 2}}, to: n0}}
- {{from: cn1, resources: {{VCPU: 2, MEMORY_MB: 2}}, to: n1}}
- {{from: b, resources: {{VCPU: all}}, to: n0}}
- {{from: b, resources: {{MEMORY_MB: all}}, to: n1}}
assign: {{{uuid_of("c")}: n1}}
"""
    placed = decided(text, cloud(providers, consumers)).placed
    assert {
        (item.request.source, tuple(item.request.resources), item.option.root_uuid)
        for item in placed
    } == {
        (CN1, ("MEMORY_MB", "VCPU"), uuid_of("n1")),
        (uuid_of("b"), ("VCPU",), uuid_of("n0")),
        (uuid_of("b"), ("MEMORY_MB",), uuid_of("n1")),
    }


def test_a_class_changes_only_where_that_is_declared() -> None:
    providers = {"cn1": (None, {"VCPU": {"total": 8, "allocation_ratio": 16.0}})}
    consumers = {"pinned": {"cn1": {"VCPU": 4}}, "shared": {"cn1": {"VCPU": 16}}}
    text = f"""\
moves: [{{from: cn1, resources: {{VCPU: 4}}, to: cn1, as: {{VCPU: PCPU}}}}]
assign: {{{uuid_of("pinned")}: PCPU}}
"""
    after = decided(text, cloud(providers, consumers)).after
    assert after.nodes[CN1].inventories == {
        "VCPU": inventory.Inventory(4, allocation_ratio=16.0),
        "PCPU": inventory.Inventory(4, max_unit=4),
    }
    assert after.consumers[uuid_of("pinned")].allocations == {CN1: {"PCPU": 4}}
    assert after.consumers[uuid_of("shared")].allocations == {CN1: {"VCPU": 16}}


def test_a_given_parent_takes_precedence_over_the_default() -> None:
    text = "moves: [{from: cn1, resources: {VGPU: 2}, to: {name: x}}]\n"
    decision = decided(f"{text}providers: [{{name: x}}, {{name: x, parent: gpu}}]", GPU, PACK)
    assert decision.resolved.nodes[new("x")].provider.parent_uuid == uuid_of("gpu")


def test_a_template_skips_trees_that_cannot_be_reshaped() -> None:
    providers = {name: (None, {"VCPU" if name == "c" else "VGPU": 2}) for name in "abcd"}
    consumers = {"both": {"a": {"VGPU": 1}, "d": {"VGPU": 1}}, "wide": {"b": {"VGPU": 2}}}
    before = cloud(providers, consumers, providers)
    text = """\
moves:
- {from: $root, resources: {VGPU: 1}, to: {name: "${root}-0"}}
- {from: $root, resources: {VGPU: 1}, to: {name: "${root}-1"}}
"""
    roots = tuple(before.nodes[uuid_of(name)].provider for name in providers)
    request = reshape_plan.ReshapeRequest(documents.parse(text, "m"), roots, PACK)
    decision, skipped = reshape_plan.decide(request, before)
    assert {move.source[0] for move in decision.resolved.moves} == {uuid_of("a"), uuid_of("d")}
    assert {(item.subject.name, item.refused, item.code) for item in skipped} == {
        ("b", True, "reshape-refused"),
        ("c", False, "nothing-to-move"),
    }
    assert decision.before.consumers.keys() == {uuid_of("both")}
    listed = reshape_changes.make_plan(decision, ()).changes
    assert [item.subject.name for item in listed if item.kind == "reshape"] == ["a, d"]


def rehearse(decision: ReshapeDecision, planned: plan.Plan) -> None:
    before, after = decision.before, decision.after
    rehearsal.rehearse(before.records(after), planned, microversion.MAXIMUM, after.records())


def test_standard_traits_of_a_release_newer_than_the_program_are_rehearsed() -> None:
    text = MOVES.replace("CUSTOM_VGPU_A", "HW_OF_A_NEWER_RELEASE")
    before = cloud()
    node = dataclasses.replace(before.nodes[CN1], traits=frozenset({"HW_OF_ANOTHER_RELEASE"}))
    before = dataclasses.replace(before, nodes={**before.nodes, CN1: node})
    decision = decided(text, before, PACK)
    planned = make_plan(decision, ())
    assert [item.kind for item in planned.changes] == ["provider", "traits", "reshape"]
    assert decision.after.nodes[CN1].traits == {"HW_OF_ANOTHER_RELEASE"}
    assert decision.after.nodes[new(A)].traits == {"HW_OF_A_NEWER_RELEASE"}
    rehearse(decision, planned)


def test_a_rehearsal_that_does_not_reach_the_planned_state_is_an_error() -> None:
    decision = decided(MOVES, None, PACK)
    nodes = {key: node for key, node in decision.after.nodes.items() if key != new(A)}
    nodes[CN1] = dataclasses.replace(nodes[CN1], traits=frozenset({"CUSTOM_X"}))
    consumer = dataclasses.replace(decision.after.consumers[ONE], project_id="another")
    consumers = {**decision.after.consumers, ONE: consumer}
    wrong = dataclasses.replace(decision.after, nodes=nodes, consumers=consumers)
    with pytest.raises(rehearsal.RehearsalFailed) as caught:
        rehearse(dataclasses.replace(decision, after=wrong), make_plan(decision, ()))
    text = str(caught.value)
    assert f"{A}: it still exists" in text
    assert "cn1: traits frozenset() instead of frozenset({'CUSTOM_X'})" in text
    assert f"consumer {ONE}: project_id" in text


def test_a_change_that_fails_in_the_rehearsal_is_an_error() -> None:
    decision = decided(MOVES, None, PACK)
    cn1 = decision.before.nodes[CN1]
    grown = {**cn1.inventories, "VGPU": inventory.Inventory(9)}
    nodes = {**decision.before.nodes, CN1: dataclasses.replace(cn1, inventories=grown)}
    before = dataclasses.replace(decision.before, nodes=nodes)
    with pytest.raises(rehearsal.RehearsalFailed, match=r"reshape cn1: stale: .*VGPU:total=9"):
        rehearse(dataclasses.replace(decision, before=before), make_plan(decision, ()))
