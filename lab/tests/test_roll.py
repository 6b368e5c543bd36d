# SPDX-License-Identifier: Apache-2.0
"""Every host of a real nova is emptied, rebooted and filled again, leg by leg.

A reboot switches the machine off: a server that is still on the host does not run any more, as its
driver shows. The cloud is that of test_drain::

    LAB_MOVES=/path/to/moves.py pytest -m interop lab/tests/test_roll.py
"""

from __future__ import annotations

import collections
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from lab.tests import test_drain
from lab.tests.test_drain import Cloud

pytestmark = [*test_drain.pytestmark, pytest.mark.timeout(7200)]
cloud = test_drain.cloud

HOSTS = tuple(f"moves-{number}" for number in range(1, 7))
ROLL = "openstack placement host roll"
FILES = "--plan-out roll.json --script legs -f json"
FEW = {"one": ("moves-1",), "two": ("moves-2",), "three": ("moves-4", "--flavor", "medium")}
REBOOT = """\
#!/usr/bin/env bash
set -e
export HOME={home}
echo "$1" >>{log}
{python} {program} stop "$1" --kill --machine
{start}
"""
START = f'{shlex.quote(sys.executable)} {test_drain.PROGRAM} start "$1" --wait'


class Roll:
    """A plan in legs, which is carried out; ``start`` is how a host comes back."""

    def __init__(self, cloud: Cloud, *options: str) -> None:
        self.cloud = cloud
        self._log = cloud.folder / "reboots"
        self.reboots_with(START)
        planned = cloud.bash(f"{ROLL} --all --keep 1 {' '.join(options)} {FILES}")
        assert planned.returncode == 0, planned.stderr
        self.answer = json.loads(planned.stdout)
        assert self.answer["complete"], self.answer

    def reboots_with(self, start: str) -> None:
        """Write the operator's command."""
        path = self.cloud.folder / "reboot"
        path.write_text(
            REBOOT.format(
                home=os.environ["HOME"],
                log=self._log,
                python=sys.executable,
                program=test_drain.PROGRAM,
                start=start,
            )
        )
        path.chmod(0o700)

    @property
    def rebooted(self) -> list[str]:
        """The hosts in the order in which their reboots began."""
        return self._log.read_text().split() if self._log.exists() else []

    def script(self, number: int, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {"REBOOT": "./reboot", "pause": "1", **environment}
        return self.cloud.bash(f"legs/leg-{number:03}.sh", **settings)

    def continued(self, *options: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the answer of ``--continue``."""
        done = self.cloud.bash(f"{ROLL} --continue roll.json {' '.join(options)}")
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def check(self, servers: Mapping[str, object]) -> None:
        """All servers run, groups are kept, and no move failed."""
        truth = json.loads(self.cloud.do("truth"))
        assert {it["name"] for it in truth["servers"].values()} == {*servers}
        groups: dict[str, list[str]] = collections.defaultdict(list)
        for server in truth["servers"].values():
            host = server["nova"]["host"]
            groups[server["name"].partition("-")[0]].append(host)
            is_stopped = server["nova"]["status"] == "SHUTOFF"
            assert is_stopped or server["guest"] == {host: "running"}, server
            assert list(server["allocations"]) == [host], server
            # The scheduler may see too late that a server of a group has left.
            is_grouped = server["name"].startswith(("web", "db"))
            ends = {move["status"] for move in server["migrations"]}
            assert ends - {"completed", "confirmed"} <= ({"error"} if is_grouped else set()), server
        for group in ("web", "db"):
            assert len({*groups[group]}) == len(groups[group]), groups
        assert not truth["allocations_without_server"]

    def moves(self) -> int:
        """How many moves nova carried out."""
        truth = json.loads(self.cloud.do("truth"))
        listed = [it["status"] for at in truth["servers"].values() for it in at["migrations"]]
        print(f"moves: {collections.Counter(listed)}")
        return len(listed) - listed.count("error")


def test_users_boot_servers_meanwhile(cloud: Cloud) -> None:
    uuids = cloud.create(FEW)
    roll = Roll(cloud)
    first, second, third = (leg["hosts"][0] for leg in roll.answer["legs"][:3])
    assert roll.script(1).returncode == 0
    # On a host that was updated a server may stay; one that waits is not empty after its script.
    uuids |= cloud.create({"early": (first,), "late": (second,)})
    done = roll.script(2)
    assert (done.returncode, roll.rebooted) == (3, [first]), done.stderr
    assert "late" in done.stdout, done.stdout
    code, answer = roll.continued(f"--next {FILES}")
    assert (code, answer["legs"][0]["hosts"]) == (0, [second]), answer
    assert "late" in [move["name"] for move in answer["legs"][0]["moves"]]
    done = roll.script(2)
    assert (done.returncode, roll.rebooted) == (0, [first, second]), done.stderr
    roll.check(uuids)
    # The boot of a server has begun on a host before its script disables it.
    cloud.do("hold", third, "spawn")
    with subprocess.Popen(
        [sys.executable, test_drain.PROGRAM, "server", "begun", "--host", third]
    ) as boot:
        cloud.do("held", "--wait", third, "spawn")
        code, answer = roll.continued(f"--next {FILES}")
        (left,) = answer["left"]
        assert (code, left["host"]) == (3, third), answer
        assert left["reasons"][0].startswith("begun: "), left
        cloud.do("release", "--all")
        assert boot.wait(test_drain.LIMIT) == 0
    code, answer = roll.continued(f"--next {FILES}")
    assert (code, answer["left"]) == (0, []), answer
    done = roll.script(3)
    assert done.returncode == 0, done.stderr
    roll.check([*uuids, "begun"])
