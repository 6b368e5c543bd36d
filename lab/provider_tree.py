# SPDX-License-Identifier: Apache-2.0
"""Runs nova's own updates of provider trees with the lab's Python.

Reads a document from stdin, updates its trees, and prints it with the trees and the allocations
afterwards:

``trees``
    ``[{"name", "uuid", "parent", "inventories", "traits"}]``, parents first.
``encryption``
    Numbers of encrypted servers by nova's name of a model. The method of nova's libvirt driver
    updates each root. ``ReshapeNeeded`` ends the program.
``device_spec``, ``devices``, ``allocations``
    Nova's option; the PCI devices of a host, ``[{"address", "parent", "server"}]``; and its
    allocations. Nova's resource tracker updates them on the first root.

Not libvirt: what the host supports is given. Nova decides all names, inventories and traits.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest import mock


def driver(totals: dict[str, int]) -> Any:
    """Nova's libvirt driver on a host with these models of memory encryption."""
    from nova.virt.libvirt import driver as libvirt_driver, host

    made = libvirt_driver.LibvirtDriver.__new__(libvirt_driver.LibvirtDriver)
    made._host = mock.Mock()
    made._host.get_mem_encryption_inventories.side_effect = lambda: {
        model: {
            "supported": True,
            "total": total,
            "traits": getattr(host.Host, f"_get_mem_encryption_traits_{model}")(made._host),
        }
        for model, total in totals.items()
    }
    return made


def update_encryption(tree: Any, roots: list[str], totals: dict[str, int]) -> None:
    updater = driver(totals)
    for name in roots:
        updater._update_provider_tree_for_memory_encryption(tree, name, None)


def update_devices(tree: Any, root: str, document: dict[str, Any]) -> None:
    import nova.conf
    from nova import objects
    from nova.compute import pci_placement_translator
    from nova.objects import fields
    from nova.pci import whitelist

    objects.register_all()
    specs = [json.dumps(spec) for spec in document["device_spec"]]
    nova.conf.CONF.set_override("report_in_placement", True, "pci")
    nova.conf.CONF.set_override("device_spec", specs, "pci")
    tracker = mock.Mock(dev_filter=whitelist.Whitelist(specs))
    tracker.pci_devs = [
        objects.PciDevice(
            address=device["address"],
            dev_type=fields.PciDeviceType.SRIOV_VF
            if device["parent"]
            else fields.PciDeviceType.STANDARD,
            parent_addr=device["parent"],
            vendor_id="10de",
            product_id="1eb8",
            status="allocated" if device["server"] else "available",
            instance_uuid=device["server"],
            compute_node_id=1,
            numa_node=0,
            extra_info={},
            request_id=None,
        )
        for device in document["devices"]
    ]
    pci_placement_translator.update_provider_tree_for_pci(
        tree, root, tracker, document["allocations"], []
    )


def main() -> None:
    import nova.conf
    from nova.compute import provider_tree

    nova.conf.CONF([], project="nova", default_config_files=[])
    document = json.load(sys.stdin)
    tree = provider_tree.ProviderTree()
    for entry in document["trees"]:
        if entry["parent"] is None:
            tree.new_root(entry["name"], entry["uuid"])
        else:
            tree.new_child(entry["name"], entry["parent"], uuid=entry["uuid"])
        tree.update_inventory(entry["uuid"], entry["inventories"])
        tree.update_traits(entry["uuid"], entry["traits"])
    roots = [entry["name"] for entry in document["trees"] if entry["parent"] is None]
    if "encryption" in document:
        update_encryption(tree, roots, document["encryption"])
    if "device_spec" in document:
        update_devices(tree, roots[0], document)
    providers = {uuid: tree.data(uuid) for uuid in tree.get_provider_uuids()}
    document["trees"] = [
        {
            "name": data.name,
            "uuid": uuid,
            "parent": data.parent_uuid,
            "inventories": data.inventory,
            "traits": sorted(data.traits),
        }
        for uuid, data in providers.items()
    ]
    sys.stdout.write(json.dumps(document))


if __name__ == "__main__":
    main()
