# SPDX-License-Identifier: Apache-2.0
"""``placement reshape`` on every target: VGPU to children, undo, stale plans, refusals."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.support.functional_cloud import allocate, create
from tests.support.peer import fixtures, shell, target as targets

RESHAPE = "placement reshape"
A, B = "cn1_pci_0000_84_00_0", "cn1_pci_0000_85_00_0"
MOVES = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 4}}, to: {{name: {A}, parent: cn1, traits: [CUSTOM_VGPU_A]}}}}
- {{from: cn1, resources: {{VGPU: 4, CUSTOM_VF: 2}}, to: {B}}}
"""
CONSUMERS = {name: f"0c57cadb-fc21-585e-9f39-{number:012}" for number, name in enumerate("abcde")}


@pytest.fixture
def uuids(openstack: shell.OpenStack, target: targets.Target) -> dict[str, str]:
    """A compute node with all inventories of its own, and servers; one is being evacuated."""
    openstack.do("resource class create", "CUSTOM_VF")
    found = {"cn1": create(openstack, "cn1", VCPU=16, VGPU=8, CUSTOM_VF=2)}
    found[B] = create(openstack, B, "cn1")
    found["cn2"] = create(openstack, "cn2", VCPU=16)
    for name, amounts in (
        ("a", "VCPU=1,VGPU=4"),
        ("b", "VCPU=1,VGPU=2,CUSTOM_VF=1"),
        ("c", "VCPU=2"),
    ):
        allocate(openstack, found["cn1"], amounts, CONSUMERS[name])
    openstack.do(
        "resource provider allocation set",
        CONSUMERS["d"],
        *("--allocation", f"rp={found['cn1']},VGPU=1,VCPU=1"),
        *("--allocation", f"rp={found['cn2']},VCPU=3"),
        *("--project-id", "project", "--user-id", "user"),
    )
    allocate(openstack, found["cn2"], "VCPU=1", CONSUMERS["e"])
    pathlib.Path("moves.yaml").write_text(MOVES)
    return found


def allocations(target: targets.Target) -> dict[str, dict[str, dict[str, int]]]:
    """``{consumer: {provider uuid: resources}}``"""
    return {
        name: {
            uuid: held["resources"]
            for uuid, held in target.ask("GET", f"/allocations/{consumer}")["allocations"].items()
        }
        for name, consumer in CONSUMERS.items()
    }


def offered(target: targets.Target) -> dict[str, Any]:
    """``{provider's name: (inventories, traits, parent)}``"""
    found = {}
    for item in target.ask("GET", "/resource_providers")["resource_providers"]:
        path = f"/resource_providers/{item['uuid']}"
        found[item["name"]] = (
            target.ask("GET", f"{path}/inventories")["inventories"],
            target.ask("GET", f"{path}/traits")["traits"],
            item["parent_provider_uuid"],
        )
    return found


def rows(
    openstack: shell.OpenStack, *arguments: str, code: int = 0, command: str = RESHAPE
) -> list[dict[str, Any]]:
    return openstack.rows(command, *arguments, code=code)


def test_a_reshape_is_rehearsed_applied_and_undone(
    openstack: shell.OpenStack, target: targets.Target, uuids: dict[str, str]
) -> None:
    before = offered(target), allocations(target)
    check = ("moves.yaml", "--strategy", "pack", "--dry-run")
    planned = openstack.run(RESHAPE, *check, "--detailed-exitcode")
    assert planned.code == 3
    assert "guessed (pack)" in planned.stdout
    assert (offered(target), allocations(target)) == before

    found = rows(openstack, "moves.yaml", "--strategy", "pack", "--undo-out", "undo.json")
    assert {row["status"] for row in found} == {"applied"}
    child = next(row["uuid"] for row in found if row["name"].endswith(A))
    after = allocations(target)
    assert after["a"] == {uuids["cn1"]: {"VCPU": 1}, child: {"VGPU": 4}}
    assert after["d"][uuids["cn2"]] == {"VCPU": 3}
    assert after["c"] == before[1]["c"]
    assert after["b"][uuids[B]]["CUSTOM_VF"] == 1
    now = offered(target)
    assert {name: fields["total"] for name, fields in now[B][0].items()} == {
        "CUSTOM_VF": 2,
        "VGPU": 4,
    }
    assert now[A][1:] == (["CUSTOM_VGPU_A"], uuids["cn1"])
    assert list(now["cn1"][0]) == ["VCPU"]

    openstack.do("placement plan undo", "undo.json")
    assert (offered(target), allocations(target)) == before


@pytest.mark.parametrize("version", ["1.30", "1.37", "1.39"])
def test_a_reshape_is_the_same_at_every_supported_version(
    openstack: shell.OpenStack, target: targets.Target, uuids: dict[str, str], version: str
) -> None:
    types = {
        name: target.ask("GET", f"/allocations/{consumer}").get("consumer_type")
        for name, consumer in CONSUMERS.items()
    }
    openstack.do(RESHAPE, "moves.yaml", "--strategy", "pack", version=version)
    assert allocations(target)["b"][uuids[B]]["CUSTOM_VF"] == 1
    for name, consumer in CONSUMERS.items():
        assert target.ask("GET", f"/allocations/{consumer}").get("consumer_type") == types[name]
    code, error = openstack.fails(RESHAPE, "moves.yaml", version="1.29")
    assert (code, "at least version 1.30" in error) == (1, True)


def test_an_undecided_consumer_is_refused_until_evidence_decides(
    openstack: shell.OpenStack, target: targets.Target, uuids: dict[str, str]
) -> None:
    before = offered(target), allocations(target)
    code, error = openstack.fails(RESHAPE, "moves.yaml")
    assert code == 1
    assert all(CONSUMERS[name] in error for name in "abd")
    assert (offered(target), allocations(target)) == before
    evidence = f"{MOVES}assign: {{{CONSUMERS['a']}: {B}}}\n"
    pathlib.Path("moves.yaml").write_text(evidence)
    found = rows(openstack, "moves.yaml")
    assert {row["reason"] for row in found if row["name"].endswith(CONSUMERS["a"])} == {
        "",
        "assigned",
    }
    assert allocations(target)["a"][uuids[B]] == {"VGPU": 4}


def test_a_target_tree_is_reached_and_then_unchanged(
    openstack: shell.OpenStack, target: targets.Target, uuids: dict[str, str]
) -> None:
    pathlib.Path("tree.yaml").write_text(
        f"""\
tree:
  name: cn1
  inventories: {{VCPU: 16, CUSTOM_VF: 2}}
  children: [{{name: {B}, inventories: {{VGPU: 8}}}}]
"""
    )
    rows(openstack, "--to-tree", "tree.yaml")
    assert allocations(target)["a"][uuids[B]] == {"VGPU": 4}
    again = rows(openstack, "--to-tree", "tree.yaml", "--dry-run", "--detailed-exitcode")
    assert {row["status"] for row in again} == {"unchanged"}


def test_a_provider_gets_another_name_and_parent(
    openstack: shell.OpenStack, target: targets.Target, uuids: dict[str, str]
) -> None:
    pathlib.Path("move.yaml").write_text(
        f"""\
moves:
- {{from: cn1, resources: {{VGPU: all}}, to: {{name: numa0, parent: cn1}}}}
- {{from: cn1, resources: {{CUSTOM_VF: all}}, to: {{name: {B}, parent: numa0}}}}
rename: {{{B}: function}}
"""
    )
    before = offered(target)
    rows(openstack, "move.yaml", "--undo-out", "undo.json")
    now = {row["uuid"]: row for row in openstack("resource provider list")}
    assert now[uuids[B]]["name"] == "function"
    assert now[now[uuids[B]]["parent_provider_uuid"]]["name"] == "numa0"
    openstack.do("placement plan undo", "undo.json")
    assert offered(target) == before


def test_a_template_reshapes_each_tree_separately(
    openstack: shell.OpenStack, target: targets.Target, uuids: dict[str, str]
) -> None:
    create(openstack, "cn3", VGPU=2)
    create(openstack, "cn4", VGPU=2)
    openstack.do("resource provider trait set", "cn4", "--trait", "COMPUTE_NODE")
    pathlib.Path("each.yaml").write_text(
        """\
moves: [{from: $root, resources: {VGPU: all}, to: {name: "gpu-of-${root}"}}]
"""
    )
    selected = ("cn1", "cn2", "cn3", "cn4", B)
    found = {row["name"]: row for row in rows(openstack, "each.yaml", *selected, code=6)}
    assert {name: found[name]["status"] for name in ("cn1", "cn2", "cn3", "cn4")} == {
        "cn1": "applied",
        "cn2": "skipped",
        "cn3": "applied",
        "cn4": "refused",
    }
    assert (found["cn2"]["code"], found["cn4"]["code"]) == ("nothing-to-move", "nova-owned")
    assert "no inventory that the document moves" in found["cn2"]["reason"]
    assert "nova-compute owns the tree" in found["cn4"]["reason"]
    now = offered(target)
    assert {"gpu-of-cn1", "gpu-of-cn3"} <= now.keys()
    assert "gpu-of-cn4" not in now


@fixtures.ON_ONE_TARGET
def test_an_unreadable_file_is_reported(openstack: shell.OpenStack) -> None:
    assert "cannot be read" in openstack.fails(RESHAPE, "nofile.yaml")[1]
