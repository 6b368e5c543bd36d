"""Tables of limited width: nothing is divided, and columns are dropped in one order."""

from __future__ import annotations

import re
from typing import Any

import pytest

from osc_placement.v1.output import layout

UUID = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
PROVIDER_COLUMNS = (
    "uuid",
    "name",
    "generation",
    "root_provider_uuid",
    "parent_provider_uuid",
)
PROVIDERS = [(UUID, "rack1-node7", 12, UUID, UUID)]
INVENTORY_COLUMNS = (
    "resource_class",
    "allocation_ratio",
    "min_unit",
    "max_unit",
    "reserved",
    "step_size",
    "total",
    "used",
)


def width_of(found: layout.Layout) -> int:
    widths = [
        max(len(line) for cell in (name, *cells) for line in str(cell).split("\n"))
        for name, *cells in zip(found.columns, *found.rows, strict=True)
    ]
    return 1 + sum(width + 3 for width in widths)


def test_a_table_that_fits_is_unchanged() -> None:
    found = layout.fit(PROVIDER_COLUMNS, PROVIDERS, 200)
    assert (found.columns, found.rows, found.dropped) == (PROVIDER_COLUMNS, PROVIDERS, ())
    assert layout.fit(PROVIDER_COLUMNS, PROVIDERS, None).rows == PROVIDERS


def test_uuids_and_generations_are_dropped_first() -> None:
    assert layout.fit(PROVIDER_COLUMNS[:3], PROVIDERS, 60).dropped == ["uuid"]
    assert layout.fit(PROVIDER_COLUMNS[:3], PROVIDERS, 15).dropped == ["uuid", "generation"]
    found = layout.fit(PROVIDER_COLUMNS, PROVIDERS, 80)
    assert found.columns == ["uuid", "name", "generation"]
    assert found.dropped == ["root_provider_uuid", "parent_provider_uuid"]
    assert width_of(found) <= 80
    assert width_of(layout.fit(PROVIDER_COLUMNS, PROVIDERS, found.width)) == found.width


def test_uuids_without_names_stay() -> None:
    columns = ("resource_provider", "generation", "resources", "project_id")
    found = layout.fit(columns, [(UUID, 1, "VCPU=1", UUID)], 80)
    assert found.dropped == ["generation", "project_id"]
    named = layout.fit((*columns, "provider_name"), [(UUID, 1, "VCPU=1", UUID, "cmp-1")], 90)
    assert named.dropped == ["resource_provider"]


def test_numbers_stay_whole_and_the_fields_of_a_class_are_dropped_in_order() -> None:
    row = ("MEMORY_MB", 1.5, 1, 131072, 512, 1, 131072, 65536)
    found = layout.fit(INVENTORY_COLUMNS, [row], 80)
    assert found.dropped == ["min_unit", "step_size"]
    assert found.rows == [("MEMORY_MB", 1.5, 131072, 512, 131072, 65536)]


def test_columns_without_values_are_dropped_before_all_others() -> None:
    columns = ("name", "before", "after", "status", "reason")
    facts = "VCPU:allocation_ratio=16.0"
    found = layout.fit(columns, [("rack1-node7", facts, facts, "planned", "")], 80)
    assert found.dropped == ["reason"]
    assert set(found.rows[0][1:3]) <= {facts, "VCPU:allocation_ratio=\n16.0"}


def test_text_folds_at_spaces_and_lists_at_commas() -> None:
    reason = f"the provider {UUID} changed concurrently, with VCPU total 64"
    found = layout.fit(("name", "reason"), [("cmp-0001", reason)], 60)
    (_, folded), *_ = found.rows
    assert folded.replace("\n", " ") == reason
    assert width_of(found) <= 60
    (cell,) = layout.fit(("traits",), [("HW_CPU_A,HW_CPU_B,HW_CPU_C",)], 24).rows[0]
    assert cell == "HW_CPU_A,HW_CPU_B,\nHW_CPU_C"


def test_a_name_never_folds_and_the_table_may_be_too_wide() -> None:
    name = "cmp-0001:Open vSwitch agent:br-physnet0"
    found = layout.fit(("name", "reason"), [(name, "no room")], 30)
    assert found.rows == [(name, "no\nroom")]


def test_without_the_right_to_drop_all_columns_stay() -> None:
    found = layout.fit(PROVIDER_COLUMNS, PROVIDERS, 80, may_drop=False)
    assert (found.columns, found.rows) == (list(PROVIDER_COLUMNS), PROVIDERS)


def test_characters_of_two_columns_count_twice() -> None:
    assert layout.fit(("name",), [("主機",)], None).width == len("| name |")
    assert layout.fit(("name",), [("主機主機",)], None).width == len("| 12345678 |")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120])
def test_no_width_divides_a_word(width: int) -> None:
    row: tuple[Any, ...] = (
        UUID,
        "rack1-node7",
        131072,
        f"VCPU=1,MEMORY_MB=131072\n{UUID}=10,000",
        "changed concurrently (VCPU total 64 -> 48); run the command again",
    )
    found = layout.fit(("uuid", "name", "generation", "after", "reason"), [row], width)
    words = {word for cell in row for word in re.split(r"[\s,=;]+", str(cell))} | {"10", "000"}
    for cell in found.rows[0]:
        assert {word for word in re.split(r"[\s,=;]+", str(cell)) if word} <= words
