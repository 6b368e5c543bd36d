# SPDX-License-Identifier: Apache-2.0
"""Servers that are not moving, with or without allocations."""

from __future__ import annotations

import dataclasses

from lab.seed import hosts, server
from lab.seed.cloud_builder import World, node_of
from lab.seed.server import INCOMPLETE, MISSING, ORPHANED, UNKNOWN, Server

FLAVORS = ("m1.small", "m1.large", "m1.swap")
SMALL = "m1.small"


def fill(cloud: World) -> None:
    """Create all special servers, the oldest first."""
    for nova_server in states():
        server.make(cloud, nova_server)
    small = cloud.usual(SMALL)
    cloud.give("st-deleted-alloc", {node_of("cmp-0001"): small})
    cloud.give("st-softdeleted-alloc", {node_of("cmp-0001"): small}, "INSTANCE")
    cloud.give("st-building-alloc", {node_of("cmp-0001"): small}, "INSTANCE")
    for nova_server in resources():
        server.make(cloud, nova_server)


def fill_ordinary(cloud: World, count: int) -> None:
    """Of ten servers, two have correct allocations, one has no owner, seven have none."""
    good = [name for name in hosts.names(cloud) if name not in (hosts.SMALL, hosts.BARE)]
    for number in range(count):
        name, flavor = f"vm-{number:05d}", FLAVORS[number % len(FLAVORS)]
        host = good[number % len(good)]
        how = {0: "1.28", 1: "INSTANCE", 2: "1.7"}.get(number % 10)
        audit = {None: MISSING, "1.7": INCOMPLETE}.get(how, "")
        server.make(cloud, Server(name, flavor, host, "ordinary", audit=audit))
        if how:
            cloud.give(name, {node_of(host): cloud.usual(flavor)}, how)


def states() -> list[Server]:
    """One server in each state, most without allocations."""
    first = "cmp-0001"
    on_host = [
        Server(f"st-{state}", SMALL, first, "no task", vm_state=state, power=power, audit=MISSING)
        for state, power in (
            ("stopped", 4),
            ("paused", 3),
            ("suspended", 4),
            ("rescued", 1),
            ("shelved", 4),
        )
    ]
    error = {"vm_state": "error", "power": 0}
    building = {"vm_state": "building", "power": 0}
    offloaded = {"vm_state": "shelved_offloaded", "power": 4}
    soft = {"vm_state": "soft-delete", "power": 4}
    gone = {"vm_state": "deleted", "deleted": True}
    busy = {"audit": UNKNOWN}
    return [
        *on_host,
        Server("st-error-host", SMALL, first, "error, on a host", **error, audit=MISSING),
        Server("st-error-nohost", SMALL, None, "error, never on a host", **error),
        Server("st-error-cell0", SMALL, None, "no valid host: in cell0", **error, buried=True),
        Server("st-building", SMALL, None, "building without a host", **building),
        Server("st-building-alloc", SMALL, None, "stuck: claimed, no host", **building, **busy),
        Server("st-spawning", SMALL, first, "building", **building, task_state="spawning", **busy),
        Server("st-rebooting", SMALL, first, "a task state", task_state="rebooting", **busy),
        Server("st-offloaded", SMALL, None, "shelved offloaded", **offloaded),
        Server("st-softdeleted", SMALL, first, "its disk is on the host", **soft, **busy),
        Server("st-softdeleted-alloc", SMALL, first, "as it should be", **soft),
        Server("st-deleted", SMALL, first, "no allocations", **gone),
        Server("st-deleted-alloc", SMALL, first, "allocations left", **gone, audit=ORPHANED),
        Server("st-hidden", SMALL, "cmp-0002", "of a cross-cell resize", hidden=True, mapped=False),
        Server(
            "st-unmapped",
            SMALL,
            "cmp-0002",
            "listed by the API, but 404 alone",
            mapped=False,
            audit=MISSING,
        ),
    ]


def resources() -> list[Server]:
    """Servers with each kind of resource, without allocations."""
    one, two = "cmp-0001", "cmp-0002"
    volume, no_device = {"volume": True}, {"device": False}
    dedicated = {"image_properties": {"hw_cpu_policy": "dedicated"}}
    servers = [
        Server("rs-bfv", SMALL, one, "a root disk in the flavor, but on a volume", **volume),
        Server("rs-bfv-diskless", "v1.diskless", one, "on a volume, no disk", **volume),
        Server("rs-bfv-image", SMALL, one, "on a volume made from an image", **volume, imaged=True),
        Server("rs-nobdm", SMALL, one, "no block device, an image: local disk", **no_device),
        Server("rs-nobdm-noimage", SMALL, one, "neither: as on a volume", **no_device, image=False),
        Server("rs-swap", "m1.swap", two, "1500 MiB of swap, and ephemeral"),
        Server("rs-custom", "x1.custom", one, "resources:CUSTOM_X"),
        Server("rs-pinned", "p1.pinned", two, "PCPU"),
        Server("rs-isolate", "p1.isolate", two, "PCPU, one more for the emulator"),
        Server("rs-mixed", "p1.mixed", two, "PCPU and VCPU"),
        Server("rs-pinned-image", "m1.large", two, "pinned by the image", **dedicated),
        Server("rs-trait", "t1.trait", one, "a required trait, there"),
        Server("rs-trait-missing", "t1.missing", one, "a required trait, not there"),
        Server("rs-override", "o1.override", one, "VCPU=2, DISK_GB=0 by extra specs"),
        Server("rs-baremetal", "b1.gold", "ironic-1", "ironic", node="bm-1"),
        Server("rs-pci-elsewhere", "p2.pci", one, "a PCI alias; no PCI device is reported"),
    ]
    return [dataclasses.replace(nova_server, audit=MISSING) for nova_server in servers]
