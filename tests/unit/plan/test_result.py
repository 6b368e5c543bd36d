# SPDX-License-Identifier: Apache-2.0
"""The exit code and the summary of a run; the codes of reasons, all on their page."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

from osc_placement.plan import change, guards, reasons, result
from osc_placement.plan.reasons import Code, Reason
from osc_placement.plan.result import Status


def report(*statuses: Status, **fields: Any) -> result.RunReport:
    results = tuple(
        result.ChangeResult("traits", change.Subject("a", "b"), {}, {}, status)
        for status in statuses
    )
    return result.RunReport(results, "here", **fields)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(), 0),
        (report(Status.APPLIED, Status.UNCHANGED), 0),
        (report(Status.SKIPPED), 0),
        (report(Status.APPLIED, Status.REFUSED), 6),
        (report(Status.APPLIED, Status.PLANNED, limited=True), 5),
        (report(Status.PLANNED, Status.REFUSED, limited=True), 5),
        (report(Status.STALE, Status.APPLIED), 7),
        (report(Status.STALE, limited=True), 7),
        (report(Status.STALE, Status.FAILED, limited=True), 6),
        (report(Status.APPLIED, Status.PLANNED, halted="why"), 6),
        (report(Status.FAILED, interrupted=True), 130),
        (report(Status.PLANNED, dry_run=True), 3),
        (report(Status.UNCHANGED, Status.SKIPPED, dry_run=True), 0),
        (report(Status.UNCHANGED, Status.REFUSED, dry_run=True), 6),
        (report(Status.PLANNED, Status.REFUSED, dry_run=True), 6),
        (report(Status.PLANNED, Status.STALE, dry_run=True), 7),
    ],
)
def test_the_exit_code_is_the_worst_of_all_results(found: result.RunReport, code: int) -> None:
    assert found.exit_code(detailed=True) == code


def test_a_dry_run_exits_with_0_without_detailed_exitcode() -> None:
    assert report(Status.PLANNED, Status.REFUSED, dry_run=True).exit_code() == 0
    assert report(Status.REFUSED, dry_run=True, halted="the whole plan is refused").exit_code() == 6


@pytest.mark.parametrize(("status", "code"), [("planned", 0), ("refused", 6), ("stale", 7)])
def test_a_dry_run_that_reads_the_cloud_again_exits_as_the_run(status: str, code: int) -> None:
    statuses = (Status.PLANNED, Status(status))
    assert report(*statuses, dry_run=True, reads_again=True).exit_code() == code


def test_the_summary_counts_each_status() -> None:
    run = report(Status.APPLIED, Status.APPLIED, Status.STALE)
    assert run.summary() == "2 applied, 1 stale"
    assert report().summary() == "nothing"


PAGE = pathlib.Path(__file__).parents[3] / "doc/source/user/reference/reason-codes.rst"


def test_the_documentation_lists_all_codes() -> None:
    listed = re.findall(r"^``([a-z-]+)``$", PAGE.read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {*Code} - {Code.NONE}


def test_a_guard_of_a_plan_has_its_name_as_code() -> None:
    assert {*guards.ALL} <= {*Code}


def test_a_reason_without_a_text_is_false() -> None:
    assert not reasons.NONE
    assert Reason(Code.MOVING, "its resize is finished")


def test_several_reasons_have_each_code_once() -> None:
    found = [Reason(Code.OVER_CAPACITY, "a"), Reason(Code.OVER_CAPACITY, "b")]
    assert reasons.joined_codes([*found, Reason(Code.NO_HOST, "c")]) == "over-capacity,no-host"
    assert reasons.joined_texts(found) == "a; b"
    assert reasons.first_of(found) == Reason(Code.OVER_CAPACITY, "a; b")
