# SPDX-License-Identifier: Apache-2.0
"""Three of six hosts are emptied on a real nova, with every end that a move can have.

Nova's scheduler checks the target of each step with its filters. The cloud is that of the program
in ``LAB_MOVES``: six nova-compute ``moves-1`` to ``moves-6``, the first three in zone-a, the others
in zone-b. Its subcommands create servers, hold a move at a point of the driver, and stop services::

    LAB_MOVES=/path/to/moves.py pytest -m interop lab/tests/test_drain.py
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

PROGRAM = os.environ.get("LAB_MOVES", "")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not PROGRAM, reason="LAB_MOVES names no cloud whose servers move"),
]

DRAINED = ("moves-1", "moves-2", "moves-4")
LIMIT = 240.0


class Cloud:
    """The cloud, and ``openstack`` for it; files are in ``folder``."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        text = subprocess.run(
            ["bash", "-c", f"{self.do('env')}\nenv -0"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        self.environment = dict(item.split("=", 1) for item in text.split("\0") if "=" in item)
        self.environment["HOME"] = str(folder)
        programs = str(pathlib.Path(sys.executable).parent)
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"

    def do(self, *arguments: str) -> str:
        """What a subcommand of the program prints."""
        command = [sys.executable, PROGRAM, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def bash(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a script; ``server set --state`` asks before it does so, and is answered yes."""
        return subprocess.run(
            ["bash", "-c", script],
            input="y\n",
            env={**self.environment, **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=1800,
        )

    def begin(self, script: str, **environment: str) -> subprocess.Popen[str]:
        """Start a script."""
        return subprocess.Popen(
            ["bash", "-c", script],
            env={**self.environment, **environment},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def drain(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the answer."""
        done = self.bash(f"openstack placement host drain {' '.join(arguments)} -f json")
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def servers(self) -> Mapping[str, Any]:
        """``{name: status, task, host}`` by nova."""
        listed = json.loads(self.do("truth"))["servers"].values()
        return {
            item["name"]: tuple(item["nova"][key] for key in ("status", "task_state", "host"))
            for item in listed
        }

    def servers_of_nova(self) -> Mapping[str, Any]:
        """``servers`` without a request to Placement."""
        shown = self.bash(
            "openstack server list --all-projects --long -f json"
            " -c Name -c Status -c 'Task State' -c Host"
        )
        keys = ("Status", "Task State", "Host")
        return {item["Name"]: tuple(item[key] for key in keys) for item in json.loads(shown.stdout)}

    def in_database(self, statement: str) -> None:
        """Run a statement in the database of nova's cell."""
        port = int(os.environ.get("LAB_MOVES_PORT", "25000")) + 7
        login = ("--no-defaults", "-h127.0.0.1", f"-P{port}", "-ulab", "-plab")
        subprocess.run(["mariadb", *login, "nova_cell1", "-e", statement], check=True)

    def reset(self, server: str, state: str) -> None:
        """Set the state of a server (UUID), as ``server set --state``."""
        self.do("act", server, json.dumps({"os-resetState": {"state": state}}))

    def create(self, servers: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """Servers ``{name: (host, further options)}``; ``{name: UUID}``."""
        return {
            name: self.do("server", name, "--host", host, *options).splitlines()[-1]
            for name, (host, *options) in servers.items()
        }


def wait(condition: Callable[[], object], what: str) -> None:
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(1)


@pytest.fixture
def cloud(tmp_path: pathlib.Path) -> Iterator[Cloud]:
    """The cloud without servers, every host in service."""
    running = Cloud(tmp_path)
    try:
        yield running
    finally:
        running.do("release", "--all")
        for service in ("placement", "conductor"):
            running.do("start", service)
        for host in (f"moves-{number}" for number in range(1, 7)):
            running.do("start", host, "--wait")
        running.do("delete")
        # What the end of a server left behind is no part of the next story.
        for uuid in json.loads(running.do("truth"))["allocations_without_server"]:
            running.bash(f"openstack resource provider allocation delete {uuid}")
        for host in (f"moves-{number}" for number in range(1, 7)):
            running.do("force-down", host, "--undo")
            running.bash(f"openstack compute service set --enable {host} nova-compute")


class Run:
    """A drain plan that is carried out."""

    def __init__(self, cloud: Cloud, *options: str) -> None:
        self.cloud = cloud
        written = "--plan-out plan.json --script drain.sh"
        self.code, self.answer = cloud.drain(*DRAINED, *options, written)
        self.script = (cloud.folder / "drain.sh").read_text()
        self.targets = {move["name"]: move["to"] for move in self.answer["moves"]}

    def wave(self, number: int) -> str:
        """The script with the steps of one wave alone."""
        head, _, waves = self.script.partition("\nwave=1\n")
        of_wave = f"wave=1\n{waves}".split("wave=")[number]
        return f"{head}\nwave={of_wave.partition('together')[0]}together\n"

    def name_in(self, number: int) -> str:
        """The server of a wave."""
        (name,) = [move["name"] for move in self.answer["moves"] if move["wave"] == number]
        return str(name)

    def states(self) -> dict[str, tuple[str, str]]:
        """``{server: (state, advice)}`` of the steps of the plan."""
        _, now = self.cloud.drain("--continue plan.json")
        return {step["name"]: (step["state"], step["advice"]) for step in now["steps"]}

    def ends(self) -> dict[str, Any]:
        """Continue, carry out the rest; the hosts are empty then. Returns the servers."""
        code, rest = self.cloud.drain("--continue plan.json --plan-out rest.json --script rest.sh")
        assert (code, rest["blocked"]) == (0, []), rest
        done = self.cloud.bash("./rest.sh")
        assert done.returncode == 0, done.stderr
        code, hosts = self.cloud.drain("--continue plan.json --verify-empty")
        assert (code, [host["empty"] for host in hosts["hosts"]]) == (0, [True] * 3), hosts
        servers = self.cloud.servers()
        assert not {host for _, _, host in servers.values()} & {*DRAINED}
        return dict(servers)


def test_a_night(cloud: Cloud) -> None:
    """Paused, started, stopped and resized by their users, and the script killed on its way."""
    uuids = cloud.create(
        {
            "paused": ("moves-1",),
            "cold": ("moves-1",),
            "plain": ("moves-2",),
            "started": ("moves-2",),
            "web-1": ("moves-4", "--group", "web"),
            "web-2": ("moves-2", "--group", "web"),
        }
    )
    for name in ("cold", "started"):
        cloud.do("act", name, '{"os-stop": null}')
    cloud.do("act", "paused", '{"pause": null}')
    wait(lambda: cloud.servers()["paused"][0] == "PAUSED", "paused")
    wait(lambda: cloud.servers()["started"][0] == "SHUTOFF", "stopped")
    wait(lambda: cloud.servers()["cold"][0] == "SHUTOFF", "stopped")
    run = Run(cloud, "--parallel 2")
    assert (run.code, run.answer["complete"]) == (0, True), run.answer
    cloud.do("act", "started", '{"os-start": null}')
    wait(lambda: cloud.servers()["started"][0] == "ACTIVE", "started")
    # A server of the group is in flight when the script is killed.
    for host in (run.targets["web-1"], run.targets["web-2"]):
        cloud.do("hold", host, "pre_live_migration")
    done = cloud.bash("timeout -s KILL 40 ./drain.sh", pause="1")
    assert done.returncode != 0
    cloud.do("release", "--all")
    wait(lambda: cloud.bash("flock -n plan.json true").returncode == 0, "the end of its steps")
    done = cloud.bash("./drain.sh", pause="1")
    # What its user started is not stopped again.
    assert done.returncode == 1
    assert "started is on moves-2, ACTIVE, task None" in done.stderr
    assert cloud.servers()["started"] == ("ACTIVE", None, "moves-2")
    servers = run.ends()
    assert {name: status for name, (status, _, _) in servers.items()} == {
        "paused": "PAUSED", "cold": "SHUTOFF", "plain": "ACTIVE", "started": "ACTIVE",
        "web-1": "ACTIVE", "web-2": "ACTIVE",
    }  # fmt: skip
    assert set(servers) == set(uuids)
    # Somebody enables a host, and the hosts are not empty any more.
    assert cloud.bash("openstack compute service set --enable moves-1 nova-compute").returncode == 0
    code, hosts = cloud.drain("--continue plan.json --verify-empty")
    assert (code, [left["name"] for left in hosts["left"]]) == (3, ["nova-compute"])
    assert cloud.bash(hosts["left"][0]["command"]).returncode == 0
    assert cloud.drain("--continue plan.json --verify-empty")[0] == 0
    _, back = cloud.drain("--continue plan.json --back")
    assert cloud.bash("\n".join(back["back"])).returncode == 0


TWO = {"one": ("moves-1",), "two": ("moves-2", "--flavor", "medium")}


def test_every_step_is_accepted_by_nova_and_the_hosts_are_empty(cloud: Cloud) -> None:
    cloud.create(
        {
            "web-1": ("moves-1", "--group", "web"),
            "web-2": ("moves-2", "--group", "web"),
            "zoned": ("moves-1", "--zone", "zone-a"),
            "cold": ("moves-4", "--flavor", "medium"),
            "large": ("moves-2", "--flavor", "large"),
        }
    )
    cloud.do("act", "cold", '{"os-stop": null}')
    wait(lambda: cloud.servers()["cold"][0] == "SHUTOFF", "stopped")
    run = Run(cloud, "--parallel 2")
    assert (run.code, run.answer["complete"]) == (0, True), run.answer
    assert run.targets["zoned"] == "moves-3"
    assert run.targets["web-1"] != run.targets["web-2"]
    done = cloud.bash(run.script)
    assert done.returncode == 0, done.stderr
    assert {name: host for name, (_, _, host) in cloud.servers().items()} == run.targets
    assert {state for state, _ in run.states().values()} == {"done"}


class HeldStep:
    """A script that is started, whose first live migration waits in the driver of its source."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.run = Run(cloud)
        self.source = self.run.answer["moves"][0]["from"]
        cloud.do("hold", self.source, "live_migration.before")
        self._script = cloud.begin("./drain.sh", pause="1", retry="5")
        wait(self._is_there, "the first migration")

    def _is_there(self) -> bool:
        assert self._script.poll() is None, self._script.communicate()
        return self.source in json.loads(self.cloud.do("held"))

    def end(self) -> tuple[int, str]:
        """Let the migration go on; the exit code of the script, and what it says."""
        self.cloud.do("release", "--all")
        return self.wait()

    def wait(self) -> tuple[int, str]:
        out, error = self._script.communicate(timeout=1200)
        return self._script.returncode, out + error


def test_the_conductor_restarts_while_the_script_runs(cloud: Cloud) -> None:
    cloud.create(TWO)
    step = HeldStep(cloud)
    # The migration goes on while no conductor answers its nova-compute.
    cloud.do("stop", "conductor", "--kill")
    cloud.do("release", "--all")
    cloud.do("start", "conductor")
    code, text = step.wait()
    assert code == 0, text
    assert {name: host for name, (_, _, host) in cloud.servers().items()} == step.run.targets
    assert cloud.drain("--continue plan.json --verify-empty")[0] == 0


def test_placement_restarts_while_the_script_runs(cloud: Cloud) -> None:
    cloud.create(TWO)
    step = HeldStep(cloud)
    cloud.do("stop", "placement")
    # No script begins a step of which it cannot know what was planned.
    done = cloud.bash("./drain.sh")
    assert (done.returncode, "Another script of this plan runs" in done.stderr) == (1, True)
    cloud.do("start", "placement")
    code, text = step.end()
    assert code == 0, text
    assert {name: host for name, (_, _, host) in cloud.servers().items()} == step.run.targets


def test_placement_is_down_when_a_move_ends(cloud: Cloud) -> None:
    """What nova could not remove from the source is shown, with the command that removes it."""
    cloud.create(TWO)
    step = HeldStep(cloud)
    first = step.run.name_in(1)
    cloud.do("stop", "placement")
    cloud.do("release", "--all")
    wait(lambda: cloud.servers_of_nova()[first][1:] == (None, step.run.targets[first]), "the move")
    cloud.do("start", "placement")
    step.wait()
    cloud.bash("./drain.sh", pause="1", retry="5")
    code, state = cloud.drain("--continue plan.json --verify-empty")
    for leftover in state["left"]:
        done = cloud.bash(leftover["command"] + " --min-age 0")
        # 9: repaired.
        assert done.returncode in (0, 9), done.stderr
    code, state = cloud.drain("--continue plan.json --verify-empty")
    assert (code, state["left"]) == (0, [])
    assert set(step.run.ends()) == set(TWO)


def test_the_target_of_the_next_step_is_disabled_while_the_script_runs(cloud: Cloud) -> None:
    cloud.create(TWO)
    step = HeldStep(cloud)
    run = step.run
    name = run.name_in(2)
    target = run.targets[name]
    disable = "openstack compute service set --disable --disable-reason 'broken RAM'"
    assert cloud.bash(f"{disable} {target} nova-compute").returncode == 0
    code, text = step.end()
    assert code == 1, text
    assert f"{name} is on {run.answer['moves'][1]['from']}, ACTIVE" in text
    # Nova refused the move: for a minute, it may still clean up.
    state, advice = run.states()[name]
    assert (state, "wait a minute" in advice) == ("disagrees", True)
    wait(lambda: run.states() == {run.name_in(1): ("done", ""), name: ("waits", "")}, "the minute")
    # The rest is planned without it, and nobody enables it.
    assert run.ends()[name][2] != target
    assert cloud.bash(f"openstack compute service list --host {target} -f value -c Status"
                      " --service nova-compute").stdout.strip() == "disabled"  # fmt: skip


def test_a_live_migration_fails(cloud: Cloud) -> None:
    cloud.create(TWO)
    run = Run(cloud)
    source = run.answer["moves"][0]["from"]
    cloud.do("hold", source, "live_migration.before", "--fail")
    done = cloud.bash(run.script)
    assert done.returncode == 1
    assert f"{run.name_in(1)} is on {source}, ACTIVE" in done.stderr
    assert {state for state, _ in run.states().values()} == {"waits"}
    assert set(run.ends()) == set(TWO)


def test_a_live_migration_hangs(cloud: Cloud) -> None:
    cloud.create(TWO)
    run = Run(cloud)
    source, name = run.answer["moves"][0]["from"], run.name_in(1)
    cloud.do("hold", source, "live_migration.before")
    done = cloud.bash(run.script, seconds="20")
    assert done.returncode == 1
    assert f"{name}: not there after 20 s" in done.stderr
    state, advice = run.states()[name]
    assert (state, "its live-migration is running" in advice) == ("moving", True)
    code, _ = cloud.drain("--continue plan.json --verify-empty")
    assert code == 3
    cloud.do("release", "--all")
    wait(lambda: cloud.servers()[name][1] is None, "the end of the move")
    assert run.states()[name][0] == "done"
    assert run.ends()[name][2] == run.targets[name]


def test_a_target_dies_between_steps(cloud: Cloud) -> None:
    cloud.create(TWO)
    run = Run(cloud)
    done = cloud.bash(run.wave(1))
    assert done.returncode == 0, done.stderr
    name = run.name_in(2)
    dead = run.targets[name]
    cloud.do("stop", dead, "--kill")
    cloud.do("force-down", dead)
    done = cloud.bash(run.wave(2))
    assert done.returncode == 1, done.stdout
    states = {server: state for server, (state, _) in run.states().items()}
    assert states == {run.name_in(1): "done", name: "waits"}
    assert run.ends()[name][2] != dead


def test_users_delete_and_resize_servers_meanwhile(cloud: Cloud) -> None:
    cloud.create({**TWO, "gone": ("moves-4",)})
    run = Run(cloud)
    done = cloud.bash(run.wave(1))
    assert done.returncode == 0, done.stderr
    moved = run.name_in(1)
    deleted, resized = (run.name_in(number) for number in (2, 3))
    cloud.do("delete", deleted)
    flavor = "large"
    cloud.do("act", resized, json.dumps({"resize": {"flavorRef": flavor}}))
    wait(lambda: cloud.servers()[resized][0] == "VERIFY_RESIZE", "the resize")
    states = run.states()
    assert {name: state for name, (state, _) in states.items()} == {
        moved: "done", deleted: "deleted", resized: "confirm"
    }  # fmt: skip
    assert cloud.bash(f"openstack{states[resized][1].partition('openstack')[2]}").returncode == 0
    wait(lambda: cloud.servers()[resized][0] == "ACTIVE", "the confirmation")
    assert set(run.ends()) == {moved, resized}


def test_servers_in_error_before_and_after_the_plan(cloud: Cloud) -> None:
    uuids = cloud.create(TWO)
    cloud.reset(uuids["one"], "error")
    run = Run(cloud)
    assert run.code == 3
    (blocked,) = run.answer["blocked"]
    assert (blocked["name"], list(run.targets)) == ("one", ["two"])
    cloud.reset(uuids["one"], "active")
    run = Run(cloud)
    # The guest runs, and nova says ERROR.
    cloud.reset(uuids["two"], "error")
    assert cloud.bash(run.script).returncode == 1
    state, advice = run.states()["two"]
    assert (state, advice.partition("openstack")[0]) == (
        "error", "the move failed: if the guest runs, "
    )  # fmt: skip
    assert cloud.bash(f"openstack{advice.partition('openstack')[2]}").returncode == 0
    assert set(run.ends()) == set(TWO)


def test_a_migration_is_completed_while_the_server_stays_on_the_source(cloud: Cloud) -> None:
    """Nova 34 sets ERROR if the target dies at this point, so the status is written by hand."""
    (uuid,) = cloud.create({"one": ("moves-1",)}).values()
    run = Run(cloud)
    target = run.targets["one"]
    cloud.do("hold", target, "post_live_migration_at_destination")
    done = cloud.bash(run.script, seconds="20")
    assert done.returncode == 1, done.stdout
    cloud.in_database(f"UPDATE migrations SET status='completed' WHERE instance_uuid='{uuid}'")
    (server,) = json.loads(cloud.do("truth"))["servers"].values()
    assert server["migrations"][0]["status"] == "completed"
    assert cloud.servers()["one"] == ("MIGRATING", "migrating", "moves-1")
    state, advice = run.states()["one"]
    assert (state, "look for the guest on " in advice) == ("disagrees", True)
    code, rest = cloud.drain("--continue plan.json")
    assert (code, rest["moves"], len(rest["blocked"])) == (3, [], 1)
    assert cloud.drain("--continue plan.json --verify-empty")[0] == 3
    cloud.do("release", "--all")
    wait(lambda: cloud.servers()["one"] == ("ACTIVE", None, target), "the end of the move")
    assert run.states()["one"][0] == "done"
    run.ends()


def test_nova_refuses_a_live_migration_to_an_older_hypervisor(cloud: Cloud) -> None:
    cloud.create({"one": ("moves-1",)})
    newer = "UPDATE compute_nodes SET hypervisor_version=hypervisor_version{} WHERE host='moves-1'"
    cloud.in_database(newer.format("+1000000"))
    try:
        code, plan = cloud.drain("moves-1")
        assert (code, plan["moves"]) == (3, [])
        assert "an older hypervisor" in plan["blocked"][0]["reasons"][0]
        live = {"os-migrateLive": {"host": "moves-2", "block_migration": "auto"}}
        cloud.do("act", "one", json.dumps(live))

        def refused() -> bool:
            (server,) = json.loads(cloud.do("truth"))["servers"].values()
            return any(move["status"] == "error" for move in server["migrations"])

        wait(refused, "nova refuses the live migration")
        assert cloud.servers()["one"][1:] == (None, "moves-1")
        # A cold migration goes there.
        cloud.do("act", "one", '{"migrate": {"host": "moves-2"}}')
        wait(lambda: cloud.servers()["one"][0] == "VERIFY_RESIZE", "the cold migration")
    finally:
        cloud.in_database(newer.format("-1000000"))
