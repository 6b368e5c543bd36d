# SPDX-License-Identifier: Apache-2.0
"""``placement recipe`` on every target, and ``placement reshape`` with its documents."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import pytest

from osc_placement import testing
from tests.functional.reshape import test_reshape
from tests.functional.reshape.test_reshape import offered
from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

RECIPE = "placement recipe"
A, B = "pci_0000_84_00_0", "pci_0000_85_00_0"
RECORDED = ("--os-nova-recording", "12-hosts")

NOVA = testing.sample_nova("12-hosts")
SERVERS = {
    item["name"]: item["id"] for item in NOVA["GET /v2.1/servers/detail?all_tenants=1"]["servers"]
}
PROVIDERS = {
    entry["name"]: uuid for uuid, entry in testing.sample_cloud("12-hosts")["providers"].items()
}
NEW = "5d3ab1f8-0e66-4c7e-9f0d-7b1f5a1ab001"


def node(number: int) -> str:
    """The name of a host's compute node."""
    return f"cmp-{number:04}.lab.example.org"


def reshape(openstack: shell.OpenStack, *arguments: str) -> list[dict[str, Any]]:
    found = test_reshape.rows(openstack, *arguments)
    assert {row["status"] for row in found} <= {"applied", "unchanged"}
    return found


def down(*hosts: str) -> tuple[str, str]:
    """A recording of nova with nova-compute of these hosts stopped and disabled."""
    recording = copy.deepcopy(NOVA)
    for item in recording["GET /v2.1/os-services"]["services"]:
        if item["host"] in hosts:
            item |= {"state": "down", "status": "disabled"}
    pathlib.Path("nova.json").write_text(json.dumps(recording))
    return "--os-nova-recording", "nova.json"


def images() -> tuple[str, str]:
    """A recording of nova with image properties, as from compute API 2.98."""
    recording = copy.deepcopy(NOVA)
    for item in recording["GET /v2.1/servers/detail?all_tenants=1"]["servers"]:
        dedicated = item["name"] == "rs-pinned-image"
        properties = {"hw_cpu_policy": "dedicated"} if dedicated else {}
        item["image"] = {"id": "image", "properties": properties}
    pathlib.Path("images.json").write_text(json.dumps(recording))
    return "--os-nova-recording", "images.json"


def held(target: targets.Target, name: str) -> dict[str, dict[str, int]]:
    """``{provider uuid: resources}`` of a server."""
    found = target.ask("GET", f"/allocations/{SERVERS[name]}")["allocations"]
    return {uuid: part["resources"] for uuid, part in found.items()}


def everything(target: targets.Target) -> tuple[dict[str, Any], dict[str, Any]]:
    return offered(target), {name: held(target, name) for name in SERVERS}


def allocate(target: targets.Target, name: str, provider: str, **amounts: int) -> None:
    """Set the allocation of a server on one provider."""
    present = target.ask("GET", f"/allocations/{SERVERS[name]}")
    resources = {uuid: part["resources"] for uuid, part in present["allocations"].items()}
    resources[provider] = amounts
    body = {
        "allocations": {uuid: {"resources": part} for uuid, part in resources.items()},
        "project_id": present.get("project_id", "project"),
        "user_id": present.get("user_id", "user"),
        "consumer_type": present.get("consumer_type", "INSTANCE"),
        "consumer_generation": present.get("consumer_generation"),
    }
    target.ask("PUT", f"/allocations/{SERVERS[name]}", body)


@pytest.fixture
def gpus(openstack: shell.OpenStack, sample: targets.Target) -> str:
    """The UUID of a compute node with VGPU of its own, which three servers use."""
    uuid = PROVIDERS[node(9)]
    more = ("--resource", "VGPU=8", "--resource", "SRIOV_NET_VF=2")
    openstack.do("resource provider inventory set", uuid, "--amend", *more)
    allocate(sample, "vm-00007", uuid, VCPU=1, VGPU=1)
    allocate(sample, "vm-00017", uuid, VCPU=1, VGPU=3, SRIOV_NET_VF=1)
    allocate(sample, "vm-00027", uuid, VCPU=1, VGPU=1)
    return uuid


def vgpu(*more: str) -> tuple[str, ...]:
    devices = ("--device", f"{A}=4", "--device", "0000:85:00.0=VGPU:4,SRIOV_NET_VF:2")
    return (node(9), *devices, *more)


@fixtures.ON_ONE_TARGET
def test_the_output_of_virsh_and_mdevctl_names_the_gpus(
    openstack: shell.OpenStack, target: targets.Target, gpus: str
) -> None:
    server, mdev = SERVERS["vm-00017"], "4b20d080-1b54-4048-85b3-a6a62d165c01"
    address = f"<hostdev type='mdev'><source><address uuid='{mdev}'/></source></hostdev>"
    domain = f"<domain><uuid>{server}</uuid><devices>{address}</devices></domain>"
    pathlib.Path("domains.xml").write_text(domain)
    words = vgpu("--assign", "@domains.xml")
    code, text = openstack.fails(f"{RECIPE} vgpu", *words)
    assert (code, "output of 'mdevctl list'" in text) == (1, True)
    pathlib.Path("mdevs").write_text(f"{mdev} 0000:85:00.0 nvidia-35 manual (defined)\n")
    written = openstack.do(f"{RECIPE} vgpu", *words, "--assign", "@mdevs")
    assert f"{server}: {node(9)}_{B}" in written


def test_vgpu_moves_to_the_gpus_that_servers_use(
    openstack: shell.OpenStack, target: targets.Target, gpus: str
) -> None:
    before = everything(target)
    pathlib.Path("evidence").write_text(
        f"{SERVERS['vm-00007']}={A}\n{SERVERS['vm-00027']}=0000:84:00.0\n"
    )
    trait = ("--trait", f"{A}=CUSTOM_VGPU_A")
    words = vgpu(*trait, "--assign", "@evidence", "--out", "vgpu.yaml")
    assert openstack.do(f"{RECIPE} vgpu", *words) == ""
    assert everything(target) == before
    reshape(openstack, "vgpu.yaml", "--undo-out", "undo.json")
    now = offered(target)
    a, b = f"{node(9)}_{A}", f"{node(9)}_{B}"
    assert now[a][0]["VGPU"] == {
        "total": 4,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": 4,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    assert now[a][1:] == (["CUSTOM_VGPU_A"], gpus)
    assert sorted(now[b][0]) == ["SRIOV_NET_VF", "VGPU"]
    uuids = {item["name"]: item["uuid"] for item in openstack("resource provider list")}
    assert held(target, "vm-00007") == {gpus: {"VCPU": 1}, uuids[a]: {"VGPU": 1}}
    assert held(target, "vm-00017")[uuids[b]] == {"VGPU": 3, "SRIOV_NET_VF": 1}
    assert held(target, "vm-00027")[uuids[a]] == {"VGPU": 1}
    openstack.do("placement plan undo", "undo.json")
    assert everything(target) == before


@fixtures.ON_ONE_TARGET
@pytest.mark.usefixtures("gpus")
def test_consumers_without_evidence_are_listed_and_refused(openstack: shell.OpenStack) -> None:
    text = openstack.do(f"{RECIPE} vgpu", *vgpu("--assign", f"{SERVERS['vm-00007']}={A}"))
    assert f"\n  # {SERVERS['vm-00027']}: ?  # 1 VGPU\n" in text
    pathlib.Path("vgpu.yaml").write_text(text)
    code, error = openstack.fails("placement reshape", "vgpu.yaml")
    assert (code, SERVERS["vm-00027"] in error) == (1, True)
    _, error = openstack.fails(f"{RECIPE} vgpu", *vgpu("--out", "vgpu.yaml"))
    assert "vgpu.yaml exists" in error
    assert pathlib.Path("vgpu.yaml").read_text() == text


@fixtures.ON_ONE_TARGET
@pytest.mark.usefixtures("gpus")
def test_all_errors_of_devices_are_reported(openstack: shell.OpenStack) -> None:
    words = ("--device", f"{A}=x", "--trait", "other=CUSTOM_A", "--assign", f"me={A}")
    _, error = openstack.fails(f"{RECIPE} vgpu", node(9), *words)
    assert [
        "'x' is not an amount" in error,
        "--trait other" in error,
        "me: not a UUID" in error,
    ] == [True] * 3
    words = ("--device", f"{A}=3", "--assign", f"{SERVERS['vm-00001']}={A}")
    _, error = openstack.fails(f"{RECIPE} vgpu", node(9), *words)
    assert "has 8 VGPU and the devices 3" in error
    assert f"consumer {SERVERS['vm-00001']} has no resources that move" in error
    assert (
        "provider 'unknown' does not exist"
        in openstack.fails(f"{RECIPE} vgpu", "unknown", *words)[1]
    )


def test_pinned_servers_get_pcpu_and_others_keep_vcpu(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    uuid = PROVIDERS[node(2)]
    for name in ("rs-pinned", "rs-pinned-image", "rs-mixed"):
        allocate(target, name, uuid, VCPU=4, MEMORY_MB=8192)
    before = everything(target)
    words = (node(2), "--cpu-dedicated-set", "4-67", *images())
    text = openstack.do(f"{RECIPE} pcpu", *words, "--cpu-shared-set", "0-3")
    assert "write 4 VCPU, and this recipe leaves 32" in " ".join(text.replace("#", "").split())
    assigned = {
        line.split()[0]: line.split()[1] for line in text.partition("assign:")[2].splitlines()[1:]
    }
    assert (
        assigned[f"{SERVERS['rs-pinned']}:"] == assigned[f"{SERVERS['rs-pinned-image']}:"] == "PCPU"
    )
    assert assigned[f"{SERVERS['vm-00001']}:"] == "VCPU"
    open_ = [line.split()[1].rstrip(":") for line in text.splitlines() if ": ?  #" in line]
    assert SERVERS["rs-mixed"] in open_
    evidence = [word for uuid in open_ for word in ("--assign", f"{uuid}=VCPU")]
    openstack.do(f"{RECIPE} pcpu", *words, *evidence, "--out", "pcpu.yaml")
    reshape(openstack, "pcpu.yaml", "--undo-out", "undo.json")
    assert held(target, "rs-pinned")[uuid] == {"PCPU": 4, "MEMORY_MB": 8192}
    assert held(target, "vm-00001") == before[1]["vm-00001"]
    assert offered(target)[node(2)][0]["PCPU"]["total"] == 64
    openstack.do("placement plan undo", "undo.json")
    assert everything(target) == before


@fixtures.ON_ONE_TARGET
def test_all_errors_of_cpu_sets_are_reported(openstack: shell.OpenStack) -> None:
    _, error = openstack.fails(f"{RECIPE} pcpu", node(2), "--cpu-dedicated-set", "4-x", *RECORDED)
    assert "'4-x' is not a set of CPUs" in error
    evidence = ("--assign", f"{SERVERS['rs-pinned']}=PCPUS")
    words = (node(2), "--cpu-dedicated-set", "0-99", *evidence, *RECORDED)
    _, error = openstack.fails(f"{RECIPE} pcpu", *words)
    assert "itself has 64 VCPU: 68 cannot become PCPU" in error
    assert "'PCPUS' is neither VCPU nor PCPU" in error


def test_a_renamed_host_replaces_the_old_one_with_its_children(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    recording = down("cmp-0006")
    openstack.run("placement allocation heal", "--host", "cmp-0006", *recording)
    before = everything(target)
    assert len(openstack("resource provider list", "--in-tree", PROVIDERS[node(6)])) == 4
    words = (node(6), "cmp-0006.example.net", "--uuid", NEW, *recording, "--out", "replace.yaml")
    openstack.do(f"{RECIPE} replace-host", *words)
    _, error = openstack.fails("placement reshape", "replace.yaml")
    assert "nova-compute owns the tree" in error
    reshape(openstack, "replace.yaml", "--allow", "nova-owned", "--undo-out", "undo.json")
    now = offered(target)
    assert node(6) not in now
    assert now["cmp-0006.example.net"] == before[0][node(6)]
    assert now["cmp-0006:NIC Switch agent"][2] == NEW
    old = PROVIDERS[node(6)]
    for name in SERVERS:
        had = {NEW if uuid == old else uuid: part for uuid, part in before[1][name].items()}
        assert held(target, name) == had, name
    openstack.do("placement plan undo", "undo.json")
    assert everything(target) == before


def test_a_rebuilt_host_takes_the_name_and_the_old_one_is_renamed(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    recording = down("cmp-0008")
    openstack.run("placement allocation heal", "--host", "cmp-0008", *recording)
    before = everything(target)
    words = (node(8), node(8), "--uuid", NEW, *recording, "--out", "replace.yaml")
    openstack.do(f"{RECIPE} replace-host", *words)
    reshape(openstack, "replace.yaml", "--allow", "nova-owned", "--undo-out", "undo.json")
    now, old = offered(target), PROVIDERS[node(8)]
    assert now[node(8)] == before[0][node(8)]
    assert now[f"{node(8)}-replaced-{old[:8]}"][0] == {}
    path = "/resource_providers/{}/aggregates"
    assert (
        target.ask("GET", path.format(NEW))["aggregates"]
        == target.ask("GET", path.format(old))["aggregates"]
    )
    assert held(target, "vm-00006") == {
        NEW if uuid == old else uuid: part for uuid, part in before[1]["vm-00006"].items()
    }
    openstack.do("placement plan undo", "undo.json")
    assert everything(target) == before
