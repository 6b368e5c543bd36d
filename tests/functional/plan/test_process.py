# SPDX-License-Identifier: Apache-2.0
"""``openstack`` as a separate process, and with the settings of its environment."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tests.support.peer import shell, target as targets

OPENSTACK = pathlib.Path(sys.executable).with_name("openstack")


@pytest.fixture
def home(tmp_path: pathlib.Path) -> dict[str, str]:
    """An environment without the user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
    return {**kept, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


def openstack(home: dict[str, str], line: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [OPENSTACK, *line.split()],
        env=home,
        cwd=home["HOME"],
        capture_output=True,
        text=True,
        timeout=60,
    )


def clouds(folder: str, url: str) -> None:
    """A clouds.yaml with one cloud, ``lab``."""
    text = f"""\
    clouds:
      lab:
        auth_type: admin_token
        auth:
          endpoint: {url}
          token: admin
    """
    pathlib.Path(folder, "clouds.yaml").write_text(textwrap.dedent(text))


@pytest.mark.parametrize("target", ["loopback"], indirect=True)
def test_a_cloud_is_found_in_clouds_yaml(target: targets.OverHttp, home: dict[str, str]) -> None:
    clouds(home["HOME"], target.url)
    made = openstack(home, "--os-cloud lab resource provider create host")
    assert (made.returncode, made.stderr) == (0, "")
    shown = openstack(home, "--os-cloud lab resource provider list -f json")
    assert [row["name"] for row in json.loads(shown.stdout)] == ["host"]


def test_v_shows_the_phases_and_items_of_a_run(tmp_path: pathlib.Path) -> None:
    cloud = targets.OnFile(tmp_path / "cloud.sqlite")
    cloud.load("12-hosts")
    amend = "resource provider inventory amend --resource VCPU:allocation_ratio=2 --name-glob"
    shown = shell.run(["-v", *cloud.options, *amend.split(), "cmp-0001.*"]).stderr
    assert "1 providers match '--name-glob=cmp-0001.*'" in shown
    assert "inventories cmp-0001.lab.example.org: applied" in shown
    quiet = shell.run([*cloud.options, *amend.split(), "cmp-0002.*"]).stderr
    assert "1 applied" in quiet
    assert "providers match" not in quiet


def test_a_file_that_is_not_a_database_is_not_changed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but important\n" * 50)
    before = file.read_bytes()
    monkeypatch.setenv("OSC_PLACEMENT_DATABASE", str(file))
    outcome = shell.run(["resource", "provider", "list"])
    assert outcome.code == 1
    assert str(file) in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert file.read_bytes() == before
