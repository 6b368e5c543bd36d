# SPDX-License-Identifier: Apache-2.0
"""A drain plan as a script of ``openstack`` commands, which stops at the first surprise. Pure.

``openstack server migrate --wait`` ends with 0 also if the migration failed. So after each step
the script looks where the server is.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Sequence

from osc_placement.workflows.answers.drain.document import DrainPlan, PlannedMove

_SERVICE = "openstack compute service set"
_MIGRATE = "openstack server migrate --os-compute-api-version=2.56"

_HEAD = """\
#!/usr/bin/env bash
set -euo pipefail
# arrived SERVER HOST NAME: wait up to 60 s for the end of the move; stop unless it is there.
arrived() {
    local host status task
    for _ in $(seq 30); do
        { read -r host; read -r task; read -r status; } < <(openstack server show -f value \\
            -c OS-EXT-SRV-ATTR:host -c OS-EXT-STS:task_state -c status -- "$1")
        if [ "$task" = None ] && [ "$status" != VERIFY_RESIZE ]; then break; fi
        sleep 2
    done
    if [ "$host" = "$2" ] && [ "$task" = None ] && [ "$status" != ERROR ]; then return; fi
    echo "$3 is on $host, $status, task $task; planned: $2. The script stops here:" >&2
    echo "$resume" >&2
    exit 1
}
"""


def lines(plan: DrainPlan, path: str) -> Iterator[str]:
    """The lines of the script; ``path`` is that of the plan, for the line to continue with."""
    resume = f"openstack placement host drain {shlex.quote(f'--continue={path}')}"
    yield from _HEAD.splitlines()
    yield f"resume={shlex.quote(resume)}"
    for host in plan.hosts:
        yield f"{_SERVICE} --disable --disable-reason=drain -- {shlex.quote(host)} nova-compute"
    for number, moves in itertools.groupby(plan.moves, key=lambda move: move.wave):
        wave = list(moves)
        yield f"# Wave {number}: {', '.join(_comment(move.name) for move in wave)}"
        yield from _wave(wave)
    for server in plan.blocked:
        yield f"# Stays on {_comment(server.host)}: {server.server} ({_comment(server.name)})"
    yield resume.replace("--continue=", "--verify --continue=")


def back_lines(plan: DrainPlan) -> list[str]:
    """The commands that bring the hosts back into service."""
    return [f"{_SERVICE} --enable -- {shlex.quote(host)} nova-compute" for host in plan.hosts]


def command(move: PlannedMove) -> str:
    """The command that begins a step."""
    live = " --live-migration" if move.way == "live" else ""
    host = shlex.quote(f"--host={move.target}")
    return f"{_MIGRATE}{live} {host} --wait -- {move.server}"


def _wave(moves: Sequence[PlannedMove]) -> Iterator[str]:
    if len(moves) == 1:
        yield _step(moves[0])
        return
    yield "jobs=()"
    for move in moves:
        yield f"{{ {_step(move)}; }} & jobs+=($!)"
    yield 'for job in "${jobs[@]}"; do wait "$job"; done'


def _step(move: PlannedMove) -> str:
    confirm = (
        "" if move.way == "live" else f" && openstack server migration confirm -- {move.server}"
    )
    name = shlex.quote(move.name or move.server)
    return f"{command(move)}{confirm} && arrived {move.server} {shlex.quote(move.target)} {name}"


def _comment(name: str) -> str:
    """A name that cannot end the comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
