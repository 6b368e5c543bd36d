# SPDX-License-Identifier: Apache-2.0
"""A run: limits, workers, interruption, errors that stop it."""

from __future__ import annotations

import pathlib
import signal
import threading
import time

import pytest

from osc_placement.plan import apply, file as plan_file, result
from tests.support import embedded, plans, scripted
from tests.support.batch_runs import amend, ratios, statuses


def test_a_run_without_connection_tries_no_further_changes() -> None:
    client = embedded.Client(embedded.hosts(50))

    def fail(request: embedded.Request) -> None:
        client.before(embedded.disconnect)
        embedded.disconnect(request)

    client.before_write(fail)
    report = amend(client, "VCPU:allocation_ratio=20", workers=2)
    assert report.count(result.Status.FAILED) <= 2
    assert report.count(result.Status.PLANNED) >= 48
    assert report.exit_code() == 6
    assert "no connection" in report.halted


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("count", [1, 7, 20])
def test_max_count_applies_exactly_that_many(workers: int, count: int) -> None:
    client = embedded.Client(embedded.hosts(20))
    report = amend(client, "VCPU:allocation_ratio=20", max_count=count, workers=workers)
    assert client.writes == count
    assert report.count(result.Status.APPLIED) == count
    assert report.exit_code() == (0 if count == 20 else 5)


def test_max_count_does_not_count_failed_changes() -> None:
    client = embedded.Client(embedded.hosts(10))
    client.before_write(embedded.about("host-000", embedded.refuse(409, "no")))
    report = amend(client, "VCPU:allocation_ratio=20", max_count=4)
    assert statuses(report) == {"applied": 4, "failed": 1, "planned": 5}


def test_on_error_stop_begins_nothing_after_the_first_failure() -> None:
    client = embedded.Client(embedded.hosts(10))
    client.before_write(embedded.about("host-002", embedded.refuse(409, "no")))
    report = amend(client, "VCPU:allocation_ratio=20", workers=1, stop_on_error=True)
    assert statuses(report) == {"applied": 2, "failed": 1, "planned": 7}
    assert report.exit_code() == 6


def test_the_number_of_workers_is_the_limit_of_concurrent_writes() -> None:
    client = embedded.Client(embedded.hosts(30))
    busy: list[int] = []
    threads: set[int] = set()

    def count_threads(request: embedded.Request) -> None:
        threads.add(threading.get_ident())
        busy.append(len(threads))
        time.sleep(0.001)

    client.before_write(count_threads)
    amend(client, "VCPU:allocation_ratio=20", workers=3)
    assert max(busy) <= 3


def test_ctrl_c_ends_requests_under_way_and_the_plan_file_continues(
    tmp_path: pathlib.Path,
) -> None:
    client = embedded.Client(embedded.hosts(30))

    def interrupt(request: embedded.Request) -> None:
        if client.writes == 10:
            # Python would call the handler later, in the main thread.
            handler = signal.getsignal(signal.SIGINT)
            assert callable(handler)
            handler(signal.SIGINT, None)

    client.after_write(interrupt)
    path = tmp_path / "plan"
    report = amend(client, "VCPU:allocation_ratio+=4", plan_out=path, workers=2)
    assert report.interrupted
    assert report.exit_code() == 130
    done = report.count(result.Status.APPLIED)
    assert 10 <= done <= 12
    assert statuses(report) == {"applied": done, "planned": 30 - done}
    report = plans.apply_file(client, plan_file.read(path), path, apply.Options())
    assert statuses(report) == {"applied": 30}
    assert client.writes == 30
    assert ratios(client) == {20.0}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            scripted.Reply(307, headers={"location": "http://other.example/placement"}),
            "the server redirects to http://other.example/placement",
        ),
        (scripted.fault(403, "Policy does not allow placement:x to be performed."), "placement:x"),
        (scripted.fault(503, "busy"), "busy"),
    ],
    ids=["redirect", "no-right", "no-service"],
)
def test_an_error_that_concerns_all_changes_is_reported_once(
    reply: scripted.Reply, message: str
) -> None:
    client = embedded.Client(embedded.hosts(12))
    client.before_write(lambda request: reply)
    report = amend(client, "VCPU:allocation_ratio=20", workers=1)
    assert message in report.halted
    assert statuses(report) == {"failed": 1, "planned": 11}
