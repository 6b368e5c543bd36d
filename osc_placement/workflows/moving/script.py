# SPDX-License-Identifier: Apache-2.0
"""A drain plan as a script of ``openstack`` commands, which stops at the first surprise. Pure.

``openstack server migrate --wait`` ends with 0 also if the migration failed, and never if it
hangs. So each step has a limit (``seconds``, an hour unless the environment sets it), and after it
the script looks where the server is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from osc_placement.model import command_line
from osc_placement.workflows.moving.document import DrainPlan, PlannedMove

_VERSION = ("--os-compute-api-version", "2.56")

_HEAD = """\
#!/usr/bin/env bash
set -euo pipefail
# The longest time for one move.
seconds=${seconds:-3600}
stop() {
    echo "$1. The script stops here:" >&2
    echo "$resume" >&2
    exit 1
}
# failed EXIT-CODE NAME: stop because a move was refused, or took too long.
failed() {
    if [ "$1" = 124 ]; then stop "$2: still moving after $seconds s"; fi
    stop "$2: nova refuses the move"
}
# arrived SERVER HOST NAME: wait up to 60 s for the end of the move; stop unless it is there.
arrived() {
    local host status task
    for _ in $(seq 30); do
        { read -r host && read -r task && read -r status; } < <(openstack server show -f value \\
            -c OS-EXT-SRV-ATTR:host -c OS-EXT-STS:task_state -c status -- "$1") ||
            stop "$3: nova does not show it"
        if [ "$task" = None ] && [ "$status" != VERIFY_RESIZE ]; then break; fi
        sleep 2
    done
    if [ "$host" = "$2" ] && [ "$task" = None ] && [ "$status" != ERROR ]; then return; fi
    stop "$3 is on $host, $status, task $task; planned: $2"
}
"""


def lines(plan: DrainPlan, path: str) -> Iterator[str]:
    """The lines of the script; ``path`` is that of the plan, for the line to continue with."""
    yield from _start(_drain(("--continue", path)))
    for host in plan.hosts:
        yield _set_service(host, ("--disable", None), ("--disable-reason", "drain"))
    yield from _waves(plan.moves)
    for server in plan.blocked:
        yield f"# Stays on {_comment(server.host)}: {server.server} ({_comment(server.name)})"
    yield _drain(("--verify-empty", None), ("--continue", path))


def move_lines(moves: Sequence[PlannedMove], resume: str) -> Iterator[str]:
    """The lines of a script for moves alone; ``resume`` is the command after a stop."""
    yield from _start(resume)
    yield from _waves(moves)


def _start(resume: str) -> Iterator[str]:
    yield from _HEAD.splitlines()
    yield f"resume={command_line.quote(resume)}"


def _waves(moves: Sequence[PlannedMove]) -> Iterator[str]:
    for number, of_wave in itertools.groupby(moves, key=lambda move: move.wave):
        wave = list(of_wave)
        yield f"# Wave {number}: {', '.join(_comment(move.name) for move in wave)}"
        yield from _wave(wave)


def back_lines(plan: DrainPlan) -> list[str]:
    """The commands that bring the hosts back into service."""
    return [_set_service(host, ("--enable", None)) for host in plan.hosts]


def _drain(*options: command_line.Option) -> str:
    return command_line.line("placement host drain", options=options)


def _set_service(host: str, *options: command_line.Option) -> str:
    return command_line.line("compute service set", host, "nova-compute", options=options)


def command(move: PlannedMove) -> str:
    """The command that begins a step."""
    live = [("--live-migration", None)] if move.way == "live" else []
    options = (_VERSION, *live, ("--host", move.target), ("--wait", None))
    return command_line.line("server migrate", move.server, options=options)


def _wave(moves: Sequence[PlannedMove]) -> Iterator[str]:
    if len(moves) == 1:
        yield _step(moves[0])
        return
    yield "jobs=()"
    for move in moves:
        yield f"{{ {_step(move)}; }} & jobs+=($!)"
    yield 'for job in "${jobs[@]}"; do wait "$job"; done'


def _step(move: PlannedMove) -> str:
    confirm = command_line.line("server migration confirm", move.server)
    name = move.name or move.server
    # Not with "&&": bash goes on after a list whose first command fails.
    steps = [
        f"{text} || failed $? {command_line.quote(name)}"
        for text in (
            f'timeout "$seconds" {command(move)}',
            *([] if move.way == "live" else [confirm]),
        )
    ]
    arrived = map(command_line.quote, (move.server, move.target, name))
    return "; ".join([*steps, f"arrived {' '.join(arrived)}"])


def _comment(name: str) -> str:
    """A name that cannot end the comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
