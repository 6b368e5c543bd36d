# SPDX-License-Identifier: Apache-2.0
"""Plans of batch commands are applied and undone on every target."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from tests.support.peer import shell, target as targets

pytestmark = pytest.mark.usefixtures("sample")

AGGREGATE = "04223a25-417d-580c-a706-c4cd6aa4087d"
HOSTS = ("cmp-0007.lab.example.org", "cmp-0008.lab.example.org")
AMEND = "resource provider inventory amend"
TRAIT = "resource provider trait"


def status_of(listed: list[Any]) -> dict[str, str]:
    return {row["name"]: row["status"] for row in listed}


def test_undo_restores_everything(openstack: shell.OpenStack, target: targets.Target) -> None:
    before = target.state()["providers"]
    for number, arguments in enumerate(
        [
            (AMEND, "--all", "--resource", "VCPU:total*=2", "--resource", "MEMORY_MB:reserved+=9"),
            (AMEND, *HOSTS, "--resource", "CUSTOM_X:total=4", "--create"),
            (f"{TRAIT} add", "--all", "--trait", "CUSTOM_NEW", "--create"),
            (f"{TRAIT} remove", "--required", "CUSTOM_RACK_A", "--trait", "CUSTOM_RACK_A"),
            (
                "resource provider aggregate add",
                "--name-glob",
                "cmp-*",
                "--aggregate",
                "5f6c1c8e-5a80-4a4c-9b8e-0f2c9ad3a001",
            ),
            ("resource provider aggregate remove", "--all", "--aggregate", AGGREGATE),
        ]
    ):
        undo = str(pathlib.Path(f"undo-{number}.json").absolute())
        listed = openstack.rows(*arguments, "--undo-out", undo)
        taken = openstack.rows("placement plan undo", undo)
        applied = {name for name, status in status_of(listed).items() if status == "applied"}
        assert applied
        assert status_of(taken) == dict.fromkeys(applied, "applied")
    assert target.state()["providers"] == before


def test_the_summary_names_the_target_and_the_undo_command(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    outcome = openstack.run(f"{TRAIT} add", "--trait", "CUSTOM_RACK_A", *HOSTS)
    assert outcome.code == 0
    where = target.url if isinstance(target, targets.OverHttp) else target.options[1]
    if target.name == "offline":
        where = f"the database of {where}"
    assert f"On {where}" in outcome.stderr
    assert openstack.run(f"--quiet {TRAIT} add", "--trait", "CUSTOM_RACK_A", *HOSTS).stderr == ""
