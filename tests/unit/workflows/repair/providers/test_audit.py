# SPDX-License-Identifier: Apache-2.0
"""The provider audit: its checks on small snapshots, its requests, and what it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.model import inventory
from osc_placement.neutron import api as neutron_api
from osc_placement.neutron.api import Agent
from osc_placement.nova import api as nova_api, pci
from osc_placement.testing import nova, uuid_of
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.providers import audit, devices, identity, observe
from osc_placement.workflows.repair.providers.observe import AuditedCloud
from tests.support import embedded

REPORTED = {"VCPU": 64, "MEMORY_MB": 1000, "DISK_GB": 100}
HEALTHY = frozenset({"COMPUTE_NODE", "OWNER_NOVA", "COMPUTE_TRUSTED_CERTS"})


HYPERVISOR = {"hypervisor_type": "QEMU", "hypervisor_version": 8002000, "vcpus": 64}
HYPERVISOR |= {"memory_mb": 1000, "local_gb": 100}


def add(
    kit: testing.Cloud,
    name: str,
    traits: Iterable[str] = HEALTHY,
    totals: Mapping[str, int] = REPORTED,
    **node: Any,
) -> testing.Cloud:
    """A host, whose name is that of its node without the domain."""
    shown = {"host": name.partition(".")[0], **HYPERVISOR, **node}
    return kit.host(name, traits=traits, **totals).node(name, **shown)


def cloud(count: int = 4, **first: Any) -> testing.Cloud:
    """Equal hosts ``h0.example``, ...; ``first`` are other options of the first one."""
    kit = testing.Cloud()
    for number in range(count):
        add(kit, f"h{number}.example", **({} if number else first))
    return kit


def read(
    kit: testing.Cloud, agents: Sequence[Agent] | None = None, *services: Any, **request: Any
) -> AuditedCloud:
    """What the product reads of the cloud; ``services`` are more of nova's."""
    client = testing.InProcessPlacement(load=kit).start().client()
    answers = kit.nova()
    answers["GET /v2.1/os-services"]["services"] += services
    recorded = nova_api.RecordedNova(answers, "")
    options = observe.ProviderAuditRequest(**request)
    audited = observe.read(client, recorded, None, options, ReadContext())
    audited.cloud.agents = agents
    return audited


def codes(kit: testing.Cloud, *agents: Agent, **request: Any) -> list[tuple[str, str]]:
    audited = read(kit, agents or None, **request)
    return [(finding.code, finding.subject.name) for finding in audit.find(audited)]


def test_equal_hosts_have_no_finding() -> None:
    assert codes(cloud()) == []


@pytest.mark.parametrize(
    ("totals", "code"),
    [
        ({"VCPU": 64, "MEMORY_MB": 1000}, None),
        ({"VCPU": 48, "PCPU": 16, "MEMORY_MB": 1000, "DISK_GB": 100}, None),
        ({"VCPU": 64, "PCPU": 16, "MEMORY_MB": 1000, "DISK_GB": 100}, None),
        ({"PCPU": 64, "MEMORY_MB": 1000, "DISK_GB": 100}, None),
        ({"VCPU": 60, "MEMORY_MB": 1000, "DISK_GB": 100}, "wrong-inventory"),
        ({"VCPU": 64, "MEMORY_MB": 1000, "DISK_GB": 90}, "wrong-inventory"),
        ({"VCPU": 64, "DISK_GB": 100}, "missing-inventory"),
        ({}, "missing-inventory"),
    ],
)
def test_totals_are_compared_with_the_hypervisor(totals: dict[str, int], code: str | None) -> None:
    assert codes(cloud(totals=totals)) == ([(code, "h0.example")] if code else [])


def test_a_wrong_total_is_shown_beside_that_of_the_hypervisor() -> None:
    (finding,) = audit.find(read(cloud(totals={**REPORTED, "VCPU": 60})))
    assert finding.evidence.fields == {"resources": {"VCPU": {"total": 60, "hypervisor": 64}}}


def test_totals_of_a_tree_count_together() -> None:
    kit = cloud(totals={"MEMORY_MB": 1000, "DISK_GB": 100})
    for name in ("numa0", "numa1"):
        kit.child("h0.example", name, VCPU=32)
    assert codes(kit) == []


def test_other_hypervisors_are_not_compared() -> None:
    kit = cloud(totals={"VCPU": 1}, hypervisor_type="VMware vCenter Server")
    assert codes(kit) == []


@pytest.mark.parametrize(
    ("service", "is_marked", "is_wrong"),
    [
        ({"status": "disabled"}, False, True),
        ({}, True, True),
        ({"status": "disabled"}, True, False),
        ({"status": "UNKNOWN"}, True, False),
    ],
)
def test_the_status_trait_follows_the_service(
    service: dict[str, str], is_marked: bool, is_wrong: bool
) -> None:
    traits = HEALTHY | ({"COMPUTE_STATUS_DISABLED"} if is_marked else frozenset())
    kit = cloud(service=service, traits=traits)
    assert codes(kit) == ([("wrong-status", "h0.example")] if is_wrong else [])


FEW = frozenset({"OWNER_NOVA", "COMPUTE_NODE"})


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        ([HEALTHY - {"OWNER_NOVA"}] * 4, []),
        ([HEALTHY - {"OWNER_NOVA"}, HEALTHY, HEALTHY, HEALTHY], [("missing-owner", "h0")]),
        ([FEW, HEALTHY, HEALTHY, HEALTHY], [("missing-trait", "h0")]),
        ([FEW, FEW, HEALTHY, HEALTHY], []),
        ([HEALTHY | {"HW_CPU_X86_AVX2"}, HEALTHY, HEALTHY, HEALTHY], []),
    ],
)
def test_owners_and_driver_traits_are_compared_with_similar_hosts(
    traits: list[frozenset[str]], expected: list[tuple[str, str]]
) -> None:
    kit = testing.Cloud()
    for number, of_host in enumerate(traits):
        add(kit, f"h{number}", of_host)
    assert codes(kit) == expected


def test_names_and_uuids_are_compared() -> None:
    def of(provider: str, uuid: str = "h0") -> list[tuple[str, str]]:
        kit = add(testing.Cloud(), "h1")
        if provider:
            kit.host(provider, traits=HEALTHY, **REPORTED)
        return codes(kit.node("h0", id=uuid_of(uuid), **HYPERVISOR))

    assert of("old", uuid="old") == [("other-name", "old")]
    assert of("h0", uuid="other") == [("other-uuid", "h0")]
    assert of("") == [("missing-provider", "h0")]


def test_two_compute_nodes_of_one_name_share_no_provider() -> None:
    audited = read(cloud(2).node("h0.example", "twin", id=uuid_of("twin"), **HYPERVISOR))
    (finding,) = identity.find_identity(audited)
    assert (finding.code, finding.subject.uuid, finding.hosts) == (
        "missing-provider",
        uuid_of("twin"),
        ("twin",),
    )
    assert "two compute nodes of this name, and h0 has the provider" in finding.evidence.text
    assert [item.node.hostname for item in audited.host_nodes] == ["h0.example", "h1.example"]


def test_a_short_name_is_double_and_another_domain_is_not() -> None:
    for name, expected in (("h0", [("double-provider", "h0")]), ("h0.elsewhere", [])):
        assert codes(cloud(2).host(name)) == expected


@pytest.mark.parametrize(
    ("parent", "hypervisors", "code"),
    [
        ("h0.example", {}, None),
        ("h1.example", {"ens1": "h1.example"}, None),
        ("h1.example", {}, "agent-wrong-host"),
        (None, {}, "agent-without-host"),
    ],
)
def test_an_agent_is_below_its_compute_node(
    parent: str | None, hypervisors: dict[str, str], code: str | None
) -> None:
    kit = cloud().host("h0:NIC Switch agent", parent=parent)
    agents = Agent("h0", "NIC Switch agent", hypervisors), Agent("h1", "NIC Switch agent")
    assert codes(kit, *agents) == ([(code, "h0:NIC Switch agent")] if code else [])


BANDWIDTH = frozenset({"ens1"})


@pytest.mark.parametrize(
    ("agent", "code", "text"),
    [
        (Agent("h0", "T", {"ens1": "h0.example"}, BANDWIDTH), "agent-without-provider", "no prov"),
        (Agent("h0", "T", {"ens1": "h0"}, BANDWIDTH), "agent-other-name", "nova has h0.example"),
        (Agent("h9", "T", {"ens1": "h9"}, BANDWIDTH), "agent-other-name", "no compute node"),
        (
            Agent("h0", "T", {}, frozenset(), frozenset({"h0.example"})),
            "agent-without-provider",
            "packet rates",
        ),
        (Agent("h0", "T", {}, frozenset(), frozenset({"h0"})), "agent-other-name", "packet rates"),
        # A device without a bandwidth has no inventory to report.
        (Agent("h0", "T", {"ens1": "h0"}), None, ""),
        # One with a provider of its own, and without one of its device.
        (
            Agent("h1", "T", {"ens1": "h1.example"}, BANDWIDTH),
            "agent-without-provider",
            "h1:T:ens1",
        ),
        (Agent("h1", "T", {"ens1": "h1.example"}, frozenset({"ens2"})), None, ""),
        (Agent("h1", "T", {}, frozenset(), frozenset({"h1.example"})), None, ""),
        (
            Agent("h1", "T", {}, frozenset(), frozenset({"h1.example"}), False),
            "agent-not-synced",
            "resources_synced",
        ),
        (Agent("h1", "T", {}, frozenset(), frozenset({"h1.example"}), True), None, ""),
    ],
)
def test_what_an_agent_reports_has_providers(agent: Agent, code: str | None, text: str) -> None:
    kit = cloud(2).child("h1.example", "h1:T").child("h1.example", "h1:T:ens2")
    agents = list(devices.find_agents(read(kit, [agent])))
    assert [finding.code for finding in agents] == ([code] if code else [])
    assert all(text in finding.evidence.text for finding in agents), agents
    down = read(kit.node("h5").cell_down("h5"), [agent])
    assert "agent-other-name" not in [item.code for item in devices.find_agents(down)]


def with_stray(*traits: str, **inventories: int) -> testing.Cloud:
    """A cloud with one more root provider, ``gone.example``."""
    return cloud().host("gone.example", traits=traits, **inventories)


@pytest.mark.parametrize(
    ("kit", "recorded", "code", "action"),
    [
        (with_stray("COMPUTE_NODE"), (), "stale-provider", "repair-consumers"),
        (with_stray(VCPU=4), (), "unknown", "identify-service"),
        (with_stray("COMPUTE_NODE"), (nova.service("gone"),), "unknown", "discover-hosts"),
    ],
    ids=["compute", "like-a-host", "undiscovered"],
)
def test_a_root_without_a_compute_node_is_found(
    kit: testing.Cloud, recorded: tuple[Any, ...], code: str, action: str
) -> None:
    (finding,) = audit.find(read(kit, None, *recorded))
    assert (finding.code, str(finding.proposed.action)) == (code, action)
    assert finding.subject.name == "gone.example"


def test_a_root_of_another_service_is_no_finding() -> None:
    assert not codes(with_stray(DISK_GB=4))


def test_no_root_is_judged_while_a_cell_is_down() -> None:
    assert not codes(with_stray("COMPUTE_NODE").node("c9").cell_down("c9"))


@pytest.mark.parametrize("has_snp", [True, False])
def test_sev_es_guests_beside_snp_are_found(has_snp: bool) -> None:
    traits = HEALTHY | {"HW_CPU_X86_AMD_SEV_ES"}
    traits |= {"HW_CPU_X86_AMD_SEV_SNP"} if has_snp else frozenset()
    kit = add(add(testing.Cloud(), "h0", traits), "h1", traits)
    kit.change("h0", MEM_ENCRYPTION_CONTEXT=8).change("h1", MEM_ENCRYPTION_CONTEXT=8)
    kit.server("guest", {"h0": {"MEM_ENCRYPTION_CONTEXT": 2}})
    assert codes(kit) == ([("sev-es-with-snp", "h0")] if has_snp else [])


GPU = "h0.example_0000:84:00.0"
OWNERS = ("OWNER_CYBORG", "OWNER_NOVA")
CONFIGURED = pci.PciConfiguration("nova.conf", tuple(pci.parse('{"address": "0000:90:00.0"}')))
GPU = "h0.example_0000:84:00.0"


def with_device(consumer: str = "c1") -> testing.Cloud:
    """A cloud with one PCI device on h0, in use by a consumer; nova.conf has bus 90 only."""
    kit = cloud().child("h0.example", GPU, traits=[pci.MANAGED], CUSTOM_PCI_10DE_20B0=1)
    return kit.server(consumer, {GPU: {"CUSTOM_PCI_10DE_20B0": 1}}) if consumer else kit


def test_a_device_out_of_spec_and_in_use_is_found_with_its_consumer() -> None:
    (finding,) = audit.find(read(with_device(), pci=CONFIGURED))
    assert (finding.code, finding.hosts) == ("pci-device-out-of-spec", ("h0",))
    assert finding.subject.name == GPU
    assert finding.evidence.fields == {"consumers": [uuid_of("c1")]}
    assert uuid_of("c1") in finding.evidence.text
    assert not finding.is_repairable


@pytest.mark.parametrize(
    ("configured", "consumer"),
    [
        (None, "c1"),
        (pci.PciConfiguration("nova.conf", None), "c1"),
        (pci.PciConfiguration("nova.conf", tuple(pci.parse('{"devname": "ens1"}'))), "c1"),
        (pci.PciConfiguration("nova.conf", tuple(pci.parse("{}"))), "c1"),
        (pci.PciConfiguration("nova.conf", (), host="h1"), "c1"),
        (CONFIGURED, ""),
    ],
    ids=["no-file", "no-spec", "devname", "matches", "other-host", "unused"],
)
def test_other_devices_are_no_finding(
    configured: pci.PciConfiguration | None, consumer: str
) -> None:
    assert codes(with_device(consumer), pci=configured) == []


def test_a_file_of_one_host_judges_its_devices() -> None:
    own = pci.PciConfiguration("nova.conf", (), host="h0")
    assert codes(with_device(), pci=own) == [("pci-device-out-of-spec", GPU)]


@pytest.mark.parametrize(
    ("other", "having", "found", "text"),
    [
        ("fpga_0000:84:00.0", (), "fpga_0000:84:00.0", f"nova offers the same device as {GPU}"),
        ("fpga_0000:85:00.0", (), "", ""),
        ("fpga", OWNERS, GPU, "it has the traits OWNER_CYBORG, OWNER_NOVA"),
        ("fpga", OWNERS[:1], "", ""),
    ],
)
def test_a_device_that_two_services_offer_is_found(
    other: str, having: tuple[str, ...], found: str, text: str
) -> None:
    kit = cloud().child("h0.example", GPU, CUSTOM_FPGA=1, traits=[pci.MANAGED, *having])
    listed = [*audit.find(read(kit.child("h0.example", other, CUSTOM_FPGA=1)))]
    assert [(it.code, it.subject.name) for it in listed] == [("two-owners", found)] * bool(found)
    assert all(it.evidence.text == text and it.hosts == ("h0",) for it in listed)


DEVICE = {"PCI_DEVICE": inventory.Inventory(total=1, reserved=1)}
INVENTORIES = "GET /resource_providers/{}/inventories"
USAGES = "GET /resource_providers/{}/usages"
ALLOCATIONS = "GET /resource_providers/{}/allocations"
ONE_GPU = {"PGPU": inventory.Inventory(total=1)}


class Nova(nova_api.RecordedNova):
    """Nova that counts its requests."""

    def __init__(self, count: int, disabled: int = 0) -> None:
        kit = testing.Cloud()
        shown = {"hypervisor_type": "QEMU", "hypervisor_version": 8002000}
        for number in range(count):
            service = {"status": "disabled"} if number < disabled else {}
            kit.node(f"host-{number:03}", service=service, vcpus=32, memory_mb=65536, **shown)
        super().__init__(kit.nova(), "")
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
    problems = audited(client, nova, neutron, repair=True).findings
    assert [item.code for item in problems] == ["used-up"] * count
    assert client.count() == {
        # All, of the traits that are in use, of three kinds of devices, and of two owners.
        "GET /resource_providers": 8,
        "GET /traits": 1,
        INVENTORIES: 2 * count,
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


def test_the_answer_says_what_was_not_checked() -> None:
    nova = Nova(2)
    client = embedded.Client(embedded.hosts(2))
    assert audited(client, nova, Neutron()).not_checked == []
    nova.recorded["GET /v2.1/os-hypervisors/detail"]["hypervisors"][:] = [
        {key: value for key, value in item.items() if key not in ("vcpus", "memory_mb")}
        for item in nova.recorded["GET /v2.1/os-hypervisors/detail"]["hypervisors"]
    ]
    texts = audited(client, nova).not_checked
    assert [text.partition(":")[0] for text in texts] == ["providers of neutron's agents", "totals"]
    # What the selected codes do not depend on is not listed.
    assert audited(client, nova, only=frozenset({"wrong-status"})).not_checked == []


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
    assert any(text.startswith("3 PCI devices: --nova-conf ") for text in without.not_checked)
    assert not client.count()[ALLOCATIONS]
    specs = pci.parse('[{"address": "0000:84:00.0"}, {"address": "0000:a0:00.*", "product_id": 1}]')
    result = audited(client, Nova(2), pci=pci.PciConfiguration("nova.conf", tuple(specs)))
    assert [(item.code, item.subject.name) for item in result.findings] == [
        ("pci-device-out-of-spec", "h_0000:85:00.0")
    ]
    assert len(result.findings[0].evidence.fields["consumers"]) == 1
    assert client.count()[ALLOCATIONS] == 2
    assert any(text.startswith("h_0000:a0:00.0: in use") for text in result.not_checked)
    empty = audited(client, Nova(2), pci=pci.PciConfiguration("nova.conf", None))
    assert not empty.findings
    assert any("has no [pci]device_spec" in note for note in empty.not_checked)
