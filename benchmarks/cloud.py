# SPDX-License-Identifier: Apache-2.0
"""The hosts of the measurements, as requests and as documents."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Iterator
from typing import Any

from osc_placement.testing.cloud import complete

AGGREGATE = "14a5c8a3-5a99-4e8f-88be-00d85fcb1c17"
FLAT_TRAITS = ["HW_CPU_X86_AVX2", "STORAGE_DISK_SSD"]
FLAT_INVENTORIES: dict[str, dict[str, Any]] = {
    "VCPU": {"total": 64, "allocation_ratio": 16.0, "reserved": 2},
    "MEMORY_MB": {"total": 512_000, "reserved": 1024},
    "DISK_GB": {"total": 20_000},
}

#: ``(method, path, body)``
Write = tuple[str, str, Any]


@dataclasses.dataclass(frozen=True)
class Provider:
    """One provider of a cloud to create."""

    uuid: str
    name: str
    inventories: dict[str, dict[str, Any]]
    traits: list[str] = dataclasses.field(default_factory=list)
    aggregates: list[str] = dataclasses.field(default_factory=list)
    parent: str | None = None
    root: str | None = None

    def writes(self) -> Iterator[Write]:
        """The requests that create the provider."""
        path = f"/resource_providers/{self.uuid}"
        body = {"uuid": self.uuid, "name": self.name}
        if self.parent is not None:
            body["parent_provider_uuid"] = self.parent
        yield "POST", "/resource_providers", body
        generation = 0
        for part, value in (
            ("inventories", self.inventories),
            ("aggregates", self.aggregates),
            ("traits", self.traits),
        ):
            if value:
                yield (
                    "PUT",
                    f"{path}/{part}",
                    {"resource_provider_generation": generation, part: value},
                )
                generation += 1


def flat_host(number: int) -> list[Provider]:
    """A host with CPUs, memory and disk in one provider."""
    generator = random.Random(f"flat {number}")
    aggregates = [AGGREGATE, _uuid(generator)]
    name = f"host-{number:05}"
    return [Provider(_uuid(generator), name, FLAT_INVENTORIES, FLAT_TRAITS, aggregates)]


def nested_host(number: int) -> list[Provider]:
    """A host with two NUMA nodes, with four GPUs each."""
    generator = random.Random(f"nested {number}")
    name = f"nested-{number:05}"
    root = Provider(_uuid(generator), name, {"DISK_GB": {"total": 20_000}})
    providers = [root]
    for node in range(2):
        inventories = {"VCPU": {"total": 32}, "MEMORY_MB": {"total": 128_000}}
        numa = _child(generator, root, root, f"numa{node}", inventories, ["HW_NUMA_ROOT"])
        providers.append(numa)
        providers += [
            _child(generator, root, numa, f"numa{node}-gpu{gpu}", {"VGPU": {"total": 8}})
            for gpu in range(4)
        ]
    return providers


def wide_host(number: int, devices: int = 8) -> list[Provider]:
    """A host with equal devices."""
    generator = random.Random(f"wide {number}")
    root = Provider(_uuid(generator), f"wide-{number:05}", {})
    inventories = {"PCI_DEVICE": {"total": 1}}
    devices_of = [
        _child(generator, root, root, f"pci{device}", inventories) for device in range(devices)
    ]
    return [root, *devices_of]


def document(providers: list[Provider]) -> dict[str, Any]:
    """The providers as a document for ``--load``."""
    fields = ("name", "parent", "inventories", "traits", "aggregates")
    return complete(
        {
            "providers": {
                provider.uuid: {field: getattr(provider, field) for field in fields}
                for provider in providers
            }
        }
    )


def _child(
    generator: random.Random,
    root: Provider,
    parent: Provider,
    name: str,
    inventories: dict[str, dict[str, Any]],
    traits: list[str] | None = None,
) -> Provider:
    return Provider(
        _uuid(generator),
        f"{root.name}-{name}",
        inventories,
        traits or [],
        parent=parent.uuid,
        root=root.uuid,
    )


def _uuid(generator: random.Random) -> str:
    return str(uuid.UUID(int=generator.getrandbits(128), version=4))
