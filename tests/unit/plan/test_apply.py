# SPDX-License-Identifier: Apache-2.0
"""Plan files: dry run, apply, resume, undo."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import random
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.plan import apply, change, file as plan_file, journal, plan, result
from osc_placement.plan.kinds import (
    allocations,
    inventories,
    memberships,
    provider,
    registry,
    reshape,
)
from tests.support import embedded, fake_neutron, plans, scripted
from tests.support.batch_runs import amend, ratios, statuses


def test_a_dry_run_changes_nothing_and_its_exit_code_shows_changes(
    state_home: pathlib.Path,
) -> None:
    client = embedded.Client(embedded.hosts(5))
    report = amend(client, "VCPU:allocation_ratio*=2", dry_run=True)
    assert statuses(report) == {"planned": 5}
    assert (report.exit_code(), report.exit_code(detailed=True)) == (0, 3)
    assert client.writes == 0
    assert not state_home.exists()


@pytest.mark.parametrize("request_text", ["VCPU:total+=1", "VCPU:allocation_ratio=20"])
def test_a_plan_whose_changes_were_restored_or_changed_is_not_reported_as_applied(
    tmp_path: pathlib.Path, request_text: str
) -> None:
    client = embedded.Client(embedded.hosts(3))
    path = tmp_path / "plan"
    amend(client, request_text, plan_out=path)
    applied = client.stored("host-000").inventories["VCPU"]
    original = embedded.Client(embedded.hosts(3)).stored("host-000").inventories["VCPU"]

    def apply_again(*, dry_run: bool) -> result.RunReport:
        options = apply.Options(dry_run=dry_run)
        return plans.apply_file(client, plan_file.read(path), path, options)

    def put(host: str, **fields: float) -> None:
        client.stored(host).set_inventory("VCPU", **fields)

    put("host-000", total=original.total, allocation_ratio=original.allocation_ratio)
    put("host-001", total=77, allocation_ratio=7.0)
    assert statuses(apply_again(dry_run=True)) == {"planned": 1, "stale": 1, "applied": 1}
    writes = client.writes
    report = apply_again(dry_run=False)
    assert statuses(report) == {"applied": 2, "stale": 1}
    earlier = [item for item in report.results if item.code == "earlier-run"]
    assert [item.subject.name for item in earlier] == ["host-002"]
    assert client.writes == writes + 1
    assert client.stored("host-000").inventories["VCPU"] == applied
    undone = plans.undo_file(client, plan_file.read(path), path)
    assert statuses(undone) == {"applied": 2, "stale": 1}
    put("host-002", total=applied.total, allocation_ratio=applied.allocation_ratio)
    undone = plans.undo_file(client, plan_file.read(path), path)
    assert statuses(undone) == {"applied": 2, "stale": 1}
    assert client.stored("host-002").inventories["VCPU"] == original


PORT = embedded.uuid_of("a port")
_A, _B = "HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"


def _states(client: embedded.Client) -> dict[str, tuple[Any, ...]]:
    """``{kind: (subject, before, after, other states, partly restored ones among them)}``."""
    host = client.stored("host-000")
    subject = change.Subject(host.name, host.uuid)
    consumer = embedded.uuid_of("a new consumer")
    vcpu = host.inventories["VCPU"]

    def total(more: int) -> inventories.InventoryState:
        return inventories.InventoryState({"VCPU": {"total": vcpu.total + more}})

    def uses(amount: int) -> allocations.ConsumerState:
        return allocations.ConsumerState({host.uuid: {"VCPU": amount}}, "p", "u", "INSTANCE")

    def bound(state: allocations.ConsumerState, groups: dict[str, str]) -> allocations.BoundState:
        return allocations.BoundState.with_ports(state, {PORT: groups})

    def offers(*more: int) -> reshape.ReshapeState:
        hosts = dict(zip((host.uuid, embedded.uuid_of("host-001")), more, strict=True))
        renewed = {
            uuid: {"VCPU": dataclasses.replace(vcpu, total=vcpu.total + extra)}
            for uuid, extra in hosts.items()
        }
        return reshape.ReshapeState(renewed, {}, {uuid: {"VCPU": 0} for uuid in hosts})

    def has(state: Any, *names: str, both: bool = False, one: bool = False) -> Any:
        return state({names[0]: both or one, names[1]: both})

    traits, uuids = (_A, _B), (embedded.uuid_of("agg a"), embedded.uuid_of("agg b"))
    in_all = functools.partial(has, memberships.TRAITS.state, *traits)
    member = functools.partial(has, memberships.AGGREGATES.state, *uuids)
    custom = memberships.creation("CUSTOM_NEW", "it is needed")
    return {
        "inventories": (subject, total(0), total(1), total(7)),
        "traits": (subject, in_all(), in_all(both=True), in_all(one=True)),
        "aggregates": (subject, member(), member(both=True), member(one=True)),
        "provider": (subject, *(provider.ProviderState(name) for name in ("host-000", "b", "c"))),
        "allocations": (
            change.Subject(consumer, consumer),
            allocations.ConsumerState(),
            uses(1),
            uses(2),
        ),
        "bound allocations": (
            change.Subject(consumer, consumer),
            bound(allocations.ConsumerState(), {}),
            bound(uses(1), {PORT: host.uuid}),
            bound(uses(1), {PORT: embedded.uuid_of("host-001")}),
            bound(uses(1), {}),
            bound(allocations.ConsumerState(), {PORT: host.uuid}),
        ),
        "reshape": (subject, offers(0, 0), offers(1, 1), offers(7, 7), offers(0, 1), offers(1, 0)),
        "trait": (custom.subject, custom.before, custom.after),
    }


@pytest.mark.parametrize("kind", registry.CHANGE_TYPES)
def test_a_change_of_any_kind_that_an_earlier_run_made_is_read_again(
    tmp_path: pathlib.Path, kind: str
) -> None:
    client, path = embedded.Client(embedded.hosts(2)), tmp_path / "plan"
    neutron = fake_neutron.FakeNeutron(fake_neutron.port("a port", "a new consumer"))
    subject, before, after, *others = _states(client)[kind]

    def put(was: Any, becomes: Any) -> None:
        items = [change.Change(kind, subject, was, becomes)]
        options = apply.Options(neutron=neutron, journal=journal.MemoryJournal())
        report = plans.apply_new(client, plan.ObservedPlan(plan.make(items)), "", options)
        assert statuses(report) == {"applied": 1}, report

    def apply_again() -> tuple[str, str, bool]:
        writes = client.writes + neutron.writes
        options = apply.Options(neutron=neutron)
        report = plans.apply_file(client, plan_file.read(path), path, options)
        (item,) = report.results
        return str(item.status), str(item.code), client.writes + neutron.writes > writes

    made = plan.ObservedPlan(plan.make([change.Change(kind, subject, before, after)]))
    plan_file.write(path, made.stamped(client, "a test").plan)
    assert apply_again() == ("applied", "", True)
    assert apply_again() == ("applied", "earlier-run", False)
    if kind == "trait":
        client.delete_trait("CUSTOM_NEW")
    else:
        put(after, before)
    assert apply_again() == ("applied", "", True)
    assert apply_again() == ("applied", "earlier-run", False)
    for other in others:
        put(after, other)
        assert apply_again() == ("stale", "changed-concurrently", False), other
        put(other, after)


def test_applying_a_finished_plan_again_only_reads_each_change(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(3))
    path = tmp_path / "plan"
    amend(client, "VCPU:total+=1", plan_out=path)
    client.sent.clear()
    report = plans.apply_file(client, plan_file.read(path), path, apply.Options())
    assert statuses(report) == {"applied": 3}
    assert (len(client.sent), client.writes) == (3, 0)


def test_the_report_has_the_achieved_change_of_capacity_and_the_planned_one(
    tmp_path: pathlib.Path,
) -> None:
    client = embedded.Client(embedded.hosts(3))
    path = tmp_path / "plan"
    planned = amend(client, "VCPU:allocation_ratio=20", dry_run=True, plan_out=path)
    assert (planned.effects, planned.planned_effects) == (("VCPU capacity 1536 -> 1920",), ())
    client.stored("host-001").set_inventory("VCPU", allocation_ratio=2.0)
    stale = plans.apply_file(client, plan_file.read(path), path, apply.Options())
    assert stale.effects == ("VCPU capacity 1536 -> 1792",)
    assert stale.planned_effects == ("VCPU capacity 1536 -> 1920",)


def test_the_report_of_a_limited_run_counts_earlier_runs_of_the_plan() -> None:
    client = embedded.Client(embedded.hosts(3))
    first = amend(client, "VCPU:total+=8", max_count=1)
    assert first.effects == ("VCPU capacity 1536 -> 1664",)
    assert first.plan_path is not None
    stored = plan_file.read(first.plan_path)
    again = plans.apply_file(client, stored, first.plan_path, apply.Options())
    assert (again.effects, again.planned_effects) == (("VCPU capacity 1536 -> 1920",), ())


def test_providers_over_capacity_count_only_where_the_change_was_made() -> None:
    client = embedded.Client(
        [embedded.Host(f"host-{number}", used={"VCPU": 100}) for number in range(3)]
    )
    report = amend(client, "VCPU:allocation_ratio=2", allow=["over-capacity"], max_count=1)
    assert report.effects == ("VCPU capacity 1536 -> 1088, over capacity on 1 of them",)
    assert report.planned_effects == ("VCPU capacity 1536 -> 192, over capacity on 3 of them",)


def test_undo_restores_exactly_what_was_applied(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(10))
    client.stored("host-009").set_inventory("VCPU", allocation_ratio=20.0)
    path = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio=20", plan_out=path, max_count=5)
    client.stored("host-001").set_inventory("VCPU", allocation_ratio=2.0)
    report = plans.undo_file(client, plan_file.read(path), path, apply.Options())
    assert statuses(report) == {"applied": 4, "stale": 1, "skipped": 4}
    assert ratios(client) == {16.0, 2.0, 20.0}
    assert report.exit_code() == 7


def test_the_undo_file_holds_what_was_applied_and_nothing_else(state_home: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(5))
    report = amend(client, "VCPU:allocation_ratio=20", max_count=2)
    assert report.undo_path is not None
    assert report.undo_path.parent == state_home
    assert report.undo_path.stat().st_mode & 0o777 == 0o600
    stored = plan_file.read(report.undo_path)
    assert [item.subject.name for item in stored.changes] == ["host-000", "host-001"]
    plans.apply_file(client, stored, report.undo_path, apply.Options())
    assert ratios(client) == {16.0}


def test_a_run_without_changes_leaves_no_plan_file(state_home: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(2))
    client.before_write(embedded.refuse(409, "no"))
    report = amend(client, "VCPU:allocation_ratio=20")
    assert statuses(report) == {"failed": 2}
    client.before_write(embedded.nothing)
    for item in client.all_stored():
        item.set_inventory("VCPU", allocation_ratio=21.0)
    amend(client, "VCPU:allocation_ratio=21")
    assert not list(state_home.glob("*.plan.json"))


def test_an_unwritable_state_directory_stops_the_run_before_the_first_write(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    client = embedded.Client(embedded.hosts(2))
    with pytest.raises(errors.PlacementError, match="XDG_STATE_HOME"):
        amend(client, "VCPU:allocation_ratio=20")
    assert client.writes == 0


@pytest.mark.seeds(15, long=400)
def test_a_run_continues_after_a_kill_at_any_moment(seed: int, tmp_path: pathlib.Path) -> None:
    """Apply and undo, two times each, are killed repeatedly; no change is written twice."""
    randomness = random.Random(seed)
    client = embedded.Client(embedded.hosts(6))
    path = tmp_path / "plan"
    amend(client, "VCPU:allocation_ratio+=4", dry_run=True, plan_out=path)
    stored = plan_file.read(path)

    def fail_sometimes(request: embedded.Request) -> scripted.Reply | None:
        if randomness.random() < 0.2:
            embedded.kill(request)
        return embedded.lose(request) if randomness.random() < 0.2 else None

    client.before_write(fail_sometimes)
    client.after_write(fail_sometimes)
    for step, expected in [(plans.apply_file, 20.0), (plans.undo_file, 16.0)] * 2:
        for _ in range(100):
            try:
                report = step(client, stored, path, apply.Options())
            except embedded.Killed:
                continue
            assert statuses(report) == {"applied": 6}
            break
        assert ratios(client) == {expected}
    assert {item.generation for item in client.all_stored()} == {embedded.GENERATION + 4}
