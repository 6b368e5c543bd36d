"""Several tables in one answer."""

from __future__ import annotations

from osc_placement.v1 import rows, tables


def test_tables_have_titles_and_structured_cells() -> None:
    text = tables.draw(
        [
            tables.Table("Changes", ("name", "after"), [("cmp-1", rows.Lines(["A", "B"]))]),
            tables.Table("Capacity", ("resource class", "before"), [("VCPU", 8)]),
        ]
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


def test_an_empty_table_is_omitted() -> None:
    assert tables.draw([tables.Table("Changes", ("name",), [])]) == ""
