"""Runs nova's own update of provider trees for memory encryption, with the lab's Python.

Reads trees from stdin: ``[{"name", "uuid", "parent", "inventories", "traits"}]``, parents first.
Runs the method of nova's libvirt driver, on a host with 15 encrypted servers at most, for each
root, and prints the trees afterwards. ``ReshapeNeeded`` ends the program.

Not libvirt: what the host supports is given. The driver decides all names, inventories and traits.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest import mock

SLOTS = 15


def driver() -> Any:
    """Nova's libvirt driver on a host with AMD SEV only."""
    from nova.virt.libvirt import driver as libvirt_driver, host

    made = libvirt_driver.LibvirtDriver.__new__(libvirt_driver.LibvirtDriver)
    traits = host.Host._get_mem_encryption_traits_amd_sev
    made._host = mock.Mock()
    made._host.get_mem_encryption_inventories.side_effect = lambda: {
        "amd_sev": {"supported": True, "total": SLOTS, "traits": traits(made._host)}
    }
    return made


def main() -> None:
    import nova.conf
    from nova.compute import provider_tree

    nova.conf.CONF([], project="nova", default_config_files=[])
    given = json.load(sys.stdin)
    tree = provider_tree.ProviderTree()
    for entry in given:
        if entry["parent"] is None:
            tree.new_root(entry["name"], entry["uuid"])
        else:
            tree.new_child(entry["name"], entry["parent"], uuid=entry["uuid"])
        tree.update_inventory(entry["uuid"], entry["inventories"])
        tree.update_traits(entry["uuid"], entry["traits"])
    updater = driver()
    for entry in given:
        if entry["parent"] is None:
            updater._update_provider_tree_for_memory_encryption(tree, entry["name"], None)
    found = {uuid: tree.data(uuid) for uuid in tree.get_provider_uuids()}
    shown = [
        {
            "name": data.name,
            "uuid": uuid,
            "parent": data.parent_uuid,
            "inventories": data.inventory,
            "traits": sorted(data.traits),
        }
        for uuid, data in found.items()
    ]
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main()
