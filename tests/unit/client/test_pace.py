# SPDX-License-Identifier: Apache-2.0
"""The number of requests adapts to the service."""

from __future__ import annotations

import concurrent.futures
import threading
import time

import pytest

from osc_placement.client import api_errors, retry
from tests.support import scripted


class Clock:
    """A time that only passes when someone sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.starts: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def paced(clock: Clock) -> retry.Pace:
    return retry.Pace(clock, clock.sleep)


def answers(paced: retry.Pace, clock: Clock, count: int, seconds: float) -> float:
    """The limit after some answers that took so long."""
    for _ in range(count):
        clock.sleep(seconds)
        paced.answered("GET", "/resource_providers", seconds)
    return paced.limit


def test_the_limit_rises_to_the_number_of_workers(paced: retry.Pace, clock: Clock) -> None:
    assert paced.limit == 2
    assert answers(paced, clock, 150, 0.02) == retry.MOST
    paced.most = 3
    assert answers(paced, clock, 1, 0.02) == 3


def test_more_than_eight_requests_run_only_while_answers_are_fast(
    paced: retry.Pace, clock: Clock
) -> None:
    answers(paced, clock, 1, 0.02)
    assert 8 <= answers(paced, clock, 150, 0.05) < 9
    assert answers(paced, clock, 150, 0.03) == retry.MOST


def test_a_slow_service_gets_fewer_requests_and_a_fast_one_more(
    paced: retry.Pace, clock: Clock
) -> None:
    answers(paced, clock, 150, 0.1)
    assert answers(paced, clock, 50, 2.0) == 1
    assert answers(paced, clock, 180, 0.1) == retry.MOST


def test_requests_of_another_kind_may_take_longer(paced: retry.Pace, clock: Clock) -> None:
    answers(paced, clock, 150, 0.01)
    for _ in range(20):
        paced.answered("GET", "/allocation_candidates?resources=VCPU:1", 5.0)
    assert paced.limit == retry.MOST


def test_refused_requests_halve_the_limit_and_wait(paced: retry.Pace, clock: Clock) -> None:
    answers(paced, clock, 150, 0.01)
    paced.refused(7.0)
    # Requests that were under way do not count again.
    paced.refused(0.05)
    assert paced.limit == retry.MOST / 2
    before = clock()
    with paced.turn():
        assert clock() - before == pytest.approx(7.0)


def test_the_rate_spaces_the_starts(paced: retry.Pace, clock: Clock) -> None:
    paced.rate = 4
    starts = []
    for _ in range(5):
        with paced.turn():
            starts.append(clock())
    assert [each - starts[0] for each in starts] == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])


def test_no_more_requests_run_than_the_limit() -> None:
    paced, running, lock = retry.Pace(), [0, 0], threading.Lock()

    def request(_: int) -> None:
        with paced.turn():
            with lock:
                running[0] += 1
                running[1] = max(running)
            time.sleep(0.001)
            with lock:
                running[0] -= 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(request, range(60)))
    assert running == [0, 2]


def test_a_request_refused_with_429_is_sent_again() -> None:
    busy = scripted.Reply(429, b"too many", {"Retry-After": "0"})
    client, app = scripted.client(busy, busy, scripted.Reply(200, b'{"traits": []}'))
    assert client.list_traits() == []
    assert len(app.requests) == 3


def test_a_service_that_always_refuses_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osc_placement.client.transport._REFUSALS", 3)
    client, _ = scripted.client(*[scripted.Reply(429, b"too many")] * 2)
    with pytest.raises(api_errors.ApiError, match="429"):
        client.list_traits()
