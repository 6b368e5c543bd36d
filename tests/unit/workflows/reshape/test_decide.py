# SPDX-License-Identifier: Apache-2.0
"""The decision about a document: targets of consumers, totals, and changes in order."""

from __future__ import annotations

import dataclasses

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.plan import change
from osc_placement.workflows.reshape import (
    assignment,
    changes as reshape_changes,
    checks,
    decision,
    documents,
    reshape_plan,
    snapshot,
)
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.documents import (
    CONSUMERS,
    MOVES,
    PACK,
    PROVIDERS,
    A,
    B,
    cloud,
    decided,
    new,
    refused,
)


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
    assert {item.guess for item in found.placed if item.request.consumer == uuid_of("one")} == {""}


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (f"{{{A}: 3, {B}: 1}}", "4 VGPU are assigned, and it has 5"),
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


def test_consumers_that_do_not_fit_are_refused_and_listed() -> None:
    large = {**CONSUMERS, "one": {"cn1": {"VGPU": 5}}}
    (reason,) = refused(MOVES, cloud(consumers=large), PACK)
    assert "cannot be placed" in reason
    assert uuid_of("one") in reason


def test_a_search_at_the_time_limit_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "assign", lambda *_: assignment.GaveUp(0.1))
    reason = refused(MOVES, options=assignment.AssignOptions("pack", 7))[0]
    assert reason.startswith("gave up the search for targets")
    assert "after 7 seconds, without a solution or a proof" in reason


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
        f"{MOVES}assign: {{{uuid_of('unknown')}: {A}, {uuid_of('one')}: cn2,"
        f" {uuid_of('plain')}: {A}, {uuid_of('moving')}: {{VCPU: {A}}}}}\n"
    )
    assert [
        any(part in reason for reason in found)
        for part in (
            f"{uuid_of('unknown')} has no allocation in these trees",
            f"{uuid_of('one')}: no part of its allocations can move to 'cn2'",
            f"{uuid_of('plain')} has no allocation that moves",
            f"{uuid_of('moving')} has no VCPU that moves",
        )
    ] == [True] * 4, found


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
    placed = decided(text, cloud(providers, consumers), assignment.AssignOptions("pack")).placed
    assert len(placed) == 4
    assert all(set(item.request.resources) == {"VCPU", "MEMORY_MB"} for item in placed)


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
        (item.request.source, tuple(item.request.resources), item.option.root_uuid)
        for item in placed
    } == {
        (uuid_of("cn1"), ("MEMORY_MB", "VCPU"), uuid_of("n1")),
        (uuid_of("b"), ("VCPU",), uuid_of("n0")),
        (uuid_of("b"), ("MEMORY_MB",), uuid_of("n1")),
    }


def test_amounts_of_two_classes_compete_for_the_class_that_both_become() -> None:
    providers = {
        "cn1": (None, {"VCPU": 8, "PCPU": {"total": 8, "max_unit": 8}}),
        "a": ("cn1", {}),
        "b": ("cn1", {}),
    }
    consumers = {"v": {"cn1": {"VCPU": 5}}, "p": {"cn1": {"PCPU": 5}}}
    text = "moves:\n" + "".join(
        f"- {{from: cn1, resources: {{{name}: 4}}, to: {target}, as: {{{name}: PCPU}}}}\n"
        for target in "ab"
        for name in ("VCPU", "PCPU")
    )
    placed = decided(text, cloud(providers, consumers), PACK).placed
    assert {item.option.root_uuid for item in placed} == {uuid_of("a"), uuid_of("b")}


SMALL = cloud(
    {"cn1": (None, {"VCPU": 4, "VGPU": {"total": 4, "max_unit": 4}}), "gpu": ("cn1", {"VGPU": 2})},
    {"one": {"cn1": {"VGPU": 2}}},
)
#: One move with fields of the target's inventory.
MOVE = "moves: [{from: cn1, resources: {VGPU: %s}, to: {name: gpu, inventories: {VGPU: {%s}}}}]\n"
KEEP = "providers: [{name: cn1, inventories: {%s: {%s}}}]\n"


def to_tree(text: str, before: snapshot.TreeSnapshot) -> decision.ReshapeDecision:
    request = reshape_plan.ReshapeRequest(documents.parse_tree(text, "t"), options=PACK)
    return reshape_plan.decide(request, before)[0]


def offered(found: decision.ReshapeDecision, name: str) -> dict[str, int]:
    inventories = found.after.nodes[uuid_of(name)].inventories
    return {resource_class: held.total for resource_class, held in inventories.items()}


def test_a_given_total_is_set_after_the_moves() -> None:
    found = decided(MOVE % ("all", "total: 8"), SMALL)
    assert (offered(found, "cn1"), offered(found, "gpu")) == ({"VCPU": 4}, {"VGPU": 8})
    assert found.resolved.growth == {(uuid_of("gpu"), "VGPU"): 2}
    assert "the document changes the totals: VGPU +2 in sum" in checks.notes(found)


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


def test_totals_that_nova_compute_writes_need_the_guard() -> None:
    owned = cloud(cn1=["COMPUTE_NODE"])
    text = MOVES + KEEP % ("VCPU", "total: 20")
    assert decided(MOVES.replace(", SRIOV_NET_VF: 2", ""), owned, PACK)
    (reason,) = refused(text.replace(", SRIOV_NET_VF: 2", ""), owned, PACK)
    assert "writes VCPU on cn1 at its next periodic run" in reason
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


NESTED = cloud(
    {
        "cn1": (None, {"VCPU": 16, "VGPU": {"total": 8, "reserved": 1}}),
        "a": ("cn1", {}),
        "b": ("a", {}),
    },
    {"c": {"cn1": {"VCPU": 1}}},
)
TO_GPU = "moves: [{from: cn1, resources: {VGPU: 4}, to: {name: gpu}}]\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rename: {a: b, b: c}", "a cannot take the name 'b' in the same plan"),
        ("rename: {a: b, b: a}", "a cannot take the name 'b' in the same plan"),
        ("providers: [{name: cn1, parent: b}]", "cn1 would be its own ancestor"),
        ("providers: [{name: x}]\ndelete: [x]", "x cannot be deleted: it does not exist"),
        ("providers: [{name: b, parent: cn1}]\ndelete: [b]", "b cannot be changed and deleted"),
        ("providers: [{name: b, traits: [CUSTOM_A]}]\ndelete: [b]", "b cannot be changed and"),
        ("rename: {b: c}\ndelete: [c]", "provider 'c' does not exist"),
        ("rename: {b: c}\ndelete: [b]", "c cannot be changed and deleted in the same plan"),
        (
            "providers: [{name: x, parent: a}, {name: x, parent: cn1}]",
            "x has two parents, a and cn1",
        ),
        (
            "providers: [{name: gpu, inventories: {VGPU: {max_unit: 1}}},"
            " {name: gpu, inventories: {VGPU: {max_unit: 2}}}]",
            "max_unit of VGPU of gpu is given as 1 and 2",
        ),
        (
            "providers: [{name: gpu, inventories: {VGPU: {total: 5}}},"
            " {name: gpu, inventories: {VGPU: {total: 6}}}]",
            "total of VGPU of gpu is given as 5 and 6",
        ),
    ],
)
def test_contradictory_and_dependent_changes_are_refused(line: str, reason: str) -> None:
    assert reason in "\n".join(refused(TO_GPU + line, NESTED))


def test_a_given_parent_takes_precedence_over_the_default() -> None:
    found = decided(f"{TO_GPU}providers: [{{name: gpu}}, {{name: gpu, parent: a}}]", NESTED)
    assert found.resolved.nodes[snapshot.new_uuid("gpu")].provider.parent_uuid == uuid_of("a")


def test_parents_change_from_the_top_down() -> None:
    text = f"{TO_GPU}providers: [{{name: a, parent: b}}, {{name: b, parent: cn1}}]"
    found = decided(text, NESTED)
    stages = {
        item.subject.name: item.stage
        for item in reshape_changes.list_changes(found)
        if item.kind == "provider"
    }
    assert stages["b"] < stages["a"]


def test_a_new_provider_cannot_take_the_uuid_of_another() -> None:
    taken = snapshot.new_uuid("gpu")
    nodes = {uuid: item for uuid, item in NESTED.nodes.items() if uuid != uuid_of("b")}
    other = cloud_builder.provider.Provider(taken, "b", 1, uuid_of("cn1"))
    renamed = dataclasses.replace(NESTED.nodes[uuid_of("b")], provider=other)
    before = dataclasses.replace(NESTED, nodes={**nodes, taken: renamed})
    (reason,) = refused(TO_GPU, before)
    assert "'b' has the UUID that 'gpu' would get" in reason


@pytest.mark.parametrize(
    "more",
    [
        "providers: [{name: x, parent: $root}]",
        f"providers: [{{uuid: {uuid_of('x')}, name: $root-x}}]",
    ],
)
def test_a_new_provider_without_root_in_its_name_is_refused(more: str) -> None:
    before = cloud(dict.fromkeys(("n1", "n2"), (None, {"VGPU": 1})), {}, ("n1", "n2"))
    text = f"moves: [{{from: $root, resources: {{VGPU: 1}}, to: {{name: $root-g}}}}]\n{more}"
    roots = tuple(before.nodes[uuid_of(name)].provider for name in ("n1", "n2"))
    request = reshape_plan.ReshapeRequest(documents.parse(text, "m"), roots)
    with pytest.raises(errors.InvalidInput, match=r"put \$root into its name"):
        reshape_plan.decide(request, before)


def test_a_consumer_that_loses_resources_is_detected() -> None:
    found = decided(MOVES, options=PACK)
    one = found.after.consumers[uuid_of("one")]
    lost = {**found.after.consumers, one.uuid: dataclasses.replace(one, allocations={})}
    after = dataclasses.replace(found.after, consumers=lost)
    with pytest.raises(errors.InvalidInput, match=r"would have \{\} in sum instead of") as caught:
        checks.check(dataclasses.replace(found, after=after), (), ())
    assert len(caught.value.reasons) == 1
