"""Requests and the answers to them, in gabbi's YAML: one file per subject.

What stands there holds for openstack-placement and for the embedded server, word by word.
"""

from __future__ import annotations

import pathlib

import pytest

from tests.support.peer import gabbi_suite, target as targets

FILES = sorted(pathlib.Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("target", ["loopback", "placement"], indirect=True)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_contract_holds(path: pathlib.Path, target: targets.OverHttp) -> None:
    result = gabbi_suite.run(path, gabbi_suite.read(path), target.url)
    assert result.faults == []
    assert result.passed == result.total
