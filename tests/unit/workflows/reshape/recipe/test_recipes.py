"""Recipes as values: a snapshot and the state of nova in, a valid document out."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.nova import flavor, values
from osc_placement.workflows.reshape import (
    assign,
    decide,
    invariants,
    snapshot,
)
from osc_placement.workflows.reshape.document import parse
from osc_placement.workflows.reshape.recipe import (
    pcpu,
    read,
    replace_host,
    replacement,
    vgpu,
    yaml_writer,
)
from tests.support.reshape import cloud_builder
from tests.support.reshape.cloud_builder import uuid_of

A, B = "pci_0000_84_00_0", "pci_0000_85_00_0"
NEW = "3f1c6a52-7b0e-4d8e-9a55-0c2f6a7d1e11"
PROVIDERS: cloud_builder.Providers = {
    "cn1": (None, {"VCPU": 16, "VGPU": 8, "SRIOV_NET_VF": 2}),
    "cn1_pci_0000_86_00_0": ("cn1", {"PGPU": 1}),
    "cn1:agent": ("cn1", {}),
    "cn1:agent:ens1": ("cn1:agent", {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}),
    "share": (None, {"DISK_GB": 100}),
    "cn9": (None, {"VCPU": 16}),
    "empty": (None, {}),
}
CONSUMERS: cloud_builder.Consumers = {
    "a": {"cn1": {"VCPU": 4, "VGPU": 1}, "share": {"DISK_GB": 10}},
    "b": {"cn1": {"VCPU": 2, "VGPU": 3, "SRIOV_NET_VF": 1}},
    "c": {"cn1": {"VCPU": 1}, "cn1:agent:ens1": {"NET_BW_EGR_KILOBIT_PER_SEC": 5}},
}
TRAITS = {"cn1": ["COMPUTE_NODE", "CUSTOM_RACK"]}
DEVICES = (
    vgpu.Device(A, {"VGPU": 4}, ("CUSTOM_VGPU_A",)),
    vgpu.Device(B, {"VGPU": 4, "SRIOV_NET_VF": 2}),
)


def cloud(*roots: str) -> snapshot.TreeSnapshot:
    return cloud_builder.snapshot_of(
        cloud_builder.state(PROVIDERS, CONSUMERS, TRAITS), *(roots or ("cn1",))
    )


def problems(call: Any, *arguments: Any) -> list[str]:
    with pytest.raises(errors.InvalidInput) as caught:
        call(*arguments)
    return list(caught.value.reasons)


def outcome(
    recipe: yaml_writer.Recipe, before: snapshot.TreeSnapshot, *allow: str
) -> snapshot.TreeSnapshot:
    """The snapshot after the document of a recipe."""
    moves = parse.parse(yaml_writer.write(recipe), "recipe.yaml")
    decided = decide.decide(moves, before, assign.AssignOptions(), allow)
    assert invariants.violations(before, decided.after, decided.classes) == []
    return decided.after.without(decided.resolved.deleted)


def held(after: snapshot.TreeSnapshot, consumer: str) -> dict[str, dict[str, int]]:
    found = after.consumers[uuid_of(consumer)].allocations
    return {after.name_of(uuid): dict(resources) for uuid, resources in found.items()}


def test_vgpu_moves_to_children_with_the_names_of_libvirt() -> None:
    evidence = ((uuid_of("a"), A), (uuid_of("b"), B))
    recipe = vgpu.plan_vgpu(cloud(), uuid_of("cn1"), vgpu.Request(DEVICES, evidence))
    fields = {"reserved": 0, "min_unit": 1, "max_unit": 4, "step_size": 1, "allocation_ratio": 1.0}
    first, second = (f"cn1_{device}" for device in (A, B))
    assert recipe.document["moves"] == [
        {
            "from": "cn1",
            "resources": {"VGPU": 4},
            "to": {
                "name": first,
                "parent": "cn1",
                "traits": ["CUSTOM_VGPU_A"],
                "inventories": {"VGPU": fields},
            },
        },
        {
            "from": "cn1",
            "resources": {"VGPU": 4, "SRIOV_NET_VF": 2},
            "to": {"name": second, "parent": "cn1", "inventories": {"VGPU": fields}},
        },
    ]
    after = outcome(recipe, cloud())
    assert held(after, "a")[first] == {"VGPU": 1}
    assert held(after, "b") == {"cn1": {"VCPU": 2}, second: {"VGPU": 3, "SRIOV_NET_VF": 1}}


def test_an_undecided_consumer_is_listed_as_a_comment() -> None:
    recipe = vgpu.plan_vgpu(cloud(), uuid_of("cn1"), vgpu.Request(DEVICES))
    assert recipe.undecided == tuple(sorted((uuid_of("a"), uuid_of("b"))))
    text = yaml_writer.write(recipe)
    assert f"\n# assign:\n#   {recipe.undecided[0]}: ?" in text
    assert parse.parse(text, "x").assign == ()


def test_devices_must_match_the_node_and_evidence_must_match_both() -> None:
    request = vgpu.Request(
        (vgpu.Device(A, {"VGPU": 3}), vgpu.Device(A, {"FPGA": 1})),
        ((uuid_of("a"), B), (uuid_of("b"), B), (uuid_of("c"), A)),
    )
    evidence = problems(vgpu.plan_vgpu, cloud(), uuid_of("cn1"), request)
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
    request = vgpu.Request((vgpu.Device(A, {"VGPU": 4}), vgpu.Device(B, {"VGPU": 4})), evidence)
    recipe = vgpu.plan_vgpu(cloud(), uuid_of("cn1"), request)
    after = outcome(recipe, cloud())
    assert held(after, "b")[f"cn1_{A}"] == {"VGPU": 1}
    assert held(after, "b")[f"cn1_{B}"] == {"VGPU": 2}
    (reason,) = problems(
        vgpu.plan_vgpu, cloud(), uuid_of("cn1"), dataclasses.replace(request, evidence=evidence[:2])
    )
    assert f"uses {A} 1 times and {B} 1 times, and has" in reason


def test_a_pci_address_gets_the_name_of_libvirt() -> None:
    assert vgpu.device_name("0000:84:0A.1") == "pci_0000_84_0a_1"
    assert vgpu.device_name(A) == A


def server(name: str, **fields: Any) -> values.Server:
    specs = fields.pop("specs", {})
    return dataclasses.replace(
        values.Server(
            uuid_of(name),
            name,
            host="host1",
            node="cn1",
            vm_state="active",
            flavor=flavor.Flavor(4, 2048, 20, extra_specs=specs),
            image_properties={},
        ),
        **fields,
    )


def servers(*items: values.Server) -> dict[str, values.Server]:
    return {item.uuid: item for item in items}


DEDICATED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"}


def test_servers_with_dedicated_cpus_change_their_class() -> None:
    known = servers(server("a", specs=DEDICATED), server("b"), server("c"))
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), known, {}, pcpu.Request(8))
    assert recipe.assign == {uuid_of("a"): "PCPU", uuid_of("b"): "VCPU", uuid_of("c"): "VCPU"}
    after = outcome(recipe, cloud())
    assert held(after, "a")["cn1"] == {"PCPU": 4, "VGPU": 1}
    assert held(after, "b")["cn1"]["VCPU"] == 2
    offered = after.nodes[uuid_of("cn1")].inventories
    assert (offered["VCPU"].total, offered["PCPU"].total) == (8, 8)


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
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), servers(known), moves, pcpu.Request(8))
    assert uuid_of("a") in recipe.undecided
    assert reason in recipe.comments[uuid_of("a")]


def test_evidence_from_the_host_decides_and_all_of_a_node_leaves_no_choice() -> None:
    evidence = ((uuid_of("a"), "PCPU"),)
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), {}, {}, pcpu.Request(8, evidence=evidence))
    assert recipe.assign == {uuid_of("a"): "PCPU"}
    whole = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), {}, {}, pcpu.Request(16))
    assert (whole.assign, whole.undecided) == ({}, ())
    request = pcpu.Request(17, evidence=((uuid_of("a"), "X"), (uuid_of("z"), "VCPU")))
    assert len(problems(pcpu.plan_pcpu, cloud(), uuid_of("cn1"), {}, {}, request)) == 3


@pytest.mark.parametrize(
    ("text", "count"), [("4-15", 12), ("0", 1), ("0-3,^1,8", 4), ("1,1-2", 2), (" 3 , 5 ", 2)]
)
def test_cpus_are_counted_as_nova_counts_them(text: str, count: int) -> None:
    assert pcpu.count_cpus(text) == count


@pytest.mark.parametrize("text", ["", "a", "1-", "2,^2", "5-4", "0-999999999"])
def test_an_invalid_set_of_cpus_is_an_error(text: str) -> None:
    assert problems(pcpu.count_cpus, text)


def nova_state(*known: values.Server, **fields: Any) -> read.NovaState:
    present = server("a"), server("b"), server("c")
    services = {"host1": values.ComputeService("host1", is_up=False, is_enabled=False)}
    nodes = (values.ComputeNode(uuid_of("cn1"), "cn1", "host1"),)
    found = read.NovaState(nodes, services, servers(*present, *known))
    return dataclasses.replace(found, **fields)


def request_for(
    name: str = "cn1",
    new: str | None = None,
    before: snapshot.TreeSnapshot | None = None,
    **fields: Any,
) -> replacement.Request:
    trees = before or cloud()
    found = trees.nodes[uuid_of(new)].provider if new else None
    uuid = fields.pop("uuid", None if new else NEW)
    old = trees.nodes[uuid_of("cn1")].provider
    return replacement.Request(old, name, found, uuid, **fields)


def test_a_renamed_node_gets_everything_and_the_old_one_is_deleted() -> None:
    recipe = replace_host.plan_replacement(cloud(), nova_state(), request_for("cn2"))
    assert recipe.document == {
        "moves": [
            {
                "from": uuid_of("cn1"),
                "resources": {"SRIOV_NET_VF": "all", "VCPU": "all", "VGPU": "all"},
                "to": {
                    "name": "cn2",
                    "uuid": NEW,
                    "parent": None,
                    "traits": ["COMPUTE_NODE", "CUSTOM_RACK"],
                },
            }
        ],
        "providers": [
            {"uuid": uuid_of("cn1:agent"), "parent": NEW},
            {"uuid": uuid_of("cn1_pci_0000_86_00_0"), "parent": NEW},
        ],
        "rename": {
            uuid_of("cn1_pci_0000_86_00_0"): "cn2_pci_0000_86_00_0",
            uuid_of("cn1:agent"): "cn2:agent",
            uuid_of("cn1:agent:ens1"): "cn2:agent:ens1",
        },
        "delete": [uuid_of("cn1")],
    }
    after = outcome(recipe, cloud(), "nova-owned")
    assert uuid_of("cn1") not in after.nodes
    assert held(after, "a") == {"cn2": {"VCPU": 4, "VGPU": 1}, "share": {"DISK_GB": 10}}
    assert held(after, "c")["cn2:agent:ens1"] == {"NET_BW_EGR_KILOBIT_PER_SEC": 5}
    assert after.root_of(uuid_of("cn1:agent:ens1")) == NEW


def test_a_rebuilt_node_takes_the_name_and_the_old_one_is_renamed() -> None:
    recipe = replace_host.plan_replacement(cloud(), nova_state(), request_for())
    aside = f"cn1-replaced-{uuid_of('cn1')[:8]}"
    assert recipe.document["rename"] == {uuid_of("cn1"): aside}
    assert "delete" not in recipe.document
    after = outcome(recipe, cloud(), "nova-owned")
    assert (after.name_of(NEW), after.name_of(uuid_of("cn1"))) == ("cn1", aside)
    assert held(after, "b") == {"cn1": {"VCPU": 2, "VGPU": 3, "SRIOV_NET_VF": 1}}


def test_an_existing_empty_provider_replaces_the_old_one() -> None:
    before = cloud("cn1", "empty")
    request = request_for("empty", "empty", before)
    after = outcome(
        replace_host.plan_replacement(before, nova_state(), request), before, "nova-owned"
    )
    assert held(after, "b") == {"empty": {"VCPU": 2, "VGPU": 3, "SRIOV_NET_VF": 1}}


def against(request: replacement.Request | None = None, **fields: Any) -> str:
    known = fields.pop("known", ())
    before = cloud("cn1", "cn9")
    found = problems(
        replace_host.plan_replacement,
        before,
        nova_state(*known, **fields),
        request or request_for(),
    )
    return "\n".join(found)


def service(**fields: Any) -> dict[str, values.ComputeService]:
    stopped = values.ComputeService("host1", is_up=False, is_enabled=False)
    return {"host1": dataclasses.replace(stopped, **fields)}


def test_nova_compute_must_be_stopped() -> None:
    assert "nova-compute on host1 is up" in against(services=service(is_up=True))
    assert "nova-compute on host1 is enabled" in against(services=service(is_enabled=True))
    assert "the cell of host1 is down" in against(services=service(is_reachable=False))


def test_servers_must_be_on_the_new_host_and_not_move() -> None:
    assert f"a ({uuid_of('a')}): is on host2 according to nova, and not on host1" in against(
        known=[server("a", host="host2")]
    )
    assert "is on no host according to nova" in against(known=[server("a", host=None)])
    assert "task_state is rebuilding" in against(known=[server("a", task_state="rebuilding")])
    assert "its cell is down" in against(known=[server("a", known=False)])
    moving = values.Migration("m", uuid_of("b"), "live-migration", "running")
    assert "is being migrated: live-migration, running" in against(migrations={"m": moving})
    assert "and not on host2" in against(request_for(host="host2"))


def test_the_new_provider_must_be_another_empty_root() -> None:
    before = cloud("cn1", "cn9")
    assert "cn9 already has inventories of VCPU: nova-compute was started there" in against(
        request_for("cn9", "cn9", before)
    )
    assert "give --uuid" in against(request_for("cn2", uuid=""))
    assert "would keep the UUID" in against(request_for("cn2", uuid=uuid_of("cn1")))
    assert "has the name 'cn9', not 'cn8'" in against(request_for("cn8", "cn9", before))
    assert "with another UUID" in against(request_for("cn9", "cn9", before, uuid=NEW))
    nodes = tuple(values.ComputeNode(uuid_of(str(each)), str(each), "host1") for each in range(3))
    unknown = "nova knows no node cn1 or cn1"
    assert unknown in against(nodes=())
    ironic = (*nodes, values.ComputeNode(uuid_of("cn1"), "cn1", "host1"))
    assert "host1 has 4 nodes" in against(nodes=ironic)


def test_allocations_on_both_providers_are_refused() -> None:
    both = {**CONSUMERS, "a": {"cn1": {"VCPU": 1}, "cn9": {"VCPU": 1}}}
    before = cloud_builder.snapshot_of(cloud_builder.state(PROVIDERS, both, TRAITS), "cn1", "cn9")
    request = request_for("cn9", "cn9", before)
    text = "\n".join(problems(replace_host.plan_replacement, before, nova_state(), request))
    assert "already has allocations on cn9, as after an evacuation" in text
    assert "with allocations: the inventories of cn1 would be counted twice" in text


def test_anomalies_are_noted_and_do_not_prevent_the_recipe() -> None:
    known = servers(server("a", node="old-name"), server("b"))
    recipe = replace_host.plan_replacement(cloud(), nova_state(servers=known), request_for())
    text = " ".join(yaml_writer.write(recipe).replace("#", "").split())
    assert f"Nova lists no server or migration for {uuid_of('c')}" in text
    assert f"another node than cn1 for a ({uuid_of('a')})" in text


def test_a_name_with_a_line_break_cannot_leave_its_comment() -> None:
    multiline = dataclasses.replace(server("a"), name="x\nmoves: []")
    recipe = pcpu.plan_pcpu(cloud(), uuid_of("cn1"), servers(multiline), {}, pcpu.Request(8))
    assert len(parse.parse(yaml_writer.write(recipe), "x").moves) == 1


VIRSH = """\
#!/bin/sh
[ "$1" = list ] && { echo 11111111-0000-4000-8000-000000000001; exit; }
cat <<'END'
<domain><vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='7'/></cputune>
<devices>
<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
  <source><address uuid='22222222-0000-4000-8000-000000000002'/></source>
</hostdev>
</devices></domain>
END
"""


def on_the_host(recipe: yaml_writer.Recipe, folder: pathlib.Path) -> str:
    """The output of the commands in the comments, with a virsh that has one server."""
    virsh = folder / "bin" / "virsh"
    virsh.parent.mkdir()
    virsh.write_text(VIRSH)
    virsh.chmod(0o755)
    (folder / "0000:84:00.0" / "22222222-0000-4000-8000-000000000002").mkdir(parents=True)
    (folder / "mdev").mkdir()
    mdev = folder / "mdev" / "22222222-0000-4000-8000-000000000002"
    mdev.symlink_to(folder / "0000:84:00.0" / mdev.name)
    lines = yaml_writer.write(recipe).splitlines()
    start = lines.index("#   for server in $(virsh list --all --uuid); do")
    end = lines.index("#   done", start)
    script = "\n".join(line.removeprefix("#") for line in lines[start : end + 1])
    script = script.replace("/sys/bus/mdev/devices", str(folder / "mdev"))
    return subprocess.run(
        ["sh", "-c", script],
        env={"PATH": f"{virsh.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout


def test_the_commands_for_the_host_print_the_input_of_the_recipe(tmp_path: pathlib.Path) -> None:
    who = "11111111-0000-4000-8000-000000000001"
    for name, recipe, printed in (
        ("gpu", vgpu.plan_vgpu(cloud(), uuid_of("cn1"), vgpu.Request(DEVICES)), A),
        ("cpu", pcpu.plan_pcpu(cloud(), uuid_of("cn1"), {}, {}, pcpu.Request(8)), "PCPU"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        assert on_the_host(recipe, folder) == f"{who}={printed}\n"
