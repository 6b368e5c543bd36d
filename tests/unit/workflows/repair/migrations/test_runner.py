# SPDX-License-Identifier: Apache-2.0
"""Online data migrations: exit codes, limits, the cursor between runs, and what each changes."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from osc_placement import microversion, testing
from osc_placement.client import api
from osc_placement.model import allocation, inventory
from osc_placement.neutron import api as neutron_api
from osc_placement.nova import api as nova_api
from osc_placement.plan import apply, plan, removal_limit, result
from osc_placement.workflows.batch import batch
from osc_placement.workflows.cloud import selector as batch_selector
from osc_placement.workflows.cloud.context import ReadContext
from osc_placement.workflows.repair.migrations import consumers, display_heads, registry
from osc_placement.workflows.repair.migrations.registry import RunEnd
from tests.support import embedded, host_aggregates, plans
from tests.support.batch_runs import statuses
from tests.support.embedded import uuid_of


@dataclasses.dataclass
class Cloud:
    nova: nova_api.Nova
    neutron: neutron_api.Neutron


def services(count: int = 6) -> tuple[embedded.Client, Any]:
    client, nova = host_aggregates.cloud(count)
    return client, registry.CloudServices(client, Cloud(nova, neutron_api.RecordedNeutron({}, "")))


MIRROR = registry.MIGRATIONS[:1]
OWNERS = ["mirror_host_aggregates", "complete_consumers"]


def run(cloud_services: Any, **options: Any) -> registry.Result:
    return registry.run(cloud_services, "a test", MIRROR, **options)


def counted(result: registry.Result) -> tuple[int, int]:
    (count,) = result.counts.values()
    return count.found, count.done


@pytest.mark.parametrize("limit", [None, 4, 50])
def test_failures_do_not_stop_others_and_end_with_2(limit: int | None) -> None:
    client, cloud_services = services()
    client.before_write(embedded.about("h3.", embedded.refuse(400, "no")))
    ended = [run(cloud_services, max_count=limit)]
    while ended[-1].exit_code is RunEnd.MORE:
        ended.append(run(cloud_services, max_count=limit))
    assert ended[-1].exit_code is RunEnd.ERRORS
    assert "h3." in ended[-1].failures[0]
    assert sum(result.done for result in ended) == 5


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_refusal_of_a_service_is_an_error_of_that_migration(*, dry_run: bool) -> None:
    client, cloud_services = services()
    cloud_services.cloud.nova.forbidden = {"/os-aggregates"}
    result = run(cloud_services, dry_run=dry_run)
    assert (result.exit_code, client.writes) == (RunEnd.ERRORS, 0)
    # "Changes are left. To continue" is no advice after a dry run.
    assert result.incomplete is not dry_run
    assert "missing permission in nova" in result.failures[0]


def test_a_migration_keeps_stale_members() -> None:
    client, cloud_services = services()
    run(cloud_services)
    client.stored("h1.").add_aggregates(embedded.uuid_of("even"))
    assert run(cloud_services).exit_code is RunEnd.DONE
    assert "h1." in host_aggregates.members(client, "even")


def test_a_dry_run_counts_the_changes_and_keeps_the_cursor(tmp_path: pathlib.Path) -> None:
    client, cloud_services = services()
    cursor = tmp_path / "cursor"
    for _ in range(2):
        result = run(cloud_services, dry_run=True, cursor=cursor)
        assert (counted(result), result.exit_code) == ((6, 0), RunEnd.DONE)
    assert client.writes == 0
    assert not cursor.exists()
    assert counted(run(cloud_services, cursor=cursor, max_count=2)) == (6, 2)
    assert counted(run(cloud_services, dry_run=True, cursor=cursor)) == (4, 0)


def numbered(count: int, planned_slices: list[str]) -> registry.DataMigration:
    """A migration with ``count`` slices that each add a trait to two hosts."""

    def slices(cloud_services: registry.CloudServices, after: str) -> Iterator[registry.Slice]:
        for number in range(int(after or 0), count):
            planned_slices.append(f"slice {number}")
            selector = batch_selector.Selector(providers=(f"h{2 * number}.", f"h{2 * number + 1}."))
            planned = batch.plan_traits(cloud_services.client, selector, add=["CUSTOM_A"])
            yield registry.Slice(str(number + 1), planned)

    return registry.DataMigration("numbered", "", slices, "look", "traits")


def test_the_next_run_continues_at_the_cursor() -> None:
    client, cloud_services = services(6)
    planned_slices: list[str] = []
    item = numbered(3, planned_slices)
    for slices in (["slice 0", "slice 1"], ["slice 1", "slice 2"]):
        result = registry.run(cloud_services, "a test", [item], max_count=3)
        assert (result.exit_code, result.done, planned_slices) == (RunEnd.MORE, 3, slices)
        planned_slices.clear()
    assert client.writes == 6


def test_a_refused_slice_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    client, cloud_services = services(6)
    monkeypatch.setattr(removal_limit, "refusal", lambda plan: "too much")
    planned_slices: list[str] = []
    result = registry.run(cloud_services, "a test", [numbered(3, planned_slices)])
    assert (result.failures, client.writes) == (["numbered: too much"], 0)
    assert planned_slices == ["slice 0"]


def test_exit_code_0_needs_a_full_pass_from_the_start() -> None:
    client, cloud_services = services(6)
    planned_slices: list[str] = []
    item = numbered(3, planned_slices)
    registry.run(cloud_services, "a test", [item], max_count=4)
    client.stored("h0.").set_traits()
    for name in ("h4.", "h5."):
        client.stored(name).set_traits("CUSTOM_A")
    planned_slices.clear()
    result = registry.run(cloud_services, "a test", [item], max_count=4)
    # What follows the cursor is done; the pass from the start finds what came back.
    assert (result.exit_code, result.done) == (RunEnd.MORE, 1)
    assert planned_slices == ["slice 2", "slice 0", "slice 1", "slice 2"]
    assert registry.run(cloud_services, "a test", [item], max_count=4).exit_code is RunEnd.DONE


def test_a_lost_cursor_costs_only_time(tmp_path: pathlib.Path) -> None:
    client, cloud_services = services(6)
    path, planned_slices = tmp_path / "cursor", []  # type: ignore[var-annotated]
    item = numbered(3, planned_slices)
    registry.run(cloud_services, "a test", [item], max_count=4, cursor=path)
    assert '"numbered": "2"' in path.read_text()
    path.write_text("{")
    result = registry.run(cloud_services, "a test", [item], max_count=4, cursor=path)
    assert (result.done, client.writes) == (2, 6)
    path.unlink()
    assert registry.run(cloud_services, "a test", [item], cursor=path).exit_code is RunEnd.DONE


def test_an_unusable_cursor_is_reported_and_does_not_stop_the_run(tmp_path: pathlib.Path) -> None:
    _, cloud_services = services(6)
    result = registry.run(cloud_services, "a test", [numbered(3, [])], cursor=tmp_path)
    assert (result.done, result.exit_code) == (6, RunEnd.DONE)
    assert str(tmp_path) in result.notes[-1]


def test_a_run_of_some_migrations_keeps_the_positions_of_the_others(tmp_path: pathlib.Path) -> None:
    cursor = tmp_path / "cursor"
    _, cloud_services = services()
    registry.run(cloud_services, "a test", MIRROR, cursor=cursor, max_count=2)
    position = registry.Cursor(cloud_services.client.target, cursor)
    position.move("other", "h3")
    registry.run(cloud_services, "a test", MIRROR, cursor=cursor)
    assert registry.Cursor(cloud_services.client.target, cursor).positions == {"other": "h3"}


def test_an_unsupported_migration_is_noted_and_is_not_an_error() -> None:
    client, given = services()
    given = dataclasses.replace(given, client=client.at(microversion.Microversion(1, 37)))
    result = registry.run(given, "a test", registry.selected(OWNERS))
    assert result.exit_code is RunEnd.DONE
    assert any("1.38" in note for note in result.notes)


PLACEHOLDER = allocation.PLACEHOLDER


def owned(
    projects: Mapping[str, str], **types: str
) -> tuple[embedded.Client, nova_api.RecordedNova]:
    """Consumers of these projects; nova's servers ``vm-1``, ... and ``a move`` are of ``acme``."""
    made = testing.Cloud().compute("cmp-1", "cmp-2", VCPU=1000)
    for name, project in projects.items():
        kind = types.get(name, "unknown")
        made.server(name, {"cmp-1": {"VCPU": 1}}, project=project, user="alice", type=kind)
        if name.startswith("vm-"):
            made.instance(name, "cmp-1", project="acme", user="alice")
    owner = {"project_id": "acme", "user_id": "alice"}
    made.migration(
        "a move", "vm-1", "cmp-1", "cmp-2", migration_type="resize", **owner, status="finished"
    )
    return embedded.Client(load=made.document()), nova_api.RecordedNova(made.nova(), "a test")


def migrate(client: api.Client, nova: nova_api.Nova, after: str = "") -> int:
    """Apply all slices; returns the number of applied changes."""
    done = 0
    for _, planned in consumers.plan_owners(client, nova, after=after):
        report = plans.apply_new(client, planned, "a test", apply.Options())
        done += report.count(result.Status.APPLIED)
    return done


def project_of(client: api.Client, name: str) -> str | None:
    return client.show_allocations(uuid_of(name)).project_id


def test_only_placeholders_of_servers_and_migrations_are_replaced() -> None:
    names = ("vm-1", "a move", "another service's")
    client, nova = owned({**dict.fromkeys(names, PLACEHOLDER), "vm-2": "other"})
    assert migrate(client, nova) == 2
    projects = [project_of(client, name) for name in ("vm-1", "a move", "vm-2")]
    assert projects == ["acme", "acme", "other"]
    assert project_of(client, "another service's") == PLACEHOLDER


def test_the_types_of_consumers_stay() -> None:
    client, nova = owned({"vm-1": PLACEHOLDER, "vm-2": PLACEHOLDER}, **{"vm-2": "INSTANCE"})
    assert migrate(client, nova) == 2
    types = [client.show_allocations(uuid_of(name)).consumer_type for name in ("vm-1", "vm-2")]
    assert types == ["unknown", "INSTANCE"]


def test_reading_stops_when_all_are_found() -> None:
    names = sorted((f"vm-{number}" for number in range(300)), key=uuid_of)
    client, nova = owned({**dict.fromkeys(names, "acme"), names[0]: PLACEHOLDER})
    assert migrate(client, nova) == 1
    count = client.count()
    assert count["GET /allocations/{}"] == consumers._SLICE
    assert count["POST /allocations"] + count["PUT /allocations/{}"] == 1


def test_position_skips_earlier_consumers() -> None:
    names = sorted((f"vm-{number}" for number in range(4)), key=uuid_of)
    client, nova = owned(dict.fromkeys(names, PLACEHOLDER))
    assert migrate(client, nova, after=uuid_of(names[1])) == 2


def test_one_request_if_no_placeholders() -> None:
    client, nova = owned({"vm-1": "acme"})
    assert migrate(client, nova) == 0
    assert client.count() == {"GET /usages": 1}


INVENTORIES = "GET /resource_providers/{}/inventories"
CONTEXT = ReadContext()


def gpu(name: str, traits: tuple[str, ...] = (), used: int = 0, **heads: int) -> embedded.Host:
    offered = {
        "VGPU": inventory.Inventory(total=16),
        display_heads.CLASS: inventory.Inventory(**{"total": 64, "max_unit": 4, **heads}),
    }
    return embedded.Host(
        name, traits, used={display_heads.CLASS: used} if used else {}, inventories=offered
    )


def trait(count: int) -> str:
    return f"HW_GPU_MAX_DISPLAY_HEADS_{count}"


def applied(client: embedded.Client, planned: plan.ObservedPlan) -> result.RunReport:
    return plans.apply_new(client, planned)


def reasons(report: result.RunReport) -> dict[str, str]:
    return {item.subject.name: item.reason for item in report.results if item.reason}


@pytest.mark.parametrize(
    ("total", "max_unit", "heads"),
    [
        (64, 4, 4),
        (64, 1, 1),
        (64, 3, 2),
        (64, 7, 6),
        (64, 16, 8),
        (4, inventory.MAX_AMOUNT, 4),
        (2, 8, 2),
    ],
)
def test_the_trait_promises_no_more_heads_than_a_server_can_have(
    total: int, max_unit: int, heads: int
) -> None:
    offered = inventory.Inventory(total=total, max_unit=max_unit)
    assert display_heads.trait_of(offered) == trait(heads)


def test_traits_are_added_once_and_other_traits_stay() -> None:
    client = embedded.Client(
        [
            embedded.Host("cpu"),
            gpu("a", ("CUSTOM_A",)),
            gpu("b", max_unit=2),
            gpu("c", (trait(8),)),
            gpu("d", (trait(4),)),
        ]
    )
    report = applied(client, display_heads.plan_traits(client, CONTEXT))
    assert statuses(report) == {"applied": 2, "unchanged": 2}
    assert client.stored("a").traits == {"CUSTOM_A", trait(4)}
    assert client.stored("b").traits == {trait(2)}
    assert reasons(report) == {"c": f"it has the trait {trait(8)} already"}
    assert client.count() == {
        "GET /resource_providers": 1 + len(display_heads.TRAITS),
        INVENTORIES: 5,
        "GET /resource_providers/{}/traits": 2,
        "PUT /resource_providers/{}/traits": 2,
    }
    again = applied(client, display_heads.plan_traits(client, CONTEXT))
    assert statuses(again) == {"unchanged": 4}


def test_a_cloud_without_the_class_needs_one_request_per_provider() -> None:
    client = embedded.Client(embedded.hosts(3))
    assert not display_heads.plan_traits(client, CONTEXT).plan.items()
    assert client.count() == {"GET /resource_providers": 1, INVENTORIES: 3}


def test_only_unused_inventories_of_providers_with_a_trait_are_removed() -> None:
    names = ("unused", "used", "untraited")
    client = embedded.Client(
        [gpu("unused", (trait(4),)), gpu("used", (trait(4),), used=3), gpu("untraited")]
    )
    report = applied(client, display_heads.plan_removal(client, CONTEXT))
    assert statuses(report) == {"applied": 1, "refused": 2}
    offered = {name: display_heads.CLASS in client.stored(name).inventories for name in names}
    assert offered == {"unused": False, "used": True, "untraited": True}
    assert "VGPU" in client.stored("unused").inventories
    assert "3 in use" in reasons(report)["used"]
    assert "run add_display_head_traits first" in reasons(report)["untraited"]


def test_an_allocation_after_planning_keeps_the_inventory() -> None:
    client = embedded.Client([gpu("a", (trait(4),))])
    planned = display_heads.plan_removal(client, CONTEXT)
    client.stored("a").use(display_heads.CLASS, 1)
    assert statuses(applied(client, planned)) == {"refused": 1}
    assert display_heads.CLASS in client.stored("a").inventories


def test_many_removals_need_the_guard() -> None:
    client = embedded.Client([gpu(f"gpu-{number}", (trait(4),)) for number in range(30)])
    planned = display_heads.plan_removal(client, CONTEXT)
    assert planned.plan.existing == {"inventories": 60}
    assert applied(client, planned).count(result.Status.REFUSED) == 30
    assert client.writes == 0
