# SPDX-License-Identifier: Apache-2.0
"""A plan that removes too much of what exists is refused as a whole."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import pytest

from osc_placement.plan import apply, change, file, plan, removal_limit, result
from osc_placement.plan.kinds import allocations, inventories, memberships, provider, registry
from tests.support import embedded, plans

A, B = embedded.uuid_of("a"), embedded.uuid_of("b")


def clean_up(client: embedded.Client, count: int, **fields: Any) -> plan.ObservedPlan:
    """A plan that removes the aggregate of the first ``count`` hosts."""
    stored = client.all_stored()
    state = memberships.Aggregates
    changes = [
        change.Change(
            "aggregates",
            change.Subject(item.name, item.uuid),
            state({embedded.AGGREGATE: True}),
            state({embedded.AGGREGATE: False}),
            item.generation,
        )
        for item in stored[:count]
    ]
    existing = {memberships.AGGREGATES.unit: len(stored)}
    return plan.ObservedPlan(plan.make(changes, **{"existing": existing, **fields}))


@pytest.mark.parametrize(
    ("kind", "before", "after", "removed"),
    [
        ("allocations", {A: {"VCPU": 1}, B: {"DISK_GB": 1}}, {}, 2),
        ("allocations", {A: {"VCPU": 2}}, {A: {"VCPU": 1}}, 0),
        ("allocations", {A: {"VCPU": 1}}, {B: {"VCPU": 1}}, 0),
        ("aggregates", {A: True, B: False}, {A: False, B: True}, 0),
        ("aggregates", {A: True, B: True}, {A: False}, 1),
        ("traits", {"HW_A": True, "HW_B": True}, {"HW_A": False, "HW_B": False}, 2),
        ("inventories", {"VGPU": {"total": 1}, "VCPU": {"total": 2}}, {"VGPU": None}, 1),
        ("inventories", {"VGPU": None}, {"VGPU": {"total": 1}}, 0),
        ("trait", {"CUSTOM_A": True}, {"CUSTOM_A": False}, 1),
    ],
)
def test_a_kind_counts_what_a_change_removes(
    kind: str, before: Any, after: Any, removed: int
) -> None:
    state = {
        "allocations": allocations.ConsumerState,
        "aggregates": memberships.Aggregates,
        "traits": memberships.Traits,
        "trait": memberships.Existence,
        "inventories": inventories.InventoryState,
    }[kind]
    assert registry.CHANGE_TYPES[kind].removes(state(before), state(after)) == removed


def test_a_deleted_provider_is_a_removal_and_a_renamed_one_is_not() -> None:
    kind, present = registry.CHANGE_TYPES["provider"], provider.ProviderState("cn1", None)
    assert kind.removes(present, provider.ABSENT) == 1
    assert kind.removes(present, provider.ProviderState("cn2", None)) == 0
    assert kind.removes(provider.ABSENT, present) == 0


def test_the_summary_names_all_removals_and_the_limit_of_some() -> None:
    limited = clean_up(embedded.Client(embedded.hosts(50)), 21).plan
    assert removal_limit.summary(limited) == "21 of 50 aggregate memberships (limit 20, refused)"
    assert (
        removal_limit.summary(dataclasses.replace(limited, existing={}))
        == "21 aggregate memberships"
    )
    inverse = tuple(item.inverse() for item in limited.changes)
    assert removal_limit.summary(dataclasses.replace(limited, changes=inverse)) == ""


@pytest.mark.parametrize(
    ("existing", "max_percent", "limit"),
    [
        (0, None, 0),
        (1, None, 0),
        (12, None, 6),
        (40, None, 20),
        (100, None, 20),
        (4000, None, 400),
        (4000, 1, 40),
        (12, 0, 0),
        (12, 100, 12),
    ],
)
def test_the_default_limit_allows_a_few_removals_but_never_most_of_what_exists(
    existing: int, max_percent: int | None, limit: int
) -> None:
    assert removal_limit.limit(existing, max_percent) == limit


def test_a_plan_without_a_count_of_what_exists_is_not_limited() -> None:
    planned = clean_up(embedded.Client(embedded.hosts(3)), 3, existing={}).plan
    assert not removal_limit.refusal(planned)


def test_a_plan_that_removes_too_much_is_refused_before_the_first_request(
    state_home: pathlib.Path,
) -> None:
    client = embedded.Client(embedded.hosts(50))
    planned = clean_up(client, 21)
    client.sent.clear()
    report = plans.apply_new(client, planned)
    text = (
        "the plan removes 21 of 50 aggregate memberships, and the limit is 20"
        " (--allow many to do it anyway)"
    )
    assert {(item.status, item.code, item.reason) for item in report.results} == {
        (result.Status.REFUSED, "many", text)
    }
    assert (report.halted, report.exit_code(), report.undo_path) == (text, 6, None)
    assert not client.sent
    assert not state_home.exists()


def test_the_limit_is_kept_in_the_plan_file_and_undo_has_none(tmp_path: pathlib.Path) -> None:
    client = embedded.Client(embedded.hosts(50))
    path = tmp_path / "plan"
    planned = clean_up(client, 3).stamped(client, "a test", max_percent=5)
    apply.apply_plan(client, planned, apply.Options(dry_run=True, plan_out=path))
    stored = file.read(path)
    assert (stored.existing, stored.max_percent) == ({"aggregate memberships": 50}, 5)
    assert plans.apply_file(client, stored, path).count(result.Status.REFUSED) == 3
    allowed = apply.Options(allow=("many",))
    assert plans.apply_file(client, stored, path, allowed).count(result.Status.APPLIED) == 3
    # A plan that adds much has an undo that removes as much.
    added = dataclasses.replace(stored, changes=tuple(item.inverse() for item in stored.changes))
    assert not removal_limit.refusal(added)
    assert plans.undo_file(client, stored, path).count(result.Status.APPLIED) == 3


@pytest.mark.parametrize(
    ("before", "after", "max_percent", "reason"),
    [
        (200, 180, 10, ""),
        (200, 179, 10, "the plan removes 21 of 200 units of VCPU capacity, and the limit is 20"),
        (200, 400, 0, ""),
        (200, 200, 0, ""),
        # More reserved than there is: no capacity, and no more to remove.
        (200, -8, 99, "the plan removes 200 of 200 units of VCPU capacity, and the limit is 198"),
        (200, -8, 100, ""),
        (-8, -16, 0, ""),
        (0, 8, 0, ""),
    ],
)
def test_a_limit_of_capacity_compares_the_sum_before_and_after(
    before: int, after: int, max_percent: int, reason: str
) -> None:
    capacities = {"VCPU": plan.CapacityChange(before, after), "DISK_GB": plan.CapacityChange(5, 5)}
    planned = plan.make((), capacities=capacities, max_percent=max_percent)
    assert not removal_limit.refusal(planned)
    assert not removal_limit.summary(planned)
    limited = removal_limit.with_capacity(planned)
    expected = f"{reason} (--allow many to do it anyway)" if reason else ""
    assert removal_limit.refusal(limited).text == expected
    assert not removal_limit.refusal(limited, ["many"])


def test_each_class_has_its_own_limit_of_capacity() -> None:
    capacities = {"VCPU": plan.CapacityChange(1000, 500), "CUSTOM_X": plan.CapacityChange(4, 4)}
    limited = removal_limit.with_capacity(
        plan.make((), capacities=capacities, existing={"providers": 3})
    )
    assert dict(limited.existing) == {
        "providers": 3,
        "units of VCPU capacity": 1000,
        "units of CUSTOM_X capacity": 4,
    }
    assert removal_limit.removals(limited) == {"units of VCPU capacity": 500}
    assert (
        removal_limit.summary(limited) == "500 of 1000 units of VCPU capacity (limit 100, refused)"
    )
