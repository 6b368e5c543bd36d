# SPDX-License-Identifier: Apache-2.0
"""Which requests of a client fail, and how.

A fault policy gives each request a *fate*, which ``chaos.Proxy`` carries out; "" forwards the
request.

Without an effect on Placement:
``refuse``: 503 or an HTML page with 502. ``busy``: 503 with Retry-After. ``html``: a login page
with 200. ``forbidden``: 403. ``expired``: 401, until the client gets a new token.
``cut before``: a reset connection.

After Placement has carried out the request:
``cut after``: a reset connection. ``lose after``: the answer of ``refuse``. ``truncate``: half of
the answer. ``slow``: the answer, after SLOW seconds.

``conflict``: another client writes to the same provider or consumer first.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable
from typing import NamedTuple, Protocol

#: Seconds; longer than the read timeout of the tests with slow answers.
SLOW = 3.0

BEFORE = ("refuse", "busy", "html", "cut before", "forbidden", "expired")


class Request(NamedTuple):
    """A request that the proxy received."""

    method: str
    path: str
    body: bytes | None

    @property
    def is_write(self) -> bool:
        """Whether it may change Placement; the check of a policy rule with ``{}`` may not."""
        return self.method != "GET" and self.body != b"{}"


class Faults(Protocol):
    """Gives each request its fate; called under the proxy's lock."""

    #: Seconds before each request.
    delay: float
    #: The disk in GB that a concurrent write to a provider takes.
    disk: int
    #: Chooses between the answers of one fate.
    chance: random.Random

    def fate(self, request: Request) -> str:
        """The fate of a request."""


class Rates:
    """The rates of faults per write; reads have none unless requested."""

    def __init__(
        self, *, reads: float = 0.0, delay: float = 0.0, seed: int = 0, **rates: float
    ) -> None:
        self.delay, self.disk, self._reads = delay, 1, reads
        self._rates = {fate.replace("_", " "): rate for fate, rate in rates.items()}
        self.chance = random.Random(seed)

    def fate(self, request: Request) -> str:
        """A random fate; the version document never fails."""
        throw = self.chance.random()
        if request.method == "GET":
            quiet = request.path in ("", "/") or throw >= self._reads
            return "" if quiet else self.chance.choice(["refuse", "cut before", "cut after"])
        for fate, rate in self._rates.items():
            if throw < rate:
                return fate
            throw -= rate
        return ""


class Once:
    """The first read and the first write at each URL meet a fate; the next tries pass.

    ``writes`` and ``reads`` are fates, which the URLs get in turn. ``count`` limits the number of
    faults. The version document never fails.
    """

    delay, disk = 0.0, 0

    def __init__(
        self, *, writes: Iterable[str] = (), reads: Iterable[str] = (), count: int | None = None
    ) -> None:
        self._writes, self._reads = itertools.cycle(writes), itertools.cycle(reads)
        self._left = count
        self._seen: set[tuple[str, str]] = set()
        self.chance = random.Random(0)

    def fate(self, request: Request) -> str:
        """The fate of the first request at its URL."""
        key = request.method, request.path
        if key in self._seen or self._left == 0 or request.path == "/":
            return ""
        self._seen.add(key)
        fate = next(self._writes if request.is_write else self._reads, "")
        if fate and self._left is not None:
            self._left -= 1
        return fate


class After:
    """The first ``good`` writes pass; then every write has the fate; with ``reads`` every read."""

    delay, disk = 0.0, 0

    def __init__(self, fate: str, *, good: int = 1, reads: bool = False) -> None:
        self._fate, self._good, self._reads = fate, good, reads
        self.chance = random.Random(0)

    def fate(self, request: Request) -> str:
        """The fate after the good writes."""
        if self._good > 0:
            self._good -= request.is_write
            return ""
        return self._fate if request.is_write or self._reads else ""


class Tokens:
    """The tokens of an identity service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._valid: set[str] = set()
        self.issued = 0
        self.has_expired = False

    def is_valid(self, token: str | None) -> bool:
        """Whether a token was issued and has not expired."""
        with self._lock:
            return token in self._valid

    def issue(self) -> str:
        """A new token."""
        with self._lock:
            self.issued += 1
            token = f"token-{self.issued}"
            self._valid.add(token)
            return token

    def expire(self) -> None:
        """Make the tokens that exist invalid."""
        with self._lock:
            self._valid.clear()
            self.has_expired = True
