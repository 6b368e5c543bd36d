# SPDX-License-Identifier: Apache-2.0
"""A client of an embedded server that shows its requests to the test.

The client records each HTTP request. A test acts before or after a request: it changes the
state as a concurrent client, returns another response, or breaks the connection.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import uuid as uuid_module
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Self

import requests
import urllib3.exceptions

from osc_placement import microversion
from osc_placement.client import api, wsgi
from osc_placement.model import allocation, inventory
from osc_placement.testing import service
from tests.support import scripted

TARGET = "http://placement.example (cloud test)"


def uuid_of(name: str) -> str:
    """The UUID of a provider, an aggregate or a consumer in tests."""
    return str(uuid_module.uuid5(uuid_module.NAMESPACE_DNS, name))


AGGREGATE = uuid_of("aggregate one")
GENERATION = 3


Request = scripted.Request
#: Returns a response in place of the server's, raises the error of a broken connection, or
#: returns None.
Action = Callable[[Request], scripted.Reply | None]


def nothing(request: Request) -> None:
    """Do nothing."""


class Proxy:
    """The server, with the actions of a test before and after each request."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.sent: list[Request] = []
        self.before: Action = nothing
        self.after: Action = nothing

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request.read(environ)
        self.sent.append(request)
        reply = self.before(request)
        if reply is None:
            answer = self._app(environ, start_response)
            reply = self.after(request)
            if reply is None:
                return answer
        return reply.send(start_response)

    def close(self) -> None:
        """The server has no files."""


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
        given = list(hosts)
        placement = service.InProcessPlacement(load=load or _document(given)).start()
        self._app = placement.app
        self._proxy = Proxy(placement.app)
        super().__init__(wsgi.in_process(lambda: self._proxy, target), microversion.MAXIMUM)
        self.rival = placement.client(microversion.MAXIMUM)
        for host in given:
            for resource_class, amount in host.used.items():
                self.stored(host.name).use(resource_class, amount)

    def at(self, version: microversion.Microversion) -> Self:
        other = copy.copy(self)
        other._requested = version
        return other

    @property
    def sent(self) -> list[Request]:
        """The requests in their order; a test may clear the list."""
        return self._proxy.sent

    def before(self, action: Action) -> None:
        """Run ``action`` before each request reaches the server."""
        self._proxy.before = action

    def after(self, action: Action) -> None:
        """Run ``action`` after the server has carried out a request."""
        self._proxy.after = action

    def before_write(self, action: Action) -> None:
        """Run ``action`` before each write reaches the server."""
        self.before(lambda request: action(request) if request.is_write else None)

    def after_write(self, action: Action) -> None:
        """Run ``action`` after the server has carried out a write."""
        self.after(lambda request: action(request) if request.is_write else None)

    def count(self) -> collections.Counter[str]:
        """The number of requests sent by template."""
        return collections.Counter(request.template for request in self.sent)

    @property
    def writes(self) -> int:
        """The number of writes sent."""
        return sum(request.is_write for request in self.sent)

    def export(self) -> dict[str, Any]:
        """The whole state, as a document that ``load`` accepts."""
        return self._app.export()

    def stored(self, name: str) -> Stored:
        """The provider of a name or UUID."""
        (found,) = [item for item in self.all_stored() if name in (item.name, item.uuid)]
        return found

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
        found = self.fields["inventories"]
        return {name: inventory.Inventory(**item) for name, item in found.items()}

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
    return {
        "custom_resource_classes": [],
        "custom_traits": ["CUSTOM_A", "CUSTOM_B"],
        "providers": {
            uuid_of(host.name): {
                "name": host.name,
                "parent": None,
                "root": uuid_of(host.name),
                "generation": GENERATION,
                "inventories": {name: item.as_dict() for name, item in host.inventories.items()},
                "traits": list(host.traits),
                "aggregates": list(host.aggregates),
            }
            for host in given
        },
        "consumers": {},
    }


def at(template: str, action: Action) -> Action:
    """Run ``action`` at requests of a template."""
    return lambda request: action(request) if request.template == template else None


def nth(number: int, action: Action) -> Action:
    """Run ``action`` at one request, counted from 1."""
    reached = itertools.count(1)
    return lambda request: action(request) if next(reached) == number else None


def once_each(action: Action) -> Action:
    """Run ``action`` at the first request about each subject."""
    seen: set[str] = set()

    def first(request: Request) -> scripted.Reply | None:
        if request.subject in seen:
            return None
        seen.add(request.subject)
        return action(request)

    return first


def about(name: str, action: Action) -> Action:
    """Run ``action`` at requests about a name, or about the UUID of a name."""
    subjects = {name, uuid_of(name)}
    return lambda request: action(request) if request.subject in subjects else None


def refuse(status: int, detail: str, code: str | None = None) -> Action:
    """Respond with an error of Placement."""
    return lambda request: scripted.fault(status, detail, code)


def lose(request: Request) -> scripted.Reply:
    """Respond as a proxy that lost the connection to Placement."""
    return scripted.Reply(502, b"<html>Bad gateway</html>")


class Killed(BaseException):
    """Simulates kill -9: no error handler catches it."""


def kill(request: Request) -> None:
    """Kill the process."""
    raise Killed


def cut(request: Request) -> None:
    """Break the connection before the response."""
    raise requests.exceptions.ConnectionError("the connection was cut")


def disconnect(request: Request) -> None:
    """Refuse the connection."""
    cause = urllib3.exceptions.NewConnectionError(None, "no connection")  # type: ignore[arg-type]
    pool: Any = None
    raise requests.exceptions.ConnectionError(
        urllib3.exceptions.MaxRetryError(pool, request.path, cause)
    )
