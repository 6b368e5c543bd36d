"""Online data migrations: how a run ends, and that it goes on where another stopped."""

from __future__ import annotations

from typing import Any

import pytest

from osc_placement.client import errors
from osc_placement.workflows import migrations
from osc_placement.workflows.migrations import Exit
from tests.unit.workflows import fake, test_mirror


def services(count: int = 6) -> tuple[fake.FakeClient, Any]:
    client, nova = test_mirror.cloud(count)
    return client, migrations.Services(client, nova)  # type: ignore[arg-type]


def run(given: Any, **options: Any) -> migrations.Result:
    return migrations.run(given, "a test", **options)


def counted(result: migrations.Result) -> tuple[int, int]:
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
        if uuid == fake.uuid_of("h3."):
            raise errors.ApiError(400, "no")

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
    assert "a right is missing in nova" in result.troubles[0]


def test_what_no_migration_can_do_is_noted_and_stops_nothing() -> None:
    _, given = services()
    given.nova.aggregates["all"].append("ghost")
    result = run(given)
    assert (counted(result), result.exit_code) == ((6, 6), Exit.DONE)
    assert "1 left alone" in result.notes[0]


def test_stale_members_are_not_a_migrations_business() -> None:
    client, given = services()
    run(given)
    client.stored[fake.uuid_of("h1.")].aggregates += (fake.uuid_of("even"),)
    assert run(given).exit_code is Exit.DONE
    assert "h1." in test_mirror.members(client, "even")


def test_each_batch_tells_how_to_take_it_back() -> None:
    _, given = services()
    assert len(run(given, max_count=2).undo) == 1
    assert run(given).undo != run(given).undo == []
