# SPDX-License-Identifier: Apache-2.0
"""Recipes as values: a snapshot and the state of nova in, a valid document out."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess

import pytest

from osc_placement.model import inventory
from osc_placement.nova import values
from osc_placement.workflows.reshape import (
    device_recipes,
    documents,
    evidence,
    pcpu,
    recipes,
    snapshot,
)
from tests.support.embedded import uuid_of
from tests.support.reshape import cloud_builder
from tests.support.reshape.recipes import (
    DEVICES,
    A,
    B,
    cloud,
    held,
    outcome,
    problems,
    server,
    servers,
)


def test_an_undecided_consumer_is_listed_as_a_comment() -> None:
    recipe = device_recipes.plan_vgpu(cloud(), uuid_of("cn1"), DEVICES)
    assert recipe.undecided == tuple(sorted((uuid_of("a"), uuid_of("b"))))
    text = recipes.write(recipe)
    assert all(f"{device.name} (4 VGPU" in recipe.head[0] for device in DEVICES)
    assert f"\n# assign:\n#   {recipe.undecided[0]}: ?" in text
    assert documents.parse(text, "x").assign == ()


def test_devices_must_match_the_node_and_evidence_must_match_both() -> None:
    request = (
        (recipes.Child(A, {"VGPU": 3}), recipes.Child(A, {"FPGA": 1})),
        ((uuid_of("a"), B), (uuid_of("b"), B), (uuid_of("c"), A)),
    )
    evidence = problems(device_recipes.plan_vgpu, cloud(), uuid_of("cn1"), *request)
    assert [reason.partition(":")[0] for reason in evidence] == [
        f"the device {A} is given more than once",
        "cn1 has 8 VGPU and the devices 3",
        "cn1 itself has no FPGA",
        f"consumer {uuid_of('a')} uses {B}, which is not a --device",
        f"consumer {uuid_of('b')} uses {B}, which is not a --device",
        f"consumer {uuid_of('c')} has no resources that move",
    ]


def test_a_server_with_two_gpus_gets_the_amounts_of_its_host() -> None:
    evidence = ((uuid_of("b"), A), (uuid_of("b"), B), (uuid_of("b"), B), (uuid_of("a"), A))
    request = ((recipes.Child(A, {"VGPU": 4}), recipes.Child(B, {"VGPU": 4})), evidence)
    recipe = device_recipes.plan_vgpu(cloud(), uuid_of("cn1"), *request)
    after = outcome(recipe, cloud())
    assert held(after, "b")[f"cn1_{A}"] == {"VGPU": 1}
    assert held(after, "b")[f"cn1_{B}"] == {"VGPU": 2}
    (reason,) = problems(
        device_recipes.plan_vgpu, cloud(), uuid_of("cn1"), request[0], evidence[:2]
    )
    assert f"uses {A} once and {B} once, and has" in reason


DEDICATED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}


@pytest.mark.parametrize(
    ("known", "moving", "reason"),
    [
        (server("a", specs=MIXED), None, "mixed: 2 of its CPUs are dedicated"),
        (server("a", image_properties=None), None, "the image may pin CPUs"),
        (server("a", flavor=None), None, "its flavor is unknown"),
        (server("x"), None, "a server that nova does not list"),
        (server("x"), "resize", "its old flavor is unknown"),
    ],
)
def test_a_consumer_that_nova_does_not_know_is_undecided(
    known: values.Server, moving: str | None, reason: str
) -> None:
    moves = {}
    if moving is not None:
        moves = {uuid_of("a"): values.Migration(uuid_of("a"), known.uuid, moving, "finished")}
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), servers(known), moves, pcpu.PcpuRequest(8))
    assert uuid_of("a") in recipe.undecided
    assert reason in recipe.comments[uuid_of("a")]


def test_evidence_from_the_host_decides_and_all_of_a_node_leaves_no_choice() -> None:
    evidence = ((uuid_of("a"), "PCPU"),)
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), {}, {}, pcpu.PcpuRequest(8, evidence=evidence))
    assert recipe.assign == {uuid_of("a"): "PCPU"}
    whole = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), {}, {}, pcpu.PcpuRequest(16))
    assert (whole.assign, whole.undecided) == ({}, ())
    request = pcpu.PcpuRequest(17, evidence=((uuid_of("a"), "X"), (uuid_of("z"), "VCPU")))
    assert len(problems(pcpu.plan_pcpu, cloud(), uuid_of("cn1"), {}, {}, request)) == 3


def cloud_with_pcpu() -> snapshot.TreeSnapshot:
    before = cloud()
    node = before.nodes[uuid_of("cn1")]
    offered = {**node.inventories, "PCPU": inventory.Inventory(8, max_unit=8)}
    changed = dataclasses.replace(node, inventories=offered)
    return dataclasses.replace(before, nodes={**before.nodes, uuid_of("cn1"): changed})


def test_pcpu_that_the_node_already_has_count_as_dedicated() -> None:
    before = cloud_with_pcpu()
    nova_servers = servers(server("a", specs=DEDICATED), server("b"), server("c"))
    recipe = pcpu.plan_pcpu(before, uuid_of("cn1"), nova_servers, {}, pcpu.PcpuRequest(12))
    assert recipe.document["moves"][0]["resources"] == {"VCPU": 4}
    assert "4 VCPU of cn1 become PCPU; 12 stay." in recipe.head
    offered = outcome(recipe, before).nodes[uuid_of("cn1")].inventories
    assert (offered["VCPU"].total, offered["PCPU"].total) == (12, 12)


@pytest.mark.parametrize("dedicated", [7, 8])
def test_a_node_with_enough_pcpu_is_refused(dedicated: int) -> None:
    request = pcpu.PcpuRequest(dedicated)
    assert problems(pcpu.plan_pcpu, cloud_with_pcpu(), uuid_of("cn1"), {}, {}, request) == [
        f"cn1 already has 8 PCPU, and the dedicated set has {dedicated} CPUs: no VCPU is left to"
        " change"
    ]


def test_overlapping_sets_of_cpus_are_refused() -> None:
    assert pcpu.make_request("4-15", "0-3", ()) == pcpu.PcpuRequest(12, 4)
    assert pcpu.make_request("4-15", None, ()) == pcpu.PcpuRequest(12)
    (problem,) = problems(pcpu.make_request, "4-15", "0-5", ())
    assert "both contain CPU 4, 5:" in problem


@pytest.mark.parametrize(
    ("text", "count"), [("4-15", 12), ("0", 1), ("0-3,^1,8", 4), ("1,1-2", 2), (" 3 , 5 ", 2)]
)
def test_cpus_are_counted_as_nova_counts_them(text: str, count: int) -> None:
    assert len(pcpu.parse_cpus(text)) == count


@pytest.mark.parametrize("text", ["", "a", "1-", "2,^2", "5-4", "0-999999999"])
def test_an_invalid_set_of_cpus_is_an_error(text: str) -> None:
    assert problems(pcpu.parse_cpus, text)


def test_a_name_with_a_line_break_cannot_leave_its_comment() -> None:
    multiline = dataclasses.replace(server("a"), name="x\nmoves: []")
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), servers(multiline), {}, pcpu.PcpuRequest(8))
    assert len(documents.parse(recipes.write(recipe), "x").moves) == 1


SERVER = "11111111-0000-4000-8000-000000000001"
VIRSH = f"""\
#!/bin/sh
[ "$1" = list ] && {{ echo {SERVER}; exit; }}
cat <<END
<domain><uuid>$2</uuid><vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='7'/></cputune>
<devices>
<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
  <source><address uuid='22222222-0000-4000-8000-000000000002'/></source>
</hostdev>
</devices></domain>
END
"""
MDEVCTL = """\
#!/bin/sh
[ "$1" = list ] && echo '22222222-0000-4000-8000-000000000002 0000:84:00.0 nvidia-35 manual'
"""


def on_the_host(recipe: recipes.Recipe, folder: pathlib.Path) -> str:
    """The file that the commands in the comments write, with one server on the host."""
    for name, text in (("virsh", VIRSH), ("mdevctl", MDEVCTL)):
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    lines = recipes.write(recipe).splitlines()
    script = [line.removeprefix("#") for line in lines if line.endswith(" evidence")]
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    command = ["sh", "-c", "\n".join(script)]
    subprocess.run(command, env=environment, cwd=folder, check=True, timeout=120)
    return (folder / "evidence").read_text()


def test_the_commands_for_the_host_write_the_input_of_the_recipe(tmp_path: pathlib.Path) -> None:
    gpu = device_recipes.plan_vgpu(cloud(), uuid_of("cn1"), DEVICES)
    cpu = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), {}, {}, pcpu.PcpuRequest(8))
    for recipe, reader, used in (
        (gpu, evidence.mediated_devices, "0000:84:00.0"),
        (cpu, evidence.cpu_class, "PCPU"),
    ):
        files = [("evidence", on_the_host(recipe, tmp_path))]
        assert evidence.read(files, reader) == ([(SERVER, used)], [])


CONTEXT = "MEM_ENCRYPTION_CONTEXT"
DENSE: cloud_builder.Providers = {
    "cn1": (None, {"VCPU": 16, "PCPU": 8, "MEMORY_MB": 1001, CONTEXT: 15, "CUSTOM_GPU": 3})
}
DENSE_CONSUMERS: cloud_builder.Consumers = {
    "a": {"cn1": {"PCPU": 4, "MEMORY_MB": 100, CONTEXT: 1}},
    "b": {"cn1": {"PCPU": 2, "MEMORY_MB": 200, "CUSTOM_GPU": 2, CONTEXT: 1}},
    "c": {"cn1": {"VCPU": 1, "CUSTOM_GPU": 1}},
}
FIRST, SECOND, THIRD, CN1 = (uuid_of(name) for name in ("a", "b", "c", "cn1"))
GPU = "CUSTOM_PCI_10DE_1EB8"


def dense() -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(cloud_builder.state(DENSE, DENSE_CONSUMERS, {}), "cn1")


def test_several_models_need_evidence() -> None:
    models = {"amd-sev": 10, "amd-sev-es": 5}
    recipe = device_recipes.plan_sev(dense(), CN1, models, ((FIRST, "amd-sev-es"),))
    assert recipe.undecided == (SECOND,)
    decided = device_recipes.plan_sev(
        dense(), CN1, models, ((FIRST, "amd-sev-es"), (SECOND, "amd-sev"))
    )
    after = outcome(decided, dense())
    assert held(after, "a")["cn1_amd_sev_es"] == held(after, "b")["cn1_amd_sev"] == {CONTEXT: 1}
    assert problems(
        device_recipes.plan_sev, dense(), CN1, {"amd-sev": 9}, ((THIRD, "amd-sev"),)
    ) == [
        "cn1 has 15 MEM_ENCRYPTION_CONTEXT and the models 9: a reshape moves resources and keeps"
        " their sum ('openstack resource provider inventory amend' changes totals)",
        f"consumer {THIRD} has no resources that move",
    ]


PCI = (
    recipes.Child("0000:81:00.0", {"CUSTOM_GPU": 1}, ("CUSTOM_FAST",)),
    recipes.Child("0000:82:00.0", {"CUSTOM_GPU": 2}),
)
BECOMES = {"CUSTOM_GPU": GPU}


def test_a_server_with_two_pci_devices_has_an_amount_of_each() -> None:
    split = ((SECOND, "0000:81:00.0"), (SECOND, "0000:82:00.0"), (THIRD, "0000:82:00.0"))
    recipe = device_recipes.plan_pci(dense(), CN1, PCI, BECOMES, split)
    after = outcome(recipe, dense())
    assert held(after, "b")["cn1_0000:81:00.0"] == held(after, "b")["cn1_0000:82:00.0"] == {GPU: 1}


def test_evidence_about_other_devices_and_servers_is_listed_and_not_used() -> None:
    other = ((FIRST, "0000:81:00.0"), (SECOND, "0000:af:00.0"))
    recipe = device_recipes.plan_pci(dense(), CN1, PCI, BECOMES, other)
    assert recipe.undecided == (SECOND, THIRD)
    assert f": {FIRST}=0000:81:00.0, {SECOND}=0000:af:00.0." in recipe.head[-1]


@pytest.mark.parametrize(
    ("text", "name"),
    [("10de:1eb8", GPU), ("CUSTOM_GPU", "CUSTOM_GPU"), ("VGPU", "VGPU")],
)
def test_a_vendor_and_a_product_become_the_class_of_nova(text: str, name: str) -> None:
    assert device_recipes.class_name(text) == name
