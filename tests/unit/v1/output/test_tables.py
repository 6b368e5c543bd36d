"""Several tables in one answer."""

from __future__ import annotations

import argparse
import io
import sys

import pytest

from osc_placement.v1.output import rows, table_formatter, tables

UNLIMITED = argparse.Namespace(max_width=0, fit_width=False)


def drawn(*several: tables.Table) -> str:
    stdout = io.StringIO()
    tables.write(several, stdout, UNLIMITED)
    return stdout.getvalue()


def test_tables_have_titles_and_structured_cells() -> None:
    text = drawn(
        tables.Table("Changes", ("name", "after"), [("cmp-1", rows.Lines(["A", "B"]))]),
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


def test_an_empty_table_is_omitted() -> None:
    assert drawn(tables.Table("Changes", ("name",), [])) == ""


WIDE = ("uuid", "name", "reason")
ROW = ("4e8e5957-649f-477b-9e5b-f1f75b21c03c", "rack1-node7", "it has no VCPU")


def emitted(width: int, **options: bool) -> str:
    stdout = io.StringIO()
    arguments = argparse.Namespace(max_width=width, fit_width=False, print_empty=False)
    table_formatter.Formatter(**options).emit_list(WIDE, [ROW], stdout, arguments)
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
    table_formatter.Formatter(may_drop=False).emit_one(WIDE, ROW, stdout, arguments)
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
