# SPDX-License-Identifier: Apache-2.0
"""The tests of openstacksdk for Placement pass on the reference server as on the real one."""

from __future__ import annotations

import json
import os
import subprocess
import uuid

import pytest
import yaml

from lab import install, place
from lab.tests.conftest import OpenStack

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

#: The numbers of tests of each release, and of those that it skips everywhere: the oldest release
#: that setup.cfg allows, and the newest.
TESTS = {"4.5.0": (4, 1), "4.22.0": (8, 0)}
#: What the tests import besides openstacksdk.
LIBRARIES = ("testtools", "fixtures", "oslotest")

#: Their variables that name a cloud.
CLOUDS = (
    "OS_CLOUD",
    "OPENSTACKSDK_DEMO_CLOUD",
    "OPENSTACKSDK_DEMO_CLOUD_ALT",
    "OPENSTACKSDK_OPERATOR_CLOUD",
    "OPENSTACKSDK_SYSTEM_ADMIN_CLOUD",
)


def without_nova(lab: place.Place, openstack: OpenStack) -> str:
    """A clouds.yaml for the tests, which look for a flavor and an image first."""
    clouds = yaml.safe_load(lab.path("clouds.yaml").read_text())["clouds"]
    cloud = clouds[openstack.cloud] | {"has_compute": False, "has_image": False}
    path = openstack.folder / "clouds.yaml"
    path.write_text(yaml.safe_dump({"clouds": {openstack.cloud: cloud}}))
    return str(path)


def add_server(openstack: OpenStack) -> None:
    """A host, and a server of the project on it: the tests expect a cloud that is in use."""
    token = openstack("token issue")
    host = openstack("resource provider create host")["uuid"]
    openstack(f"resource provider inventory set {host} --resource VCPU=8 --resource MEMORY_MB=64")
    openstack(
        f"--os-placement-api-version 1.38 resource provider allocation set {uuid.uuid4()}"
        f" --allocation rp={host},VCPU=1 --project-id {token['project_id']}"
        f" --user-id {token['user_id']} --consumer-type INSTANCE"
    )


@pytest.mark.parametrize("release", TESTS)
def test_the_tests_of_a_release_pass(release: str, lab: place.Place, openstack: OpenStack) -> None:
    packages = (f"openstacksdk=={release}", *LIBRARIES)
    python = install.environment(lab, f"sdk-{release}", packages)
    add_server(openstack)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS")}
    variables = dict.fromkeys(CLOUDS, openstack.cloud)
    completed = subprocess.run(
        [python, "-P", "-W", "ignore", str(place.HERE / "sdk_tests.py")],
        env={**kept, **variables, "OS_CLIENT_CONFIG_FILE": without_nova(lab, openstack)},
        cwd=openstack.folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout.splitlines()[-1])
    assert result["failed"] == [], completed.stderr
    assert (result["run"], len(result["skipped"])) == TESTS[release]
