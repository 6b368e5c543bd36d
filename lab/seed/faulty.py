# SPDX-License-Identifier: Apache-2.0
"""Wrong allocations, ports, servers at which nova-manage stops, and orphaned consumers."""

from __future__ import annotations

import dataclasses

from lab.seed import hosts, server
from lab.seed.cloud_builder import World, node_of, uid
from lab.seed.server import INCOMPLETE, MISSING, ORPHANED, UNKNOWN, Server

SMALL, LARGE = "m1.small", "m1.large"
BANDWIDTH = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 1000}


def fill(cloud: World) -> None:
    """Create all; the servers at which heal_allocations stops are the youngest."""
    for nova_server in (*wrong(), *split()):
        server.make(cloud, nova_server)
    _allocate_wrong(cloud)
    _allocate_split(cloud)
    _fill_ports(cloud)
    _fill_over_capacity(cloud)
    for nova_server in stopping():
        server.make(cloud, nova_server)
    _fill_orphans(cloud)
    _fill_others(cloud)


def wrong() -> list[Server]:
    """Servers with wrong allocations."""
    two = "cmp-0002"
    offloaded = {"vm_state": "shelved_offloaded", "power": 4}
    return [
        Server("al-wronghost", SMALL, two, "allocated on another host", audit="wrong-host"),
        Server("al-wrongsize", LARGE, two, "allocated with an older flavor", audit="wrong-size"),
        Server("al-double", SMALL, two, "on two hosts, as before Queens", audit="doubled"),
        Server("al-otherowner", SMALL, two, "of another project", audit="wrong-owner"),
        Server("al-offloaded", SMALL, None, "allocations left", **offloaded, audit="wrong-host"),
        Server("al-custom-only", SMALL, "cmp-0001", "a custom class only", audit="wrong-size"),
    ]


def split() -> list[Server]:
    """Servers that have, or need, allocations on several providers."""
    four, seven, no_disk = "cmp-0004", "cmp-0007", hosts.DISKLESS
    return [
        Server("al-nested-placeholder", "g1.vgpu", four, "no owner", audit=INCOMPLETE),
        Server("al-nested", "g1.vgpu", four, "root and VGPU child, as it should be"),
        Server("al-pci", "p2.pci", four, "root and PCI child, as it should be"),
        Server("al-pinned-image", LARGE, "cmp-0006", "PCPU, as its image asks", **_pinned()),
        Server("al-shared", SMALL, seven, "disk from a sharing provider, as it should be"),
        Server("al-shared-only", SMALL, no_disk, "the same, of a host without a disk"),
        Server("al-shared-none", SMALL, seven, "could have either disk", audit=MISSING),
    ]


def _pinned() -> dict[str, dict[str, str]]:
    return {"image_properties": {"hw_cpu_policy": "dedicated"}}


def _allocate_wrong(cloud: World) -> None:
    two, four = node_of("cmp-0002"), node_of("cmp-0004")
    small = cloud.usual(SMALL)
    cloud.give("al-wronghost", {four: small})
    cloud.give("al-wrongsize", {two: small})
    cloud.give("al-double", {two: small, four: small})
    project, _ = cloud.owner("al-otherowner")
    other = next(owner for owner in cloud.owners if owner[0] != project)
    cloud.give("al-otherowner", {two: small}, owner=other)
    cloud.give("al-offloaded", {two: small})
    cloud.give("al-custom-only", {node_of("cmp-0001"): {"CUSTOM_X": 1}})


def _allocate_split(cloud: World) -> None:
    four, small = node_of("cmp-0004"), cloud.usual(SMALL)
    nested = {four: cloud.usual("g1.vgpu"), cloud.providers["cmp-0004_gpu0"]: {"VGPU": 1}}
    cloud.give("al-nested-placeholder", nested, "1.7")
    cloud.give("al-nested", nested, "INSTANCE")
    device = {"CUSTOM_PCI_8086_1572": 1}
    cloud.give("al-pci", {four: small, cloud.providers[hosts.PCI]: device}, "INSTANCE")
    large = cloud.usual(LARGE)
    pinned = {"PCPU": large.pop("VCPU"), **large}
    cloud.give("al-pinned-image", {node_of("cmp-0006"): pinned}, "INSTANCE")
    for name, host in (("al-shared", "cmp-0007"), ("al-shared-only", hosts.DISKLESS)):
        rest = {each: amount for each, amount in small.items() if each != "DISK_GB"}
        shared = {node_of(host): rest, cloud.providers["nfs-share"]: {"DISK_GB": 20}}
        cloud.give(name, shared, "INSTANCE")


def _fill_ports(cloud: World) -> None:
    """Servers with a port that requests bandwidth; two of them have allocations."""
    first, two = "cmp-0005", "cmp-0006"
    card = cloud.providers[f"{first}:NIC Switch agent:ens1"]
    missing = {"audit": MISSING}
    for fault in (
        Server("po-one", SMALL, first, "one card that fits its port", **missing),
        Server("po-two", SMALL, two, "two cards that fit its port", **missing, stays=True),
        Server("po-only", SMALL, first, "allocated, but for its port", **missing),
        Server("po-right", SMALL, first, "allocated with its port, as it should be"),
    ):
        server.make(cloud, fault)
        _fill_port(cloud, fault.name, str(fault.host), card if fault.name == "po-right" else None)
    root = {node_of(first): cloud.usual(SMALL)}
    cloud.give("po-only", root, "INSTANCE")
    cloud.give("po-right", {**root, card: BANDWIDTH}, "INSTANCE")


def _fill_port(cloud: World, name: str, host: str, card: str | None) -> None:
    number, project = uid("port", name), cloud.owner(name)[0]
    cloud.ports[number] = {
        "id": number,
        "device_id": uid("server", name),
        "name": name,
        "device_owner": "compute:az1",
        "network_id": uid("net", 1),
        "project_id": project,
        "tenant_id": project,
        "binding:host_id": host,
        "binding:vnic_type": "normal",
        "binding:profile": {"allocation": card} if card else {},
        "fixed_ips": [],
        "security_groups": [],
        "mac_address": f"fa:16:3e:00:00:{len(cloud.ports):02x}",
        "status": "ACTIVE",
        "admin_state_up": True,
        "resource_request": {"required": ["CUSTOM_PHYSNET_A"], "resources": BANDWIDTH},
    }


def stopping() -> list[Server]:
    """Servers at which heal_allocations stops; ``stays`` marks those that cannot be repaired."""
    four, two = "cmp-0004", "cmp-0002"
    uefi = {"image_properties": {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}}
    stays = {"stays": True}
    servers = [
        Server("xx-granular", "g2.granular", four, "resources1:VGPU, merged onto the root"),
        Server("xx-vgpu", "g1.vgpu", four, "resources:VGPU, refused"),
        Server("xx-sev", "s1.sev", hosts.ENCRYPTED, "its image must be seen", **uefi),
        Server("xx-shared", SMALL, hosts.DISKLESS, "its host has no disk but a shared one"),
        Server("xx-cyborg", "c1.cyborg", four, "a device profile, refused", **stays),
        Server("xx-noinventory", "x1.custom", two, "CUSTOM_X: its host has none", **stays),
        Server("xx-nocapacity", LARGE, hosts.SMALL, "does not fit on its host", **stays),
        Server("xx-noprovider", SMALL, hosts.BARE, "its host has no provider", **stays),
        Server("xx-nonode", SMALL, "ghost-nonode", "its host has no compute node", **stays),
        Server("xx-unmapped", SMALL, "ghost-unmapped", "its host has no mapping", **stays),
    ]
    return [dataclasses.replace(nova_server, audit=MISSING) for nova_server in servers]


def _fill_orphans(cloud: World) -> None:
    first, two, four = (node_of(f"cmp-000{number}") for number in (1, 2, 4))
    alice = cloud.owners[0]
    nova = "nova's classes on nova's providers, and no server"
    for name, allocations, owner in (
        ("plain", {first: {"VCPU": 1, "MEMORY_MB": 512}}, alice),
        ("two-hosts", {two: {"VCPU": 1}, four: {"VCPU": 1}}, alice),
        ("child-only", {cloud.providers["cmp-0004_gpu0"]: {"VGPU": 1}}, alice),
        ("gone-host", {cloud.providers[hosts.GONE]: {"VCPU": 2, "MEMORY_MB": 1024}}, alice),
        ("ironic", {uid("node", "bm-2"): {"CUSTOM_BAREMETAL_GOLD": 1}}, alice),
        ("placeholder", {two: {"VCPU": 1}}, None),
    ):
        cloud.consume(name, allocations, ORPHANED, nova, owner)
    typed = {first: {"CUSTOM_X": 1}}
    cloud.consume("typed", typed, ORPHANED, "an INSTANCE that nova has not", alice, "INSTANCE")


def _fill_others(cloud: World) -> None:
    """Consumers that may belong to another service."""
    first, encrypted = node_of("cmp-0001"), node_of(hosts.ENCRYPTED)
    share, blazar = (cloud.providers[name] for name in ("nfs-share", f"blazar_{hosts.ENCRYPTED}"))
    alice = cloud.owners[0]
    for name, allocations, owner, how, why in (
        ("custom-only", {first: {"CUSTOM_X": 1}}, alice, "1.28", "no class of nova's own"),
        ("share-only", {share: {"DISK_GB": 7}}, alice, "1.28", "on a disk that others may use"),
        ("reservation", {blazar: {"CUSTOM_RESERVATION": 1}}, cloud.service, "1.28", "a lease"),
        ("container", {encrypted: {"VCPU": 1}}, alice, "CONTAINER", "its type is not nova's"),
        ("of-a-service", {encrypted: {"VCPU": 1}}, cloud.service, "1.28", "a service's project"),
    ):
        cloud.consume(name, allocations, UNKNOWN, why, owner, how)


def _fill_over_capacity(cloud: World) -> None:
    """A host with reduced inventories; without its orphaned consumer they would suffice."""
    small = node_of(hosts.SMALL)
    server.make(cloud, Server("oc-fits", SMALL, hosts.SMALL, "as it should be"))
    cloud.give("oc-fits", {small: cloud.usual(SMALL)}, "INSTANCE")
    why = "fills its host beyond its capacity"
    filling = {small: cloud.usual(SMALL)}
    cloud.consume("filling", filling, ORPHANED, why, cloud.owners[0], "INSTANCE")
    cloud.shrink(hosts.SMALL, MEMORY_MB=3072)
    why = "was made smaller than what is allocated there"
    cloud.note("faulty", hosts.SMALL, small, "over-capacity", why)
