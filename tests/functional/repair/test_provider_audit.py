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
from osc_placement.testing import traffic
from osc_placement.workflows.repair import findings
from tests.support import embedded
from tests.support.peer import fixtures, shell, target as targets
from tests.support.rows import Absent, Row, State, nova_recording, one_line, table

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
    provider = target.ask("GET", f"/resource_providers/{uuid}")
    body["resource_provider_generation"] = provider["generation"]
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


ONLY = f"{AUDIT} --only pci-device-out-of-spec"
ADDRESSES = ("0000:84:00.0", "0000:90:00.0", "0000:a0:00.0")
DEVICES = [f"node_{address}" for address in ADDRESSES]
PCI = testing.Cloud("nova-{}").compute("node", traits=["COMPUTE_NODE"])
for name in DEVICES:
    PCI.child("node", name, PGPU=1, traits=["COMPUTE_MANAGED_PCI_DEVICE"])
PCI.server("server", {name: {"PGPU": 1} for name in DEVICES[:2]})
STATES = {
    # The configuration has the second device, and the third one is free.
    "pci devices": State(
        PCI,
        {"GET /v2.0/agents": {"agents": []}},
        files={
            "nova.conf": '[pci]\ndevice_spec = {"address": "0000:90:00.0"}\n',
            "wrong.conf": "[pci]\ndevice_spec = none\n",
        },
    )
}
UNCHECKED = "3 PCI devices: --nova-conf "
TABLE = [
    Row(f"{ONLY} --nova-conf nova.conf", "pci devices", 0,
        [{"name": DEVICES[0], "hosts": ["nova-node"], "cause": "out-of-spec",
          "evidence": {"consumers": [embedded.uuid_of("server")]},
          "action": "check-configuration"}]),
    # Without findings, JSON says too that something was not checked.
    Row(ONLY, "pci devices", 0,
        [{"code": "not-checked", "evidence": {"not_checked": (UNCHECKED,)}}]),
    Row(ONLY, "pci devices", 0, (f"Not checked: {UNCHECKED}", Absent("not-checked"))),
    Row(f"{ONLY} --strict", "pci devices", 4),
    Row(f"{AUDIT} --only wrong-status --strict", "pci devices", 0),
    Row(f"{AUDIT} --nova-conf wrong.conf", "pci devices", 1,
        "[pci]device_spec: 'none' is not JSON"),
]  # fmt: skip


@table(TABLE)
def test_a_pci_device_out_of_spec_is_found_while_a_server_uses_it(
    openstack: shell.OpenStack, row: Row
) -> None:
    row.check(openstack, STATES)


def test_a_stored_repair_is_not_made_for_a_host_that_nova_has_enabled_again(
    openstack: shell.OpenStack,
) -> None:
    def cloud(status: str) -> State:
        return State(testing.Cloud().compute("one", service={"status": status}, VCPU=8))

    cloud("disabled").arrange(openstack)
    options = "--repair --only wrong-status --allow recorded-nova --dry-run --plan-out plan.json"
    assert cloud("disabled").run(openstack, f"{AUDIT} {options}").code in (0, 3)
    before = openstack.target.state()
    apply = "placement plan apply plan.json --allow recorded-nova"
    outcome = cloud("enabled").run(openstack, apply)
    assert outcome.code == 7, outcome
    assert "nova-compute is enabled, it was disabled" in one_line(outcome.stdout), outcome
    assert openstack.target.state() == before
    assert cloud("disabled").run(openstack, apply).code == 0
    assert openstack.target.state() != before


BROKEN = traffic.Reply(503, b"it is broken")


@pytest.mark.parametrize(
    ("command", "fact"), [("allocation", "allocations"), ("provider", "inventories")]
)
@fixtures.ON_ONE_TARGET
def test_an_audit_that_could_not_read_a_provider_does_not_end_with_zero(
    openstack: shell.OpenStack, command: str, fact: str
) -> None:
    cloud = testing.Cloud().compute("one", VCPU=8)
    options = nova_recording(cloud.nova())
    with testing.LoopbackPlacement(load=cloud) as placement:
        placement.before(lambda sent: BROKEN if sent.path.endswith(fact) else None)
        words = [*targets.admin_options(placement.url), *options, "placement", command, "audit"]
        outcome = shell.run([*words, "-f", "json"])
    assert outcome.code == 4, outcome
    assert {row["cause"] for row in json.loads(outcome.stdout)} >= {"unreadable"}, outcome
