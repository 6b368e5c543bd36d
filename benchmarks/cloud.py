# SPDX-License-Identifier: Apache-2.0
"""The hosts of the measurements, as clouds and as the requests that create them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from osc_placement.testing.cloud import Cloud, uuid_of

AGGREGATE = uuid_of("aggregate")
FLAT_TRAITS = ["HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"]
FLAT_INVENTORIES: dict[str, dict[str, Any]] = {
    "VCPU": {"total": 64, "allocation_ratio": 16.0, "reserved": 2},
    "MEMORY_MB": {"total": 512_000, "reserved": 1024},
    "DISK_GB": {"total": 20_000},
}

#: ``(method, path, body)``
Write = tuple[str, str, Any]
#: Adds a host of this number to a cloud.
AddHost = Callable[[Cloud, int], object]


def flat_name(number: int) -> str:
    """The name of the only provider of a flat host."""
    return f"host-{number:05}"


def add_flat_host(cloud: Cloud, number: int) -> None:
    """A host with CPUs, memory and disk in one provider."""
    name = flat_name(number)
    aggregates = ["aggregate", f"{name} aggregate"]
    cloud.host(name, traits=FLAT_TRAITS, aggregates=aggregates, **FLAT_INVENTORIES)


def add_nested_host(cloud: Cloud, number: int) -> None:
    """A host with two NUMA nodes, with four GPUs each."""
    name = f"nested-{number:05}"
    cloud.host(name, DISK_GB=20_000)
    for node in (f"{name}-numa0", f"{name}-numa1"):
        cloud.child(name, node, traits=["HW_NUMA_ROOT"], VCPU=32, MEMORY_MB=128_000)
        for gpu in range(4):
            cloud.child(node, f"{node}-gpu{gpu}", VGPU=8)


def add_wide_host(cloud: Cloud, number: int, devices: int = 8, total: int = 1) -> None:
    """A host with equal devices."""
    name = f"wide-{number:05}"
    cloud.host(name)
    for device in range(devices):
        cloud.child(name, f"{name}-pci{device}", PCI_DEVICE=total)


def flat_hosts(count: int) -> dict[str, Any]:
    """The document of a cloud of flat hosts."""
    cloud = Cloud()
    for number in range(count):
        add_flat_host(cloud, number)
    return cloud.document()


def wide_host(devices: int, total: int = 1) -> dict[str, Any]:
    """The document of a cloud of one host with equal devices."""
    cloud = Cloud()
    add_wide_host(cloud, 0, devices, total)
    return cloud.document()


def writes(document: Mapping[str, Any]) -> Iterator[Write]:
    """The requests that create the providers of a document."""
    for uuid, provider in document["providers"].items():
        parent = {"parent_provider_uuid": provider["parent"]} if provider["parent"] else {}
        yield "POST", "/resource_providers", {"uuid": uuid, "name": provider["name"], **parent}
        filled = (part for part in ("inventories", "aggregates", "traits") if provider[part])
        for generation, part in enumerate(filled):
            body = {"resource_provider_generation": generation, part: provider[part]}
            yield "PUT", f"/resource_providers/{uuid}/{part}", body
