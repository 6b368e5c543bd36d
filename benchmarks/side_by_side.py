# SPDX-License-Identifier: Apache-2.0
"""Compare the reference server with openstack-placement on the same requests.

Both run at the same time and get each request in turn, so that a slow machine affects both: the
ratios are more reliable than the seconds. A third server sends the response of the reference server
again, without any work: the floor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks import cloud, operations, served
from osc_placement.testing.cloud import Cloud, uuid_of
from tests.support.peer import process

OURS = "reference server"
PEER = "openstack-placement"
FLOOR = "floor"
Servers = Mapping[str, served.Served]


@dataclasses.dataclass
class Figure:
    """The seconds of one operation on each server, and the number of results.

    ``target`` is the smallest ``ratio``, ``floor_target`` the largest ``floor_ratio``.
    """

    name: str
    target: float | None = None
    floor_target: float | None = None
    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    results: int | None = None

    def median(self, server: str) -> float:
        return statistics.median(self.seconds[server])

    @property
    def ratio(self) -> float:
        """The factor by which the reference server is faster."""
        return self.median(PEER) / self.median(OURS)

    @property
    def floor_ratio(self) -> float | None:
        """The factor by which the floor is faster; None if it was not measured."""
        return self.median(OURS) / self.median(FLOOR) if FLOOR in self.seconds else None

    @property
    def misses(self) -> bool:
        """Whether a target is missed."""
        slow = self.target is not None and self.ratio < self.target
        floor_ratio = self.floor_ratio
        far = floor_ratio is not None and floor_ratio > (self.floor_target or math.inf)
        return slow or far

    def time(self, server: str, action: Callable[..., Any], *arguments: Any) -> Any:
        start = time.perf_counter()
        result = action(*arguments)
        self.seconds.setdefault(server, []).append(time.perf_counter() - start)
        return result


@dataclasses.dataclass(frozen=True)
class Size:
    """The number of hosts of each kind, and of repetitions."""

    flat: int = 1000
    nested: int = 50
    wide: int = 20
    repeat: int = 5
    writes: int = 200


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[tuple[Servers, served.Served]]:
    """Run both servers, each on an SQLite file, and the floor."""
    database = str(folder / "ours.sqlite")
    with (
        served.serving(served.ours("--database", database), folder / "ours") as reference,
        served.serving(process.PLACEMENT, folder / "peer") as peer,
        served.serving([sys.executable, "-m", "benchmarks.floor"], folder / "floor") as floor,
    ):
        yield {OURS: reference, PEER: peer}, floor


def measure(size: Size, folder: pathlib.Path) -> tuple[list[Figure], dict[str, int]]:
    """Return all figures, and the peak memory of each server in MiB."""
    with running(folder) as (servers, floor):
        figures = [
            _load(servers, "write: a flat host, 4 requests", cloud.add_flat_host, size.flat),
            _load(
                servers, "write: a nested host, 11 providers", cloud.add_nested_host, size.nested
            ),
            _load(servers, "write: a wide host, 9 providers", cloud.add_wide_host, size.wide),
        ]
        hosts = [uuid_of(cloud.flat_name(number)) for number in range(size.flat)]
        amounts = operations.amounts()
        for query in operations.QUERIES:
            figures.append(_ask(servers, floor, query, hosts[0], amounts, size.repeat))
        figures += _allocate(servers, floor, hosts, size.writes)
        return figures, {name: server.memory() for name, server in servers.items()}


def _load(servers: Servers, name: str, add_host: cloud.AddHost, number: int) -> Figure:
    figure = Figure(name)
    for host in range(number):
        add_host(kit := Cloud(), host)
        writes = [*cloud.writes(kit.document())]
        for server, to in servers.items():
            figure.time(server, _send, to, writes)
    return figure


def _send(server: served.Served, writes: list[cloud.Write]) -> None:
    for write in writes:
        server.request(*write)


def _ask(
    servers: Servers,
    floor: served.Served,
    query: operations.Query,
    host: str,
    amounts: Iterator[int],
    repeat: int,
) -> Figure:
    figure = Figure(query.name, query.target, query.floor_target)
    for turn in range(repeat):
        path = query.path.format(amount=next(amounts))
        for server, to in servers.items():
            operations.disturb(to, host, turn)
            raw = figure.time(server, to.request, "GET", path)
            if server == OURS:
                _time_floor(figure, floor, raw, "GET", path)
            results = operations.results(raw)
            if figure.results not in (None, results):
                raise RuntimeError(
                    f"{path}: {results} results, the other server has {figure.results}"
                )
            figure.results = results
    return figure


def _time_floor(
    figure: Figure, floor: served.Served, response: bytes, method: str, path: str, body: Any = None
) -> None:
    """Time the same request on the server that sends the same response without any work."""
    floor.request("POST", "/", response)
    figure.time(FLOOR, floor.request, method, path, body)


def _allocate(
    servers: Servers, floor: served.Served, hosts: list[str], number: int
) -> list[Figure]:
    generator = random.Random(5)
    put = Figure("write: PUT an allocation", operations.WRITE_TARGET)
    get = Figure("read: GET an allocation")
    inventories = Figure("read: GET inventories")
    for _ in range(number):
        host = generator.choice(hosts)
        consumer = str(uuid.UUID(int=generator.getrandbits(128), version=4))
        body = operations.allocation(host)
        requests = (
            (put, "PUT", f"/allocations/{consumer}", body),
            (get, "GET", f"/allocations/{consumer}", None),
            (inventories, "GET", f"/resource_providers/{host}/inventories", None),
        )
        for server, to in servers.items():
            for figure, *request in requests:
                raw = figure.time(server, to.request, *request)
                if server == OURS:
                    _time_floor(figure, floor, raw, *request)
    return [put, get, inventories]
