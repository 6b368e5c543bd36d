# SPDX-License-Identifier: Apache-2.0
"""The clean-up of one-time-use devices of the user guide, with real services."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from lab import place
from lab.tests.test_heal import Lab, reset
from tests.support import guide

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CLASS = "CUSTOM_BAREMETAL_GOLD"
#: A device that a server of the seeded state has, and a free one.
IN_USE, UNUSED = "bm-2", "bm-3"


@pytest.fixture
def lab(seeded_lab: place.Place, tmp_path: pathlib.Path) -> Iterator[Lab]:
    """Used-up devices: one that a server has, and one as after a server is deleted."""
    reset(seeded_lab)
    made = Lab(seeded_lab, tmp_path)
    for device in (IN_USE, UNUSED):
        made.openstack.do(f"resource provider trait add {device} --trait HW_PCI_ONE_TIME_USE")
    amend = "resource provider inventory amend --resource"
    made.openstack.do(f"{amend} {CLASS}:reserved=1 {IN_USE} {UNUSED} --allow over-capacity")
    yield made
    reset(seeded_lab)


def reserved(lab: Lab) -> dict[str, int]:
    states = {}
    for device in (IN_USE, UNUSED):
        path = f"/resource_providers/{lab.providers()[device]['uuid']}/inventories"
        states[device] = lab.ask("placement", "GET", path)["inventories"][CLASS]["reserved"]
    return states


def clean_up() -> tuple[str, str, str]:
    """The three commands of the guide."""
    text = (guide.DOCS / "user" / "batch" / "recipes.rst").read_text()
    section = text.partition("Clean one-time-use devices")[2].partition("Find the devices")[2]
    lines = section.partition("Add a trait to all hosts")[0].replace("\\\n", " ").splitlines()
    commands = [line.strip().removeprefix("$ ") for line in lines if line.startswith("    ")]
    find, clean, release = (
        next(line for line in commands if line.startswith(first))
        for first in ("openstack resource", "xargs", "openstack placement plan apply")
    )
    return find, clean, release


def test_the_guide_releases_a_used_up_device_and_keeps_one_in_use(lab: Lab) -> None:
    find, clean, release = clean_up()
    folder = lab.openstack.folder
    cleaner, log = folder / "clean-device", folder / "cleaned"
    cleaner.write_text(f'#!/bin/sh\necho "$1" >> {log}\n')
    cleaner.chmod(0o755)
    command, _, file = find.removeprefix("openstack ").partition(" > ")
    (folder / file).write_text(lab.openstack.run(command).stdout)
    clean = clean.replace("/usr/local/sbin/clean-device", str(cleaner))
    subprocess.run(["sh", "-c", clean], cwd=folder, check=True, timeout=60)
    assert log.read_text() == f"{UNUSED}\n"
    lab.openstack.do(release.removeprefix("openstack "))
    assert reserved(lab) == {IN_USE: 1, UNUSED: 0}


def test_a_device_in_use_is_not_released_without_the_guard(lab: Lab) -> None:
    amend = f"resource provider inventory amend {IN_USE} --resource {CLASS}:reserved=0"
    refused = lab.openstack.run(amend)
    assert (refused.returncode, "one-time-use" in refused.stdout) == (6, True), refused
    assert reserved(lab)[IN_USE] == 1
    lab.openstack.do(f"{amend} --allow one-time-use")
    assert reserved(lab)[IN_USE] == 0
