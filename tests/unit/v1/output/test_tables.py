# SPDX-License-Identifier: Apache-2.0
"""Tables fit a width; cells in the formats of cliff; the first rows of long tables."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from cliff.formatters import table

from osc_placement.plan import change, result
from osc_placement.plan.kinds import allocations
from osc_placement.v1.output import rows, tables
from tests.support import guide

UNLIMITED = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)


def drawn(*several: tables.Table) -> str:
    stdout = io.StringIO()
    tables.Formatter().write(several, stdout, UNLIMITED)
    return stdout.getvalue()


def test_tables_have_titles_and_structured_cells() -> None:
    text = drawn(
        tables.Table("Changes", ("name", "after"), [("cmp-1", rows.lines(["A", "B"]))]),
        tables.Table("Capacity", ("resource class", "before"), [("VCPU", 8)]),
    )
    assert text == (
        "Changes\n"
        "+-------+-------+\n"
        "| name  | after |\n"
        "+-------+-------+\n"
        "| cmp-1 | A     |\n"
        "|       | B     |\n"
        "+-------+-------+\n"
        "\n"
        "Capacity\n"
        "+----------------+--------+\n"
        "| resource class | before |\n"
        "+----------------+--------+\n"
        "| VCPU           | 8      |\n"
        "+----------------+--------+\n"
    )


@pytest.mark.parametrize("print_empty", [False, True])
@pytest.mark.parametrize(
    "cells",
    [
        [],
        [("cmp-1", 8)],
        [(1, 2.5), ("a long name", 12345)],
        [("a\r\nb\rc\n", True), ("", None)],
        [("\N{CJK UNIFIED IDEOGRAPH-4E2D}\u0301", "\x1b[31mred\x1b[0m"), ("|+-", "<b>")],
    ],
)
def test_a_table_is_drawn_as_cliff_draws_it(
    cells: Sequence[Sequence[Any]], print_empty: bool
) -> None:
    columns, of_cliff = ("name", "resource class"), io.StringIO()
    unlimited = argparse.Namespace(max_width=sys.maxsize, fit_width=False, print_empty=print_empty)
    table.TableFormatter().emit_list(columns, cells, of_cliff, unlimited)
    assert f"{tables.drawn(columns, cells, print_empty=print_empty)}\n" == of_cliff.getvalue()


def test_an_empty_table_is_omitted() -> None:
    assert drawn(tables.Table("Changes", ("name",), [])) == ""


WIDE = ("uuid", "name", "reason")
ROW = ("4e8e5957-649f-477b-9e5b-f1f75b21c03c", "rack1-node7", "it has no VCPU")


def emitted(width: int, **options: bool) -> str:
    stdout = io.StringIO()
    arguments = argparse.Namespace(max_width=width, fit_width=False, print_empty=False)
    tables.Formatter(**options).emit_list(WIDE, [ROW], stdout, arguments)
    return stdout.getvalue()


def test_a_line_on_stderr_names_the_dropped_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert "uuid" not in emitted(40, may_drop=True)
    assert capsys.readouterr().err == (
        "Columns not shown in 40 characters: uuid. To see them, add --max-width 71, -c <column>"
        " or -f json\n"
    )
    assert "uuid" not in emitted(40, may_drop=True, quiet=True)
    assert ROW[0] in emitted(40, may_drop=False)
    assert capsys.readouterr().err == ""


def test_the_fields_of_one_object_fold_at_words() -> None:
    stdout = io.StringIO()
    arguments = argparse.Namespace(max_width=60, fit_width=False, print_empty=False)
    tables.Formatter(may_drop=False).emit_one(WIDE, ROW, stdout, arguments)
    assert f"| {ROW[0]} |" in stdout.getvalue()


@pytest.mark.parametrize(
    ("terminal", "max_width", "fit_width", "limit"),
    [
        (False, 0, False, None),
        (False, 70, False, 70),
        (False, 0, True, 60),
        (True, 0, False, 60),
        (True, 70, True, 70),
    ],
)
def test_the_width_of_a_table(
    terminal: bool,
    max_width: int,
    fit_width: bool,
    limit: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "60")
    arguments = argparse.Namespace(max_width=max_width, fit_width=fit_width)
    assert tables.width_limit(arguments) == limit


UUID = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
PROVIDER_COLUMNS = ("uuid", "name", "generation", "root_provider_uuid", "parent_provider_uuid")
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


def test_a_table_that_fits_is_unchanged() -> None:
    layout = tables.fit(PROVIDER_COLUMNS, PROVIDERS, 200)
    assert (layout.columns, layout.rows, layout.dropped) == (PROVIDER_COLUMNS, PROVIDERS, ())
    assert tables.fit(PROVIDER_COLUMNS, PROVIDERS, None).rows == PROVIDERS


def test_uuids_and_generations_are_dropped_first() -> None:
    assert tables.fit(PROVIDER_COLUMNS[:3], PROVIDERS, 60).dropped == ["uuid"]
    assert tables.fit(PROVIDER_COLUMNS[:3], PROVIDERS, 15).dropped == ["uuid", "generation"]
    layout = tables.fit(PROVIDER_COLUMNS, PROVIDERS, 80)
    assert layout.columns == ["uuid", "name", "generation"]
    assert layout.dropped == ["root_provider_uuid", "parent_provider_uuid"]
    assert guide.width_of(layout) <= 80
    assert guide.width_of(tables.fit(PROVIDER_COLUMNS, PROVIDERS, layout.width)) == layout.width


def test_uuids_without_names_stay() -> None:
    columns = ("resource_provider", "generation", "resources", "project_id")
    layout = tables.fit(columns, [(UUID, 1, "VCPU=1", UUID)], 80)
    assert layout.dropped == ["generation", "project_id"]
    named = tables.fit((*columns, "provider_name"), [(UUID, 1, "VCPU=1", UUID, "cmp-1")], 90)
    assert named.dropped == ["resource_provider"]


def test_numbers_stay_whole_and_the_fields_of_a_class_are_dropped_in_order() -> None:
    row = ("MEMORY_MB", 1.5, 1, 131072, 512, 1, 131072, 65536)
    layout = tables.fit(INVENTORY_COLUMNS, [row], 80)
    assert layout.dropped == ["min_unit", "step_size"]
    assert layout.rows == [("MEMORY_MB", 1.5, 131072, 512, 131072, 65536)]


def test_a_list_of_plans_fits_80_columns_without_the_place_of_the_file() -> None:
    columns = ("created", "status", "undoable", "target", "command")
    row = ("2026-01-01T09:00:00+00:00", "applied", True, f"/{'p' * 40}", "placement plan apply")
    layout = tables.fit(columns, [row], 80)
    assert (layout.columns, layout.dropped) == (
        ["created", "status", "command"],
        ["undoable", "target"],
    )


def test_columns_without_values_are_dropped_before_all_others() -> None:
    columns = ("name", "before", "after", "status", "reason")
    facts = "VCPU:allocation_ratio=16.0"
    layout = tables.fit(columns, [("rack1-node7", facts, facts, "planned", "")], 80)
    assert layout.dropped == ["reason"]
    assert set(layout.rows[0][1:3]) <= {facts, "VCPU:allocation_ratio=\n16.0"}


def test_text_folds_at_spaces_and_lists_at_commas() -> None:
    reason = f"the provider {UUID} changed concurrently, with VCPU total 64"
    layout = tables.fit(("name", "reason"), [("cmp-0001", reason)], 60)
    (_, folded), *_ = layout.rows
    assert folded.replace("\n", " ") == reason
    assert guide.width_of(layout) <= 60
    (cell,) = tables.fit(("traits",), [("HW_CPU_A,HW_CPU_B,HW_CPU_C",)], 24).rows[0]
    assert cell == "HW_CPU_A,HW_CPU_B,\nHW_CPU_C"


def test_uuids_are_shortened_and_then_keys_fold(capsys: pytest.CaptureFixture[str]) -> None:
    columns, cells = ("after", "reason"), ("MEMORY_MB:allocation_ratio=4.0", f"it is {UUID}")
    shortened = tables.fit(columns, [cells], 60)
    assert (shortened.is_shortened, shortened.rows[0][1]) == (True, "it is 4e8e5957...")
    folded = tables.fit(columns, [cells], 40)
    assert folded.rows[0][0] == "MEMORY_MB:\nallocation_ratio=\n4.0"
    assert guide.width_of(folded) <= 40
    assert not tables.fit(columns, [cells], 60, may_drop=False).is_shortened
    arguments = argparse.Namespace(max_width=60, fit_width=False, print_empty=False)
    tables.Formatter().emit_list(columns, [cells], io.StringIO(), arguments)
    assert capsys.readouterr().err == (
        "UUIDs are shortened to fit 60 characters. To see them, add --max-width 79, -c <column> or"
        " -f json\n"
    )


def test_a_name_never_folds_and_the_table_may_be_too_wide() -> None:
    name = "cmp-0001:Open vSwitch agent:br-physnet0"
    layout = tables.fit(("name", "reason"), [(name, "no room")], 30)
    assert layout.rows == [(name, "no\nroom")]


def test_without_the_right_to_drop_all_columns_stay() -> None:
    layout = tables.fit(PROVIDER_COLUMNS, PROVIDERS, 80, may_drop=False)
    assert (layout.columns, layout.rows) == (list(PROVIDER_COLUMNS), PROVIDERS)


def test_characters_of_two_columns_count_twice() -> None:
    assert tables.fit(("name",), [("主機",)], None).width == len("| name |")
    assert tables.fit(("name",), [("主機主機",)], None).width == len("| 12345678 |")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120])
def test_no_width_divides_a_word(width: int) -> None:
    row: tuple[Any, ...] = (
        UUID,
        "rack1-node7",
        131072,
        f"VCPU=1,MEMORY_MB=131072\n{UUID}=10,000",
        "changed concurrently (VCPU total 64 -> 48); run the command again",
    )
    layout = tables.fit(("uuid", "name", "generation", "after", "reason"), [row], width)
    words = {word for cell in row for word in re.split(r"[\s,=;]+", str(cell))} | {
        *("10", "000", "4e8e5957...")
    }
    for cell in layout.rows[0]:
        assert {word for word in re.split(r"[\s,=;]+", str(cell)) if word} <= words


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


COLUMNS = ("name", "status")
MANY = tables.MOST_ROWS + 1


def hosts(count: int, status: str = "planned") -> list[tuple[str, str]]:
    return [(f"cmp-{number:05}", status) for number in range(count)]


def first(data: Sequence[tuple[str, str]], *columns: str) -> list[Any]:
    table = tables.Table("Hosts", columns or COLUMNS, data)
    found = tables.first_rows(table)
    assert (found.title, found.columns) == (table.title, table.columns)
    return list(found.rows)


def test_a_table_with_few_rows_is_printed_whole_and_in_its_order() -> None:
    data = [*hosts(tables.MOST_ROWS - 1), ("odd-1", "failed")]
    assert first(data) == data


@pytest.mark.parametrize("status", ["failed", "stale", "refused"])
def test_rows_that_need_attention_come_first_and_those_without_a_change_last(status: str) -> None:
    data = [*hosts(MANY, "unchanged"), ("odd-1", "skipped"), *hosts(3), ("odd-2", "applied")]
    data += [("odd-3", status)]
    shown = first(data)
    assert shown[:5] == [("odd-3", status), *hosts(3), ("odd-2", "applied")]
    assert shown[5:] == hosts(tables.MOST_ROWS - 5, "unchanged")


def test_rows_without_a_status_stay_in_their_order() -> None:
    data = hosts(MANY)
    assert first(data, "name", "reason") == data[: tables.MOST_ROWS]


def test_the_providers_of_a_tree_stay_together() -> None:
    trees = [
        [(host, "planned"), ("├─ gpu0", "planned"), ("│     vm-1", "planned"), ("└─ gpu1", "")]
        for host, _ in hosts(6)
    ]
    trees[4][2] = ("│     vm-1", "failed")
    shown = first([row for tree in trees for row in tree], "tree", "status")
    assert shown == [row for tree in (trees[4], *trees[:4]) for row in tree]
