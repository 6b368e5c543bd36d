# SPDX-License-Identifier: Apache-2.0
"""A host whose nova-compute is down is no target, with a real keystone, nova and placement."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from lab import database, place
from lab.tests import conftest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

DOWN = "cmp-0012"
PROVIDER = "cmp-0012.lab.example.org"


def answer(openstack: conftest.OpenStack, command: str) -> tuple[int, Any]:
    outcome = openstack.run(f"{command} -f json")
    return outcome.returncode, json.loads(outcome.stdout)


def test_a_host_that_is_forced_down_is_not_counted(
    seeded_lab: place.Place, tmp_path: pathlib.Path
) -> None:
    database.reset(seeded_lab, database.SEEDED)
    openstack = conftest.OpenStack(seeded_lab, tmp_path, "lab")
    show = "placement capacity show --resource VCPU=1 --by host"
    before = {row["part"]: row["fits"] for row in answer(openstack, show)[1]}
    set_down = "--os-compute-api-version 2.53 compute service set --down"
    assert openstack.run(f"{set_down} {DOWN} nova-compute").returncode == 0
    rows = {row["part"]: row for row in answer(openstack, show)[1]}
    assert (before[PROVIDER] > 0, rows[PROVIDER]["fits"]) == (True, 0)
    assert rows[PROVIDER]["not_counted"] == [
        {"host": PROVIDER, "reason": "nova-compute forced down"}
    ]
    for host in ("cmp-0001", "cmp-0004"):
        verdict = answer(openstack, f"placement host check {host}")[1]
        assert PROVIDER in {row["host"] for row in verdict["not_counted"]}
    code, facts = answer(openstack, "allocation candidate explain --resource VCPU=1")
    assert code == 0
    assert PROVIDER not in {row["host"] for row in facts if row["section"] == "candidate"}
    assert PROVIDER in {row["host"] for row in facts if row["section"] == "not counted"}
