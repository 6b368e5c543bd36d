# SPDX-License-Identifier: Apache-2.0
"""A failed test on a random cloud prints the smallest cloud that fails it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

TEST = """
import random
import pytest
from osc_placement import testing

@pytest.fixture
def cloud():
    return testing.random_cloud(random.Random(0))

@pytest.mark.seeds(1, long=1)
def test_no_cloud_shares(cloud):
    providers = cloud.parts["providers"].values()
    assert len(providers) > 1, "too small"
    assert not any("MISC_SHARES_VIA_AGGREGATE" in it["traits"] for it in providers), "shares"
"""


def test_a_failure_ends_with_the_smallest_cloud(
    tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    path = tmp_path / "test_shares.py"
    path.write_text(TEST)
    options = ["-n", "0", "-p", "tests.support.smallest_cloud", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(path)]
    done = subprocess.run(command, cwd=pytestconfig.rootpath, capture_output=True, text=True)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    _, _, smallest = done.stdout.partition("The smallest cloud that fails")
    (line,) = (line for line in smallest.splitlines() if line.startswith("providers: "))
    assert (line.count("'name'"), line.count("MISC_SHARES_VIA_AGGREGATE")) == (2, 1)
    assert "consumers: " not in smallest
