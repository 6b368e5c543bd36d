# SPDX-License-Identifier: Apache-2.0
"""Retries of reads and after generation conflicts, and the pace of requests."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api_errors, retry, service
from osc_placement.nova import api as nova_api
from tests.support import scripted


def failing(errors: Iterator[Exception]) -> tuple[Callable[[], str], list[int]]:
    """A function that raises these errors one by one, then returns; and its calls."""
    calls: list[int] = []

    def function() -> str:
        calls.append(1)
        for error in errors:
            raise error
        return "done"

    return function, calls


def test_a_conflict_is_retried_five_times() -> None:
    function, calls = failing(iter([api_errors.GenerationConflict(409, "x")] * 2))
    assert (retry.on_conflict(function), len(calls)) == ("done", 3)
    function, calls = failing(iter([api_errors.GenerationConflict(409, "x")] * 9))
    with pytest.raises(api_errors.GenerationConflict):
        retry.on_conflict(function)
    assert len(calls) == 5


def test_no_attempt_begins_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda wait: now.__setitem__(0, now[0] + wait))
    error = api_errors.ApiError(503, "busy")
    error.retry_after = 25.0
    function, calls = failing(iter([error] * 20))
    with pytest.raises(api_errors.ApiError):
        retry.read(function)
    assert (len(calls), now[0]) == (3, 50.0)


def test_other_conflicts_are_not_retried() -> None:
    function, calls = failing(iter([api_errors.InventoryInUse(409, "x")]))
    with pytest.raises(api_errors.Conflict):
        retry.on_conflict(function)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "error",
    [
        api_errors.ConnectionFailed("refused"),
        api_errors.ApiError(503, "busy"),
        api_errors.UnexpectedResponse(200, "<html>"),
    ],
)
def test_a_read_is_retried_eight_times_and_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "osc_placement.client.retry")
    function, calls = failing(iter([error]))
    assert (retry.read(function), len(calls)) == ("done", 2)
    assert str(error) in caplog.text
    function, calls = failing(iter([error] * 20))
    with pytest.raises(type(error)):
        retry.read(function)
    assert len(calls) == retry.READS


def test_a_read_that_the_server_refuses_is_not_retried() -> None:
    function, calls = failing(iter([api_errors.Forbidden(403, "no")]))
    with pytest.raises(api_errors.Forbidden):
        retry.read(function)
    assert len(calls) == 1


def test_a_pause_is_as_long_as_the_server_requests_within_a_limit() -> None:
    busy = api_errors.ApiError(503, "busy", retry_after=7.0)
    assert retry.pause_after(busy, 0.1) == 7.0
    assert retry.pause_after(busy, 9.0) == 9.0
    asleep = api_errors.ApiError(503, "busy", retry_after=86_400.0)
    assert retry.pause_after(asleep, 0.1) == retry.MAX_RETRY_AFTER
    assert retry.pause_after(api_errors.ConnectionFailed("refused"), 0.1) == 0.1


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


def test_refused_requests_halve_the_limit_and_wait(paced: retry.Pace, clock: Clock) -> None:
    paced.refused(7.0)
    # Requests that were under way do not count again.
    paced.refused(0.05)
    assert paced.limit == retry.MOST / 2
    before = clock()
    with paced.turn():
        assert clock() - before == pytest.approx(7.0)


def test_the_limit_rises_with_answers_to_the_number_of_workers(paced: retry.Pace) -> None:
    paced.most = 4
    paced.refused(0.0)
    assert paced.limit == 2
    paced.answered()
    paced.answered()
    assert 2.8 < paced.limit < 3
    for _ in range(20):
        paced.answered()
    assert paced.limit == 4


def test_the_rate_spaces_the_starts(paced: retry.Pace, clock: Clock) -> None:
    paced.rate = 4
    starts = []
    for _ in range(5):
        with paced.turn():
            starts.append(clock())
    assert [start - starts[0] for start in starts] == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])


def test_no_more_requests_run_than_the_limit() -> None:
    paced, running, lock = retry.Pace(), [0, 0], threading.Lock()
    paced.most = 2

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
    client, app = scripted.client(*[scripted.Reply(429, b"too many")] * 2)
    with retry.stop_reading_after_failures():
        with pytest.raises(api_errors.ApiError, match="429"):
            client.list_traits()
        # The next read would wait as long.
        with pytest.raises(api_errors.StoppedReading, match="GET /traits: too many"):
            client.list_traits()
    assert len(app.requests) == 2


def test_a_service_that_requests_long_pauses_is_given_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = itertools.count(step=25)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    busy = scripted.Reply(429, b"too many", {"Retry-After": "0"})
    client, app = scripted.client(*[busy] * 20)
    with pytest.raises(api_errors.ApiError, match="429"):
        client.transport.send("GET", "/traits")
    assert len(app.requests) < 6


@pytest.mark.parametrize("status", [200, 429, 500, 503])
@pytest.mark.parametrize(("failures", "succeeds"), [(1, True), (retry.READS, False)])
def test_every_service_is_asked_again(status: int, failures: int, succeeds: bool) -> None:
    answers = [(status, b"<html>")] * failures + [(200, b"{}")]

    def request(path: str, method: str, **options: Any) -> Any:
        code, content = answers.pop(0)
        return types.SimpleNamespace(status_code=code, content=content, headers={}, reason="no")

    connection: Any = types.SimpleNamespace(compute=types.SimpleNamespace(request=request))
    expected: Any = contextlib.nullcontext() if succeeds else pytest.raises(nova_api.NovaRefused)
    with expected:
        service.send(connection, "compute", "GET", "/x", nova_api.NovaRefused)
    assert len(answers) == (0 if succeeds else 1)


def test_a_write_to_a_service_is_sent_once() -> None:
    sent = []

    def request(path: str, method: str, **options: Any) -> Any:
        sent.append(method)
        return types.SimpleNamespace(status_code=503, content=b"", headers={}, reason="no")

    connection: Any = types.SimpleNamespace(network=types.SimpleNamespace(request=request))
    with pytest.raises(api_errors.OutcomeUnknown):
        service.send(connection, "network", "PUT", "/x", nova_api.NovaRefused)
    assert sent == ["PUT"]


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [(api_errors.ApiError(500, "down"), retry.READS), (api_errors.TimedOut("down"), 1)],
)
def test_a_command_stops_reading_after_twenty_failed_reads_in_a_row(
    failure: errors.PlacementError, attempts: int
) -> None:
    def read(answers: list[int]) -> int:
        pauses.append(1)
        if not answers:
            raise failure
        return answers.pop()

    def fail(times: int) -> None:
        for _ in range(times):
            with pytest.raises(type(failure), match="down"):
                retry.read(lambda: read([]))

    pauses: list[int] = []
    with retry.stop_reading_after_failures():
        fail(retry.MOST_FAILURES - 1)
        assert retry.read(lambda: read([1])) == 1
        pauses.clear()
        with retry.stop_reading_after_failures():
            fail(retry.MOST_FAILURES)
        for _ in range(1000):
            with pytest.raises(api_errors.StoppedReading, match=r"20 reads in a row.*: down"):
                retry.read(lambda: read([1]))
        assert len(pauses) == retry.MOST_FAILURES * attempts
    # A program that uses the library decides itself.
    fail(retry.MOST_FAILURES + 1)
    assert retry.read(lambda: read([1])) == 1


def test_a_refused_read_is_no_failure_of_the_service() -> None:
    def read() -> None:
        raise api_errors.NotFound(404, "gone")

    with retry.stop_reading_after_failures():
        for _ in range(2 * retry.MOST_FAILURES):
            with pytest.raises(api_errors.NotFound):
                retry.read(read)
