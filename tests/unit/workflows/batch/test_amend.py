# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import dataclasses
import decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st

from osc_placement import errors
from osc_placement.model import inventory as model, provider
from osc_placement.plan import change, guards, plan
from osc_placement.plan.kinds import inventories
from osc_placement.plan.kinds.inventories import InventoryState
from osc_placement.workflows.batch import amend
from tests.support import plans

VCPU = model.Inventory(total=32, max_unit=32, allocation_ratio=16.0)
DISK = model.Inventory(total=1000, reserved=10)


def observed(
    name: str = "host",
    inventories: model.Inventories | None = None,
    usages: dict[str, int] | None = None,
) -> amend.Offered:
    return amend.Offered(
        provider.Provider(f"uuid-{name}", name, 7),
        7,
        {"VCPU": VCPU, "DISK_GB": DISK} if inventories is None else inventories,
        usages,
    )


def request(*texts: str, **fields: Any) -> amend.AmendRequest:
    return amend.AmendRequest(amend.parse(texts), **fields)


def decided(item: amend.Offered, *texts: str, **fields: Any) -> change.Change | change.Skipped:
    return amend.decide(item, request(*texts, **fields))


def test_a_change_has_only_fields_that_differ() -> None:
    planned_change = decided(
        observed(usages={"VCPU": 60}),
        "VCPU:allocation_ratio=4",
        "VCPU:reserved=0",
        "DISK_GB:total=2000",
    )
    assert planned_change == change.Change(
        "inventories",
        change.Subject("host", "uuid-host"),
        InventoryState({"VCPU": {"allocation_ratio": 16.0}, "DISK_GB": {"total": 1000}}),
        InventoryState({"VCPU": {"allocation_ratio": 4.0}, "DISK_GB": {"total": 2000}}),
        generation=7,
        reason="VCPU capacity 512 -> 128, 60 used; DISK_GB capacity 990 -> 1990, 0 used;"
        " nova-compute writes DISK_GB:total back",
        capacity={"VCPU": -384, "DISK_GB": 1000},
    )


def test_an_equal_value_is_unchanged() -> None:
    planned_change = decided(observed(), "VCPU:allocation_ratio=16", "VCPU:total=32")
    assert isinstance(planned_change, change.Skipped)
    assert planned_change.unchanged
    assert (
        plans.before(planned_change)
        == plans.after(planned_change)
        == {"VCPU:allocation_ratio": 16.0, "VCPU:total": 32}
    )


def test_a_ratio_rounded_by_the_database_is_equal() -> None:
    stored = observed(inventories={"VCPU": dataclasses.replace(VCPU, allocation_ratio=1.23457)})
    assert isinstance(decided(stored, "VCPU:allocation_ratio=1.234567"), change.Skipped)


@pytest.mark.parametrize(
    ("texts", "usages", "guard", "message"),
    [
        (["VCPU:allocation_ratio=1"], {"VCPU": 33}, "over-capacity", "33 used, capacity 512 -> 32"),
        (["VCPU:reserved=31"], {"VCPU": 17}, "over-capacity", "17 used, capacity 512 -> 16"),
        (["DISK_GB:total=9"], {}, "reserved-above-total", "reserved 10 above total 9"),
        (
            ["VCPU:reserved=32"],
            {},
            "nothing-left",
            "no capacity: 32 of 32 reserved",
        ),
        (["DISK_GB:total=10"], {}, "nothing-left", "no capacity: 10 of 10 reserved"),
    ],
)
def test_a_guard_skips_the_provider_unless_it_is_disabled(
    texts: list[str], usages: dict[str, int], guard: str, message: str
) -> None:
    item = observed(usages=usages)
    refused = decided(item, *texts)
    assert isinstance(refused, change.Skipped)
    assert refused.refused
    assert message in refused.reason
    assert f"--allow {guard}" in refused.reason
    assert isinstance(decided(item, *texts, allow=frozenset({guard})), change.Change)


def test_a_provider_over_capacity_can_get_more_capacity() -> None:
    item = observed(
        inventories={"VCPU": dataclasses.replace(VCPU, allocation_ratio=1.0)}, usages={"VCPU": 100}
    )
    assert isinstance(decided(item, "VCPU:allocation_ratio=2"), change.Change)


def test_a_disabled_guard_still_reports_over_capacity() -> None:
    planned_change = decided(
        observed(usages={"VCPU": 40}),
        "VCPU:allocation_ratio=1",
        allow=frozenset({guards.OVER_CAPACITY}),
    )
    assert planned_change.reason == "VCPU capacity 512 -> 32, 40 used: over capacity"


def test_a_missing_class_is_skipped_and_other_classes_are_changed() -> None:
    planned_change = decided(observed(), "CUSTOM_GPU:total=4", "VCPU:allocation_ratio=20")
    assert isinstance(planned_change, change.Change)
    assert plans.after(planned_change) == {"VCPU:allocation_ratio": 20.0}
    assert "it has no CUSTOM_GPU (--create adds it)" in planned_change.reason


def test_a_provider_without_any_class_is_skipped() -> None:
    planned = amend.plan_inventory([observed(), observed("other", {})], request("VCPU:total=64"))
    assert [item.subject.name for item in planned.changes] == ["host"]
    assert [(item.subject.name, item.refused) for item in planned.skipped] == [("other", False)]


def test_a_class_that_no_provider_has_is_refused() -> None:
    planned = amend.plan_inventory([observed()], request("CUSTOM_GPU:total=1"))
    assert [item.refused for item in planned.skipped] == [True]


def test_create_adds_a_complete_inventory() -> None:
    planned_change = decided(observed(), "CUSTOM_GPU:total=4", "CUSTOM_GPU:max_unit=2", create=True)
    assert plans.before(planned_change) == dict.fromkeys(plans.after(planned_change))
    assert inventories.amended({}, planned_change.after) == {
        "CUSTOM_GPU": model.Inventory(total=4, max_unit=2)
    }


def test_create_needs_a_total() -> None:
    planned_change = decided(observed(), "CUSTOM_GPU:max_unit=2", create=True)
    assert isinstance(planned_change, change.Skipped)
    assert planned_change.refused
    assert planned_change.reason == "CUSTOM_GPU cannot be added without a total"


def test_an_amount_out_of_range_skips_that_provider() -> None:
    planned = amend.plan_inventory(
        [observed("small", {"VCPU": model.Inventory(total=4)}), observed("tall")],
        request("VCPU:total-=8", allow=frozenset({"over-capacity"})),
    )
    assert [item.subject.name for item in planned.changes] == ["tall"]
    assert [(item.subject.name, item.refused) for item in planned.skipped] == [("small", True)]


def test_a_target_removes_other_classes_without_a_guard() -> None:
    target = {"VCPU": model.Inventory(total=32, max_unit=32)}
    (planned_change,) = amend.plan_targets([observed()], lambda _: target, exactly=True).changes
    assert inventories.amended({"VCPU": VCPU, "DISK_GB": DISK}, planned_change.after) == target
    late = {"VCPU": dataclasses.replace(VCPU, step_size=2), "DISK_GB": DISK}
    assert inventories.amended(late, planned_change.after) == target


def test_a_reached_target_is_unchanged() -> None:
    made = amend.plan_targets([observed()], lambda offers: offers, exactly=False)
    assert [item.unchanged for item in made.skipped] == [True]


def test_an_invalid_target_skips_that_provider() -> None:
    def none(_: model.Inventories) -> model.Inventories:
        raise errors.InvalidInput(["it needs a total"])

    made = amend.plan_targets([observed()], none, exactly=True)
    assert [(item.reason, item.refused) for item in made.skipped] == [("it needs a total", True)]


def test_usages_are_needed_only_where_capacity_shrinks() -> None:
    for texts, needed in [
        (["VCPU:allocation_ratio=17"], False),
        (["VCPU:allocation_ratio=15"], True),
        (["VCPU:max_unit=1"], False),
        (["VCPU:reserved+=1"], True),
        (["CUSTOM_GPU:total=1"], False),
    ]:
        after = amend.amended(observed(), request(*texts))
        assert amend.needs_usages(observed(), after) is needed


def test_an_invalid_request_needs_no_usages() -> None:
    wanted = request("CUSTOM_GPU:total*=2", create=True)
    after = amend.amended(observed(), wanted)
    assert not amend.needs_usages(observed(), after)
    assert decided(observed(), "CUSTOM_GPU:total*=2", create=True).refused


def test_a_plan_sums_capacity_and_notes_fields_that_nova_overwrites() -> None:
    made = amend.plan_inventory(
        [observed("b", usages={}), observed("a", usages={"VCPU": 999}), observed("c", {})],
        request("VCPU:allocation_ratio=8"),
    )
    assert [item.subject.name for item in made.changes] == ["b"]
    assert made.capacities == {"VCPU": plan.CapacityChange(1024, 768)}
    assert "cpu_allocation_ratio" in made.notes[0]


AMOUNTS = st.integers(1, 10_000)
INVENTORIES = st.dictionaries(
    st.sampled_from(["VCPU", "DISK_GB", "CUSTOM_GPU"]),
    st.builds(
        model.Inventory,
        total=AMOUNTS,
        reserved=st.integers(0, 100),
        allocation_ratio=st.floats(0.1, 100).map(lambda ratio: round(ratio, 3)),
    ),
)
ABSOLUTE = st.sampled_from(
    ["VCPU:allocation_ratio=4", "VCPU:total=64", "DISK_GB:reserved=7", "CUSTOM_GPU:max_unit=2"]
)
RELATIVE = st.sampled_from(
    ["VCPU:allocation_ratio*=0.9", "VCPU:total+=2", "DISK_GB:reserved-=1", "CUSTOM_GPU:total*=1.5"]
)


@given(INVENTORIES, st.sets(ABSOLUTE, min_size=1))
def test_planning_after_applying_is_empty(found: model.Inventories, texts: set[str]) -> None:
    wanted = request(*sorted(texts), create=True, allow=frozenset({"over-capacity"}))
    first = amend.plan_inventory([observed(inventories=found)], wanted)
    for item in first.changes:
        after = inventories.amended(found, item.after)
        assert not amend.plan_inventory([observed(inventories=after)], wanted).changes


@given(INVENTORIES, st.sets(RELATIVE, min_size=1))
def test_applying_a_relative_plan_twice_equals_once(
    found: model.Inventories, texts: set[str]
) -> None:
    wanted = request(*sorted(texts), allow=frozenset({"over-capacity"}))
    for item in amend.plan_inventory([observed(inventories=found)], wanted).changes:
        once = inventories.amended(found, item.after)
        assert inventories.amended(once, item.after) == once
        assert inventories.amended(once, item.before) == found


@pytest.mark.parametrize("texts", [["VCPU:min_unit=9", "VCPU:max_unit=8"], ["VCPU:min_unit=99"]])
def test_min_unit_above_max_unit_is_refused(texts: list[str]) -> None:
    planned_change = decided(observed(), *texts)
    assert isinstance(planned_change, change.Skipped)
    assert planned_change.refused
    assert "above max_unit" in planned_change.reason


def one(text: str) -> amend.Assignment:
    return amend.parse([text])[0]


@pytest.mark.parametrize(
    ("text", "current", "value"),
    [
        ("VCPU:allocation_ratio=4", 16.0, 4.0),
        ("VCPU:allocation_ratio=4", None, 4.0),
        ("VCPU:total+=2", 32, 34),
        ("VCPU:total-=2", 32, 30),
        ("VCPU:reserved=0", 4, 0),
        ("VCPU:allocation_ratio*=0.9", 16.0, 14.4),
        ("VCPU:allocation_ratio+=0.1", 0.2, 0.3),
        ("CUSTOM_GPU_2:total=1e3", None, 1000),
        ("MEMORY_MB:total*=.5", 4096, 2048),
    ],
)
def test_an_expression_sets_a_field(text: str, current: float | None, value: float) -> None:
    assert one(text).apply(current) == (value, "")


@pytest.mark.parametrize(
    ("text", "current", "value", "note"),
    [
        ("VCPU:total*=0.9", 32, 28, "VCPU:total rounded down from 28.8"),
        ("VCPU:reserved+=1.5", 0, 1, "VCPU:reserved rounded down from 1.5"),
        ("MEMORY_MB:total*=0.29", 100, 29, ""),
    ],
)
def test_integer_fields_are_rounded_down_with_a_note(
    text: str, current: int, value: int, note: str
) -> None:
    assert one(text).apply(current) == (value, note)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VCPU", "the syntax is"),
        ("", "the syntax is"),
        ("VCPU=4", "the syntax is"),
        ("VCPU:total", "the syntax is"),
        ("VCPU:total/=2", "unknown field"),
        ("VCPU:bogus=4", "unknown field 'bogus'"),
        ("vcpu:total=4", "not a resource class"),
        ("VCPU:total=four", "'four' is not a number"),
        ("VCPU:total=", "'' is not a number"),
        ("VCPU:total=nan", "not a number"),
        ("VCPU:total=inf", "not a number"),
        ("VCPU:total=1e9999", "not a number"),
        ("VCPU:total=1e400", "out of range"),
        ("VCPU:total=0", "out of range"),
        ("VCPU:total=-1", "out of range"),
        ("VCPU:reserved=2147483648", "out of range"),
        ("VCPU:allocation_ratio=0", "above 0"),
        ("VCPU:allocation_ratio=-1", "above 0"),
        ("VCPU:total*=-1", "must not be negative"),
    ],
)
def test_a_malformed_expression_is_an_error_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(errors.InvalidInput, match=message):
        amend.parse([text])


def test_all_errors_of_all_expressions_are_reported() -> None:
    with pytest.raises(errors.InvalidInput) as caught:
        amend.parse(["vcpu:bogus=four", "VCPU:total=4", "VCPU:total=5", "what", "DISK_GB:total=0"])
    assert len(caught.value.reasons) == 6


def test_no_expression_is_an_error() -> None:
    with pytest.raises(errors.InvalidInput, match="nothing to change"):
        amend.parse([])


def test_a_relative_value_needs_an_existing_value() -> None:
    with pytest.raises(errors.InvalidInput, match="needs an existing value"):
        one("VCPU:total+=1").apply(None)


def test_classes_are_also_found_in_invalid_expressions() -> None:
    texts = ["CUSTOM_X:bogus=1", "VCPU:total=no", "nothing", "lower:total=1"]
    assert amend.resource_classes(texts) == ("CUSTOM_X", "VCPU")


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_an_input_error(text: str) -> None:
    with contextlib.suppress(errors.InvalidInput):
        assert amend.parse([text])


@given(st.integers(1, 2**31 - 1), st.decimals("0.01", "0.99", places=2))
def test_shrinking_a_total_never_makes_it_larger(total: int, factor: decimal.Decimal) -> None:
    try:
        value, _ = one(f"VCPU:total*={factor}").apply(total)
    except errors.InvalidInput:
        assert int(total * factor) == 0
    else:
        assert value <= total


@pytest.mark.parametrize("text", ["VCPU:total=1.5", "VCPU:reserved=0.1", "VCPU:step_size=15e-1"])
def test_a_fraction_of_an_amount_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidInput, match="must be an integer"):
        amend.parse([text])
    assert amend.parse(["VCPU:total=1.50e2"])[0].apply(None) == (150, "")


def test_a_device_can_be_reserved_wholly() -> None:
    item = observed(inventories={"VGPU": dataclasses.replace(VCPU, total=1, allocation_ratio=1.0)})
    assert isinstance(decided(item, "VGPU:reserved=1"), change.Change)
