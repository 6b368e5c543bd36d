# SPDX-License-Identifier: Apache-2.0
"""Measure the reference server with large clouds, and with queries of too many results."""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import cloud, operations, served
from osc_placement.testing.cloud import uuid_of

SMALL, LARGE = 1_000, 20_000
DEVICES, GROUPS = 32, 8
TOO_MANY = "/allocation_candidates?group_policy=isolate" + "".join(
    f"&resources_{group}=PCI_DEVICE:1" for group in range(GROUPS)
)
REPEAT = 20


class Measurement(NamedTuple):
    """One measurement; ``bound`` is its upper limit."""

    name: str
    value: float
    unit: str
    bound: str


def measure(folder: pathlib.Path) -> Iterator[Measurement]:
    """Run all measurements."""
    documents = {hosts: _document(hosts, folder) for hosts in (SMALL, LARGE)}
    yield from _limited(documents, folder)
    yield from _opened(documents[LARGE], folder)
    yield from _too_many(folder)


def _document(hosts: int, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f"{hosts}-hosts.json"
    path.write_text(json.dumps(cloud.flat_hosts(hosts)))
    return path


def _limited(documents: dict[int, pathlib.Path], folder: pathlib.Path) -> Iterator[Measurement]:
    """Measure a query with a limit on clouds of two sizes, and the memory for the large cloud."""
    times = {}
    for hosts, document in documents.items():
        with served.serving(served.ours("--load", str(document)), folder / str(hosts)) as server:
            times[hosts] = _ask_ten(server)
            yield Measurement(f"candidates, limit=10, {hosts} hosts", times[hosts] * 1000, "ms", "")
            if hosts == LARGE:
                yield Measurement("memory with 20,000 hosts loaded", server.memory(), "MiB", "600")
    yield Measurement("limit=10: 20,000 against 1,000 hosts", times[LARGE] / times[SMALL], "x", "3")


def _ask_ten(server: served.Served) -> float:
    """The median time of a query after a write."""
    host = uuid_of(cloud.flat_name(0))
    seconds = []
    for turn in range(REPEAT):
        operations.disturb(server, host, turn)
        query = operations.QUERIES[1].path.format(amount=256 + turn)
        start = time.perf_counter()
        raw = server.request("GET", query)
        seconds.append(time.perf_counter() - start)
        assert operations.results(raw) == 10
    return statistics.median(seconds)


def _opened(document: pathlib.Path, folder: pathlib.Path) -> Iterator[Measurement]:
    """Measure the start with the large cloud in an SQLite file, until the first response."""
    database = str(folder / "large.sqlite")
    empty = _start(served.ours(), folder / "empty")
    subprocess.run(
        [
            *served.ours("--load", str(document), "--database", database, "--export")[:-1],
            "/dev/null",
        ],
        check=True,
    )
    opened = _start(served.ours("--database", database), folder / "opened")
    yield Measurement("start, empty", empty[0], "s", "")
    yield Measurement("start with 20,000 hosts, 60,000 inventories in SQLite", opened[0], "s", "5")
    yield Measurement("memory after that", opened[1], "MiB", "600")


def _start(command: list[str], state: pathlib.Path) -> tuple[float, int]:
    start = time.perf_counter()
    with served.serving(command, state) as server:
        return time.perf_counter() - start, server.memory()


def _too_many(folder: pathlib.Path) -> Iterator[Measurement]:
    """Measure a query for eight of 32 equal devices, which has 4 * 10**11 results."""
    path = folder / "wide.json"
    path.write_text(json.dumps(cloud.wide_host(DEVICES)))
    with served.serving(served.ours("--load", str(path)), folder / "wide") as server:
        before = server.memory()
        limited = _timed(server, f"{TOO_MANY}&limit=10", 200)
        unlimited = _timed(server, TOO_MANY, 400)
        memory = server.memory() - before
    shape = f"{GROUPS} groups on {DEVICES} devices"
    yield Measurement(f"{shape}, limit=10", limited * 1000, "ms", "100")
    yield Measurement(f"{shape}, no limit: refused after", unlimited, "s", "30")
    yield Measurement(f"{shape}: memory for both", memory, "MiB", "300")


def _timed(server: served.Served, path: str, status: int) -> float:
    start = time.perf_counter()
    code, raw = server.send("GET", path)
    seconds = time.perf_counter() - start
    if code != status:
        raise RuntimeError(f"{path}: {code} {raw[:300]!r}")
    return seconds
