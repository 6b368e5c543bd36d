# SPDX-License-Identifier: Apache-2.0
"""Each rule of nova: what it refuses, what it accepts, and what it says without a fact."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from osc_placement.neutron.api import Port
from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from osc_placement.scheduling import nova_options, request, verdict
from osc_placement.scheduling.answer import Answer, NotKnown, Verdict
from osc_placement.scheduling.case import Case, Facts, GroupMembers, Way
from osc_placement.scheduling.rule import Host, Rule
from osc_placement.scheduling.server_hosts import NOVA_NOT_READ, ServerHosts

SOURCE, TARGET, DOWN, SEVERAL = "source", "target", "down", "several"
TPM, SECRET = {"hw:tpm_version": "2.0"}, "hw:tpm_secret_security"
GROUP = values.ServerGroup("g", "web", "", ("s", "t"))
LARGE_PAGES = {"hw:mem_page_size": "large"}
DEVICE = {"pci_passthrough:alias": "gpu:1"}


class KnownFacts(Facts):
    """No host has a trait."""

    def __init__(self, *, has_share: bool = False) -> None:
        self._has_share = has_share

    def with_trait(self, trait: str) -> Collection[str]:
        return ()

    def has_share(self, server: values.Server) -> bool:
        return self._has_share


class Asked(NamedTuple):
    """A case, and a host about which the rule is asked."""

    case: Case
    host: Host


Kinds = Mapping[str, tuple[str, int]]


def compute_of(
    source: str = "up", kinds: Kinds = MappingProxyType({}), target: str = "up"
) -> ServerHosts:
    """The hosts; ``kinds`` are their hypervisors if not QEMU 8; a hidden one's cell is down."""
    states = {SOURCE: source, TARGET: target, DOWN: "off", SEVERAL: "up"}
    nodes = [
        values.ComputeNode(f"{name} {at}", name, name, hypervisor=kinds.get(name, ("QEMU", 8)))
        for name in (SOURCE, TARGET, DOWN, SEVERAL)
        for at in range(1 + (name == SEVERAL))
    ]
    services = tuple(
        values.ComputeService(name, is_up=state != "off", is_reachable=state != "hidden")
        for name, state in states.items()
    )
    return ServerHosts(values.Hosts(tuple(nodes), services))


def ask(
    way: Way = Way.LIVE_MIGRATE,
    host: str = TARGET,
    specs: Mapping[str, str] | None = None,
    old: Mapping[str, str] | None = None,
    metadata: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    server: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    compute: ServerHosts | None = None,
    servers: int | None = 0,
    **fields: Any,
) -> Asked:
    """A server on the source; ``specs`` are those of its flavor, ``old`` those before a resize.

    ``metadata`` is that of an aggregate of the host.
    """
    compute = compute or compute_of()
    flavor = Flavor(1, 1, 10, extra_specs=specs or {})
    own = {
        "host": SOURCE, "vm_state": "active", "power_state": 1, "flavor_name": "old",
        "flavor": Flavor(1, 1, 10, extra_specs=specs or {} if old is None else old),
        **(server or {}),
    }  # fmt: skip
    wanted = {"image": {}, "flavor_name": "new", "project_id": "p", "uuid": "s", **(spec or {})}
    aggregates = () if metadata is None else (
        values.HostAggregate("1", "a", "u", (host,), metadata),
    )  # fmt: skip
    case = Case(
        way,
        request.ServerSpec(**{"flavor": flavor, **wanted}),
        compute,
        fields.pop("releases", (34,)),
        nova_options.SchedulerOptions(**(options or {})),
        aggregates=aggregates,
        server=values.Server("s", **own),
        **{"facts": KnownFacts(), **fields},
    )
    root = f"{host} 0"
    return Asked(case, Host(root, host, compute.node(root), aggregates, servers))


class Row(NamedTuple):
    """None where nova shows too little for the rule to say no, or to say yes."""

    refused: Asked | None
    accepted: Asked | None
    unknown: Asked | None = None


UNREAD = ServerHosts()
NO_IMAGE = {"image": None}
ALIASES = {
    name: [nova_options.PciAlias("CUSTOM_GPU", is_live_migratable=name == "moves")]
    for name in ("gpu", "moves")
}
APART, TOGETHER = (
    GroupMembers(dataclasses.replace(GROUP, policy=policy), {"t": TARGET})
    for policy in ("anti-affinity", "affinity")
)
ISOLATED = {"isolated_hosts": frozenset({TARGET}), "isolated_images": frozenset("i")}
OF_OTHERS = ask(group=NotKnown("nova refuses"))

ROWS: Mapping[str, Row] = {
    # nova-api
    "CellUnreachable": Row(ask(server={"known": False}), ask()),
    "IronicServer": Row(ask(compute=compute_of(kinds={SOURCE: ("ironic", 1)})), ask()),
    "InstanceInvalidState: shelved": Row(
        ask(Way.UNSHELVE, target=TARGET, server={"vm_state": "shelved"}),
        ask(Way.UNSHELVE, server={"vm_state": "shelved"}),
    ),
    "InstanceInvalidState: vm_state": Row(ask(server={"vm_state": "stopped"}), ask()),
    "InstanceInvalidState: task_state": Row(ask(server={"task_state": "migrating"}), ask()),
    "NoHost": Row(ask(server={"host": None}), ask()),
    "NotLaunched": Row(ask(Way.EVACUATE, server={"launched": False}), ask(Way.EVACUATE)),
    "OperationNotSupportedForVTPM": Row(
        ask(specs=TPM), ask(specs={**TPM, SECRET: "host"}), ask(spec=NO_IMAGE, facts=Facts())
    ),
    "OperationNotSupportedForMemEncryption": Row(
        ask(specs={"hw:mem_encryption": "true"}), ask(), ask(spec=NO_IMAGE, facts=Facts())
    ),
    "ForbiddenWithAccelerators": Row(ask(specs={"accel:device_profile": "gpu"}), ask()),
    "ForbiddenWithShare": Row(
        ask(specs=LARGE_PAGES, facts=KnownFacts(has_share=True)),
        ask(specs=LARGE_PAGES),
        ask(facts=Facts()),
    ),
    "ForbiddenPortsWithAccelerator": Row(
        ask(spec={"ports": [Port("u", "port", "s", vnic_type="accelerator-direct")]}), ask()
    ),
    "OperationNotSupportedForVDPAInterface": Row(
        None,
        ask(releases=(27,)),
        ask(spec={"ports": [Port("u", "port", "s", vnic_type="vdpa")]}, releases=(27,)),
    ),
    "MigrationPreCheckError": Row(
        ask(specs=DEVICE, options={"aliases": ALIASES}),
        ask(specs={"pci_passthrough:alias": "moves:1"}, options={"aliases": ALIASES}),
        ask(specs=DEVICE),
    ),
    "InstanceInvalidState: power_state": Row(
        ask(server={"power_state": 4}), ask(), ask(server={"power_state": None})
    ),
    "ComputeServiceInUse": Row(
        ask(Way.EVACUATE),
        ask(Way.EVACUATE, compute=compute_of("off")),
        ask(Way.EVACUATE, compute=UNREAD),
    ),
    "ComputeServiceUnavailable": Row(ask(compute=compute_of("off")), ask(), ask(compute=UNREAD)),
    "CannotResizeToSameFlavor": Row(
        ask(Way.RESIZE, spec={"flavor_name": "old"}), ask(Way.RESIZE)
    ),
    "FlavorNotFound": Row(ask(Way.RESIZE, is_disabled=True), ask(Way.RESIZE)),
    "CannotResizeDisk": Row(
        ask(Way.RESIZE, spec={"flavor": Flavor(1, 1, 5)}),
        ask(Way.RESIZE, spec={"why_local_disk": "not recorded"}),
        ask(Way.RESIZE, spec={"flavor": Flavor(1, 1, 5), "why_local_disk": "not recorded"}),
    ),
    "OperationNotSupportedForVTPM: secret": Row(
        ask(Way.RESIZE, specs={**TPM, SECRET: "deployment"}, old=TPM),
        ask(Way.RESIZE, specs=TPM, old=TPM),
        ask(Way.RESIZE, specs={**TPM, SECRET: "deployment"}, old=TPM, releases=(33,)),
    ),
    "request": Row(ask(why_no_request="nova refuses the flavor"), ask()),
    # The filters
    "ComputeFilter": Row(ask(host=DOWN), ask(), ask(compute=UNREAD)),
    "AggregateInstanceExtraSpecsFilter": Row(
        ask(specs={"ssd": "true"}, metadata={"ssd": "false"}),
        ask(specs={"ssd": "true"}, metadata={"ssd": "true"}),
        ask(specs={"ssd": "true"}, metadata={})._replace(host=Host(listed=None)),
    ),
    "AggregateImagePropertiesIsolation": Row(
        ask(spec={"image": {"hw_disk_bus": "virtio"}}, metadata={"hw_disk_bus": "scsi"}),
        ask(metadata={"hw_disk_bus": "scsi"}),
        ask(spec=NO_IMAGE, metadata={"hw_disk_bus": "scsi"}),
    ),
    "AggregateMultiTenancyIsolation": Row(
        ask(metadata={"filter_tenant_id": "other"}),
        ask(metadata={"filter_tenant_id": "other,p"}),
        ask(metadata={"filter_tenant_id": "other"}, spec={"project_id": None}),
    ),
    "AggregateTypeAffinityFilter": Row(
        ask(metadata={"instance_type": "other"}),
        ask(metadata={"instance_type": "new"}),
        ask(metadata={"instance_type": "other"}, spec={"flavor_name": None}),
    ),
    "AggregateNumInstancesFilter": Row(
        ask(metadata={"max_instances_per_host": "2"}, servers=2),
        ask(metadata={"max_instances_per_host": "2"}, servers=1),
        ask(metadata={})._replace(host=Host(listed=None, servers=1)),
    ),
    "NumInstancesFilter": Row(
        ask(options={"max_instances_per_host": 2}, servers=2),
        ask(options={"max_instances_per_host": 2}, servers=1),
        ask(options={"max_instances_per_host": 2}, servers=None),
    ),
    "ServerGroupAntiAffinityFilter": Row(
        ask(group=APART), ask(group=APART, host=SEVERAL), OF_OTHERS
    ),
    "ServerGroupAffinityFilter": Row(
        ask(group=TOGETHER, host=SEVERAL), ask(group=TOGETHER), OF_OTHERS
    ),
    "ComputeCapabilitiesFilter": Row(
        ask(specs={"capabilities:hypervisor_type": "ironic"}),
        ask(specs={"capabilities:hypervisor_type": "QEMU"}),
        ask(specs={"capabilities:cpu_info:arch": "x86_64"}),
    ),
    "ImagePropertiesFilter": Row(None, ask(), ask(spec={"image": {"hw_architecture": "aarch64"}})),
    "NUMATopologyFilter": Row(None, ask(), ask(specs={"hw:numa_nodes": "2"})),
    "PciPassthroughFilter": Row(None, ask(), ask(specs=DEVICE)),
    "AggregateIoOpsFilter": Row(None, ask(), ask(metadata={"max_io_ops_per_host": "8"})),
    "AvailabilityZoneFilter": Row(
        None, ask(), ask(spec={"availability_zone": "az1"}, metadata={})
    ),
    "IoOpsFilter": Row(None, None, ask()),
    "IsolatedHostsFilter": Row(
        ask(options=ISOLATED),
        ask(options=ISOLATED, spec={"image_id": "i"}),
        ask(options=ISOLATED, spec={"image_id": "i"})._replace(host=Host(listed=None)),
    ),
    "MetricsFilter": Row(None, None, ask()),
    # The target
    "requested zone": Row(
        None, ask(), ask(server={"shows_zone": False}, metadata={"availability_zone": "az1"})
    ),
    "ignore_hosts": Row(ask(host=SOURCE), ask()),
    "several compute nodes": Row(
        ask(host=SEVERAL, target=SEVERAL), ask(target=TARGET)
    ),
    "ignore_hosts: hypervisor": Row(
        ask(compute=compute_of(kinds={TARGET: ("QEMU", 7)})), ask()
    ),
}  # fmt: skip

_BY_RULE = {rule.name: rule for rule in verdict.RULES}


def test_every_rule_has_a_row() -> None:
    assert len(_BY_RULE) == len(verdict.RULES)
    assert list(ROWS) == list(_BY_RULE)
    assert all(row.unknown for row in ROWS.values() if not (row.refused and row.accepted))


@pytest.mark.parametrize("name", ROWS)
def test_each_rule_refuses_accepts_and_says_what_it_does_not_know(name: str) -> None:
    rule, expected = _BY_RULE[name], (Answer.NO, Answer.YES, Answer.UNKNOWN)
    for arguments, answer in zip(ROWS[name], expected, strict=True):
        if arguments is not None:
            found = rule.verdict(*arguments)
            assert (found.answer, bool(found.text)) == (answer, answer is not Answer.YES)
    assert rule.check.__doc__


@pytest.mark.parametrize(
    ("name", "question", "answer", "text"),
    [
        (
            "MigrationPreCheckError",
            ask(specs=DEVICE, options={"aliases": ALIASES}, releases=(30,)),
            Answer.NO,
            "it has PCI devices (gpu)",
        ),
        (
            "ForbiddenWithShare",
            ask(spec={"image": {"hw_mem_page_size": "large"}}, facts=KnownFacts(has_share=True)),
            Answer.NO,
            "a share of manila is attached",
        ),
        (
            "ForbiddenWithShare",
            ask(Way.MIGRATE, specs=LARGE_PAGES, facts=KnownFacts(has_share=True), compute=UNREAD),
            Answer.UNKNOWN,
            NOVA_NOT_READ,
        ),
        (
            "OperationNotSupportedForVTPM: secret",
            ask(Way.RESIZE, specs={SECRET: "deployment"}, old={}),
            Answer.YES,
            "",
        ),
        (
            "OperationNotSupportedForVTPM: secret",
            ask(Way.RESIZE, specs={**TPM, SECRET: "deployment"}, old=TPM),
            Answer.NO,
            "hw:tpm_secret_security would change from user to deployment",
        ),
        (
            "IsolatedHostsFilter",
            ask(host=SOURCE, options=ISOLATED, spec={"image_id": "i"}),
            Answer.NO,
            "the image is one of isolated_images, the host is none of isolated_hosts",
        ),
        (
            "ImagePropertiesFilter",
            ask(options={"image_properties_default_architecture": "aarch64"}),
            Answer.UNKNOWN,
            "hw_architecture: nova does not show the architectures and hypervisors of the host",
        ),
        ("ComputeFilter", ask(compute=compute_of(target="hidden")), Answer.NO, "its cell is down"),
    ],
)
def test_a_rule_says_why(name: str, question: Asked, answer: Answer, text: str) -> None:
    says = _BY_RULE[name].verdict(*question)
    assert (says.answer, says.text) == (answer, text)


@pytest.mark.parametrize("name", ROWS)
def test_a_missing_fact_turns_no_answer_into_its_opposite(name: str) -> None:
    rule, row = _BY_RULE[name], ROWS[name]
    for arguments in filter(None, row):
        before = rule.verdict(*arguments)
        for less in lacking(arguments):
            found = rule.verdict(*less)
            # A rule that can miss a fact has a row for it.
            assert not found.unknown or row.unknown
            assert not found.refused or before.refused
            if less.case.compute.hosts is not None:
                # Without nova's hosts, no host and no source is certain anyway.
                assert not before.refused or found.answer is not Answer.YES


def lacking(asked: Asked) -> Iterator[Asked]:
    """The same, each without one fact."""
    case, host = asked
    replace = dataclasses.replace
    # The flavor of a resize is named.
    for field in ("image", "project_id", *(() if case.way is Way.RESIZE else ("flavor_name",))):
        yield Asked(replace(case, spec=replace(case.spec, **{field: None})), host)
    if case.server:
        yield Asked(replace(case, server=replace(case.server, power_state=None)), host)
        yield Asked(replace(case, server=replace(case.server, shows_zone=False)), host)
    for changes in (
        {"facts": Facts()},
        {"group": NotKnown("nova refuses")},
        {"options": replace(case.options, aliases=None)},
    ):
        yield Asked(replace(case, **changes), host)
    yield Asked(case, replace(host, servers=None))
    yield Asked(replace(case, compute=UNREAD), Host(host.uuid, listed=None))


@pytest.mark.parametrize("rule", verdict.RULES, ids=lambda rule: rule.name)
def test_a_rule_says_nothing_about_other_ways_and_releases(rule: Rule) -> None:
    row = ROWS[rule.name]
    case, host = row.refused or row.unknown or OF_OTHERS
    for way in set(Way) - rule.ways:
        assert rule.verdict(dataclasses.replace(case, way=way), host) == Verdict()
    for release in {rule.since - 1, rule.until + 1}:
        assert rule.verdict(dataclasses.replace(case, releases=(release,)), host) == Verdict()


def test_releases_that_differ_make_a_refusal_unknown() -> None:
    case, host = ask(specs=LARGE_PAGES, facts=KnownFacts(has_share=True), releases=(31, 30))
    found = _BY_RULE["ForbiddenWithShare"].verdict(case, host)
    assert found.answer is Answer.UNKNOWN
    assert "nova 31 and nova 30 differ" in found.text


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (("QEMU", 8002002), ("QEMU", 8002002), ""),
        (("QEMU", 6002000), ("QEMU", 8002002), ""),
        (("QEMU", 8002002), ("QEMU", 6002000), "its hypervisor is older than that of the source"),
        (("QEMU", 1), ("VMware vCenter Server", 1), "its hypervisor is VMware vCenter Server"),
        # Nova shows nothing of one of them.
        (("", 0), ("QEMU", 1), ""),
        (("QEMU", 8002002), ("", 0), ""),
    ],
)
def test_nova_moves_no_server_live_to_another_or_an_older_hypervisor(
    source: tuple[str, int], target: tuple[str, int], why: str
) -> None:
    compute = compute_of(kinds={SOURCE: source, TARGET: target})
    for way, expected in ((Way.LIVE_MIGRATE, why), (Way.MIGRATE, "")):
        text = _BY_RULE["ignore_hosts: hypervisor"].verdict(*ask(way, compute=compute)).text
        assert text.startswith(expected)
        assert bool(text) == bool(expected)
