# SPDX-License-Identifier: Apache-2.0
"""The conformance kit: it passes on both Placements, and finds faults.

``seeded_faults`` has the faults.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import types
from typing import Any

import pytest
from gabbi import fixture

from osc_placement import testing
from osc_placement.testing import conformance
from osc_placement.testing.conformance import fixtures
from tests.contract import seeded_faults
from tests.support.peer import gabbi_suite, process, target as targets

FILES = sorted(pathlib.Path(conformance.__file__).parent.glob("*.yaml"))
BOTH = pytest.mark.parametrize("target", ["loopback", "placement"], indirect=True)

#: Defects of openstack-placement itself: ``{database: names of the tests that must fail}``.
#: On PostgreSQL it answers 500 when it groups usages by consumer type.
DEFECTS = {"postgresql": {"usages by type count consumers"}}


class AlwaysEmpty(types.ModuleType):
    """In place of the kit's fixtures, for a Placement that each test finds empty."""

    EmptyPlacement = Reshaper = fixture.GabbiFixture


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fixtures.TOKEN, "admin")


def run(path: pathlib.Path, data: dict[str, Any], url: str) -> gabbi_suite.Result:
    return gabbi_suite.run(path, data, url, AlwaysEmpty("fixtures"))


@BOTH
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_contract_holds(
    path: pathlib.Path, target: targets.OverHttp, pytestconfig: pytest.Config
) -> None:
    data = gabbi_suite.read(path)
    if target.name == "placement":
        _expect_failures(data, DEFECTS.get(pytestconfig.getoption("--peer"), set()))
    result = run(path, data, target.url)
    assert result.faults == []
    assert result.testsRun == result.total


def _expect_failures(data: dict[str, Any], names: set[str]) -> None:
    for test in data["tests"]:
        if test["name"] in names:
            test["xfail"] = True


def pytest_kit(url: str, folder: pathlib.Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of the kit as another project runs it."""
    kit = ["--pyargs", "osc_placement.testing.conformance", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *kit, "--placement-url", url, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@BOTH
def test_the_kit_passes_and_leaves_nothing(
    target: targets.OverHttp, tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    if target.name == "placement" and pytestconfig.getoption("--peer") in DEFECTS:
        # With a defect of the service the kit must fail.
        assert pytest_kit(target.url, tmp_path)[0] == 1
        return
    # These files create something of every kind.
    files = ("-k", "names or reshaper or inventories")
    code, output = pytest_kit(target.url, tmp_path, *files)
    assert code == 0, output
    assert re.search(r"\b[1-9]\d+ passed", output)
    assert target.ask("GET", "/resource_providers") == {"resource_providers": []}
    assert target.ask("GET", "/traits?name=startswith:CUSTOM_") == {"traits": []}
    classes = target.ask("GET", "/resource_classes")["resource_classes"]
    assert [item["name"] for item in classes if item["name"].startswith("CUSTOM_")] == []


def test_the_kit_skips_the_reshaper_where_policy_refuses_it(tmp_path: pathlib.Path) -> None:
    with process.running(process.PLACEMENT, tmp_path, "secure-rbac") as url:
        code, output = pytest_kit(url, tmp_path, "-rs", "-k", "names or reshaper")
    assert code == 0, output
    assert re.search(r"\b[1-9]\d+ passed, [1-9]\d+ skipped", output)
    assert output.count("this token may not reshape: use a token with the role service") == 1


def test_the_kit_refuses_a_placement_with_content(tmp_path: pathlib.Path) -> None:
    with testing.LoopbackPlacement(load=testing.Cloud().host("precious", VCPU=8)) as placement:
        code, output = pytest_kit(placement.url, tmp_path)
        assert (code, "(1): the tests need an empty" in output) == (2, True)
        assert len(placement.client().list_providers()) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [("", "the tests need --placement-url URL"), ("http://127.0.0.1:9", "Cannot reach Placement")],
)
def test_the_kit_needs_a_placement(url: str, message: str, tmp_path: pathlib.Path) -> None:
    code, output = pytest_kit(url, tmp_path)
    assert (code, message in output, "Traceback" in output) == (2, True, False), output


@pytest.mark.parametrize("name", seeded_faults.FAULTS)
def test_a_seeded_fault_is_found(name: str) -> None:
    """Each file runs until one finds the fault."""
    for path in FILES:
        with seeded_faults.served(name) as url:
            if run(path, gabbi_suite.read(path), url).faults:
                return
    pytest.fail(f"no test of the kit fails: {name}")


def test_without_a_fault_the_same_server_passes() -> None:
    with seeded_faults.served("") as url:
        assert run(FILES[0], gabbi_suite.read(FILES[0]), url).faults == []
