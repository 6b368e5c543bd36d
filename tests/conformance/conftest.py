"""The server under test is chosen with ``--serve``; the sum of all files is printed at the end."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--serve",
        choices=("embedded", "placement"),
        default="embedded",
        help="whom the gabbi tests judge: the embedded server, or openstack-placement itself",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    properties = [
        dict(report.user_properties)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
    ]
    judged = [entry for entry in properties if "gabbi_total" in entry]
    if judged:
        passed = sum(entry["gabbi_passed"] for entry in judged)
        total = sum(entry["gabbi_total"] for entry in judged)
        terminalreporter.write_line(
            f"gabbi: {passed} of {total} tests pass, in {len(judged)} files"
        )
