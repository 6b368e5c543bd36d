# SPDX-License-Identifier: Apache-2.0
"""The script of a drain plan, run by bash with a program that plays ``openstack``."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Mapping, Sequence

import pytest

from osc_placement.workflows.moving import document, script

#: Prints the server's host, task and status as ``openstack server show -f value`` does.
OPENSTACK = """\
#!/bin/sh
printf '%s\\n' "$*" >> "$CALLS"
case "$*" in *"server show"*) for last; do :; done; cat "$SERVERS/$last";; esac
case "$*" in *"$REFUSED"*) exit 1;; esac
case "$*" in *"$HANGS"*) sleep 60;; esac
"""


def move(number: int, wave: int, way: str = "live", name: str = "") -> document.PlannedMove:
    return document.PlannedMove(
        wave, f"server-{number}", name or f"web {number}", way, "cmp-1", f"cmp-{number}", "", {}
    )


def run(
    tmp_path: pathlib.Path,
    moves: Sequence[document.PlannedMove],
    states: Mapping[str, str],
    refused: str = "none",
    hangs: str = "none",
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script; ``states`` is ``{server: host, task, status}`` where not as planned."""
    (tmp_path / "servers").mkdir()
    for each in moves:
        text = states.get(each.server, f"{each.target} None ACTIVE")
        (tmp_path / "servers" / each.server).write_text(text.replace(" ", "\n") + "\n")
    program = tmp_path / "openstack"
    program.write_text(OPENSTACK)
    program.chmod(0o755)
    plan = document.DrainPlan(("cmp-1",), ("uuid",), tuple(moves))
    text = "\n".join(script.lines(plan, "my plan.json"))
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "SERVERS": str(tmp_path / "servers"),
        "REFUSED": refused,
        "HANGS": hangs,
        "seconds": "1" if hangs != "none" else "60",
    }
    done = subprocess.run(
        ["bash", "-c", text], env=environment, capture_output=True, text=True, check=False
    )
    return done, (tmp_path / "calls").read_text().splitlines()


def test_each_step_is_followed_by_a_check_and_the_hosts_are_disabled_first(
    tmp_path: pathlib.Path,
) -> None:
    done, calls = run(tmp_path, [move(2, 1), move(3, 2, "cold")], {})
    assert (done.returncode, done.stderr) == (0, "")
    show = "server show -f value -c OS-EXT-SRV-ATTR:host -c OS-EXT-STS:task_state -c status --"
    assert calls == [
        "compute service set --disable --disable-reason=drain cmp-1 nova-compute",
        "server migrate --os-compute-api-version=2.56 --live-migration --host=cmp-2 --wait"
        " server-2",
        f"{show} server-2",
        "server migrate --os-compute-api-version=2.56 --host=cmp-3 --wait server-3",
        "server migration confirm server-3",
        f"{show} server-3",
        "placement host drain --verify-empty --continue=my plan.json",
    ]


@pytest.mark.parametrize("state", ["cmp-9 None ACTIVE", "cmp-2 None ERROR"])
@pytest.mark.parametrize("parallel", [False, True])
def test_the_script_stops_at_the_first_server_that_is_elsewhere(
    tmp_path: pathlib.Path, state: str, parallel: bool
) -> None:
    moves = [move(2, 1), move(4, 1 if parallel else 2), move(3, 3)]
    done, calls = run(tmp_path, moves, {"server-2": state})
    assert done.returncode == 1
    host, task, status = state.split()
    assert done.stderr == (
        f"web 2 is on {host}, {status}, task {task}; planned: cmp-2. The script stops here:\n"
        "openstack placement host drain '--continue=my plan.json'\n"
    )
    assert not any("server-3" in call for call in calls)
    assert any("server-4" in call for call in calls) == parallel


@pytest.mark.parametrize(
    ("refused", "way"),
    [("server migrate", "live"), ("server migrate", "cold"), ("migration confirm", "cold")],
)
@pytest.mark.parametrize("parallel", [False, True])
def test_the_script_stops_at_a_command_that_fails(
    tmp_path: pathlib.Path, refused: str, way: str, parallel: bool
) -> None:
    moves = [move(2, 1, way), move(4, 1 if parallel else 2, way), move(3, 3)]
    done, calls = run(tmp_path, moves, {}, refused)
    assert done.returncode == 1
    assert "web 2: nova refuses the move. The script stops here:\n" in done.stderr
    assert not any("server-3" in call for call in calls)
    assert any("server-4" in call for call in calls) == parallel


def test_no_move_is_waited_for_without_a_limit(tmp_path: pathlib.Path) -> None:
    done, calls = run(tmp_path, [move(2, 1), move(3, 2)], {}, hangs="server migrate")
    assert done.returncode == 1
    assert done.stderr.startswith("web 2: still moving after 1 s. The script stops here:\n")
    assert not any("server-3" in call for call in calls)


def test_the_script_stops_if_nova_shows_no_server(tmp_path: pathlib.Path) -> None:
    done, calls = run(tmp_path, [move(2, 1), move(3, 2)], {"server-2": ""})
    assert done.returncode == 1
    assert done.stderr.startswith("web 2: nova does not show it. The script stops here:\n")
    assert not any("server-3" in call for call in calls)


def test_no_name_ends_a_comment_or_runs(tmp_path: pathlib.Path) -> None:
    name = f"a\ntouch {tmp_path}/evil; $(touch {tmp_path}/evil) '"
    done, _ = run(tmp_path, [move(2, 1, name=name)], {})
    assert done.returncode == 0
    assert not (tmp_path / "evil").exists()


def test_the_way_back_enables_each_host() -> None:
    plan = document.DrainPlan(("a", "b c"), (), ())
    assert script.back_lines(plan) == [
        "openstack compute service set --enable a nova-compute",
        "openstack compute service set --enable 'b c' nova-compute",
    ]
