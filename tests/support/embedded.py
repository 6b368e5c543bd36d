# SPDX-License-Identifier: Apache-2.0
"""A client of a reference server that shows its requests to the test.

The client records each HTTP request. A test acts before or after a request: it changes the
state as a concurrent client, returns another response, or breaks the connection.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from osc_placement import microversion
from osc_placement.client import api, wsgi
from osc_placement.model import allocation, inventory
from osc_placement.testing import service, traffic
from osc_placement.testing.cloud import complete, uuid_of
from osc_placement.testing.traffic import (
    Action,
    Request,
    at,
    cut,
    disconnect,
    lose,
    nothing,
    nth,
    once_each,
    refuse,
)

__all__ = ["at", "cut", "disconnect", "lose", "nothing", "nth", "once_each", "refuse", "uuid_of"]

TARGET = "http://placement.example (cloud test)"


AGGREGATE = uuid_of("aggregate one")
GENERATION = 3


class Client(api.Client):
    """A client of its own server in memory; ``rival`` is another client of it, not recorded.

    The server starts with ``hosts``, or with the state document ``load``.
    """

    def __init__(
        self,
        hosts: Iterable[Host] = (),
        target: str = TARGET,
        *,
        load: Mapping[str, Any] | None = None,
    ) -> None:
        providers = list(hosts)
        placement = service.InProcessPlacement(load=load or _document(providers)).start()
        self.placement, self.rival = placement, placement.rival()
        self.before, self.before_write = placement.before, placement.before_write
        self.after, self.after_write = placement.after, placement.after_write
        self.count, self.export = placement.count, placement.export
        super().__init__(wsgi.in_process(placement._shared(), target), microversion.MAXIMUM)
        # Workflows read it as a service, by requests, and not as a database file.
        self.transport.local = lambda: None
        for host in providers:
            for resource_class, amount in host.used.items():
                self.stored(host.name).use(resource_class, amount)

    def at(self, version: microversion.Microversion) -> Self:
        other = copy.copy(self)
        other._requested = version
        return other

    @property
    def sent(self) -> list[Request]:
        """The requests in their order; a test may clear the list."""
        return self.placement.requests

    @property
    def writes(self) -> int:
        """The number of writes sent."""
        return sum(request.is_write for request in self.sent)

    def stored(self, name: str) -> Stored:
        """The provider of a name or UUID."""
        (provider,) = [item for item in self.all_stored() if name in (item.name, item.uuid)]
        return provider

    def all_stored(self) -> list[Stored]:
        """All providers."""
        providers = self.export()["providers"]
        return [Stored(uuid, fields, self.rival) for uuid, fields in providers.items()]


class Stored(NamedTuple):
    """A provider as the server stored it when the test asked; another client changes it."""

    uuid: str
    fields: dict[str, Any]
    client: api.Client

    @property
    def name(self) -> str:
        """The name of the provider."""
        return str(self.fields["name"])

    @property
    def generation(self) -> int:
        """The generation of the provider."""
        return int(self.fields["generation"])

    @property
    def inventories(self) -> inventory.Inventories:
        """The inventories by resource class."""
        stored = self.fields["inventories"]
        return {name: inventory.Inventory(**item) for name, item in stored.items()}

    @property
    def traits(self) -> set[str]:
        """The names of the traits."""
        return set(self.fields["traits"])

    @property
    def aggregates(self) -> set[str]:
        """The UUIDs of the aggregates."""
        return set(self.fields["aggregates"])

    def set_inventory(self, resource_class: str, **fields: Any) -> None:
        """Change fields of one inventory."""
        changed = dataclasses.replace(self.inventories[resource_class], **fields)
        inventories = {**self.inventories, resource_class: changed}
        self.client.replace_inventories(self.uuid, self.generation, inventories)

    def set_traits(self, *names: str) -> None:
        """Replace all traits."""
        self.client.replace_provider_traits(self.uuid, self.generation, names)

    def set_aggregates(self, *uuids: str) -> None:
        """Replace all aggregates."""
        self.client.replace_aggregates(self.uuid, self.generation, uuids)

    def add_aggregates(self, *uuids: str) -> None:
        """Add aggregates and keep the others."""
        self.set_aggregates(*self.aggregates, *uuids)

    def use(self, resource_class: str, amount: int) -> None:
        """Allocate an amount to new consumers, each at most ``max_unit``."""
        largest = self.inventories[resource_class].max_unit
        parts = [largest] * (amount // largest) + [amount % largest] * bool(amount % largest)
        self.client.write_allocations(
            [
                allocation.Consumer(
                    uuid_of(f"{self.name} {resource_class} {number}"),
                    {self.uuid: {resource_class: part}},
                    "a project",
                    "a user",
                    None,
                    "INSTANCE",
                )
                for number, part in enumerate(parts)
            ]
        )

    def delete(self) -> None:
        """Delete the provider."""
        self.client.delete_provider(self.uuid)


@dataclasses.dataclass(frozen=True)
class Host:
    """A provider that a client starts with: 32 VCPU at ratio 16, 64 GiB, in AGGREGATE."""

    name: str
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = (AGGREGATE,)
    used: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inventories: inventory.Inventories = dataclasses.field(
        default_factory=lambda: {
            "VCPU": inventory.Inventory(total=32, max_unit=32, allocation_ratio=16.0),
            "MEMORY_MB": inventory.Inventory(total=65536, reserved=512),
        }
    )


def hosts(count: int) -> list[Host]:
    """The hosts ``host-000``, ``host-001``, ..."""
    return [Host(f"host-{number:03}") for number in range(count)]


def _document(given: Iterable[Host]) -> dict[str, Any]:
    return complete(
        {
            "custom_traits": ["CUSTOM_A", "CUSTOM_B"],
            "providers": {
                uuid_of(host.name): {
                    "name": host.name,
                    "generation": GENERATION,
                    "inventories": {key: item.as_dict() for key, item in host.inventories.items()},
                    "traits": list(host.traits),
                    "aggregates": list(host.aggregates),
                }
                for host in given
            },
        }
    )


def about(name: str, action: Action) -> Action:
    """Run ``action`` at requests about a name, or about the UUID of a name."""
    return traffic.about({name, uuid_of(name)}, action)


class Killed(BaseException):
    """Simulates kill -9: no error handler catches it."""


def kill(request: Request) -> None:
    """Kill the process."""
    raise Killed
