"""The lab (see tests/support/lab) as fixtures, and the ``openstack`` command led to it.

A lab that runs already is used and left running; one that does not is started, and ended
with the tests. Their states are put back to what ``tools/lab seed`` saved, if it did.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.lab import database, lifecycle, place, process


@pytest.fixture(scope="session")
def lab() -> Iterator[place.Place]:
    """Keystone and placement; what the tests leave there is forgotten."""
    with _up(("keystone", "placement")) as found:
        yield found


@pytest.fixture(scope="session")
def seeded_lab() -> Iterator[place.Place]:
    """Nova as well, with the hosts and servers of tests/support/lab/seed."""
    with _up(()) as found:
        if not lifecycle.is_seeded(found):
            lifecycle.seed(found, hosts=12, servers=60)
        database.reset(found, database.SEEDED)
        yield found


@contextlib.contextmanager
def _up(services: Sequence[str]) -> Iterator[place.Place]:
    found = place.find()
    started = lifecycle.up(found, services)
    try:
        yield found
    finally:
        if database.SEEDED in database.saved(found):
            database.reset(found, database.SEEDED)
        process.stop(found, started)


@contextlib.contextmanager
def embedded_server(lab: place.Place) -> Iterator[str]:
    """The embedded server with ``--auth keystone``, where the lab's catalog says; its URL."""
    port, config = str(lab.port("embedded")), str(lab.path("etc", "embedded.conf"))
    words = ["--auth", "keystone", "--config-file", config, "--port", port]
    with lab.path("log", "embedded.out").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "osc_placement.server", *words],
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
    """The ``openstack`` command, a process each time, with the lab's clouds.yaml.

    ``where`` is how the clouds begin whose catalog names this placement: ``lab``,
    ``embedded``, or ``empty``, which names none.
    """

    def __init__(self, lab: place.Place, folder: pathlib.Path, where: str) -> None:
        self._lab = lab
        self._folder = folder
        self.where = where
        self.url = lab.url("embedded" if where == "embedded" else "placement")

    def run(
        self, words: str, who: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """The outcome of a command; ``who`` asks is the end of a cloud's name."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
        named = {
            "HOME": str(self._folder),
            "OS_CLOUD": self.where + who,
            "OS_CLIENT_CONFIG_FILE": str(self._lab.path("clouds.yaml")),
            **environment,
        }
        return subprocess.run(
            [pathlib.Path(sys.executable).with_name("openstack"), *words.split()],
            env={**kept, **{name: value for name, value in named.items() if value}},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def __call__(self, words: str, who: str = "") -> Any:
        """What a successful command hands back."""
        outcome = self.run(f"{words} -f json", who)
        assert outcome.returncode == 0, outcome.stderr
        return json.loads(outcome.stdout or "null")

    def refused(self, words: str, who: str = "", **environment: str) -> str:
        """The one line that a command which fails says."""
        outcome = self.run(words, who, **environment)
        assert outcome.returncode == 1, outcome.stdout
        assert outcome.stdout == ""
        (line,) = outcome.stderr.splitlines()
        return line


@pytest.fixture(params=["lab", "embedded"])
def openstack(
    request: pytest.FixtureRequest, lab: place.Place, tmp_path: pathlib.Path
) -> Iterator[OpenStack]:
    """``openstack`` against an empty placement: the real one, and the embedded server."""
    if request.param == "embedded":
        with embedded_server(lab):
            yield OpenStack(lab, tmp_path, "embedded")
    else:
        database.reset(lab, database.EMPTY, "placement")
        yield OpenStack(lab, tmp_path, "lab")
