# SPDX-License-Identifier: Apache-2.0
"""``placement provider audit`` on every target; the unit tests have a case of each code."""

from __future__ import annotations

import json

import pytest

from osc_placement import testing
from osc_placement.testing import traffic
from tests.support import embedded
from tests.support.peer import fixtures, shell, target as targets
from tests.support.rows import Absent, Row, State, checked, nova_recording, one_line

AUDIT = "placement provider audit"
REPAIR = f"{AUDIT} --repair --allow recorded-nova"
UNDO = "placement plan undo undo.json --allow recorded-nova"
AGENT = "NIC Switch agent"
CONFIG = """\
meta: {schema_version: '1.0'}
providers:
- identification: {uuid: $COMPUTE_NODE}
  traits: {additional: [CUSTOM_RACK_A]}
- identification: {name: two}
  inventories:
    additional:
    - CUSTOM_X: {total: 8}
"""
OWNED = ["COMPUTE_NODE", "OWNER_NOVA"]
#: ``one`` is disabled, ``two`` lacks its owner and has the provider of the agent of ``one``, and
#: nobody has configured a class and a trait of ``three``. Ironic reports the class of ``metal``.
WRONG = testing.Cloud("nova-{}")
WRONG.compute("one", service={"status": "disabled"}, traits=[*OWNED, "CUSTOM_RACK_A"], VCPU=8)
WRONG.compute("two", traits=["COMPUTE_NODE"], VCPU=8, CUSTOM_X=8)
WRONG.compute("three", traits=[*OWNED, "CUSTOM_PHYSNET_A"], VCPU=8, CUSTOM_X=8)
WRONG.host("metal", traits=OWNED, CUSTOM_GOLD=1).node("metal", hypervisor_type="ironic", vcpus=1)
WRONG.child("two", f"nova-one:{AGENT}").child("two", f"nova-one:{AGENT}:ens1")
CONFIGURED = {"resource_provider_bandwidths": {"ens1": {"egress": 1, "ingress": 1}}}
AGENTS = {
    "GET /v2.0/agents": {
        "agents": [{"host": "nova-one", "agent_type": AGENT, "configurations": CONFIGURED}]
    }
}

ONLY = f"{AUDIT} --only pci-device-out-of-spec"
ADDRESSES = ("0000:84:00.0", "0000:90:00.0", "0000:a0:00.0")
DEVICES = [f"node_{address}" for address in ADDRESSES]
PCI = testing.Cloud("nova-{}").compute("node", traits=["COMPUTE_NODE"])
for name in DEVICES:
    PCI.child("node", name, PGPU=1, traits=["COMPUTE_MANAGED_PCI_DEVICE"])
PCI.server("server", {name: {"PGPU": 1} for name in DEVICES[:2]})
STATES = {
    "wrong": State(WRONG, AGENTS, files={"provider.yaml": CONFIG}),
    "repaired": State(WRONG, AGENTS, before=[f"{REPAIR} --undo-out undo.json"]),
    # The configuration has the second device, and the third one is free.
    "pci devices": State(
        PCI,
        {"GET /v2.0/agents": {"agents": []}},
        files={
            "nova.conf": '[pci]\ndevice_spec = {"address": "0000:90:00.0"}\n',
            "wrong.conf": "[pci]\ndevice_spec = none\n",
        },
    ),
}
UNCHECKED = "3 PCI devices: --nova-conf "
MISPLACED = {"code": "agent-wrong-host", "name": f"nova-one:{AGENT}"}
LACKING = {"code": "missing-owner", "name": "two", "hosts": ["nova-two"]}
STATUS = {"code": "wrong-status", "name": "one", "cause": "service-status"}


def unconfigured(what: str, name: str) -> dict[str, object]:
    return {"code": f"unconfigured-{what}", "name": "three", "evidence": {"names": [name]}}


def ended(status: str) -> list[dict[str, object]]:
    """The findings with the status of their repairs."""
    repaired: list[dict[str, object]] = [
        {**finding, "status": status} for finding in (LACKING, STATUS)
    ]
    return [{**MISPLACED, "status": "skipped"}, *repaired]


UNCONFIGURED = [unconfigured("inventory", "CUSTOM_X"), unconfigured("trait", "CUSTOM_PHYSNET_A")]
TABLE = [
    Row(AUDIT, "wrong", 3, [MISPLACED, LACKING, STATUS]),
    Row(f"{AUDIT} --provider-config provider.yaml", "wrong", 3,
        [MISPLACED, LACKING, *UNCONFIGURED, STATUS]),
    Row(f"{AUDIT} --skip-agents --host nova-one", "wrong", 3,
        [STATUS, {"code": "not-checked", "evidence": {"not_checked": ("the agents were not",)}}]),
    Row(f"{AUDIT} --only agent-wrong-host", "wrong", 0, [MISPLACED]),
    Row(f"{AUDIT} --only agent-wrong-host --strict", "wrong", 3, [MISPLACED]),
    Row(f"{AUDIT} --repair --dry-run", "wrong", 3,
        ended("planned"), unchanged=True),
    Row(REPAIR, "wrong", 9, ended("applied")),
    Row(AUDIT, "repaired", 0, [MISPLACED]),
    Row("resource provider trait list two", "repaired", 0, [..., {"name": "OWNER_NOVA"}]),
    Row(f"{UNDO}\n{AUDIT}", "repaired", 3, [MISPLACED, LACKING, STATUS]),
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

test_a_command_shows_what_its_row_says = checked(TABLE, STATES)


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
