# SPDX-License-Identifier: Apache-2.0
"""Summaries of long tables: what changes to what on how many hosts, and who differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from osc_placement.v1.output import rows, tables

COLUMNS = ("name", "before", "after", "status", "reason")
Row = tuple[Any, ...]


def ratio(name: str, before: float, status: str = "planned", reason: str = "") -> Row:
    facts = [
        rows.Cell({"VCPU:allocation_ratio": value}, [f"VCPU:allocation_ratio={value}"])
        for value in (before, 4.0)
    ]
    return (name, *facts, status, rows.reasons(reason))


def summarized(data: Sequence[Row], columns: Sequence[str] = COLUMNS) -> list[Row]:
    found = tables.of_table(tables.Table("Summary", columns, data))
    return [tuple(rows.format_row("table", row)) for row in found.rows]


def hosts(count: int) -> list[str]:
    return [f"cmp-{number:05}" for number in range(count)]


def test_a_short_table_is_not_summarized() -> None:
    table = tables.Table("Summary", COLUMNS, [ratio(name, 16.0) for name in hosts(20)])
    assert tables.of_table(table) is table


def test_equal_changes_are_one_row_and_outliers_have_names() -> None:
    data = [ratio(name, 16.0) for name in hosts(9997)]
    data += [ratio("odd-1", 8.0), ratio("odd-2", 8.0), ratio("full-1", 16.0, "failed", "no room")]
    now = "VCPU:allocation_ratio=4.0"
    assert summarized(data) == [
        (1, "VCPU:allocation_ratio=16.0", now, "failed", "no room", "full-1"),
        (
            9997,
            "VCPU:allocation_ratio=16.0",
            now,
            "planned",
            "",
            "cmp-00000, cmp-00001, cmp-00002 and 9994 more",
        ),
        (2, "VCPU:allocation_ratio=8.0", now, "planned", "", "odd-1, odd-2"),
    ]


def test_rows_that_differ_in_names_only_are_one_row() -> None:
    data = [(f"vm-{n}", "planned", f"on cmp-{n}: DISK_GB=20, VCPU=1") for n in range(30)]
    data.append(("vm-x", "planned", "on cmp-7: DISK_GB=20, VCPU=2"))
    assert summarized(data, ("name", "status", "reason")) == [
        (30, "planned", "on *: DISK_GB=20, VCPU=1", "vm-0, vm-1, vm-2 and 27 more"),
        (1, "planned", "on cmp-7: DISK_GB=20, VCPU=2", "vm-x"),
    ]


def test_reasons_are_simplified_before_the_changes() -> None:
    data = [ratio(name, 16.0, reason=f"{n} used") for n, name in enumerate(hosts(100))]
    data.append(ratio("odd-1", 8.0, reason="7 used"))
    first, second = summarized(data)
    assert first[1:5] == (
        "VCPU:allocation_ratio=16.0",
        "VCPU:allocation_ratio=4.0",
        "planned",
        "* used",
    )
    assert (second[1], second[4:]) == ("VCPU:allocation_ratio=8.0", ("7 used", "odd-1"))


def test_numbers_differ_last() -> None:
    data = [(f"vm-{n}", "planned", f"on cmp-{n}: VCPU={n}") for n in range(30)]
    ((count, _, reason, _),) = summarized(data, ("name", "status", "reason"))
    assert (count, reason) == (30, "on *: VCPU=*")


def test_a_summary_is_short_whatever_the_rows_are() -> None:
    data = [(f"vm-{chr(97 + n // 26)}{chr(97 + n % 26)}",) * 2 for n in range(300)]
    found = summarized(data, ("name", "reason"))
    assert len(found) == tables.MOST_ROWS
    assert sum(row[0] for row in found) == 300
    assert found[-1][1] == "(other rows)"


def test_a_table_without_names_and_a_tree_are_summarized() -> None:
    problems = [("note", "heal", f"server vm-{n} is moving") for n in range(40)]
    columns = ("kind", "migration", "reason")
    assert summarized(problems, columns) == [(40, "note", "heal", "server * is moving")]
    tree = [(f"├─ gpu{n}", rows.usages({"VGPU": {"used": 1, "capacity": 8}})) for n in range(21)]
    ((_, usage, names),) = summarized(tree, ("tree", "before"))
    assert (usage, names) == ("VGPU=1/8", "gpu0, gpu1, gpu2 and 18 more")
