# SPDX-License-Identifier: Apache-2.0
"""The commands, against the reference server in process, on a port, and openstack-placement."""

from __future__ import annotations

import pathlib

import pytest

from osc_placement.client import retry
from tests.support.peer import target as targets
from tests.support.peer.fixtures import offline_placement, openstack, real_placement, target

__all__ = ["offline_placement", "openstack", "real_placement", "target"]


@pytest.fixture
def sample(target: targets.Target) -> targets.Target:
    """The target with the sample cloud of 12 hosts."""
    target.load("12-hosts")
    return target


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries with short pauses."""
    monkeypatch.setattr(retry, "_FIRST", 0.0005)
    monkeypatch.setattr(retry, "_LONGEST", 0.002)
    monkeypatch.setattr(retry, "_CONFLICT_PAUSE", 0)


FOLDER = pathlib.Path(__file__).parent


@pytest.fixture
def first_generation() -> int:
    """Nothing may count on a generation that begins at 0."""
    return 7


#: Defects of openstack-placement on PostgreSQL: it answers 500 when it groups usages by
#: consumer type, and when a candidates query of one flat group forbids a trait. Parts of names.
POSTGRESQL_DEFECTS = (
    "test_a_feature_works_from_its_version[placement-consumer types]",
    "test_every_command_works_with_every_version_setting[placement-1.39]",
    "test_every_command_works_with_every_version_setting[placement-latest]",
    "[placement-allocation candidate list --resource VCPU=1 --forbidden ",
    "[placement---os-placement-api-version 1.38 resource usage show project --long ",
    "[placement-resource usage show project --long ",
    "[placement-resource usage show project --consumer-type INSTANCE ",
)


#: The files that run without ``--all-targets`` on every target too: single requests, and plans.
ON_ALL_TARGETS = ("resources/test_provider.py", "batch/test_undo.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the targets, and expect openstack-placement's known defects."""
    _choose_targets(config, items)
    if config.getoption("--peer") != "postgresql":
        return
    for item in items:
        name = item.name.replace("[offline", "[placement")
        if any(text in name for text in POSTGRESQL_DEFECTS):
            item.add_marker(pytest.mark.xfail(strict=True, reason="a defect on PostgreSQL"))


def _choose_targets(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--all-targets``, leave out the targets that are partly tested."""
    if config.getoption("--all-targets"):
        return
    complete = {FOLDER / name for name in ON_ALL_TARGETS}
    assert all(path.is_file() for path in complete)
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        is_left = item.get_closest_marker("partly") and item.path not in complete
        (left if is_left else chosen).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = chosen
