"""Documents of moves on a small cloud: literal changes, or reasons against them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.plan import change, guards
from osc_placement.plan.kinds import registry
from osc_placement.workflows.reshape import (
    assign,
    changes as reshape_changes,
    decide,
    resolve,
    snapshot,
)
from osc_placement.workflows.reshape.assignment import demand as question, search
from osc_placement.workflows.reshape.document import parse, target_tree
from tests.support import plans
from tests.support.reshape import cloud_builder
from tests.support.reshape.cloud_builder import uuid_of

PACK = assign.AssignOptions("pack")
PLAIN = assign.AssignOptions()
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
    providers: Any = PROVIDERS, consumers: Any = CONSUMERS, **traits: list[str]
) -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(cloud_builder.state(providers, consumers, traits), "cn1")


def decided(
    text: str, before: snapshot.TreeSnapshot | None = None, options: assign.AssignOptions = PLAIN
) -> decide.Decided:
    return decide.decide(parse.parse(text, "m"), before or cloud(), options)


def refused(
    text: str, before: snapshot.TreeSnapshot | None = None, options: assign.AssignOptions = PLAIN
) -> list[str]:
    with pytest.raises(errors.InvalidInput) as caught:
        decided(text, before, options)
    return list(caught.value.reasons)


def changes(
    text: str, before: snapshot.TreeSnapshot | None = None, options: assign.AssignOptions = PACK
) -> list[change.Change]:
    before = before or cloud()
    found = reshape_changes.changes(decided(text, before, options))
    return sorted(found, key=change.Change.sort_key)


def new(name: str) -> str:
    return resolve.new_uuid(name)


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
        assert change.Change.from_dict(item.to_dict(), registry.load) == item


def test_undecided_consumers_are_refused_and_listed() -> None:
    loose = {**CONSUMERS, "one": {"cn1": {"VGPU": 2}}}
    (reason,) = refused(MOVES, cloud(consumers=loose))
    assert "has several possible targets for these consumers" in reason
    assert uuid_of("one") in reason
    assert uuid_of("moving") in reason


def test_evidence_decides_and_is_not_a_guess() -> None:
    loose = {**CONSUMERS, "one": {"cn1": {"VGPU": 2}}}
    evidence = f"{MOVES}assign: {{{uuid_of('one')}: {A}, {uuid_of('moving')}: {{VGPU: {B}}}}}\n"
    placed = decided(evidence, cloud(consumers=loose)).placed
    assert {(item.demand.consumer, item.guess) for item in placed} == {
        (uuid_of("one"), ""),
        (uuid_of("moving"), ""),
    }
    assert {item.option.target for item in placed if item.demand.consumer == uuid_of("one")} == {
        new(A)
    }


def test_evidence_splits_an_allocation() -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VCPU": 1, "VGPU": 5}, "share": {"DISK_GB": 10}}}
    before = cloud(consumers=large)
    text = f"{MOVES}assign: {{{uuid_of('one')}: {{VGPU: {{{A}: 3, {B}: 2}}}}}}\n"
    found = decided(text, before, PACK)
    assert found.after.consumers[uuid_of("one")].allocations == {
        uuid_of("cn1"): {"VCPU": 1},
        uuid_of("share"): {"DISK_GB": 10},
        new(A): {"VGPU": 3},
        uuid_of(B): {"VGPU": 2},
    }
    assert {item.guess for item in found.placed if item.demand.consumer == uuid_of("one")} == {""}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (f"{{{A}: 3, {B}: 1}}", "4 VGPU are assigned, and it has 5"),
        (f"{{{B}: 3, {uuid_of(B)}: 2}}", "VGPU is assigned twice to the same target"),
        (f"{{{A}: 3, cn2: 2}}", "VGPU to 'cn2' is not possible"),
        (f"{{{A}: 5, {B}: 0}}", "0 is less than the minimum"),
    ],
)
def test_invalid_parts_are_refused(parts: str, reason: str) -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VGPU": 5}}}
    text = f"{MOVES}assign: {{{uuid_of('one')}: {{VGPU: {parts}}}}}\n"
    with pytest.raises(errors.InvalidInput) as caught:
        decided(text, cloud(consumers=large), PACK)
    assert reason in "; ".join(caught.value.reasons)


def test_a_strategy_marks_its_guesses() -> None:
    loose = {**CONSUMERS, "one": {"cn1": {"VGPU": 2}}}
    placed = decided(MOVES, cloud(consumers=loose), PACK).placed
    assert {item.guess for item in placed if "VGPU" in item.demand.resources} == {"pack"}


def test_consumers_that_do_not_fit_are_refused_and_listed() -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VGPU": 5}}}
    (reason,) = refused(MOVES, cloud(consumers=large), PACK)
    assert "cannot be placed" in reason
    assert uuid_of("one") in reason


def test_a_search_at_the_time_limit_has_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "assign", lambda *_: question.GaveUp(0.1))
    reason = refused(MOVES, options=assign.AssignOptions("pack", 7))[0]
    assert reason.startswith("gave up the search for targets")
    assert "after 7 seconds, without a solution or a proof" in reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{from: nobody, resources: {VGPU: 1}, to: cn1}", "m:2: there is no provider 'nobody'"),
        ("{from: cn1, resources: {VGPU: 1}, to: nobody}", "describe it: {name: nobody}"),
        ("{from: cn1, resources: {PGPU: 1}, to: " + B + "}", "m:2: cn1 has no PGPU"),
        (
            "{from: cn1, resources: {VGPU: 9}, to: " + B + "}",
            "has 8 VGPU, and the moves need 1 more",
        ),
        ("{from: cn1, resources: {VGPU: 1}, to: cn1}", "from cn1 to itself"),
        (
            "{from: cn1, resources: {VGPU: 1}, to: {name: x, parent: nobody}}",
            "there is no provider 'nobody'",
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


def test_evidence_that_does_not_fit_is_reported_with_the_reason() -> None:
    evidence = f"{MOVES}assign: {{{uuid_of('one')}: {A}, {uuid_of('moving')}: {{VGPU: {A}}}}}\n"
    (reason,) = refused(evidence)
    assert reason.startswith("the VGPU of cn1 cannot be placed: ")
    small = {**PROVIDERS, B: ("cn1", {"VGPU": {"total": 4, "max_unit": 1}})}
    evidence = f"{MOVES}assign: {{{uuid_of('one')}: {{VGPU: {B}}}}}\n"
    (reason,) = refused(evidence, cloud(small), PACK)
    assert f"4 VGPU from cn1, assigned to {B}, fits nowhere" in reason


def test_impossible_evidence_is_an_error() -> None:
    found = refused(
        f"{MOVES}assign: {{{uuid_of('nobody')}: {A}, {uuid_of('one')}: cn2,"
        f" {uuid_of('plain')}: {A}, {uuid_of('moving')}: {{VCPU: {A}}}}}\n"
    )
    assert [
        any(part in reason for reason in found)
        for part in (
            f"{uuid_of('nobody')} has no allocation in these trees",
            f"{uuid_of('one')}: no part of its allocations can move to 'cn2'",
            f"{uuid_of('plain')} has no allocation that moves",
            f"{uuid_of('moving')} has no VCPU that moves",
        )
    ] == [True] * 4, found


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
    said = two.replace(f"name: {A}", f"name: {A}, inventories: {{VGPU: {{reserved: 2}}}}")
    assert decided(said, before).after.nodes[new(A)].inventories["VGPU"].reserved == 2


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


def test_classes_with_the_same_targets_stay_together() -> None:
    providers = {
        "cn1": (None, {"VCPU": 8, "MEMORY_MB": 800}),
        "numa0": ("cn1", {}),
        "numa1": ("cn1", {}),
    }
    consumers = {f"c{number}": {"cn1": {"VCPU": 2, "MEMORY_MB": 200}} for number in range(4)}
    text = """\
moves:
- {from: cn1, resources: {VCPU: 4, MEMORY_MB: 400}, to: numa0}
- {from: cn1, resources: {VCPU: 4, MEMORY_MB: 400}, to: numa1}
"""
    placed = decided(text, cloud(providers, consumers), assign.AssignOptions("spread")).placed
    assert len(placed) == 4
    assert all(set(item.demand.resources) == {"VCPU", "MEMORY_MB"} for item in placed)


def test_classes_with_different_targets_do_not_stay_together() -> None:
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
        (item.demand.source, tuple(item.demand.resources), item.option.target) for item in placed
    } == {
        (uuid_of("cn1"), ("MEMORY_MB", "VCPU"), uuid_of("n1")),
        (uuid_of("b"), ("VCPU",), uuid_of("n0")),
        (uuid_of("b"), ("MEMORY_MB",), uuid_of("n1")),
    }


def test_a_tree_of_nova_compute_is_refused() -> None:
    before = cloud(consumers={}, cn1=["COMPUTE_NODE"])
    wrong = f"moves: [{{from: cn1, resources: {{VCPU: 4}}, to: {B}}}]"
    (reason,) = refused(wrong, before)
    assert "writes VCPU on cn1 at its next periodic run" in reason
    assert "--allow nova-owned" in reason
    assert decide.decide(parse.parse(wrong, "m"), before, PACK, [guards.NOVA_OWNED]).placed == []
    own_shape = f"moves: [{{from: cn1, resources: {{VGPU: all}}, to: {B}}}]"
    assert decided(own_shape, before).placed == []


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


def to_tree(text: str, before: snapshot.TreeSnapshot) -> list[change.Change]:
    request = decide.ReshapeRequest(tree=target_tree.parse(text, "t"), options=PACK)
    return reshape_changes.changes(decide.decide_request(request, before)[0])


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
        ("{name: nobody}", "there is no root provider"),
    ):
        with pytest.raises(errors.InvalidInput, match=reason):
            to_tree(f"tree: {tree_text}", cloud())


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
    request = decide.ReshapeRequest(parse.parse(text, "m"), roots=tuple(roots), options=PACK)
    found, skipped = decide.decide_request(request, before)
    assert {move.source for move in found.resolved.moves} == {uuid_of("a"), uuid_of("d")}
    assert {(item.subject.name, item.refused) for item in skipped} == {("b", True), ("c", False)}
    assert found.before.consumers.keys() == {uuid_of("both")}
    listed = reshape_changes.changes(found)
    assert [item.subject.name for item in listed if item.kind == "reshape"] == ["a, d"]


def test_evidence_on_a_consumer_outside_the_trees_is_an_error() -> None:
    text = 'moves: [{from: $root, resources: {VGPU: 1}, to: {name: "${root}-0"}}]\n'
    moves = parse.parse(f"{text}assign: {{{uuid_of('nobody')}: x}}\n", "m")
    root = cloud().nodes[uuid_of("cn1")].provider
    request = decide.ReshapeRequest(moves, roots=(root,), options=PACK)
    with pytest.raises(errors.InvalidInput, match="has no allocation in the selected trees"):
        decide.decide_request(request, cloud())


def test_a_described_child_of_another_tree_is_an_error() -> None:
    providers = {"cn1": (None, {"VGPU": 4}), "cn2": (None, {}), "gpu": ("cn2", {"VGPU": 1})}
    before = cloud_builder.snapshot_of(cloud_builder.state(providers, {}), "cn1", "cn2")
    (reason,) = refused("moves: [{from: cn1, resources: {VGPU: 4}, to: {name: gpu}}]", before)
    assert "'gpu' exists in another tree" in reason
    assert decided("moves: [{from: cn1, resources: {VGPU: 4}, to: gpu}]", before).placed == []


def test_a_consumer_that_is_not_on_its_assigned_target_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(*given: Any) -> list[Any]:
        """A faulty assignment that swaps the GPUs."""
        other = {new(A): uuid_of(B), uuid_of(B): new(A)}
        return [
            dataclasses.replace(item, option=item.option._replace(target=other[item.option.target]))
            for item in original(*given)
        ]

    original = assign.assign
    text = f"{MOVES}assign: {{{uuid_of('one')}: {A}, {uuid_of('moving')}: {B}}}"
    assert decided(text, options=PACK).placed
    monkeypatch.setattr(assign, "assign", swapped)
    reasons = refused(text, options=PACK)
    assert f"consumer {uuid_of('one')} would not be on its target" in reasons
