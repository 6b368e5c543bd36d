# SPDX-License-Identifier: Apache-2.0
"""A VGPU reshape with real tokens, on the real placement and the reference server.

One compute node has the inventory of 4 + 4 VGPU and of network functions; servers use both.
The reshape moves them to one child provider per GPU. It needs the role service, not admin.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SERVICE = "-service"
A, B = "cn1_pci_0000_84_00_0", "cn1_pci_0000_85_00_0"
SERVERS = [f"0c57cadb-fc21-585e-9f39-{number:012}" for number in range(4)]
MOVES = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 4}}, to: {{name: {A}, parent: cn1, traits: [CUSTOM_VGPU_A]}}}}
- {{from: cn1, resources: {{VGPU: 4, SRIOV_NET_VF: 2}}, to: {B}}}
assign:
  {SERVERS[0]}: {A}
  {SERVERS[1]}: {{VGPU: {B}}}
  {SERVERS[2]}: {{VGPU: {B}}}
"""


def arrange(openstack: conftest.OpenStack, folder: pathlib.Path) -> dict[str, str]:
    found = {}
    for name, parent in (("cn1", ""), (B, "cn1"), ("cn2", "")):
        below = f" --parent-provider {found[parent]}" if parent else ""
        found[name] = openstack(f"resource provider create {name}{below}", SERVICE)["uuid"]
    resources = "--resource VCPU=16 --resource VGPU=8 --resource SRIOV_NET_VF=2"
    openstack(f"resource provider inventory set {found['cn1']} {resources}", SERVICE)
    openstack(f"resource provider inventory set {found['cn2']} --resource VCPU=16", SERVICE)
    for server, amounts in zip(
        SERVERS, ("VGPU=4", "VGPU=2", "VGPU=1,SRIOV_NET_VF=1"), strict=False
    ):
        parts = f"--allocation rp={found['cn1']},VCPU=1,{amounts}"
        if server == SERVERS[2]:
            parts += f" --allocation rp={found['cn2']},VCPU=1"
        openstack(f"resource provider allocation set {server} {parts} {OWNER}", SERVICE)
    (folder / "vgpu.yaml").write_text(MOVES)
    return found


OWNER = "--project-id project --user-id user"


def allocations(openstack: conftest.OpenStack) -> dict[str, Any]:
    return {
        server: {
            row["resource_provider"]: row["resources"]
            for row in openstack(f"resource provider allocation show {server}", SERVICE)
        }
        for server in SERVERS
    }


def test_vgpus_move_to_their_gpus_with_their_servers(
    openstack: conftest.OpenStack, tmp_path: pathlib.Path
) -> None:
    uuids = arrange(openstack, tmp_path)
    before = allocations(openstack)
    providers = openstack("resource provider list", SERVICE)

    completed = openstack.run("placement reshape vgpu.yaml")
    assert completed.returncode == 1
    assert "placement:reshaper:reshape" in completed.stderr
    assert "role service" in completed.stderr
    assert openstack("resource provider list", SERVICE) == providers

    planned = openstack("placement reshape vgpu.yaml --dry-run", SERVICE)
    assert {row["status"] for row in planned} == {"planned"}
    assert allocations(openstack) == before

    applied = openstack("placement reshape vgpu.yaml --undo-out undo.json", SERVICE)
    assert {row["status"] for row in applied} == {"applied"}
    assert not any("guessed" in row["reason"] for row in applied)
    child = next(row["uuid"] for row in applied if row["name"].endswith(A))
    now = allocations(openstack)
    assert now[SERVERS[0]] == {uuids["cn1"]: {"VCPU": 1}, child: {"VGPU": 4}}
    assert now[SERVERS[1]] == {uuids["cn1"]: {"VCPU": 1}, uuids[B]: {"VGPU": 2}}
    assert now[SERVERS[2]] == {
        uuids["cn1"]: {"VCPU": 1},
        uuids[B]: {"VGPU": 1, "SRIOV_NET_VF": 1},
        uuids["cn2"]: {"VCPU": 1},
    }
    undone = openstack("placement plan undo undo.json", SERVICE)
    assert {row["status"] for row in undone} == {"applied"}
    assert allocations(openstack) == before
    left = [(row["name"], row["uuid"]) for row in openstack("resource provider list", SERVICE)]
    assert left == [(row["name"], row["uuid"]) for row in providers]
    assert json.loads((tmp_path / "undo.json").read_text())["undoes"]
