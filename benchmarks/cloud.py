"""The hosts that are measured with, as requests and as documents."""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Iterator
from typing import Any

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
    """One provider of a cloud that is to be made."""

    uuid: str
    name: str
    inventories: dict[str, dict[str, Any]]
    traits: list[str] = dataclasses.field(default_factory=list)
    aggregates: list[str] = dataclasses.field(default_factory=list)
    parent: str | None = None
    root: str | None = None

    def writes(self) -> Iterator[Write]:
        """The requests that make it, and no more than are needed."""
        path = f"/resource_providers/{self.uuid}"
        body = {"uuid": self.uuid, "name": self.name}
        if self.parent is not None:
            body["parent_provider_uuid"] = self.parent
        yield "POST", "/resource_providers", body
        generation = 0
        for what, value in (
            ("inventories", self.inventories),
            ("aggregates", self.aggregates),
            ("traits", self.traits),
        ):
            if value:
                yield (
                    "PUT",
                    f"{path}/{what}",
                    {"resource_provider_generation": generation, what: value},
                )
                generation += 1


def flat_host(number: int) -> list[Provider]:
    """CPUs, memory and disk in one provider, as most clouds have them."""
    chance = random.Random(f"flat {number}")
    aggregates = [AGGREGATE, _uuid(chance)]
    name = f"host-{number:05}"
    return [Provider(_uuid(chance), name, FLAT_INVENTORIES, FLAT_TRAITS, aggregates)]


def nested_host(number: int) -> list[Provider]:
    """Two NUMA nodes with four GPUs each."""
    chance = random.Random(f"nested {number}")
    name = f"nested-{number:05}"
    root = Provider(_uuid(chance), name, {"DISK_GB": {"total": 20_000}})
    made = [root]
    for node in range(2):
        inventories = {"VCPU": {"total": 32}, "MEMORY_MB": {"total": 128_000}}
        numa = _child(chance, root, root, f"numa{node}", inventories, ["HW_NUMA_ROOT"])
        made.append(numa)
        made += [
            _child(chance, root, numa, f"numa{node}-gpu{gpu}", {"VGPU": {"total": 8}})
            for gpu in range(4)
        ]
    return made


def wide_host(number: int, devices: int = 8) -> list[Provider]:
    """Devices side by side, all alike."""
    chance = random.Random(f"wide {number}")
    root = Provider(_uuid(chance), f"wide-{number:05}", {})
    inventories = {"PCI_DEVICE": {"total": 1}}
    devices_of = [
        _child(chance, root, root, f"pci{device}", inventories) for device in range(devices)
    ]
    return [root, *devices_of]


def document(providers: list[Provider]) -> dict[str, Any]:
    """The same as a document that ``--load`` takes."""
    return {
        "custom_resource_classes": [],
        "custom_traits": [],
        "providers": {
            provider.uuid: {
                "name": provider.name,
                "parent": provider.parent,
                "root": provider.root or provider.uuid,
                "generation": 0,
                "inventories": provider.inventories,
                "traits": provider.traits,
                "aggregates": provider.aggregates,
            }
            for provider in providers
        },
        "consumers": {},
    }


def _child(
    chance: random.Random,
    root: Provider,
    parent: Provider,
    name: str,
    inventories: dict[str, dict[str, Any]],
    traits: list[str] | None = None,
) -> Provider:
    return Provider(
        _uuid(chance),
        f"{root.name}-{name}",
        inventories,
        traits or [],
        parent=parent.uuid,
        root=root.uuid,
    )


def _uuid(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))
