# SPDX-License-Identifier: Apache-2.0
"""Pytest fixtures ``target`` and ``openstack``; the functional and contract tests import them."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import pytest

from tests.support.peer import database, placement, process, shell, state, target as targets

#: Other ways to the same two servers are ``partly`` tested: in some files, unless --all-targets.
TARGETS = (
    "embedded",
    "placement",
    pytest.param("loopback", marks=pytest.mark.partly),
    pytest.param("offline", marks=pytest.mark.partly),
)

#: For tests of command lines and of output, which no server can influence.
ON_ONE_TARGET = pytest.mark.parametrize("target", ["embedded"], indirect=True)


def usually_on(usual: str, *others: str) -> pytest.MarkDecorator:
    """A test runs on one target, and with ``--long`` also on others."""
    long = [pytest.param(name, marks=pytest.mark.long) for name in others]
    return pytest.mark.parametrize("target", [usual, *long], indirect=True)


@pytest.fixture(scope="session")
def real_placement(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[targets.RealPlacement]:
    """openstack-placement, started once per worker, on the database that --peer names."""
    folder = tmp_path_factory.mktemp("placement")
    with (
        _database(pytestconfig) as environment,
        process.running(process.PLACEMENT, folder, environment=environment) as url,
        _saved_states(environment, folder, tmp_path_factory) as saved,
    ):
        yield targets.RealPlacement(url, saved)


@pytest.fixture(scope="session")
def offline_placement(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[targets.OfflinePlacement]:
    """openstack-placement without a service, on a database that --peer names."""
    folder = tmp_path_factory.mktemp("offline")
    with _database(pytestconfig) as environment:
        with mock.patch.dict(os.environ, environment):
            configuration = placement.configure(folder, "default")
        placement.create_tables(configuration)
        offline = targets.OfflinePlacement(configuration)
        # The first request of a process adds the standard traits and resource classes.
        offline.ask("GET", "/traits")
        with _saved_states(environment, folder, tmp_path_factory) as offline.database:
            yield offline


@contextlib.contextmanager
def _database(config: pytest.Config) -> Iterator[dict[str, str]]:
    """The environment of a server for a database that --peer names; empty for SQLite."""
    peer = config.getoption("--peer")
    if peer == "sqlite":
        yield {}
        return
    with database.SERVERS[peer]() as address:
        yield {"PLACEMENT_DATABASE": address}


@contextlib.contextmanager
def _saved_states(
    environment: Mapping[str, str], folder: pathlib.Path, factory: pytest.TempPathFactory
) -> Iterator[state.DatabaseState]:
    """The states of the database that ``_database`` chose, or of the file in ``folder``."""
    if environment:
        rows = state.SQLState(environment["PLACEMENT_DATABASE"])
        yield rows
        rows.close()
        return
    # The parent of a worker's folder belongs to this run only.
    shared = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    yield state.SQLiteState(folder / "placement.sqlite", shared)


@pytest.fixture
def first_generation() -> int:
    """The first generation of providers and consumers of the loopback target."""
    return 0


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, first_generation: int) -> Iterator[targets.Target]:
    """An empty Placement: embedded in process, on a port, or the real one as service or not."""
    if request.param in ("placement", "offline"):
        real: targets.OnRealDatabase = request.getfixturevalue(
            "real_placement" if request.param == "placement" else "offline_placement"
        )
        real.reset()
        yield real
    else:
        folder = request.getfixturevalue("tmp_path")
        yield from embedded(request.param, folder, first_generation)


def embedded(
    name: str, folder: pathlib.Path, first_generation: int = 7
) -> Iterator[targets.Target]:
    """The reference server: on a file, or on a port."""
    if name == "embedded":
        yield targets.OnFile(folder / "placement.sqlite")
        return
    loopback = targets.Loopback(first_generation)
    try:
        yield loopback
    finally:
        loopback.stop()


def only(name: str) -> Any:
    """The fixture ``target`` of a module whose tests run on the reference server alone."""

    @pytest.fixture(name="target")
    def target(tmp_path: pathlib.Path) -> Iterator[targets.Target]:
        yield from embedded(name, tmp_path)

    return target


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
