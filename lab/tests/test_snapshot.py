# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a real keystone, placement and nova; the oracle is a plain reading of the API."""

from __future__ import annotations

import functools
import pathlib

import pytest

from lab import database, place
from lab.tests.conftest import SeededCloud
from osc_placement import server
from tests.support import plain_reading

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SAVE = "placement snapshot save cloud.sqlite --with-nova"
FILE = "--os-placement-database cloud.sqlite"


@pytest.fixture
def cloud(seeded_lab: place.Place, tmp_path: pathlib.Path) -> SeededCloud:
    """The seeded lab, saved in cloud.sqlite."""
    database.reset(seeded_lab, database.SEEDED)
    lab_cloud = SeededCloud(seeded_lab, tmp_path)
    lab_cloud.openstack(SAVE)
    return lab_cloud


def test_a_snapshot_equals_a_plain_reading_field_by_field(cloud: SeededCloud) -> None:
    app = server.create_app(str(cloud.folder / "cloud.sqlite"))
    try:
        saved = plain_reading.comparable(app.export())
    finally:
        app.close()
    assert len(saved["providers"]) > 12
    read = plain_reading.read(functools.partial(cloud.ask, "placement"))
    assert saved == plain_reading.comparable(read)
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
    cloud: SeededCloud, command: str
) -> None:
    rows = cloud.rows(f"{FILE} {command}", 0, 3, environment={"OS_CLOUD": ""})
    live = cloud.rows(command, 0, 3)
    assert [row["name"] for row in rows] == [row["name"] for row in live]
    for row in (*rows, *live):
        # The seconds until the command ran.
        row.get("evidence", {}).pop("age", None)
    differing = [row["name"] for row, other in zip(rows, live, strict=True) if row != other]
    assert rows
    assert set(differing) <= LIMITS
