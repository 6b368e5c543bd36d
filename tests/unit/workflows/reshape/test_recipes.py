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
    request = (
        (recipes.Child(A, {"VGPU": 4}), recipes.Child(B, {"VGPU": 4})),
        evidence,
    )
    recipe = device_recipes.plan_vgpu(cloud(), uuid_of("cn1"), *request)
    after = outcome(recipe, cloud())
    assert held(after, "b")[f"cn1_{A}"] == {"VGPU": 1}
    assert held(after, "b")[f"cn1_{B}"] == {"VGPU": 2}
    (reason,) = problems(
        device_recipes.plan_vgpu,
        cloud(),
        uuid_of("cn1"),
        request[0],
        evidence[:2],
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
    known = servers(server("a", specs=DEDICATED), server("b"), server("c"))
    recipe = pcpu.plan_pcpu(before, uuid_of("cn1"), known, {}, pcpu.PcpuRequest(12))
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
    subprocess.run(command, env=environment, cwd=folder, check=True, timeout=20)
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
