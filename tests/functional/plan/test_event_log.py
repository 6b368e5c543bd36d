# SPDX-License-Identifier: Apache-2.0
"""``--log-json``: what a long run says about itself."""

from __future__ import annotations

import json
import pathlib
import resource
from collections.abc import Callable, Iterator
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


@pytest.fixture
def room() -> Iterator[Callable[[int], None]]:
    """Limits how long a file of this process may be; 0 for no limit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or before[0], before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_a_full_disk_cut_off_does_not_take_the_next_one_with_it(
    tmp_path: pathlib.Path, room: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"

    def write(log: progress.EventLog, *names: str) -> None:
        for name in names:
            log.write(ChangeEvent("inventories", "u", name, "applied", "", "", 1))

    for number in range(2):
        log = progress.EventLog(path, "a command")
        write(log, f"{number} whole")
        room(path.stat().st_size + 40)
        write(log, f"{number} cut", f"{number} lost")
        room(0)
        if number:
            write(log, "1 in the same run")
        log.close()
    log = progress.EventLog(path, "a command")
    write(log, "2 in the next run")
    log.close()
    lines = path.read_text().splitlines()
    is_whole = [line.endswith("}") for line in lines]
    assert is_whole == [True, False, True, False, True, True]
    names = [json.loads(line)["change"]["name"] for line in lines if line.endswith("}")]
    assert names == ["0 whole", "1 whole", "1 in the same run", "2 in the next run"]
    # One warning for each run.
    assert capsys.readouterr().err.count("the last line is not complete; the run continues") == 2


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
