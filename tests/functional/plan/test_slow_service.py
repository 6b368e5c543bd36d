# SPDX-License-Identifier: Apache-2.0
"""Commands on a service that becomes slow, or refuses requests because of its load."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from osc_placement.client import retry
from tests.support.peer import chaos, faults, target as targets

#: Requests that the service answers before it becomes fast.
SLOW_REQUESTS = 60
#: Seconds of a request, times the square of the number of requests at the same time.
SLOWNESS = 0.06


class SlowService(chaos.Proxy):
    """Answers its first requests slowly, and the slower the more run at the same time.

    ``at_the_same_time`` has the number of running requests at the start of each read.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream, faults.Rates())
        self.at_the_same_time: list[int] = []
        self._running = 0

    def forward(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        with self.lock:
            self._running += 1
            self.at_the_same_time.append(self._running)
            is_slow = len(self.at_the_same_time) <= SLOW_REQUESTS
            seconds = SLOWNESS * self._running**2 if is_slow else 0.0
        try:
            time.sleep(seconds)
            return super().forward(method, path, body, headers)
        finally:
            with self.lock:
                self._running -= 1


@pytest.fixture
def target() -> Iterator[targets.Target]:
    placement = targets.Loopback(7)
    placement.load("200-hosts")
    yield placement
    placement.stop()


@pytest.mark.usefixtures("openstack")
def test_a_slow_service_gets_fewer_requests_until_it_is_fast(target: targets.Loopback) -> None:
    service = SlowService(target.url)
    with service:
        command = "resource provider inventory amend --name-glob cmp-00*"
        command += " --resource VCPU:allocation_ratio=3 -f json"
        outcome = targets.run_at(service.url, command)
    assert outcome.code == 0, outcome.stderr
    # Five requests take six times as long as the two at the start, and more than 0.25 s.
    slow = service.at_the_same_time[SLOW_REQUESTS // 2 : SLOW_REQUESTS]
    assert max(slow) <= 5
    # The limit rises to the number of workers again; the proxy sees most of them.
    fast = service.at_the_same_time[SLOW_REQUESTS + 40 :]
    assert max(slow) < max(fast) <= retry.MOST
