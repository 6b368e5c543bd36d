from __future__ import annotations

import collections
import dataclasses
import pathlib
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.client import api_errors
from osc_placement.model import inventory as model
from osc_placement.plan import apply, executor, file as plan_file, journal, plan, result
from osc_placement.workflows import selector
from osc_placement.workflows.batch import plan as batch_plan
from tests.support import fake_placement, plans

IN_AGGREGATE = selector.Selector(member_of=(fake_placement.AGGREGATE,))


def amend(client: Any, *texts: str, allow: Sequence[str] = (), **options: Any) -> result.RunReport:
    planned = batch_plan.plan_amend(client, IN_AGGREGATE, texts, allow=allow)
    return run(client, planned, **options)


def run(client: Any, planned: plan.ObservedPlan, **options: Any) -> result.RunReport:
    limits = {
        name: options.pop(name)
        for name in ("workers", "max_count", "stop_on_error")
        if name in options
    }
    options["limits"] = executor.Limits(**limits)
    return plans.apply_new(client, planned, "a test", apply.Options(**options))


def ratios(client: fake_placement.FakeClient) -> set[float]:
    return {item.inventories["VCPU"].allocation_ratio for item in client.stored.values()}


def statuses(report: result.RunReport) -> dict[str, int]:
    return dict(collections.Counter(str(item.status) for item in report.results))


def once_each(error: Callable[[], Exception]) -> Callable[[str, str], None]:
    """Raise at the first write of each provider."""
    seen: set[str] = set()

    def trouble(method: str, uuid: str) -> None:
        if uuid not in seen:
            seen.add(uuid)
            raise error()

    return trouble


def lost() -> Exception:
    return api_errors.OutcomeUnknown(502, "PUT: <html>Bad gateway</html>", method="PUT", url="/x")


def test_amending_costs_a_listing_and_a_read_and_a_write_per_provider() -> None:
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


def test_shrinking_costs_one_request_more_for_all_usages() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(20))
    amend(client, "VCPU:allocation_ratio=4")
    assert ratios(client) == {4.0}
    assert client.counted("list_allocation_candidates") == 1
    assert client.counted("list_usages") == 0


def test_a_full_provider_is_asked_for_its_usage_and_left_alone() -> None:
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


def test_a_dry_run_changes_nothing_and_can_say_so_by_its_exit_code(
    state_home: pathlib.Path,
) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(5))
    report = amend(client, "VCPU:allocation_ratio*=2", dry_run=True)
    assert statuses(report) == {"planned": 5}
    assert (report.exit_code(), report.exit_code(detailed=True)) == (0, 3)
    assert client.writes == 0
    assert not state_home.exists()


def test_a_conflict_is_settled_by_planning_anew() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(8))

    def rival(method: str, uuid: str) -> None:
        """Another writer changes another field just before our first write."""
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.inventories["MEMORY_MB"] = model.Inventory(total=1)

    client.before_write = rival
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"applied": 8}
    assert ratios(client) == {20.0}
    assert {item.inventories["MEMORY_MB"].total for item in client.stored.values()} == {1}
    assert client.counted("list_inventories") == 16


def test_a_conflict_asks_the_guards_again() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def rival(method: str, uuid: str) -> None:
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.usages["VCPU"] = 300

    client.before_write = rival
    report = amend(client, "VCPU:allocation_ratio=4")
    assert statuses(report) == {"skipped": 1}
    assert "300 used" in report.results[0].reason
    assert ratios(client) == {16.0}


def test_a_rivals_value_is_overwritten_by_an_absolute_one_and_given_back_by_undo(
    tmp_path: pathlib.Path,
) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def rival(method: str, uuid: str) -> None:
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.inventories["VCPU"] = dataclasses.replace(
                item.inventories["VCPU"], allocation_ratio=10.0
            )

    client.before_write = rival
    report = amend(client, "VCPU:allocation_ratio=20", undo_out=tmp_path / "undo")
    assert plans.before(report.results[0]) == {"VCPU:allocation_ratio": 10.0}
    assert ratios(client) == {20.0}
    plans.undo_file(client, plan_file.read(tmp_path / "undo"), tmp_path / "undo", apply.Options())
    assert ratios(client) == {10.0}


def test_a_relative_value_is_never_added_to_a_rivals() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def rival(method: str, uuid: str) -> None:
        item = client.stored[uuid]
        if item.generation == 3:
            item.generation += 1
            item.inventories["VCPU"] = dataclasses.replace(item.inventories["VCPU"], total=64)

    client.before_write = rival
    report = amend(client, "VCPU:total+=2")
    assert statuses(report) == {"stale": 1}
    assert "VCPU:total=64" in report.results[0].reason
    assert report.exit_code() == 7


@pytest.mark.parametrize("when", ["before_write", "after_write"])
@pytest.mark.parametrize("text", ["VCPU:allocation_ratio=20", "VCPU:allocation_ratio+=4"])
def test_a_lost_answer_is_settled_by_looking(when: str, text: str) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(6))
    setattr(client, when, once_each(lost))
    report = amend(client, text)
    assert statuses(report) == {"applied": 6}
    assert ratios(client) == {20.0}
    assert client.counted("replace") == (12 if when == "before_write" else 6)


def test_a_page_of_html_after_a_write_is_a_lost_answer() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(2))
    client.after_write = once_each(lambda: api_errors.UnexpectedResponse(200, "<html>"))
    assert statuses(amend(client, "VCPU:allocation_ratio=20")) == {"applied": 2}


def test_reads_are_asked_again_while_the_server_is_away() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(4))
    seen: collections.Counter[str] = collections.Counter()

    def trouble(method: str, uuid: str) -> None:
        seen[uuid] += 1
        if method == "list_inventories" and seen[uuid] < 4:
            raise (
                api_errors.ApiError(503, "busy")
                if seen[uuid] % 2
                else api_errors.ConnectionFailed("no")
            )

    client.before_read = trouble
    assert statuses(amend(client, "VCPU:allocation_ratio=20")) == {"applied": 4}


def test_a_refusal_that_looking_again_does_not_cure_fails_that_item_alone() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(4))

    def trouble(method: str, uuid: str) -> None:
        if uuid == fake_placement.uuid_of("host-001"):
            raise api_errors.InventoryInUse(409, "in use")

    client.before_write = trouble
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"applied": 3, "failed": 1}
    assert report.exit_code() == 6


def test_an_endless_conflict_ends_as_failed_with_the_last_cause() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(1))

    def trouble(method: str, uuid: str) -> None:
        raise api_errors.GenerationConflict(409, "somebody is quicker")

    client.before_write = trouble
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"failed": 1}
    assert "given up: somebody is quicker" in report.results[0].reason


def test_a_provider_that_vanished_fails_alone() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(3))
    gone = client.stored[fake_placement.uuid_of("host-000")]
    client.before_write = lambda method, uuid: (client.stored.pop(gone.uuid, None), None)[1]
    report = amend(client, "VCPU:allocation_ratio=20", workers=1)
    assert statuses(report) == {"applied": 2, "failed": 1}
    assert "it no longer exists" in report.results[0].reason


def test_when_nobody_answers_any_more_the_rest_is_not_tried() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(50))

    def away(method: str, uuid: str) -> None:
        raise api_errors.ConnectionFailed("nobody there")

    def trouble(method: str, uuid: str) -> None:
        client.before_read = away
        away(method, uuid)

    client.before_write = trouble
    report = amend(client, "VCPU:allocation_ratio=20", workers=2)
    assert report.count(result.Status.FAILED) <= 2
    assert report.count(result.Status.PLANNED) >= 48
    assert report.exit_code() == 6
    assert "nobody there" in report.halted


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("count", [1, 7, 20])
def test_max_count_is_exactly_so_many(workers: int, count: int) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(20))
    report = amend(client, "VCPU:allocation_ratio=20", max_count=count, workers=workers)
    assert client.writes == count
    assert report.count(result.Status.APPLIED) == count
    assert report.exit_code() == (0 if count == 20 else 5)


def test_max_count_goes_on_past_items_that_fail() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(10))

    def trouble(method: str, uuid: str) -> None:
        if uuid == fake_placement.uuid_of("host-000"):
            raise api_errors.Conflict(409, "no")

    client.before_write = trouble
    report = amend(client, "VCPU:allocation_ratio=20", max_count=4)
    assert statuses(report) == {"applied": 4, "failed": 1, "planned": 5}


def test_on_error_stop_begins_nothing_after_the_first_failure() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(10))

    def trouble(method: str, uuid: str) -> None:
        if uuid == fake_placement.uuid_of("host-002"):
            raise api_errors.Conflict(409, "no")

    client.before_write = trouble
    report = amend(client, "VCPU:allocation_ratio=20", workers=1, stop_on_error=True)
    assert statuses(report) == {"applied": 2, "failed": 1, "planned": 7}
    assert report.exit_code() == 6


def test_no_more_workers_than_asked_for_are_at_work() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(30))
    busy: list[int] = []
    at_work: set[int] = set()

    def watch(method: str, uuid: str) -> None:
        at_work.add(threading.get_ident())
        busy.append(len(at_work))
        time.sleep(0.001)

    client.before_write = watch
    amend(client, "VCPU:allocation_ratio=20", workers=3)
    assert max(busy) <= 3


def test_ctrl_c_finishes_what_is_in_flight_and_leaves_a_journal_that_goes_on(
    tmp_path: pathlib.Path,
) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(30))

    def interrupt(method: str, uuid: str) -> None:
        if client.writes == 10:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.05)

    client.after_write = interrupt
    where = tmp_path / "plan"
    report = amend(client, "VCPU:allocation_ratio+=4", plan_out=where, workers=2)
    assert report.interrupted
    assert report.exit_code() == 130
    done = report.count(result.Status.APPLIED)
    assert 10 <= done <= 12
    assert statuses(report) == {"applied": done, "planned": 30 - done}
    report = plans.apply_file(client, plan_file.read(where), where, apply.Options())
    assert statuses(report) == {"applied": 30}
    assert client.writes == 30
    assert ratios(client) == {20.0}


def test_a_relative_run_with_a_limit_goes_on_by_its_plan_file() -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(10))
    report = amend(client, "VCPU:allocation_ratio+=4", max_count=4)
    assert report.exit_code() == 5
    assert report.plan_path is not None
    assert report.plan_path.stat().st_mode & 0o777 == 0o600
    made = plan_file.read(report.plan_path)
    again = plans.apply_file(client, made, report.plan_path, apply.Options())
    assert again.exit_code() == 0
    assert ratios(client) == {20.0}
    assert client.writes == 10


def test_applying_a_finished_plan_again_sends_nothing(tmp_path: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(3))
    where = tmp_path / "plan"
    amend(client, "VCPU:total+=1", plan_out=where)
    client.calls.clear()
    report = plans.apply_file(client, plan_file.read(where), where, apply.Options())
    assert statuses(report) == {"applied": 3}
    assert not client.calls
    report = plans.apply_file(client, plan_file.read(where), where, apply.Options(), restart=True)
    assert statuses(report) == {"unchanged": 3}


def test_what_changed_since_the_plan_was_reviewed_is_stale(tmp_path: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(3))
    where = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", dry_run=True, plan_out=where)
    other = client.stored[fake_placement.uuid_of("host-001")]
    other.inventories["VCPU"] = dataclasses.replace(other.inventories["VCPU"], allocation_ratio=2.0)
    report = plans.apply_file(client, plan_file.read(where), where, apply.Options())
    assert statuses(report) == {"applied": 2, "stale": 1}
    assert report.exit_code() == 7
    assert ratios(client) == {20.0, 2.0}


def test_undo_takes_back_exactly_what_was_applied(tmp_path: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(10))
    client.stored[fake_placement.uuid_of("host-009")].inventories["VCPU"] = model.Inventory(
        total=32, allocation_ratio=20.0
    )
    where = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", plan_out=where, max_count=5)
    other = client.stored[fake_placement.uuid_of("host-001")]
    other.generation += 1
    other.inventories["VCPU"] = dataclasses.replace(other.inventories["VCPU"], allocation_ratio=2.0)
    report = plans.undo_file(client, plan_file.read(where), where, apply.Options())
    assert statuses(report) == {"applied": 4, "stale": 1, "skipped": 4}
    assert ratios(client) == {16.0, 2.0, 20.0}
    assert report.exit_code() == 7


def test_a_plan_can_be_applied_undone_and_applied_again(tmp_path: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(3))
    where = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", dry_run=True, plan_out=where)
    made = plan_file.read(where)
    for _ in range(3):
        plans.apply_file(client, made, where, apply.Options())
        assert ratios(client) == {20.0}
        plans.undo_file(client, made, where, apply.Options())
        assert ratios(client) == {16.0}


def test_the_undo_file_holds_what_was_applied_and_nothing_else(state_home: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(5))
    report = amend(client, "VCPU:allocation_ratio=20", max_count=2)
    assert report.undo_path is not None
    assert report.undo_path.parent == state_home
    assert report.undo_path.stat().st_mode & 0o777 == 0o600
    made = plan_file.read(report.undo_path)
    assert [item.subject.name for item in made.changes] == ["host-000", "host-001"]
    plans.apply_file(client, made, report.undo_path, apply.Options())
    assert ratios(client) == {16.0}


def test_a_run_that_changed_nothing_leaves_no_undo_file(state_home: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(2))

    def trouble(method: str, uuid: str) -> None:
        raise api_errors.Conflict(409, "no")

    client.before_write = trouble
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"failed": 2}
    client.before_write = lambda method, uuid: None
    for item in client.stored.values():
        item.inventories["VCPU"] = dataclasses.replace(
            item.inventories["VCPU"], allocation_ratio=21.0
        )
    amend(client, "VCPU:allocation_ratio=21")
    assert not list(state_home.glob("*.plan.json"))


def test_a_plan_of_another_cloud_is_refused_before_any_request(tmp_path: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(2))
    where = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", dry_run=True, plan_out=where)
    client.calls.clear()
    client.target = "another cloud"
    with pytest.raises(plan.PlanRefused, match="another cloud"):
        plans.apply_file(client, plan_file.read(where), where, apply.Options())
    assert not client.calls


def test_two_processes_cannot_apply_one_plan_at_once(tmp_path: pathlib.Path) -> None:
    client = fake_placement.FakeClient(fake_placement.hosts(2))
    where = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", dry_run=True, plan_out=where)
    made = plan_file.read(where)
    held = journal.Journal(journal.path_of(made, client.target))
    with pytest.raises(plan.PlanRefused, match="another process"):
        plans.apply_file(client, made, where, apply.Options())
    held.close()


def test_a_state_directory_that_cannot_be_written_stops_before_the_first_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    client = fake_placement.FakeClient(fake_placement.hosts(2))
    with pytest.raises(errors.PlacementError, match="XDG_STATE_HOME"):
        amend(client, "VCPU:allocation_ratio=20")
    assert client.writes == 0


class Killed(BaseException):
    """Stands for kill -9: nothing of ours runs after it."""


@pytest.mark.parametrize("seed", range(40))
def test_a_kill_at_any_moment_can_be_gone_on_from(seed: int, tmp_path: pathlib.Path) -> None:
    """Applying and undoing are killed again and again; nothing is done twice."""
    chance = random.Random(seed)
    client = fake_placement.FakeClient(fake_placement.hosts(12))
    where = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio+=4", dry_run=True, plan_out=where)
    made = plan_file.read(where)

    def perhaps(method: str, uuid: str) -> None:
        if chance.random() < 0.1:
            raise Killed
        if chance.random() < 0.2:
            raise lost()

    client.before_write = client.after_write = perhaps
    for step, wanted in [(plans.apply_file, 20.0), (plans.undo_file, 16.0)]:
        for _ in range(100):
            try:
                report = step(client, made, where, apply.Options())
            except Killed:
                continue
            assert statuses(report) == {"applied": 12}
            break
        assert ratios(client) == {wanted}
    assert {item.generation for item in client.stored.values()} == {5}


def test_a_journal_cut_short_by_a_kill_is_read_up_to_there(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal"
    opened = journal.Journal(path)
    opened.note(journal.Note("a", journal.State.APPLYING, {"VCPU:total": 1}))
    opened.note(journal.Note("a", journal.State.APPLIED))
    opened.close()
    with path.open("a") as file:
        file.write('{"key": "b", "sta')
    again = journal.Journal(path)
    assert again.entries == {"a": journal.Entry(journal.State.APPLIED, {"VCPU:total": 1})}
    again.note(journal.Note("b", journal.State.APPLYING))
    again.close()
    assert journal.read_entries(path)["b"].state is journal.State.APPLYING


def test_a_damaged_journal_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"key": "a", "state": "applied"}\nnonsense\n')
    with pytest.raises(plan.PlanRefused, match="line 2"):
        journal.Journal(path)
