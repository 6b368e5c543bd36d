# SPDX-License-Identifier: Apache-2.0
"""The provider audit: its checks on small snapshots, its requests, and what it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.client import responses
from osc_placement.model import inventory, provider
from osc_placement.neutron import api as neutron_api
from osc_placement.neutron.api import Agent
from osc_placement.nova import api as nova_api, pci, values
from osc_placement.workflows.cloud.cloud import Cloud
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair import findings
from osc_placement.workflows.repair.providers import audit, devices, identity, observe
from osc_placement.workflows.repair.providers.observe import AuditedCloud
from tests.support import embedded

QEMU = ("QEMU", 8002000)
REPORTED = {"VCPU": 64, "MEMORY_MB": 1000, "DISK_GB": 100}
HEALTHY = frozenset({"COMPUTE_NODE", "OWNER_NOVA", "COMPUTE_TRUSTED_CERTS"})


def offered(**totals: int) -> dict[str, inventory.Inventory]:
    return {name: inventory.Inventory(total=total) for name, total in totals.items()}


def item(name: str, parent: str | None = None, uuid: str | None = None) -> provider.Provider:
    own = uuid or f"u-{name}"
    return provider.Provider(
        own, name, 1, f"u-{parent}" if parent else own, parent and f"u-{parent}"
    )


def cloud(count: int = 4, **fields: Any) -> Cloud:
    """Equal hosts ``h0.example``, ...; ``fields`` replace fields of the snapshot."""
    names = [f"h{number}.example" for number in range(count)]
    nodes = tuple(
        values.ComputeNode(
            f"u-{name}", name, name.partition(".")[0], resources=REPORTED, hypervisor=QEMU
        )
        for name in names
    )
    services = tuple(values.ComputeService(node.host) for node in nodes)
    snapshot = Cloud(
        values.Hosts(nodes, services),
        provider.by_uuid(item(name) for name in names),
        inventories={f"u-{name}": offered(**REPORTED) for name in names},
        traits={f"u-{name}": HEALTHY for name in names},
    )
    return dataclasses.replace(snapshot, **fields)


def codes(snapshot: Cloud | AuditedCloud) -> list[tuple[str, str]]:
    audited = snapshot if isinstance(snapshot, AuditedCloud) else AuditedCloud(snapshot)
    return [(finding.code, finding.subject.name) for finding in audit.find(audited)]


def with_host(snapshot: Cloud, **fields: Any) -> Cloud:
    hosts = dataclasses.replace(snapshot.hosts, **fields)
    return dataclasses.replace(snapshot, hosts=hosts)


def with_inventory(totals: dict[str, int], **fields: Any) -> Cloud:
    snapshot = cloud(**fields)
    inventories = {**snapshot.inventories, "u-h0.example": offered(**totals)}
    return dataclasses.replace(snapshot, inventories=inventories)


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
    expected = [(code, "h0.example")] if code else []
    assert codes(with_inventory(totals)) == expected


def test_totals_of_a_tree_count_together() -> None:
    snapshot = with_inventory({"MEMORY_MB": 1000, "DISK_GB": 100})
    numa = [item(f"numa{number}", parent="h0.example") for number in range(2)]
    snapshot = dataclasses.replace(
        snapshot,
        providers=provider.by_uuid([*snapshot.providers.values(), *numa]),
        inventories={**snapshot.inventories, **{node.uuid: offered(VCPU=32) for node in numa}},
    )
    assert codes(snapshot) == []


def test_other_hypervisors_are_not_compared() -> None:
    snapshot = with_inventory({"VCPU": 1})
    nodes = tuple(
        dataclasses.replace(node, hypervisor=("VMware vCenter Server", 8))
        for node in snapshot.hosts.nodes
    )
    assert codes(with_host(snapshot, nodes=nodes)) == []


def with_service(snapshot: Cloud, **fields: Any) -> Cloud:
    """The snapshot with other fields of the service of ``h1``."""
    services = tuple(
        dataclasses.replace(service, **fields) if service.host == "h1" else service
        for service in snapshot.hosts.compute_services
    )
    return with_host(snapshot, compute_services=services)


def test_the_status_trait_follows_the_service() -> None:
    snapshot = cloud()
    disabled = with_service(snapshot, is_enabled=False)
    assert codes(disabled) == [("wrong-status", "h1.example")]
    traits = {**snapshot.traits, "u-h1.example": HEALTHY | {"COMPUTE_STATUS_DISABLED"}}
    marked = dataclasses.replace(snapshot, traits=traits)
    assert codes(marked) == [("wrong-status", "h1.example")]
    assert codes(dataclasses.replace(disabled, traits=traits)) == []
    assert codes(with_service(marked, is_reachable=False)) == []


def test_owners_and_driver_traits_are_compared_with_similar_hosts() -> None:
    snapshot = cloud()
    none = dict.fromkeys(snapshot.traits, HEALTHY - {"OWNER_NOVA"})
    assert codes(dataclasses.replace(snapshot, traits=none)) == []
    traits = {**snapshot.traits, "u-h0.example": frozenset({"OWNER_NOVA", "COMPUTE_NODE"})}
    assert codes(dataclasses.replace(snapshot, traits=traits)) == [("missing-trait", "h0.example")]
    two = {**traits, "u-h1.example": traits["u-h0.example"]}
    assert codes(dataclasses.replace(snapshot, traits=two)) == []
    hardware = {**snapshot.traits, "u-h0.example": HEALTHY | {"HW_CPU_X86_AVX2"}}
    assert codes(dataclasses.replace(snapshot, traits=hardware)) == []


def test_names_and_uuids_are_compared() -> None:
    snapshot = cloud(2)
    others = [*snapshot.providers.values()][1:]

    def of(*items: provider.Provider) -> list[tuple[str, str]]:
        return codes(dataclasses.replace(snapshot, providers=provider.by_uuid(items)))

    assert of(item("old", uuid="u-h0.example"), *others) == [("other-name", "old")]
    problems = of(item("h0.example", uuid="other"), *others)
    assert problems == [("other-uuid", "h0.example")]
    gone = of(*others)
    assert gone == [("missing-provider", "h0.example")]


def test_two_compute_nodes_of_one_name_share_no_provider() -> None:
    snapshot = cloud(2)
    twin = values.ComputeNode("u-twin", "h0.example", "twin")
    twins = with_host(snapshot, nodes=(*snapshot.hosts.nodes, twin))
    audited = AuditedCloud(twins)
    (finding,) = identity.find_identity(audited)
    assert (finding.code, finding.subject.uuid, finding.hosts) == (
        "missing-provider",
        "u-twin",
        ("twin",),
    )
    assert "two compute nodes of this name, and h0 has the provider" in finding.evidence.text
    assert [node.node.uuid for node in audited.host_nodes] == ["u-h0.example", "u-h1.example"]


def test_a_short_name_is_double_and_another_domain_is_not() -> None:
    snapshot = cloud(2)
    for name, expected in (("h0", [("double-provider", "h0")]), ("h0.elsewhere", [])):
        providers = provider.by_uuid([*snapshot.providers.values(), item(name)])
        assert codes(dataclasses.replace(snapshot, providers=providers)) == expected


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
    snapshot = cloud()
    own = item("h0:NIC Switch agent", parent=parent)
    snapshot = dataclasses.replace(
        snapshot,
        providers=provider.by_uuid([*snapshot.providers.values(), own]),
        inventories={**snapshot.inventories, own.uuid: {}},
        agents=[Agent("h0", "NIC Switch agent", hypervisors), Agent("h1", "NIC Switch agent")],
    )
    assert codes(snapshot) == ([(code, own.name)] if code else [])


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
    snapshot = cloud(2)
    own = item("h1:T", parent="h1.example")
    device = item("h1:T:ens2", parent="h1.example")
    added = {own.uuid: {}, device.uuid: {}}
    snapshot = dataclasses.replace(
        snapshot,
        providers=provider.by_uuid([*snapshot.providers.values(), own, device]),
        inventories={**snapshot.inventories, **added},
        agents=[agent],
    )
    agents = list(devices.find_agents(AuditedCloud(snapshot)))
    assert [finding.code for finding in agents] == ([code] if code else [])
    assert all(text in finding.evidence.text for finding in agents), agents
    down = with_host(snapshot, unreachable=frozenset({"h5"}))
    assert "agent-other-name" not in [
        agent.code for agent in devices.find_agents(AuditedCloud(down))
    ]


def with_stray(**fields: Any) -> Cloud:
    """A cloud with one more root provider, ``gone.example``."""
    healthy = cloud()
    hosts = dataclasses.replace(healthy.hosts, **fields.pop("hosts", {}))
    return dataclasses.replace(
        healthy,
        hosts=hosts,
        providers=provider.by_uuid([*healthy.providers.values(), item("gone.example")]),
        **fields,
    )


COMPUTE = {"COMPUTE_NODE": frozenset({"u-gone.example"})}
LIKE_A_HOST = {**cloud().inventories, "u-gone.example": offered(VCPU=4)}
SHARE = {**cloud().inventories, "u-gone.example": offered(DISK_GB=4)}


@pytest.mark.parametrize(
    ("fields", "code", "action"),
    [
        ({"with_trait": COMPUTE}, "stale-provider", "repair-consumers"),
        ({"inventories": LIKE_A_HOST}, "unknown", "identify-service"),
        (
            {"with_trait": COMPUTE, "hosts": {"services": frozenset({"gone"})}},
            "unknown",
            "discover-hosts",
        ),
    ],
    ids=["compute", "like-a-host", "undiscovered"],
)
def test_a_root_without_a_compute_node_is_found(
    fields: dict[str, Any], code: str, action: str
) -> None:
    (finding,) = audit.find(AuditedCloud(with_stray(**fields)))
    assert (finding.code, str(finding.proposed.action)) == (code, action)
    assert finding.subject.name == "gone.example"


def test_a_root_of_another_service_is_no_finding() -> None:
    assert not codes(with_stray(inventories=SHARE))


def test_no_root_is_judged_while_a_cell_is_down() -> None:
    assert not codes(with_stray(with_trait=COMPUTE, hosts={"unreachable": frozenset({"c9"})}))


def test_sev_es_guests_beside_snp_are_found() -> None:
    hosts = frozenset({"u-h0.example", "u-h1.example"})
    traits = {"HW_CPU_X86_AMD_SEV_ES": hosts, "HW_CPU_X86_AMD_SEV_SNP": hosts}
    usages = {"u-h0.example": {"MEM_ENCRYPTION_CONTEXT": 2}, "u-h1.example": {}}
    assert codes(cloud(with_trait=traits, usages=usages)) == [("sev-es-with-snp", "h0.example")]
    assert codes(cloud(with_trait={"HW_CPU_X86_AMD_SEV_ES": hosts}, usages=usages)) == []


def held_by(*consumers: str) -> responses.ProviderAllocations:
    """The allocations of one device."""
    share = responses.ProviderAllocation({"CUSTOM_PCI_10DE_20B0": 1}, 1)
    return responses.ProviderAllocations(1, dict.fromkeys(consumers, share))


CONFIGURED = pci.PciConfiguration("nova.conf", tuple(pci.parse('{"address": "0000:90:00.0"}')))


def with_device(
    pci_of_host: pci.PciConfiguration | None = CONFIGURED, **fields: Any
) -> AuditedCloud:
    """A cloud with one PCI device on h0, in use by consumer ``c1``; nova.conf has bus 90 only."""
    healthy = cloud()
    device = item("h0.example_0000:84:00.0", parent="h0.example")
    defaults = {
        "providers": provider.by_uuid([*healthy.providers.values(), device]),
        "inventories": {**healthy.inventories, device.uuid: offered(CUSTOM_PCI_10DE_20B0=1)},
        "with_trait": {pci.MANAGED: frozenset({device.uuid})},
        "held": {device.uuid: held_by("c1")},
    }
    return AuditedCloud(dataclasses.replace(healthy, **{**defaults, **fields}), pci_of_host)


def test_a_device_out_of_spec_and_in_use_is_found_with_its_consumer() -> None:
    (finding,) = audit.find(with_device())
    assert (finding.code, finding.hosts) == ("pci-device-out-of-spec", ("h0",))
    assert finding.subject.name == "h0.example_0000:84:00.0"
    assert finding.evidence.fields == {"consumers": ["c1"]}
    assert "c1" in finding.evidence.text
    assert not finding.is_repairable


@pytest.mark.parametrize(
    "fields",
    [
        {"pci_of_host": None},
        {"pci_of_host": pci.PciConfiguration("nova.conf", None)},
        {"pci_of_host": pci.PciConfiguration("nova.conf", tuple(pci.parse('{"devname": "ens1"}')))},
        {"pci_of_host": pci.PciConfiguration("nova.conf", tuple(pci.parse("{}")))},
        {"pci_of_host": pci.PciConfiguration("nova.conf", (), host="h1")},
        {"held": {"u-h0.example_0000:84:00.0": held_by()}},
    ],
    ids=["no-file", "no-spec", "devname", "matches", "other-host", "unused"],
)
def test_other_devices_are_no_finding(fields: dict[str, Any]) -> None:
    assert codes(with_device(**fields)) == []


def test_a_file_of_one_host_judges_its_devices() -> None:
    own = pci.PciConfiguration("nova.conf", (), host="h0")
    assert codes(with_device(own)) == [("pci-device-out-of-spec", "h0.example_0000:84:00.0")]


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
