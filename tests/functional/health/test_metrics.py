# SPDX-License-Identifier: Apache-2.0
"""``placement metrics write`` on every target."""

from __future__ import annotations

import os
import pathlib

import pytest
from prometheus_client import parser

from tests.support.peer import fixtures, shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

WRITE = "placement metrics write"
RECORDED = ("--os-nova-recording", "12-hosts")


def values(text: str) -> dict[str, float]:
    """``{metric{labels}: value}``, without the time."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("timestamp_seconds")
    }


def test_the_cloud_its_snapshot_and_its_textfile_have_the_same_metrics(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    details = ("--trait", "CUSTOM_GOLD", "--projects", "--per-consumer")
    printed = openstack.run(WRITE, *RECORDED, *details)
    assert printed.code == 0, printed
    live = values(printed.stdout)
    assert sum(name.startswith("openstack_placement_resource_total") for name in live) > 30
    assert sum(name.startswith("openstack_placement_findings") for name in live) == 16

    old = os.umask(0o077)
    try:
        written = openstack.run(WRITE, *RECORDED, "--textfile", "p.prom", *details)
    finally:
        os.umask(old)
    assert (written.code, written.stdout) == (0, "")
    assert "metrics written to p.prom" in written.stderr
    assert values(pathlib.Path("p.prom").read_text()) == live
    assert pathlib.Path("p.prom").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in pathlib.Path().glob("*p.prom*")] == ["p.prom"]

    if target.name != "embedded":
        openstack.do("placement snapshot save c.sqlite --with-nova", *RECORDED)
        file = shell.run(["--os-placement-database", "c.sqlite", *WRITE.split(), *details])
        # A snapshot has no quotas.
        assert {
            name: value for name, value in values(file.stdout).items() if "quota" not in name
        } == {name: value for name, value in live.items() if "quota" not in name}


@fixtures.ON_ONE_TARGET
@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("link.prom", "link.prom is a symbolic link, and is not replaced"),
        ("/dev/full", "/dev/full is not a regular file"),
        ("target.prom", "target.prom exists and is not a file of metrics"),
    ],
)
def test_what_cannot_be_written_is_refused(
    file: str, reason: str, openstack: shell.OpenStack
) -> None:
    pathlib.Path("target.prom").write_text("old")
    pathlib.Path("link.prom").symlink_to("target.prom")
    code, text = openstack.fails(WRITE, *RECORDED, "--textfile", file)
    assert (code, reason in text) == (1, True)
    assert pathlib.Path("target.prom").read_text() == "old"
