# SPDX-License-Identifier: Apache-2.0
"""Online data migrations: exit codes, limits, and the cursor between runs."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from osc_placement import microversion
from osc_placement.neutron import api
from osc_placement.nova import api as nova_api
from osc_placement.workflows import batch, selector as batch_selector
from osc_placement.workflows.migrations import registry
from osc_placement.workflows.migrations.registry import RunEnd
from tests.support import embedded, host_aggregates


@dataclasses.dataclass
class Cloud:
    nova: nova_api.Nova
    neutron: api.Neutron


def services(count: int = 6) -> tuple[embedded.Client, Any]:
    client, nova = host_aggregates.cloud(count)
    return client, registry.CloudServices(client, Cloud(nova, api.RecordedNeutron({}, "")))


MIRROR = registry.MIGRATIONS[:1]
TYPES = ["mirror_host_aggregates", "set_consumer_types"]


def run(given: Any, **options: Any) -> registry.Result:
    return registry.run(given, "a test", MIRROR, **options)


def counted(result: registry.Result) -> tuple[int, int]:
    (count,) = result.counts.values()
    return count.found, count.done


@pytest.mark.parametrize("limit", [None, 4, 50])
def test_failures_do_not_stop_others_and_end_with_2(limit: int | None) -> None:
    client, given = services()
    client.before_write(embedded.about("h3.", embedded.refuse(400, "no")))
    ended = [run(given, max_count=limit)]
    while ended[-1].exit_code is RunEnd.MORE:
        ended.append(run(given, max_count=limit))
    assert ended[-1].exit_code is RunEnd.ERRORS
    assert "h3." in ended[-1].failures[0]
    assert sum(result.done for result in ended) == 5


def test_a_refusal_of_a_service_is_an_error_of_that_migration() -> None:
    client, given = services()
    given.cloud.nova.forbidden = {"/os-aggregates"}
    result = run(given)
    assert (result.exit_code, client.writes) == (RunEnd.ERRORS, 0)
    assert "missing permission in nova" in result.failures[0]


def test_a_migration_keeps_stale_members() -> None:
    client, given = services()
    run(given)
    client.stored("h1.").add_aggregates(embedded.uuid_of("even"))
    assert run(given).exit_code is RunEnd.DONE
    assert "h1." in host_aggregates.members(client, "even")


def test_a_dry_run_counts_the_changes_and_keeps_the_cursor(tmp_path: pathlib.Path) -> None:
    client, given = services()
    cursor = tmp_path / "cursor"
    for _ in range(2):
        result = run(given, dry_run=True, cursor=cursor)
        assert (counted(result), result.exit_code) == ((6, 0), RunEnd.DONE)
    assert client.writes == 0
    assert not cursor.exists()
    assert counted(run(given, cursor=cursor, max_count=2)) == (6, 2)
    assert counted(run(given, dry_run=True, cursor=cursor)) == (4, 0)


def numbered(count: int, planned_slices: list[str]) -> registry.DataMigration:
    """A migration with ``count`` slices that each add a trait to two hosts."""

    def slices(given: registry.CloudServices, after: str) -> Iterator[registry.Slice]:
        for number in range(int(after or 0), count):
            planned_slices.append(f"slice {number}")
            selector = batch_selector.Selector(providers=(f"h{2 * number}.", f"h{2 * number + 1}."))
            planned = batch.plan_traits(given.client, selector, add=["CUSTOM_A"])
            yield registry.Slice(str(number + 1), planned)

    return registry.DataMigration("numbered", "", slices, "look", "traits")


def test_the_next_run_continues_at_the_cursor() -> None:
    client, given = services(6)
    planned_slices: list[str] = []
    item = numbered(3, planned_slices)
    first = registry.run(given, "a test", [item], max_count=3)
    assert (first.exit_code, first.done, planned_slices) == (RunEnd.MORE, 3, ["slice 0", "slice 1"])
    planned_slices.clear()
    second = registry.run(given, "a test", [item], max_count=3)
    assert (second.exit_code, second.done, planned_slices) == (
        RunEnd.MORE,
        3,
        ["slice 1", "slice 2"],
    )
    assert client.writes == 6


def test_exit_code_0_needs_a_full_pass_from_the_start() -> None:
    client, given = services(6)
    planned_slices: list[str] = []
    item = numbered(3, planned_slices)
    registry.run(given, "a test", [item], max_count=4)
    client.stored("h0.").set_traits()
    for name in ("h4.", "h5."):
        client.stored(name).set_traits("CUSTOM_A")
    planned_slices.clear()
    result = registry.run(given, "a test", [item], max_count=4)
    # What follows the cursor is done; the pass from the start finds what came back.
    assert (result.exit_code, result.done) == (RunEnd.MORE, 1)
    assert planned_slices == ["slice 2", "slice 0", "slice 1", "slice 2"]
    assert registry.run(given, "a test", [item], max_count=4).exit_code is RunEnd.DONE


def test_a_lost_cursor_costs_only_time(tmp_path: pathlib.Path) -> None:
    client, given = services(6)
    path, planned_slices = tmp_path / "cursor", []  # type: ignore[var-annotated]
    item = numbered(3, planned_slices)
    registry.run(given, "a test", [item], max_count=4, cursor=path)
    assert "1" in path.read_text()
    path.write_text("{")
    result = registry.run(given, "a test", [item], max_count=4, cursor=path)
    assert (result.done, client.writes) == (2, 6)
    path.unlink()
    assert registry.run(given, "a test", [item], cursor=path).exit_code is RunEnd.DONE


def test_an_unusable_cursor_is_reported_and_does_not_stop_the_run(tmp_path: pathlib.Path) -> None:
    _, given = services(6)
    result = registry.run(given, "a test", [numbered(3, [])], cursor=tmp_path)
    assert (result.done, result.exit_code) == (6, RunEnd.DONE)
    assert str(tmp_path) in result.notes[-1]


def test_a_run_of_some_migrations_keeps_the_positions_of_the_others(tmp_path: pathlib.Path) -> None:
    cursor = tmp_path / "cursor"
    _, given = services()
    registry.run(given, "a test", MIRROR, cursor=cursor, max_count=2)
    position = registry.Cursor(given.client.target, cursor)
    position.move("other", "h3")
    registry.run(given, "a test", MIRROR, cursor=cursor)
    assert registry.Cursor(given.client.target, cursor).positions == {"other": "h3"}


def test_an_unsupported_migration_is_noted_and_is_not_an_error() -> None:
    client, given = services()
    given = dataclasses.replace(given, client=client.at(microversion.Microversion(1, 37)))
    result = registry.run(given, "a test", registry.selected(TYPES))
    assert result.exit_code is RunEnd.DONE
    assert any("1.38" in note for note in result.notes)
