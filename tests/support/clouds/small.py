# SPDX-License-Identifier: Apache-2.0
"""Small snapshots: hosts ``a``, ``b`` (with a network card) and ``c``, and a sharing provider.

A node's name is its host with a dot; its UUID is ``n-`` and its name. ``nfs`` shares disks with
``a.`` and ``b.``. Each host has 8 VCPU, 8192 MEMORY_MB and 100 DISK_GB; ``b.`` has 8 PCPU too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from osc_placement.model import inventory, provider
from osc_placement.nova import values
from osc_placement.nova.flavor import Flavor
from osc_placement.workflows.cloud.cloud import Cloud, Owner

NODES = tuple(values.ComputeNode(f"n-{host}.", f"{host}.", host) for host in "abc")
CHILD = provider.Provider("u-nic", "b.:nic", 0, root_uuid="n-b.", parent_uuid="n-b.")
SHARE = provider.Provider("u-nfs", "nfs", 0, root_uuid="u-nfs")
STALE = provider.Provider("n-gone.", "gone.", 0, root_uuid="n-gone.")
PROVIDERS = (
    *(provider.Provider(node.uuid, node.hostname, 3, node.uuid) for node in NODES),
    CHILD,
    SHARE,
    STALE,
)
OFFERED = {"VCPU": 8, "MEMORY_MB": 8192, "DISK_GB": 100}
OFFERS: Mapping[str, Mapping[str, int]] = {
    "n-a.": OFFERED,
    "n-b.": {**OFFERED, "PCPU": 8},
    "n-c.": OFFERED,
    "n-gone.": OFFERED,
    "u-nic": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
    "u-nfs": {"DISK_GB": 1000},
}
SMALL = Flavor(vcpus=1, ram=512, disk=10)
USES = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 10}
LONG_AGO = "2020-01-01T00:00:00Z"


def server(host: str | None = "a", uuid: str = "s", **fields: Any) -> values.Server:
    """An active server with the flavor SMALL."""
    defaults: dict[str, Any] = {
        "name": f"vm-{uuid}",
        "project_id": "p",
        "user_id": "u",
        "host": host,
        "node": f"{host}." if host else None,
        "vm_state": "active",
        "status": "ACTIVE",
        "flavor": SMALL,
        "image_properties": {},
        "created": LONG_AGO,
        "updated": LONG_AGO,
    }
    return values.Server(uuid, **{**defaults, **fields})


def move(
    kind: str, status: str, ends: str = "ab", uuid: str = "m", of: str = "s"
) -> values.Migration:
    """A migration of server ``s`` between two hosts, by their letters; ``?`` means none."""
    source, dest = (None if end == "?" else end for end in ends)
    return values.Migration(
        uuid,
        of,
        kind,
        status,
        source_host=source,
        source_node=source and f"{source}.",
        dest_host=dest,
        dest_node=dest and f"{dest}.",
        updated=LONG_AGO,
    )


def cloud(
    servers: Iterable[values.Server] = (),
    migrations: Iterable[values.Migration] = (),
    allocations: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None,
    owners: Mapping[str, Owner] | None = None,
    **fields: Any,
) -> Cloud:
    """A snapshot; all consumers have generation 1 and the owner of the servers."""
    consumers = allocations or {}
    defaults: dict[str, Any] = {
        "servers": {item.uuid: item for item in servers},
        "deleted_servers": {},
        "migrations": {item.uuid: item for item in migrations},
        "hosts": values.Hosts(nodes=NODES, services=frozenset("abc")),
        "providers": provider.by_uuid(PROVIDERS),
        "allocations": consumers,
        "generations": dict.fromkeys(consumers, 1),
        "inventories": {
            uuid: {name: inventory.Inventory(total=total) for name, total in offers.items()}
            for uuid, offers in OFFERS.items()
        },
        "owners": {uuid: Owner("p", "u", "INSTANCE") for uuid in consumers} | dict(owners or {}),
        "sharing": {"n-a.": ("u-nfs",), "n-b.": ("u-nfs",)},
    }
    return Cloud(**{**defaults, **fields})
