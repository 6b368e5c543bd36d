from __future__ import annotations

from typing import Any

import pytest

from osc_placement.plan import change, result
from osc_placement.plan.result import Status


def report(*statuses: Status, refused: bool = False, **fields: Any) -> result.RunReport:
    outcomes = tuple(
        result.ChangeResult("traits", change.Subject("a", "b"), {}, {}, status, open=refused)
        for status in statuses
    )
    return result.RunReport(outcomes, "here", **fields)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(), 0),
        (report(Status.APPLIED, Status.UNCHANGED), 0),
        (report(Status.SKIPPED), 0),
        (report(Status.APPLIED, Status.SKIPPED, refused=True), 6),
        (report(Status.APPLIED, Status.PLANNED, limited=True), 5),
        (report(Status.PLANNED, Status.SKIPPED, refused=True, limited=True), 5),
        (report(Status.STALE, Status.APPLIED), 7),
        (report(Status.STALE, limited=True), 7),
        (report(Status.STALE, Status.FAILED, limited=True), 6),
        (report(Status.APPLIED, Status.PLANNED, halted="why"), 6),
        (report(Status.FAILED, interrupted=True), 130),
        (report(Status.PLANNED, dry_run=True), 3),
        (report(Status.UNCHANGED, Status.SKIPPED, refused=True, dry_run=True), 0),
    ],
)
def test_the_exit_code_tells_the_worst_that_happened(found: result.RunReport, code: int) -> None:
    assert found.exit_code(detailed=True) == code


def test_a_dry_run_ends_with_0_unless_details_are_asked_for() -> None:
    assert report(Status.PLANNED, dry_run=True).exit_code() == 0


def test_the_summary_counts_each_status() -> None:
    found = report(Status.APPLIED, Status.APPLIED, Status.STALE)
    assert found.summary() == "2 applied, 1 stale"
    assert report().summary() == "nothing"
