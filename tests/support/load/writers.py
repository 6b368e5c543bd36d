"""Clients that write to the same few providers at once, and keep account of what they were told."""

from __future__ import annotations

import collections
import http.client
import json
import random
import threading
import time
import urllib.parse
import uuid
from typing import Any

HEADERS = {
    "x-auth-token": "admin",
    "x-roles": "admin,service",
    "content-type": "application/json",
    "openstack-api-version": "placement 1.39",
}
#: Per provider and class; few enough that writers meet the limit.
TOTAL = 60
CLASSES = ("VCPU", "MEMORY_MB")


class Ledger:
    """What all clients were told; each method is called by many threads.

    ``bumps`` counts, per provider, the writes that were acknowledged and raise its
    generation; ``seen`` the generations that writes were told that they made.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.statuses: collections.Counter[int] = collections.Counter()
        self.bumps: collections.Counter[str] = collections.Counter()
        self.seen: collections.Counter[tuple[str, int]] = collections.Counter()
        self.complaints: list[str] = []

    def answered(self, status: int, body: bytes) -> None:
        with self._lock:
            self.statuses[status] += 1
            if status >= 500:
                self.complaints.append(body.decode(errors="replace"))

    def bumped(self, *providers: str) -> None:
        with self._lock:
            self.bumps.update(providers)

    def made(self, provider: str, generation: int) -> None:
        with self._lock:
            self.seen[provider, generation] += 1

    def complain(self, text: str) -> None:
        with self._lock:
            self.complaints.append(text)


class Writer(threading.Thread):
    """One client with consumers of its own, on providers that it shares with the others."""

    def __init__(
        self, url: str, providers: list[str], ledger: Ledger, seed: int, until: float
    ) -> None:
        super().__init__(daemon=True)
        self._chance = random.Random(seed)
        address = urllib.parse.urlsplit(url)
        self._http = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
        self._providers = providers
        self._ledger = ledger
        self._until = until
        #: ``{consumer: (generation, allocations)}`` as the server must have them.
        self.consumers: dict[str, tuple[int, dict[str, dict[str, int]]]] = {}

    def run(self) -> None:
        actions = (self._claim, self._claim, self._free, self._resize, self._reshape, self._look)
        try:
            while time.monotonic() < self._until:
                self._chance.choice(actions)()
        except Exception as error:  # noqa: BLE001 - told by the test
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
        """A new consumer, or other amounts for one of ours."""
        mine = list(self.consumers)
        again = mine and self._chance.random() < 0.4
        consumer = self._chance.choice(mine) if again else str(uuid.UUID(int=self._bits()))
        generation = self.consumers[consumer][0] if again else None
        wanted = {
            provider: {name: self._chance.randint(1, 9) for name in CLASSES}
            for provider in self._chance.sample(self._providers, 2)
        }
        status, _ = self.ask("PUT", f"/allocations/{consumer}", self._claimed(generation, wanted))
        if status == 204:
            self.consumers[consumer] = (1 if generation is None else generation + 1, wanted)
            self._ledger.bumped(*wanted)

    def _claimed(self, generation: int | None, wanted: dict[str, dict[str, int]]) -> dict[str, Any]:
        return {
            "allocations": {provider: {"resources": found} for provider, found in wanted.items()},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }

    def _free(self) -> None:
        """Empty one of our consumers, with a generation that is too old now and then."""
        if not self.consumers:
            return
        consumer = self._chance.choice(list(self.consumers))
        generation, held = self.consumers[consumer]
        stale = self._chance.random() < 0.2
        status, _ = self.ask(
            "PUT", f"/allocations/{consumer}", self._claimed(generation - stale, {})
        )
        if stale:
            if status != 409:
                self._ledger.complain(f"a stale consumer generation was answered with {status}")
        elif status == 204:
            del self.consumers[consumer]
            self._ledger.bumped(*held)
        else:
            self._ledger.complain(f"our own consumer could not be emptied: {status}")

    def _resize(self) -> None:
        """Set inventories anew; with many writers most find the generation gone."""
        provider = self._chance.choice(self._providers)
        path = f"/resource_providers/{provider}/inventories"
        _, seen = self.ask("GET", path)
        reserved = self._chance.randint(0, 3)
        body = {
            "resource_provider_generation": seen["resource_provider_generation"],
            "inventories": {name: {"total": TOTAL, "reserved": reserved} for name in CLASSES},
        }
        status, told = self.ask("PUT", path, body)
        if status == 200:
            self._ledger.bumped(provider)
            self._ledger.made(provider, told["resource_provider_generation"])
            if told["resource_provider_generation"] != seen["resource_provider_generation"] + 1:
                self._ledger.complain("a write was let through on a generation that had passed")

    def _reshape(self) -> None:
        """Move a consumer of ours to another provider, with that one's inventory set anew."""
        if not self.consumers:
            return
        consumer = self._chance.choice(list(self.consumers))
        generation, _ = self.consumers[consumer]
        provider = self._chance.choice(self._providers)
        _, seen = self.ask("GET", f"/resource_providers/{provider}/inventories")
        wanted = {provider: dict.fromkeys(CLASSES, 1)}
        body = {
            "inventories": {
                provider: {
                    "resource_provider_generation": seen["resource_provider_generation"],
                    "inventories": {name: {"total": TOTAL} for name in CLASSES},
                }
            },
            "allocations": {consumer: self._claimed(generation, wanted)},
        }
        status, _ = self.ask("POST", "/reshaper", body)
        if status == 204:
            self.consumers[consumer] = (generation + 1, wanted)
            # For old and new inventories together, the allocations, the new ones alone.
            self._ledger.bumped(provider, provider, provider)

    def _look(self) -> None:
        """No reader ever sees more used than there is room for."""
        provider = self._chance.choice(self._providers)
        _, usages = self.ask("GET", f"/resource_providers/{provider}/usages")
        for name, used in usages["usages"].items():
            if used > TOTAL:
                self._ledger.complain(f"{used} {name} of {TOTAL} are used")
        self.ask("GET", "/allocation_candidates?resources=VCPU:1&limit=10")

    def _bits(self) -> int:
        return self._chance.getrandbits(128)
