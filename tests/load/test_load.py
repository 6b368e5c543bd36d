# SPDX-License-Identifier: Apache-2.0
"""Sixteen concurrent writers: no capacity is allocated twice, no generation is lost or repeated.

A few seconds in the suite; ``pytest --long tests/load`` takes minutes.
"""

from __future__ import annotations

import contextlib
import gc
import pathlib
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support.load import writers

CLIENTS = 16
#: Limit in MiB for the difference of memory between two equal rounds.
TOLERANCE = 4.0


class Process:
    """A server process under load."""

    def __init__(self, database: pathlib.Path | None) -> None:
        options = ["--port", "0", *(["--database", str(database)] if database else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "osc_placement.server", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(writers.HEADERS)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._session.request(method, self.url + path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def memory(self) -> float:
        """Resident memory in MiB."""
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def stop(self) -> str:
        """Stop the process; returns its stderr."""
        self._session.close()
        self._process.terminate()
        _, complaints = self._process.communicate(timeout=30)
        return complaints


@contextlib.contextmanager
def running(database: pathlib.Path | None) -> Iterator[Process]:
    process = Process(database)
    try:
        yield process
    finally:
        assert process.stop() == ""


def prepare(process: Process) -> list[str]:
    providers = [str(uuid.UUID(int=number + 1)) for number in range(4)]
    inventories = {name: {"total": writers.TOTAL} for name in writers.CLASSES}
    for number, provider in enumerate(providers):
        process.ask("POST", "/resource_providers", {"name": f"host-{number}", "uuid": provider})
        body = {"resource_provider_generation": 0, "inventories": inventories}
        process.ask("PUT", f"/resource_providers/{provider}/inventories", body)
    return providers


def write(process: Process, providers: list[str], seconds: float, seed: int) -> writers.Ledger:
    """One round of load, compared with the state at its end; it leaves nothing behind."""
    ledger = writers.Ledger()
    before = {provider: generation(process, provider) for provider in providers}
    until = time.monotonic() + seconds
    clients = [
        writers.Writer(process.url, providers, ledger, seed * CLIENTS + number, until)
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(seconds + 60)
    assert ledger.complaints == []
    check_generations(process, before, ledger)
    held = {uuid: kept for client in clients for uuid, kept in client.consumers.items()}
    check_allocations(process, providers, held)
    for consumer in held:
        process.ask("DELETE", f"/allocations/{consumer}")
    return ledger


def generation(process: Process, provider: str) -> int:
    return int(process.ask("GET", f"/resource_providers/{provider}")["generation"])


def check_generations(process: Process, before: dict[str, int], ledger: writers.Ledger) -> None:
    """Each acknowledged write raised the generation by one, and no two reported the same one."""
    for provider, first in before.items():
        assert generation(process, provider) == first + ledger.bumps[provider]
    assert set(ledger.reported.values()) <= {1}


def check_allocations(
    process: Process, providers: list[str], held: dict[str, tuple[int, dict[str, dict[str, int]]]]
) -> None:
    """Allocations are those that clients wrote, and within capacity."""
    for provider in providers:
        found = process.ask("GET", f"/resource_providers/{provider}/allocations")["allocations"]
        assert {consumer: entry["resources"] for consumer, entry in found.items()} == {
            consumer: allocations[provider]
            for consumer, (_, allocations) in held.items()
            if provider in allocations
        }
        for consumer, entry in found.items():
            assert entry["consumer_generation"] == held[consumer][0]
        usages = process.ask("GET", f"/resource_providers/{provider}/usages")["usages"]
        for name in writers.CLASSES:
            used = sum(entry["resources"].get(name, 0) for entry in found.values())
            assert usages[name] == used <= writers.TOTAL


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_sixteen_writers_neither_lose_changes_nor_oversubscribe(
    kind: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    seconds = 60.0 if request.config.getoption("--long") else 1.5
    gc.collect()
    with running(tmp_path / "placement.sqlite" if kind == "sqlite" else None) as process:
        providers = prepare(process)
        write(process, providers, seconds, seed=1)
        resting = process.memory()
        ledger = write(process, providers, seconds, seed=2)
        assert process.memory() < resting + TOLERANCE
    # The round had all kinds of load.
    assert set(ledger.statuses) >= {200, 204, 409}
    assert ledger.statuses[204] > 50 * seconds
    assert ledger.statuses[409] > 10 * seconds
