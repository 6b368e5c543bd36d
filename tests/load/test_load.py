# SPDX-License-Identifier: Apache-2.0
"""Sixteen concurrent writers: no capacity is allocated twice, no generation is lost or repeated.

A few seconds in the suite; ``pytest --long tests/load`` takes minutes.
"""

from __future__ import annotations

import collections
import http.client
import json
import pathlib
import random
import threading
import time
import uuid
from typing import Any

import pytest

from benchmarks import served

HEADERS = {
    "x-auth-token": "admin",
    "x-roles": "admin,service",
    "content-type": "application/json",
    "openstack-api-version": "placement 1.39",
}
#: Per provider and class; small, so that writers reach the limit.
TOTAL = 60
CLASSES = ("VCPU", "MEMORY_MB")


class Ledger:
    """The responses of all clients; many threads call each method.

    ``bumps`` counts, per provider, the acknowledged writes that raise its generation; ``reported``
    the generations that responses to writes contain.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.statuses: collections.Counter[int] = collections.Counter()
        self.bumps: collections.Counter[str] = collections.Counter()
        self.reported: collections.Counter[tuple[str, int]] = collections.Counter()
        self.complaints: list[str] = []

    def answered(self, status: int, body: bytes) -> None:
        with self._lock:
            self.statuses[status] += 1
            if status >= 500:
                self.complaints.append(body.decode(errors="replace"))

    def bumped(self, *providers: str) -> None:
        with self._lock:
            self.bumps.update(providers)

    def reported_generation(self, provider: str, generation: int) -> None:
        with self._lock:
            self.reported[provider, generation] += 1

    def complain(self, text: str) -> None:
        with self._lock:
            self.complaints.append(text)


class Writer(threading.Thread):
    """One client with its own consumers, on providers that it shares with other clients."""

    def __init__(
        self, port: int, providers: list[str], ledger: Ledger, seed: int, until: float
    ) -> None:
        super().__init__(daemon=True)
        self._chance = random.Random(seed)
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._providers = providers
        self._ledger = ledger
        self._until = until
        #: ``{consumer: (generation, allocations)}`` that the server must have.
        self.consumers: dict[str, tuple[int, dict[str, dict[str, int]]]] = {}

    def run(self) -> None:
        actions = (self._claim, self._claim, self._free, self._resize, self._reshape, self._read)
        try:
            while time.monotonic() < self._until:
                self._chance.choice(actions)()
        except Exception as error:  # noqa: BLE001 - updated by the test
            self._ledger.complain(repr(error))
        finally:
            self._http.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self._http.request(method, path, None if body is None else json.dumps(body), HEADERS)
        answer = self._http.getresponse()
        raw = answer.read()
        self._ledger.answered(answer.status, raw)
        return answer.status, json.loads(raw) if raw else None

    def _claim(self) -> None:
        """Create a consumer, or change the amounts of one."""
        mine = list(self.consumers)
        again = mine and self._chance.random() < 0.4
        consumer = self._chance.choice(mine) if again else str(uuid.UUID(int=self._bits()))
        generation = self.consumers[consumer][0] if again else None
        allocations = {
            provider: {name: self._chance.randint(1, 9) for name in CLASSES}
            for provider in self._chance.sample(self._providers, 2)
        }
        status, _ = self.ask("PUT", f"/allocations/{consumer}", self._body(generation, allocations))
        if status == 204:
            self.consumers[consumer] = (1 if generation is None else generation + 1, allocations)
            self._ledger.bumped(*allocations)

    def _body(
        self, generation: int | None, allocations: dict[str, dict[str, int]]
    ) -> dict[str, Any]:
        return {
            "allocations": {
                provider: {"resources": amounts} for provider, amounts in allocations.items()
            },
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }

    def _free(self) -> None:
        """Delete the allocations of a consumer, sometimes with an old generation."""
        if not self.consumers:
            return
        consumer = self._chance.choice(list(self.consumers))
        generation, allocations = self.consumers[consumer]
        stale = self._chance.random() < 0.2
        status, _ = self.ask("PUT", f"/allocations/{consumer}", self._body(generation - stale, {}))
        if stale:
            if status != 409:
                self._ledger.complain(f"a stale consumer generation was answered with {status}")
        elif status == 204:
            del self.consumers[consumer]
            self._ledger.bumped(*allocations)
        else:
            self._ledger.complain(f"our own consumer could not be emptied: {status}")

    def _resize(self) -> None:
        """Replace inventories; with many writers most attempts conflict."""
        provider = self._chance.choice(self._providers)
        path = f"/resource_providers/{provider}/inventories"
        _, current = self.ask("GET", path)
        reserved = self._chance.randint(0, 3)
        body = {
            "resource_provider_generation": current["resource_provider_generation"],
            "inventories": {name: {"total": TOTAL, "reserved": reserved} for name in CLASSES},
        }
        status, updated = self.ask("PUT", path, body)
        if status == 200:
            self._ledger.bumped(provider)
            self._ledger.reported_generation(provider, updated["resource_provider_generation"])
            if (
                updated["resource_provider_generation"]
                != current["resource_provider_generation"] + 1
            ):
                self._ledger.complain("a write was let through on a generation that had passed")

    def _reshape(self) -> None:
        """Move a consumer to another provider and replace that provider's inventory."""
        if not self.consumers:
            return
        consumer = self._chance.choice(list(self.consumers))
        generation, _ = self.consumers[consumer]
        provider = self._chance.choice(self._providers)
        _, current = self.ask("GET", f"/resource_providers/{provider}/inventories")
        allocations = {provider: dict.fromkeys(CLASSES, 1)}
        body = {
            "inventories": {
                provider: {
                    "resource_provider_generation": current["resource_provider_generation"],
                    "inventories": {name: {"total": TOTAL} for name in CLASSES},
                }
            },
            "allocations": {consumer: self._body(generation, allocations)},
        }
        status, _ = self.ask("POST", "/reshaper", body)
        if status == 204:
            self.consumers[consumer] = (generation + 1, allocations)
            # Old and new inventories together, the allocations, the new inventories alone.
            self._ledger.bumped(provider, provider, provider)

    def _read(self) -> None:
        """A reader never sees more usage than capacity."""
        provider = self._chance.choice(self._providers)
        _, usages = self.ask("GET", f"/resource_providers/{provider}/usages")
        for name, used in usages["usages"].items():
            if used > TOTAL:
                self._ledger.complain(f"{used} {name} of {TOTAL} are used")
        self.ask("GET", "/allocation_candidates?resources=VCPU:1&limit=10")

    def _bits(self) -> int:
        return self._chance.getrandbits(128)


CLIENTS = 16
#: Limit in KiB for the difference of memory between two equal rounds.
TOLERANCE = 4096


def ask(service: served.Served, method: str, path: str, body: Any = None) -> Any:
    """The JSON of a successful response, None without a body."""
    raw = service.request(method, path, body)
    return json.loads(raw) if raw else None


def prepare(service: served.Served) -> list[str]:
    providers = [str(uuid.UUID(int=number + 1)) for number in range(4)]
    inventories = {name: {"total": TOTAL} for name in CLASSES}
    for number, provider in enumerate(providers):
        ask(service, "POST", "/resource_providers", {"name": f"host-{number}", "uuid": provider})
        body = {"resource_provider_generation": 0, "inventories": inventories}
        ask(service, "PUT", f"/resource_providers/{provider}/inventories", body)
    return providers


def write(service: served.Served, providers: list[str], seconds: float, seed: int) -> Ledger:
    """One round of load, compared with the state at its end; it leaves nothing behind."""
    ledger = Ledger()
    before = {provider: generation(service, provider) for provider in providers}
    until = time.monotonic() + seconds
    clients = [
        Writer(service.port, providers, ledger, seed * CLIENTS + number, until)
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(seconds + 60)
    assert ledger.complaints == []
    check_generations(service, before, ledger)
    kept_of = {uuid: kept for client in clients for uuid, kept in client.consumers.items()}
    check_allocations(service, providers, kept_of)
    for consumer in kept_of:
        ask(service, "DELETE", f"/allocations/{consumer}")
    return ledger


def generation(service: served.Served, provider: str) -> int:
    return int(ask(service, "GET", f"/resource_providers/{provider}")["generation"])


def check_generations(service: served.Served, before: dict[str, int], ledger: Ledger) -> None:
    """Each acknowledged write raised the generation by one, and no two reported the same one."""
    for provider, first in before.items():
        assert generation(service, provider) == first + ledger.bumps[provider]
    assert set(ledger.reported.values()) <= {1}


def check_allocations(
    service: served.Served,
    providers: list[str],
    kept_of: dict[str, tuple[int, dict[str, dict[str, int]]]],
) -> None:
    """Allocations are those that clients wrote, and within capacity."""
    for provider in providers:
        found = ask(service, "GET", f"/resource_providers/{provider}/allocations")["allocations"]
        assert {consumer: entry["resources"] for consumer, entry in found.items()} == {
            consumer: allocations[provider]
            for consumer, (_, allocations) in kept_of.items()
            if provider in allocations
        }
        for consumer, entry in found.items():
            assert entry["consumer_generation"] == kept_of[consumer][0]
        usages = ask(service, "GET", f"/resource_providers/{provider}/usages")["usages"]
        for name in CLASSES:
            used = sum(entry["resources"].get(name, 0) for entry in found.values())
            assert usages[name] == used <= TOTAL


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_sixteen_writers_neither_lose_changes_nor_oversubscribe(
    kind: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    seconds = 60.0 if request.config.getoption("--long") else 1.5
    database = ["--database", str(tmp_path / "placement.sqlite")] if kind == "sqlite" else []
    with served.serving(served.ours(*database), tmp_path / "server") as service:
        providers = prepare(service)
        write(service, providers, seconds, seed=1)
        resting = service.resident()
        ledger = write(service, providers, seconds, seed=2)
        assert service.resident() < resting + TOLERANCE
    # The server printed its URL, and no complaint.
    assert len((tmp_path / "server" / "server.log").read_text().splitlines()) == 1
    # The round had all kinds of load.
    assert set(ledger.statuses) >= {200, 204, 409}
    assert ledger.statuses[204] > 20
    assert ledger.statuses[409] > 5
