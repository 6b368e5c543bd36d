"""Cells of the output in the formats of cliff."""

from __future__ import annotations

import json

import pytest

from osc_placement.v1.output import cells, rows

TRAITS = rows.Lines(["HW_A", "HW_B"])


@pytest.mark.parametrize("formatter", ["csv", "value"])
def test_structures_are_json_in_csv_and_value(formatter: str) -> None:
    row = cells.format_row(formatter, (TRAITS, {"VCPU": 1}, [1], 4, None, True))
    assert [json.loads(str(cell)) for cell in row[:3]] == [["HW_A", "HW_B"], {"VCPU": 1}, [1]]
    assert row[3:] == (4, None, "true")


def test_json_gets_the_values() -> None:
    row = (TRAITS, {"VCPU": 1}, "a\x1b[31m")
    assert cells.format_row("json", row) == row


def test_json_and_yaml_get_a_text_of_a_subclass_as_plain_text() -> None:
    class Named(str):
        __slots__ = ()

    assert [type(cell) for cell in cells.format_row("yaml", (Named("a"), "b"))] == [str, str]


@pytest.mark.parametrize("formatter", ["table", "value"])
def test_control_characters_are_escaped(formatter: str) -> None:
    (text,) = cells.format_row(formatter, ("a\x1b[31m\nb",))
    assert text == "a\\x1b[31m\\nb"


def test_a_table_keeps_the_lines_of_a_structure() -> None:
    (text,) = cells.format_row("table", (TRAITS,))
    assert text == "HW_A\nHW_B"
    (text,) = cells.format_row("table", (rows.Usages({"VGPU": {"used": 1, "capacity": 8}}),))
    assert text == "VGPU=1/8"


def test_letters_of_other_scripts_are_kept() -> None:
    assert cells.printable("├─ Überhost") == "├─ Überhost"
