"""Compare the reference server with openstack-placement on the same requests.

Both run at the same time and get each request in turn, so that a slow machine affects both: the
ratios are more reliable than the seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks import cloud, operations, served
from tests.support.peer import process

OURS = "reference server"
PEER = "openstack-placement"
Servers = Mapping[str, served.Served]


@dataclasses.dataclass
class Figure:
    """The seconds of one operation on each server, and the number of results."""

    name: str
    target: float | None
    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    results: int | None = None

    def median(self, server: str) -> float:
        return statistics.median(self.seconds[server])

    @property
    def ratio(self) -> float:
        """The factor by which the reference server is faster."""
        return self.median(PEER) / self.median(OURS)

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
def both(folder: pathlib.Path) -> Iterator[Servers]:
    """Run both servers, each on an SQLite file."""
    database = str(folder / "ours.sqlite")
    with (
        served.serving(served.ours("--database", database), folder / "ours") as reference,
        served.serving(process.PLACEMENT, folder / "peer") as peer,
    ):
        yield {OURS: reference, PEER: peer}


def measure(size: Size, folder: pathlib.Path) -> tuple[list[Figure], dict[str, int]]:
    """Return all figures, and the peak memory of each server in MiB."""
    with both(folder) as servers:
        figures = [
            _load(servers, "write: a flat host, 4 requests", cloud.flat_host, size.flat),
            _load(servers, "write: a nested host, 11 providers", cloud.nested_host, size.nested),
            _load(servers, "write: a wide host, 9 providers", cloud.wide_host, size.wide),
        ]
        hosts = [cloud.flat_host(number)[0].uuid for number in range(size.flat)]
        amounts = operations.amounts()
        for query in operations.QUERIES:
            figures.append(_ask(servers, query, hosts[0], amounts, size.repeat))
        figures += _allocate(servers, hosts, size.writes)
        return figures, {name: server.memory() for name, server in servers.items()}


def _load(
    servers: Servers, name: str, make: Callable[[int], list[cloud.Provider]], number: int
) -> Figure:
    figure = Figure(name, None)
    for host in range(number):
        writes = [write for provider in make(host) for write in provider.writes()]
        for server, to in servers.items():
            figure.time(server, _send, to, writes)
    return figure


def _send(server: served.Served, writes: list[cloud.Write]) -> None:
    for write in writes:
        server.request(*write)


def _ask(
    servers: Servers, query: operations.Query, host: str, amounts: Iterator[int], repeat: int
) -> Figure:
    figure = Figure(query.name, query.target)
    for turn in range(repeat):
        path = query.path.format(amount=next(amounts))
        for server, to in servers.items():
            operations.disturb(to, host, turn)
            results = operations.results(figure.time(server, to.request, "GET", path))
            if figure.results not in (None, results):
                raise RuntimeError(
                    f"{path}: {results} results, the other server has {figure.results}"
                )
            figure.results = results
    return figure


def _allocate(servers: Servers, hosts: list[str], number: int) -> list[Figure]:
    generator = random.Random(5)
    put = Figure("write: PUT an allocation", operations.WRITE_TARGET)
    get = Figure("read: GET an allocation", None)
    inventories = Figure("read: GET inventories", None)
    for _ in range(number):
        host = generator.choice(hosts)
        consumer = str(uuid.UUID(int=generator.getrandbits(128), version=4))
        body = operations.allocation(host)
        for server, to in servers.items():
            put.time(server, to.request, "PUT", f"/allocations/{consumer}", body)
            get.time(server, to.request, "GET", f"/allocations/{consumer}")
            inventories.time(server, to.request, "GET", f"/resource_providers/{host}/inventories")
    return [put, get, inventories]
