# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the lab (see lab), and the ``openstack`` command for it.

The tests use a running lab and leave it running; otherwise they start one and stop it at the
end. They restore the state that ``tools/lab seed`` saved, if there is one.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import requests

from lab import database, identity, lifecycle, nova_manage, place, process


@pytest.fixture(scope="session")
def lab() -> Iterator[place.Place]:
    """Keystone and placement; discards what the tests write there."""
    with _up(("keystone", "placement")) as running:
        yield running


@pytest.fixture(scope="session")
def seeded_lab() -> Iterator[place.Place]:
    """Also nova, with the hosts and servers of lab/seed."""
    with _up(()) as running:
        if not lifecycle.is_seeded(running):
            lifecycle.seed(running, hosts=12, servers=60)
        database.reset(running, database.SEEDED)
        yield running


@pytest.fixture
def cloud(request: pytest.FixtureRequest, seeded_lab: place.Place, tmp_path: pathlib.Path) -> Any:
    """The seeded lab before any test wrote there, as the ``Cloud`` of the test's module."""
    database.reset(seeded_lab, database.SEEDED)
    return request.module.Cloud(seeded_lab, tmp_path)


@pytest.fixture(scope="module")
def healed(seeded_lab: place.Place) -> dict[str, nova_manage.Healed]:
    """``{server name: the result of nova-manage for it}``"""
    seed = json.loads(seeded_lab.path("seed.json").read_text())
    names = {fields["uuid"]: name for name, fields in seed["servers"].items()}
    results = nova_manage.heal_each(seeded_lab, names)
    return {names[uuid]: outcome for uuid, outcome in results.items()}


@contextlib.contextmanager
def _up(services: Sequence[str]) -> Iterator[place.Place]:
    running = place.find()
    started = lifecycle.up(running, services)
    try:
        yield running
    finally:
        if database.SEEDED in database.saved(running):
            database.reset(running, database.SEEDED)
        process.stop(running, started)


@contextlib.contextmanager
def embedded_server(lab: place.Place) -> Iterator[str]:
    """Run the reference server with ``--auth keystone`` at the URL of the lab's catalog."""
    port, config = str(lab.port("embedded")), str(lab.path("etc", "embedded.conf"))
    arguments = ["--auth", "keystone", "--config-file", config, "--port", port]
    with lab.path("log", "embedded.out").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "osc_placement.server", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert server.stdout is not None
    try:
        assert server.stdout.readline().strip() == lab.url("embedded"), f"see {log.name}"
        yield lab.url("embedded")
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


class OpenStack:
    """Runs ``openstack`` as a process with the lab's clouds.yaml.

    ``cloud`` is the prefix of the cloud's name: ``lab``, ``embedded``, or ``empty``, whose
    catalog has no placement.
    """

    def __init__(self, lab: place.Place, folder: pathlib.Path, cloud: str) -> None:
        self.folder = folder
        self.cloud = cloud
        self.clouds = lab.path("clouds.yaml")
        self.url = lab.url("embedded" if cloud == "embedded" else "placement")

    def run(
        self, command: str, user: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """The completed command; ``user`` is the suffix of the cloud's name."""
        words = [str(pathlib.Path(sys.executable).with_name("openstack")), *command.split()]
        return self._run(words, user, environment)

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """The completed script of a shell, in which ``openstack`` is this command."""
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        return self._run(["bash", "-c", script], "", {"PATH": path})

    def _run(
        self, words: Sequence[str], user: str, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
        named = {
            "HOME": str(self.folder),
            "OS_CLOUD": self.cloud + user,
            "OS_CLIENT_CONFIG_FILE": str(self.clouds),
            **environment,
        }
        return subprocess.run(
            words,
            env={**kept, **{name: value for name, value in named.items() if value}},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def do(self, command: str, user: str = "") -> str:
        """The output of a command that must succeed."""
        outcome = self.run(command, user)
        assert outcome.returncode == 0, outcome
        return outcome.stdout

    def __call__(self, command: str, user: str = "") -> Any:
        """The JSON output of a command that must succeed."""
        return json.loads(self.do(f"{command} -f json", user) or "null")

    def refused(self, command: str, user: str = "", **environment: str) -> str:
        """The one error line of a command that must fail."""
        outcome = self.run(command, user, **environment)
        assert outcome.returncode == 1, outcome.stdout
        assert outcome.stdout == ""
        (line,) = outcome.stderr.splitlines()
        return line


class SeededCloud:
    """The seeded lab: requests of an admin to its services, and the ``openstack`` command."""

    def __init__(self, lab: place.Place, folder: pathlib.Path) -> None:
        self.lab, self.folder = lab, folder
        self.openstack = OpenStack(lab, folder, "lab")
        self.seed: Any = json.loads(lab.path("seed.json").read_text())
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["x-auth-token"] = identity.Keystone(lab).token
        self._session.headers["openstack-api-version"] = "compute 2.53, placement 1.39"

    def ask(self, service: str, method: str, path: str, body: Any = None) -> Any:
        """The JSON response of a request that must succeed."""
        answer = self._session.request(method, self.lab.url(service, path), json=body)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def rows(
        self, command: str, *codes: int, environment: Mapping[str, str] = {}
    ) -> list[dict[str, Any]]:
        """The rows of a command that ends with one of these codes, 0 by default."""
        ended = self.openstack.run(f"{command} -f json", **environment)
        assert ended.returncode in (codes or (0,)), ended
        listed: list[dict[str, Any]] = json.loads(ended.stdout)
        return listed


@pytest.fixture(params=["lab", "embedded"])
def openstack(
    request: pytest.FixtureRequest, lab: place.Place, tmp_path: pathlib.Path
) -> Iterator[OpenStack]:
    """``openstack`` with an empty placement: the real one, and the reference server."""
    if request.param == "embedded":
        with embedded_server(lab):
            yield OpenStack(lab, tmp_path, "embedded")
    else:
        database.reset(lab, database.EMPTY, "placement")
        yield OpenStack(lab, tmp_path, "lab")
