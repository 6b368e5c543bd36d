# SPDX-License-Identifier: Apache-2.0
"""The import path, the options and the summary of all tests."""

from __future__ import annotations

import os
import pathlib
import sys

import hypothesis
import pytest

# Append: an .egg-info in the checkout must not hide the entry points of the installed package.
sys.path.append(str(pathlib.Path(__file__).parent))

# The tests start hundreds of Python processes. Without bytecode files each one would compile all
# modules again, which takes longer than most tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# On a busy machine an example can take any time.
hypothesis.settings.register_profile(
    "any time", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any time")

#: Seconds for each test with ``--long``, in place of those of setup.cfg.
LONG_TIMEOUT = 3600


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--serve``, ``--peer``, ``--all-targets`` and ``--long``."""
    parser.addoption(
        "--serve",
        choices=("embedded", "placement"),
        default="embedded",
        help="the server that the gabbi tests check: the reference server or openstack-placement",
    )
    parser.addoption(
        "--peer",
        choices=("sqlite", "postgresql", "mariadb"),
        default="sqlite",
        help="the database of the openstack-placement that functional and contract tests use",
    )
    parser.addoption(
        "--all-targets",
        action="store_true",
        help="run all functional tests also on the reference server behind a port, and on"
        " openstack-placement in process, without a service",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="run more seeds, examples, kills and faults: more than an hour",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked ``seeds(count, long=many)`` with each ``seed``."""
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None and "seed" in metafunc.fixturenames:
        is_long = metafunc.config.getoption("--long")
        metafunc.parametrize("seed", range(marker.kwargs["long"] if is_long else marker.args[0]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the parameters that are marked ``long``, or give every test more time."""
    if config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LONG_TIMEOUT))
    else:
        longer = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=longer)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of passed gabbi tests."""
    properties = [
        dict(report.user_properties)
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
    ]
    files = [entry for entry in properties if "gabbi_total" in entry]
    if files:
        passed = sum(entry["gabbi_passed"] for entry in files)
        total = sum(entry["gabbi_total"] for entry in files)
        terminalreporter.write_line(f"gabbi: {passed} of {total} tests pass, in {len(files)} files")
