# SPDX-License-Identifier: Apache-2.0
"""The checks before an upgrade: each result has its case and its neighbour."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement import errors, testing
from osc_placement.engine import state
from osc_placement.microversion import Microversion
from osc_placement.model import inventory
from osc_placement.model.candidate import CandidateQuery, RequestGroup
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api, compute_options, flavor, flavors, pci, values
from osc_placement.scheduling import nova_options, releases, request, traits
from osc_placement.scheduling.case import Case, Facts
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.cloud import observe
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.cloud.host_verdicts import HostVerdicts
from osc_placement.workflows.cloud.hosts import HostSearch
from osc_placement.workflows.health import health, upgrade, upgrade_checks, upgrade_requests
from osc_placement.workflows.health.upgrade_checks import Outcome
from osc_placement.workflows.health.upgrade_requests import ReleaseStep, Workload
from osc_placement.workflows.repair import status
from tests.support import embedded
from tests.support.candidates import clouds
from tests.support.clouds import read

UUID = "00000000-0000-4000-8000-{:012}"
OPTIONS = nova_options.SchedulerOptions()
NOT_READ = ServerHosts()
CONTEXT = "MEM_ENCRYPTION_CONTEXT"
TPM = {"hw:tpm_version": "2.0"}
TPM_TRAITS = ("COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS")
USER = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
STATELESS = {"hw_firmware_stateless": "true", "hw_firmware_type": "uefi"}


def step(old: int, new: int) -> ReleaseStep:
    return ReleaseStep(old, new, OPTIONS)


def hosts(*traits_of: tuple[str, ...], **more: int) -> state.CloudState:
    """Flat hosts with these traits, and with more inventories."""
    return clouds.cloud(
        *(
            clouds.provider(
                UUID.format(number), traits=" ".join(names), VCPU=8, MEMORY_MB=4096, **more
            )
            for number, names in enumerate(traits_of)
        )
    )


def workload(specs: Mapping[str, str], image: Mapping[str, str] | None = None) -> Workload:
    spec = request.ServerSpec(flavor.Flavor(1, 64, 0, 0, 0, specs), "f", image=image)
    return Workload("flavor f", spec, ("flavor f",))


def change(
    base: state.CloudState, server: Workload, taken: ReleaseStep
) -> upgrade_requests.WorkloadChange:
    (pair,) = upgrade_requests.pairs([server], Facts(), NOT_READ, (), taken)
    return upgrade_requests.compare(base, pair, taken, HostVerdicts(base, NOT_READ))


@pytest.mark.parametrize(
    ("server", "having", "taken", "result", "text"),
    [
        (workload({}), ((),), (31, 34), "success", "1 flavor"),
        # A nova-compute of 33 writes the trait; until then there is no host.
        (workload(TPM), (TPM_TRAITS,), (32, 33), "warning", "until a nova-compute is upgraded"),
        (workload(TPM), ((*TPM_TRAITS, USER),), (32, 33), "success", "1 flavor"),
        # The rule came with 33: nothing changes from 33 to 34.
        (workload(TPM), (TPM_TRAITS,), (33, 34), "success", "1 flavor"),
        # The present release does not serve it either.
        (workload(TPM), ((),), (32, 33), "success", "1 flavor"),
        # 32 knows the model that 31 ignored, and its image needs no other property.
        (
            workload(
                {"hw:mem_encryption": "true", "hw:mem_encryption_model": "amd-bogus"},
                {"hw_firmware_type": "uefi"},
            ),
            ((),),
            (31, 32),
            "failure",
            "amd-bogus is not one of",
        ),
        (workload({}, STATELESS), ((),), (29, 30), "warning", "STATELESS_FIRMWARE"),
    ],
)
def test_a_flavor_is_compared_under_the_rules_of_both_releases(
    server: Workload,
    having: tuple[tuple[str, ...], ...],
    taken: tuple[int, int],
    result: str,
    text: str,
) -> None:
    outcome = upgrade_checks.workloads([change(hosts(*having), server, step(*taken))], {}, "flavor")
    assert (str(outcome.result), text in " ".join(outcome.details)) == (result, True), outcome


class Cyborg(Facts):
    """Cyborg has one device profile."""

    def with_profile(self, spec: request.ServerSpec) -> request.ServerSpec:
        name = spec.flavor.extra_specs["accel:device_profile"]
        if name != "dp":
            raise errors.InvalidInput([f"Cyborg has no device profile {name}"])
        return dataclasses.replace(spec, profile=[{"resources:FPGA": "1"}])


@pytest.mark.parametrize(("name", "classes"), [("dp", {"FPGA"}), ("gone", set())])
def test_both_releases_request_the_groups_of_a_device_profile(name: str, classes: set[str]) -> None:
    accelerated = workload({"accel:device_profile": name})
    pairs = upgrade_requests.pairs([accelerated], Cyborg(), NOT_READ, (), step(33, 34))
    requested = [observe.resource_classes([query]) for it in pairs for query in it.queries()]
    assert all(classes <= each for each in requested)
    assert bool(requested) is bool(classes)
    assert not any(it.new.requests[0].caveats.doubts for it in pairs)


@pytest.mark.parametrize(
    ("traits_of", "result", "lost"),
    [
        ([("HW_CPU_X86_AMD_SEV",), ()], "warning", "flavor f loses 1 of 2 hosts (cmp-1)"),
        ([(), ()], "failure", "flavor f loses its 2 hosts"),
    ],
)
def test_the_hosts_that_a_flavor_loses_are_named_with_the_reason(
    traits_of: Sequence[tuple[str, ...]], result: str, lost: str
) -> None:
    """A trait of the present release that only the new release requires is not coming."""
    specs = {"hw:mem_encryption": "true"}
    image = {"hw_firmware_type": "uefi"}
    base = hosts(*traits_of, **{CONTEXT: 4})
    names = {UUID.format(number): f"cmp-{number}" for number in range(2)}
    new = change(base, workload(specs, image), step(31, 32))
    outcome = upgrade_checks.workloads([new], names, "flavor")
    assert outcome.result == result
    assert outcome.details[0].startswith(f"{lost}: nova 32 requires HW_CPU_X86_AMD_SEV")
    only = change(hosts(("HW_CPU_X86_AMD_SEV",)), workload(specs, image), step(31, 32))
    assert not only.before
    assert not only.loses_all


PINNED = {"hw:cpu_policy": "dedicated", **TPM}


def test_the_second_query_for_pinned_cpus_counts() -> None:
    """The host has no PCPU: only nova's second query finds it, and 33 requires a trait in both."""
    new = change(hosts(TPM_TRAITS), workload(PINNED), step(32, 33))
    assert (len(new.before), len(new.after), new.waits) == (1, 1, True)
    kept = change(hosts((*TPM_TRAITS, USER)), workload(PINNED), step(32, 33))
    assert not kept.waits
    lost = change(hosts(TPM_TRAITS[:1]), workload(PINNED), step(29, 30))
    assert lost.waits


def test_servers_that_are_alike_are_one_workload_and_all_are_named() -> None:
    spec = request.ServerSpec(flavor.Flavor(1, 64, 0, 0, 0, TPM), "", image={})
    volume = request.ServerSpec(spec.flavor, "", from_volume=True)
    servers = [("a", spec), ("b", volume), ("c", spec), ("c", spec)]
    workloads = upgrade_requests.of_servers(servers)
    assert [item.name for item in workloads] == ["server a and 2 servers like it", "server b"]
    assert workloads[0].subjects == ("server a", "server c", "server c")
    outcome = upgrade_checks.without_images(Outcome.success("4 servers"), [s for _, s in servers])
    assert str(outcome.result) == "not checked"
    assert outcome.details[1].endswith("(1 server)")
    assert upgrade_checks.without_images(Outcome.success("1"), [spec]) == Outcome.success("1")


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({}, True),
        ({"has_tpm": True}, True),
        # The trait is not coming: the flavor loses its host.
        ({"has_tpm": False}, False),
        ({"tpm_secrets": frozenset({"host"})}, False),
        ({"tpm_secrets": frozenset({"user"})}, True),
    ],
)
def test_a_trait_that_the_given_nova_conf_withholds_is_not_coming(
    given: Mapping[str, Any], waits: bool
) -> None:
    compute = compute_options.ComputeOptions(PATH, **given)
    taken = ReleaseStep(32, 33, OPTIONS, compute)
    new = change(hosts(TPM_TRAITS), workload(TPM), taken)
    assert (new.waits, new.loses_all) == (waits, not waits)


DRAWN = (
    ("hw:cpu_policy", ("dedicated", "shared")),
    ("hw:tpm_version", ("1.2", "2.0")),
    ("hw:tpm_model", ("tpm-tis", "tpm-crb")),
    ("hw:tpm_secret_security", ("user", "host")),
    ("hw:virtio_packed_ring", ("true", "false")),
    ("hw:sound_model", ("virtio", "ich9")),
    ("hw:maxphysaddr_mode", ("emulate", "passthrough")),
    ("trait:CUSTOM_A", ("required", "forbidden")),
)


def serving(base: state.CloudState, asked: Case) -> set[str]:
    """The hosts that nova gets: those of all its queries."""
    return {uuid for query in asked.requests[0].queries for uuid in HostSearch(base, query).hosts()}


@pytest.mark.seeds(60, long=3000)
def test_hosts_after_an_upgrade_are_those_of_a_cloud_with_the_new_traits(seed: int) -> None:
    """``after`` beside the whole query on hosts to which the new traits were added."""
    draw = random.Random(seed)
    old, new = sorted(draw.sample(traits.RELEASES, 2))
    names = [*releases.WRITTEN_SINCE, *TPM_TRAITS, "COMPUTE_SECURITY_TPM_1_2", "CUSTOM_A"]
    having = [tuple(draw.sample(names, draw.randint(0, len(names)))) for _ in range(4)]
    specs = {key: draw.choice(texts) for key, texts in DRAWN if draw.random() < 0.4}
    found = upgrade_requests.pairs([workload(specs)], Facts(), NOT_READ, (), step(old, new))
    coming = releases.new_traits(old, new)
    for pair in found:
        base = hosts(*having)
        verdicts = HostVerdicts(base, NOT_READ)
        compared = upgrade_requests.compare(base, pair, step(old, new), verdicts)
        assert compared.before == serving(base, pair.old)
        if pair.new.why_no_request:
            assert compared.loses_all
            continue
        later = hosts(*((*item, *coming) for item in having))
        assert compared.after == compared.before & serving(later, pair.new)
        # The owner is required only when every nova-compute writes it.
        mixed = hosts(*((*item, traits.OWNER) for item in having))
        assert compared.meanwhile == compared.after & serving(mixed, pair.new)


A, B, CHILD = map(testing.uuid_of, ("a", "b", "sev"))
TWO = read.hosts(testing.Cloud().compute("a", "b"))
TREE = read.hosts(testing.Cloud().compute("a", "b").child("a", "sev"))
B_DOWN = read.hosts(testing.Cloud().compute("a").compute("b", service={"state": "down"}))
NODE_GONE = dataclasses.replace(
    B_DOWN, hosts=dataclasses.replace(B_DOWN.hosts, nodes=B_DOWN.hosts.nodes[:1])
)
CONTEXTS = {A: {CONTEXT: inventory.Inventory(4)}}
PATH = "nova.conf"
ONE_TIME = pci.parse('{"vendor_id": "10de", "one_time_use": "true"}')
NEITHER = pci.parse('{"one_time_use": "maybe"}')
OTHER = pci.parse('{"vendor_id": "10de"}')


def wide(devices: int, groups: int, taken: ReleaseStep) -> Outcome:
    """A tree with so many devices, and a flavor that requests so many."""
    kit = testing.Cloud().compute("a")
    for number in range(devices):
        kit.child("a", f"{number}", PGPU=1)
    tree = read.hosts(kit)
    offered = {uuid: tree.inventories[uuid] for uuid in tree.providers}
    query = CandidateQuery(tuple(RequestGroup(f"_{n}", {"PGPU": 1}) for n in range(groups)))
    return upgrade_checks.wide_trees(tree, offered, {"gpu": query}, taken)


def encryption(used: int, old: int, new: int, role: bool | str = True) -> Outcome:
    def has_role() -> bool:
        if isinstance(role, str):
            raise errors.PlacementError(role)
        return role

    used_of = {A: {CONTEXT: used}}
    return upgrade_checks.encryption(TWO, CONTEXTS, used_of, step(old, new), has_role)


def sev_es(used: int, new: int) -> Outcome:
    return upgrade_checks.sev_es(TREE, {CHILD}, {CHILD: {CONTEXT: used}}, step(32, new))


def one_time(
    specs: list[pci.DeviceSpec], *, reported: bool, old: int = 31, new: int = 34
) -> Outcome:
    configured = pci.PciConfiguration(PATH, tuple(specs), None, reported)
    return upgrade_checks.one_time_use(configured, step(old, new))


def hidden(result: str, text: str = "") -> Outcome:
    """The result of a check of servers of which one is hidden, or in a cell that is down."""
    server = values.Server("u", "vm", known=False, hidden=text)
    outcome = Outcome(upgrade_checks.Readiness(result), ("1 checked",), ("u",))
    return upgrade_checks.without_hidden(outcome, [server])


NO_TYPE = {"name": "a", "vendor_id": "10de", "product_id": "1eb8"}
DEVICE = {**NO_TYPE, "device_type": "type-PF"}


def configured(
    *aliases: Mapping[str, object],
    new: int = 34,
    in_placement: bool = False,
    host: str = "a",
    of_compute: bool = True,
) -> Outcome:
    """A nova.conf with these PCI aliases, and the name of a host."""
    named = nova_options.read_aliases(map(json.dumps, aliases))
    options = nova_options.SchedulerOptions(aliases=named, pci_in_placement=in_placement)
    compute = compute_options.ComputeOptions(PATH, host, is_of_compute=of_compute)
    return upgrade_checks.compute_options(TWO, ReleaseStep(27, new, options, compute))


def placement(highest: int) -> Outcome:
    versions = Microversion(1, 0), Microversion(1, highest)
    observed = status.CloudStatus("here", versions, versions[1], False, 1, 1, 0, 0, ())
    return upgrade_checks.placement_api(observed)


def qemu(*versions: int, new: int = 31) -> Outcome:
    kit = testing.Cloud()
    for number, version in enumerate(versions):
        kit.node(f"h{number}", hypervisor_type="QEMU", hypervisor_version=version)
    return upgrade_checks.hypervisors(read.hosts(kit), step(27, new))


SKIPS = ReleaseStep(31, 34, OPTIONS, compute_options.ComputeOptions("", skips_version_check=True))

KNOWN = frozenset(releases.WRITTEN_SINCE) | frozenset(releases.REQUIRED_SINCE)
IGB = "COMPUTE_NET_VIF_MODEL_IGB"


@pytest.mark.parametrize(
    ("outcome", "result", "text"),
    [
        (placement(36), "success", "1.0 to 1.36; nova needs 1.36"),
        (placement(35), "failure", "1.35"),
        (upgrade_checks.step(step(31, 34)), "failure", "upgrade to nova 33 (2026.1) first"),
        (upgrade_checks.step(step(29, 33)), "failure", "upgrade to nova 31 (2025.1) first"),
        (upgrade_checks.step(step(31, 33)), "success", "nova 31"),
        (upgrade_checks.step(step(33, 34)), "success", "nova 33"),
        # 2023.1, 2023.2 and 2024.1 have the same service version.
        (upgrade_checks.step(step(27, 31)), "warning", "upgrade to nova 29 (2024.1) first"),
        (upgrade_checks.step(step(28, 30)), "warning", "upgrade to nova 29 (2024.1) first"),
        (upgrade_checks.step(step(27, 29)), "success", "service version 66, the least is 66"),
        (
            upgrade_checks.step(step(30, 32)),
            "failure",
            "least is 68; upgrade to nova 31 (2025.1) first",
        ),
        (upgrade_checks.step(SKIPS), "warning", "first; nova 34 (2026.2) starts beside"),
        (configured(DEVICE), "success", "nothing stops a nova-compute"),
        (configured(DEVICE, DEVICE), "success", "nothing stops"),
        (configured(DEVICE, DEVICE, in_placement=True), "failure", "pci_in_placement allows one"),
        (configured(DEVICE, DEVICE | {"device_type": "type-VF"}), "failure", "device types differ"),
        (configured(DEVICE, DEVICE | {"device_type": "type-VF"}, new=30), "success", "nothing"),
        (configured(DEVICE, DEVICE | {"numa_policy": "socket"}), "failure", "NUMA policies differ"),
        (configured(DEVICE, DEVICE | {"numa_policy": "legacy"}), "success", "nothing stops"),
        (configured(DEVICE | {"color": "red"}), "failure", "nova does not know color"),
        (configured({"name": "a", "resource_class": "x"}), "failure", "no vendor_id"),
        (configured({"name": "a", "resource_class": "x"}, in_placement=True), "success", "nothing"),
        (configured(NO_TYPE, NO_TYPE), "failure", "is set 2 times: each needs a device_type"),
        (configured(NO_TYPE), "success", "nothing stops"),
        (configured(DEVICE | {"traits": ["HW_GPU"]}), "failure", "[pci]alias a: traits ['HW_GPU']"),
        (configured(host="gone"), "warning", "nova has no such host"),
        (configured(host="gone", of_compute=False), "not checked", "has no compute_driver"),
        (configured(of_compute=False), "not checked", "nova.conf of a compute host"),
        (
            upgrade_checks.compute_options(TWO, step(31, 34)),
            "not checked",
            "--nova-conf names the nova.conf of a compute host",
        ),
        (qemu(6_002_000, 8_000_000), "success", "2 hypervisors of QEMU 6.2.0 or later"),
        (qemu(6_002_000, 6_001_009), "failure", "h1: QEMU 6.1.9, the least is 6.2.0"),
        (qemu(6_001_009, new=30), "success", "QEMU 5.2.0 or later"),
        (qemu(0), "not checked", "0 hypervisors of QEMU"),
        (qemu(6_002_000, 0), "not checked", "h1: nova shows no version of QEMU"),
        (upgrade_checks.trait_names(KNOWN, step(33, 34)), "success", "4 new traits"),
        # Nova-compute of 31 writes it, and no flavor requires it.
        (upgrade_checks.trait_names(KNOWN - {IGB}, step(30, 31)), "warning", "os-traits 3.3.0"),
        (upgrade_checks.trait_names(KNOWN - {traits.OWNER}, step(33, 34)), "warning", "OWNER_NOVA"),
        (upgrade_checks.trait_names(KNOWN - {traits.OWNER}, step(32, 33)), "success", "6 new"),
        (upgrade_checks.one_release(TWO, {traits.OWNER: {A}}), "warning", "a has OWNER_NOVA"),
        (upgrade_checks.one_release(TREE, {traits.OWNER: {CHILD}}), "warning", "a has OWNER_NOVA"),
        (upgrade_checks.one_release(TWO, {traits.OWNER: {UUID.format(9)}}), "success", "2 hosts"),
        (
            upgrade_checks.computes(TWO, {traits.OWNER: {A}}, step(33, 34)),
            "success",
            "1 of 2 compute nodes",
        ),
        (upgrade_checks.computes(B_DOWN, {}, step(31, 32)), "warning", "b: nova-compute is not up"),
        (upgrade_checks.computes(NODE_GONE, {}, step(31, 32)), "warning", "b: nova-compute"),
        (encryption(4, 31, 32), "success", "4 of 4"),
        (encryption(4, 31, 32, role=False), "failure", "lacks the role service"),
        (encryption(4, 31, 32, role="no rights"), "warning", "of nova's user: no rights"),
        (encryption(5, 31, 32, role="no rights"), "failure", "Placement refuses this"),
        (encryption(5, 31, 34), "failure", "Placement refuses this"),
        (encryption(5, 32, 34), "success", "reshapes nothing"),
        (encryption(5, 30, 31), "success", "reshapes nothing"),
        (upgrade_checks.encryption(TWO, {}, {}, step(31, 32), bool), "success", "no host has"),
        (sev_es(2, 34), "warning", "a: 2 guests with SEV-ES"),
        (sev_es(0, 34), "success", "no guest"),
        (sev_es(2, 33), "success", "no SEV-SNP"),
        (one_time(ONE_TIME, reported=False), "failure", "nova-compute does not start"),
        (one_time(ONE_TIME, reported=True), "success", PATH),
        (one_time(OTHER, reported=False), "success", PATH),
        (one_time(ONE_TIME, reported=False, old=32), "failure", "nova-compute does not start"),
        (one_time(ONE_TIME, reported=False, old=30, new=31), "success", "has none"),
        (one_time(NEITHER, reported=True), "failure", "neither true nor false"),
        (upgrade_checks.one_time_use(None, step(32, 34)), "success", "already"),
        (upgrade_checks.one_time_use(None, step(31, 34)), "not checked", "--nova-conf"),
        (upgrade_checks.aliases({}, OPTIONS), "success", "no flavor"),
        (
            upgrade_checks.aliases({"g": ["a"]}, OPTIONS),
            "not checked",
            "g: --nova-conf",
        ),
        (
            upgrade_checks.aliases({"g": ["a"]}, nova_options.SchedulerOptions(aliases={})),
            "not checked",
            "without pci_in_placement",
        ),
        (
            upgrade_checks.aliases(
                {"g": ["a"]}, nova_options.SchedulerOptions(aliases={}, pci_in_placement=True)
            ),
            "success",
            "in the queries",
        ),
        (wide(8, 5, step(31, 34)), "warning", "optimize_for_wide_provider_trees in placement.conf"),
        (wide(8, 5, step(31, 32)), "warning", "max_allocation_candidates"),
        (wide(8, 5, step(29, 30)), "warning", "nothing against it before 2025.1"),
        (wide(4, 8, step(31, 34)), "warning", "65536 combinations of devices on a"),
        (wide(1, 8, step(31, 34)), "success", "no flavor"),
        (wide(7, 5, step(31, 34)), "success", "no flavor"),
        (wide(8, 4, step(31, 34)), "success", "no flavor"),
        (upgrade_checks.without_allocations([], 3), "success", "3 servers"),
        (upgrade_checks.host_aggregates([], 2), "success", "2 host aggregates"),
        (hidden("success"), "warning", "not checked: 1 server in cells that are down"),
        (hidden("failure"), "failure", "not checked: 1 server in cells that are down"),
        (hidden("success", "nova hides x"), "warning", "not checked: 1 server: nova hides x"),
    ],
)
def test_each_check_has_its_case_and_its_neighbour(
    outcome: Outcome, result: str, text: str
) -> None:
    assert (str(outcome.result), text in "; ".join(outcome.details)) == (result, True), outcome
    assert bool(outcome.subjects) or result in ("success", "not checked") or "first" in text


UNKNOWN = errors.NotKnown("nova shows no version")


def test_the_details_name_the_first_and_count_the_others() -> None:
    names = [f"h{number}" for number in range(5)]
    outcome = Outcome.of_lines(upgrade_checks.Readiness.WARNING, names, names, "do it")
    assert outcome.details == ("h0", "h1", "h2", "... and 2 more", "do it")
    assert outcome.subjects == names


@pytest.mark.parametrize(
    ("version", "old", "new", "answer"),
    [
        ("2.100", None, "2026.2", (31, 34)),
        ("2.100", "2025.2", "34", (32, 34)),
        ("2.103", None, "2026.2", (33, 34)),
        (UNKNOWN, "31", "2026.1", (31, 33)),
        (UNKNOWN, None, "2026.2", "nova shows no version: give --from"),
        ("2.100", None, "2027.1", "--to: '2027.1' is not a known release"),
        ("2.100", "bexar", "2026.2", "--from: 'bexar'"),
        ("2.103", None, "2025.2", "--to 2025.2: it is not newer than nova 33 (2026.1)"),
        ("2.104", None, "2026.2", "it is not newer"),
        # nova-api is upgraded, and nova-computes are not.
        ("2.104", "2025.1", "2026.2", "nova-api is nova 34 (2026.2) (compute API 2.104)"),
    ],
)
def test_the_step_is_that_of_the_options_and_of_the_api(
    version: str | errors.NotKnown, old: str | None, new: str, answer: tuple[int, int] | str
) -> None:
    if isinstance(answer, str):
        with pytest.raises(errors.InvalidInput) as raised:
            upgrade.step_of(version, old, new, OPTIONS)
        assert answer in str(raised.value)
    else:
        taken = upgrade.step_of(version, old, new, OPTIONS)
        assert (taken.old, taken.new) == answer


def checked(recorded: Mapping[str, object], client: embedded.Client) -> dict[str, Outcome]:
    nova = api.RecordedNova(recorded, "the sample")
    neutron = neutron_api.RecordedNeutron(recorded, "the sample")
    services = health.HealthServices(client, nova, neutron)
    reader = upgrade.UpgradeReader(
        services,
        lambda: flavors.RecordedGlance(nova),
        bool,
        step(31, 34),
        None,
        ReadContext(workers=1),
    )
    return {item.code: item.outcome for item in upgrade.check_upgrade(reader, services)}


def test_a_cloud_is_read_once() -> None:
    client = embedded.Client(load=testing.sample_cloud("12-hosts"))
    outcomes = checked(testing.sample_nova("12-hosts"), client)
    unread = [code for code, item in outcomes.items() if "not checked:" in " ".join(item.details)]
    assert unread == ["servers"]
    assert (
        outcomes["servers"].details[1].endswith("nova does not show their properties (3 servers)")
    )
    sent = [(item.method, item.path, item.query) for item in client.sent]
    assert len(sent) == len(set(sent)) == 118
    assert {item.method for item in client.sent} == {"GET"}
    assert len(outcomes["allocations"].subjects) == 81
    assert len(outcomes["host-aggregates"].subjects) == 14


@pytest.mark.parametrize(("vcpus", "result"), [(2, "warning"), (4, "success")])
def test_a_host_that_is_full_serves_up_to_its_max_unit_without_allocations(
    vcpus: int, result: str
) -> None:
    kit = testing.Cloud()
    kit.compute("h", traits=TPM_TRAITS, MEMORY_MB=4096, VCPU={"total": 8, "max_unit": 2})
    for number in range(4):
        kit.server(f"s{number}", {"h": {"VCPU": 2}})
    kit.flavor("f", vcpus=vcpus, ram=64, disk=0, extra_specs=TPM)
    outcome = checked(kit.nova(), embedded.Client(load=kit))["flavors"]
    assert str(outcome.result) == result, outcome


def test_what_cannot_be_read_is_a_warning_of_its_checks_alone() -> None:
    recorded = testing.sample_nova("12-hosts")
    del recorded["GET /v2.1/flavors/detail?is_public=None"]
    outcomes = checked(recorded, embedded.Client(load=testing.sample_cloud("12-hosts")))
    unread = {code for code, item in outcomes.items() if item.details[0].startswith("not checked:")}
    assert unread == {"flavors", "pci-aliases", "wide-trees"}
    assert {str(outcomes[code].result) for code in unread} == {"warning"}


def test_what_a_mirror_refuses_is_no_success() -> None:
    recorded = testing.sample_nova("12-hosts")
    (aggregate, *_) = recorded["GET /v2.1/os-aggregates"]["aggregates"]
    aggregate["hosts"] = ["unknown-host"]
    recorded["GET /v2.1/os-aggregates"]["aggregates"] = [aggregate]
    outcome = checked(recorded, embedded.Client(load=testing.sample_cloud("12-hosts")))[
        "host-aggregates"
    ]
    assert str(outcome.result) == "warning"
    assert "unknown-host" in "; ".join(outcome.details)


def test_images_are_read_page_by_page_to_the_end() -> None:
    class Glance:
        def __init__(self, *pages: Mapping[str, object]) -> None:
            self.pages, self.asked = list(pages), list[str]()

        def ask(self, path: str) -> object:
            self.asked.append(path)
            return self.pages[min(len(self.asked), len(self.pages)) - 1]

    first = {"images": [{"id": "1", "name": "a"}], "next": "/v2/images?limit=1000&marker=1"}
    glance = Glance(first, {"images": [{"id": "2", "hw_vif_model": "igb"}]})
    images = flavors.images(glance)
    assert [(item.name, dict(item.properties)) for item in images] == [
        ("a", {}), ("2", {"hw_vif_model": "igb"})
    ]  # fmt: skip
    assert glance.asked == ["/images?limit=1000", "/images?limit=1000&marker=1"]
    with pytest.raises(errors.PlacementError, match="has no end"):
        flavors.images(Glance(first))
