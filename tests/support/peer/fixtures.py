"""Pytest fixtures ``target`` and ``openstack``; the functional and contract tests import them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest

from tests.support.peer import database, process, shell, state, target as targets

#: For tests of command lines and of output, which no server can influence.
ON_ONE_TARGET = pytest.mark.parametrize("target", ["embedded"], indirect=True)


@pytest.fixture(scope="session")
def real_placement(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[targets.RealPlacement]:
    """openstack-placement, started once per worker, on the database that --peer names."""
    folder = tmp_path_factory.mktemp("placement")
    peer = pytestconfig.getoption("--peer")
    if peer == "sqlite":
        shared = folder
        if "PYTEST_XDIST_WORKER" in os.environ:
            # The parent of the worker's folder belongs to this run only.
            shared = tmp_path_factory.getbasetemp().parent
        with process.running(process.PLACEMENT, folder) as url:
            saved = state.SQLiteState(folder / "placement.sqlite", shared)
            yield targets.RealPlacement(url, saved)
        return
    with database.SERVERS[peer]() as address:
        environment = {"PLACEMENT_DATABASE": address}
        with process.running(process.PLACEMENT, folder, environment=environment) as url:
            rows = state.SQLState(address)
            yield targets.RealPlacement(url, rows)
            rows.close()


@pytest.fixture
def first_generation() -> int:
    """The first generation of providers and consumers of the loopback target."""
    return 0


@pytest.fixture(params=targets.NAMES)
def target(request: pytest.FixtureRequest, first_generation: int) -> Iterator[targets.Target]:
    """An empty Placement: embedded in process, on a port, or the real one."""
    if request.param == "placement":
        real: targets.RealPlacement = request.getfixturevalue("real_placement")
        real.reset()
        yield real
    else:
        folder = request.getfixturevalue("tmp_path")
        yield from embedded(request.param, folder, first_generation)


def embedded(
    name: str, folder: pathlib.Path, first_generation: int = 7
) -> Iterator[targets.Target]:
    """The embedded server: on a file, or on a port."""
    if name == "embedded":
        yield targets.OnFile(folder / "placement.sqlite")
        return
    loopback = targets.Loopback(first_generation)
    try:
        yield loopback
    finally:
        loopback.stop()


@pytest.fixture
def openstack(
    target: targets.Target, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> shell.OpenStack:
    """The ``openstack`` command for the target, without the user's configuration."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith(("OS_", "OSC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return shell.OpenStack(target)
