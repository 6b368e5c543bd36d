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
import random
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
BY_SCRIPT = "nova-compute is disabled: drain"
FILES = "--plan-out roll.json --script legs -f json"
FEW = {"one": ("moves-1",), "two": ("moves-2",), "three": ("moves-4", "--flavor", "medium")}
#: Twenty servers, and the groups and zones of some of them.
TWENTY: Mapping[str, tuple[str, ...]] = {
    **{f"web-{at}": (host, "--group", "web") for at, host in enumerate(HOSTS[:4])},
    **{f"db-{at}": (host, "--group", "db") for at, host in enumerate(HOSTS[3:])},
    "zoned": ("moves-1", "--zone", "zone-a"),
    "large": ("moves-2", "--flavor", "large"),
    "medium": ("moves-5", "--flavor", "medium"),
    "cold": ("moves-3",),
    **{f"small-{at}": (HOSTS[at % 6],) for at in range(9)},
}
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

    def carry_out_all(self, answer: Mapping[str, Any]) -> None:
        """Carry out all legs, each planned when the one before is done."""
        while answer["legs"]:
            done = self.script(answer["legs"][0]["leg"])
            assert done.returncode == 0, done.stderr
            code, answer = self.continued(f"--next {FILES}")
            assert code == 0, answer

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


def test_every_host_is_emptied_once_by_the_moves_of_the_plan(cloud: Cloud) -> None:
    more = cloud.bash("openstack quota set --instances 40 --cores 100 --ram 100000 admin")
    assert more.returncode == 0, more.stderr
    uuids = cloud.create(TWENTY)
    cloud.do("act", "cold", '{"os-stop": null}')
    test_drain.wait(lambda: cloud.servers()["cold"][0] == "SHUTOFF", "stopped")
    roll = Roll(cloud, "--at-once 1", "--parallel 2")
    assert (len(roll.answer["legs"]), len(uuids)) == (6, 20)
    asked_again = 0
    for leg in roll.answer["legs"]:
        done = roll.script(leg["leg"])
        assert done.returncode == 0, done.stdout + done.stderr
        asked_again += done.stdout.count(": asked again in ")
        moved = roll.moves()
        roll.check(uuids)
        again = roll.script(leg["leg"])
        assert (again.returncode, roll.moves()) == (0, moved), again.stderr
    assert sorted(roll.rebooted) == [*HOSTS]
    assert roll.moves() == roll.answer["moves"]
    print({name: roll.answer[name] for name in ("at_least", "moves", "moves_per_server")})
    print(f"asked again: {asked_again}")
    # Nothing is left to do.
    code, answer = roll.continued("-f json")
    assert (code, answer["complete"], answer["legs"]) == (0, True, [])


def test_a_host_that_does_not_come_back_closes_the_gate(cloud: Cloud) -> None:
    """It is left out, and comes back later: disabled, then enabled by its script."""
    uuids = cloud.create(FEW)
    roll = Roll(cloud)
    (dead,) = roll.answer["legs"][0]["hosts"]
    roll.reboots_with("true")
    done = roll.script(1, seconds="15")
    assert (done.returncode, f"{dead}: nova-compute is not back" in done.stderr) == (1, True), (
        done.stdout + done.stderr
    )
    cloud.do("force-down", dead)
    for options in ("--verify-back -f json", f"--next {FILES}"):
        code, answer = roll.continued(options)
        (closed,) = answer["not_back"]
        assert (code, closed["host"]) == (3, dead)
        assert closed["reason"].startswith("nova-compute is down"), closed
    done = roll.script(1, seconds="15")
    assert done.returncode == 1, done.stdout
    assert roll.rebooted == [dead]
    # It is repaired, and nobody has enabled it.
    cloud.do("force-down", dead, "--undo")
    cloud.do("start", dead, "--wait")
    code, answer = roll.continued("--verify-back -f json")
    (closed,) = answer["not_back"]
    assert (code, closed["reason"]) == (3, BY_SCRIPT)
    done = roll.script(1)
    assert done.returncode == 0, done.stderr
    assert roll.continued("--verify-back -f json")[0] == 0
    # The next one stays away, and the others are updated without it.
    (lost,) = roll.answer["legs"][1]["hosts"]
    done = roll.script(2, seconds="60")
    assert (done.returncode, f"{lost}: nova-compute is not back" in done.stderr) == (1, True), (
        done.stdout + done.stderr
    )
    cloud.do("force-down", lost)
    roll.reboots_with(START)
    code, answer = roll.continued(f"--skip {lost} --next {FILES}")
    assert (code, [leg["leg"] for leg in answer["legs"]]) == (0, [3, 4, 5, 6]), answer
    targets = {move["to"] for leg in answer["legs"] for move in leg["moves"]}
    assert lost not in targets
    roll.carry_out_all(answer)
    # It is repaired, and takes servers again: nothing is left to do.
    cloud.do("start", lost, "--wait")
    cloud.do("force-down", lost, "--undo")
    cloud.bash(f"openstack compute service set --enable {lost} nova-compute")
    code, answer = roll.continued("-f json")
    assert (code, answer["complete"], answer["legs"]) == (0, True, [])
    assert sorted(roll.rebooted) == [*HOSTS]
    roll.check(uuids)


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


def test_scripts_that_are_killed_are_run_again_or_planned_anew(cloud: Cloud) -> None:
    """A kill of the script and all that it started at 20 random points."""
    uuids = cloud.create(FEW)
    roll = Roll(cloud)
    choose = random.Random(56)
    script, kills, anew, refused = "legs/leg-001.sh", 0, 0, 0
    while script:
        limit = f"timeout -s KILL {choose.uniform(1, 30):.1f}" if kills < 20 else ""
        done = cloud.bash(f"{limit} {script} >>out.txt 2>&1", REBOOT="./reboot", pause="1")
        assert done.returncode in (0, -9, 137), (cloud.folder / "out.txt").read_text()
        kills += done.returncode != 0
        if done.returncode and choose.random() < 0.5:
            continue
        # A reboot goes on; until it ends, nothing is planned.
        early = cloud.bash(f"{ROLL} --continue roll.json")
        refused += "or a reboot that it began" in early.stderr
        cloud.bash("flock roll.json.done true")
        test_drain.wait(
            lambda: {task for _, task, _ in cloud.servers().values()} == {None}, "the moves"
        )
        code, answer = roll.continued(f"--next {FILES}")
        if code == 3:
            # Killed between the reboot and the end: the script enables the host.
            assert {host["reason"] for host in answer["not_back"]} == {BY_SCRIPT}
            continue
        anew += 1
        assert code == 0, answer
        script = next(iter(answer["scripts"]), "")
    print(f"{kills} kills, planned anew {anew} times, refused {refused} times")
    assert sorted(roll.rebooted) == [*HOSTS]
    roll.check(uuids)
