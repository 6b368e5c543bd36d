# SPDX-License-Identifier: Apache-2.0
"""Commands that ask about nova's servers, flavors and images, from recorded answers of nova."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement import testing
from osc_placement.testing import nova as nova_kit
from osc_placement.testing.cloud import uuid_of
from tests.support.peer import fixtures
from tests.support.peer.shell import OpenStack
from tests.support.rows import Absent, Row, State, checked, one_line

EXPLAIN, LIST = "allocation candidate explain", "allocation candidate list"
AUDIT, SHOW = "placement flavor audit", "placement capacity show"
CHECK = "placement host check"

AZ1, PORT, SERVER, LOST = (uuid_of(name) for name in ("az1", "port", "web", "lost"))
AVX = "HW_CPU_X86_AVX"
DOWN, DISABLED = {"state": "down"}, {"status": "disabled"}


def flavor(name: str, vcpus: int, **specs: str) -> dict[str, Any]:
    """``trait__X`` is the extra spec ``trait:X``."""
    written = {key.replace("__", ":"): value for key, value in specs.items()}
    return nova_kit.flavor(name, vcpus=vcpus, ram=16, extra_specs=written)


FLAVORS = [
    flavor("small", 2),
    flavor("large", 9),
    flavor("avx", 2, trait__HW_CPU_X86_AVX="required"),
    flavor("typo", 2, trait__CUSTOM_TYPO="forbidden"),
    flavor("typo-required", 2, trait__CUSTOM_TYPO="required"),
    flavor("typo-class", 2, resources__CUSTOM_TYPO="1"),
    flavor("cyborg", 2, accel__device_profile="gpu"),
    flavor("invalid", 2, hw__tpm_version="9"),
    flavor("pci", 2, pci_passthrough__alias="nic:1"),
]
PINNED = flavor("pinned", 2, hw__cpu_policy="dedicated")
SSD = flavor("ssd", 2, ssd="true")
ABSENT = [
    flavor("class", 2, resources__CUSTOM_ABSENT="1"),
    flavor("both", 2, resources__CUSTOM_ABSENT="1", trait__CUSTOM_TYPO="required"),
]


def image(name: str, **properties: str) -> dict[str, Any]:
    fields = {"id": name, "name": name, "disk_format": "qcow2"}
    traits = {key.replace("__", ":"): value for key, value in properties.items()}
    return {f"GET /v2/images/{name}": {**fields, **traits}}


def nova(
    more: Sequence[Mapping[str, Any]] = (),
    *,
    services: Mapping[str, Mapping[str, str]] | None = None,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    hidden: Sequence[str] = (),
    **fields: Any,
) -> dict[str, Any]:
    """Nova's answers with more flavors, and other fields of the server.

    The server is on ``plain`` and has the flavor avx.
    """
    made = testing.Cloud("nova-{}")
    for name in ("plain", "avx"):
        made.node(name, service=(services or {}).get(name), **(nodes or {}).get(name, {}))
    made.aggregate("az1", ["avx"], availability_zone="az1")
    specs = {f"trait:{AVX}": "required"}
    web = {"flavor": "avx", "vcpus": 2, "ram": 16, "extra_specs": specs}
    made.instance("web", "plain", **{**web, "pinned_availability_zone": "az1", **fields})
    answers = made.nova()
    servers = answers.pop("GET /v2.1/servers/detail")
    resources = {"NET_BW_EGR_KILOBIT_PER_SEC": 100}
    port = {
        "id": PORT, "name": "fast", "device_id": "", "revision_number": 1,
        "resource_request": {"resources": resources, "required": ["CUSTOM_PHYSNET"]},
    }  # fmt: skip
    lost = {"id": LOST, "tenant_id": "p", "status": "UNKNOWN"}
    return {
        **answers,
        **nova_kit.answers(flavors=[*FLAVORS, *more]),
        f"GET /v2.1/servers/detail?uuid={SERVER}": servers,
        f"GET /v2.1/servers/detail?uuid={LOST}": {"servers": [lost]},
        "GET /v2.0/ports": {"ports": [port]},
        **image("tuned", trait__HW_CPU_X86_AVX2="required"),
        **image("required-typo", trait__CUSTOM_TYPO="required"),
        **image("forbidden-typo", trait__CUSTOM_TYPO="forbidden"),
        **{f"GET /v2.1/{path}": None for path in hidden},
    }


def cloud(
    name: str = "avx",
    *,
    traits: Sequence[str] = (AVX,),
    of_plain: Sequence[str] = (),
    zones: Sequence[str] = ("az1",),
    reserved: int = 0,
) -> testing.Cloud:
    """Two hosts of 8 VCPU: ``plain`` with the server, and one with the trait in the zone az1."""
    vcpu = {"total": 8, "reserved": reserved}
    return (
        testing.Cloud()
        .host("plain", VCPU=8, MEMORY_MB=64, traits=of_plain)
        .host(name, VCPU=vcpu, MEMORY_MB=64, traits=traits, aggregates=zones)
        .server("web", {"plain": {"VCPU": 2, "MEMORY_MB": 16}}, type="unknown")
    )


def with_volume(device: str) -> State:
    """The server has a disk, and one volume."""
    shown = {
        "OS-EXT-SRV-ATTR:root_device_name": "/dev/vda",
        "os-extended-volumes:volumes_attached": [{"id": "volume"}],
    }
    attached = {"volumeAttachments": [{"device": device}]}
    path = f"GET /v2.1/servers/{SERVER}/os-volume_attachments"
    return State(
        cloud(), {**nova(disk=20, image={"id": "i", "properties": {}}, **shown), path: attached}
    )


def with_custom(**custom: list[str]) -> Mapping[str, Any]:
    return {**cloud().document(), **custom}


def owners(*hosts: str) -> State:
    """Nova 34, and the hosts whose providers have the trait OWNER_NOVA."""
    traits = {name: ["OWNER_NOVA"] if name in hosts else [] for name in ("plain", "avx")}
    version = {"GET /v2.1/": {"version": {"version": "2.104"}}}
    owned = cloud(traits=[AVX, *traits["avx"]], of_plain=traits["plain"])
    return State(owned, nova() | version)


ALIAS = '[pci]\nalias = {"name": "nic", "vendor_id": "8086", "product_id": "154d"}\n'
NAME = "AggregateInstanceExtraSpecsFilter"
STATES = {
    "az1": State(with_custom(custom_traits=["CUSTOM_PHYSNET"]), nova()),
    "no nova": State(cloud()),
    "avx down": State(cloud(), nova(services={"avx": DOWN})),
    "all down": State(cloud(), nova(services={"avx": DOWN, "plain": DOWN})),
    "no services": State(cloud(), nova(hidden=["os-services"])),
    "ssd": State(
        cloud(),
        nova([SSD]),
        {"nova.conf": f"[filter_scheduler]\nenabled_filters = ComputeFilter,{NAME}\n"},
    ),
    "pci": State(
        with_custom(custom_resource_classes=["CUSTOM_PCI_8086_154D"]),
        nova(),
        {"nova.conf": f"{ALIAS}[filter_scheduler]\npci_in_placement = true\n"},
    ),
    "routed": State(
        cloud(),
        nova(),
        {
            "nova.conf": "[scheduler]\nquery_placement_for_routed_network_aggregates = true\n"
            + ALIAS
        },
    ),
    "not mirrored": State(cloud(zones=()), nova()),
    # A host of the zone with less memory is nearer than a host of another zone.
    "avx full": State(cloud(zones=(), reserved=8).host("a-other", VCPU=8, MEMORY_MB=64), nova()),
    "disabled": State(
        cloud(traits=[AVX, "COMPUTE_STATUS_DISABLED"]),
        nova(services={"avx": DISABLED, "plain": DISABLED}),
    ),
    "enabled": State(cloud(traits=[AVX, "COMPUTE_STATUS_DISABLED"]), nova()),
    "renamed": State(cloud("renamed", zones=()), nova(nodes={"avx": {"id": uuid_of("renamed")}})),
    # Placement does not look a trait up while no host has room.
    "full": State(
        cloud()
        .server("more", {"plain": {"VCPU": 6}}, type="unknown")
        .server("most", {"avx": {"VCPU": 8}}, type="unknown"),
        nova(),
    ),
    "root volume": with_volume("/dev/vda"),
    "data volume": with_volume("/dev/vdb"),
    "no image": State(cloud(), nova(image={"id": "gone"})),
    "absent": State(cloud(), nova(ABSENT)),
    "VCPU": State(cloud(), nova([PINNED])),
    "VCPU and PCPU": State(
        testing.Cloud().host("plain", VCPU=8, MEMORY_MB=64).host("avx", PCPU=8, MEMORY_MB=64),
        nova([PINNED]),
    ),
    "ironic": State(
        testing.Cloud().host("plain", VGPU=2, VCPU=8).host("avx", CUSTOM_GOLD=1),
        nova(nodes={"avx": {"hypervisor_type": "ironic"}}),
    ),
    "no trait": State(cloud(traits=()), nova()),
    "nova 29 or 30": State(
        cloud(traits=["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"]),
        nova([flavor("tpm", 2, hw__tpm_version="2.0")])
        | {"GET /v2.1/": {"version": {"version": "2.96"}}},
    ),
    "no owner": owners(),
    "one owner": owners("plain"),
    "owners": owners("plain", "avx"),
}

DOWN_AVX = {"host": "avx", "reason": "nova-compute down"}
NO_ROOM = {"code": "unknown-name", "hosts": 0, "hosts_if_empty": None}
TYPO = ("CUSTOM_TYPO",)
OWNER = "nova does not require OWNER_NOVA, because no host has it"
VERSION = "nova shows no version: the rules of nova 34 (--nova-release)"
IMAGE = "the image has no properties that change the request"
NO_TYPO = {"fits": 0, "hosts": 0, "notes": [TYPO]}
PCI = ("the devices of the PCI alias nic are not in the query",)
DEVICES = ("PciPassthroughFilter: nic:1: nova does not show free PCI devices of the host",)
MIRROR = f"openstack placement aggregate mirror --host-aggregate={AZ1}"
ONE_ZONE = ("--flavor small --availability-zone az1", "--resource VCPU=1 --member-of az1")
QUERIES = (
    "resources=VCPU:1&required=!CUSTOM_TYPO",
    "resources=VCPU:1&required=CUSTOM_TYPO",
    "resources=CUSTOM_TYPO:1",
)
#: ``(flavor, options)`` with a name that Placement does not know: it answers 400, and nova says
#: "No valid host".
TYPOS = (
    ("typo", ""),
    ("typo-required", ""),
    ("typo-class", ""),
    ("small", " --image required-typo"),
    ("avx", " --image required-typo"),
)

# fmt: off
SERVERS_AND_FLAVORS = [
    *(Row(f"{EXPLAIN} --server {uuid}", "az1", 0,
          {"candidate": [{"host": "avx"}],
           "constraint": [
               {"text": "resources=VCPU:2", "source": "flavor: vcpus=2", "hosts": 2},
               {"text": "resources=MEMORY_MB:16", "source": "flavor: ram=16", "hosts": 2},
               {"text": f"required={AVX}", "hosts": 1,
                "source": f"flavor extra specs: trait:{AVX}=required"},
               {"text": f"member_of={AZ1} (az1)", "hosts": 1,
                "source": "request filter: availability zone: az1"},
               {"text": "root_required=!COMPUTE_STATUS_DISABLED", "hosts": 1,
                "source": "request filter: compute status"}],
           "nova-filter": [..., {"reason": "ComputeFilter", "verdict": "accepts"},
                           {"reason": "ServerGroupAffinityFilter", "verdict": "accepts"}]})
      for uuid in (SERVER, SERVER.upper())),
    Row(f"{EXPLAIN} --server {SERVER}", "root volume", 0, {"candidate": [{"host": "avx"}]}),
    Row(f"{EXPLAIN} --server {SERVER}", "data volume", 3,
        {"constraint": [..., {"text": "resources=DISK_GB:20", "hosts": 0}]}),
    Row(f"{EXPLAIN} --server {SERVER} --filter image-type", "no image", 4,
        {"candidate": [{"host": "avx"}],
         "not-checked": [..., {"text": ("the disk format and the properties of image gone:"
                                        " nova.json holds no response",)}]}),
    Row(f"{EXPLAIN} --flavor small --image tuned --port {PORT}", "az1", 3,
        {"constraint": [..., {"text": "required=HW_CPU_X86_AVX2", "source": ("image traits",)},
                        {"text": f"resources{PORT}=NET_BW_EGR_KILOBIT_PER_SEC:100",
                         "source": "port resource requests: port fast", "hosts": 0}]}),
    Row(f"{EXPLAIN} --flavor cyborg", "az1", 3, {
        "not-checked": [
            {"text": "only Cyborg knows the resources of the device profile gpu: nova.json does not"
             " have the services of the catalog"}]}),
    Row(f"{EXPLAIN} --server {LOST}", "az1", 1, "its cell is down"),
    # Nova takes the hosts of both queries for pinned CPUs.
    Row(f"{EXPLAIN} --flavor pinned", "VCPU and PCPU", 4,
        {"query": [{"source": "nova's first query (PCPU)"}],
         "constraint": [..., {"text": "resources=PCPU:2", "hosts": 1}],
         "candidate": [{"host": "avx"}, {"host": "plain"}],
         "nova-query": [{"source": "nova's second query (VCPU)", "hosts": 1,
                         "names": ["plain"], "text": ("VCPU:2",)}],
         "nova-filter": [..., {"reason": "NUMATopologyFilter", "verdict": "not checked"}]}),
    Row(f"{EXPLAIN} --flavor pinned", "VCPU and PCPU", 4,
        ("Constraints of nova's first query (PCPU)", "The tables are about nova's first query"
         " (PCPU); nova's second query (VCPU) finds 1 host (plain): resources=VCPU:2,")),
    Row(f"{EXPLAIN} --flavor pinned", "VCPU", 4,
        {"query": [{"source": "nova's second query (VCPU)"}],
         "constraint": [..., {"text": "resources=VCPU:2", "hosts": 2}], "candidate": [{}, {}],
         "nova-query": [{"text": ("PCPU:2",), "hosts": 0, "names": []}]}),
    Row(f"{EXPLAIN} --flavor pinned --nova-release 34 --filter owner", "VCPU", 3,
        {"constraint": [..., {"text": "resources=PCPU:2", "hosts": 0}], "candidate": None,
         "nova-query": [{"hosts": 0}]}, "; nova's second query (VCPU) finds 0 hosts: "),
    Row(f"{EXPLAIN} --flavor small", "VCPU", 0, {"query": [{"source": None}], "nova-query": None}),
    Row(f"{EXPLAIN} --flavor large", "ironic", 3,
        "Note: 1 free node of Ironic (avx) offers CUSTOM_GOLD and nothing that is requested: a"
        " flavor for it has resources:CUSTOM_GOLD=1, resources:MEMORY_MB=0, resources:VCPU=0"),
    # Nova-compute sets back the total of what it counts.
    *(Row(f"{EXPLAIN} --resource {name}", state, 3, {"change": [{"host": None, "text": change}]})
      for name, state, change in (
          ("MEMORY_MB=100", "az1", "request 64 MEMORY_MB instead of 100"),
          ("VGPU=4", "ironic", "request 2 VGPU instead of 4"))),
    Row(f"{LIST} --flavor avx", "az1", 0,
        [{"allocation": "VCPU=2,MEMORY_MB=16", "resource provider": uuid_of("avx")}]),
    Row(f"{LIST} --resource VCPU=2 --resource MEMORY_MB=16 --required {AVX}", "az1", 0,
        [{"resource provider": uuid_of("avx")}]),
    Row(f"{LIST} --flavor small --limit 1", "az1", 0, [{}]),
    Row(f"{LIST} --flavor small", "az1", 0, [{}, {}]),
    Row(f"{CHECK} plain", "az1", 0, {"unplaced": []}),
    # Not a word about local disks.
    Row(f"{CHECK} plain", "no trait", 3,
        {"unplaced": [{"reasons": [f"no other host has room with required={AVX}"]}],
         "notes": []}),
]

OUT_OF_SERVICE = [
    # The next nearest host is explained.
    Row(f"{EXPLAIN} --flavor avx", "avx down", 3,
        {"candidate": None, "failure": [{"host": "plain"}],
         "not-counted": [{"text": "nova-compute down", "host": "avx"}]}),
    Row(f"{EXPLAIN} --flavor avx", "avx down", 3,
        ("no compute host (0 of 2) can serve the request",
         "Not counted: avx (nova-compute down)")),
    Row(f"{AUDIT} avx", "avx down", 3,
        [{"code": "out-of-service", "hosts": 0, "hosts_if_empty": 0, "not_counted": [DOWN_AVX]}]),
    Row(f"{SHOW} --flavor avx", "avx down", 0,
        [{"fits": 0, "hosts": 0, "not_counted": [{"host": "avx"}]}]),
    Row(f"{CHECK} plain", "avx down", 3, {"answer": "no"}),
    Row(f"{EXPLAIN} --flavor avx", "disabled", 3,
        {"change": [
            {"text": "enable the compute service of avx", "host": "avx", "commands": [
                "openstack compute service set --enable nova-avx nova-compute"]}]}),
    Row(f"{EXPLAIN} --flavor large", "disabled", 3,
        {"change": [..., {"text": "raise the ratio of VCPU on plain to 1.38;"
                                  " enable the compute service of plain"}]}),
    # Nova does nothing for a service that is enabled already.
    Row(f"{EXPLAIN} --flavor avx", "enabled", 3,
        {"change": [{"text": "remove the trait COMPUTE_STATUS_DISABLED from avx"},
                    {"text": f"remove required={AVX}",
                     "commands": [f"openstack flavor unset --property=trait:{AVX} avx"]}]}),
]

#: What was not checked makes a yes unknown, because it can be a no: the second row of each.
NOT_CHECKED = [
    Row(f"{EXPLAIN} --flavor ssd", "ssd", 4,
        {"candidate": [{}, {}],
         "not-checked": [..., {"text": f"{NAME}: nova.conf says whether it is enabled"}]}),
    Row(f"{EXPLAIN} --flavor ssd --nova-conf nova.conf", "ssd", 3,
        {"candidate": None, "not-counted": [{"text": f"{NAME}: no aggregate has ssd"}] * 2}),
    Row(f"{EXPLAIN} --flavor ssd --no-nova", "ssd", 0, {"candidate": [{}, {}]}),
    # An alias that only nova.conf explains; no host has such a device.
    Row(f"{EXPLAIN} --flavor pci", "pci", 4, {"candidate": [{}, {}], "not-checked": [..., {}]}),
    Row(f"{EXPLAIN} --flavor pci --nova-conf nova.conf", "pci", 3, {"candidate": None}),
    Row(f"{EXPLAIN} --flavor small", "no services", 4,
        {"candidate": [{}, {}], "not-checked": [..., {}]}),
    Row(f"{EXPLAIN} --flavor small", "all down", 3, {"candidate": None}),
    *(row for command in (f"{EXPLAIN} --resource VCPU=1", f"{SHOW} --resource VCPU=1") for row in (
        Row(command, "no nova", 0, "Not checked: compute services: "),
        Row(f"{command} --strict", "no nova", 4),
        Row(f"{command} --strict", "az1", 0),
        Row(f"{command} --strict --no-nova", "az1", 4))),
    Row(f"{AUDIT} small --strict", "az1", 0),
    Row(f"{AUDIT} small --strict --no-nova", "az1", 4),
    Row(f"{SHOW} --flavor small --flavor pci", "az1", 4,
        [{"request": "small", "not_checked": [], "assumed": (OWNER,)},
         {"request": "pci", "not_checked": [PCI, DEVICES], "assumed": (OWNER,)}]),
    Row(f"{SHOW} --flavor small --flavor pci --no-nova", "az1", 0),
    Row(f"{SHOW} --flavor small --strict", "az1", 0),
]

NAMES = [
    # Without nova, a host is named as its provider.
    Row(f"{EXPLAIN} --resource VCPU=1 --host avx", "az1", 0),
    Row(f"{EXPLAIN} --resource VCPU=1 --host nova-avx", "az1", 0),
    Row(f"{EXPLAIN} --resource VCPU=1 --host nova-avx --no-nova", "az1", 1, "'nova-avx'"),
    Row(f"{EXPLAIN} --resource VCPU=1 --host avx --no-nova", "az1", 0),
    Row(f"{CHECK} avx", "az1", 0),
    Row(f"{CHECK} nova-avx", "az1", 0),
    Row(f"{CHECK} nova-avx --no-nova", "az1", 1, "'nova-avx'"),
    Row(f"{CHECK} avx --no-nova", "az1", 0),
    Row(f"{EXPLAIN} --flavor small --availability-zone nowhere", "az1", 1,
        "nova has no availability zone 'nowhere'; it has az1, nova"),
    # Nova's default zone is no host aggregate.
    Row(f"{EXPLAIN} --flavor small --availability-zone nova", "az1", 0),
    # A host that only nova has in the zone needs the mirror.
    Row(f"{EXPLAIN} --flavor small --availability-zone az1 --nearest 2", "not mirrored", 3,
        {"failure": [..., {"host": "avx", "text": f"not in aggregate {AZ1} (az1): nova has it there"
                                                  " (1 host in nova, 0 in Placement)"}],
         "change": [{"host": "avx", "commands": [MIRROR]},
                    {"host": "plain", "commands": ["openstack aggregate add host az1 nova-plain"]},
                    {"host": None}]}),
    *(Row(f"{EXPLAIN} {options} --nearest 1", "avx full", 3,
          {"change": [
              {"host": None, "text": f"remove member_of={AZ1} (az1)"},
              {"host": "avx", "text": (f"mirror nova's host aggregate {AZ1} (az1), which has avx,"
                                       " to Placement; reserve ",)}]})
      for options in ONE_ZONE),
    # A renamed provider is still the host of its compute node.
    Row(f"{EXPLAIN} --flavor avx --availability-zone az1", "renamed", 3,
        {"change": [..., {"host": "renamed", "commands": [MIRROR]}]}),
]

UNKNOWN_NAMES = [
    *(Row(f"{SHOW} --flavor {name}{more}", "az1", 0, [{"request": name, **NO_TYPO}],
          (f"Nova finds no host for {name}: ",)) for name, more in TYPOS),
    *(Row(f"{EXPLAIN} --flavor {name}{more}", "az1", 3, TYPO) for name, more in TYPOS),
    Row(f"{EXPLAIN} --flavor typo", "az1", 3, {"candidate": None}),
    Row(f"{SHOW} --flavor typo", "az1", 0, ("typo", *TYPO)),
    Row(f"{SHOW} --flavor typo --by host", "az1", 0, [{"request": "typo", **NO_TYPO}]),
    # Nova reads no forbidden trait of an image.
    Row(f"{SHOW} --flavor small", "az1", 0, [{"fits": 7}]),
    Row(f"{SHOW} --flavor small --image forbidden-typo", "az1", 0, [{"fits": 7}]),
    # A query of a log is answered; an option is a mistake of the operator.
    *(Row(f"{SHOW} --query {query}", "az1", 0, [NO_TYPO]) for query in QUERIES),
    *(Row(f"{EXPLAIN} --query {query}", "az1", 3, TYPO) for query in QUERIES),
    Row(f"{SHOW} --forbidden CUSTOM_TYPO --resource VCPU=1", "az1", 1, TYPO),
    Row(f"{EXPLAIN} --forbidden CUSTOM_TYPO --resource VCPU=1", "az1", 1, TYPO),
    *(Row(f"{EXPLAIN} --flavor {name}", "absent", 3,
          ("no compute host can serve the request Reason: Placement refuses nova's request: ",
           cause))
      for name, cause in (("typo", *TYPO), ("class", "CUSTOM_ABSENT"), ("both", "CUSTOM_"))),
    # A bad flavor does not hide the count of others.
    Row(f"{SHOW} --flavor invalid --flavor small --flavor typo --flavor absent", "az1", 1,
        [{"request": "small"}, {"request": "typo"}],
        ("Not counted: flavor invalid: ", "Not counted: flavor absent: ")),
    Row(f"{SHOW} --flavor invalid --flavor absent", "az1", 1,
        ("hw:tpm_version=9 is not one of 1.2, 2.0",
         "nova has no flavor with the name or ID 'absent'", Absent("Not counted"))),
    Row(f"{AUDIT} typo", "az1", 3, [{"code": "unknown-name"}]),
    Row(f"{AUDIT} typo", "full", 3, [{"code": "unknown-name", "reason": TYPO}]),
]

AUDITS = [
    Row(AUDIT, "az1", 3,
        [{"name": "avx", "code": "one-host", "hosts": 1, "hosts_if_empty": 1, "assumed": (OWNER,)},
         {"name": "cyborg", "code": "unknown", "hosts": 0, "hosts_if_empty": 0},
         {"name": "invalid", "code": "invalid", "hosts": 0, "hosts_if_empty": None, "assumed": []},
         {"name": "large", "code": "no-host", "hosts": 0, "hosts_if_empty": 0, "assumed": (OWNER,)},
         {"name": "pci", "code": "unknown", "hosts": 2, "hosts_if_empty": 2, "assumed": (OWNER,)},
         {"name": "small", "code": "ok", "hosts": 2, "hosts_if_empty": 2, "assumed": (OWNER,)},
         {"name": "typo", **NO_ROOM, "assumed": (OWNER,)},
         {"name": "typo-class", **NO_ROOM, "assumed": (OWNER,)},
         {"name": "typo-required", **NO_ROOM, "assumed": (OWNER,)}]),
    Row(AUDIT, "az1", 3, ("unknown-name", Absent("None"))),
    Row(f"{AUDIT} small absent", "az1", 3,
        [{"name": "small", "code": "ok"}, {"name": "absent", "code": "unknown-flavor"}]),
    Row(f"{AUDIT} small absent", "az1", 3, ("unknown-flavor", Absent("None"))),
    Row(f"{AUDIT} small", "az1", 0),
    Row(f"{AUDIT} small pci", "az1", 4),
    Row(f"{AUDIT} small avx --fail-on no-host", "az1", 0),
    Row(f"{AUDIT} --fail-on no-host", "az1", 3),
    # A finding decides; without one, what was not checked of a flavor counts.
    Row(f"{AUDIT} pci", "az1", 4),
    Row(f"{AUDIT} invalid", "az1", 3, "hw:tpm_version=9 is not one of 1.2, 2.0"),
    Row(f"{AUDIT} small pci invalid --nova-conf nova.conf", "routed", 3,
        [{"assumed": [], "not_checked": [], "notes": []},
         {"assumed": [VERSION, (OWNER,), IMAGE], "not_checked": [PCI, DEVICES],
          "notes": [("routed",)]},
         {"assumed": [VERSION, (OWNER,), IMAGE], "not_checked": [], "notes": [("routed",)]}],
        (f"Assumed: {VERSION}", f"Assumed: {OWNER}: nova does once every nova-compute is nova 34"
         f" (--filter owner) Assumed: {IMAGE} Not checked for pci: {PCI[0]}",
         "Note: the aggregates of routed networks")),
]

#: Nova 34 requires the owner that all its hosts have.
OWNERS = [
    *(Row(f"{command} --flavor avx", state, code)
      for command, codes in ((EXPLAIN, (4, 0, 0)), (SHOW, (4, 0, 0)))
      for state, code in zip(("no owner", "one owner", "owners"), codes, strict=True)),
    *(Row(f"{AUDIT} small", state, code)
      for state, code in (("no owner", 4), ("one owner", 0), ("owners", 0))),
    Row(f"{EXPLAIN} --flavor avx", "no owner", 4,
        ("can serve the request of nova 34",
         "no compute host (0 of 2) can serve the request of nova 34 that requires OWNER_NOVA:"
         f" resources=VCPU:2,MEMORY_MB:16&required={AVX}&root_required=OWNER_NOVA,")),
    Row(f"{EXPLAIN} --flavor avx --filter owner", "no owner", 3),
    Row(f"{LIST} --flavor avx", "no owner", 0,
        "The request of nova 34 that requires OWNER_NOVA differs: add --filter owner"),
    Row(f"{LIST} --flavor tpm", "nova 29 or 30", 0, [{"resource provider": uuid_of("avx")}],
        (f"Assumed: {IMAGE}", "The request of nova 29 differs: add --nova-release 29")),
    Row(f"{LIST} --flavor pinned", "VCPU and PCPU", 0, [{"resource provider": uuid_of("avx")}],
        "Note: nova also asks with VCPU in place of PCPU"),
    # While one nova-compute is older, nova does not require it.
    Row(f"{EXPLAIN} --flavor avx", "one owner", 0,
        {"candidate": [{"host": "avx"}],
         "assumption": [..., {"text": ("nova does not require OWNER_NOVA: hosts without it",)}]}),
]
# fmt: on

test_a_question_about_novas_request = checked(
    [*SERVERS_AND_FLAVORS, *OUT_OF_SERVICE, *NOT_CHECKED, *NAMES], STATES
)

test_a_question_about_flavors = checked([*UNKNOWN_NAMES, *AUDITS, *OWNERS], STATES)


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize("state", ["az1", "full"])
@pytest.mark.parametrize(
    "question", [f"{AUDIT} typo-required", f"{EXPLAIN} --flavor typo-required"]
)
def test_the_commands_for_a_trait_that_does_not_exist_make_room(
    question: str, state: str, openstack: OpenStack
) -> None:
    STATES[state].arrange(openstack)
    ended = STATES[state].run(openstack, question)
    printed = one_line(ended.stdout + ended.messages)
    commands = dict.fromkeys(re.findall(r"'openstack ([^']* CUSTOM_TYPO[^']*)'", printed))
    STATES["az1"].arrange(openstack)
    for command in commands:
        openstack.do(command.replace("HOST", "plain"))
    assert len(commands) == 2
    assert STATES["az1"].run(openstack, f"{EXPLAIN} --flavor typo-required").code == 0
