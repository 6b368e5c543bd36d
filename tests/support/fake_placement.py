"""A small Placement in memory, with faults to order: what the workflows' unit tests talk to."""

from __future__ import annotations

import dataclasses
import threading
import uuid as uuid_module
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from osc_placement import microversion
from osc_placement.client import api_errors, responses
from osc_placement.model import inventory, provider

TARGET = "http://placement.example (cloud test)"


@dataclasses.dataclass
class Stored:
    uuid: str
    name: str
    generation: int = 0
    inventories: dict[str, inventory.Inventory] = dataclasses.field(default_factory=dict)
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    usages: dict[str, int] = dataclasses.field(default_factory=dict)


def uuid_of(name: str) -> str:
    return str(uuid_module.uuid5(uuid_module.NAMESPACE_DNS, name))


class FakeClient:
    """The calls of ``client.api.Client`` that batches make; ``calls`` counts requests.

    ``trouble`` is asked before and after each write, with its method name and the provider:
    what it raises is the write's outcome.
    """

    def __init__(self, providers: Iterable[Stored] = ()) -> None:
        self.stored = {item.uuid: item for item in providers}
        self.calls: list[tuple[str, ...]] = []
        self.known_traits = {"CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX2"}
        self.known_classes = {"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_GPU"}
        self.before_write: Callable[[str, str], None] = lambda method, uuid: None
        self.after_write: Callable[[str, str], None] = lambda method, uuid: None
        self.before_read: Callable[[str, str], None] = lambda method, uuid: None
        self.microversion = microversion.MAXIMUM
        self.target = TARGET
        self._lock = threading.RLock()

    def require_feature(self, feature: str, what: str = "") -> None:
        return

    def counted(self, *prefixes: str) -> int:
        return sum(call[0].startswith(prefixes) for call in self.calls)

    @property
    def writes(self) -> int:
        return self.counted("replace", "create", "delete")

    def list_providers(
        self,
        *,
        name: str | None = None,
        uuid: str | None = None,
        in_tree: str | None = None,
        required: Sequence[str] = (),
        member_of: Sequence[str] = (),
    ) -> list[provider.Provider]:
        self._read("list_providers", str((name, uuid, in_tree, required, member_of)))
        unknown = [item for item in required if item.removeprefix("!") not in self.known_traits]
        if unknown:
            raise api_errors.ApiError(400, f"No such trait(s): {', '.join(unknown)}.")
        return [
            provider.Provider(item.uuid, item.name, item.generation)
            for item in self.stored.values()
            if name in (None, item.name)
            and uuid in (None, item.uuid)
            and in_tree in (None, item.uuid)
            and all(_meets(value, item.traits) for value in required)
            and all(_meets(value, item.aggregates) for value in member_of)
        ]

    def list_inventories(self, uuid: str) -> responses.ProviderInventories:
        item = self._read("list_inventories", uuid, uuid)
        return responses.ProviderInventories(item.generation, dict(item.inventories))

    def replace_inventories(
        self, uuid: str, generation: int, inventories: inventory.Inventories
    ) -> responses.ProviderInventories:
        with self._writing("replace_inventories", uuid, generation) as item:
            item.inventories = dict(inventories)
        return responses.ProviderInventories(item.generation, dict(item.inventories))

    def list_provider_traits(self, uuid: str) -> responses.ProviderTraits:
        item = self._read("list_provider_traits", uuid, uuid)
        return responses.ProviderTraits(item.generation, item.traits)

    def replace_provider_traits(
        self, uuid: str, generation: int, traits: Iterable[str]
    ) -> responses.ProviderTraits:
        wanted = tuple(traits)
        unknown = set(wanted) - self.known_traits
        if unknown:
            raise api_errors.ApiError(400, f"No such trait {', '.join(sorted(unknown))}")
        with self._writing("replace_provider_traits", uuid, generation) as item:
            item.traits = wanted
        return responses.ProviderTraits(item.generation, item.traits)

    def list_aggregates(self, uuid: str) -> responses.ProviderAggregates:
        item = self._read("list_aggregates", uuid, uuid)
        return responses.ProviderAggregates(item.generation, item.aggregates)

    def replace_aggregates(
        self, uuid: str, generation: int | None, aggregates: Iterable[str]
    ) -> responses.ProviderAggregates:
        with self._writing("replace_aggregates", uuid, generation) as item:
            item.aggregates = tuple(aggregates)
        return responses.ProviderAggregates(item.generation, item.aggregates)

    def list_usages(self, uuid: str) -> dict[str, int]:
        item = self._read("list_usages", uuid, uuid)
        return {name: item.usages.get(name, 0) for name in item.inventories}

    def list_allocation_candidates(self, asked: Any) -> responses.Candidates:
        self._read("list_allocation_candidates", str(asked))
        summaries = {
            item.uuid: responses.ProviderSummary(
                {
                    name: responses.ResourceSummary(one.capacity, item.usages.get(name, 0))
                    for name, one in item.inventories.items()
                }
            )
            for item in self.stored.values()
            if any(one.capacity > item.usages.get(rc, 0) for rc, one in item.inventories.items())
        }
        return responses.Candidates((), summaries)

    def list_traits(self, name: str | None = None) -> list[str]:
        self._read("list_traits", str(name))
        wanted = (name or "in:").removeprefix("in:").split(",")
        return [trait for trait in wanted if trait in self.known_traits]

    def trait_exists(self, name: str) -> bool:
        self._read("trait_exists", name)
        return name in self.known_traits

    def create_trait(self, name: str) -> None:
        self.calls.append(("create_trait", name))
        self.known_traits.add(name)

    def delete_trait(self, name: str) -> None:
        self.calls.append(("delete_trait", name))
        if any(name in item.traits for item in self.stored.values()):
            raise api_errors.Conflict(409, f"The trait {name} is in use")
        self.known_traits.discard(name)

    def resource_class_exists(self, name: str) -> bool:
        self._read("resource_class_exists", name)
        return name in self.known_classes

    def _read(self, method: str, about: str, uuid: str = "") -> Any:
        self.calls.append((method, about))
        self.before_read(method, about)
        if uuid and uuid not in self.stored:
            raise api_errors.NotFound(404, f"No resource provider with uuid {uuid} found")
        return self.stored.get(uuid)

    def _writing(self, method: str, uuid: str, generation: int | None) -> _Write:
        return _Write(self, method, uuid, generation)


class _Write:
    def __init__(self, client: FakeClient, method: str, uuid: str, generation: int | None) -> None:
        self.client, self.method, self.uuid, self.generation = client, method, uuid, generation

    def __enter__(self) -> Stored:
        self.client.calls.append((self.method, self.uuid))
        self.client.before_write(self.method, self.uuid)
        self.client._lock.acquire()
        item = self.client.stored.get(self.uuid)
        if item is None or item.generation != self.generation:
            self.client._lock.release()
            if item is None:
                raise api_errors.NotFound(404, f"No resource provider with uuid {self.uuid} found")
            raise api_errors.GenerationConflict(409, "resource provider generation conflict")
        item.generation += 1
        return item

    def __exit__(self, *_: object) -> None:
        self.client._lock.release()
        self.client.after_write(self.method, self.uuid)


def _meets(value: str, present: Sequence[str]) -> bool:
    wanted = value.removeprefix("!").removeprefix("in:").split(",")
    return any(item in present for item in wanted) != value.startswith("!")


AGGREGATE = uuid_of("aggregate one")


def host(name: str, **fields: Any) -> Stored:
    """A compute host of 32 VCPU at ratio 16 and 64 GiB, in AGGREGATE."""
    defaults: dict[str, Any] = {
        "generation": 3,
        "inventories": {
            "VCPU": inventory.Inventory(total=32, max_unit=32, allocation_ratio=16.0),
            "MEMORY_MB": inventory.Inventory(total=65536, reserved=512),
        },
        "aggregates": (AGGREGATE,),
    }
    return Stored(uuid_of(name), name, **(defaults | fields))


def hosts(count: int, **fields: Any) -> list[Stored]:
    return [host(f"host-{number:03}", **fields) for number in range(count)]
