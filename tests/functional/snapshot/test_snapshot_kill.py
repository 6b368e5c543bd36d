# SPDX-License-Identifier: Apache-2.0
"""kill -9 of a save at random moments, Ctrl-C, a full disk and a file in use: nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import threading
from collections.abc import Iterator

import pytest

from osc_placement.workflows.snapshot import file as snapshot_file, save, staging
from tests.functional.snapshot.test_snapshot import saved
from tests.support import plain_reading
from tests.support.peer import chaos, fixtures, forked, shell, target as targets

CLOUD = "cloud.sqlite"
PARTIAL = pathlib.Path(f"{CLOUD}.partial")
SAVE = f"placement snapshot save {CLOUD}"
#: The number of kills, without and with ``--long``.
KILLS, MANY_KILLS = 5, 50
#: The requests of a save of the sample cloud, with the version document.
REQUESTS = 156


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    yield from fixtures.embedded("loopback", tmp_path)


@pytest.fixture
def sample(target: targets.Loopback, openstack: shell.OpenStack) -> targets.Loopback:
    target.load("12-hosts")
    return target


def save_in_process(url: str, path: str) -> None:
    """A save in a process of its own, without the start of ``openstack``."""
    save.save(targets.client_at(url), save.SaveRequest(pathlib.Path(path)))


def run_and_kill(proxy: chaos.Proxy, path: pathlib.Path, chance: random.Random) -> bool:
    """Run a save, and kill it some milliseconds after a random request; whether it was killed."""
    process = forked.context().Process(target=save_in_process, args=(proxy.url, str(path)))
    left = chance.randint(1, REQUESTS)

    def end() -> None:
        if process.is_alive() and process.pid:
            os.kill(process.pid, signal.SIGKILL)

    def count(method: str, request: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            threading.Timer(chance.uniform(0, 0.01), end).start()

    proxy.on_request = count
    process.start()
    process.join(60)
    proxy.on_request = lambda method, request: None
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.timeout(1800)
def test_a_save_that_was_killed_at_random_moments_equals_an_uninterrupted_one(
    sample: targets.Loopback, tmp_path: pathlib.Path, pytestconfig: pytest.Config
) -> None:
    expected = plain_reading.comparable(plain_reading.read(sample.ask))
    path, chance, kills = tmp_path / CLOUD, random.Random(3), 0
    least = MANY_KILLS if pytestconfig.getoption("--long") else KILLS
    with chaos.between(sample.url, delay=0.002) as proxy:
        while kills < least:
            while run_and_kill(proxy, path, chance):
                assert not path.exists()
                kills += 1
            assert saved(str(path)) == expected
            assert not save.partial_path(path).exists()
            path.unlink()


def test_an_interrupted_save_continues(sample: targets.Loopback, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "outcome.json"
    with chaos.between(sample.url, delay=0.005) as proxy:
        environment = {name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME")}
        arguments = [*targets.admin_options(proxy.url), *SAVE.split()]
        process = forked.context().Process(
            target=forked.child, args=(arguments, environment, str(tmp_path), str(out))
        )
        started = threading.Event()

        def interrupt(method: str, path: str) -> None:
            if path.startswith("/allocations/") and not started.is_set() and process.pid:
                started.set()
                os.kill(process.pid, signal.SIGINT)

        proxy.on_request = interrupt
        process.start()
        process.join(60)
        assert started.is_set()
        assert PARTIAL.exists(), out.read_text()
        assert not pathlib.Path(CLOUD).exists()
        proxy.on_request = lambda method, path: None
        again = shell.run([*arguments, "-f", "json"])
    assert json.loads(again.stdout)["continued"] is True
    assert saved(CLOUD) == plain_reading.comparable(plain_reading.read(sample.ask))


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process can grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_reported_and_the_save_continues(sample: targets.Loopback) -> None:
    openstack = shell.OpenStack(sample)
    with full_disk(64 * 1024):
        code, messages = openstack.fails(SAVE)
    assert code == 1
    assert CLOUD in messages
    assert "run the same command again to continue" in messages
    assert not pathlib.Path(CLOUD).exists()
    openstack.do(SAVE)
    assert saved(CLOUD) == plain_reading.comparable(plain_reading.read(sample.ask))


def test_no_anonymized_file_is_left_on_a_full_disk(sample: targets.Loopback) -> None:
    openstack = shell.OpenStack(sample)
    openstack.do(SAVE)
    anonymize = f"placement snapshot anonymize {CLOUD} case.sqlite --key-file key.json"
    with full_disk(64 * 1024):
        code, messages = openstack.fails(anonymize)
    assert code == 1
    assert "case.sqlite" in messages
    assert "cannot be used" in messages
    assert {path.name for path in pathlib.Path().glob("case*")} == set()
    openstack.do(anonymize)


def test_a_cloud_that_disappears_is_reported_and_the_save_continues(
    sample: targets.Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osc_placement.client.retry._LONGEST", 0.01)
    with chaos.between(sample.url) as proxy:

        def vanish(method: str, path: str) -> None:
            if path.startswith("/allocations/"):
                raise OSError("the cloud is gone")

        proxy.on_request = vanish
        failed = targets.run_at(proxy.url, SAVE)
        assert failed.code == 1
        assert "run the same command again to continue" in failed.stderr
        assert not pathlib.Path(CLOUD).exists()
        proxy.on_request = lambda method, path: None
        again = targets.run_at(proxy.url, SAVE, "-f", "json")
    assert json.loads(again.stdout)["continued"] is True
    assert saved(CLOUD) == plain_reading.comparable(plain_reading.read(sample.ask))


def test_a_file_in_use_is_refused(
    sample: targets.Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("osc_placement.server.store.database_file.BUSY_SECONDS", 0.1)
    with staging.Staging(str(PARTIAL)) as file:
        file.begin(snapshot_file.SnapshotMetadata("here", "here", 0.0))
        code, messages = shell.OpenStack(sample).fails(SAVE)
    assert code == 1
    assert f"{PARTIAL} is in use by another process" in messages
    assert save.partial_path(pathlib.Path(CLOUD)) == PARTIAL
