# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a real keystone, placement and nova; the oracle is a plain reading of the API."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import requests

from lab import database, identity, place
from lab.tests import conftest
from osc_placement import server
from tests.support import plain_reading

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SAVE = "placement snapshot save cloud.sqlite --with-nova"
FILE = "--os-placement-database cloud.sqlite"


class Cloud:
    """A seeded lab, saved in cloud.sqlite, and requests to its placement."""

    def __init__(self, lab: place.Place, folder: pathlib.Path) -> None:
        self.lab, self.folder = lab, folder
        self.openstack = conftest.OpenStack(lab, folder, "lab")
        self.token = identity.Keystone(lab).token
        self._session = requests.Session()
        self._session.trust_env = False

    def send(self, url: str) -> requests.Response:
        headers = {"x-auth-token": self.token, "openstack-api-version": "placement 1.39"}
        answer = self._session.get(url, headers=headers)
        answer.raise_for_status()
        return answer

    def ask(self, method: str, path: str) -> Any:
        assert method == "GET"
        return self.send(self.lab.url("placement", path)).json()

    def on_file(self, command: str) -> Any:
        """The rows of a command that runs on the file alone."""
        outcome = self.openstack.run(f"{FILE} {command} -f json", OS_CLOUD="")
        assert outcome.returncode in (0, 3), outcome.stderr
        return json.loads(outcome.stdout)

    def live(self, command: str) -> Any:
        outcome = self.openstack.run(f"{command} -f json")
        assert outcome.returncode in (0, 3), outcome.stderr
        return json.loads(outcome.stdout)


@pytest.fixture
def cloud(seeded_lab: place.Place, tmp_path: pathlib.Path) -> Cloud:
    database.reset(seeded_lab, database.SEEDED)
    lab_cloud = Cloud(seeded_lab, tmp_path)
    lab_cloud.openstack(SAVE)
    return lab_cloud


def test_a_snapshot_equals_a_plain_reading_field_by_field(cloud: Cloud) -> None:
    app = server.create_app(str(cloud.folder / "cloud.sqlite"))
    try:
        saved = plain_reading.comparable(app.export())
    finally:
        app.close()
    assert len(saved["providers"]) > 12
    assert saved == plain_reading.comparable(plain_reading.read(cloud.ask))
    assert cloud.openstack.run("placement snapshot diff cloud.sqlite live").returncode == 0


#: Servers whose answers a recording does not have: the file does not write ports, and does not
#: know which volume of a server with an image is its root disk.
LIMITS = {"po-one", "po-only", "rs-bfv-image"}


@pytest.mark.parametrize(
    "command",
    [
        "placement allocation audit",
        "placement allocation heal --dry-run",
        "placement aggregate mirror --dry-run --prune",
    ],
)
def test_a_command_gives_the_answers_of_the_cloud_on_the_file_alone(
    cloud: Cloud, command: str
) -> None:
    rows, live = cloud.on_file(command), cloud.live(command)
    assert [row["name"] for row in rows] == [row["name"] for row in live]
    differing = [row["name"] for row, other in zip(rows, live, strict=True) if row != other]
    assert rows
    assert set(differing) <= LIMITS
