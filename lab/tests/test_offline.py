# SPDX-License-Identifier: Apache-2.0
"""What a reshape leaves is what nova itself reports afterwards."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest

from lab import place, provider_tree
from tests.support import guide
from tests.support.peer import placement, shell, target as targets

pytestmark = [pytest.mark.interop, pytest.mark.smoke]

SLOTS = 15
GPU = "CUSTOM_PCI_10DE_1EB8"
#: The inventory fields that nova leaves out have these values.
DEFAULTS = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """openstack-placement's configuration, with a database; a process can use one."""
    made = placement.configure(tmp_path_factory.mktemp("placement"), "default")
    placement.create_tables(made)
    return made


@pytest.fixture
def target(
    configuration: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> targets.OfflinePlacement:
    """openstack-placement without a service. Each test has its own hosts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return targets.OfflinePlacement(configuration)


def run(target: targets.OfflinePlacement, *words: str) -> None:
    ended = shell.run([*target.options, *words])
    assert ended.code == 0, ended


def add_host(target: targets.OfflinePlacement, name: str, inventories: dict[str, Any]) -> str:
    uuid: str = target.ask("POST", "/resource_providers", {"name": name})["uuid"]
    body = {"resource_provider_generation": 0, "inventories": inventories}
    target.ask("PUT", f"/resource_providers/{uuid}/inventories", body)
    return uuid


def trees(target: targets.Target, *roots: str) -> list[dict[str, Any]]:
    """The providers of these trees as nova reads them, parents first."""
    answers = []
    entries = [
        entry
        for root in roots
        for entry in target.ask("GET", f"/resource_providers?in_tree={root}")["resource_providers"]
    ]
    for entry in entries:
        path = f"/resource_providers/{entry['uuid']}"
        answers.append(
            {
                "name": entry["name"],
                "uuid": entry["uuid"],
                "parent": entry["parent_provider_uuid"],
                "inventories": target.ask("GET", f"{path}/inventories")["inventories"],
                "traits": sorted(target.ask("GET", f"{path}/traits")["traits"]),
            }
        )
    return sorted(answers, key=lambda entry: (entry["parent"] is not None, entry["name"]))


def updated_by_nova(lab: place.Place, request: dict[str, Any]) -> tuple[str, Any]:
    """``(stderr, document)`` after nova's own update."""
    ended = subprocess.run(
        [lab.program("python"), str(pathlib.Path(provider_tree.__file__))],
        input=json.dumps(request),
        env=dict(lab.environment()),
        capture_output=True,
        text=True,
    )
    return ended.stderr, json.loads(ended.stdout or "null")


def same(document: Any) -> list[dict[str, Any]]:
    """The trees of a document by name, with all inventory fields."""
    return sorted(
        (
            {
                **entry,
                "inventories": {
                    name: {**DEFAULTS, **fields} for name, fields in entry["inventories"].items()
                },
            }
            for entry in document["trees"]
        ),
        key=lambda entry: str(entry["name"]),
    )


def check_nova_changes_nothing(lab: place.Place, request: dict[str, Any]) -> Any:
    messages, after = updated_by_nova(lab, request)
    assert after is not None, messages
    assert same(after) == same(request)
    return after


def test_nova_changes_nothing_after_the_reshape_and_needs_one_before(
    lab: place.Place, target: targets.OfflinePlacement
) -> None:
    allocations = {"VCPU": {"total": 64}, "MEM_ENCRYPTION_CONTEXT": {"total": SLOTS, "max_unit": 1}}
    roots = [add_host(target, f"cmp-{number}", allocations) for number in range(3)]
    encryption = {"amd_sev": SLOTS}
    before = {"trees": trees(target, *roots), "encryption": encryption}
    assert "ReshapeNeeded" in updated_by_nova(lab, before)[0]
    (template,) = [
        step.output or []
        for step in guide.steps((guide.DOCS / "user" / "snapshot" / "offline.rst").read_text())
        if step.command == "cat sev.yaml"
    ]
    pathlib.Path("sev.yaml").write_text("\n".join(template))
    run(target, "placement", "reshape", "sev.yaml", "--name-glob", "cmp-*")
    request = {"trees": trees(target, *roots), "encryption": encryption}
    assert len(request["trees"]) == 6
    check_nova_changes_nothing(lab, request)


@pytest.mark.parametrize(
    "totals",
    [{"amd_sev": 15}, {"amd_sev": 10, "amd_sev_es": 5}, {"amd_sev_snp": 5, "intel_tdx": 10}],
    ids=lambda totals: "-".join(totals),
)
def test_nova_changes_nothing_after_the_recipe_for_memory_encryption(
    lab: place.Place, target: targets.OfflinePlacement, totals: dict[str, int]
) -> None:
    name = "-".join(totals)
    allocations = {"MEM_ENCRYPTION_CONTEXT": {"total": SLOTS, "max_unit": 1}}
    root = add_host(target, name, allocations)
    models = [
        word
        for model, total in totals.items()
        for word in ("--model", f"{model.replace('_', '-')}={total}")
    ]
    run(target, "placement", "recipe", "sev", name, *models, "--out", "sev.yaml")
    run(target, "placement", "reshape", "sev.yaml")
    request = {"trees": trees(target, root), "encryption": totals}
    check_nova_changes_nothing(lab, request)


def test_nova_changes_nothing_after_the_recipe_for_pci_devices(
    lab: place.Place, target: targets.OfflinePlacement
) -> None:
    servers = [f"1b5e0a3c-0000-4000-8000-00000000000{number}" for number in (1, 2)]
    for resource_class in ("CUSTOM_GPU", GPU):
        target.ask("PUT", f"/resource_classes/{resource_class}")
    root = add_host(target, "cn1", {"VCPU": {"total": 8}, "CUSTOM_GPU": {"total": 3}})
    for server in servers:
        body = {
            "allocations": {root: {"resources": {"VCPU": 1, "CUSTOM_GPU": 1}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        target.ask("PUT", f"/allocations/{server}", body)
    first, second = "0000:81:00.0", "0000:83:00.0"
    devices = [
        word
        for amount in (f"{first}=CUSTOM_GPU:1", f"{second}=CUSTOM_GPU:2")
        for word in ("--device", amount)
    ]
    words = (*devices, "--as", "CUSTOM_GPU=10de:1eb8", "--trait", f"{first}=CUSTOM_FAST")
    assigned = ("--assign", f"{servers[0]}={first}", "--assign", f"{servers[1]}={second}")
    run(target, "placement", "recipe", "pci", "cn1", *words, *assigned, "--out", "p.yaml")
    run(target, "placement", "reshape", "p.yaml")
    request = {
        "trees": trees(target, root),
        "device_spec": [{"address": first, "traits": "CUSTOM_FAST"}, {"address": "0000:83:*.*"}],
        "devices": [
            {"address": first, "parent": None, "server": servers[0]},
            {"address": "0000:83:00.1", "parent": second, "server": None},
            {"address": "0000:83:00.2", "parent": second, "server": servers[1]},
        ],
        "allocations": {
            server: {"allocations": target.ask("GET", f"/allocations/{server}")["allocations"]}
            for server in servers
        },
    }
    after = check_nova_changes_nothing(lab, request)
    assert after["allocations"] == request["allocations"]
