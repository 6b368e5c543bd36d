"""Allocations that are not as they should be, ports, what stops nova-manage, orphans."""

from __future__ import annotations

from tests.lab.seed import hosts, server
from tests.lab.seed.server import Server
from tests.lab.seed.world import World, node_of, uid

SMALL, LARGE = "m1.small", "m1.large"


def fill(cloud: World) -> None:
    """Make them all; those that stop heal_allocations are the youngest."""
    for each in wrong():
        server.make(cloud, each)
    _allocate(cloud)
    for name, host, cards in (("po-one", "cmp-0005", 1), ("po-two", "cmp-0006", 2)):
        why = f"a port with a bandwidth request, {cards} card(s) that fit"
        server.make(cloud, Server(name, SMALL, host, why))
        _fill_port(cloud, name, host)
    for each in stopping():
        server.make(cloud, each)
    _fill_orphans(cloud)


def wrong() -> list[Server]:
    """With allocations that are there, but wrong (one pair is right)."""
    two, seven = "cmp-0002", "cmp-0007"
    return [
        Server("al-wronghost", SMALL, two, "allocated on another host"),
        Server("al-wrongsize", LARGE, two, "allocated with an older flavor"),
        Server("al-double", SMALL, two, "allocated on two hosts, as before Queens"),
        Server("al-otherowner", SMALL, two, "complete, but of another project"),
        Server("al-nested-placeholder", "g1.vgpu", "cmp-0004", "root and child, no owner"),
        Server("al-shared", SMALL, seven, "disk from a sharing provider, as it should be"),
        Server("al-shared-none", SMALL, seven, "should have a sharing provider's disk"),
        Server(
            "al-offloaded", SMALL, None, "allocations left", vm_state="shelved_offloaded", power=4
        ),
        Server("al-trait-only", SMALL, "cmp-0001", "a custom class only, as a reservation"),
    ]


def _allocate(cloud: World) -> None:
    two, four = node_of("cmp-0002"), node_of("cmp-0004")
    small = cloud.usual(SMALL)
    cloud.give("al-wronghost", {four: small})
    cloud.give("al-wrongsize", {two: small})
    cloud.give("al-double", {two: small, four: small})
    project, _ = cloud.owner("al-otherowner")
    other = next(owner for owner in cloud.owners if owner[0] != project)
    cloud.give("al-otherowner", {two: small}, owner=other)
    nested = {
        four: {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20},
        cloud.providers["cmp-0004_gpu0"]: {"VGPU": 1},
    }
    cloud.give("al-nested-placeholder", nested, "1.7")
    shared = {
        node_of("cmp-0007"): {"VCPU": 1, "MEMORY_MB": 2048},
        cloud.providers["nfs-share"]: {"DISK_GB": 20},
    }
    cloud.give("al-shared", shared, "INSTANCE")
    cloud.give("al-offloaded", {two: small})
    cloud.give("al-trait-only", {node_of("cmp-0001"): {"CUSTOM_X": 1}})


def _fill_port(cloud: World, name: str, host: str) -> None:
    number, project = uid("port", name), cloud.owner(name)[0]
    bandwidth = {"NET_BW_EGR_KILOBIT_PER_SEC": 1000, "NET_BW_IGR_KILOBIT_PER_SEC": 1000}
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
        "binding:profile": {},
        "fixed_ips": [],
        "security_groups": [],
        "mac_address": f"fa:16:3e:00:00:{len(cloud.ports):02x}",
        "status": "ACTIVE",
        "admin_state_up": True,
        "resource_request": {"required": ["CUSTOM_PHYSNET_A"], "resources": bandwidth},
    }


def stopping() -> list[Server]:
    """At each of these heal_allocations stops."""
    four, two = "cmp-0004", "cmp-0002"
    return [
        Server("xx-granular", "g2.granular", four, "resources1:VGPU, merged onto the root"),
        Server("xx-vgpu", "g1.vgpu", four, "resources:VGPU, refused"),
        Server("xx-cyborg", "c1.cyborg", four, "a device profile, refused"),
        Server("xx-noinventory", "x1.custom", two, "CUSTOM_X, of which its host has none"),
        Server("xx-nocapacity", LARGE, hosts.SMALL, "does not fit on its host"),
        Server("xx-noprovider", SMALL, hosts.BARE, "its host has no provider"),
        Server("xx-nonode", SMALL, "ghost-nonode", "its host has no compute node"),
    ]


def _fill_orphans(cloud: World) -> None:
    one, two, four = (node_of(f"cmp-000{number}") for number in (1, 2, 4))
    orphans = {
        "plain": {one: {"VCPU": 1, "MEMORY_MB": 512}},
        "two-hosts": {two: {"VCPU": 1}, four: {"VCPU": 1}},
        "child-only": {cloud.providers["cmp-0004_gpu0"]: {"VGPU": 1}},
        "gone-host": {cloud.providers[hosts.GONE]: {"VCPU": 2, "MEMORY_MB": 1024}},
        "custom-only": {one: {"CUSTOM_X": 1}},
        "share-only": {cloud.providers["nfs-share"]: {"DISK_GB": 7}},
        "placeholder": {two: {"VCPU": 1}},
    }
    for name, allocations in orphans.items():
        number = cloud.facts["orphans"][name] = uid("orphan", name)
        owner = None if name == "placeholder" else cloud.owners[0]
        cloud.allocate(number, allocations, owner)
    cloud.facts["orphans"]["deleted-instance"] = uid("server", "st-deleted-alloc")
