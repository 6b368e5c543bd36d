# SPDX-License-Identifier: Apache-2.0
"""``--log-json``: what a long run says about itself."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from osc_placement.plan.progress import ChangeEvent
from osc_placement.v1.output import progress
from tests.support.peer import fixtures, shell, target as targets

AMEND = "resource provider inventory amend --all --resource"

pytestmark = [fixtures.ON_ONE_TARGET, pytest.mark.usefixtures("sample")]


def events(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def test_each_change_is_a_line(openstack: shell.OpenStack) -> None:
    rows = openstack.rows(AMEND, "VCPU:allocation_ratio=3", "--log-json", "log")
    applied = [row["uuid"] for row in rows if row["status"] == "applied"]
    logged = events("log")
    assert sorted(event["change"]["uuid"] for event in logged) == sorted(applied)
    assert {(event["outcome"], event["attempt"]) for event in logged} == {("applied", 1)}
    assert {event["command"] for event in logged} == {"resource provider inventory amend"}
    assert pathlib.Path("log").stat().st_mode & 0o777 == 0o600
    openstack.run(AMEND, "VCPU:allocation_ratio=4", "--log-json", "log")
    assert len(events("log")) == 2 * len(logged)


def test_a_full_disk_does_not_stop_a_run(openstack: shell.OpenStack) -> None:
    done = openstack.run(AMEND, "VCPU:allocation_ratio=3", "--log-json", "/dev/full")
    assert done.code == 0
    assert done.stderr.count("Warning: --log-json /dev/full: No space left on device") == 1


def test_a_log_that_cannot_be_opened_changes_nothing(
    openstack: shell.OpenStack, target: targets.Target
) -> None:
    before = target.inventories()
    code, text = openstack.fails(AMEND, "VCPU:allocation_ratio=3", "--log-json", "missing/log")
    reason = "--log-json missing/log cannot be written: No such file or directory"
    assert (code, reason in text) == (1, True)
    assert target.inventories() == before


def test_migrations_are_logged_too(openstack: shell.OpenStack) -> None:
    run = ("placement migration run", "--migration", "complete_consumers", "--log-json", "log")
    openstack.run(*run, "--os-nova-recording", "12-hosts", "--allow", "recorded-nova")
    assert {event["command"] for event in events("log")} == {"placement migration run"}


HOSTILE = 'a\nb"\\\x1b[31m\u202e🙂\ud800' + "n" * 500


def test_a_name_stays_in_its_line(tmp_path: pathlib.Path) -> None:
    log = progress.EventLog(tmp_path / "log", "a command")
    log.write(ChangeEvent("inventories", "u", HOSTILE, "failed", HOSTILE, "req-1", 3))
    log.close()
    (event,) = events(str(tmp_path / "log"))
    assert (event["change"]["name"], event["reason"]) == (HOSTILE, HOSTILE)
    assert (event["request_id"], event["attempt"]) == ("req-1", 3)
