# SPDX-License-Identifier: Apache-2.0
"""Hosts, their providers, host aggregates and flavors."""

from __future__ import annotations

from lab.seed import cloud_builder
from lab.seed.cloud_builder import World, node_of, uid

LEAST_HOSTS = 12
#: A host too small for its servers; a host without a provider.
SMALL, BARE = "cmp-0003", "cmp-0010"
GONE = "cmp-gone" + cloud_builder.DOMAIN
#: Hosts with only a shared disk; a host with encrypted memory.
DISKLESS, ENCRYPTED = "nfs-1", "cmp-0009"
PCI = "cmp-0004_0000:81:00.0"

SMALL_INVENTORY = {"VCPU": (4, 0, 1.0), "MEMORY_MB": (4096, 0, 1.0), "DISK_GB": (100, 0, 1.0)}
BANDWIDTH = {
    "NET_BW_EGR_KILOBIT_PER_SEC": (10000000, 0, 1.0),
    "NET_BW_IGR_KILOBIT_PER_SEC": (10000000, 0, 1.0),
}


def names(cloud: World) -> list[str]:
    """The ordinary hosts."""
    return sorted(name for name in cloud.facts["hosts"] if name.startswith("cmp-"))


def fill(cloud: World, count: int) -> None:
    """Create all hosts, aggregates and flavors."""
    for name in ("CUSTOM_X", "CUSTOM_BAREMETAL_GOLD", "CUSTOM_RESERVATION", "CUSTOM_PCI_8086_1572"):
        cloud.call("PUT", f"/resource_classes/{name}")
    for name in ("CUSTOM_RACK_A", "CUSTOM_PHYSNET_A", "CUSTOM_PHYSNET_B"):
        cloud.call("PUT", f"/traits/{name}")
    for number in range(1, max(LEAST_HOSTS, count) + 1):
        _fill_ordinary(cloud, number)
    _fill_children(cloud)
    _fill_shared_disk(cloud)
    gone = cloud.provider(GONE, cloud_builder.USUAL)
    cloud.note("faulty", GONE, gone, "stale-provider", "nova has no hypervisor for its host")
    for number in range(1, 4):
        cloud.host(
            "ironic-1",
            node=f"bm-{number}",
            hypervisor="ironic",
            traits=(),
            inventory={"CUSTOM_BAREMETAL_GOLD": (1, 0, 1.0)},
        )
    cloud.host("ghost-unmapped", mapping=False, provider=False)
    cloud.host("ghost-nonode", compute=False, provider=False)
    _fill_aggregates(cloud)
    _fill_flavors(cloud)


def _fill_ordinary(cloud: World, number: int) -> None:
    name = f"cmp-{number:04d}"
    inventory, traits = dict(cloud_builder.USUAL), {"HW_CPU_X86_AVX2", "COMPUTE_NODE"}
    if number % 4 == 1:
        inventory["CUSTOM_X"] = (8, 0, 1.0)
    if number % 4 == 2:
        inventory["PCPU"] = (32, 0, 1.0)
    if name == ENCRYPTED:
        inventory["MEM_ENCRYPTION_CONTEXT"] = (16, 0, 1.0)
    if name == SMALL:
        inventory = dict(SMALL_INVENTORY)
    if number % 2:
        traits.add("CUSTOM_RACK_A")
    cloud.host(name, inventory=inventory, traits=traits, provider=name != BARE)


def _fill_children(cloud: World) -> None:
    cloud.provider("cmp-0004_gpu0", {"VGPU": (8, 0, 1.0)}, parent=node_of("cmp-0004"))
    cloud.provider(PCI, {"CUSTOM_PCI_8086_1572": (2, 0, 1.0)}, parent=node_of("cmp-0004"))
    reserved = {"CUSTOM_RESERVATION": (4, 0, 1.0)}
    cloud.provider(f"blazar_{ENCRYPTED}", reserved, parent=node_of(ENCRYPTED))
    for host, cards in (("cmp-0005", ("ens1",)), ("cmp-0006", ("ens1", "ens2"))):
        agent = cloud.provider(f"{host}:NIC Switch agent", {}, parent=node_of(host))
        for card in cards:
            name = f"{host}:NIC Switch agent:{card}"
            cloud.provider(name, BANDWIDTH, ("CUSTOM_PHYSNET_A",), parent=agent)


def _fill_shared_disk(cloud: World) -> None:
    """A disk that three hosts share through an aggregate that is not a host aggregate."""
    share = cloud.provider(
        "nfs-share", {"DISK_GB": (100000, 0, 1.0)}, ("MISC_SHARES_VIA_AGGREGATE",)
    )
    without = {name: amount for name, amount in cloud_builder.USUAL.items() if name != "DISK_GB"}
    cloud.host(DISKLESS, inventory=without)
    for provider in (share, *map(node_of, ("cmp-0007", "cmp-0008", DISKLESS))):
        cloud.join(provider, uid("placement-agg", "nfs"))


def _fill_aggregates(cloud: World) -> None:
    """Create the host aggregates in the order in which nova reads them."""
    hosts = names(cloud)
    half = len(hosts) // 2
    for zone, part in (("az1", hosts[:half]), ("az2", hosts[half:])):
        cloud.aggregate(zone, _with_provider(part), availability_zone=zone)
    cloud.aggregate("ssd", ["cmp-0001", "cmp-0002", "cmp-0007"], ssd="true")
    cloud.aggregate("pinned", _with_provider(hosts[1::4]), pinned="true")
    cloud.aggregate("empty", [], purpose="nothing")
    cloud.aggregate("tenant-acme", ["cmp-0001", "cmp-0009"], filter_tenant_id=cloud.owners[0][0])
    cloud.aggregate("legacy", ["cmp-0011", "ghost-unmapped", "ghost-nonode"])
    cloud.aggregate(
        "no-provider", ["cmp-0008", BARE, "cmp-0012"], note=f"{BARE} has no resource provider"
    )
    # One membership that placement already has, and one that only placement has.
    cloud.join(node_of("cmp-0001"), uid("agg", "az1"), uid("agg", "stranger"))


def _with_provider(hosts: list[str]) -> list[str]:
    return [name for name in hosts if name != BARE]


def _fill_flavors(cloud: World) -> None:
    make = cloud.flavor
    make("m1.small", 1, 2048, 20)
    make("m1.large", 4, 8192, 80)
    make("m1.swap", 2, 4096, 40, swap=1500, ephemeral=10)
    make("v1.diskless", 2, 4096, 0)
    make("x1.custom", 2, 4096, 20, **{"resources:CUSTOM_X": "1"})
    pinned = {"hw:cpu_policy": "dedicated"}
    make("p1.pinned", 4, 8192, 20, **pinned)
    make("p1.isolate", 4, 8192, 20, **pinned, **{"hw:emulator_threads_policy": "isolate"})
    make("p1.mixed", 4, 8192, 20, **{"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "2-3"})
    make("t1.trait", 1, 2048, 20, **{"trait:HW_CPU_X86_AVX2": "required"})
    make("t1.missing", 1, 2048, 20, **{"trait:HW_CPU_X86_AVX512F": "required"})
    make("o1.override", 4, 8192, 20, **{"resources:VCPU": "2", "resources:DISK_GB": "0"})
    make("g1.vgpu", 2, 4096, 20, **{"resources:VGPU": "1"})
    make("g2.granular", 2, 4096, 20, **{"resources1:VGPU": "1"})
    make("p2.pci", 1, 2048, 20, **{"pci_passthrough:alias": "x710:1"})
    make("s1.sev", 1, 2048, 20, **{"hw:mem_encryption": "true"})
    make("c1.cyborg", 2, 4096, 20, **{"accel:device_profile": "dp1"})
    nothing_else = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    make("b1.gold", 8, 65536, 400, **nothing_else, **{"resources:CUSTOM_BAREMETAL_GOLD": "1"})
