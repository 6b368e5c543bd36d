# SPDX-License-Identifier: Apache-2.0
"""``placement reshape`` and the recipes: what is applied and undone, and what is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from osc_placement import testing
from osc_placement.testing.cloud import uuid_of
from tests.support.peer import target as targets
from tests.support.peer.shell import OpenStack
from tests.support.rows import Row, State, checked, differences

RESHAPE, RECIPE = "placement reshape", "placement recipe"
A, B = "pci_0000_84_00_0", "pci_0000_85_00_0"
CONTEXT, GPU = "MEM_ENCRYPTION_CONTEXT", "CUSTOM_PCI_10DE_1EB8"
ONE, TWO, THREE, EVACUATED = (uuid_of(name) for name in ("one", "two", "three", "evacuated"))
NEW = "5d3ab1f8-0e66-4c7e-9f0d-7b1f5a1ab001"
MDEV = "4b20d080-1b54-4048-85b3-a6a62d165c01"

NODE = {"VCPU": 16, "VGPU": 8, "SRIOV_NET_VF": 2, CONTEXT: 15, "CUSTOM_GPU": 2}


def cloud() -> testing.Cloud:
    """A node with all inventories of its own, and servers; one is being evacuated."""
    return (
        testing.Cloud("nova-{}")
        .host("cn1", **NODE)
        .child("cn1", f"cn1_{B}")
        .host("cn2", VCPU=16)
        .server("one", {"cn1": {"VCPU": 1, "VGPU": 1, CONTEXT: 1, "CUSTOM_GPU": 1}})
        .server("two", {"cn1": {"VCPU": 1, "VGPU": 3, "SRIOV_NET_VF": 1, "CUSTOM_GPU": 1}})
        .server("three", {"cn1": {"VCPU": 2}})
        .server("evacuated", {"cn1": {"VGPU": 1, "VCPU": 1}, "cn2": {"VCPU": 3}})
    )


MOVES = f"""\
moves:
- {{from: cn1, resources: {{VGPU: 4}}, to: {{name: cn1_{A}, traits: [CUSTOM_VGPU_A]}}}}
- {{from: cn1, resources: {{VGPU: 4, SRIOV_NET_VF: 2}}, to: cn1_{B}}}
"""
TREE = f"""\
tree:
  name: cn1
  inventories: {{VCPU: 16, SRIOV_NET_VF: 2, {CONTEXT}: 15, CUSTOM_GPU: 2}}
  children: [{{name: cn1_{B}, inventories: {{VGPU: 8}}}}]
"""
NUMA = f"""\
moves:
- {{from: cn1, resources: {{VGPU: all}}, to: {{name: numa0, parent: cn1}}}}
- {{from: cn1, resources: {{SRIOV_NET_VF: all}}, to: {{name: cn1_{B}, parent: numa0}}}}
rename: {{cn1_{B}: function}}
"""
ADDRESS = f"<hostdev type='mdev'><source><address uuid='{MDEV}'/></source></hostdev>"
FILES = {
    "moves.yaml": MOVES,
    "assigned.yaml": f"{MOVES}assign: {{{TWO}: cn1_{B}, {ONE}: cn1_{A}, {EVACUATED}: cn1_{A}}}\n",
    "tree.yaml": TREE,
    "numa.yaml": NUMA,
    "gpus": f"{ONE}={A}\n{EVACUATED}=0000:84:00.0\n",
    "devices": f"{ONE}=0000:82:00.0\n{TWO}=pci_0000_81_00_0\n",
    "domains.xml": f"<domain><uuid>{TWO}</uuid><devices>{ADDRESS}</devices></domain>",
    "mdevs": f"{MDEV} 0000:85:00.0 nvidia-35 manual (defined)\n",
    "mine.yaml": "mine",
    "each.yaml": 'moves: [{from: $root, resources: {VGPU: all}, to: {name: "gpu-of-${root}"}}]\n',
}
PINNED = {"vcpus": 2, "extra_specs": {"hw:cpu_policy": "dedicated"}}


def with_nova() -> testing.Cloud:
    made = cloud().node("cn1").node("cn2").instance("one", "cn1").instance("two", "cn1")
    return made.instance("three", "cn1", **PINNED)


def owned(**node: Any) -> testing.Cloud:
    """A node of nova-compute with a child, in an aggregate."""
    made = testing.Cloud("nova-{}")
    made.host("cn1", VCPU=16, traits=["COMPUTE_NODE"], aggregates=["rack"])
    made.child("cn1", "cn1:agent").server("one", {"cn1": {"VCPU": 1}})
    return made.node("cn1", **node).instance("one", "cn1")


STOPPED = {"state": "down", "status": "disabled"}
STATES = {
    "node": State(cloud(), None, FILES),
    "nova": State(with_nova(), None, FILES),
    "new class": State(cloud(), None, FILES, [f"resource class create {GPU}"]),
    "tree reached": State(cloud(), None, FILES, [f"{RESHAPE} --to-tree tree.yaml"]),
    "three trees": State(
        testing.Cloud()
        .host("cn2", VCPU=2)
        .host("cn3", VGPU=2)
        .host("cn4", VGPU=2, traits=["COMPUTE_NODE"]),
        None,
        FILES,
    ),
    "stopped": State(owned(service=STOPPED)),
    "new node": State(owned(service=STOPPED, id=NEW)),
    "up": State(owned()),
}


class Flow(NamedTuple):
    """Commands, of which the last one is a reshape, and the providers after it, by name."""

    state: str
    lines: list[str]
    shows: dict[str, Any]


REPLACE = f"{RECIPE} replace-host cn1 %s --uuid {NEW} --out out.yaml"
FLOWS = {
    "moves": Flow(
        "node",
        [f"{RESHAPE} moves.yaml --strategy pack"],
        {
            "cn1": {"inventories": {"VGPU": None, "SRIOV_NET_VF": None, "VCPU": {"total": 16}}},
            f"cn1_{A}": {
                "parent": "cn1",
                "traits": ["CUSTOM_VGPU_A"],
                "inventories": {"VGPU": {"total": 4}},
                "allocations": {TWO: {"VGPU": 3}},
            },
            f"cn1_{B}": {"allocations": {TWO: {"SRIOV_NET_VF": 1}}},
            "cn2": {"allocations": {EVACUATED: {"VCPU": 3}}},
        },
    ),
    "assigned": Flow(
        "node",
        [f"{RESHAPE} assigned.yaml"],
        {f"cn1_{A}": {"allocations": {ONE: {"VGPU": 1}, EVACUATED: {"VGPU": 1}}}},
    ),
    "another name and parent": Flow(
        "node",
        [f"{RESHAPE} numa.yaml"],
        {"function": {"parent": "numa0", "allocations": {TWO: {"SRIOV_NET_VF": 1}}}},
    ),
    "vgpu": Flow(
        "node",
        [
            f"{RECIPE} vgpu cn1 --device {A}=4 --device 0000:85:00.0=VGPU:4,SRIOV_NET_VF:2"
            f" --trait {A}=CUSTOM_VGPU_A --assign @gpus --assign @domains.xml --assign @mdevs"
            " --out out.yaml",
            f"{RESHAPE} out.yaml",
        ],
        {
            f"cn1_{A}": {
                "traits": ["CUSTOM_VGPU_A"],
                "inventories": {"VGPU": {"total": 4, "max_unit": 4, "allocation_ratio": 1.0}},
                "allocations": {ONE: {"VGPU": 1}, EVACUATED: {"VGPU": 1}},
            },
            f"cn1_{B}": {"allocations": {TWO: {"VGPU": 3, "SRIOV_NET_VF": 1}}},
        },
    ),
    "sev": Flow(
        "node",
        [f"{RECIPE} sev cn1 --out out.yaml", f"{RESHAPE} out.yaml"],
        {
            "cn1_amd_sev": {
                "traits": ["HW_CPU_X86_AMD_SEV", "OWNER_NOVA"],
                "allocations": {ONE: {CONTEXT: 1}},
            }
        },
    ),
    "pci": Flow(
        "new class",
        [
            f"{RECIPE} pci cn1 --device 0000:81:00.0=CUSTOM_GPU:1"
            " --device pci_0000_82_00_0=CUSTOM_GPU:1 --as CUSTOM_GPU=10de:1eb8"
            " --trait 0000:81:00.0=CUSTOM_FAST --assign @devices --out out.yaml",
            f"{RESHAPE} out.yaml",
        ],
        {
            "cn1": {"inventories": {"CUSTOM_GPU": None}},
            "cn1_0000:81:00.0": {
                "traits": ["COMPUTE_MANAGED_PCI_DEVICE", "CUSTOM_FAST", "OWNER_NOVA"],
                "allocations": {TWO: {GPU: 1}},
            },
            "cn1_0000:82:00.0": {"allocations": {ONE: {GPU: 1}}},
        },
    ),
    "pcpu": Flow(
        "nova",
        [
            f"{RECIPE} pcpu cn1 --cpu-dedicated-set 4-11 --assign {ONE}=VCPU --assign {TWO}=VCPU"
            f" --assign {EVACUATED}=VCPU --out out.yaml",
            f"{RESHAPE} out.yaml",
        ],
        {
            "cn1": {
                "inventories": {"PCPU": {"total": 8}, "VCPU": {"total": 8}},
                "allocations": {THREE: {"PCPU": 2}},
            }
        },
    ),
    "a renamed host": Flow(
        "stopped",
        [REPLACE % "cn1.example.net", f"{RESHAPE} out.yaml --allow nova-owned"],
        {
            "cn1": None,
            "cn1.example.net": {
                "uuid": NEW,
                "traits": ["COMPUTE_NODE"],
                "aggregates": [uuid_of("rack")],
                "inventories": {"VCPU": {"total": 16}},
                "allocations": {ONE: {"VCPU": 1}},
            },
            "cn1.example.net:agent": {"parent": "cn1.example.net"},
        },
    ),
    "a rebuilt host": Flow(
        "new node",
        [REPLACE % "cn1", f"{RESHAPE} out.yaml --allow nova-owned"],
        {
            "cn1": {"uuid": NEW, "allocations": {ONE: {"VCPU": 1}}},
            f"cn1-replaced-{uuid_of('cn1')[:8]}": {"inventories": {"VCPU": None}},
        },
    ),
}


def providers(target: targets.Target) -> dict[str, Any]:
    """Everything of each provider, by its name."""
    state = target.state()
    names = {uuid: item["name"] for uuid, item in state["providers"].items()}
    return {
        item["name"]: {
            "uuid": uuid,
            "parent": names.get(item["parent"]),
            "inventories": item["inventories"],
            "traits": sorted(item["traits"]),
            "aggregates": item["aggregates"],
            "allocations": {
                consumer: body["allocations"][uuid]
                for consumer, body in state["consumers"].items()
                if uuid in body["allocations"]
            },
        }
        for uuid, item in state["providers"].items()
    }


@pytest.mark.parametrize("name", FLOWS)
def test_a_reshape_is_applied_and_undone(
    name: str, openstack: OpenStack, target: targets.Target
) -> None:
    flow = FLOWS[name]
    state = STATES[flow.state]
    state.arrange(openstack)
    before = providers(target)
    for line in flow.lines[:-1]:
        assert state.run(openstack, line).code == 0
    assert providers(target) == before
    # A recording of nova is no reason to change a real Placement.
    assert openstack.run(flow.lines[-1], "--dry-run", "--plan-out", "plan").code == 0
    planned = openstack.rows("placement plan apply", "plan", "--dry-run")
    assert {row["status"] for row in planned} == {"planned"}
    outcome = openstack.run(flow.lines[-1], "--undo-out", "undo.json")
    assert outcome.code == 0, outcome
    assert [*differences(flow.shows, providers(target))] == []
    undone = openstack.rows("placement plan undo", "undo.json", "--dry-run")
    assert {row["status"] for row in undone} == {"planned"}
    openstack.do("placement plan undo", "undo.json")
    assert providers(target) == before


@pytest.mark.parametrize("version", ["1.30", "1.37", "1.39"])
def test_a_reshape_is_the_same_at_every_supported_version(
    openstack: OpenStack, target: targets.Target, version: str
) -> None:
    def types() -> list[str]:
        return [
            target.ask("GET", f"/allocations/{uuid}").get("consumer_type") for uuid in (ONE, TWO)
        ]

    STATES["node"].arrange(openstack)
    before = types()
    openstack.do(RESHAPE, "moves.yaml", "--strategy", "pack", version=version)
    assert providers(target)[f"cn1_{B}"]["allocations"][TWO] == {"SRIOV_NET_VF": 1}
    assert types() == before
    code, error = openstack.fails(RESHAPE, "moves.yaml", version="1.29")
    assert (code, "at least version 1.30" in error) == (1, True)


UNCHANGED = {"status": "unchanged"}
# fmt: off
TABLE = [
    Row(f"{RESHAPE} moves.yaml", "node", 1, ("several options for", ONE, TWO, EVACUATED)),
    Row(f"{RESHAPE} moves.yaml --strategy pack --dry-run --detailed-exitcode", "node", 3,
        ("guessed (pack)", "planned")),
    Row(f"{RESHAPE} --to-tree tree.yaml --dry-run --detailed-exitcode", "tree reached", 0,
        [UNCHANGED, UNCHANGED]),
    Row(f"{RESHAPE} each.yaml cn2 cn3 cn4", "three trees", 6, [
        {"name": "cn3", "status": "applied"},
        {"name": "gpu-of-cn3", "status": "applied"},
        {"name": "cn2", "status": "skipped", "code": "nothing-to-move",
         "reason": ("no inventory that the document moves",)},
        {"name": "cn4", "status": "refused", "code": "nova-owned",
         "reason": ("nova-compute owns the tree of cn4",)},
    ]),
    Row(f"{RESHAPE} each.yaml", "node", 2, "the file contains $root: select providers"),
    Row(f"{RESHAPE} moves.yaml cn1", "node", 2, "the file does not contain $root"),
    Row(f"{RESHAPE} --to-tree tree.yaml --member-of {NEW}", "node", 2,
        "--to-tree contains its tree"),
    Row(f"{RESHAPE} moves.yaml --to-tree tree.yaml", "node", 2, "give a file of moves, or"),
    Row(f"{RESHAPE} nofile.yaml", "node", 1, "cannot be read"),
    Row(f"{RECIPE} replace-host cn1 cn1 --uuid {NEW}", "stopped", 1,
        "write this UUID to /var/lib/nova/compute_id on nova-cn1"),
    Row(f"{RECIPE} replace-host cn1 cn1.example.net --uuid {NEW}", "up", 1,
        ("nova-compute on nova-cn1 is up", "is enabled")),
]
# fmt: on

test_reshape = checked(TABLE, STATES)
