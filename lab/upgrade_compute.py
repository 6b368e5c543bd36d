# SPDX-License-Identifier: Apache-2.0
"""nova-compute with the code of libvirt's driver: ``upgrade_compute.py HARDWARE OPTIONS...``.

Run this with the Python of any release from 31 on. What the host reports (inventories, traits,
reshapes) and what stops its start is nova's driver for libvirt, on the imitation of libvirt that
nova's own tests have. Guests are those of nova's fake driver. ``HARDWARE`` is a JSON file,
``{property or method of nova's Host: value}``, such as ``{"supports_amd_sev": true}``. From nova 34
on it can be ``{"kernel": {"sev": true, "sev_es": true, "sev_snp": true}}``: what is on in the
kernel, from which nova itself concludes what the host supports.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any
from unittest import mock

# The first import selects the backend of threads.
from nova.cmd import compute
from nova.tests.fixtures import libvirt as imitation
from nova.virt import fake, node
from nova.virt.libvirt import driver, host

HARDWARE = json.loads(pathlib.Path(sys.argv[1]).read_text())
KERNEL = HARDWARE.pop("kernel", None)
#: The hypervisor 10.2.0, which has every model of memory encryption.
NEW_HYPERVISOR = 10_002_000
GIB = 1024 * 1024


class UpgradeDriver(fake.FakeDriver):
    """Guests of the fake driver on a host that libvirt's driver describes."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi)
        self.libvirt = driver.LibvirtDriver(virtapi, read_only=False)

    def init_host(self, host: str) -> None:
        self.libvirt.init_host(host)
        super().init_host(host)
        self.capabilities = self.libvirt.capabilities

    def process_instances_at_startup(self, *arguments: Any) -> Any:
        return self.libvirt.process_instances_at_startup(*arguments)

    def capabilities_as_traits(self) -> Any:
        return self.libvirt.capabilities_as_traits()

    def update_provider_tree(self, tree: Any, name: str, allocations: Any = None) -> None:
        self.libvirt.update_provider_tree(tree, name, allocations=allocations)

    # The fake driver makes a new id in every process.
    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        return {node.get_local_node_uuid(): self._host}

    def get_available_resource(self, nodename: str) -> Any:
        return {**super().get_available_resource(nodename), "uuid": node.get_local_node_uuid()}


def main() -> None:
    for name, value in HARDWARE.items():
        # A release that does not know the hardware does not look for it.
        if isinstance(vars(host.Host).get(name), property):
            setattr(host.Host, name, property(lambda _, value=value: value))
        elif hasattr(host.Host, name):
            setattr(host.Host, name, lambda *_, value=value: value)
    more = {}
    if KERNEL is None:
        imitation.LibvirtFixture().setUp()
    else:
        imitation.LibvirtFixture(stub_amd_sev=False).setUp()
        imitation.AmdSevFixture(**KERNEL).setUp()
        features = imitation.Connection._domain_capability_features_with_launch_security_SEV_SNP
        imitation.Connection._domain_capability_features = features
        more["hv_version"] = NEW_HYPERVISOR
    # 16 CPUs and 64 GiB.
    machine = imitation.HostInfo(cpu_nodes=1, cpu_sockets=1, cpu_cores=16, kB_mem=64 * GIB)
    connection = imitation.Connection("qemu:///system", host_info=machine, **more)
    mock.patch.object(host.Host, "get_connection", return_value=connection).start()
    # Nova looks for drivers only below nova.virt.
    sys.modules["nova.virt.upgrade_compute"] = sys.modules["__main__"]
    sys.argv = ["nova-compute", *sys.argv[2:]]
    compute.main()


main()
