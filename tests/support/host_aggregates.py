# SPDX-License-Identifier: Apache-2.0
"""Clouds whose nova has host aggregates, for the tests of the mirror."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from osc_placement import testing
from osc_placement.nova import api
from tests.support import embedded


class FakeNova:
    """Host aggregates as ``{name: [host]}``; each known host has one compute node."""

    source = ""

    def __init__(self, aggregates: dict[str, list[str]], hosts: list[str]) -> None:
        self.aggregates, self.hosts = aggregates, hosts
        self.requests: list[str] = []
        self.forbidden: set[str] = set()
        self.before: Callable[[str], None] = lambda path: None

    def ask(self, path: str, version: str) -> Any:
        self.before(path)
        self.requests.append(path)
        what = path.partition("?")[0]
        if what in self.forbidden:
            rule = f"os_compute_api:{what[1:]}:index"
            raise api.NovaRefused(403, f"Policy doesn't allow {rule} to be performed.")
        kit = testing.Cloud()
        for host in self.hosts:
            kit.node(f"{host}.", host)
        for name, hosts in self.aggregates.items():
            kit.aggregate(name, [f"{host}." for host in hosts])
        return kit.nova()[f"GET /v2.1{what}"]


def cloud(count: int = 6) -> tuple[embedded.Client, FakeNova]:
    """Hosts h0, h1, ...: the even ones in ``even``, all in ``all``; Placement has neither."""
    names = [f"h{number}" for number in range(count)]
    hosts = [embedded.Host(f"{name}.") for name in names]
    return embedded.Client(hosts), FakeNova({"all": names, "even": names[::2]}, names)


def members(client: embedded.Client, name: str) -> list[str]:
    """The names of the providers in the aggregate of this name."""
    uuid = embedded.uuid_of(name)
    return sorted(item.name for item in client.all_stored() if uuid in item.aggregates)
