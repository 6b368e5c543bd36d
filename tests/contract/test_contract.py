# SPDX-License-Identifier: Apache-2.0
"""HTTP requests and expected responses, in gabbi's YAML: one file per subject.

Each file holds for openstack-placement and for the embedded server.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.support.peer import gabbi_suite, target as targets

FILES = sorted(pathlib.Path(__file__).parent.glob("*.yaml"))

#: Defects of openstack-placement itself: ``{database: names of the tests that must fail}``.
#: On PostgreSQL it answers 500 when it groups usages by consumer type.
DEFECTS = {"postgresql": {"usages by type count consumers"}}


@pytest.mark.parametrize("target", ["loopback", "placement"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_contract_holds(
    path: pathlib.Path, target: targets.OverHttp, pytestconfig: pytest.Config
) -> None:
    data = gabbi_suite.read(path)
    if target.name == "placement":
        _expect_failures(data, DEFECTS.get(pytestconfig.getoption("--peer"), set()))
    result = gabbi_suite.run(path, data, target.url)
    assert result.faults == []
    assert result.testsRun == result.total


def _expect_failures(data: dict[str, Any], names: set[str]) -> None:
    for test in data["tests"]:
        if test["name"] in names:
            test["xfail"] = True
