"""Servers whose allocations are right, or are not there at all."""

from __future__ import annotations

from tests.lab.seed import hosts, server
from tests.lab.seed.server import Server
from tests.lab.seed.world import World, node_of

FLAVORS = ("m1.small", "m1.large", "m1.swap")
SMALL = "m1.small"


def fill(cloud: World, ordinary: int) -> None:
    """Make them all, in the order of their ages."""
    _fill_ordinary(cloud, ordinary)
    for each in states():
        server.make(cloud, each)
    cloud.give("st-deleted-alloc", {node_of("cmp-0001"): cloud.usual(SMALL)})
    for each in migrating():
        server.make(cloud, each)
    _fill_migrations(cloud)
    for each in resources():
        server.make(cloud, each)


def _fill_ordinary(cloud: World, count: int) -> None:
    """Of ten, two have allocations as they should, one without an owner, seven none."""
    good = [name for name in hosts.names(cloud) if name not in (hosts.SMALL, hosts.BARE)]
    for number in range(count):
        name, flavor = f"vm-{number:05d}", FLAVORS[number % len(FLAVORS)]
        host = good[number % len(good)]
        server.make(cloud, Server(name, flavor, host, "ordinary"))
        how = {0: "1.28", 1: "INSTANCE", 2: "1.7"}.get(number % 10)
        if how:
            cloud.give(name, {node_of(host): cloud.usual(flavor)}, how)


def states() -> list[Server]:
    """One in every state, without allocations (but for one)."""
    on_host = [
        Server(f"st-{state}", SMALL, "cmp-0001", "on a host, no task", vm_state=state, power=power)
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
    off = {"power": 4}
    one = "cmp-0001"
    return [
        *on_host,
        Server("st-error-host", SMALL, one, "error, on a host", **error),
        Server("st-error-nohost", SMALL, None, "error, never on a host", **error),
        Server("st-error-cell0", SMALL, None, "no valid host: in cell0", **error, buried=True),
        Server("st-building", SMALL, None, "building without a host", **building),
        Server("st-spawning", SMALL, one, "building on a host", **building, task_state="spawning"),
        Server("st-rebooting", SMALL, one, "a task state", task_state="rebooting"),
        Server(
            "st-offloaded", SMALL, None, "shelved offloaded", vm_state="shelved_offloaded", **off
        ),
        Server(
            "st-softdeleted", SMALL, one, "its disk is on the host", vm_state="soft-delete", **off
        ),
        Server("st-deleted", SMALL, one, "no allocations", vm_state="deleted", deleted=True),
        Server(
            "st-deleted-alloc", SMALL, one, "allocations left", vm_state="deleted", deleted=True
        ),
        Server("st-hidden", SMALL, "cmp-0002", "of a cross-cell resize", hidden=True, mapped=False),
        Server("st-unmapped", SMALL, "cmp-0002", "listed by the API, but 404 alone", mapped=False),
    ]


def migrating() -> list[Server]:
    """Before, in and after migrations."""
    resized = {"vm_state": "resized", "old_flavor": SMALL, "new_flavor": "m1.large"}
    one, two = "cmp-0001", "cmp-0002"
    moving = {"task_state": "migrating"}
    return [
        Server("mg-resized-old", "m1.large", two, "verify_resize, no allocations", **resized),
        Server("mg-resized-new", "m1.large", two, "verify_resize, as since Queens", **resized),
        Server("mg-live-new", SMALL, one, "live, its source held by the migration", **moving),
        Server("mg-live-old", SMALL, one, "live, no allocations", **moving),
        Server("mg-resizing", SMALL, one, "no allocations", task_state="resize_migrating"),
        Server("mg-pending", SMALL, one, "a migration is queued, but there is no task state"),
        Server("mg-confirmed", SMALL, two, "a confirmed migration's allocation was left"),
    ]


def _fill_migrations(cloud: World) -> None:
    one, two, four = "cmp-0001", "cmp-0002", "cmp-0004"
    small = cloud.usual(SMALL)
    cloud.migration("mg-resized-old", "resize", "finished", one, two)
    cloud.give("mg-resized-new", {node_of(two): cloud.usual("m1.large")}, "INSTANCE")
    _hold(cloud, "mg-resized-new", "resize", "finished", two)
    cloud.give("mg-live-new", {node_of(four): small}, "INSTANCE")
    _hold(cloud, "mg-live-new", "live-migration", "running", four)
    cloud.migration("mg-live-old", "live-migration", "running", one, four)
    cloud.migration("mg-resizing", "resize", "migrating", one, two)
    cloud.migration("mg-pending", "migration", "queued", one, two)
    held = _hold(cloud, "mg-confirmed", "resize", "confirmed", two)
    cloud.facts["orphans"]["mg-confirmed"] = held


def _hold(cloud: World, name: str, kind: str, status: str, target: str) -> str:
    """A migration from cmp-0001 that holds what the server has there."""
    made = cloud.migration(name, kind, status, "cmp-0001", target)
    there = {node_of("cmp-0001"): cloud.usual(SMALL)}
    cloud.allocate(made, there, cloud.owner(name), "MIGRATION")
    return made


def resources() -> list[Server]:
    """Every kind of amount."""
    one, two = "cmp-0001", "cmp-0002"
    volume, no_device = {"volume": True}, {"device": False}
    dedicated = {"image_properties": {"hw_cpu_policy": "dedicated"}}
    return [
        Server("rs-bfv", SMALL, one, "a root disk in the flavor, but on a volume", **volume),
        Server("rs-bfv-diskless", "v1.diskless", one, "on a volume, no disk", **volume),
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
    ]
