# SPDX-License-Identifier: Apache-2.0
"""The recipes sev and pci on every target, and ``placement reshape`` with their documents."""

from __future__ import annotations

import pathlib
import textwrap

import pytest

from tests.functional.reshape import test_reshape_recipe as recipes
from tests.functional.reshape.test_reshape import offered
from tests.functional.reshape.test_reshape_recipe import PROVIDERS, RECIPE, SERVERS, held, node
from tests.support.peer import fixtures, shell, target as targets

CONTEXT, GPU = "MEM_ENCRYPTION_CONTEXT", "CUSTOM_PCI_10DE_1EB8"
HOST = node(9)
GUIDE = pathlib.Path(__file__).parents[3] / "doc/source/user/reshape/recipe-numa.rst"


@pytest.fixture(autouse=True)
def cloud(target: targets.Target, openstack: shell.OpenStack) -> None:
    """A node with memory encryption and GPUs of its own, which two servers use."""
    target.load("12-hosts")
    more = ("--resource", f"{CONTEXT}=15", "--resource", "CUSTOM_GPU=2")
    openstack.do("resource class create", "CUSTOM_GPU")
    openstack.do("resource provider inventory set", PROVIDERS[HOST], "--amend", *more)
    common = {"VCPU": 1, "MEMORY_MB": 1024, CONTEXT: 1, "CUSTOM_GPU": 1}
    recipes.allocate(target, "vm-00007", PROVIDERS[HOST], **common)
    recipes.allocate(target, "vm-00017", PROVIDERS[HOST], **common)


def children(openstack: shell.OpenStack) -> dict[str, str]:
    """The UUIDs of the providers below the node, by what follows its name."""
    found = openstack("resource provider list", "--in-tree", PROVIDERS[HOST])
    return {
        item["name"].removeprefix(f"{HOST}_"): item["uuid"]
        for item in found
        if item["name"] != HOST
    }


def test_memory_encryption_moves_to_the_provider_of_its_model(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    before = recipes.everything(target)
    openstack.do(f"{RECIPE} sev", HOST, "--out", "sev.yaml")
    recipes.reshape(openstack, "sev.yaml", "--undo-out", "undo.json")
    child = children(openstack)["amd_sev"]
    assert held(target, "vm-00007")[child] == {CONTEXT: 1}
    assert sorted(offered(target)[f"{HOST}_amd_sev"][1]) == ["HW_CPU_X86_AMD_SEV", "OWNER_NOVA"]
    openstack.do("placement plan undo", "undo.json")
    assert recipes.everything(target) == before


@fixtures.ON_ONE_TARGET
def test_errors_of_models_are_reported(openstack: shell.OpenStack) -> None:
    models = ("--model", "sev=1", "--model", "amd-sev=x", "--model", "amd-sev=0")
    _, error = openstack.fails(f"{RECIPE} sev", HOST, *models)
    assert "--model sev: the models are amd-sev," in error
    assert "'x' is not a number of servers" in error
    _, error = openstack.fails(f"{RECIPE} sev", node(8))
    assert f"{node(8)} itself has no {CONTEXT}" in error


def test_pci_devices_move_to_providers_with_their_addresses(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    before = recipes.everything(target)
    devices = ("--device", "0000:81:00.0=CUSTOM_GPU:1", "--device", "pci_0000_82_00_0=CUSTOM_GPU:1")
    servers = (SERVERS["vm-00007"], SERVERS["vm-00017"])
    evidence = f"{servers[0]}=0000:82:00.0\n{servers[1]}=pci_0000_81_00_0\n"
    pathlib.Path("evidence").write_text(evidence)
    words = (HOST, *devices, "--as", "CUSTOM_GPU=10de:1eb8", "--trait", "0000:81:00.0=CUSTOM_FAST")
    openstack.do(f"{RECIPE} pci", *words, "--assign", "@evidence", "--out", "pci.yaml")
    _, error = openstack.fails("placement reshape", "pci.yaml")
    assert GPU in error
    openstack.do("resource class create", GPU)
    recipes.reshape(openstack, "pci.yaml", "--undo-out", "undo.json")
    uuids, now = children(openstack), offered(target)
    assert held(target, "vm-00007")[uuids["0000:82:00.0"]] == {GPU: 1}
    assert held(target, "vm-00017")[uuids["0000:81:00.0"]] == {GPU: 1}
    traits = ["COMPUTE_MANAGED_PCI_DEVICE", "CUSTOM_FAST", "OWNER_NOVA"]
    assert sorted(now[f"{HOST}_0000:81:00.0"][1]) == traits
    assert "CUSTOM_GPU" not in now[HOST][0]
    openstack.do("placement plan undo", "undo.json")
    assert recipes.everything(target) == before


@fixtures.ON_ONE_TARGET
def test_errors_of_pci_devices_are_reported(openstack: shell.OpenStack) -> None:
    words = (
        "--device",
        "gpu0=CUSTOM_GPU:2",
        "--device",
        "0000:81:00.0=2",
        "--as",
        "VGPU=10de:1eb8",
    )
    _, error = openstack.fails(f"{RECIPE} pci", HOST, *words)
    assert "--device gpu0: must be a PCI address" in error
    assert "'2' is not an amount, such as PCPU:16" in error
    assert "--as VGPU: no --device has this class" in error


@fixtures.ON_ONE_TARGET
def test_classes_that_the_reshape_would_refuse_are_reported(openstack: shell.OpenStack) -> None:
    twice = ("--device", "0000:81:00.0=CUSTOM_GPU:1,CUSTOM_GPU:2")
    new = ("--as", "CUSTOM_GPU=10de:1eb8", "--as", "CUSTOM_GPU=10de:1eb", "--as", "CUSTOM_GPU=gpu")
    _, error = openstack.fails(f"{RECIPE} pci", HOST, *twice, *new)
    assert "--device 0000:81:00.0=CUSTOM_GPU" not in error
    assert "CUSTOM_GPU:1,CUSTOM_GPU:2: CUSTOM_GPU is given more than once" in error
    assert error.count("--as CUSTOM_GPU: given more than once") == 1
    _, error = openstack.fails(f"{RECIPE} pci", HOST, "--device", "0000:81:00.0=CUSTOM_GPU:2", *new)
    assert "--as CUSTOM_GPU: given more than once" in error
    invalid = ("--device", "0000:81:00.0=CUSTOM_GPU:2", "--as", "CUSTOM_GPU=10de:1eb")
    _, error = openstack.fails(f"{RECIPE} pci", HOST, *invalid)
    assert "--as CUSTOM_GPU: '10de:1eb' is neither a resource class" in error


@fixtures.ON_ONE_TARGET
def test_a_document_is_not_overwritten(openstack: shell.OpenStack) -> None:
    pathlib.Path("sev.yaml").write_text("mine")
    _, error = openstack.fails(f"{RECIPE} sev", HOST, "--out", "sev.yaml")
    assert "sev.yaml exists. Give another file" in error
    assert pathlib.Path("sev.yaml").read_text() == "mine"


def test_numa_nodes_of_the_guide_are_refused_for_a_node_of_nova(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    text = GUIDE.read_text().partition(".. code-block:: yaml\n\n")[2].partition("\n\nStop the")[0]
    text = text.replace("cmp-0012.lab.example.org", HOST)
    pathlib.Path("numa.yaml").write_text(f"{textwrap.dedent(text)}\n")
    before = recipes.everything(target)
    _, error = openstack.fails("placement reshape", "numa.yaml", "--strategy", "pack")
    assert f"nova-compute owns the tree of {HOST} and writes MEMORY_MB on {HOST}" in error
    anyway = ("--strategy", "pack", "--allow", "nova-owned", "--undo-out", "undo.json")
    openstack.do("placement reshape", "numa.yaml", *anyway)
    numa = [children(openstack)[f"numa_{number}"] for number in (0, 1)]
    uses = [held(target, "vm-00007").get(uuid) for uuid in numa]
    assert {"VCPU": 1, "MEMORY_MB": 1024} in uses
    assert offered(target)[f"{HOST}_numa_0"][0]["MEMORY_MB"]["reserved"] == 2048
    openstack.do("placement plan undo", "undo.json")
    assert recipes.everything(target) == before
