# SPDX-License-Identifier: Apache-2.0
"""A plan of moves as a script of ``openstack`` commands, which can be left alone. Pure.

The script asks nova about each server before it does anything with it, and follows the move by the
server and its newest migration until both are at an end: ``openstack server migrate --wait`` ends
with 0 also if the migration failed, and never for a server that is paused. So it may be killed in
any line, and run again.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from osc_placement import errors
from osc_placement.model import command_line
from osc_placement.plan import file
from osc_placement.scheduling.server_hosts import ServerHosts
from osc_placement.workflows.moving import document
from osc_placement.workflows.moving.document import REASON, MovePlan, PlannedMove, size

#: Characters of a line, and of a server's name in it.
_WIDTH = 120
_MOST_OF_A_NAME = 40
_SHEBANG = "#!/usr/bin/env bash"

_FUNCTIONS = """\
# The longest time for one move, the time between two looks, and before a move without a valid host
# is asked for again: nova's scheduler may believe for two minutes that a group's server is there.
seconds=${seconds:-3600} pause=${pause:-5} retry=${retry:-45} wave=0 jobs=()
over='none completed done confirmed reverted error failed cancelled'
stop() {
    printf '%s. The script stops here:\\n%s\\n' "$1" "$again" >&2
    exit 1
}
# show: the host, the task and the status of $server, one a line.
show() {
    timeout 300 openstack server show -f value -c OS-EXT-SRV-ATTR:host -c OS-EXT-STS:task_state \\
        -c status -- "$server"
}
# moves: the target, the status and the type of its migrations, the newest first.
moves() {
    timeout 300 openstack server migration list --os-compute-api-version=2.59 -f value \\
        -c 'Dest Compute' -c Status -c Type --server="$server"
}
# look: set host, task and status of $server, and to, state and type of its newest migration.
look() {
    local shown migrations why
    for _ in 1 2 3 4 5 6; do
        if shown=$(show) && migrations=$(moves); then
            mapfile -t shown <<<"$shown"
            host=${shown[0]} task=${shown[1]-} status=${shown[2]-}
            read -r to state type <<<"${migrations:-nowhere none migration}"
            return
        fi
        why=$(show 2>&1) || if [[ $why =~ [Nn]o\\ [Ss]erver\\ (found|with) ]]; then
            status=DELETED
            return
        fi
        sleep "$pause"
    done
    stop "$name: nova does not show it"
}
# step NUMBER WAY SOURCE TARGET SERVER NAME SIZE STATUS...: one move, unless it is done.
step() {
    local number=$1 way=$2 source=$3 target=$4 server=$5 name=$6 size=$7 planned=" ${*:8} "
    local host='' task='' status='' to='' state='' type='' where asked='' confirmed=''
    local kind=migration limit=$((SECONDS + seconds)) live=() tries=4 why=''
    if [ "$way" = live ]; then kind=live-migration live=(--live-migration); fi
    echo "wave $wave of $waves: $name -> $target ($size), $number of $steps"
    while true; do
        look
        where="$name is on $host, $status, task $task, its newest $type to $to: $state"
        where="$where; planned: $way from $source,$planned, to $target"
        if [ "$status" = DELETED ]; then
            echo "$name: nova has it no more"
            return
        elif [ "$status" = ERROR ]; then
            stop "$where"
        elif [ "$status" = VERIFY_RESIZE ] && [ "$task" = None ]; then
            if [ "$type $to $host" != "$kind $target $target" ]; then stop "$where"; fi
            case $state in
                error | failed | cancelled | reverted) stop "$where" ;;
                finished)
                    if [ -z "$confirmed" ]; then
                        timeout 300 openstack server migration confirm "$server" ||
                            stop "$name: nova refuses the confirmation"
                        confirmed=yes
                    fi
                    ;;
            esac
        elif ! [[ " $over " == *" $state "* ]]; then
            if [ "$type $to" != "$kind $target" ]; then stop "$where"; fi
        elif [ "$task" != None ]; then
            true # Something short, such as a snapshot, or the begin of a move.
        elif [ "$host" = "$target" ]; then
            return
        elif [ "$host" = "$source" ] && [ "$tries" -gt 0 ] && [[ $planned == *" $status "* ]]; then
            asked="nova refuses the move: " tries=$((tries - 1))
            if why=$(timeout 300 openstack server migrate --os-compute-api-version=2.56 \\
                ${live[@]+"${live[@]}"} --host="$target" "$server" 2>&1); then
                asked="the move failed: " tries=0
            elif [[ $why == *"No valid host"* ]] && [ "$tries" -gt 0 ]; then
                echo "$name: $why: asked again in $retry s"
                sleep "$retry"
            else
                echo "$why" >&2
                tries=0
            fi
        else
            stop "$asked$where"
        fi
        if [ "$SECONDS" -ge "$limit" ]; then stop "$name: not there after $seconds s: $where"; fi
        sleep "$pause"
    done
}
# begin STEP...: a step of this wave, beside its others. together: wait for all of them.
begin() {
    step "$@" &
    jobs+=($!)
}
together() {
    local job failed=''
    for job in ${jobs[@]+"${jobs[@]}"}; do wait "$job" || failed=yes; done
    jobs=()
    if [ -n "$failed" ]; then exit 1; fi
}
# disable HOST: no server comes to it any more. The reason of somebody else stays.
disable() {
    local status
    status=$(timeout 300 openstack compute service list --host="$1" --service=nova-compute \\
        -f value -c Status) || stop "$1: nova does not show nova-compute"
    if [ "$status" = disabled ]; then return; fi
    timeout 300 openstack compute service set --disable --disable-reason="$reason" -- "$1" \\
        nova-compute || stop "$1: nova does not disable nova-compute"
}
"""

#: Of a leg of ``placement host roll``.
_BACK = """\
# recorded WORD HOST: whether a script recorded it. record WORD HOST: do so.
recorded() { grep -qxF "$1 $2" "$record" 2>/dev/null; }
record() { echo "$1 $2" >>"$record"; }
# reports HOST: the state of its nova-compute, and the time of its last report by nova's clock.
reports() {
    timeout 300 openstack compute service list --host="$1" --service=nova-compute -f value \\
        -c State -c 'Updated At'
}
# back HOST: reboot a host, wait until its nova-compute reports again, and let servers come. The
# reboot has a session of its own: it and its record outlive the script, and so does the lock.
back() {
    local host=$1 before='' report='' limit=0 why=''
    if recorded back "$host"; then return; fi
    if ! recorded rebooted "$host"; then
        echo "$host: ${reboot[*]} (its output: $roll.log)"
        # shellcheck disable=SC2016
        setsid --wait bash -c '"${@:3}" "$2" 9>&- && echo "rebooted $2" >>"$1"' reboot "$record" \\
            "$host" "${reboot[@]}" </dev/null >>"$roll.log" 2>&1 ||
            stop "$host: ${reboot[*]} failed; its output: $roll.log"
    fi
    limit=$((SECONDS + seconds))
    until [[ -n $before && $report == up\\ * && $report != "$before" ]]; do
        if [ "$SECONDS" -ge "$limit" ]; then stop "$host: nova-compute is not back"; fi
        before=${before:-$report}
        sleep "$pause"
        report=$(reports "$host") || report=''
    done
    # Somebody else may have disabled it since the plan.
    why=$(timeout 300 openstack compute service list --long --host="$host" \\
        --service=nova-compute -f value -c 'Disabled Reason') ||
        stop "$host: nova does not show nova-compute"
    if [[ $why == "$reason" && " $stay " != *" $host "* ]]; then
        timeout 300 openstack compute service set --enable -- "$host" nova-compute ||
            stop "$host: nova does not enable nova-compute"
    fi
    record back "$host"
    echo "$host is back"
}
# over: reboot the hosts of the leg, which are empty, and look at the gate.
over() {
    local host
    for host in "${hosts[@]}"; do
        back "$host" &
        jobs+=($!)
    done
    together
    openstack placement host roll --continue="$roll" --verify-back || stop "The gate is closed"
}
read -ra reboot <<<"${REBOOT:-}"
if [ ${#reboot[@]} = 0 ]; then
    stop "REBOOT is not set: the command that reboots a host, and ends when the host runs again"
fi
for host in "${hosts[@]}"; do
    if recorded rebooted "$host"; then
        over
        exit
    fi
done
"""

_LOCK = """\
exec 9<"$plan"
flock -n 9 || stop "Another script of this plan runs"
"""
#: Of a leg: what a script that was killed has begun is waited for.
_LEG_LOCK = """\
exec 9>>"$record"
if ! flock -n 9; then
    echo "A script of $roll runs, or what it began: this one waits for its end"
    flock -w "$seconds" 9 || stop "Another script of $roll runs"
fi
"""
_CHECKS = """\
grep -qF "$digest" "$plan" || stop "$plan has another plan than this script"
trap 'for job in ${jobs[@]+"${jobs[@]}"}; do kill "$job" || true; done 2>/dev/null' EXIT
"""
_IS_DONE = """\
code=0
why=$(followed 2>&1 >/dev/null) || code=$?
case $code in
    0)
        echo "Nothing is left to do"
        over
        exit
        ;;
    3) ;;
    *) stop "$why" ;;
esac
"""


def lines(plan: MovePlan, path: pathlib.Path, roll: pathlib.Path | None = None) -> Iterator[str]:
    """The lines of the script; ``path`` is that of the plan, of a leg beside that of all legs."""
    path = path.absolute()
    yield from (_SHEBANG, "# It can be run again at any time: it asks nova before each step.")
    yield "set -euo pipefail"
    yield from _environment(plan)
    yield f"plan={command_line.quote(str(path))}"
    yield f"digest={plan.digest}"
    again = plan.command_to_continue(path) if roll is None else _next_leg(path, roll)
    yield f"again={command_line.quote(again)}"
    yield f"steps={len(plan.moves)} waves={max((move.wave for move in plan.moves), default=0)}"
    yield f"reason={REASON}"
    yield from _FUNCTIONS.splitlines()
    check = " --verify-empty" if plan.hosts else ""
    yield f'followed() {{ openstack {plan.command} --continue="$plan"{check}; }}'
    yield 'if ! [ -r "$plan" ]; then stop "$plan cannot be read"; fi'
    yield from (_LOCK if roll is None else _leg(plan, roll)).splitlines()
    yield from _CHECKS.splitlines()
    if roll is not None:
        yield from _BACK.splitlines()
    yield from (
        line for line in _IS_DONE.splitlines() if roll is not None or line.strip() != "over"
    )
    for disabled in plan.disabled:
        yield from _comment(f"{disabled.host} stays disabled: {disabled.reason}")
    of_others = {disabled.host for disabled in plan.disabled}
    for host in plan.hosts:
        if host not in of_others:
            yield from _wrapped(["disable", host])
    yield from _waves(plan.moves)
    for server in plan.blocked:
        yield from _comment(f"Stays on {server.host}: {server.server} ({server.name})")
    yield "followed"
    if roll is not None:
        yield "over"


def _leg(plan: MovePlan, roll: pathlib.Path) -> str:
    """The hosts of a leg and its record, which is locked."""
    stay = " ".join(host.host for host in plan.disabled)
    return f"""\
roll={command_line.quote(str(roll.absolute()))}
record="$roll.done"
hosts=({" ".join(map(command_line.quote, plan.hosts))})
stay={command_line.quote(stay)}
{_LEG_LOCK}"""


def _next_leg(path: pathlib.Path, roll: pathlib.Path) -> str:
    """The command that plans the rest of the legs anew."""
    own = str(roll.absolute())
    options = (("--continue", own), ("--next", None), ("--plan-out", own))
    where = (("--script", str(path.parent)),)
    return command_line.line("placement host roll", options=(*options, *where))


def write_legs(
    directory: pathlib.Path, plan: MovePlan, path: pathlib.Path, *, only_next: bool = False
) -> list[pathlib.Path]:
    """Write a script for each leg of a plan, or for the next one, with the plan of the leg beside.

    ``path`` is that of the whole plan. Scripts of former plans there are removed. Errors:
    PlacementError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.PlacementError(f"{directory}: {error.strerror}") from error
    for former in directory.glob("leg-[0-9]*.json"):
        if not file.is_of_another_kind(former, document.KIND.encode()):
            former.unlink()
            former.with_suffix(".sh").unlink(missing_ok=True)
    scripts = []
    for at in range(len(plan.legs.legs))[: 1 if only_next else None]:
        leg = plan.leg(at)
        leg_path = directory / f"leg-{plan.legs.first + at:03}.json"
        document.write(leg_path, leg)
        scripts.append(leg_path.with_suffix(".sh"))
        write(scripts[-1], leg, leg_path, path)
    return scripts


def write(
    path: pathlib.Path, plan: MovePlan, plan_path: pathlib.Path, roll: pathlib.Path | None = None
) -> None:
    """Write the script, executable. Errors: PlacementError for an existing file of another kind."""
    if file.is_of_another_kind(path, _SHEBANG.encode()):
        raise errors.PlacementError(
            f"{path} exists and is not a script. Nothing was written. Give another path"
        )
    file.replace(path, (f"{line}\n" for line in lines(plan, plan_path, roll)), mode=0o700)


def _environment(plan: MovePlan) -> Iterator[str]:
    """What selects the cloud of the plan for all commands of the script."""
    named = {"OS_CLOUD": plan.cloud, "OS_REGION_NAME": plan.identity.region}
    for name, value in named.items():
        if value:
            yield f"export {name}={command_line.quote(value)}"


def _waves(moves: Sequence[PlannedMove]) -> Iterator[str]:
    numbered = enumerate(moves, 1)
    for wave, of_wave in itertools.groupby(numbered, key=lambda item: item[1].wave):
        yield f"wave={wave}"
        for number, move in of_wave:
            yield from _wrapped(["begin", str(number), *_words(move)])
        yield "together"


def _words(move: PlannedMove) -> list[str]:
    name = move.name or move.server
    if len(name) > _MOST_OF_A_NAME:
        name = f"{name[:_MOST_OF_A_NAME]}..."
    planned = ("ACTIVE", "PAUSED") if move.way == "live" else (move.status,)
    return [move.way, move.source, move.target, move.server, name, size([move]), *planned]


def _wrapped(words: Iterable[str]) -> Iterator[str]:
    """A command, in lines of at most ``_WIDTH`` characters where its words permit it."""
    line = ""
    for word in map(command_line.quote, words):
        if len(line) + len(word) + 3 > _WIDTH:
            yield f"{line} \\"
            line = "   "
        line = f"{line} {word}" if line else word
    yield line


def _comment(text: str) -> Iterator[str]:
    """A comment that no name can end."""
    safe = "".join(letter if letter.isprintable() else "?" for letter in text)
    yield f"# {safe}"[:_WIDTH]


def back_lines(plan: MovePlan, compute: ServerHosts) -> Iterator[str]:
    """What brings the hosts back into service, as lines of a shell; no server moves back.

    A host that somebody disabled, before the plan or since then, stays as it is.
    """
    disabled = {service.host: service.reason for service in plan.disabled}
    yield "# No server moves back: this only lets new ones come."
    for host in plan.hosts:
        service = compute.service_of(host)
        if service is not None and not service.is_enabled and service.disabled_reason != REASON:
            disabled[host] = service.disabled_reason
        if host in disabled:
            yield from _comment(f"{host} stays disabled: {disabled[host] or 'without a reason'}")
        else:
            yield command_line.line(
                "compute service set", host, "nova-compute", options=[("--enable", None)]
            )
