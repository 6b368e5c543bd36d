"""What every test may import, and what is told about the whole run."""

from __future__ import annotations

import pathlib
import sys

import pytest

# At the end: an .egg-info that a build left in the checkout must not hide the entry points of
# the installed package.
sys.path.append(str(pathlib.Path(__file__).parents[1]))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--serve``, ``--peer`` and ``--long``."""
    parser.addoption(
        "--serve",
        choices=("embedded", "placement"),
        default="embedded",
        help="whom the gabbi tests judge: the embedded server, or openstack-placement itself",
    )
    parser.addoption(
        "--peer",
        choices=("sqlite", "postgresql", "mariadb"),
        default="sqlite",
        help="the database of the openstack-placement that functional and contract tests use",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="let the load test and the fuzz tests go on for minutes",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The gabbi tests of all files in one line."""
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
