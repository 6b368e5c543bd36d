# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the real process at random moments, and the run that continues.

A round has up to eight kills. ``--long`` makes more than a hundred kills; ``--junitxml`` with
``-o junit_family=xunit1`` records how many.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.peer import chaos, fixtures, forked, shell, target as targets

AMEND = "resource provider inventory amend --all --resource VCPU:allocation_ratio"


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[targets.Target]:
    yield from fixtures.embedded("loopback", tmp_path)


class KilledCommands:
    """Runs commands, and kills them some milliseconds after their n-th request."""

    def __init__(self, proxy: chaos.Proxy, folder: pathlib.Path, seed: int) -> None:
        self.proxy, self.folder = proxy, folder
        self.chance = random.Random(seed)
        self.kills = 0

    def run(
        self, command: str, *, kill: bool = False, interrupt_at: int = 0
    ) -> shell.Outcome | None:
        """The outcome, None when it was killed.

        ``interrupt_at`` sends Ctrl-C's signal at that write instead.
        """
        arguments = [*targets.admin_options(self.proxy.url), *command.split(), "-f", "json"]
        out = self.folder / "outcome.json"
        out.unlink(missing_ok=True)
        environment = {
            name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
        }
        process = forked.CONTEXT.Process(
            target=forked.child, args=(arguments, environment, str(self.folder), str(out))
        )
        left = self.chance.randint(1, 30) if kill else interrupt_at
        sign = signal.SIGKILL if kill else signal.SIGINT

        def end(pid: int, sign: signal.Signals) -> None:
            if process.is_alive():
                os.kill(pid, sign)

        def count(method: str, path: str) -> None:
            nonlocal left
            left -= kill or method != "GET"
            if left == 0 and (kill or method != "GET") and process.pid:
                moment = self.chance.uniform(0, 0.01) if kill else 0
                threading.Timer(moment, end, (process.pid, sign)).start()

        self.proxy.on_request = count
        process.start()
        process.join(60)
        self.proxy.on_request = lambda method, path: None
        if process.exitcode == -signal.SIGKILL:
            self.kills += 1
            return None
        return shell.Outcome(*json.loads(out.read_text()))

    def finish(self, command: str, kills: int) -> shell.Outcome:
        """Kill the command up to ``kills`` times, then let it come to its end."""
        for _ in range(kills):
            self.run(command, kill=True)
        ended = self.run(command)
        assert ended is not None
        assert ended.code == 0, ended
        return ended


def ratios(target: targets.Target) -> dict[str, float]:
    return {
        name: found["VCPU"]["allocation_ratio"]
        for name, found in target.inventories().items()
        if "VCPU" in found
    }


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(300)
@pytest.mark.seeds(1, long=24)
def test_a_killed_run_continues_without_repeated_changes(
    target: targets.Target,
    tmp_path: pathlib.Path,
    seed: int,
    record_property: Callable[[str, object], None],
) -> None:
    target.load("12-hosts")
    before = ratios(target)
    with chaos.between(target.url, delay=0.002, lose_after=0.1, seed=seed) as proxy:  # type: ignore[attr-defined]
        commands = KilledCommands(proxy, tmp_path, seed)
        commands.finish(f"{AMEND}=3", 2)
        assert set(ratios(target).values()) == {3.0}

        commands.finish(f"{AMEND}+=2 --dry-run --plan-out plan.json", 0)
        proxy.effective_writes.clear()
        commands.finish("placement plan apply plan.json", 3)
        assert set(ratios(target).values()) == {5.0}
        assert set(proxy.effective_writes.values()) == {1}
        assert len(proxy.effective_writes) == len(before)

        proxy.effective_writes.clear()
        commands.finish("placement plan undo plan.json", 3)
        assert set(ratios(target).values()) == {3.0}
        assert set(proxy.effective_writes.values()) == {1}
        record_property("kills", commands.kills)
        assert commands.kills >= 3


@pytest.mark.usefixtures("openstack")
@pytest.mark.timeout(300)
def test_an_interrupted_run_reports_changes_and_can_continue(
    target: targets.Target, tmp_path: pathlib.Path
) -> None:
    target.load("12-hosts")
    with chaos.between(target.url, delay=0.01) as proxy:  # type: ignore[attr-defined]
        commands = KilledCommands(proxy, tmp_path, 0)
        outcome = commands.run(
            f"{AMEND}+=2 --os-placement-workers 2 --plan-out plan.json", interrupt_at=4
        )
        assert outcome is not None
        assert outcome.code == 130
        found = [row["status"] for row in json.loads(outcome.stdout)]
        assert found.count("applied") == sum(proxy.effective_writes.values())
        assert found.count("planned") > 0
        assert "placement plan apply plan.json" in outcome.stderr
        commands.finish("placement plan apply plan.json", 0)
        assert set(proxy.effective_writes.values()) == {1}
