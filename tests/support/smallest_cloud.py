# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: a failed test on a random cloud prints the smallest cloud that fails it."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

import pytest
from _pytest import runner

from osc_placement import testing

#: After these seconds, the cloud is as small as it is by then.
MOST_SECONDS = 60


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that is marked ``seeds``; if it fails, again with parts of its last cloud."""
    if item.get_closest_marker("seeds") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, drawn = run(item, nextitem)
    end, failure = time.monotonic() + MOST_SECONDS, failure_of(reports)

    def fails(part: testing.Cloud) -> bool:
        is_late = time.monotonic() > end
        return not is_late and failure_of(run(item, nextitem, len(drawn), part)[0]) == failure

    parts = testing.shrink(drawn[-1], fails).parts if failure and drawn else {}
    lines = [f"{kind}: {part}" for kind, part in parts.items() if part]
    for report in reports:
        if report.failed and lines:
            report.sections.append(("The smallest cloud that fails", "\n".join(lines)))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def failure_of(reports: Sequence[pytest.TestReport]) -> tuple[str, int] | None:
    """The file and the line of the first failure."""
    crashes = [getattr(report.longrepr, "reprcrash", None) for report in reports if report.failed]
    return (crashes[0].path, crashes[0].lineno) if crashes and crashes[0] else None


def run(
    item: Any, nextitem: pytest.Item | None, at: int = 0, part: testing.Cloud | None = None
) -> tuple[list[pytest.TestReport], list[testing.Cloud]]:
    """The reports of a test and its random clouds; it gets ``part`` in place of number ``at``."""
    drawn: list[testing.Cloud] = []
    random_cloud = testing.random_cloud

    def kept(*words: Any, **options: Any) -> testing.Cloud:
        drawn.append(random_cloud(*words, **options))
        return copy.deepcopy(part if part and len(drawn) == at else drawn[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "random_cloud", kept)
        if part:
            item._initrequest()
        return runner.runtestprotocol(item, log=False, nextitem=nextitem), drawn
