# SPDX-License-Identifier: Apache-2.0
"""Documents and target trees that are refused, each with its reasons."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import provider
from osc_placement.plan import guards
from osc_placement.workflows.reshape import assignment, checks, documents, reshape_plan
from tests.support.embedded import uuid_of
from tests.support.reshape.documents import (
    CONSUMERS,
    MOVES,
    PACK,
    PLAIN,
    PROVIDERS,
    A,
    B,
    cloud,
    decided,
    new,
    refused,
)

ONE = uuid_of("one")
EMPTY = cloud(consumers={})
LARGE = cloud(consumers={**CONSUMERS, "one": {"cn1": {"VGPU": 5}}})
SMALL_B = cloud({**PROVIDERS, B: ("cn1", {"VGPU": {"total": 4, "max_unit": 1}})})
RESERVED = cloud({"cn1": (None, {"VGPU": {"total": 8, "reserved": 2}}), B: ("cn1", {})}, {})
NESTED = cloud(
    {
        "cn1": (None, {"VCPU": 16, "VGPU": {"total": 8, "reserved": 1}}),
        "a": ("cn1", {}),
        "b": ("a", {}),
    },
    {"c": {"cn1": {"VCPU": 1}}},
)
GPU = cloud(
    {"cn1": (None, {"VCPU": 4, "VGPU": {"total": 4, "max_unit": 4}}), "gpu": ("cn1", {"VGPU": 2})},
    {"one": {"cn1": {"VCPU": 1, "VGPU": 2}}},
)
MERGED = cloud(
    {
        "cn1": (None, {"VCPU": 4}),
        "a": ("cn1", {"VGPU": {"total": 2, "max_unit": 2}}),
        "b": ("cn1", {"VGPU": {"total": 4, "max_unit": 1, "step_size": 2}}),
    },
    {},
)
APART = cloud(
    {"cn1": (None, {"VGPU": 4}), "cn2": (None, {}), "gpu": ("cn2", {"VGPU": 1})}, {}, ("cn1", "cn2")
)
OWNED = cloud(
    {
        "cn1": (None, {"VCPU": 8, "VGPU": 2, "MEM_ENCRYPTION_CONTEXT": 15}),
        "cn1_pci_0": ("cn1", {"VGPU": 1}),
        "cn1_dev": ("cn1", {"CUSTOM_PCI": 1}),
        "pool": (None, {"VCPU": 4, "CUSTOM_X": 1}),
    },
    {},
    ("cn1", "pool"),
    cn1=["COMPUTE_NODE"],
    cn1_dev=["COMPUTE_MANAGED_PCI_DEVICE"],
)


def move(source: str, resources: str, to: str, *more: str) -> str:
    """A document with one move and other parts."""
    return "\n".join([f"moves:\n- {{from: {source}, resources: {{{resources}}}, to: {to}}}", *more])


def vgpu(to: str, *more: str) -> str:
    return move("cn1", "VGPU: 1", to, *more)


def assign(text: str) -> str:
    return f"{MOVES}assign: {{{text}}}\n"


def gpu(amount: str, fields: str, keep: str = "") -> str:
    """A move to gpu with fields of its inventory, and with other fields of cn1."""
    to = f"{{name: gpu, inventories: {{VGPU: {{{fields}}}}}}}"
    more = [f"providers: [{{name: cn1, inventories: {{{keep}}}}}]"] if keep else []
    return move("cn1", f"VGPU: {amount}", to, *more)


def gpu_twice(fields: str, other: str) -> str:
    described = ", ".join(
        f"{{name: gpu, inventories: {{VGPU: {{{changed}}}}}}}" for changed in (fields, other)
    )
    return vgpu("{name: gpu}", f"providers: [{described}]")


# fmt: off
TABLE: list[tuple[str, Any, str]] = [
    # Providers and amounts
    (move("unknown", "VGPU: 1", "cn1"), None, "m:2: provider 'unknown' does not exist"),
    (vgpu("unknown"), None, "describe it: {name: unknown}"),
    (vgpu(f"{{uuid: {ONE}}}"), None, "describe it: {name: <name>}"),
    (move("cn1", "PGPU: 1", B), None, "m:2: cn1 has no PGPU: it has SRIOV_NET_VF, VCPU, VGPU"),
    (move("cn1", "VGPU: 9", B), None, "has 8 VGPU, and the moves need 1 more"),
    (vgpu("cn1"), None, "VGPU would move from cn1 to itself"),
    (move("cn1", "VGPU: 8", B, f"- {{from: cn1, resources: {{VGPU: all}}, to: {B}}}"), None,
     "cn1 has 8 VGPU, and nothing is left for 'all'"),
    (move("cn1", "VGPU: all", B, "- {from: cn1, resources: {VGPU: all}, to: {name: x}}"), None,
     "more than one move takes all"),
    (vgpu("{name: x, parent: unknown}"), None, "provider 'unknown' does not exist"),
    (vgpu("{name: x, inventories: {VCPU: {reserved: 1}}}"), None, "x gets no VCPU"),
    (vgpu("{name: x, inventories: {VGPU: {reserved: 2}}}"), None, "reserved 2 above total 1"),
    (vgpu(f"{{name: cn1, parent: {B}}}"), None, "cn1 would be its own ancestor"),
    (vgpu(f"{{uuid: {uuid_of(B)}, name: other}}"), None, f"has the name '{B}', not 'other'"),
    (move("cn1", "VGPU: 4", "{name: gpu}"), APART, "'gpu' exists in another tree"),
    # Names, parents and deletions
    (move("cn1", "VGPU: all", B, f"rename: {{{B}: cn1}}"), EMPTY,
     "two providers would have the name 'cn1'"),
    (vgpu("{name: gpu}", "rename: {a: b, b: c}"), NESTED, "a cannot take the name 'b' in the same"),
    (vgpu("{name: gpu}", "providers: [{name: x, parent: a}, {name: x, parent: cn1}]"), NESTED,
     "x has two parents, a and cn1"),
    (vgpu("{name: gpu}", "providers: [{name: x}]\ndelete: [x]"), NESTED,
     "x cannot be deleted: it does not exist"),
    (vgpu("{name: gpu}", "providers: [{name: b, parent: cn1}]\ndelete: [b]"), NESTED,
     "b cannot be changed and deleted in the same plan"),
    (vgpu("{name: gpu}", "providers: [{name: b, traits: [CUSTOM_A]}]\ndelete: [b]"), NESTED,
     "b cannot be changed and deleted"),
    (vgpu("{name: gpu}", "rename: {b: c}\ndelete: [c]"), NESTED, "provider 'c' does not exist"),
    (vgpu("{name: gpu}", "rename: {b: c}\ndelete: [b]"), NESTED, "c cannot be changed and deleted"),
    (move("cn1", "VGPU: all", B, "delete: [cn1]"), EMPTY,
     "cn1 cannot be deleted: it keeps SRIOV_NET_VF, VCPU; move that too"),
    (move("cn1", "VGPU: all", B, "delete: [cn1]"), EMPTY,
     f"cn1 cannot be deleted: it has the children {B}"),
    # Fields of inventories
    (gpu_twice("max_unit: 1", "max_unit: 2"), NESTED, "max_unit of VGPU of gpu is given as 1 and"),
    (gpu_twice("total: 5", "total: 6"), NESTED, "total of VGPU of gpu is given as 5 and 6"),
    (move("cn1", "VGPU: 4", f"{{name: {A}}}", f"- {{from: cn1, resources: {{VGPU: 4}}, to: {B}}}"),
     RESERVED, "cn1 reserves 2 VGPU: say where that moves"),
    (move("a", "VGPU: all", "cn1", "- {from: b, resources: {VGPU: all}, to: cn1}"), MERGED,
     "cn1 gets VGPU from a, b, whose max_unit differ (1, the total): give it"),
    (move("a", "VGPU: all", "cn1", "- {from: b, resources: {VGPU: all}, to: cn1}"), MERGED,
     "whose step_size differ (1, 2)"),
    (gpu("all", "total: 1"), GPU, "VGPU"),
    (gpu("2", "max_unit: 2", "VCPU: {total: 0}"), GPU,
     "cn1 would be over capacity: 1 VCPU used of 0"),
    (gpu("2", "max_unit: 2", "VCPU: {min_unit: 2}"), GPU,
     f"1 VCPU of consumer {ONE} does not suit cn1: min_unit 2, max_unit 2147483647, step_size 1"),
    # Evidence
    (assign(f"{ONE}: {{VGPU: {{{A}: 3, {B}: 1}}}}"), LARGE, "4 VGPU are assigned, and it has 5"),
    (assign(f"{ONE}: {{VGPU: {{{A}: 3, cn2: 2}}}}"), LARGE, "VGPU to 'cn2' is not possible"),
    (assign(f"{ONE}: {{VGPU: {{{A}: 5, {B}: 0}}}}"), LARGE, "0 is less than the minimum"),
    (assign(f"{uuid_of('unknown')}: {A}"), None, "has no allocation in these trees"),
    (assign(f"{ONE}: cn2"), None, "no part of its allocations can move to 'cn2'"),
    (assign(f"{uuid_of('plain')}: {A}"), None, "has no allocation that moves"),
    (assign(f"{uuid_of('moving')}: {{VCPU: {A}}}"), None, "has no VCPU that moves"),
    (assign(f"{ONE}: VGPU"), None, f"is ambiguous between {A} (VGPU) and {B} (VGPU): name the new"),
    (assign(f"{ONE}: {{VGPU: {B}}}"), SMALL_B, f"4 VGPU from cn1, assigned to {B}, fits nowhere"),
    (assign(f"{ONE}: {A}, {uuid_of('moving')}: {{VGPU: {A}}}"), None,
     "the VGPU of cn1 cannot be placed: "),
    (MOVES, LARGE, f"these consumers do not fit: {ONE}"),
    # Nova
    (move("cn1", "VCPU: 4", "cn1_pci_0"), OWNED,
     "m:2: nova-compute owns the tree of cn1 and writes VCPU on cn1 at its next periodic run"
     " (--allow nova-owned to do it anyway)"),
    (move("cn1", "MEM_ENCRYPTION_CONTEXT: all", "{name: cn1_sev}"), OWNED,
     "writes MEM_ENCRYPTION_CONTEXT on cn1"),
    (move("cn1", "VGPU: all", "{name: other}"), OWNED, "writes VGPU on cn1"),
    (move("cn1_dev", "CUSTOM_PCI: 1", "cn1"), OWNED, "writes CUSTOM_PCI on cn1_dev"),
    (move("pool", "VCPU: 4", "cn1"), OWNED, "owns the tree of cn1 and writes VCPU on cn1"),
    (move("pool", "CUSTOM_X: 1", "cn1", "rename: {cn1_pci_0: other}"), OWNED,
     "nova-compute finds cn1_pci_0 by its name"),
    (move("pool", "CUSTOM_X: 1", "{name: cn1, inventories: {VCPU: {total: 9}}}"), OWNED,
     "m: nova-compute owns the tree of cn1 and writes VCPU on cn1"),
    # Target trees
    ("tree: {name: cn1, inventories: {VCPU: 17, VGPU: 8, SRIOV_NET_VF: 2}}", None, "1 VCPU more"),
    ("tree: {name: cn1, inventories: {VCPU: 16, SRIOV_NET_VF: 2}}", None, "8 VGPU less"),
    ("tree: {name: cn1, children: [{name: gpu, inventories: {VGPU: 9}}]}", GPU,
     "without change_totals: [VGPU]. A provider without inventories in the file keeps what it has"),
    ("tree: {name: " + B + "}", None, "not a root provider"),
    ("tree: {name: unknown}", None, "the root provider is missing"),
    ("tree: {name: cn1, inventories: {VCPU: 4}}\nchange_totals: [VGPU]", GPU, "2 VGPU used of 0"),
]
# fmt: on


@pytest.mark.parametrize(("text", "before", "reason"), TABLE, ids=[row[2] for row in TABLE])
def test_a_document_is_refused(text: str, before: Any, reason: str) -> None:
    assert reason in "\n".join(refused(text, before, PACK))


@pytest.mark.parametrize(
    ("source", "resources", "to"),
    [
        *(
            ("cn1", "MEM_ENCRYPTION_CONTEXT: all", f"{{name: cn1_{model}}}")
            for model in ("amd_sev", "amd_sev_es", "amd_sev_snp", "intel_tdx")
        ),
        ("cn1", "VGPU: all", "cn1_pci_0"),
        ("pool", "CUSTOM_X: 1", "cn1"),
    ],
)
def test_moves_that_nova_compute_keeps_are_not_refused(
    source: str, resources: str, to: str
) -> None:
    assert decided(move(source, resources, to), OWNED).resolved.moves


def test_a_guard_can_be_allowed() -> None:
    text = move("cn1", "VCPU: 4", "cn1_pci_0")
    assert decided(text, OWNED, PLAIN, guards.NOVA_OWNED).resolved.moves


def test_a_search_at_the_time_limit_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "assign", lambda *_: assignment.GaveUp(0.1))
    reason = refused(MOVES, options=assignment.AssignOptions("pack", 7))[0]
    assert reason.startswith("gave up the search for options")
    assert "after 7 seconds, without a solution or a proof" in reason


def test_a_consumer_that_loses_resources_is_detected() -> None:
    decision = decided(MOVES, options=PACK)
    consumer = decision.after.consumers[ONE]
    lost = {**decision.after.consumers, ONE: dataclasses.replace(consumer, allocations={})}
    after = dataclasses.replace(decision.after, consumers=lost)
    with pytest.raises(errors.InvalidInput, match=r"would have \{\} in sum instead of"):
        checks.check(dataclasses.replace(decision, after=after), (), ())


def test_a_new_provider_cannot_take_the_uuid_of_another() -> None:
    taken = new("gpu")
    nodes = {uuid: item for uuid, item in NESTED.nodes.items() if uuid != uuid_of("b")}
    other = provider.Provider(taken, "b", 1, uuid_of("cn1"))
    nodes[taken] = dataclasses.replace(NESTED.nodes[uuid_of("b")], provider=other)
    (reason,) = refused(vgpu("{name: gpu}"), dataclasses.replace(NESTED, nodes=nodes))
    assert "'b' has the UUID that 'gpu' would get" in reason


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("providers: [{name: x, parent: $root}]", r"put \$root into its name"),
        (f"providers: [{{uuid: {ONE}, name: $root-x}}]", r"put \$root into its name"),
        (f"assign: {{{uuid_of('unknown')}: x}}", "has no allocation in the selected trees"),
    ],
)
def test_a_template_is_refused(more: str, reason: str) -> None:
    before = cloud(dict.fromkeys(("n1", "n2"), (None, {"VGPU": 1})), {}, ("n1", "n2"))
    roots = tuple(before.nodes[uuid_of(name)].provider for name in ("n1", "n2"))
    text = move("$root", "VGPU: 1", "{name: $root-g}", more)
    with pytest.raises(errors.InvalidInput, match=reason):
        reshape_plan.decide(reshape_plan.ReshapeRequest(documents.parse(text, "m"), roots), before)
