"""Online data migrations: how a run ends, and that it goes on where another stopped."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.client import api_errors
from osc_placement.neutron import api
from osc_placement.workflows import selector as batch_selector
from osc_placement.workflows.batch import plan
from osc_placement.workflows.migrations import registry, runner
from osc_placement.workflows.migrations.runner import Exit
from tests.support import fake_placement
from tests.unit.workflows.mirror import test_observe


def services(count: int = 6) -> tuple[fake_placement.FakeClient, Any]:
    client, nova = test_observe.cloud(count)
    return client, runner.Services(client, nova, api.RecordedNeutron({}, ""))  # type: ignore[arg-type]


MIRROR = registry.MIGRATIONS[:1]


def run(given: Any, **options: Any) -> runner.Result:
    return runner.run(given, "a test", MIRROR, **options)


def counted(result: runner.Result) -> tuple[int, int]:
    (count,) = result.counts.values()
    return count.found, count.done


def test_a_run_ends_with_0_after_a_pass_that_found_nothing() -> None:
    client, given = services()
    result = run(given)
    assert (counted(result), result.exit_code) == ((6, 6), Exit.DONE)
    assert client.writes == 6
    again = run(given)
    assert (counted(again), again.exit_code, client.writes) == ((0, 0), Exit.DONE, 6)


def test_a_limited_run_does_exactly_so_many_and_ends_with_1_until_there_is_nothing() -> None:
    client, given = services()
    ended = [run(given, max_count=4) for _ in range(3)]
    assert [counted(result) for result in ended] == [(6, 4), (2, 2), (0, 0)]
    assert [result.exit_code for result in ended] == [Exit.MORE, Exit.MORE, Exit.DONE]
    assert client.writes == 6


@pytest.mark.parametrize("limit", [None, 4, 50])
def test_what_fails_stops_nobody_and_ends_with_2_when_nothing_more_can_be_done(
    limit: int | None,
) -> None:
    client, given = services()

    def refuse(method: str, uuid: str) -> None:
        if uuid == fake_placement.uuid_of("h3."):
            raise api_errors.ApiError(400, "no")

    client.before_write = refuse
    ended = [run(given, max_count=limit)]
    while ended[-1].exit_code is Exit.MORE:
        ended.append(run(given, max_count=limit))
    assert ended[-1].exit_code is Exit.ERRORS
    assert "h3." in ended[-1].troubles[0]
    assert sum(result.done for result in ended) == 5


def test_a_service_that_refuses_is_an_error_of_that_migration() -> None:
    client, given = services()
    given.nova.forbidden = {"/os-aggregates"}
    result = run(given)
    assert (result.exit_code, client.writes) == (Exit.ERRORS, 0)
    assert "missing permission in nova" in result.troubles[0]


def test_what_no_migration_can_do_is_noted_and_stops_nothing() -> None:
    _, given = services()
    given.nova.aggregates["all"].append("ghost")
    result = run(given)
    assert (counted(result), result.exit_code) == ((6, 6), Exit.DONE)
    assert "1 skipped" in result.notes[0]


def test_stale_members_are_not_a_migrations_business() -> None:
    client, given = services()
    run(given)
    client.stored[fake_placement.uuid_of("h1.")].aggregates += (fake_placement.uuid_of("even"),)
    assert run(given).exit_code is Exit.DONE
    assert "h1." in test_observe.members(client, "even")


def test_each_batch_tells_how_to_take_it_back() -> None:
    _, given = services()
    assert len(run(given, max_count=2).undo) == 1
    assert run(given).undo != run(given).undo == []


def test_a_dry_run_counts_the_changes_and_keeps_the_cursor(tmp_path: pathlib.Path) -> None:
    client, given = services()
    cursor = tmp_path / "cursor"
    for _ in range(2):
        result = run(given, dry_run=True, cursor=cursor)
        assert (counted(result), result.exit_code) == ((6, 0), Exit.DONE)
    assert client.writes == 0
    assert not cursor.exists()
    assert counted(run(given, cursor=cursor, max_count=2)) == (6, 2)
    assert counted(run(given, dry_run=True, cursor=cursor)) == (4, 0)


def numbered(count: int, seen: list[str]) -> runner.Migration:
    """A migration of as many slices of two traits each, made on hosts one after the other."""

    def slices(given: runner.Services, after: str) -> Iterator[runner.Slice]:
        for number in range(int(after or 0), count):
            seen.append(f"slice {number}")
            selector = batch_selector.Selector(providers=(f"h{2 * number}.", f"h{2 * number + 1}."))
            planned = plan.plan_traits(given.client, selector, add=["CUSTOM_A"])
            yield runner.Slice(str(number + 1), planned)

    return runner.Migration("numbered", "", slices, "look", "traits")


def test_the_next_run_goes_on_where_the_last_one_stopped() -> None:
    client, given = services(6)
    seen: list[str] = []
    item = numbered(3, seen)
    first = runner.run(given, "a test", [item], max_count=3)
    assert (first.exit_code, first.done, seen) == (Exit.MORE, 3, ["slice 0", "slice 1"])
    seen.clear()
    second = runner.run(given, "a test", [item], max_count=3)
    assert (second.exit_code, second.done, seen) == (Exit.MORE, 3, ["slice 1", "slice 2"])
    assert client.writes == 6


def test_0_needs_a_full_pass_from_the_start_though_the_end_was_reached() -> None:
    client, given = services(6)
    seen: list[str] = []
    item = numbered(3, seen)
    runner.run(given, "a test", [item], max_count=4)
    client.stored[fake_placement.uuid_of("h0.")].traits = ()
    for uuid in ("h4.", "h5."):
        client.stored[fake_placement.uuid_of(uuid)].traits = ("CUSTOM_A",)
    seen.clear()
    result = runner.run(given, "a test", [item], max_count=4)
    # What follows the cursor is done; the pass from the start finds what came back.
    assert (result.exit_code, result.done) == (Exit.MORE, 1)
    assert seen == ["slice 2", "slice 0", "slice 1", "slice 2"]
    assert runner.run(given, "a test", [item], max_count=4).exit_code is Exit.DONE


def test_losing_the_cursor_costs_time_only(tmp_path: pathlib.Path) -> None:
    client, given = services(6)
    path, seen = tmp_path / "cursor", []  # type: ignore[var-annotated]
    item = numbered(3, seen)
    runner.run(given, "a test", [item], max_count=4, cursor=path)
    assert "1" in path.read_text()
    path.write_text("{")
    result = runner.run(given, "a test", [item], max_count=4, cursor=path)
    assert (result.done, client.writes) == (2, 6)
    path.unlink()
    assert runner.run(given, "a test", [item], cursor=path).exit_code is Exit.DONE


def test_a_cursor_that_cannot_be_read_or_kept_is_told_of_and_stops_nothing(
    tmp_path: pathlib.Path,
) -> None:
    _, given = services(6)
    result = runner.run(given, "a test", [numbered(3, [])], cursor=tmp_path)
    assert (result.done, result.exit_code) == (6, Exit.DONE)
    assert str(tmp_path) in result.notes[-1]


def test_what_this_placement_is_too_old_for_is_noted_and_is_no_error() -> None:
    _, given = services()

    def need(feature: str, what: str = "") -> None:
        if feature == "consumer types":
            needs, has = microversion.FEATURES[feature], microversion.Microversion(1, 30)
            raise api_errors.UnsupportedVersion(feature, needs, has, what)

    given.client.require_feature = need
    result = runner.run(given, "a test", [registry.MIGRATIONS[0], registry.MIGRATIONS[-1]])
    assert result.exit_code is Exit.DONE
    assert any("1.38" in note for note in result.notes)
