"""With real tokens: keystone and openstack-placement from PyPI, found by the catalog."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.peer import process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

CLOUDS = """\
clouds:
  lab: &lab
    region_name: RegionOne
    auth: &auth
      auth_url: {url}/v3
      username: admin
      password: lab
      project_name: admin
      user_domain_id: default
      project_domain_id: default
  wrong:
    <<: *lab
    auth: {{<<: *auth, password: guessed}}
"""


class Cloud:
    """A keystone, a placement that asks it, and ``openstack`` led there by a clouds.yaml."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def run(self, words: str, cloud: str = "lab") -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
        return subprocess.run(
            [pathlib.Path(sys.executable).with_name("openstack"), *words.split()],
            env={**kept, "HOME": str(self._folder), "OS_CLOUD": cloud},
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def do(self, words: str) -> str:
        outcome = self.run(words)
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("cloud")
    keystone, placement = folder / "keystone", folder / "placement"
    keystone.mkdir()
    placement.mkdir()
    with process.running(process.KEYSTONE, keystone) as identity:
        (folder / "clouds.yaml").write_text(CLOUDS.format(url=identity))
        more = {"KEYSTONE_URL": identity}
        with process.running(process.PLACEMENT, placement, "keystone", more) as url:
            made = Cloud(folder)
            made.do("service create --name placement placement")
            made.do(f"endpoint create --region RegionOne placement public {url}")
            yield made


def test_the_catalog_leads_to_placement(cloud: Cloud) -> None:
    made = json.loads(cloud.do("resource provider create host -f json"))
    rows = json.loads(cloud.do("resource provider list -f json"))
    assert [row["uuid"] for row in rows] == [made["uuid"]]


def test_a_batch_tells_which_cloud_it_was_about(cloud: Cloud) -> None:
    cloud.do("resource provider create other")
    outcome = cloud.run("resource provider trait add --create --trait CUSTOM_A --all -f json")
    assert outcome.returncode == 0
    assert "cloud lab" in outcome.stderr
    assert "RegionOne" in outcome.stderr
    assert {row["status"] for row in json.loads(outcome.stdout)} == {"applied"}


def test_a_wrong_password_is_one_line(cloud: Cloud) -> None:
    outcome = cloud.run("resource provider list", cloud="wrong")
    assert outcome.returncode == 1
    assert "HTTP 401" in outcome.stderr
    assert "Traceback" not in outcome.stderr
