"""Large clouds, and questions with too many answers: the reference server alone."""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import cloud, operations, served

SMALL, LARGE = 1_000, 20_000
DEVICES, GROUPS = 32, 8
ASTRONOMICAL = "/allocation_candidates?group_policy=isolate" + "".join(
    f"&resources_{group}=PCI_DEVICE:1" for group in range(GROUPS)
)
REPEAT = 20


class Finding(NamedTuple):
    """One thing that was measured; ``bound`` says what it may be at most."""

    what: str
    value: float
    unit: str
    bound: str


def measure(folder: pathlib.Path) -> Iterator[Finding]:
    """Everything, one after the other."""
    documents = {hosts: _document(hosts, folder) for hosts in (SMALL, LARGE)}
    yield from _limited(documents, folder)
    yield from _opened(documents[LARGE], folder)
    yield from _astronomical(folder)


def _document(hosts: int, folder: pathlib.Path) -> pathlib.Path:
    path = folder / f"{hosts}-hosts.json"
    providers = [provider for host in range(hosts) for provider in cloud.flat_host(host)]
    path.write_text(json.dumps(cloud.document(providers)))
    return path


def _limited(documents: dict[int, pathlib.Path], folder: pathlib.Path) -> Iterator[Finding]:
    """A question with a limit, to clouds of two sizes; and what the large one takes."""
    times = {}
    for hosts, document in documents.items():
        with served.serving(served.ours("--load", str(document)), folder / str(hosts)) as server:
            times[hosts] = _ask_ten(server)
            yield Finding(f"candidates, limit=10, {hosts} hosts", times[hosts] * 1000, "ms", "")
            if hosts == LARGE:
                yield Finding("memory with 20,000 hosts loaded", server.memory(), "MiB", "600")
    yield Finding("limit=10: 20,000 against 1,000 hosts", times[LARGE] / times[SMALL], "x", "3")


def _ask_ten(server: served.Served) -> float:
    """The median time of a query, each after a write."""
    host = cloud.flat_host(0)[0].uuid
    seconds = []
    for turn in range(REPEAT):
        operations.disturb(server, host, turn)
        query = operations.QUERIES[1].path.format(amount=256 + turn)
        begun = time.perf_counter()
        raw = server.ask("GET", query)
        seconds.append(time.perf_counter() - begun)
        assert operations.results(raw) == 10
    return statistics.median(seconds)


def _opened(document: pathlib.Path, folder: pathlib.Path) -> Iterator[Finding]:
    """The large cloud in an SQLite file: from the start of a process to its first answer."""
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
    yield Finding("start, empty", empty[0], "s", "")
    yield Finding("start with 20,000 hosts, 60,000 inventories in SQLite", opened[0], "s", "5")
    yield Finding("memory after that", opened[1], "MiB", "600")


def _start(command: list[str], state: pathlib.Path) -> tuple[float, int]:
    begun = time.perf_counter()
    with served.serving(command, state) as server:
        return time.perf_counter() - begun, server.memory()


def _astronomical(folder: pathlib.Path) -> Iterator[Finding]:
    """Eight groups of one device each, of 32 that are alike: 4 * 10**11 answers."""
    path = folder / "wide.json"
    path.write_text(json.dumps(cloud.document(cloud.wide_host(0, DEVICES))))
    with served.serving(served.ours("--load", str(path)), folder / "wide") as server:
        before = server.memory()
        limited = _timed(server, f"{ASTRONOMICAL}&limit=10", 200)
        unlimited = _timed(server, ASTRONOMICAL, 400)
        memory = server.memory() - before
    shape = f"{GROUPS} groups on {DEVICES} devices"
    yield Finding(f"{shape}, limit=10", limited * 1000, "ms", "100")
    yield Finding(f"{shape}, no limit: refused after", unlimited, "s", "30")
    yield Finding(f"{shape}: memory for both", memory, "MiB", "300")


def _timed(server: served.Served, path: str, status: int) -> float:
    begun = time.perf_counter()
    found, raw = server.answer("GET", path)
    taken = time.perf_counter() - begun
    if found != status:
        raise RuntimeError(f"{path}: {found} {raw[:300]!r}")
    return taken
