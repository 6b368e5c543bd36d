# SPDX-License-Identifier: Apache-2.0
"""The provider audit: its requests, and what it reads of each provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import inventory
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api, pci
from osc_placement.workflows import findings
from osc_placement.workflows.context import ReadContext
from osc_placement.workflows.providers import audit, observe
from tests.support import embedded
from tests.support.clouds import compute_services

DEVICE = {"PCI_DEVICE": inventory.Inventory(total=1, reserved=1)}
INVENTORIES = "GET /resource_providers/{}/inventories"
TRAITS = "GET /resource_providers/{}/traits"
USAGES = "GET /resource_providers/{}/usages"
ALLOCATIONS = "GET /resource_providers/{}/allocations"
ONE_GPU = {"PGPU": inventory.Inventory(total=1)}


class Nova(nova_api.RecordedNova):
    """Nova that counts its requests."""

    def __init__(self, count: int, disabled: int = 0) -> None:
        hosts = [f"host-{number:03}" for number in range(count)]
        answers = compute_services.compute_hosts(
            ((host, host, embedded.uuid_of(host)) for host in hosts),
            {host: {"status": "disabled"} for host in hosts[:disabled]},
        )
        for item in answers["GET /v2.1/os-hypervisors/detail"]["hypervisors"]:
            item |= {"hypervisor_type": "QEMU", "hypervisor_version": 8002000}
            item |= {"vcpus": 32, "memory_mb": 65536}
        super().__init__(answers, "")
        self.requests: list[str] = []

    def ask(self, path: str, version: str) -> Any:
        self.requests.append(path.partition("?")[0])
        return super().ask(path, version)


class Neutron(neutron_api.RecordedNeutron):
    """Neutron that counts its requests."""

    def __init__(self) -> None:
        super().__init__({"GET /v2.0/agents": {"agents": []}}, "")
        self.requests: list[str] = []

    def ask(self, path: str) -> Any:
        self.requests.append(path)
        return super().ask(path)


def device(name: str) -> embedded.Host:
    return embedded.Host(name, ("HW_PCI_ONE_TIME_USE",), inventories=DEVICE)


def audited(
    client: embedded.Client, nova: Nova, neutron: Any = None, **fields: Any
) -> findings.AuditResult[Mapping[str, bool]]:
    request = observe.ProviderAuditRequest(**fields)
    return audit.audit_providers(client, nova, neutron, request, ReadContext())


@pytest.mark.parametrize("count", [3, 40])
def test_no_provider_needs_more_than_two_requests(count: int) -> None:
    devices = [device(f"device-{number}") for number in range(count)]
    client = embedded.Client([*embedded.hosts(count), *devices])
    nova, neutron = Nova(count), Neutron()
    found = audited(client, nova, neutron, repair=True).findings
    assert [item.code for item in found] == ["used-up"] * count
    assert client.count() == {
        "GET /resource_providers": 5,
        INVENTORIES: 2 * count,
        TRAITS: count,
        USAGES: count,
    }
    assert nova.requests == ["/os-services", "/os-hypervisors/detail"]
    assert neutron.requests == ["/agents"]


def test_a_repair_needs_no_further_read() -> None:
    client = embedded.Client(embedded.hosts(3))
    planned = audited(client, Nova(3, disabled=1), repair=True).planned
    (changed,) = planned.plan.changes
    assert changed.after.present == {"COMPUTE_STATUS_DISABLED": True}
    assert changed.key in planned.known
    assert not audited(client, Nova(3, disabled=1)).planned.plan.changes


def test_a_provider_that_cannot_be_read_is_unknown_and_the_others_are_audited() -> None:
    client = embedded.Client([*embedded.hosts(3), device("device")])
    failing = embedded.at(INVENTORIES, embedded.about("host-001", embedded.refuse(404, "gone")))
    client.before(failing)
    result = audited(client, Nova(3), Neutron())
    assert [(item.code, item.subject.name) for item in result.findings] == [
        ("used-up", "device"),
        ("unknown", "host-001"),
    ]


def test_the_answer_says_what_was_not_judged() -> None:
    nova = Nova(2)
    client = embedded.Client(embedded.hosts(2))
    assert audited(client, nova, Neutron()).not_judged == []
    nova.recorded["GET /v2.1/os-hypervisors/detail"]["hypervisors"][:] = [
        {key: value for key, value in item.items() if key not in ("vcpus", "memory_mb")}
        for item in nova.recorded["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    ]
    texts = audited(client, nova).not_judged
    assert [text.partition(":")[0] for text in texts] == [
        "providers of neutron's agents",
        "totals",
    ]
    # What the selected codes do not depend on is not listed.
    assert audited(client, nova, only=frozenset({"wrong-status"})).not_judged == []


def test_an_incomplete_recording_is_an_error() -> None:
    client = embedded.Client(embedded.hosts(1))
    nova = nova_api.RecordedNova({}, "an empty recording")
    with pytest.raises(errors.PlacementError, match="os-services"):
        audit.audit_providers(client, nova, None, observe.ProviderAuditRequest(), ReadContext())


def test_sev_es_in_use_is_read_on_hosts_with_sev_snp_only() -> None:
    contexts = {"MEM_ENCRYPTION_CONTEXT": inventory.Inventory(total=8)}
    both = ("HW_CPU_X86_AMD_SEV_ES", "HW_CPU_X86_AMD_SEV_SNP")
    used = {"MEM_ENCRYPTION_CONTEXT": 3}
    servers = [
        embedded.Host("with-snp", both, used=used, inventories=contexts),
        embedded.Host("unused", both, inventories=contexts),
        embedded.Host("without-snp", both[:1], used=used, inventories=contexts),
    ]
    client = embedded.Client([*embedded.hosts(2), *servers])
    found = audited(client, Nova(2)).findings
    assert [(item.code, item.subject.name) for item in found] == [("sev-es-with-snp", "with-snp")]
    assert found[0].evidence.fields == {"contexts": 3}
    assert client.count()[USAGES] == 2


def test_allocations_are_read_of_unmatched_devices_only() -> None:
    managed, used = ("COMPUTE_MANAGED_PCI_DEVICE",), {"PGPU": 1}
    devices = [
        embedded.Host(f"h_0000:{bus}:00.0", managed, used=used, inventories=ONE_GPU)
        for bus in ("84", "85", "a0")
    ]
    client = embedded.Client([*embedded.hosts(2), *devices])
    without = audited(client, Nova(2))
    assert not without.findings
    assert any(text.startswith("3 PCI devices: --nova-conf ") for text in without.not_judged)
    assert not client.count()[ALLOCATIONS]
    specs = pci.parse('[{"address": "0000:84:00.0"}, {"address": "0000:a0:00.*", "product_id": 1}]')
    found = audited(client, Nova(2), pci=pci.PciConfiguration("nova.conf", tuple(specs)))
    assert [(item.code, item.subject.name) for item in found.findings] == [
        ("pci-device-out-of-spec", "h_0000:85:00.0")
    ]
    assert len(found.findings[0].evidence.fields["consumers"]) == 1
    assert client.count()[ALLOCATIONS] == 2
    assert any(text.startswith("h_0000:a0:00.0: in use") for text in found.not_judged)
    empty = audited(client, Nova(2), pci=pci.PciConfiguration("nova.conf", None))
    assert not empty.findings
    assert any("has no [pci]device_spec" in note for note in empty.not_judged)
