# SPDX-License-Identifier: Apache-2.0
"""``placement provider audit`` on every target, with faults in the sample cloud."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.plan import reasons
from osc_placement.workflows.repair import findings
from tests.support import embedded
from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

AUDIT = "placement provider audit"
ALLOWED = ("--allow", "recorded-nova")
DOMAIN = "lab.example.org"
AGENT = "NIC Switch agent"
OFFERED = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "local_gb"}

CLOUD = testing.sample_cloud("12-hosts")["providers"]
UUIDS = {item["name"]: uuid for uuid, item in CLOUD.items()}

CONFIG = f"""\
meta: {{schema_version: '1.0'}}
providers:
- identification: {{uuid: $COMPUTE_NODE}}
  traits: {{additional: [CUSTOM_RACK_A]}}
- identification: {{name: cmp-0001.{DOMAIN}}}
  inventories:
    additional:
    - CUSTOM_X: {{total: 8}}
"""

#: ``{code: the providers that have it}``, of all faults that ``spoil`` makes.
FAULTS = {
    "unknown": {f"cmp-gone.{DOMAIN}"},
    "missing-provider": {f"cmp-0010.{DOMAIN}"},
    "other-uuid": {f"cmp-0011.{DOMAIN}"},
    "other-name": {"renamed"},
    "double-provider": {"cmp-0007"},
    "missing-inventory": {f"cmp-0012.{DOMAIN}"},
    "wrong-inventory": {f"cmp-0001.{DOMAIN}"},
    "wrong-status": {f"cmp-0004.{DOMAIN}", f"cmp-0006.{DOMAIN}"},
    "missing-owner": {f"cmp-0002.{DOMAIN}"},
    "missing-trait": {f"cmp-0009.{DOMAIN}"},
    "agent-without-host": {f"cmp-0009:{AGENT}"},
    "agent-wrong-host": {f"cmp-0005:{AGENT}"},
    "agent-other-name": {f"cmp-0002:{AGENT}"},
    "agent-without-provider": {f"cmp-0001:{AGENT}", f"cmp-0009:{AGENT}"},
    "agent-not-synced": {f"cmp-0006:{AGENT}"},
    "unconfigured-inventory": {f"cmp-0005.{DOMAIN}", f"cmp-0009.{DOMAIN}"},
    "unconfigured-trait": {f"cmp-0003.{DOMAIN}"},
    "used-up": {"bm-1"},
}


def recording() -> dict[str, Any]:
    """Nova as it is in the sample, with the resources of each hypervisor, and two agents."""
    nova = copy.deepcopy(testing.sample_nova("12-hosts"))
    for item in hypervisors(nova).values():
        known = CLOUD.get(item["id"], {"inventories": {}})["inventories"]
        item |= {field: known[name]["total"] for name, field in OFFERED.items() if name in known}
    nova["GET /v2.0/agents"] = {
        "agents": [
            agent("cmp-0005"),
            agent("cmp-0006", f"cmp-0006.{DOMAIN}"),
            {"host": "cmp-0001", "agent_type": "DHCP agent", "configurations": {}},
        ]
    }
    return nova


def hypervisors(nova: dict[str, Any]) -> dict[str, dict[str, Any]]:
    listed = nova["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    return {item["hypervisor_hostname"]: item for item in listed}


def agent(host: str, hypervisor: str | None = None) -> dict[str, Any]:
    return {
        "host": host,
        "agent_type": AGENT,
        "configurations": {
            "resource_provider_bandwidths": {"ens1": {"egress": 1, "ingress": 1}},
            "resource_provider_hypervisors": {"ens1": hypervisor},
        },
    }


def spoil(target: targets.Target, nova: dict[str, Any]) -> None:
    """Make every fault of FAULTS, in nova's answers and in Placement."""
    listed = hypervisors(nova)
    listed[f"cmp-0011.{DOMAIN}"]["id"] = embedded.uuid_of("another node")
    listed[f"cmp-0001.{DOMAIN}"]["vcpus"] += 16
    services = {item["host"]: item for item in nova["GET /v2.1/os-services"]["services"]}
    services["cmp-0004"]["status"] = "disabled"
    agents = nova["GET /v2.0/agents"]["agents"]
    agents[0] = agent("cmp-0005", f"cmp-0006.{DOMAIN}")
    agents[1]["resources_synced"] = False
    agents.append(agent("cmp-0009"))
    agents.append(agent("cmp-0001", f"cmp-0001.{DOMAIN}"))
    agents.append(agent("cmp-0002", "cmp-0002"))
    for name in ("cmp-0007", f"cmp-0009:{AGENT}"):
        target.ask("POST", "/resource_providers", {"name": name})
    target.ask(
        "PUT", f"/resource_providers/{UUIDS[f'cmp-0008.{DOMAIN}']}", {"name": "renamed"}, "1.36"
    )
    target.request("DELETE", f"/resource_providers/{UUIDS[f'cmp-0012.{DOMAIN}']}/inventories")
    for name, uuid in UUIDS.items():
        traits = set(CLOUD[uuid]["traits"])
        if "COMPUTE_NODE" in traits:
            traits |= {"OWNER_NOVA"} - ({"OWNER_NOVA"} if name.startswith("cmp-0002") else set())
        traits |= {"COMPUTE_STATUS_DISABLED"} if name == f"cmp-0006.{DOMAIN}" else set()
        traits -= {"COMPUTE_NODE"} if name == f"cmp-0009.{DOMAIN}" else set()
        traits |= {"CUSTOM_PHYSNET_A"} if name == f"cmp-0003.{DOMAIN}" else set()
        traits |= {"HW_PCI_ONE_TIME_USE"} if name.startswith("bm-") else set()
        change(target, uuid, "traits", traits=sorted(traits))
    reserve(target, UUIDS["bm-1"])


def reserve(target: targets.Target, uuid: str) -> None:
    path = f"/resource_providers/{uuid}/inventories"
    inventories = target.ask("GET", path)["inventories"]
    for item in inventories.values():
        item["reserved"] = item["total"]
    change(target, uuid, "inventories", inventories=inventories)


def change(target: targets.Target, uuid: str, what: str, **body: Any) -> None:
    found = target.ask("GET", f"/resource_providers/{uuid}")
    body["resource_provider_generation"] = found["generation"]
    target.ask("PUT", f"/resource_providers/{uuid}/{what}", body)


def audited(
    openstack: shell.OpenStack, nova: dict[str, Any], *arguments: str, code: int
) -> list[dict[str, Any]]:
    pathlib.Path("nova.json").write_text(json.dumps(nova))
    return openstack.rows(AUDIT, "--os-nova-recording", "nova.json", *arguments, code=code)


def by_code(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    codes: dict[str, set[str]] = {}
    for row in found:
        codes.setdefault(row["code"], set()).add(row["name"])
    return codes


def test_the_sample_has_a_host_without_provider_and_a_provider_without_host(
    openstack: shell.OpenStack,
) -> None:
    found = audited(openstack, recording(), code=0)
    assert by_code(found) == {name: FAULTS[name] for name in ("missing-provider", "unknown")}
    assert found[0]["hosts"] == ["cmp-0010"]
    audited(openstack, recording(), "--strict", code=3)


def test_every_fault_has_its_code_and_no_other_provider_is_reported(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    nova = recording()
    spoil(target, nova)
    config = tmp_path / "provider.yaml"
    config.write_text(CONFIG)
    found = audited(openstack, nova, "--provider-config", str(config), code=3)
    assert by_code(found) == FAULTS
    assert {row["cause"] for row in found} <= {*reasons.Code}
    assert {row["action"] for row in found} <= {*findings.Remedy}
    evidence = {row["code"]: row["evidence"] for row in found}
    assert evidence["wrong-inventory"] == {"resources": {"VCPU": {"total": 64, "hypervisor": 80}}}
    assert evidence["unconfigured-trait"] == {"names": ["CUSTOM_PHYSNET_A"]}
    only = audited(openstack, nova, "--only", "used-up", "--host", "bm-1", code=0)
    assert [row["name"] for row in only] == ["bm-1"]


def test_only_certain_findings_are_repaired_and_undone(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    nova = recording()
    spoil(target, nova)
    before = traits(target)
    planned = audited(openstack, nova, "--repair", "--dry-run", code=3)
    assert traits(target) == before
    undo = ("--undo-out", "undo.json")
    found = audited(openstack, nova, "--repair", *undo, *ALLOWED, code=9)
    assert [row["code"] for row in planned] == [row["code"] for row in found]
    repaired = {row["code"] for row in found if row["status"] == "applied"}
    assert repaired == {"wrong-status", "missing-owner"}
    after = traits(target)
    assert "COMPUTE_STATUS_DISABLED" in after[f"cmp-0004.{DOMAIN}"]
    assert "COMPUTE_STATUS_DISABLED" not in after[f"cmp-0006.{DOMAIN}"]
    assert "OWNER_NOVA" in after[f"cmp-0002.{DOMAIN}"]
    assert not repaired & by_code(audited(openstack, nova, code=0)).keys()
    openstack.do("placement plan undo", "undo.json")
    assert traits(target) == before


def traits(target: targets.Target) -> dict[str, list[str]]:
    return {
        name: sorted(target.ask("GET", f"/resource_providers/{uuid}/traits")["traits"])
        for name, uuid in UUIDS.items()
    }


@fixtures.ON_ONE_TARGET
def test_nothing_is_reported_about_a_cell_that_is_down(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    nova = recording()
    services = nova["GET /v2.1/os-services"]["services"]
    down = [item for item in services if item["host"] in ("cmp-0005", "cmp-0006")]
    for item in down:
        item |= {"status": "UNKNOWN"}
    listed = nova["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    listed[:] = [item for item in listed if item["service"]["host"] not in ("cmp-0005", "cmp-0006")]
    found = audited(openstack, nova, code=0)
    assert by_code(found) == {"missing-provider": FAULTS["missing-provider"], "not-checked": {""}}
    assert found[-1]["evidence"] == {
        "not_checked": "hosts of a cell that is down: cmp-0005, cmp-0006"
    }


@fixtures.ON_ONE_TARGET
def test_a_pci_device_out_of_spec_is_found_while_a_server_uses_it(
    openstack: shell.OpenStack, target: targets.Target, tmp_path: pathlib.Path
) -> None:
    node, consumer = f"cmp-0001.{DOMAIN}", embedded.uuid_of("a server with two devices")
    devices = {}
    for address in ("0000:84:00.0", "0000:90:00.0", "0000:a0:00.0"):
        name = f"{node}_{address}"
        uuid = devices[name] = embedded.uuid_of(name)
        body = {"name": name, "uuid": uuid, "parent_provider_uuid": UUIDS[node]}
        target.ask("POST", "/resource_providers", body)
        change(target, uuid, "inventories", inventories={"PGPU": {"total": 1}})
        change(target, uuid, "traits", traits=["COMPUTE_MANAGED_PCI_DEVICE"])
    in_use = [uuid for name, uuid in devices.items() if "0000:a0" not in name]
    body = {
        "allocations": {uuid: {"resources": {"PGPU": 1}} for uuid in in_use},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    target.ask("PUT", f"/allocations/{consumer}", body)
    config = tmp_path / "nova.conf"
    config.write_text('[pci]\ndevice_spec = {"address": "0000:90:00.0"}\n')
    only = ("--only", "pci-device-out-of-spec")
    (found,) = audited(openstack, recording(), *only, "--nova-conf", str(config), code=0)
    assert (found["name"], found["hosts"]) == (f"{node}_0000:84:00.0", ["cmp-0001"])
    assert found["evidence"] == {"consumers": [consumer]}
    assert (found["cause"], found["action"]) == ("out-of-spec", "check-configuration")
    # Without findings, JSON says too that something was not checked.
    (found,) = audited(openstack, recording(), *only, code=0)
    assert found["code"] == "not-checked"
    assert found["evidence"]["not_checked"].startswith("3 PCI devices: --nova-conf ")
    audited(openstack, recording(), *only, "--strict", code=4)
    audited(openstack, recording(), "--only", "wrong-status", "--strict", code=0)
    ended = openstack.run(AUDIT, "--os-nova-recording", "nova.json", *only)
    assert "Not checked: 3 PCI devices: --nova-conf " in ended.stderr
    assert "not-checked" not in ended.stdout
    config.write_text("[pci]\ndevice_spec = none\n")
    code, text = openstack.fails(
        AUDIT, "--os-nova-recording", "nova.json", "--nova-conf", str(config)
    )
    assert (code, "[pci]device_spec: 'none' is not JSON" in text) == (1, True), text
