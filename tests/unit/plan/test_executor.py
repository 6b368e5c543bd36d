# SPDX-License-Identifier: Apache-2.0
"""A run: limits, interruption, errors that stop it; each change: conflicts, lost responses."""

from __future__ import annotations

import collections
import pathlib
import re
import signal
import threading
import time

import pytest

from osc_placement.client import retry
from osc_placement.plan import apply, file as plan_file, progress, result
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
    assert "Cannot reach Placement" in report.halted


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


def test_ctrl_c_ends_requests_under_way_and_the_plan_file_continues(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(30))
    # Two threads may see the tenth write; a second signal would be a second Ctrl-C.
    signals = iter([signal.SIGINT])

    def interrupt(request: embedded.Request) -> None:
        if client.writes >= 10 and (number := next(signals, None)):
            # Python would call the handler later, in the main thread.
            handler = signal.getsignal(signal.SIGINT)
            assert callable(handler)
            handler(number, None)

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
    ("reply", "message", "attempts"),
    [
        (
            scripted.Reply(307, headers={"location": "http://other.example/placement"}),
            "the server redirects to http://other.example/placement",
            1,
        ),
        (scripted.fault(403, "Policy does not allow placement:x"), "placement:x", 1),
        (scripted.fault(503, "busy"), "busy (HTTP 503)", retry.WRITES - 1),
    ],
    ids=["redirect", "no-right", "no-service"],
)
def test_an_error_that_concerns_all_changes_is_reported_once(
    reply: scripted.Reply, message: str, attempts: int
) -> None:
    client = embedded.Client(embedded.hosts(12))
    client.before_write(lambda request: reply)
    report = amend(client, "VCPU:allocation_ratio=20", workers=1)
    assert message in report.halted
    assert statuses(report) == {"failed": 1, "planned": 11}
    assert client.writes == attempts


READ_ONE = "GET /resource_providers/{}/inventories"
WRITE_ONE = "PUT /resource_providers/{}/inventories"


def write_before_each(client: embedded.Client, resource_class: str, **fields: float) -> None:
    """Another client changes an inventory just before the first write of each provider."""

    def write(request: embedded.Request) -> None:
        client.stored(request.subject).set_inventory(resource_class, **fields)

    client.before_write(embedded.once_each(write))


def test_amend_sends_one_listing_and_one_read_and_write_per_provider() -> None:
    client = embedded.Client(embedded.hosts(20))
    report = amend(client, "VCPU:allocation_ratio=20")
    assert ratios(client) == {20.0}
    assert statuses(report) == {"applied": 20}
    assert report.exit_code() == 0
    assert client.count() == {"GET /resource_providers": 1, READ_ONE: 20, WRITE_ONE: 20}


def test_shrinking_sends_one_more_request_for_all_usages() -> None:
    client = embedded.Client(embedded.hosts(20))
    amend(client, "VCPU:allocation_ratio=4")
    assert ratios(client) == {4.0}
    assert client.count()["GET /allocation_candidates"] == 1
    assert client.count()["GET /resource_providers/{}/usages"] == 0


def test_usages_of_a_full_provider_are_read_and_it_is_refused() -> None:
    full = embedded.Host("host-999", used={"VCPU": 512, "MEMORY_MB": 65024})
    client = embedded.Client([*embedded.hosts(3), full])
    report = amend(client, "VCPU:allocation_ratio=4")
    assert statuses(report) == {"applied": 3, "refused": 1}
    assert report.exit_code() == 6
    assert client.count()["GET /resource_providers/{}/usages"] == 1
    assert ratios(client) == {4.0, 16.0}


def test_a_conflict_is_resolved_by_reading_again() -> None:
    client = embedded.Client(embedded.hosts(8))
    write_before_each(client, "MEMORY_MB", total=1024)
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"applied": 8}
    assert ratios(client) == {20.0}
    assert {item.inventories["MEMORY_MB"].total for item in client.all_stored()} == {1024}
    assert client.count()[READ_ONE] == client.count()[WRITE_ONE] == 16


def test_guards_are_checked_again_after_a_conflict() -> None:
    client = embedded.Client(embedded.hosts(1))

    def allocate(request: embedded.Request) -> None:
        client.stored(request.subject).use("VCPU", 300)

    client.before_write(embedded.once_each(allocate))
    report = amend(client, "VCPU:allocation_ratio=4")
    assert statuses(report) == {"refused": 1}
    assert report.results[0].code == "over-capacity"
    assert "300 used" in report.results[0].reason
    assert ratios(client) == {16.0}


def test_an_absolute_value_does_not_replace_a_concurrent_one() -> None:
    """Undo restores the state that was planned on, and could not restore another one."""
    client = embedded.Client(embedded.hosts(1))
    write_before_each(client, "VCPU", allocation_ratio=10.0)
    report = amend(client, "VCPU:allocation_ratio=20")
    assert (statuses(report), report.exit_code()) == ({"stale": 1}, 7)
    assert ratios(client) == {10.0}


@pytest.mark.parametrize("reserved", [513, 600])
def test_a_relative_value_is_never_added_to_a_concurrent_one(reserved: int) -> None:
    """Not even to an equal one: another client may have made the same change."""
    client = embedded.Client(embedded.hosts(1))
    write_before_each(client, "MEMORY_MB", reserved=reserved)
    report = amend(client, "MEMORY_MB:reserved+=1")
    assert statuses(report) == {"stale": 1}
    assert report.results[0].code == "changed-concurrently"
    assert f"MEMORY_MB:reserved={reserved}" in report.results[0].reason
    assert report.exit_code() == 7


@pytest.mark.parametrize("when", ["before_write", "after_write"])
@pytest.mark.parametrize("text", ["VCPU:allocation_ratio=20", "VCPU:allocation_ratio+=4"])
def test_a_lost_response_is_resolved_by_a_read(when: str, text: str) -> None:
    client = embedded.Client(embedded.hosts(6))
    getattr(client, when)(embedded.once_each(embedded.lose))
    report = amend(client, text)
    assert statuses(report) == {"applied": 6}
    assert ratios(client) == {20.0}
    assert client.writes == (12 if when == "before_write" else 6)


def test_a_lost_response_that_no_read_resolves_is_in_doubt() -> None:
    client = embedded.Client(embedded.hosts(1))

    def lose(request: embedded.Request) -> scripted.Reply | None:
        client.before(embedded.refuse(404, "gone"))
        return embedded.lose(request)

    client.after_write(lose)
    (item,) = amend(client, "VCPU:allocation_ratio=20").results
    assert (str(item.status), item.code) == ("failed", "outcome-unknown")
    assert item.reason.startswith("whether it was applied is unknown: ")


def test_a_lost_response_is_resolved_also_when_the_run_stops() -> None:
    client = embedded.Client(embedded.hosts(2))
    is_refused = threading.Event()

    def refuse(request: embedded.Request) -> scripted.Reply | None:
        is_refused.set()
        return embedded.refuse(403, "no permission")(request)

    def lose(request: embedded.Request) -> scripted.Reply | None:
        is_refused.wait(60)
        # The run stops in this time; if it is slow, it reads once more.
        time.sleep(0.2)
        return embedded.lose(request)

    client.before_write(embedded.about("host-000", refuse))
    client.after_write(embedded.about("host-001", embedded.once_each(lose)))
    report = amend(client, "VCPU:allocation_ratio=20", workers=2)
    assert statuses(report) == {"applied": 1, "failed": 1}


def test_an_html_page_after_a_write_is_a_lost_response() -> None:
    client = embedded.Client(embedded.hosts(2))
    client.after_write(embedded.once_each(lambda request: scripted.Reply(200, b"<html>")))
    assert statuses(amend(client, "VCPU:allocation_ratio=20")) == {"applied": 2}


def test_reads_are_repeated_while_the_server_is_unavailable() -> None:
    client = embedded.Client(embedded.hosts(4))
    seen: collections.Counter[str] = collections.Counter()

    def fail(request: embedded.Request) -> scripted.Reply | None:
        seen[request.subject] += 1
        if request.template != READ_ONE or seen[request.subject] == 4:
            return None
        if seen[request.subject] == 2:
            embedded.disconnect(request)
        return scripted.fault(503, "busy")

    client.before(fail)
    assert statuses(amend(client, "VCPU:allocation_ratio=20")) == {"applied": 4}
    assert client.count()[READ_ONE] == 16


def test_an_endless_conflict_fails_with_the_last_cause() -> None:
    client = embedded.Client(embedded.hosts(1))
    conflict = embedded.refuse(409, "a concurrent write", "placement.concurrent_update")
    client.before_write(conflict)
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"failed": 1}
    reason = report.results[0].reason
    assert re.search(r"given up after 19 attempts in \d+ s: a concurrent write", reason)


def test_a_deleted_provider_fails_alone() -> None:
    client = embedded.Client(embedded.hosts(3))

    def delete(request: embedded.Request) -> None:
        client.stored(request.subject).delete()

    client.before_write(embedded.about("host-000", delete))
    report = amend(client, "VCPU:allocation_ratio=20", workers=1)
    assert statuses(report) == {"applied": 2, "failed": 1}
    assert "it no longer exists" in report.results[0].reason


class Noted(progress.NullProgress):
    """Keeps the events of a run."""

    def __init__(self) -> None:
        self.events: list[progress.ChangeEvent] = []

    def note(self, event: progress.ChangeEvent) -> None:
        self.events.append(event)


def test_every_change_and_every_retry_is_noted() -> None:
    client = embedded.Client(embedded.hosts(3))
    conflict = embedded.refuse(409, "a concurrent write", "placement.concurrent_update")
    in_use = embedded.refuse(409, "in use", "placement.inventory.inuse")
    once = embedded.about("host-001", embedded.once_each(conflict))
    always = embedded.about("host-002", in_use)
    client.before_write(lambda request: once(request) or always(request))
    noted = Noted()
    amend(client, "VCPU:allocation_ratio=20", workers=1, progress=noted)
    seen = [(event.name, event.outcome, event.attempt) for event in noted.events]
    assert seen == [
        ("host-000", "applied", 1),
        ("host-001", "retry", 1),
        ("host-001", "applied", 2),
        ("host-002", "failed", 1),
    ]
    assert "a concurrent write" in noted.events[1].reason
    assert all(event.kind == "inventories" and event.uuid for event in noted.events)
