# SPDX-License-Identifier: Apache-2.0
"""Cells in the formats of cliff, and the rows of a plan's results."""

from __future__ import annotations

import json

import pytest

from osc_placement.plan import change, result
from osc_placement.plan.kinds import allocations
from osc_placement.v1.output import rows

TRAITS = rows.lines(["HW_A", "HW_B"])


@pytest.mark.parametrize("formatter", ["csv", "value"])
def test_structures_are_json_in_csv_and_value(formatter: str) -> None:
    row = rows.format_row(formatter, (TRAITS, {"VCPU": 1}, [1], 4, None, True))
    assert [json.loads(str(cell)) for cell in row[:3]] == [["HW_A", "HW_B"], {"VCPU": 1}, [1]]
    assert row[3:] == (4, None, "true")


def test_json_gets_the_values() -> None:
    row = (TRAITS, {"VCPU": 1}, "a\x1b[31m")
    assert rows.format_row("json", row) == row


def test_json_and_yaml_get_a_text_of_a_subclass_as_plain_text() -> None:
    class Named(str):
        __slots__ = ()

    assert [type(cell) for cell in rows.format_row("yaml", (Named("a"), "b"))] == [str, str]


@pytest.mark.parametrize("formatter", ["table", "value"])
def test_control_characters_are_escaped(formatter: str) -> None:
    (text,) = rows.format_row(formatter, ("a\x1b[31m\nb",))
    assert text == "a\\x1b[31m\\nb"


def test_a_table_keeps_the_lines_of_a_structure() -> None:
    (text,) = rows.format_row("table", (TRAITS,))
    assert text == "HW_A\nHW_B"
    (text,) = rows.format_row("table", (rows.usages({"VGPU": {"used": 1, "capacity": 8}}),))
    assert text == "VGPU=1/8"


def test_letters_of_other_scripts_are_kept() -> None:
    assert rows.printable("├─ Überhost") == "├─ Überhost"


_STATE = allocations.ConsumerState({"p": {"VCPU": 2}})
_RESULTS = [
    result.ChangeResult("allocations", change.Subject(name, uuid), _STATE, _STATE, status)
    for name, uuid, status in (
        ("vm-1", "u1", result.Status.UNCHANGED),
        ("vm-2", "u2", result.Status.SKIPPED),
    )
]


def test_rows_can_be_read_more_than_once_and_are_not_kept() -> None:
    results = rows.ResultRows(_RESULTS, {"p": "cmp-1"})
    assert len(results) == 2
    assert [*results] == [*results]
    assert all(one is not other for one, other in zip(results, results, strict=True))
    name, uuid, before, _, status, *_ = next(iter(results))
    assert (name, uuid, status) == ("vm-1", "u1", "unchanged")
    assert before.machine_readable() == {"p:VCPU": 2}
    assert before.human_readable() == "cmp-1:VCPU=2"


def test_rows_contain_a_row_with_equal_cells() -> None:
    results = rows.ResultRows(_RESULTS, {})
    assert [*results][1] in results
    assert ("vm-3",) not in results
