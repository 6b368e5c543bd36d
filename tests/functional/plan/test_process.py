# SPDX-License-Identifier: Apache-2.0
"""``openstack`` as a separate process."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tests.support.peer import target as targets

OPENSTACK = pathlib.Path(sys.executable).with_name("openstack")


@pytest.fixture
def home(tmp_path: pathlib.Path) -> dict[str, str]:
    """An environment without the user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
    return {**kept, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


def openstack(home: dict[str, str], line: str, **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [OPENSTACK, *line.split()],
        env={**home, **more},
        cwd=home["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
    )


def clouds(folder: str, url: str, more: str = "") -> None:
    """A clouds.yaml with one cloud, ``lab``."""
    text = f"""\
    clouds:
      lab:
        auth_type: admin_token
        auth:
          endpoint: {url}
          token: admin
        {more}
    """
    pathlib.Path(folder, "clouds.yaml").write_text(textwrap.dedent(text))


@pytest.mark.parametrize("target", ["loopback", "placement"], indirect=True)
def test_a_cloud_is_found_in_clouds_yaml(target: targets.OverHttp, home: dict[str, str]) -> None:
    clouds(home["HOME"], target.url)
    made = openstack(home, "--os-cloud lab resource provider create host")
    assert (made.returncode, made.stderr) == (0, "")
    shown = openstack(home, "--os-cloud lab resource provider list -f json")
    assert [row["name"] for row in json.loads(shown.stdout)] == ["host"]


def test_v_shows_the_phases_and_items_of_a_run(
    home: dict[str, str], tmp_path: pathlib.Path
) -> None:
    cloud = targets.OnFile(tmp_path / "cloud.sqlite")
    cloud.load("12-hosts")
    command = "resource provider inventory amend --resource VCPU:allocation_ratio=2 --name-glob"
    database = str(tmp_path / "cloud.sqlite")
    shown = openstack(home, f"-v {command} cmp-0001.*", OSC_PLACEMENT_DATABASE=database).stderr
    assert "1 providers match '--name-glob=cmp-0001.*'" in shown
    assert "inventories cmp-0001.lab.example.org: applied" in shown
    quiet = openstack(home, f"{command} cmp-0002.*", OSC_PLACEMENT_DATABASE=database).stderr
    assert "1 applied" in quiet
    assert "providers match" not in quiet


def test_a_file_that_is_not_a_database_is_not_changed(home: dict[str, str]) -> None:
    file = pathlib.Path(home["HOME"], "notes.txt")
    file.write_text("not a database, but important\n" * 50)
    before = file.read_bytes()
    outcome = openstack(home, "resource provider list", OSC_PLACEMENT_DATABASE=str(file))
    assert outcome.returncode == 1
    assert str(file) in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert file.read_bytes() == before
