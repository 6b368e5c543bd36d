# SPDX-License-Identifier: Apache-2.0
"""Changes of many consumers in one request, on the reference server."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from osc_placement import errors
from osc_placement.model import allocation, inventory
from osc_placement.plan import apply, change, executor, file, plan, result
from osc_placement.plan.change import Precondition
from osc_placement.plan.kinds import allocations
from tests.support import embedded, plans
from tests.support.batch_runs import run, statuses

HOST, OTHER = embedded.uuid_of("cmp-1"), embedded.uuid_of("cmp-2")


@pytest.fixture
def client() -> embedded.Client:
    inventories = {"VCPU": inventory.Inventory(total=100)}
    return embedded.Client(
        embedded.Host(name, inventories=inventories) for name in ("cmp-1", "cmp-2")
    )


def uuid_of(number: int) -> str:
    return embedded.uuid_of(f"vm-{number}")


def one(number: int, amount: int = 1, **fields: Any) -> allocation.Consumer:
    owner = {"project_id": "acme", "user_id": "alice", "consumer_type": "INSTANCE"}
    return allocation.Consumer(uuid_of(number), {HOST: {"VCPU": amount}}, **{**owner, **fields})


def none(number: int) -> allocation.Consumer:
    return allocation.Consumer(uuid_of(number), {})


def creation(consumers: Sequence[allocation.Consumer], **fields: Any) -> plan.ObservedPlan:
    """The plan that creates consumers."""
    return plan.ObservedPlan(
        plan.make(
            allocations.planned(f"vm-{number}", allocation.Consumer(item.uuid, {}), item, **fields)
            for number, item in enumerate(consumers)
        )
    )


def used(client: embedded.Client) -> int:
    return client.list_usages(HOST)["VCPU"]


def test_many_new_consumers_need_one_request_and_no_read(client: embedded.Client) -> None:
    report = run(client, creation([one(number) for number in range(32)]))
    assert statuses(report) == {"applied": 32}
    assert client.count() == {"POST /allocations": 1}
    assert client.show_allocations(uuid_of(3)) == one(3, generation=1)


def test_a_bad_change_delays_the_others_and_does_not_block_them(client: embedded.Client) -> None:
    report = run(client, creation([one(number, 90 if number == 5 else 1) for number in range(16)]))
    assert statuses(report) == {"applied": 15, "failed": 1}
    (failed,) = (item for item in report.results if item.status is result.Status.FAILED)
    assert failed.subject.name == "vm-5"
    assert report.exit_code() == 6
    # 16 refused, 8 refused, 4 refused, 2 refused: the other halves went through whole.
    assert client.count()["POST /allocations"] == 7
    assert client.count()["PUT /allocations/{}"] == 2


def test_a_concurrently_created_consumer_is_stale(client: embedded.Client) -> None:
    client.write_allocations([one(2, 7)])
    report = run(client, creation([one(number) for number in range(4)]))
    assert statuses(report) == {"applied": 3, "stale": 1}
    assert client.show_allocations(uuid_of(2)).allocations == {HOST: {"VCPU": 7}}


def test_a_lost_response_is_resolved_by_reads_and_nothing_is_written_twice(
    client: embedded.Client,
) -> None:
    client.after_write(embedded.cut)
    report = run(client, creation([one(number) for number in range(4)]))
    assert statuses(report) == {"applied": 4}
    assert client.count() == {"POST /allocations": 1, "GET /allocations/{}": 4}


def test_a_missing_permission_ends_the_run(client: embedded.Client) -> None:
    client.before_write(embedded.refuse(403, "no"))
    report = run(client, creation([one(number) for number in range(40)]), workers=1)
    assert statuses(report) == {"failed": 1, "planned": 39}
    assert len(client.sent) < 5


def test_max_count_is_exact_with_bulk_writes(client: embedded.Client) -> None:
    report = run(client, creation([one(number) for number in range(50)]), max_count=41)
    assert statuses(report) == {"applied": 41, "planned": 9}
    assert used(client) == 41


def test_all_of_a_consumer_is_written_and_restored(client: embedded.Client) -> None:
    client.write_allocations([one(1, project_id="other")])
    before = client.show_allocations(uuid_of(1))
    after = dataclasses.replace(
        before, allocations={HOST: {"VCPU": 1}, OTHER: {"VCPU": 2}}, project_id="acme"
    )
    planned = plan.make([allocations.planned("vm-1", before, after)])
    before_of = {planned.changes[0].key: allocations.observed(before)}
    report = run(client, plan.ObservedPlan(planned, before_of))
    assert client.show_allocations(uuid_of(1)) == dataclasses.replace(after, generation=2)
    taken = file.read(report.undo_path)  # type: ignore[arg-type]
    plans.undo_file(client, taken, report.undo_path, apply.Options())  # type: ignore[arg-type]
    assert client.show_allocations(uuid_of(1)) == dataclasses.replace(before, generation=3)


def test_undo_restores_removed_consumers_with_owner_and_type(client: embedded.Client) -> None:
    client.write_allocations([one(1), one(2)])
    unknown = client.at(client.microversion._replace(minor=37))
    unknown.write_allocations([one(3, consumer_type=None)])
    before = [client.show_allocations(uuid_of(number)) for number in (1, 2, 3)]
    removing = plan.make(
        allocations.planned("vm", item, dataclasses.replace(none(0), uuid=item.uuid))
        for item in before
    )
    report = run(client, plan.ObservedPlan(removing))
    assert used(client) == 0
    taken = file.read(report.undo_path)  # type: ignore[arg-type]
    plans.undo_file(client, taken, report.undo_path, apply.Options())  # type: ignore[arg-type]
    assert [client.show_allocations(item.uuid) for item in before] == before


def test_setting_a_consumer_type_is_irreversible(client: embedded.Client) -> None:
    client.at(client.microversion._replace(minor=37)).write_allocations([one(1)])
    before = client.show_allocations(uuid_of(1))
    made = plan.make(
        [allocations.planned("vm-1", before, dataclasses.replace(before, consumer_type="INSTANCE"))]
    )
    report = run(client, plan.ObservedPlan(made))
    assert client.show_allocations(uuid_of(1)).consumer_type == "INSTANCE"
    assert report.undo_path is None
    (skipped,) = apply.inverse_of(made).skipped
    assert allocations.TYPE_STAYS in skipped.reason


def test_preconditions_are_checked_just_before_the_write(
    client: embedded.Client, tmp_path: pathlib.Path
) -> None:
    planned = creation([one(number) for number in range(4)], precondition=Precondition())

    def broken(item: change.Change) -> str:
        return "it has moved" if item.subject.name == "vm-2" else ""

    report = run(client, planned, check_precondition=broken, plan_out=tmp_path / "plan.json")
    assert statuses(report) == {"applied": 3, "skipped": 1}
    with pytest.raises(plan.PlanRefused, match="nova is not available"):
        plans.apply_file(
            client, file.read(tmp_path / "plan.json"), tmp_path / "plan.json", apply.Options()
        )
    again = plans.apply_file(
        client,
        file.read(tmp_path / "plan.json"),
        tmp_path / "plan.json",
        apply.Options(check_precondition=broken),
    )
    assert statuses(again) == {"applied": 3, "stale": 1}
    assert again.exit_code() == 7


def test_a_plan_continues_after_a_kill_during_a_bulk_write(
    client: embedded.Client, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "plan.json"
    planned = creation([one(number) for number in range(80)])
    run(client, planned, dry_run=True, plan_out=path)
    client.after_write(embedded.kill)
    with pytest.raises(embedded.Killed):
        plans.apply_file(
            client, file.read(path), path, apply.Options(limits=executor.RunLimits(workers=1))
        )
    client.after(embedded.nothing)
    assert used(client) == 64
    report = plans.apply_file(client, file.read(path), path, apply.Options())
    assert statuses(report) == {"applied": 80}
    assert used(client) == 80


@pytest.mark.parametrize("count", [1, 3])
def test_a_missing_feature_fails_every_change(client: embedded.Client, count: int) -> None:
    old = client.at(client.microversion._replace(minor=37))
    report = run(old, creation([one(number) for number in range(count)]))
    assert statuses(report) == {"failed": count}
    assert "consumer type" in report.results[0].reason
    assert client.sent == []


def test_a_precondition_that_cannot_be_checked_ends_the_run_and_loses_no_result(
    client: embedded.Client,
) -> None:
    def broken(item: change.Change) -> str:
        raise errors.PlacementError("nova's answer makes no sense")

    planned = creation([one(number) for number in range(3)], precondition=Precondition())
    report = run(client, planned, check_precondition=broken)
    assert statuses(report) == {"failed": 1, "planned": 2}
    assert report.halted == "nova's answer makes no sense"
    assert client.sent == []
