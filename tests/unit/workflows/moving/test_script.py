# SPDX-License-Identifier: Apache-2.0
"""The script of a plan, run by bash as it is written, with a program that plays ``openstack``.

``NOVA`` is the cloud as a file: servers with what is seen at the next looks, and services. Each
``openstack server show`` goes to the next view; a migration that is asked for adds two: it runs,
and it has ended.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from osc_placement.client import transport
from osc_placement.nova import values
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.moving import document, plan as drain_plan, script

OPENSTACK = f"""\
#!{sys.executable} -IS
import fcntl, json, os, signal, sys
lock = open(os.environ["NOVA"] + ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
nova = json.load(open(os.environ["NOVA"]))
words = sys.argv[1:]
command = " ".join(word for word in words if not word.startswith("-"))
nova["calls"].append(" ".join(words))
def save():
    with open(os.environ["NOVA"] + ".new", "w") as file:
        json.dump(nova, file)
    os.replace(file.name, os.environ["NOVA"])
def ended(code=0, *lines):
    save()
    # Killed before the answer arrives, after it was carried out.
    if len(nova["calls"]) == nova["killed"]:
        session = os.getsid(0)
        every = [int(pid) for pid in os.listdir("/proc") if pid.isdigit()]
        for pid in [session] if nova["alone"] else every:
            try:
                if os.getsid(pid) == session and pid != os.getpid():
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    print(*lines, sep="\\n", end="\\n" if lines else "")
    sys.exit(code)
for text, code, why in nova["refused"]:
    if text in nova["calls"][-1]:
        print(why, file=sys.stderr)
        ended(code)
if command.startswith("placement"):
    # A server that moves or waits needs its source.
    there = [s for s in nova["servers"].values() if s]
    left = any(s["host"] == nova["empties"] or s["task"] != "None" or s["next"]
               or s["status"] == "VERIFY_RESIZE" for s in there)
    left = left or nova["services"].get(nova["empties"]) == "enabled"
    if "--verify-back" in words:
        left = nova["gate"]
    ended(3 if left else 0, "a table")
if command.startswith("compute service list"):
    (host,) = [word[7:] for word in words if word.startswith("--host=")]
    if "Disabled Reason" in words:
        ended(0, nova["reason"] if nova["services"][host] == "disabled" else None)
    if "State" in words:
        # The report before the reboot is shown until the next one, at a time that no clock has.
        nova["reports"] += 1
        later = max(nova["reports"] - 2, 0) if nova["returns"] else 0
        ended(0, f"up 2000-01-01T00:00:00.{{later:06}}")
    ended(0, *[nova["services"][host]] if host in nova["services"] else [])
if command.startswith("compute service set"):
    nova["services"][words[-2]] = "enabled" if "--enable" in words else "disabled"
    ended()
name = words[-1].removeprefix("--server=")
server = nova["servers"][name]
if server is None:
    print(f"No Server found for {{name}}", file=sys.stderr)
    ended(1)
if command.startswith("server show"):
    server.update(server["next"].pop(0) if server["next"] else {{}})
    ended(0, server["host"], server["task"], server["status"])
if command.startswith("server migration list"):
    ended(0, *[" ".join(move) for move in reversed(server["moves"])])
if command.startswith("server migration confirm"):
    if server["status"] != "VERIFY_RESIZE" or server["next"]:
        ended(1)
    server["moves"][-1][1] = "confirming"
    moves = [[server["host"], "confirmed", "migration"]]
    server["next"] = [{{}}, {{"status": server["before"], "moves": moves}}]
    ended()
(target,) = [word[7:] for word in words if word.startswith("--host=")]
if server["task"] != "None" or server["status"] == "VERIFY_RESIZE" or server["host"] == target:
    print("Conflict", file=sys.stderr)
    ended(1)
if nova["stale"]:
    nova["stale"] -= 1
    print("No valid host was found.", file=sys.stderr)
    ended(1)
kind = "live-migration" if "--live-migration" in words else "migration"
server["before"] = server["status"]
server["task"] = "migrating" if kind == "live-migration" else "resize_prep"
server["moves"].append([target, "running", kind])
end = {{"task": "None", "host": target, "status": server["status"]}}
state = "completed"
if kind == "migration":
    end["status"], state = "VERIFY_RESIZE", "finished"
end |= server["ends"]
state = end.pop("state", state)
server["next"] = [{{}}, {{**end, "moves": [[target, state, kind]]}}]
server["asked"] += 1
ended()
"""


def move(
    number: int, wave: int, way: str = "live", name: str = "", status: str = ""
) -> document.PlannedMove:
    """A server that leaves ``cmp-1``: of 4 GB, or a large one that moves cold."""
    status = status or ("ACTIVE" if way == "live" else "SHUTOFF")
    is_cold = way == "cold"
    allocations = {"uuid": {"MEMORY_MB": 1_572_864 if is_cold else 4096, "DISK_GB": 20 * is_cold}}
    name = name or f"web {number}"
    target = f"cmp-{number}"
    return document.PlannedMove(
        wave, f"server-{number}", name, way, status, "cmp-1", target, "", allocations
    )


class Cloud:
    """The file of nova, the plan and its script; ``roll`` is the plan of which this is a leg."""

    roll: pathlib.Path | None = None

    def __init__(
        self, folder: pathlib.Path, moves: Sequence[document.PlannedMove], **plan: Any
    ) -> None:
        self.nova, self.plan = folder / "nova.json", folder / "my plan.json"
        self.script, self._folder = folder / "drain.sh", folder
        state = {
            "calls": [],
            "killed": 0,
            "alone": False,
            "refused": [],
            "stale": 0,
            "empties": "cmp-1",
            "gate": False,
            "reports": 0,
            "returns": True,
            "reason": "drain",
            "services": {"cmp-1": "enabled"},
            "servers": {it.server: _server(it) for it in moves},
        }
        self.nova.write_text(json.dumps(state))
        program = folder / "openstack"
        program.write_text(OPENSTACK)
        program.chmod(0o755)
        planned = document.MovePlan(("cmp-1",), ("uuid",), tuple(moves), **plan)
        document.write(self.plan, planned)
        script.write(self.script, planned, self.plan, self.roll)

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.nova.read_text())
        return state

    def change(self, **fields: Any) -> None:
        self.nova.write_text(json.dumps({**self.state, **fields}))

    def change_server(self, number: int, **fields: Any) -> None:
        servers = self.state["servers"]
        servers[f"server-{number}"] |= fields
        self.change(servers=servers)

    def start(self, **environment: str) -> subprocess.Popen[str]:
        """Start the script in a session of its own, without a pause between looks."""
        return subprocess.Popen(
            [str(self.script)],
            env={
                "PATH": f"{self._folder}:{os.environ['PATH']}",
                "NOVA": str(self.nova),
                "pause": "0",
                "retry": "0",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script to its end."""
        started = self.start(**environment)
        output = started.communicate()
        return subprocess.CompletedProcess(started.args, started.returncode, *output)

    def calls(self, *beginnings: str) -> list[str]:
        """The calls since the start, without looks."""
        looks = ("server show", "server migration list", "compute service list")
        return [call for call in self.state["calls"] if not call.startswith(beginnings or looks)]

    def views(self) -> dict[str, tuple[str, str]]:
        return {
            uuid: (server["host"], server["status"])
            for uuid, server in self.state["servers"].items()
            if server
        }


def _server(planned: document.PlannedMove) -> dict[str, Any]:
    return {
        "host": planned.source, "task": "None", "status": planned.status, "moves": [], "next": [],
        "ends": {}, "asked": 0,
    }  # fmt: skip


FOLLOWED = "placement host drain --continue={} --verify-empty"
STOPS = ". The script stops here:\nopenstack placement host drain '--continue={}'\n"


def test_each_server_is_looked_at_and_moved_and_the_host_is_disabled_first(
    tmp_path: pathlib.Path,
) -> None:
    name = f"web {'2' * 36}"
    cloud = Cloud(tmp_path, [move(2, 1, name=name), move(3, 2, "cold"), move(4, 2)])
    done = cloud.run()
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *waves, last = cloud.calls()
    followed = FOLLOWED.format(cloud.plan)
    assert (first, last) == (followed, followed)
    assert second == "compute service set --disable --disable-reason=drain -- cmp-1 nova-compute"
    migrate = "server migrate --os-compute-api-version=2.56"
    assert waves[0] == f"{migrate} --live-migration --host=cmp-2 server-2"
    assert set(waves[1:]) == {
        f"{migrate} --host=cmp-3 server-3",
        "server migration confirm server-3",
        f"{migrate} --live-migration --host=cmp-4 server-4",
    }
    lines = done.stdout.splitlines()
    assert lines[0] == f"wave 1 of 2: {name} -> cmp-2 (4 GB), 1 of 3"
    assert set(lines[1:3]) == {
        "wave 2 of 2: web 3 -> cmp-3 (1536 GB, 20 GB disk), 2 of 3",
        "wave 2 of 2: web 4 -> cmp-4 (4 GB), 3 of 3",
    }
    assert cloud.views() == {
        "server-2": ("cmp-2", "ACTIVE"),
        "server-3": ("cmp-3", "SHUTOFF"),
        "server-4": ("cmp-4", "ACTIVE"),
    }


def test_a_second_run_asks_for_nothing_and_says_so(tmp_path: pathlib.Path) -> None:
    cloud = Cloud(tmp_path, [move(2, 1), move(3, 2, "cold")])
    assert cloud.run().returncode == 0
    cloud.change(calls=[])
    done = cloud.run()
    assert (done.returncode, done.stdout) == (0, "Nothing is left to do\n")
    assert cloud.state["calls"] == [FOLLOWED.format(cloud.plan)]


#: ``{what happened since the plan: (fields of server-2, the end of the script)}``; None for a stop.
SINCE: Mapping[str, tuple[dict[str, Any] | None, str | None]] = {
    "paused": ({"status": "PAUSED"}, "PAUSED"),
    "deleted": (None, ""),
    "there already": ({"host": "cmp-2"}, "ACTIVE"),
    "stopped there": ({"host": "cmp-2", "status": "SHUTOFF"}, "SHUTOFF"),
    "stopped": ({"status": "SHUTOFF"}, None),
    "in ERROR": ({"status": "ERROR"}, None),
    "elsewhere": ({"host": "cmp-9"}, None),
    "moves elsewhere": (
        {"task": "migrating", "moves": [["cmp-9", "running", "live-migration"]]}, None,
    ),
    "moves there": (
        {"task": "migrating", "moves": [["cmp-2", "running", "live-migration"]],
         "next": [{}, {"task": "None", "host": "cmp-2",
                       "moves": [["cmp-2", "completed", "live-migration"]]}]}, "ACTIVE",
    ),
    "there, and its source is not done": (
        {"host": "cmp-2", "moves": [["cmp-2", "running", "live-migration"]],
         "next": [{}, {"moves": [["cmp-2", "completed", "live-migration"]]}]}, "ACTIVE",
    ),
    "resized by its user": (
        {"host": "cmp-2", "status": "VERIFY_RESIZE", "moves": [["cmp-2", "finished", "resize"]]},
        None,
    ),
    "a snapshot is made": (
        {"task": "image_snapshot", "next": [{}, {}, {"task": "None"}]}, "ACTIVE",
    ),
    "a move failed before": ({"moves": [["cmp-2", "error", "live-migration"]]}, "ACTIVE"),
    "the move fails": ({"ends": {"host": "cmp-1", "state": "error"}}, None),
    "the move is cancelled": ({"ends": {"host": "cmp-1", "state": "cancelled"}}, None),
    "the move ends in ERROR": ({"ends": {"status": "ERROR"}}, None),
    "paused while it moves": ({"ends": {"status": "PAUSED"}}, "PAUSED"),
    "stopped while it moves": ({"ends": {"status": "SHUTOFF"}}, "SHUTOFF"),
}  # fmt: skip


@pytest.mark.parametrize("since", SINCE)
@pytest.mark.parametrize("parallel", [False, True])
def test_a_step_is_done_once_or_stops_the_script(
    tmp_path: pathlib.Path, since: str, parallel: bool
) -> None:
    fields, status = SINCE[since]
    moves = [move(2, 1), move(4, 1 if parallel else 2), move(3, 3)]
    cloud = Cloud(tmp_path, moves)
    if fields is None:
        cloud.change(servers={**cloud.state["servers"], "server-2": None})
    else:
        cloud.change_server(2, **fields)
    before = cloud.views().get("server-2")
    done = cloud.run()
    views = cloud.views()
    if status is not None:
        says = "" if fields is not None else "No Server found for server-2\n"
        assert (done.returncode, done.stderr) == (0, says), done
        assert views.get("server-2", ("cmp-2", ""))[:2] == ("cmp-2", status)
        assert views["server-3"] == ("cmp-3", "ACTIVE")
        return
    assert done.returncode == 1
    assert done.stderr.endswith(STOPS.format(cloud.plan))
    assert "web 2 is on " in done.stderr
    assert "planned: live from cmp-1, ACTIVE PAUSED , to cmp-2" in done.stderr
    assert views["server-3"] == ("cmp-1", "ACTIVE")
    assert (views["server-4"][0] == "cmp-4") == parallel
    asks = [call for call in cloud.calls() if "server-2" in call]
    assert bool(asks) == ("move" in since and "elsewhere" not in since), asks
    assert asks or views["server-2"] == before


def test_a_cold_step_is_not_carried_out_on_a_guest_that_runs(tmp_path: pathlib.Path) -> None:
    cloud = Cloud(tmp_path, [move(2, 1, "cold")])
    cloud.change_server(2, status="ACTIVE")
    done = cloud.run()
    assert done.returncode == 1
    assert done.stderr.startswith("web 2 is on cmp-1, ACTIVE, task None")
    assert "planned: cold from cmp-1, SHUTOFF , to cmp-2" in done.stderr
    assert cloud.views() == {"server-2": ("cmp-1", "ACTIVE")}


@pytest.mark.parametrize("state", ["error", "reverted"])
def test_a_move_that_waits_and_failed_is_not_confirmed(tmp_path: pathlib.Path, state: str) -> None:
    cloud = Cloud(tmp_path, [move(2, 1, "cold")])
    cloud.change_server(2, ends={"state": state})
    done = cloud.run()
    assert (done.returncode, "VERIFY_RESIZE" in done.stderr) == (1, True)
    assert not any("confirm" in call for call in cloud.calls())


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ("server migrate", "nova refuses the move: web 2 is on cmp-1"),
        ("migration confirm", "web 2: nova refuses the confirmation"),
        ("compute service list", "cmp-1: nova does not show nova-compute"),
        ("compute service set", "cmp-1: nova does not disable nova-compute"),
        ("server show", "web 2: nova does not show it"),
        ("server migration list", "web 2: nova does not show it"),
    ],
)
def test_the_script_stops_at_a_command_that_fails(
    tmp_path: pathlib.Path, refused: str, says: str
) -> None:
    cloud = Cloud(tmp_path, [move(2, 1, "cold"), move(3, 2)])
    cloud.change(refused=[[refused, 1, "No server is available to handle this request."]])
    done = cloud.run()
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.endswith(STOPS.format(cloud.plan))
    assert cloud.views()["server-3"] == ("cmp-1", "ACTIVE")
    assert len([call for call in cloud.calls() if call.startswith("server migrate")]) <= 1


@pytest.mark.parametrize("way", ["live", "cold"])
def test_a_move_without_a_valid_host_is_asked_for_four_times(
    tmp_path: pathlib.Path, way: str
) -> None:
    """The scheduler learns late that a server of the group has left the target."""
    cloud = Cloud(tmp_path, [move(2, 1, way)])
    cloud.change(stale=4)
    done = cloud.run()
    assert (done.returncode, "nova refuses the move: web 2 is on cmp-1" in done.stderr) == (1, True)
    assert cloud.state["stale"] == 0
    cloud.change(stale=3)
    done = cloud.run()
    assert (done.returncode, cloud.views()["server-2"][0]) == (0, "cmp-2"), done.stderr


def test_no_move_is_waited_for_without_a_limit(tmp_path: pathlib.Path) -> None:
    cloud = Cloud(tmp_path, [move(2, 1), move(3, 2)])
    cloud.change_server(2, ends={"task": "migrating", "state": "running"})
    done = cloud.run(seconds="1")
    assert done.returncode == 1
    assert done.stderr.startswith("web 2: not there after 1 s: web 2 is on ")
    assert not any("server-3" in call for call in cloud.calls())


#: What the plan's command says of another cloud, of a plan that was edited, of hosts that are gone.
@pytest.mark.parametrize("code", [1, 2, 4])
def test_nothing_is_changed_if_the_plan_is_not_of_this_cloud(
    tmp_path: pathlib.Path, code: int
) -> None:
    cloud = Cloud(tmp_path, [move(2, 1)])
    cloud.change(refused=[["placement", code, "the plan is for one cloud, and this is another"]])
    done = cloud.run()
    assert done.returncode == 1
    assert done.stderr.startswith("the plan is for one cloud, and this is another. The script")
    assert len(cloud.state["calls"]) == 1


def test_the_script_selects_the_cloud_of_the_plan(tmp_path: pathlib.Path) -> None:
    identity = transport.Identity("http://placement", "region one")
    cloud = Cloud(tmp_path, [], cloud="it's", identity=identity)
    program = tmp_path / "openstack"
    program.write_text('#!/bin/sh\necho "$OS_CLOUD, $OS_REGION_NAME"\nexit 9\n')
    done = cloud.run(OS_CLOUD="another", OS_REGION_NAME="region two")
    assert done.returncode == 1
    program.write_text('#!/bin/sh\necho "$OS_CLOUD, $OS_REGION_NAME" >&2\nexit 9\n')
    done = cloud.run(OS_CLOUD="another", OS_REGION_NAME="region two")
    assert done.stderr.startswith("it's, region one. The script stops")


def test_a_second_script_of_the_plan_stops_at_once(tmp_path: pathlib.Path) -> None:
    cloud = Cloud(tmp_path, [move(2, 1)])
    program = (tmp_path / "openstack").read_text()
    # The first command of the first script runs the second one.
    (tmp_path / "openstack").write_text(f'#!/bin/sh\nexec "{cloud.script}"\n')
    done = cloud.run()
    assert done.returncode == 1
    assert "Another script of this plan runs. The script stops here:" in done.stderr
    (tmp_path / "openstack").write_text(program)
    assert cloud.run().returncode == 0


@pytest.mark.parametrize("lost", [False, True])
def test_a_script_stops_without_its_plan(tmp_path: pathlib.Path, lost: bool) -> None:
    cloud = Cloud(tmp_path, [move(2, 1)])
    if lost:
        cloud.plan.unlink()
    else:
        document.write(cloud.plan, document.MovePlan(("cmp-1",), ("uuid",), ()))
    done = cloud.run()
    assert done.returncode == 1
    assert ("cannot be read" if lost else "has another plan than this script") in done.stderr
    assert cloud.state["calls"] == []


KILLED = [move(2, 1, "cold"), move(3, 1)]


def killed_and_run_again(folder: pathlib.Path, killed: int, *, alone: bool) -> None:
    """Kill the script after a command, and run it again: every step is asked for once."""
    cloud = Cloud(folder, KILLED)
    cloud.change(killed=killed, alone=alone)
    assert cloud.run().returncode == -9, killed
    # The second run may begin once the steps of the first have ended.
    subprocess.run(["flock", str(cloud.plan), "true"], check=True)
    cloud.change(killed=0)
    done = cloud.run()
    assert (done.returncode, done.stderr) == (0, ""), (killed, done)
    assert cloud.views() == {"server-2": ("cmp-2", "SHUTOFF"), "server-3": ("cmp-3", "ACTIVE")}
    assert [server["asked"] for server in cloud.state["servers"].values()] == [1, 1], killed


@pytest.mark.seeds(2, long=4)
def test_a_script_that_was_killed_in_any_line_can_be_run_again(
    tmp_path: pathlib.Path, seed: int
) -> None:
    clean = Cloud(tmp_path, KILLED)
    assert clean.run().returncode == 0
    for killed in range(1 + seed, len(clean.state["calls"]) + 1, 4):
        killed_and_run_again(tmp_path, killed, alone=False)


def test_the_steps_of_a_killed_script_end_before_it_runs_again(tmp_path: pathlib.Path) -> None:
    for killed in (6, 9, 12):
        killed_and_run_again(tmp_path, killed, alone=True)


@pytest.mark.parametrize("before", [True, False])
def test_a_host_that_somebody_disabled_keeps_its_reason(
    tmp_path: pathlib.Path, before: bool
) -> None:
    disabled = (document.DisabledHost("cmp-1", "broken RAM, ticket 4711"),) * before
    cloud = Cloud(tmp_path, [move(2, 1)], disabled=disabled)
    cloud.change(services={"cmp-1": "disabled"})
    assert cloud.run().returncode == 0
    calls = [call for call in cloud.state["calls"] if "compute service" in call]
    assert all("compute service list" in call for call in calls), calls
    is_named = "# cmp-1 stays disabled: broken RAM, ticket 4711\n" in cloud.script.read_text()
    assert (not calls, is_named) == (before, before)


def test_no_name_ends_a_comment_or_runs(tmp_path: pathlib.Path) -> None:
    name = f"a\ntouch {tmp_path}/evil; $(touch {tmp_path}/evil) '"
    blocked = (document.BlockedServer("server-9", name, name, ("why",)),)
    disabled = (document.DisabledHost("cmp-8", name),)
    cloud = Cloud(tmp_path, [move(2, 1, name=name)], blocked=blocked, disabled=disabled)
    assert cloud.run().returncode == 0
    assert not (tmp_path / "evil").exists()


class Leg(Cloud):
    """A leg of a roll, and a program that plays the reboot."""

    def __init__(self, folder: pathlib.Path, *moves: document.PlannedMove, **plan: Any) -> None:
        self.roll = folder / "roll.json"
        self.record = folder / "roll.json.done"
        super().__init__(folder, moves, **plan)
        program = folder / "reboot"
        program.write_text('#!/bin/sh\necho "$@" >>"$REBOOTS"; exit "${fails:-0}"\n')
        program.chmod(0o755)
        self._reboots = folder / "reboots"

    def start(self, **environment: str) -> subprocess.Popen[str]:
        return super().start(
            **{"REBOOT": "reboot --now", "REBOOTS": str(self._reboots), **environment}
        )

    @property
    def reboots(self) -> str:
        return self._reboots.read_text() if self._reboots.exists() else ""


GATE = "placement host roll --continue={} --verify-back"
ENABLE = "compute service set --enable -- cmp-1 nova-compute"


def test_a_leg_reboots_an_empty_host_and_lets_servers_come_once_it_reports(
    tmp_path: pathlib.Path,
) -> None:
    leg = Leg(tmp_path, move(2, 1))
    done = leg.run()
    assert (done.returncode, done.stderr) == (0, "")
    *_, followed, enabled, gate = leg.calls()
    assert (enabled, gate) == (ENABLE, GATE.format(leg.roll))
    assert followed == FOLLOWED.format(leg.plan)
    assert leg.state["reports"] == 3
    assert (leg.reboots, leg.record.read_text()) == (
        "--now cmp-1\n",
        "rebooted cmp-1\nback cmp-1\n",
    )
    leg.change(calls=[])
    assert leg.run().returncode == 0
    assert (leg.calls(), leg.reboots) == ([GATE.format(leg.roll)], "--now cmp-1\n")


NEXT = "openstack placement host roll '--continue={0}' --next '--plan-out={0}' '--script={1}'"

# fmt: off
LEG_STOPS: Sequence[tuple[dict[str, Any], dict[str, str], str, str]] = [
    ({}, {"REBOOT": ""}, "REBOOT is not set", ""),
    ({}, {"fails": "1"}, "cmp-1: reboot --now failed", ""),
    ({"returns": False}, {"seconds": "0"}, "cmp-1: nova-compute is not back", "rebooted cmp-1\n"),
    ({"gate": True}, {}, "The gate is closed", "rebooted cmp-1\nback cmp-1\n"),
    ({"refused": [["--enable", 1, "no"]]}, {}, "cmp-1: nova does not enable", "rebooted cmp-1\n"),
]
# fmt: on


@pytest.mark.parametrize(("changes", "environment", "why", "record"), LEG_STOPS)
def test_a_leg_stops_and_says_why(
    changes: dict[str, Any],
    environment: dict[str, str],
    why: str,
    record: str,
    tmp_path: pathlib.Path,
) -> None:
    leg = Leg(tmp_path)
    leg.change(services={"cmp-1": "disabled"}, **changes)
    ended = leg.run(**environment)
    assert ended.returncode == 1
    assert why in ended.stderr
    again = NEXT.format(leg.roll, tmp_path)
    assert again.replace("'", "") in ended.stderr.replace("'", "")
    assert (leg.record.read_text() if leg.record.exists() else "") == record
    if record:
        before = leg.reboots
        leg.change(returns=True, gate=False, refused=[])
        assert leg.run().returncode == 0
        assert leg.reboots == before


@pytest.mark.parametrize("reason", ["drain", "broken"])
def test_a_host_of_somebody_else_is_rebooted_and_stays_disabled(
    reason: str, tmp_path: pathlib.Path
) -> None:
    """Disabled before the plan, or since then."""
    disabled = (document.DisabledHost("cmp-1", reason),) * (reason == "drain")
    leg = Leg(tmp_path, disabled=disabled)
    leg.change(services={"cmp-1": "disabled"}, reason=reason)
    assert leg.run().returncode == 0
    assert leg.state["services"] == {"cmp-1": "disabled"}
    assert leg.reboots == "--now cmp-1\n"


@pytest.mark.parametrize("at", range(1, 12))
def test_a_leg_that_is_killed_at_any_call_ends_when_it_runs_again_after_one_reboot(
    at: int, tmp_path: pathlib.Path
) -> None:
    leg = Leg(tmp_path, move(2, 1))
    leg.change(killed=at)
    assert leg.run().returncode == -9
    leg.change(killed=0)
    ended = leg.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert leg.record.read_text() == "rebooted cmp-1\nback cmp-1\n"
    assert leg.reboots == "--now cmp-1\n"
    assert leg.views() == {"server-2": ("cmp-2", "ACTIVE")}


def test_a_reboot_outlives_its_script_and_the_next_run_waits_for_it(tmp_path: pathlib.Path) -> None:
    leg = Leg(tmp_path)
    leg.change(services={"cmp-1": "disabled"})
    talk = tmp_path / "talk"
    os.mkfifo(talk)
    begun = f'echo "$@" >>"$REBOOTS"; echo begun >{talk}; read -r end <{talk}; echo "$end"'
    (tmp_path / "reboot").write_text(f"#!/bin/bash\n{begun}\n")
    with leg.start() as first:
        assert talk.read_text() == "begun\n"
        os.killpg(first.pid, signal.SIGKILL)
    assert (first.returncode, leg.record.read_text()) == (-9, "")
    with leg.start() as second:
        assert second.stdout is not None
        assert second.stdout.readline().endswith("this one waits for its end\n")
        talk.write_text("ended\n")
        assert (second.communicate()[1], second.returncode) == ("", 0)
    assert leg.record.read_text() == "rebooted cmp-1\nback cmp-1\n"
    assert leg.reboots == "--now cmp-1\n"
    assert pathlib.Path(f"{leg.roll}.log").read_text() == "ended\n"


@pytest.mark.parametrize("is_leg", [False, True])
def test_shellcheck_has_nothing_to_say_and_lines_are_short(
    is_leg: bool, tmp_path: pathlib.Path
) -> None:
    moves = [move(2, 1, name="n" * 255), move(3, 1, "cold"), move(4, 2, name="it's")]
    disabled = (document.DisabledHost("cmp-8", "r" * 255),)
    identity = transport.Identity("http://placement", "one")
    cloud: Cloud
    if is_leg:
        cloud = Leg(tmp_path, *moves, cloud="a cloud", identity=identity, disabled=disabled)
    else:
        cloud = Cloud(tmp_path, moves, cloud="a cloud", identity=identity, disabled=disabled)
    checker = pathlib.Path(sys.executable).with_name("shellcheck")
    checked = subprocess.run(
        [str(checker), str(cloud.script)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout) == (0, "")
    own = [line for line in cloud.script.read_text().splitlines() if str(tmp_path) not in line]
    assert max(map(len, own)) <= 120
    assert cloud.script.stat().st_mode & 0o777 == 0o700


def test_the_way_back_enables_the_hosts_that_the_script_disabled() -> None:
    services = [
        values.ComputeService("a"),
        values.ComputeService("b c", is_enabled=False, disabled_reason="drain"),
        values.ComputeService("d", is_enabled=False, disabled_reason="broken RAM"),
        values.ComputeService("e", is_enabled=False, disabled_reason="drain"),
    ]
    hosts = tuple(service.host for service in services)
    disabled = (document.DisabledHost("e", "since May"),)
    plan = document.MovePlan(hosts, hosts, (), disabled=disabled)
    compute = ServerHosts(values.Hosts(compute_services=tuple(services)))
    assert list(script.back_lines(plan, compute)) == [
        "# No server moves back: this only lets new ones come.",
        "openstack compute service set --enable a nova-compute",
        "openstack compute service set --enable 'b c' nova-compute",
        "# d stays disabled: broken RAM",
        "# e stays disabled: since May",
    ]
    enabled_since = document.DisabledHost("a", "repaired")
    former = document.MovePlan(hosts, hosts, (), disabled=(*disabled, enabled_since))
    continued = {host.host for host in drain_plan.disabled(hosts, compute, former)}
    assert continued == {"d", "e"}
