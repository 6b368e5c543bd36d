# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the real process at counted moments, and the commands that continue and undo it.

A moment is a step of the journal, or a request that has or has not reached Placement. It is
counted, not timed: a busy machine kills at the same one. ``--long`` makes hundreds of kills.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import multiprocessing.process
import os
import pathlib
import random
import select
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from osc_placement import testing
from tests.support.peer import chaos, forked, loading, process, shell, target as targets
from tests.support.rows import nova_recording

AMEND = "resource provider inventory amend --all --resource VCPU:allocation_ratio"
#: The recordings of nova, which plans do not record, as they do not record the cloud.
NOVA = {
    "placement allocation heal": "12-hosts",
    "placement aggregate mirror": "12-hosts",
    "placement host retire old": "nova.json",
}
COMMANDS = {
    "amend": f"{AMEND}=3",
    "amend by": f"{AMEND}+=2",
    "heal": "placement allocation heal",
    "mirror": "placement aggregate mirror",
    "retire": "placement host retire old",
    "reshape": "placement reshape moves.yaml --name-glob cn* --strategy pack",
}
MOVES = """\
moves:
- {from: $root, resources: {VGPU: all}, to: {name: "gpu-of-${root}", traits: [CUSTOM_VGPU_A]}}
"""
ALLOWED = ("--allow", "recorded-nova")
#: What a finished run ends with: 6 says that a change was refused, as in the sample.
FINISHED = (0, 6)
#: How many kills follow each other before a command may come to its end.
KILLS = 3


class Server(targets.OverHttp):
    """The reference server as a process on a database file, empty at first."""

    def load(self, cloud: targets.Cloud) -> None:
        loading.load(targets.document_of(cloud), self.ask)


@pytest.fixture(params=["server", "placement"])
def target(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    """The reference server on a database file, and openstack-placement on SQLite: processes.

    ``file`` is a database file that each command opens.
    """
    if request.param == "file":
        yield targets.OnFile(tmp_path / "cloud.sqlite")
        return
    if request.param == "placement":
        real: targets.RealPlacement = request.getfixturevalue("real_placement")
        real.reset()
        yield real
        return
    folder = tmp_path / "server"
    folder.mkdir()
    options = ("--legacy-rbac", "--database", str(folder / "placement.sqlite"), "--port")
    command = (sys.executable, "-m", "osc_placement.server", *options)
    with process.running(command, folder) as url:
        yield Server("server", url)


class KilledCommands:
    """Runs commands through a proxy, and kills them at a step of the journal or at a request.

    Without a proxy, they run on the file of ``options``.
    """

    def __init__(
        self,
        proxy: chaos.Proxy | None,
        folder: pathlib.Path,
        seed: object,
        options: Sequence[str] = (),
    ) -> None:
        self.proxy, self.folder = proxy, folder
        self._options = options if proxy is None else targets.admin_options(proxy.url)
        self.chance = random.Random(seed)
        self.kills: collections.Counter[str] = collections.Counter()
        self._counting = threading.Lock()
        self._child: multiprocessing.process.BaseProcess | None = None

    def run(self, command: str, *, at_journal: int = 0) -> shell.Outcome | None:
        """The outcome; None when it was killed."""
        recording = NOVA.get(command)
        nova = ["--os-nova-recording", recording, *ALLOWED] if recording else []
        options = [*self._options, *shlex.split(command)]
        arguments = [*options, *nova, "-f", "json"]
        out = self.folder / "outcome.json"
        out.unlink(missing_ok=True)
        environment = {
            name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        }
        self._child = child = forked.context().Process(
            target=forked.child,
            args=(arguments, environment, str(self.folder), str(out), at_journal),
        )
        child.start()
        child.join(120)
        if self.proxy is not None:
            self.proxy.wait_until_idle()
        if child.exitcode == -signal.SIGKILL:
            return None
        assert child.exitcode == 0
        return shell.Outcome(*json.loads(out.read_text()))

    def kill(self) -> None:
        """Kill the running command, and wait until it is gone."""
        assert self._child is not None
        assert self._child.pid is not None
        with open(os.pidfd_open(self._child.pid)) as process_file:
            signal.pidfd_send_signal(process_file.fileno(), signal.SIGKILL)
            select.select([process_file], [], [])

    def run_killed(self, command: str, writes: int) -> None:
        """Run a command of about so many writes, which is killed at a random moment."""
        kind = self.chance.choice(["journal", "before a request", "after a request"])
        position = self.chance.randint(1, writes + 1)
        if kind == "journal":
            # A write has at least two lines, and a line three steps.
            ended = self.run(command, at_journal=position * 3 + self.chance.randint(0, 2))
        else:
            with self._killing_at(kind, position):
                ended = self.run(command)
        if ended is None:
            self.kills[kind] += 1
        else:
            assert ended.code in FINISHED, ended

    @contextlib.contextmanager
    def _killing_at(self, kind: str, position: int) -> Iterator[None]:
        assert self.proxy is not None
        reads = writes = 0

        def count(method: str, path: str) -> None:
            nonlocal reads, writes
            with self._counting:
                reads, writes = reads + (method == "GET"), writes + (method != "GET")
                # Most of the moments are of writes.
                is_now = reads // 8 + writes == position and (method != "GET" or reads % 8 == 0)
            if is_now:
                self.kill()

        if kind == "before a request":
            self.proxy.on_request = count
        else:
            self.proxy.on_answer = count
        try:
            yield
        finally:
            self.proxy.on_request = self.proxy.on_answer = lambda method, path: None

    def run_killed_at(self, command: str, moment: str, number: int) -> bool:
        """Run a command that is killed at a request, whatever its method; whether it came to it."""
        requests = itertools.count(1)

        def count(method: str, path: str) -> None:
            with self._counting:
                is_now = next(requests) == number
            if is_now:
                self.kill()

        setattr(self.proxy, moment, count)
        try:
            ended = self.run(command)
        finally:
            setattr(self.proxy, moment, lambda method, path: None)
        return ended is None

    def finish(self, command: str) -> shell.Outcome:
        """A command without a kill."""
        ended = self.run(command)
        assert ended is not None
        assert ended.code in FINISHED, ended
        return ended

    def listed(self) -> list[dict[str, Any]]:
        """The plans of ``placement plan list``, the newest first."""
        plans: list[dict[str, Any]] = json.loads(self.finish("placement plan list").stdout)
        return plans


def arrange_old_host(target: targets.Target) -> None:
    """A tree of which nova deleted the compute service, with what evacuations left there."""
    cloud = testing.Cloud("nova-{}")
    cloud.compute("old", VCPU=64, traits=["COMPUTE_NODE"], aggregates=["rack"])
    cloud.child("old", "numa", MEMORY_MB=64).child("numa", "pci", VGPU=32)
    cloud.compute("new", VCPU=64, traits=["COMPUTE_NODE"])
    for name in ("s0", "s1", "s2", "s3"):
        both = {"old": {"VCPU": 3}, "pci": {"VGPU": 1}, "new": {"VCPU": 3}}
        cloud.server(name, both, type="unknown").instance(name, "new", vcpus=3)
        evacuation = {"migration_type": "evacuation", "status": "done"}
        cloud.migration(f"move of {name}", name, "old", "new", **evacuation)
    target.load(cloud.document())
    nova_recording(cloud.delete_service("old").nova())


def arrange(target: targets.Target) -> None:
    """Hosts with a server each, and one that is on two of them."""
    cloud = testing.Cloud()
    for name in ("cn0", "cn1", "cn2", "cn3"):
        cloud.host(name, VCPU=8, VGPU=4)
        cloud.server(f"on {name}", {name: {"VGPU": 1, "VCPU": 1}}, type="unknown")
    cloud.server("on two", {"cn0": {"VGPU": 1}, "cn1": {"VGPU": 1}}, type="unknown")
    target.load(cloud.document())
    pathlib.Path("moves.yaml").write_text(MOVES)


def state(target: targets.Target) -> Any:
    """Providers and consumers; a UUID that a run invents is shown by its name."""
    content = target.state()
    names = {uuid: entry["name"] for uuid, entry in content["providers"].items()}
    text = json.dumps([content["providers"], content["consumers"]], sort_keys=True)
    for uuid, name in names.items():
        text = text.replace(uuid, name)
    return json.loads(text)


def continuation(commands: KilledCommands, command: str) -> str | None:
    """What the list of plans says to do next: None if the newest one has ended."""
    plans = commands.listed()
    written = commands.proxy is not None and bool(commands.proxy.effective_writes)
    if not plans:
        assert not written, "a change is in no list"
        return command
    # The newest one may have been killed before its first change.
    assert any(plan["undoable"] for plan in plans) or not written
    return str(plans[0]["to_continue"]).removeprefix("openstack ") or None


def forget_plans(folder: pathlib.Path) -> None:
    for path in (folder / "home").rglob("*.json*"):
        path.unlink()


def undo_all(commands: KilledCommands, writes: int) -> None:
    """Undo every plan of the list, the newest first; each is killed on the way."""
    for plan in commands.listed():
        if not plan["undoable"]:
            continue
        undo = str(plan["to_undo"]).removeprefix("openstack ")
        for _ in range(KILLS if writes else 0):
            commands.run_killed(undo, writes)
        commands.finish(undo)


def on_targets(places: Mapping[str, str]) -> pytest.MarkDecorator:
    """``{value: its target}``, with --long also on the other one."""
    values = [
        pytest.param(target, value, marks=() if target == place else pytest.mark.long)
        for value, place in places.items()
        for target in ("server", "placement")
    ]
    return pytest.mark.parametrize(("target", "value"), values, indirect=["target"])


#: Where a command runs without --long: what a request does is the same on both. The others run in
#: ``tests/unit/plan/test_kills_of_workflows``.
PLACES = {**dict.fromkeys(COMMANDS, ""), "heal": "placement", "reshape": "server"}


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(600)
@pytest.mark.seeds(1, long=40)
@on_targets(PLACES)
def test_a_killed_command_is_continued_and_undone(
    value: str,
    target: targets.OverHttp,
    tmp_path: pathlib.Path,
    seed: int,
) -> None:
    if value == "reshape":
        arrange(target)
    elif value == "retire":
        arrange_old_host(target)
    else:
        target.load("12-hosts")
    forget_plans(tmp_path)
    command, before = COMMANDS[value], state(target)
    lost = 0.1 * (seed % 2)
    with chaos.between(target.url, lose_after=lost, seed=seed) as proxy:  # type: ignore[attr-defined]
        commands = KilledCommands(proxy, tmp_path, f"{value} {seed}")
        commands.finish(command)
        after, writes = state(target), sum(proxy.effective_writes.values())
        assert after != before
        undo_all(commands, 0)
        assert state(target) == before
        forget_plans(tmp_path)

        proxy.effective_writes.clear()
        for number in range(KILLS + 1):
            rest = continuation(commands, command)
            if rest is not None:
                commands.run_killed(rest, writes) if number < KILLS else commands.finish(rest)
        assert state(target) == after
        undo_all(commands, writes)
        assert state(target) == before
    assert commands.kills


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(1200)
@on_targets({"on_request": "", "on_answer": "server"})
def test_a_retirement_may_be_killed_at_each_request(
    value: str,
    target: targets.OverHttp,
    tmp_path: pathlib.Path,
    pytestconfig: pytest.Config,
) -> None:
    """Before and after Placement has each request; without ``--long``, some of them."""
    arrange_old_host(target)
    forget_plans(tmp_path)
    command, before = COMMANDS["retire"], state(target)
    with chaos.between(target.url) as proxy:  # type: ignore[attr-defined]
        commands = KilledCommands(proxy, tmp_path, value)
        commands.finish(command)
        after = state(target)
        undo_all(commands, 0)
        kills = 0
        for number in itertools.count(1, 1 if pytestconfig.getoption("long") else 17):
            forget_plans(tmp_path)
            proxy.effective_writes.clear()
            if not commands.run_killed_at(command, value, number):
                break
            kills += 1
            rest = continuation(commands, command)
            if rest is not None:
                commands.finish(rest)
            assert state(target) == after, number
            undo_all(commands, 0)
            assert state(target) == before, number
        assert kills > 1


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("target", ["file"], indirect=True)
@pytest.mark.parametrize("name", ["heal", "retire"])
def test_a_command_on_a_file_may_be_killed_at_each_step_of_its_journal(
    name: str,
    openstack: shell.OpenStack,
    target: targets.Target,
    tmp_path: pathlib.Path,
    pytestconfig: pytest.Config,
) -> None:
    """Before and after each write to the file; without ``--long``, at some of the steps."""
    database = tmp_path / "cloud.sqlite"
    if name == "retire":
        arrange_old_host(target)
    else:
        target.load("12-hosts")
    command, before, saved = COMMANDS[name], state(target), database.read_bytes()
    commands = KilledCommands(None, tmp_path, name, target.options)
    commands.finish(command)
    after = state(target)
    assert after != before
    kills = 0
    for step in itertools.count(1, 1 if pytestconfig.getoption("long") else 13):
        forget_plans(tmp_path)
        database.write_bytes(saved)
        ended = commands.run(command, at_journal=step)
        if ended is not None:
            break
        kills += 1
        rest = continuation(commands, command)
        if rest is not None:
            commands.finish(rest)
        assert state(target) == after, step
        undo_all(commands, 0)
        assert state(target) == before, step
    assert kills > 1
