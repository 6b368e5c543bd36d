# SPDX-License-Identifier: Apache-2.0
"""Reading documents of moves, and their errors with lines."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from osc_placement import errors
from osc_placement.workflows.reshape import documents, target_tree

CONSUMER = "0c57cadb-fc21-585e-9f39-000d38c633c0"
MOVES = f"""\
moves:
- from: cn1
  resources: {{VGPU: 4}}
  to: {{name: cn1_pci_0000_84_00_0, parent: cn1, traits: [CUSTOM_VGPU_A]}}
- {{from: cn1, resources: {{VGPU: all, SRIOV_NET_VF: 2}}, to: cn1_pci_0000_85_00_0}}
- {{from: cn1, resources: {{VCPU: 2}}, to: cn1, as: {{VCPU: PCPU}}}}
assign:
  {CONSUMER.upper()}: cn1_pci_0000_85_00_0
rename: {{cn1: cn-one}}
delete: [cn0]
providers:
- {{name: cn1_ens1, parent: cn2}}
"""


def problems(text: str, parse: object = documents.parse) -> list[str]:
    with pytest.raises(errors.InvalidInput) as caught:
        parse(text, "moves.yaml")  # type: ignore[operator]
    return list(caught.value.reasons)


def test_yaml_is_read_with_the_lines_of_its_parts() -> None:
    found = documents.parse(MOVES, "moves.yaml")
    first, second, third = found.moves
    assert first == documents.ResourceMove(
        "cn1",
        {"VGPU": 4},
        documents.ProviderDescription(
            "cn1_pci_0000_84_00_0", parent="cn1", traits=("CUSTOM_VGPU_A",), described=True, line=4
        ),
        line=2,
    )
    assert (second.resources, second.to.described) == (
        {"VGPU": "all", "SRIOV_NET_VF": 2},
        False,
    )
    assert third.classes == {"VCPU": "PCPU"}
    assert found.assign == (documents.ConsumerEvidence(CONSUMER, {"": "cn1_pci_0000_85_00_0"}, 8),)
    assert (found.rename, found.delete) == (
        (documents.Named("cn1", "cn-one", 9),),
        (documents.Named("cn0", line=10),),
    )
    assert found.providers == (
        documents.ProviderDescription("cn1_ens1", parent="cn2", described=True, line=12),
    )


def test_json_is_read_too() -> None:
    moves = [{"from": "a", "resources": {"VGPU": 1}, "to": {"name": "b", "parent": None}}]
    (move,) = documents.parse(json.dumps({"moves": moves}), "moves.json").moves
    assert (move.source, move.to.parent) == ("a", None)


def test_a_whole_float_is_read_as_an_integer() -> None:
    (move,) = documents.parse("moves: [{from: a, resources: {VGPU: 4.0}, to: b}]", "m").moves
    amount = move.resources["VGPU"]
    assert (amount, type(amount)) == (4, int)


def test_all_errors_are_reported_together_with_their_lines() -> None:
    text = """\
moves:
- {from: cn1, resources: {VGPU: some, vgpu: 1}, to: {nam: b, parent: 3}}
- {resources: {VGPU: 0}, to: [b]}
- {from: cn1, resources: {}, to: b}
asign: {}
assign: {unknown: b}
"""
    unexpected = "Additional properties are not allowed"
    assert problems(text) == [
        f"moves.yaml:1: $: {unexpected} ('asign' was unexpected)",
        "moves.yaml:2: moves[0].resources.VGPU: 'some' does not match '^all$'",
        "moves.yaml:2: moves[0].resources: 'vgpu' does not match any of the regexes:"
        " '^[A-Z0-9_]+$'",
        "moves.yaml:2: moves[0].to.parent: 3 is not of type 'string', 'null'",
        f"moves.yaml:2: moves[0].to: {unexpected} ('nam' was unexpected)",
        "moves.yaml:3: moves[1].resources.VGPU: 0 is less than the minimum of 1",
        "moves.yaml:3: moves[1].to: ['b'] is not of type 'string', 'object'",
        "moves.yaml:3: moves[1]: 'from' is a required property",
        "moves.yaml:4: moves[2].resources: {} should be non-empty",
        "moves.yaml:6: assign: 'unknown' does not match any of the regexes:"
        " '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$'",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("moves: [", "neither YAML nor JSON"),
        ("", "None is not of type 'object'"),
        ("- 1", "[1] is not of type 'object'"),
        ("moves: []", "should be non-empty"),
        ("moves: [{from: a, from: b, resources: {VGPU: 1}, to: c}]", "is repeated"),
        ("moves: [{from: a, resources: {VGPU: 1}, to: b, as: {VCPU: PCPU}}]", "not among"),
        ("moves: [{from: a, resources: {VGPU: 1}, to: {traits: [x]}}]", "neither a name nor"),
        (
            "moves: [{from: a, resources: {VGPU: 1}, to: {name: b, traits: [x]}}]",
            "'x' is not a trait name",
        ),
        (
            "moves: [{from: a, resources: {VGPU: 1}, to: {name: b, aggregates: [x]}}]",
            "'x' is not a UUID",
        ),
        ("{? [a]: b}", "('?' was unexpected)"),
        ("moves: 2026-01-01", "is not of type 'array'"),
        (
            "moves: [{from: a, resources: {VGPU: 1}, to: b}]\n"
            "assign:\n  0C57CADB-FC21-585E-9F39-000D38C633C0: b\n"
            "  0c57cadb-fc21-585e-9f39-000d38c633c0: c",
            "moves.yaml:4: consumer 0c57cadb-fc21-585e-9f39-000d38c633c0 is listed twice",
        ),
        ("moves: [{from: a, resources: {VGPU: 1.5}, to: b}]", "not of type 'integer', 'string'"),
        (
            "moves: [{from: a, resources: {VGPU: true}, to: b}]",
            "not of type 'integer', 'string'",
        ),
        (
            "moves: [{from: a, resources: {VGPU: 1}, to: {name: b,"
            " inventories: {VGPU: {allocation_ratio: .inf}}}}]",
            "is not of type 'number'",
        ),
    ],
)
def test_an_invalid_document_is_reported_in_plain_words(text: str, message: str) -> None:
    assert message in "\n".join(problems(text))


def test_a_target_tree_is_read_parents_first() -> None:
    text = f"""\
tree:
  name: cn1
  inventories: {{VCPU: 8, MEMORY_MB: {{total: 512, reserved: 64}}}}
  children:
  - {{name: cn1_gpu, traits: [CUSTOM_A], inventories: {{VGPU: 4}}, children: [{{name: deep}}]}}
assign: {{{CONSUMER}: cn1_gpu}}
"""
    tree = documents.parse_tree(text, "tree.yaml")
    assert [(target.name, target.parent) for target in tree.descriptions] == [
        ("cn1", None),
        ("cn1_gpu", "cn1"),
        ("deep", "cn1_gpu"),
    ]
    assert [target.inventories for target in tree.descriptions] == [
        {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 512, "reserved": 64}},
        {"VGPU": {"total": 4}},
        {},
    ]
    assert [target.only for target in tree.descriptions] == [
        {"inventories"},
        {"traits", "inventories"},
        set(),
    ]
    assert tree.assign[0].line == 6
    twice = "tree: {name: a, children: [{name: a}]}"
    assert problems(twice, documents.parse_tree) == ["moves.yaml: the tree has more than one 'a'"]


def test_root_is_replaced_by_the_name_of_each_tree() -> None:
    text = 'moves: [{from: $root, resources: {VGPU: all}, to: {name: "${root}_gpu"}}]'
    document = documents.parse(text, "moves.yaml")
    assert target_tree.is_template(document)
    assert not target_tree.is_template(documents.parse(MOVES, "moves.yaml"))
    (filled,) = target_tree.fill(document, "cn7").moves
    assert (filled.source, filled.to.name) == ("cn7", "cn7_gpu")


def test_the_documents_of_the_guide_are_valid() -> None:
    folder = pathlib.Path(__file__).parents[4] / "doc" / "source" / "user" / "reshape"
    guide = folder / "reshape-document.rst"
    blocks = re.findall(r"::\n\n((?:    .*\n)+)", guide.read_text())
    moves = [block for block in blocks if block.strip().startswith("moves:")]
    trees = [block for block in blocks if block.strip().startswith("tree:")]
    assert (len(moves), len(trees)) == (2, 2)
    for block in moves:
        documents.parse(block, "guide")
    for block in trees:
        documents.parse_tree(block, "guide")
