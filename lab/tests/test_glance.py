# SPDX-License-Identifier: Apache-2.0
"""The images that a real glance shows: their properties, and every page of them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import openstack as openstacksdk
import pytest

from lab import install, place
from osc_placement.nova import api, flavors
from tests.support.peer import process

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

CONFIGURATION = """\
[DEFAULT]
use_keystone_limits = false
[database]
connection = sqlite:///{folder}/glance.sqlite
[paste_deploy]
flavor =
config_file = {paste}
[glance_store]
stores = file
default_store = file
filesystem_store_datadir = {folder}
[oslo_policy]
enforce_scope = false
enforce_new_defaults = false
"""
PROPERTIES = {
    "hw_tpm_version": "2.0",
    "hw_firmware_type": "uefi",
    "os_secure_boot": "required",
    "trait:CUSTOM_A": "required",
    "img_hide_hypervisor_id": "true",
}


def call(url: str, body: Any = None) -> Any:
    """A request to glance; a POST with a body."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
        return json.loads(answer.read())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("glance")
    lab = place.find()
    packages = ("glance", "gunicorn", "setuptools<81")
    python = pathlib.Path(install.environment(lab, "glance", packages))
    paste = python.parents[1] / "etc" / "glance" / "glance-api-paste.ini"
    conf = folder / "glance-api.conf"
    conf.write_text(CONFIGURATION.format(folder=folder, paste=paste))
    manage = str(python.with_name("glance-manage"))
    lab.run(manage, "--config-file", str(conf), "db", "sync", OS_GLANCE_CONFIG_DIR=str(folder))
    port = process.free_port()
    with (folder / "out").open("w") as out:
        server = subprocess.Popen(
            [str(python), "-P", str(place.HERE / "glance.py"), str(port), str(folder)],
            env={**lab.environment(), "OS_GLANCE_CONFIG_DIR": str(folder)},
            stdout=out,
            stderr=out,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while True:
        assert server.poll() is None
        assert time.monotonic() < until
        try:
            call(f"{address}/v2/images")
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
        else:
            return


def test_the_properties_of_each_image_are_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"container_format": "bare", "disk_format": "qcow2"}
    call(f"{url}/v2/images", {**made, "name": "with-tpm", **PROPERTIES})
    for number in range(4):
        call(f"{url}/v2/images", {**made, "name": f"plain-{number}"})
    call(f"{url}/v2/images", made)
    connection = openstacksdk.connection.Connection(
        auth_type="none", endpoint=url, image_endpoint_override=url
    )
    # Six images are three pages.
    monkeypatch.setattr(api, "PAGE", 2)
    images = {item.name: item for item in flavors.images(flavors.SessionGlance(connection))}
    assert len(images) == 6
    assert {item.disk_format for item in images.values()} == {"qcow2"}
    read = images["with-tpm"].properties
    assert {name: read.get(name) for name in PROPERTIES} == PROPERTIES
    assert images["plain-0"].properties.keys().isdisjoint(PROPERTIES)
    # Without a name an image has its ID.
    assert [item.name for item in images.values() if item.name == item.id]
