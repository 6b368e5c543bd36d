# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any

import pytest

from osc_placement.plan import change, result
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
    ],
)
def test_the_exit_code_is_the_worst_of_all_results(found: result.RunReport, code: int) -> None:
    assert found.exit_code(detailed=True) == code


def test_a_dry_run_exits_with_0_without_detailed_exitcode() -> None:
    assert report(Status.PLANNED, Status.REFUSED, dry_run=True).exit_code() == 0


def test_the_summary_counts_each_status() -> None:
    found = report(Status.APPLIED, Status.APPLIED, Status.STALE)
    assert found.summary() == "2 applied, 1 stale"
    assert report().summary() == "nothing"
