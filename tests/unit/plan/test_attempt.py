"""One change: requests, conflicts, lost responses, guards."""

from __future__ import annotations

import collections
import dataclasses
import pathlib

import pytest

from osc_placement.client import api_errors
from osc_placement.model import inventory as model
from osc_placement.plan import apply, file as plan_file
from tests.support import fake_placement, plans
from tests.support.batch_runs import amend, lost, once_each, ratios, statuses


def test_amend_sends_one_listing_and_one_read_and_write_per_provider() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(20))
    report = amend(client, "VCPU:allocation_ratio=20")
    assert ratios(client) == {20.0}
    assert statuses(report) == {"applied": 20}
    assert report.exit_code() == 0
    assert collections.Counter(call[0] for call in client.calls) == {
        "list_providers": 1,
        "list_inventories": 20,
        "replace_inventories": 20,
    }


def test_shrinking_sends_one_more_request_for_all_usages() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(20))
    amend(client, "VCPU:allocation_ratio=4")
    assert ratios(client) == {4.0}
    assert client.counted("list_allocation_candidates") == 1
    assert client.counted("list_usages") == 0


def test_usages_of_a_full_provider_are_read_and_it_is_skipped() -> None:
    full = fake_placement.host("host-999", usages={"VCPU": 512, "MEMORY_MB": 65024})
    client = fake_placement.FakeClient([*fake_placement.hosts(3), full])
    report = amend(client, "VCPU:allocation_ratio=4")
    assert statuses(report) == {"applied": 3, "skipped": 1}
    assert report.exit_code() == 6
    assert client.counted("list_usages") == 1
    assert ratios(client) == {4.0, 16.0}


def test_the_second_run_writes_nothing() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(5))
    amend(client, "VCPU:allocation_ratio=20")
    client.calls.clear()
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"unchanged": 5}
    assert client.writes == 0
    assert report.exit_code() == 0


def test_a_conflict_is_resolved_by_reading_again() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(8))

    def write_concurrently(method: str, uuid: str) -> None:
        """Change another field just before the first write."""
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.inventories["MEMORY_MB"] = model.Inventory(total=1)

    client.before_write = write_concurrently
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"applied": 8}
    assert ratios(client) == {20.0}
    assert {item.inventories["MEMORY_MB"].total for item in client.stored.values()} == {1}
    assert client.counted("list_inventories") == 16


def test_guards_are_checked_again_after_a_conflict() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def write_concurrently(method: str, uuid: str) -> None:
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.usages["VCPU"] = 300

    client.before_write = write_concurrently
    report = amend(client, "VCPU:allocation_ratio=4")
    assert statuses(report) == {"skipped": 1}
    assert "300 used" in report.results[0].reason
    assert ratios(client) == {16.0}


def test_an_absolute_value_replaces_a_concurrent_one_and_undo_restores_it(
    tmp_path: pathlib.Path,
) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def write_concurrently(method: str, uuid: str) -> None:
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.inventories["VCPU"] = dataclasses.replace(
                item.inventories["VCPU"], allocation_ratio=10.0
            )

    client.before_write = write_concurrently
    report = amend(client, "VCPU:allocation_ratio=20", undo_out=tmp_path / "undo")
    assert plans.before(report.results[0]) == {"VCPU:allocation_ratio": 10.0}
    assert ratios(client) == {20.0}
    plans.undo_file(client, plan_file.read(tmp_path / "undo"), tmp_path / "undo", apply.Options())
    assert ratios(client) == {10.0}


def test_a_relative_value_is_never_added_to_a_concurrent_one() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def write_concurrently(method: str, uuid: str) -> None:
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.inventories["VCPU"] = dataclasses.replace(item.inventories["VCPU"], total=64)

    client.before_write = write_concurrently
    report = amend(client, "VCPU:total+=2")
    assert statuses(report) == {"stale": 1}
    assert "VCPU:total=64" in report.results[0].reason
    assert report.exit_code() == 7


@pytest.mark.parametrize("when", ["before_write", "after_write"])
@pytest.mark.parametrize("text", ["VCPU:allocation_ratio=20", "VCPU:allocation_ratio+=4"])
def test_a_lost_response_is_resolved_by_a_read(when: str, text: str) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(6))
    setattr(client, when, once_each(lost))
    report = amend(client, text)
    assert statuses(report) == {"applied": 6}
    assert ratios(client) == {20.0}
    assert client.counted("replace") == (12 if when == "before_write" else 6)


def test_an_html_page_after_a_write_is_a_lost_response() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(2))
    client.after_write = once_each(lambda: api_errors.UnexpectedResponse(200, "<html>"))
    assert statuses(amend(client, "VCPU:allocation_ratio=20")) == {"applied": 2}


def test_reads_are_repeated_while_the_server_is_unavailable() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(4))
    seen: collections.Counter[str] = collections.Counter()

    def fail(method: str, uuid: str) -> None:
        seen[uuid] += 1
        if method == "list_inventories" and seen[uuid] < 4:
            raise (
                api_errors.ApiError(503, "busy")
                if seen[uuid] % 2
                else api_errors.ConnectionFailed("no")
            )

    client.before_read = fail
    assert statuses(amend(client, "VCPU:allocation_ratio=20")) == {"applied": 4}


def test_a_refused_change_fails_alone() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(4))

    def fail(method: str, uuid: str) -> None:
        if uuid == fake_placement.uuid_of("host-001"):
            raise api_errors.InventoryInUse(409, "in use")

    client.before_write = fail
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"applied": 3, "failed": 1}
    assert report.exit_code() == 6


def test_an_endless_conflict_fails_with_the_last_cause() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def fail(method: str, uuid: str) -> None:
        raise api_errors.GenerationConflict(409, "a concurrent write")

    client.before_write = fail
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"failed": 1}
    assert "given up after 19 attempts: a concurrent write" in report.results[0].reason


def test_a_deleted_provider_fails_alone() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(3))
    gone = client.stored[fake_placement.uuid_of("host-000")]
    client.before_write = lambda method, uuid: (client.stored.pop(gone.uuid, None), None)[1]
    report = amend(client, "VCPU:allocation_ratio=20", workers=1)
    assert statuses(report) == {"applied": 2, "failed": 1}
    assert "it no longer exists" in report.results[0].reason
