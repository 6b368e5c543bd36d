# SPDX-License-Identifier: Apache-2.0
"""Retries of reads, and of commands that meet a generation conflict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from osc_placement.client import api_errors, retry


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
